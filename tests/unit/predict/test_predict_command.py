"""``roofline predict``: what is printed, and what overrides what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from predict_inputs import RULE

from pytest_roofline.cli import main


def test_the_text_of_a_prediction(said: Any) -> None:
    """The division with its figures in it, then bound, bytes, what fits, what to expect, sources and notes."""
    assert said("llama-3.1-8b", "--device", "h100-sxm").splitlines()[:13] == [
        "llama-3.1-8b on NVIDIA H100 SXM 80 GB",
        "weights bf16, KV cache bf16",
        "",
        "  3.35 TB/s / 15.01 GB = 223 tok/s",
        "",
        "  bound     memory bandwidth (4.48 ms per pass: memory 4.48 ms, compute 15.2 us)",
        "  weights   15.0 GB per pass, 16.1 GB stored",
        "  KV cache  0 bytes per pass: 0 tokens, 131 kB per token",
        "  per pass  15.0 GB: weights + KV cache",
        "  compute   15.01 GFLOP per pass, 1 FLOP/byte; ridge 295 FLOP/byte at 989 TFLOP/s (bfloat16)",
        "  memory    16.1 GB needed of 80.0 GB: fits",
        "  expected  134 to 190 tok/s (60 to 85 % of the ceiling: what well-made engines reach)",
        "  sources   bandwidth: NVIDIA H100 Tensor Core GPU data sheet",
    ]


@pytest.mark.parametrize(
    ("arguments", "division"),
    [
        ("--params 70B --weights bf16 --bandwidth 3.35TB/s", "3.35 TB/s / 140 GB = 23.9 tok/s"),
        (
            "--params 70B --weights int4 --kv-per-token 320KiB --context 2000 --bandwidth 3.35TB/s",
            "3.35 TB/s / 35.66 GB = 94.0 tok/s",
        ),
        (
            "--params 70B --weights bf16 --batch 32 --bandwidth 3.35TB/s",
            "3.35 TB/s / 140 GB x 32 sequences = 766 tok/s (23.9 per user)",
        ),
        (
            "--params 70B --weights bf16 --tokens-per-pass 2.5 --bandwidth 3.35TB/s",
            "3.35 TB/s / 140 GB x 2.5 tokens per pass = 59.8 tok/s",
        ),
        (
            "--params 8B --batch 1000 --bandwidth 3.35TB/s --peak 100TFLOP/s",
            "100 TFLOP/s / 16 TFLOP x 1,000 sequences = 6,250 tok/s (6.25 per user)",
        ),
        (
            "--params 8B --bandwidth 1TB/s --offload 0.25 --spill-bandwidth 50GB/s",
            "1 / (12 GB / 1 TB/s + 4 GB / 50 GB/s) = 10.9 tok/s",
        ),
        (
            "--params 8B --bandwidth 1TB/s --offload 0.25 --spill-bandwidth 50GB/s --overlap",
            "1 / (4 GB / 50 GB/s) = 12.5 tok/s",
        ),
        ("llama-3.1-8b --bandwidth 1TB/s --tp 2 --link 1MB/s", "1 / (524 ms between devices) = 1.91 tok/s"),
    ],
)
def test_the_division_says_what_was_divided(arguments: str, division: str, said: Any) -> None:
    """Whatever bounds the pass: bandwidth, peak, spill path, link."""
    assert said(*arguments.split()).splitlines()[3] == f"  {division}"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("llama-3.1-8b --batch 2 --context 1000", "262 MB per pass: 1,000 tokens x 2 sequences, 131 kB per token"),
        ("llama-3.1-8b --tp 8 --context 1000", "16.4 MB per pass per device: 1,000 tokens, 16.4 kB per token"),
        (
            "gemma-3-27b --context 30000",
            "2.89 GB per pass: 30,000 tokens, at most 508 kB per token, sliding windows in",
        ),
        ("llama-4-scout --context 9000", "562 MB per pass: 9,000 tokens, at most 197 kB per token, chunks that start"),
        ("jamba-v0.1 --context 100", "34.7 MB per pass: 100 tokens, 16.4 kB per token, a constant state"),
        ("--params 8B --context 100", "none counted"),
    ],
)
def test_a_product_only_where_it_is_one(arguments: str, line: str, said: Any) -> None:
    """A window, a chunk or a state does not grow with the context, and says so."""
    assert f"KV cache {line}" in " ".join(said(*arguments.split(), "--bandwidth", "1TB/s").split())


def test_what_does_not_fit_is_said(said: Any) -> None:
    """As bound, beside the memory, and in the notes with what would fit; the status is 0."""
    text = said("--params", "70B", "--bandwidth", "1TB/s", "--memory", "24GB", "--weights", "int8")
    assert "  bound     capacity: it does not fit; if it did, memory bandwidth" in text
    assert "  memory    70.0 GB needed of 24.0 GB: does NOT fit\n" in text
    assert "would fit: 4 such devices" in text


@pytest.mark.parametrize("model", [("llama-3.1-70b",), ("--params", "70B")])
def test_smaller_formats_that_would_fit(model: tuple[str, ...], predicted: Any) -> None:
    """140 GB do not fit 80 GB; in 8 bits and in 4 they do, in what is smaller still too."""
    notes = predicted(*model, "--device", "h100-sxm")["notes"]
    assert "would fit: weights in fp8 or q4_k_m or int4-g128" in notes
    notes = predicted(*model, "--device", "h100-sxm", "--weights", "q8_0")["notes"]
    assert not any("weights in" in note for note in notes)


def test_text_per_second(said: Any, predicted: Any) -> None:
    """Tokenizers differ: words or characters per token are the user's word."""
    text = said(*RULE, "--words-per-token", "0.75", "--chars-per-token", "4.2")
    assert "engines reach); the ceiling is 46.9 words/s; the ceiling is 262 chars/s" in " ".join(text.split())
    found = predicted(*RULE, "--words-per-token", "0.75")
    assert found["ceiling_words_per_s"] == 62.5 * 0.75
    assert "ceiling_chars_per_s" not in found


