"""A second opinion on rates, ranks and capacity: every figure worked out again by hand."""

from __future__ import annotations

import re

import pytest
from by_hand import (
    BLOCKS_8B,
    HEAD_8B,
    LLAMA_1B,
    LLAMA_8B,
    LLAMA_70B,
    MISTRAL_7B,
    MIXTURES,
    Command,
    hit,
    streamed,
)

# -- compute --------------------------------------------------------------------------------------------------------


def test_prefill_by_the_rule_and_exactly(predicted: Command) -> None:
    """2 x params x tokens / peak; exactly: two FLOPs per element, the head once, causal attention summed."""
    tokens = 3000
    found = predicted(f"llama-3.1-8b --bandwidth 3.35TB/s --peak 989TFLOP/s --prompt {tokens}")
    every = sum(LLAMA_8B) + HEAD_8B
    assert found["ttft_floor_s"] == pytest.approx(2 * every * tokens / 989e12, rel=1e-9)
    positions = tokens * (tokens + 1) // 2
    flops = 2 * BLOCKS_8B * tokens + 2 * HEAD_8B + 32 * positions * 2 * 32 * (128 + 128)
    assert found["prefill_flops"] == flops
    assert found["prefill_floor_s"] == pytest.approx(flops / 989e12, rel=1e-9)


def test_a_short_prompt_takes_the_time_to_read_the_weights(predicted: Command) -> None:
    """Ten tokens: the weights are read once, which takes longer than the arithmetic."""
    found = predicted("llama-3.1-8b --bandwidth 3.35TB/s --peak 989TFLOP/s --prompt 10")
    assert found["prefill_floor_s"] == pytest.approx(2 * streamed(LLAMA_8B) / 3.35e12, rel=1e-9)


def test_prefill_in_a_window(predicted: Command) -> None:
    """A token sees at most 4,096 positions of Mistral 7B v0.1, itself included."""
    tokens = 9000
    found = predicted(f"mistral-7b-v0.1 --bandwidth 1TB/s --peak 100TFLOP/s --prompt {tokens}")
    positions = sum(min(i, 4096) for i in range(1, tokens + 1))
    blocks, head, _ = MISTRAL_7B
    assert found["prefill_flops"] == 2 * blocks * tokens + 2 * head + 32 * positions * 2 * 32 * 256


def test_the_latent_of_deepseek_unfolds_in_prefill(predicted: Command) -> None:
    """Per position and head 192 for scores and 128 for values: the least FLOPs of any scheme."""
    one = predicted("deepseek-v3-r1 --bandwidth 8TB/s --peak 1000TFLOP/s --prompt 1")["prefill_flops"]
    two = predicted("deepseek-v3-r1 --bandwidth 8TB/s --peak 1000TFLOP/s --prompt 2")["prefill_flops"]
    three = predicted("deepseek-v3-r1 --bandwidth 8TB/s --peak 1000TFLOP/s --prompt 3")["prefill_flops"]
    assert (three - two) - (two - one) == 61 * 2 * 128 * (192 + 128)


@pytest.mark.parametrize("batch", [1, 100, 295, 296, 400, 2000])
def test_where_compute_takes_over(batch: int, predicted: Command) -> None:
    """Two bytes and two FLOPs per parameter and token: past the ridge the ceiling no longer grows."""
    found = predicted(f"--params 70B --weights bf16 --bandwidth 3.35TB/s --peak 989TFLOP/s --batch {batch}")
    memory, compute = 140e9 / 3.35e12, batch * 140e9 / 989e12
    assert found["ridge_point"] == pytest.approx(989 / 3.35, rel=1e-9)
    assert found["bound"] == ("compute" if compute > memory else "memory")
    assert (found["bound"] == "compute") == (batch > 295.2)
    assert found["ceiling_tokens_per_s"] == pytest.approx(batch / max(memory, compute), rel=1e-9)


