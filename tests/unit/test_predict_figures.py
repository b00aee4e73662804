"""Figures that must come out, through the command itself: rules of thumb, exact counts, batches, contexts, capacity."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_roofline.cli import main

SPARK = "--device dgx-spark"
"""273 GB/s, 125 TFLOP/s, 128 GB."""


@pytest.fixture
def predicted(capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON of ``roofline predict`` with these arguments."""

    def run(arguments: str) -> dict[str, Any]:
        assert main(["predict", *arguments.split(), "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    return run


@pytest.mark.parametrize(
    ("arguments", "tokens_per_s"),
    [
        ("--params 8B --weights bf16 --bandwidth 3.35TB/s", "209"),
        ("--params 8B --weights int4 --bandwidth 3.35TB/s", "838"),
        ("--params 70B --weights bf16 --bandwidth 3.35TB/s", "23.9"),
        ("--params 70B --weights int4 --bandwidth 3.35TB/s", "95.7"),
        ("--params 70B --weights int4 --bandwidth 2.04TB/s", "58.3"),
        ("--params 8B --weights int4 --bandwidth 1.0TB/s", "250"),
        ("--params 70B --weights int4 --bandwidth 1.0TB/s --memory 24GB", "28.6"),
        ("--params 70B --weights int4 --bandwidth 800GB/s", "22.9"),
        ("--params 8.03B --weights bf16 --bandwidth 273GB/s", "17.0"),
        ("--params 8.03B --weights fp8 --bandwidth 273GB/s", "34.0"),
        ("--params 8.03B --weights int4 --bandwidth 273GB/s", "68.0"),
        ("--params 70B --weights int4 --kv-per-token 320KiB --context 32000 --bandwidth 3.35TB/s", "73.6"),
        ("llama-3.1-8b --device h100-sxm", "223"),
        ("llama-3.1-8b --weights fp8 --bandwidth 273GB/s", "36.4"),
    ],
)
def test_the_division(arguments: str, tokens_per_s: str, predicted: Any) -> None:
    """To the digits given."""
    digits = len(tokens_per_s.partition(".")[2])
    assert f"{predicted(arguments)['ceiling_tokens_per_s']:.{digits}f}" == tokens_per_s


@pytest.mark.parametrize(
    ("context", "exact", "rounded_gb", "rounded"),
    [(2_000, 93.955, 35.7, "93.8"), (32_000, 73.649, 45.5, "73.6"), (128_000, 43.539, 76.9, "43.6")],
)
def test_a_long_context_slows_down(context: int, exact: float, rounded_gb: float, rounded: str, predicted: Any) -> None:
    """70B INT4 with 320 KiB of KV per token: the exact rate, and the one that a reader gets from rounded GB."""
    found = predicted(
        f"--params 70B --weights int4 --kv-per-token 320KiB --context {context} --bandwidth 3.35TB/s --memory 200GB"
    )
    assert found["ceiling_tokens_per_s"] == pytest.approx(exact, abs=0.001)
    assert found["kv_bytes_per_pass"] == context * 327_680
    assert round(found["bytes_per_pass"] / 1e9, 1) == rounded_gb
    assert found["ceiling_tokens_per_s"] == pytest.approx(float(rounded), rel=0.002)


def test_what_to_expect_of_a_70b(predicted: Any) -> None:
    """14 to 20 tok/s in 16 bits at 3.35 TB/s: 60 to 85 % of the ceiling."""
    low, high = predicted("--params 70B --weights bf16 --bandwidth 3.35TB/s")["expected_tokens_per_s"]
    assert (round(low), round(high)) == (14, 20)


def test_a_70b_does_not_fit_24_gb(predicted: Any) -> None:
    """That is a result: the ceiling that it would have, bound by capacity, and what would fit."""
    found = predicted("--params 70B --weights int4 --bandwidth 1TB/s --memory 24GB")
    assert (found["fits"], found["bound"], found["step_bound"]) == (False, "capacity", "memory")
    assert found["memory_needed_bytes"] == 35e9
    assert "would fit: 2 such devices (tensor parallel), 24.0 GB each" in found["notes"]


@pytest.mark.parametrize(
    ("peak", "bandwidth", "ridge"), [("989TFLOP/s", "3.35TB/s", 295), ("125TFLOP/s", "273GB/s", 458)]
)
def test_the_ridge(peak: str, bandwidth: str, ridge: int, predicted: Any) -> None:
    """Peak over bandwidth."""
    assert round(predicted(f"--params 8B --peak {peak} --bandwidth {bandwidth}")["ridge_point"]) == ridge


def test_a_batch_shares_the_weights(predicted: Any) -> None:
    """32 sequences of a 70B in 16 bits: about 768 tok/s in all, each as fast as one alone."""
    found = predicted("--params 70B --weights bf16 --bandwidth 3.35TB/s --batch 32 --peak 989TFLOP/s")
    assert found["ceiling_tokens_per_s"] == pytest.approx(768, rel=0.005)
    assert found["ceiling_tokens_per_s_per_user"] == pytest.approx(23.9, abs=0.05)


def test_a_mixture_by_its_active_parameters(predicted: Any) -> None:
    """400B in all and 40B active in INT4: 200 GB of memory, 20 GB per token, 167 tok/s."""
    found = predicted("--params 400B --active 40B --weights int4 --bandwidth 3.35TB/s --memory 80GB")
    assert found["memory_needed_bytes"] == found["weight_bytes_total"] == 200e9
    assert found["weight_bytes_per_pass"] == pytest.approx(20e9, rel=1e-12)
    assert int(found["ceiling_tokens_per_s"]) == 167


def test_both_ways_to_count_an_8b(predicted: Any) -> None:
    """The rule 209, the exact count 223, and the output says both."""
    found = predicted("llama-3.1-8b --device h100-sxm")
    assert round(found["rule_tokens_per_s"]) == 209
    assert round(found["ceiling_tokens_per_s"]) == 223
    (note,) = [note for note in found["notes"] if "rule of thumb" in note]
    assert note.startswith("by the rule of thumb params x bytes: 209 tok/s; exact: 223 tok/s")


@pytest.mark.parametrize(
    ("arguments", "rule", "exact"),
    [
        ("llama-3.1-8b", 17.0, 18.2),
        ("llama-3.1-8b --weights fp8", 34.0, 36.4),
        ("llama-3.1-8b --weights int4", 68.0, 72.8),
        ("llama-3.1-8b --weights q4_k_m", 55.5, 59.1),
        ("llama-3.1-8b --batch 64 --context 1024", 709, 741),
        ("qwen3-30b-a3b", 40.7, 44.9),
    ],
)
def test_models_on_273_gb_per_s(arguments: str, rule: float, exact: float, predicted: Any) -> None:
    """With every table counted as read, and with tables looked up: about 17 and 18, 55 of a file, 41 of a mixture."""
    found = predicted(f"{arguments} {SPARK}")
    assert found["rule_tokens_per_s"] == pytest.approx(rule, rel=0.003)
    assert found["ceiling_tokens_per_s"] == pytest.approx(exact, rel=0.003)


def test_a_q4_k_m_file(predicted: Any) -> None:
    """4.9 GB for an 8B, by name and by the average of the mix: about 55 tok/s when all of it is read."""
    assert predicted(f"llama-3.1-8b --weights q4_k_m {SPARK}")["weight_bytes_total"] == pytest.approx(4.9e9, rel=0.005)
    found = predicted(f"--params 8.03B --weights q4_k_m {SPARK}")
    assert found["ceiling_tokens_per_s"] == pytest.approx(55, rel=0.012)
    assert any("its average over llama-3.1-8b, 4.89 bits per parameter" in note for note in found["notes"])


def test_64_users_of_an_8b(predicted: Any) -> None:
    """At 1,024 tokens about 11 per user and 700 in all, with every parameter counted."""
    found = predicted(f"--params 8.03B --kv-per-token 128KiB --batch 64 --context 1024 {SPARK}")
    assert found["ceiling_tokens_per_s_per_user"] == pytest.approx(11, rel=0.01)
    assert found["ceiling_tokens_per_s"] == pytest.approx(700, rel=0.02)


def test_128k_tokens_about_halve_the_rate(predicted: Any) -> None:
    """Llama 3.1 8B: 17 GB of KV beside 15 GB of weights."""
    short = predicted(f"llama-3.1-8b {SPARK}")
    full = predicted(f"llama-3.1-8b --context 131072 {SPARK}")
    assert full["ceiling_tokens_per_s"] / short["ceiling_tokens_per_s"] == pytest.approx(0.47, abs=0.01)


def test_the_weights_of_a_mixture(predicted: Any) -> None:
    """Qwen3 30B-A3B in 16 bits: 61 GB."""
    assert round(predicted(f"qwen3-30b-a3b {SPARK}")["weight_bytes_total"] / 1e9) == 61


def test_the_kv_cache_of_an_8b(predicted: Any) -> None:
    """131,072 bytes per token; 32 users of 4,096 tokens keep 16 GiB."""
    found = predicted(f"llama-3.1-8b --batch 32 --context 4096 {SPARK}")
    assert found["kv_bytes_per_token"] == 131_072
    assert found["kv_bytes_per_pass"] == 16 * 2**30
    assert found["memory_needed_bytes"] == found["weight_bytes_total"] + 16 * 2**30


@pytest.mark.parametrize("model", ["llama-3.1-8b", "--params 8.03B"])
def test_the_floor_of_the_first_token(model: str, predicted: Any) -> None:
    """1,000 tokens of prompt at 125 TFLOP/s: 0.13 s by the rule."""
    assert f"{predicted(f'{model} --prompt 1000 {SPARK}')['ttft_floor_s']:.2f}" == "0.13"


def test_a_cache_given_by_hand_is_shared_out_to_the_layers_that_draft(predicted: Any) -> None:
    """The bytes per token that the model has anyway, given as a figure, change nothing of what its draft reads."""
    asked = "deepseek-v3-r1 --device h200 --context 4096 --draft mtp"
    known = predicted(asked)
    given = predicted(f"{asked} --kv-per-token {known['kv_bytes_per_token']:.0f}")
    assert given["draft_bytes_per_pass"] == pytest.approx(known["draft_bytes_per_pass"])
    assert given["memory_needed_bytes"] == pytest.approx(known["memory_needed_bytes"])