def test_the_first_token_in_words(said: Any) -> None:
    """The rule, labelled, and the exact figure."""
    text = said("--params", "8.03B", "--bandwidth", "273GB/s", "--peak", "125TFLOP/s", "--prompt", "1000")
    assert (
        "TTFT rule of thumb 128 ms = 2 x 8.03B x 1,000 tokens / peak; counted exactly at least 128 ms (16.06 TFLOP)"
        in (" ".join(text.split()))
    )


def test_given_figures_override_those_of_the_device_one_by_one(predicted: Any) -> None:
    """Each with the option as its source; the others stay."""
    plain = predicted("llama-3.1-8b", "--device", "h100-sxm")
    found = predicted("llama-3.1-8b", "--device", "h100-sxm", "--bandwidth", "3TB/s", "--peak", "500TFLOP/s")
    assert found["bandwidth_source"] == "given: --bandwidth, in place of the figure of NVIDIA H100 SXM 80 GB"
    assert (found["bandwidth_bytes_per_s"], found["peak_flops_per_s"]) == (3e12, 5e14)
    assert found["peak_source"] == "given: --peak"
    assert found["memory_bytes"] == plain["memory_bytes"] == 80e9
    assert predicted("llama-3.1-8b", "--device", "h100-sxm", "--memory", "24GB")["memory_bytes"] == 24e9


def test_cards_of_the_user(specs: str, predicted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ``--specs``, and by the environment."""
    assert predicted("--params", "8B", "--device", "made-up", "--specs", specs)["device"] == "Made-up card"
    monkeypatch.setenv("PYTEST_ROOFLINE_SPECS", specs)
    assert predicted("--params", "8B", "--device", "made-up")["bandwidth_source"] == "Data sheet of a made-up card"


def test_links_of_the_device(specs: str, predicted: Any) -> None:
    """Half of what both directions of its link carry together; its path to the host for spilled weights."""
    device = ("--device", "made-up", "--specs", specs)
    found = predicted("llama-3.1-8b", *device, "--tp", "4", "--offload", "0.5", "--link-latency", "10us")
    assert (found["link_bytes_per_s"], found["spill_bytes_per_s"]) == (1e10, 5e9)
    assert found["link_source"] == "Data sheet of a made-up card; one direction, half of the printed figure"
    assert found["link_s"] == pytest.approx(64 * 1.5 * 4096 * 2 / 1e10 + 64e-5)
    given = predicted(
        "llama-3.1-8b", *device, "--tp", "4", "--link", "1GB/s", "--offload", "0.5", "--spill-bandwidth", "1GB/s"
    )
    assert (given["link_bytes_per_s"], given["spill_bytes_per_s"]) == (1e9, 1e9)


def test_a_kv_cache_that_is_given_replaces_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    """`--kv-per-token` beside MODEL is taken as it stands, and said so."""
    assert (
        main(
            ["predict", "llama-3.1-8b", "--device", "h100-sxm", "--context", "1000", "--kv-per-token", "1MB", "--json"]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["kv_bytes_per_pass"] == 1e9
    assert found["kv_bytes_per_token"] == 1e6
    assert any("1,000,000 bytes per token (given: --kv-per-token)" in note for note in found["notes"])


def test_a_given_kv_cache_and_a_kv_format_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """One of the two says how large it is."""
    assert main(["predict", "llama-3.1-8b", "--device", "h100-sxm", "--kv-per-token", "1MB", "--kv", "fp8"]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "figure", "value"),
    [
        ("--context", "128K", 131_072),
        ("--context", "4 Ki", 4096),
        ("--batch", "1K", 1024),
        ("--prompt", "4k", 4096),
        ("--context", "1M", 1_048_576),
    ],
)
def test_k_is_1024_of_tokens_and_sequences(option: str, figure: str, value: int, predicted: Any) -> None:
    """As in the names of models and contexts: 128K is 131,072, and 1M is 1,024 of those."""
    found = predicted("llama-3.1-8b", "--device", "h100-sxm", option, figure)
    assert found == predicted("llama-3.1-8b", "--device", "h100-sxm", option, str(value))
    if option != "--prompt":
        assert found[option.removeprefix("--")] == value


@pytest.mark.parametrize("words", ["128K is 131,072", "4K is 4,096", "K is 1,024", "devices, models and formats"])
def test_the_help_says_what_k_is_and_what_specs_are(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the option is explained."""
    with pytest.raises(SystemExit, match="0"):
        main(["predict", "--help"])
    assert words in " ".join(capsys.readouterr().out.split())