# -- more than one token, more than one device ----------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "accepted"), [(4, 2.5), (7, 8.0)])
def test_a_draft_of_another_model(tokens: int, accepted: float, predicted: Command) -> None:
    """The draft reads its weights and its cache once for each token that it proposes."""
    found = predicted(
        f"llama-3.1-70b --draft llama-3.2-1b --draft-tokens {tokens} --tokens-per-pass {accepted} "
        "--bandwidth 3.35TB/s --context 2000 --batch 2 --memory 200GB"
    )
    draft = tokens * (2 * streamed(LLAMA_1B) + 2 * 2000 * 16 * 2 * 8 * 64 * 2)
    main_model = 2 * streamed(LLAMA_70B) + 2 * 2000 * 80 * 2 * 8 * 128 * 2
    assert found["draft_bytes_per_pass"] == draft
    assert found["ceiling_tokens_per_s"] == pytest.approx(2 * accepted * 3.35e12 / (draft + main_model), rel=1e-9)
    kept = 2 * 2000 * 2 * 2 * 8 * (80 * 128 + 16 * 64)
    table = 128256 * 8192
    weights = 2 * (streamed(LLAMA_70B) + table + streamed(LLAMA_1B))
    assert found["memory_needed_bytes"] == weights + kept


def test_verified_tokens_hit_more_experts(predicted: Command) -> None:
    """A pass that verifies k + 1 tokens of 4 sequences routes 4 (k + 1) tokens."""
    found = predicted("mixtral-8x7b --draft tinyllama-1.1b --draft-tokens 3 --batch 4 --weights bf16 --bandwidth 1TB/s")
    shared, expert, *_ = MIXTURES["mixtral-8x7b"]
    assert found["weight_bytes_per_pass"] == pytest.approx(2 * (shared + expert * hit(8, 2, 16)), rel=1e-9)


def test_tensor_parallel_ranks(predicted: Command) -> None:
    """Bytes divide by ranks; two ring all-reduces per layer, each with a latency."""
    found = predicted(
        "llama-3.1-70b --tp 4 --batch 16 --context 1000 --bandwidth 3.35TB/s --link 100GB/s --link-latency 20us"
    )
    rank = (2 * streamed(LLAMA_70B) + 16 * 1000 * 327680) / 4
    assert found["bytes_per_pass"] == pytest.approx(rank, rel=1e-9)
    sent = 160 * 2 * 3 / 4 * 16 * 8192 * 2
    assert found["link_bytes_per_pass"] == sent
    assert found["link_s"] == pytest.approx(sent / 100e9 + 160 * 20e-6, rel=1e-9)
    assert found["bound"] == "memory"
    assert found["ceiling_tokens_per_s"] == pytest.approx(16 * 3.35e12 / rank, rel=1e-9)


def test_a_slow_link_binds(predicted: Command) -> None:
    """160 calls of a millisecond take longer than the memory of four cards."""
    found = predicted("llama-3.1-70b --tp 4 --bandwidth 3.35TB/s --link 100GB/s --link-latency 1ms")
    seconds = 160 * 1e-3 + 160 * 1.5 * 8192 * 2 / 100e9
    assert found["bound"] == "link"
    assert found["ceiling_tokens_per_s"] == pytest.approx(1 / seconds, rel=1e-9)


def test_every_rank_reads_the_whole_latent(predicted: Command) -> None:
    """The latent of MLA serves all heads and does not divide."""
    found = predicted("deepseek-v3-r1 --tp 8 --batch 4 --context 1000 --bandwidth 4.8TB/s")
    assert found["kv_bytes_per_pass"] == 4 * 1000 * 61 * 576 * 2


# -- offload, capacity, slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "overlapped"), [(0.25, False), (0.25, True), (0.01, True), (1.0, False)])
def test_spilled_weights(share: float, overlapped: bool, predicted: Command) -> None:
    """Times of both paths add up, or the slower counts; the longer one is what binds."""
    option = "--overlap" if overlapped else ""
    found = predicted(
        f"llama-3.1-70b --bandwidth 1TB/s --memory 110GB --spill-bandwidth 32GB/s --offload {share} {option}"
    )
    weights = 2 * streamed(LLAMA_70B)
    local, spilled = weights * (1 - share) / 1e12, weights * share / 32e9
    step = max(local, spilled) if overlapped else local + spilled
    assert found["ceiling_tokens_per_s"] == pytest.approx(1 / step, rel=1e-9)
    assert found["step_bound"] == ("link" if spilled > local else "memory")
    assert found["memory_needed_bytes"] == pytest.approx(2 * (streamed(LLAMA_70B) + 128256 * 8192) * (1 - share))
    assert found["fits"] is (found["memory_needed_bytes"] <= 110e9)


