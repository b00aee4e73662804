"""Results that are odd and sound, and some that are neither: the same figures are read, and nothing is a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from results_files import (
    GENAI_PERF_CSV,
    GPT_FAST,
    MLPERF,
    genai_perf,
    guidellm,
    llmperf,
    pytest_benchmark,
    sglang_one_batch,
    sglang_serving,
    tensorrt_llm,
    vllm_latency,
    vllm_serve,
    vllm_throughput,
)

from pytest_roofline.cli import main
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.published.registry import read_results

LLAMA = {
    **{"backends": "CUDA", "model_type": "llama 8B F16", "model_size": 16_061_054_976, "model_n_params": 8_030_261_248},
    **{"type_k": "f16", "type_v": "f16", "n_gpu_layers": -1, "n_prompt": 0, "n_gen": 128, "n_depth": 0},
    **{"avg_ns": 1_280_000_000, "stddev_ns": 0, "avg_ts": 100.0, "stddev_ts": 0.0, "samples_ns": [1_280_000_000]},
}
OBJECTS: dict[str, dict[str, Any]] = {
    "vllm serve": vllm_serve(),
    "vllm latency": vllm_latency(),
    "vllm throughput": vllm_throughput(),
    "sglang serving": sglang_serving(),
    "sglang one batch": sglang_one_batch(),
    "tensorrt-llm": tensorrt_llm(),
    "genai-perf": genai_perf(),
    "guidellm": guidellm(),
    "llmperf": llmperf(),
    "pytest-benchmark": pytest_benchmark(tokens=128),
    "llama-bench": LLAMA,
}
TEXTS = {
    "genai-perf": GENAI_PERF_CSV,
    "mlperf": MLPERF.format(scenario="Server", rate=""),
    "gpt-fast": GPT_FAST,
    "llama-bench": "n_prompt,n_gen,avg_ts\n0,24,12.5\n",
}


def turned(value: Any) -> Any:
    """Keys in the opposite order, at every level."""
    if isinstance(value, dict):
        return {key: turned(one) for key, one in reversed(value.items())}
    return [turned(one) for one in value] if isinstance(value, list) else value


def widened(value: Any) -> Any:
    """With a key that a later version may have, at every level."""
    if isinstance(value, dict):
        return {**{key: widened(one) for key, one in value.items()}, "of_a_later_version": [None, {"a": float("nan")}]}
    return [widened(one) for one in value] if isinstance(value, list) else value


def pointed(value: Any) -> Any:
    """Whole numbers with a point, as some programs write all of theirs; those that state a setting stay."""
    if isinstance(value, dict):
        return {key: one if key in ("concurrency", "streams") else pointed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [pointed(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


WRITTEN: dict[str, Callable[[Any], bytes]] = {
    "a byte order mark": lambda one: b"\xef\xbb\xbf" + json.dumps(one).encode(),
    "UTF-16 of a shell": lambda one: json.dumps(one).encode("utf-16"),
    "lines of Windows": lambda one: json.dumps(one, indent=2).replace("\n", "\r\n").encode() + b"\r\n\r\n",
    "tabs and space around": lambda one: b" \n\t" + json.dumps(one, indent="\t").encode() + b"\n \n",
    "another order": lambda one: json.dumps(turned(one)).encode(),
    "a later version": lambda one: json.dumps(widened(one)).encode(),
    "points in whole numbers": lambda one: json.dumps(pointed(one)).encode(),
}


def rates(path: Path, content: bytes) -> list[tuple[Any, ...]]:
    """What is read of a file with these bytes."""
    path.write_bytes(content)
    return [(one.tool, one.metric, one.tokens_per_s, one.seconds, one.batch) for one in read_results(str(path))]


@pytest.mark.parametrize("how", WRITTEN)
@pytest.mark.parametrize("name", OBJECTS)
def test_a_file_says_the_same_however_it_is_written(tmp_path: Path, name: str, how: str) -> None:
    """Byte order marks, ends of lines, the order of keys and keys that nobody knows change no figure."""
    path, value = tmp_path / "results.json", OBJECTS[name]
    expected = rates(path, json.dumps(value).encode())
    assert expected
    assert rates(path, WRITTEN[how](value)) == expected


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_says_the_same_however_it_is_written(tmp_path: Path, name: str) -> None:
    """As it comes out of another system's shell."""
    path, text = tmp_path / "results", TEXTS[name]
    expected = rates(path, text.encode())
    for content in (
        b"\xef\xbb\xbf" + text.encode(),
        text.encode("utf-16"),
        text.replace("\n", "\r\n").encode(),
        text.rstrip().encode() + b"\n\n\n",
    ):
        assert rates(path, content) == expected


