"""llama-bench's files, as llama.cpp wrote them and in its layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from results_files import ENGINE_FILES, REAL, llama_row, written

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.published.llama_bench import file_type_of
from pytest_roofline.published.registry import read_results
from pytest_roofline.published.reported import Reported


def one(folder: Path, **changed: Any) -> Reported:
    """The only row of a JSON file."""
    (found,) = read_results(written(folder, [llama_row(**changed)]))
    return found


@pytest.mark.parametrize("name", REAL)
def test_every_output_format_is_read(name: str) -> None:
    """JSON, JSONL, CSV, SQL and Markdown of the same runs have the same rows, each with its kind and depth."""
    found = read_results(str(ENGINE_FILES / name))
    rows = [(row.label, row.metric, row.depth) for row in found]
    if "pg" in name:
        assert rows == [("pp64", "prefill", 0), ("tg24", "decode", 0), ("pp64+tg24", "mixed", 0)]
    else:
        depths = [("pp64 @ d1024", "prefill", 1024), ("tg24 @ d1024", "decode", 1024)]
        assert rows == [("pp64", "prefill", 0), ("tg24", "decode", 0), *depths]
    assert {row.batch.high for row in found if row.batch} == {1.0}
    assert all(row.kv_formats == ("f16", "f16") for row in found)


def test_rates_come_with_what_they_were_made_of() -> None:
    """The mean of the repetitions' rates is what was claimed, and the claim lies between the repetitions."""
    _, decode, _, deep = read_results(str(ENGINE_FILES / "llama-bench-f16-depth.json"))
    assert decode.tokens_per_s == 8.107684
    assert decode.recomputed_tokens_per_s == pytest.approx((24 / 2.816945412 + 24 / 3.118704959) / 2)
    assert decode.noise is not None
    assert (decode.noise.low, decode.noise.high) == pytest.approx((7.6955, 8.51987), rel=1e-4)
    assert (decode.context, deep.context) == (12.0, 1036.0)
    assert (decode.stored_bytes, decode.parameters, decode.weights) == (2_200_281_088, 1_100_048_384, "f16")


def test_markdown_is_rounded_and_says_by_how_much() -> None:
    """Sizes of two digits behind the point are off by half of the last one at most."""
    row = read_results(str(ENGINE_FILES / "llama-bench-f16-depth.md"))[1]
    assert row.stored_bytes == pytest.approx(2_200_281_088, rel=row.stored_rounding)
    assert 0.002 < row.stored_rounding < 0.003
    assert row.noise is not None
    assert (row.noise.low, row.noise.high) == pytest.approx((9.09, 9.25))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("llama 1B F16", "f16"),
        ("llama 8B Q4_K - Medium", "q4_k_m"),
        ("llama 8B Q3_K - Large", "q3_k_l"),
        ("qwen3 8B IQ4_XS - 4.25 bpw", "iq4_xs"),
        ("llama 7B all F32 (guessed)", "f32"),
        ("gpt-oss 20B MXFP4 MoE", "mxfp4_moe"),
        ("llama 8B Q8_0", "q8_0"),
        ("llama 8B unknown, may not work", None),
        (None, None),
    ],
)
def test_file_types_behind_llama_cpps_words(words: str | None, expected: str | None) -> None:
    """What llama.cpp calls a file type, as the name that it is converted with."""
    assert file_type_of(words) == expected


def test_what_lies_in_another_memory_is_said(tmp_path: Path) -> None:
    """Layers left to the host, experts of some layers, tensors placed by hand; nothing of it on a processor."""
    assert one(tmp_path, n_gpu_layers=20).device_layers == 20
    assert one(tmp_path, n_gpu_layers=20, backends="CPU").device_layers is None
    assert one(tmp_path).device_layers is None
    assert "experts of 12 layers" in str(one(tmp_path, n_cpu_moe=12).unjudged)
    assert "placed by hand" in str(one(tmp_path, tensor_buft_overrides="exps=CPU").unjudged)


def test_several_devices_are_said(tmp_path: Path) -> None:
    """Layers over several devices work one after the other; rows need ranks."""
    assert "one works at a time" in one(tmp_path, gpu_info="X, Y").remarks[0]
    assert "give --tp 2" in one(tmp_path, gpu_info="X, Y", split_mode="row").remarks[0]


def test_mixed_file_of_two_kinds_of_cache(tmp_path: Path) -> None:
    """Keys and values may be in different formats."""
    assert one(tmp_path, type_k="q8_0", type_v="f16").kv_formats == ("q8_0", "f16")


def test_a_row_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """The same run to the second, with all of its samples, was pasted."""
    path = written(tmp_path, [llama_row(), llama_row()])
    with pytest.raises(RooflineUsageError, match=r"row 2: is the row of .*row 1 again, to the second"):
        read_results(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"avg_ts": 0.0}, r"row 1: avg_ts: 0: a positive number is needed"),
        ({"avg_ts": -3.0}, r"row 1: avg_ts: -3: a positive number is needed"),
        ({"avg_ts": float("nan")}, r"row 1: avg_ts: nan: a finite number"),
        ({"avg_ts": float("inf")}, r"row 1: avg_ts: inf: a finite number"),
        ({"avg_ts": "100"}, r"row 1: avg_ts: '100': a number is needed"),
        ({"avg_ts": True}, r"row 1: avg_ts: True: a number is needed"),
        ({"avg_ts": None}, r"row 1: avg_ts: missing: no figure to judge without it"),
        ({"n_gen": 0}, r"row 1: n_gen: 0, and so is n_prompt: nothing was run"),
        ({"n_gen": 1.5}, r"row 1: n_gen: 1.5: a whole number from 0"),
        ({"samples_ns": [0, 5]}, r"row 1: samples_ns: 0: positive numbers are needed"),
        ({"samples_ns": "7"}, r"row 1: samples_ns: '7': a list of numbers is needed"),
        ({"model_size": -1}, r"row 1: model_size: -1: a positive number is needed"),
    ],
)
def test_absurd_figures_name_file_row_and_key(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """Nothing is guessed where a figure is none."""
    with pytest.raises(RooflineUsageError, match=message):
        one(tmp_path, **changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_prompt,n_gen,avg_ts\n0,24\n", r"line 2: 2 values for 3 columns: cut off\?"),
        ("n_prompt,n_gen,avg_ts\n0,24,fast\n", r"line 2: avg_ts: 'fast': a number is needed"),
        ("n_prompt,n_gen,n_gen\n0,24,9\n", r"column 'n_gen' is there twice"),
        ("INSERT INTO llama_bench (n_prompt, n_gen) VALUES ('0', '24'", r"line 1: is no whole INSERT"),
        ("INSERT INTO llama_bench (n_prompt, n_gen) VALUES ('0', 24);", r"line 1: value 2 is no word in single quotes"),
        ("| model | test | t/s |\n| - | - | - |\n| m | xx9 | 9.17 ± 0.08 |\n", r"line 3: test: 'xx9' is no pp512"),
        ("| model | test | t/s |\n| - | - | - |\n| m | tg9 | fast |\n", r"line 3: t/s: 'fast' is no rate such as"),
        ("| model | test | t/s |\n| - | - | - |\n| m | tg9 |\n", r"line 3: 2 values for 3 columns"),
    ],
)
def test_broken_text_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    """Cut off, shifted or edited rows are errors, not other figures."""
    with pytest.raises(RooflineUsageError, match=message):
        read_results(written(tmp_path, text, "bench.txt"), "llama-bench")