CAPACITY_CASES = [
    "llama-3.1-70b --device h100-sxm --batch 16 --context 8192",
    "llama-3.1-8b --device 'RTX 4090' --batch 32 --context 8192",
    "mixtral-8x7b --device a100-80-sxm --context 4096",
    "qwen3-32b --device 'RTX 4090' --kv q8_0 --context 20000",
    "deepseek-v3-r1 --device h200 --context 4096",
    "gemma-3-27b --device 'RTX 4090' --context 30000",
    "llama-4-scout --device h100-sxm --context 100000",
    "jamba-v0.1 --device h100-sxm --context 100000",
    "--params 70B --weights bf16 --bandwidth 1TB/s --memory 24GB --context 1000 --kv-per-token 320KiB",
]


@pytest.mark.parametrize("arguments", CAPACITY_CASES)
def test_what_would_fit_fits(arguments: str, predicted: Command) -> None:
    """Each suggestion, given back to the command, fits; one more token or sequence, or half the devices, does not."""
    found = predicted(arguments)
    assert found["bound"] == "capacity"
    assert found["fits"] is False
    notes = [note for note in found["notes"] if note.startswith("would fit")]
    tried = 0
    for note in notes:
        if (context := re.match(r"would fit: a context of up to ([\d,]+)", note)) is not None:
            tokens = int(context[1].replace(",", ""))
            assert predicted(f"{arguments} --context {tokens}")["fits"] is True
            assert predicted(f"{arguments} --context {tokens + 1}")["fits"] is False
            tried += 1
        elif (batch := re.match(r"would fit: a batch of up to ([\d,]+)", note)) is not None:
            sequences = int(batch[1].replace(",", ""))
            assert predicted(f"{arguments} --batch {sequences}")["fits"] is True
            assert predicted(f"{arguments} --batch {sequences + 1}")["fits"] is False
            tried += 1
        elif (devices := re.match(r"would fit: (\d+) such devices", note)) is not None:
            found = predicted(f"{arguments} --tp {devices[1]}")
            if "data-parallel attention" in note:
                assert found["fits"] is False
                assert any(said.startswith("with data-parallel attention") for said in found["notes"])
            else:
                assert found["fits"] is True
            # All of these models have a power of two of key heads (or one latent): half of the devices come next.
            assert int(devices[1]).bit_count() == 1
            assert predicted(f"{arguments} --tp {int(devices[1]) // 2}")["fits"] is False
            tried += 1
        else:
            formats = re.match(r"would fit: weights in (.+)", note)
            assert formats is not None, note
            for weights in formats[1].split(" or "):
                assert predicted(f"{arguments} --weights {weights}")["fits"] is True
                tried += 1
    assert tried, found["notes"]


@pytest.mark.parametrize(
    ("device", "bandwidth", "memory"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 2.039e12 / 8, 10e9),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 2.039e12 / 2, 40e9),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 3.35e12 / 8, 10e9),
        ("NVIDIA H100 80GB HBM3 MIG 1g.20gb", 3.35e12 / 4, 20e9),
    ],
)
def test_a_slice_has_its_share_of_the_memory(device: str, bandwidth: float, memory: float, predicted: Command) -> None:
    """Bandwidth follows the eighths of the memory, not the sevenths of compute."""
    found = predicted(f"llama-3.1-8b --device '{device}' --weights q4_k_m")
    assert found["bandwidth_bytes_per_s"] == bandwidth
    assert found["memory_bytes"] == memory


def test_unified_memory_is_said(predicted: Command) -> None:
    """128 GB that the system shares: a 70B in bf16 does not fit, in 4 bits it does."""
    assert predicted("llama-3.1-70b --device dgx-spark")["fits"] is False
    found = predicted("llama-3.1-70b --device dgx-spark --weights q4_k_m")
    assert found["fits"] is True
    assert found["is_unified_memory"] is True
    assert any("unified" in note for note in found["notes"])


def test_the_rule_for_a_mixture(predicted: Command) -> None:
    """400B of which 40B serve a token, with a cache as stated: 4 tokens hit 1 - 0.9^4 of it."""
    found = predicted(
        "--params 400B --active 40B --weights int4 --kv-per-token 100KiB --context 1000 --batch 4 --bandwidth 3.35TB/s"
    )
    read = 200e9 * (1 - 0.9**4)
    cache = 4 * 1000 * 100 * 1024
    assert found["weight_bytes_per_pass"] == pytest.approx(read, rel=1e-9)
    assert found["kv_bytes_per_pass"] == cache
    assert found["ceiling_tokens_per_s"] == pytest.approx(4 * 3.35e12 / (read + cache), rel=1e-9)
    assert found["limit_tokens_per_s"] == pytest.approx(4 * 3.35e12 / (20e9 + cache), rel=1e-9)
    assert found["memory_needed_bytes"] == 200e9 + cache