@pytest.mark.parametrize("name", ["vllm serve", "sglang serving", "sglang one batch", "llama-bench"])
def test_several_runs_are_several_results(tmp_path: Path, name: str) -> None:
    """One in each line, with empty lines between."""
    path, value = tmp_path / "results.jsonl", OBJECTS[name]
    once = rates(path, json.dumps([value]).encode())
    assert rates(path, (json.dumps(value) + "\n\n").encode() * 3) == 3 * once


OPTIONAL = {
    "vllm serve": (
        "max_concurrency mean_tpot_ms total_input_tokens total_output_tokens duration completed failed model_id "
        "std_tpot_ms request_goodput"
    ),
    "sglang serving": "max_concurrency mean_tpot_ms concurrency accept_length duration completed total_input_tokens",
    "llama-bench": "backends type_k type_v n_gpu_layers n_depth model_n_params stddev_ts samples_ns avg_ns",
    "llmperf": "num_concurrent_requests results_number_errors model results_number_input_tokens_mean",
}


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, keys in OPTIONAL.items() for key in keys.split()], ids=str
)
@pytest.mark.parametrize("value", [None, "", 0, "gone"])
def test_what_an_older_version_does_not_say_accuses_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, key: str, value: Any
) -> None:
    """Missing, null, an empty word or a zero that nobody measured: fewer words, and no figure is bogus for it."""
    made = dict(OBJECTS[name])
    if value == "gone":
        made.pop(key, None)
    else:
        made[key] = value
    found = judged(tmp_path, capsys, made)
    assert found or value in (0, "")  # no request was answered, or no list: refused by name
    assert "bogus" not in {row["verdict"] for row in found}


def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: Any) -> list[dict[str, Any]]:
    """The rows of ``roofline check``; none where the file is refused, and then in words that name it."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps([value] if value.get("n_gen") is not None else value))
    status = main(["check", "--file", str(path), "llama-3.1-8b", "--device", "h100-sxm", "--metric", "all", "--json"])
    out, err = capsys.readouterr()
    if status == 2:
        assert str(path) in err
        return []
    return list(json.loads(out)["results"])


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something to replace, the first of each list."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*before, key)
        yield from places(one, (*before, key))


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    """A copy with this in one place."""
    made = deepcopy(value)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = by
    return made


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("by", [5e-324, float("nan"), [1, "x"], "12,5"], ids=str)
def test_whatever_stands_in_any_place_is_judged_or_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, by: Any
) -> None:
    """The smallest number that there is, none at all, a list and a number of another country."""
    for place in places(OBJECTS[name]):
        judged(tmp_path, capsys, replaced(OBJECTS[name], place, by))


@pytest.mark.parametrize("said", [0, -1, True, None, "32", 32.5])
def test_a_concurrency_that_is_none_states_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: Any
) -> None:
    """As of a run that was driven by a rate: it is not one request at a time, for which the figure were too fast."""
    stimulus = ("input_config", "perf_analyzer", "stimulus", "concurrency")
    streams = ("benchmarks", 0, "config", "strategy", "streams")
    for name, place in (("genai-perf", stimulus), ("guidellm", streams)):
        found = judged(tmp_path, capsys, replaced(OBJECTS[name], place, said))
        assert found
        assert "bogus" not in {row["verdict"] for row in found}, (name, found)


@pytest.mark.parametrize(
    "text",
    [
        "tps;bs\n12,5;1\n80,25;4\n",
        "tps\tbs\n12,5\t1\n80,25\t4\n",
        "tps,bs\n12.5,1\n80.25,4\n",
        'tps,bs\n"12.5",1\n80.25,4\n',
    ],
    ids=["semicolons", "tabs", "commas", "quotes"],
)
def test_a_csv_of_a_spreadsheet_of_any_country(tmp_path: Path, text: str) -> None:
    """Cells that are parted by something else may have a comma in place of a point."""
    path = tmp_path / "results.csv"
    path.write_text(text)
    found = read_results(str(path), "csv", columns="tokens-per-s=tps,batch=bs")
    assert [one.tokens_per_s for one in found] == [12.5, 80.25]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tps;bs\n1,234;1\n", "line 2: tps: '1,234': a thousand or a fraction\\? write 1234 or 1,2340"),
        ("tps;bs\n1.234,5;1\n", "line 2: tps: '1.234,5': thousands separators are not read: write 1234,5"),
        ("tps;bs\n12,5;1;2\n", "line 2: 3 values for 2 columns: cut off"),
        ('tps,bs\n"1,234",1\n', "line 2: tps: '1,234': a thousand or a fraction\\? write 1234 or 1.2340"),
    ],
)
def test_a_number_that_may_mean_two_things_is_none(tmp_path: Path, text: str, message: str) -> None:
    """Nobody guesses a factor of a thousand."""
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(RooflineUsageError, match=message):
        read_results(str(path), "csv", columns="tokens-per-s=tps,batch=bs")
