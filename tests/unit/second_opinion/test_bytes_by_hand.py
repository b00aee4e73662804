"""A second opinion on the bytes of a pass: every figure worked out again from published sizes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from by_hand import (
    BLOCKS_8B,
    GEMMA_2_9B,
    GEMMA_3_1B_BLOCKS,
    HEAD_8B,
    LLAMA_1B,
    LLAMA_7B,
    LLAMA_8B,
    LLAMA_13B,
    LLAMA_70B,
    MISTRAL_7B,
    MIXTURES,
    QWEN_HALF_B,
    VECTORS_8B,
    Command,
    attention,
    hit,
    streamed,
)

DENSE_CASES = [
    # model, elements streamed per pass, KV elements read at the context, context, elements of an untied table
    ("llama-3.1-8b", streamed(LLAMA_8B), 32 * 2 * 8 * 128 * 5000, 5000, 128256 * 4096),
    ("llama-3.3-70b", streamed(LLAMA_70B), 80 * 2 * 8 * 128 * 5000, 5000, 128256 * 8192),
    ("llama-2-7b", streamed(LLAMA_7B), 32 * 2 * 32 * 128 * 3000, 3000, 32000 * 4096),
    ("llama-2-13b", streamed(LLAMA_13B), 40 * 2 * 40 * 128 * 3000, 3000, 32000 * 5120),
    ("llama-3.2-1b", streamed(LLAMA_1B), 16 * 2 * 8 * 64 * 3000, 3000, 0),
    ("qwen2.5-0.5b", streamed(QWEN_HALF_B), 24 * 2 * 2 * 64 * 3000, 3000, 0),
    ("mistral-7b-v0.1", streamed(MISTRAL_7B), 32 * 2 * 8 * 128 * 4096, 20000, 32000 * 4096),
    ("mistral-7b-v0.1", streamed(MISTRAL_7B), 32 * 2 * 8 * 128 * 1000, 1000, 32000 * 4096),
    # Every other layer slides (4,096); tied.
    ("gemma-2-9b", streamed(GEMMA_2_9B), 2 * 8 * 256 * (21 * 4096 + 21 * 8000), 8000, 0),
    # One KV head (MQA); five of six slide (512): 22 of 26; query and key norms of 256 per layer.
    ("gemma-3-1b", streamed(GEMMA_3_1B_BLOCKS) + 26 * 512, 2 * 256 * (22 * 512 + 4 * 9000), 9000, 0),
]


@pytest.mark.parametrize(("model", "elements", "kv_elements", "context", "table"), DENSE_CASES)
def test_a_dense_model(
    model: str, elements: int, kv_elements: int, context: int, table: int, predicted: Command
) -> None:
    """Weights once, cache of one sequence per sequence, an untied table in memory only; tied: once, as the head."""
    found = predicted(f"{model} --weights bf16 --bandwidth 1TB/s --context {context} --batch 3")
    assert found["weight_bytes_per_pass"] == 2 * elements
    assert found["weight_bytes_total"] == 2 * (elements + table)
    assert found["kv_bytes_per_pass"] == 3 * 2 * kv_elements
    rate = 3 * 1e12 / (2 * elements + 6 * kv_elements)
    assert found["ceiling_tokens_per_s"] == pytest.approx(rate, rel=1e-9)
    assert found["ceiling_tokens_per_s_per_user"] == pytest.approx(rate / 3, rel=1e-9)
    assert found["expected_tokens_per_s"] == pytest.approx([0.6 * rate, 0.85 * rate], rel=1e-9)
    assert found["limit_tokens_per_s"] == pytest.approx(rate, rel=1e-9)


# -- formats --------------------------------------------------------------------------------------------------------

ROWS_8B = 32 * (4096 + 1024 * 2 + 4096 + 14336 * 2 + 4096)
"""Output rows of all matrices of the blocks."""

FORMAT_CASES = [
    # The payload alone: half a byte for each matrix, the head too.
    ("int4", (BLOCKS_8B + HEAD_8B) / 2 + 2 * VECTORS_8B),
    # A 16-bit scale and a 4-bit zero per 128; the head stays in 16 bits.
    ("int4-g128", BLOCKS_8B * (4 + 20 / 128) / 8 + 2 * (HEAD_8B + VECTORS_8B)),
    ("gptq-g32", BLOCKS_8B * (4 + 20 / 32) / 8 + 2 * (HEAD_8B + VECTORS_8B)),
    ("marlin", BLOCKS_8B * (4 + 16 / 128) / 8 + 2 * (HEAD_8B + VECTORS_8B)),
    ("nf4", BLOCKS_8B * (4 + 32 / 64) / 8 + 2 * (HEAD_8B + VECTORS_8B)),
    ("fp8-tensor", BLOCKS_8B + 7 * 32 * 4 + 2 * (HEAD_8B + VECTORS_8B)),
    ("fp8-channel", BLOCKS_8B + 4 * ROWS_8B + 2 * (HEAD_8B + VECTORS_8B)),
    ("fp8-block", BLOCKS_8B * (1 + 4 / 128**2) + 2 * (HEAD_8B + VECTORS_8B)),
    ("mxfp4", BLOCKS_8B * (4 + 8 / 32) / 8 + 2 * (HEAD_8B + VECTORS_8B)),
    ("nvfp4", BLOCKS_8B * (4 + 8 / 16) / 8 + 7 * 32 * 4 + 2 * (HEAD_8B + VECTORS_8B)),
    ("int8-channel", BLOCKS_8B + 2 * ROWS_8B + 2 * (HEAD_8B + VECTORS_8B)),
    # GGUF: 18 and 34 bytes per 32; vectors in fp32; Q4_0 keeps the head in Q6_K (210 bytes per 256).
    ("q8_0", (BLOCKS_8B + HEAD_8B) * 34 / 32 + 4 * VECTORS_8B),
    ("q4_0", BLOCKS_8B * 18 / 32 + HEAD_8B * 210 / 256 + 4 * VECTORS_8B),
]


@pytest.mark.parametrize(("weights", "expected"), FORMAT_CASES)
def test_quantized_weights_of_an_8b(weights: str, expected: float, predicted: Command) -> None:
    """Payload, scales and zeros; what the format leaves in 16 bits is left there."""
    found = predicted(f"llama-3.1-8b --weights {weights} --bandwidth 2TB/s")
    assert found["weight_bytes_per_pass"] == pytest.approx(expected, rel=1e-12)
    assert found["ceiling_tokens_per_s"] == pytest.approx(2e12 / expected, rel=1e-9)


def test_q4_k_m_of_an_8b(predicted: Command) -> None:
    """Q6_K for the head, and for half of the value and down projections: 16 of 32 layers; the rest Q4_K."""
    layer_value, layer_down = 1024 * 4096, 14336 * 4096
    # First and last eighth, and every third between them.
    lifted = [i for i in range(32) if i < 4 or i >= 28 or (i - 4) % 3 == 2]
    six = len(lifted) * (layer_value + layer_down) + HEAD_8B
    four = BLOCKS_8B + HEAD_8B - six
    expected = four * 144 / 256 + six * 210 / 256 + 4 * VECTORS_8B
    found = predicted("llama-3.1-8b --weights q4_k_m --bandwidth 273GB/s")
    assert found["weight_bytes_per_pass"] == expected
    assert found["weight_bytes_total"] == expected + HEAD_8B * 144 / 256


@pytest.mark.parametrize(
    ("kv", "bytes_per_element"), [("bf16", 2), ("fp8", 1), ("q8_0", 34 / 32), ("q4_0", 18 / 32), ("int8", 1)]
)
def test_kv_formats(kv: str, bytes_per_element: float, predicted: Command) -> None:
    """Elements of the cache times bytes with scales."""
    found = predicted(f"llama-3.1-8b --kv {kv} --context 10000 --batch 8 --bandwidth 2TB/s")
    assert found["kv_bytes_per_token"] == 32 * 2 * 8 * 128 * bytes_per_element
    assert found["kv_bytes_per_pass"] == 8 * 10000 * 32 * 2 * 8 * 128 * bytes_per_element


# -- mixtures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MIXTURES)
@pytest.mark.parametrize("batch", [1, 2, 16, 300])
def test_a_mixture_by_batch(model: str, batch: int, predicted: Command) -> None:
    """The expected distinct experts set the ceiling, those of one token the limit, all of them the capacity."""
    shared, expert, experts, chosen, table = MIXTURES[model]
    found = predicted(f"{model} --weights bf16 --batch {batch} --bandwidth 1TB/s --memory 100GB")
    expected = 2 * (shared + expert * hit(experts, chosen, batch))
    assert found["weight_bytes_per_pass"] == pytest.approx(expected, rel=1e-9)
    assert found["least_bytes_per_pass"] == 2 * (shared + expert * chosen)
    assert found["limit_tokens_per_s"] == pytest.approx(batch * 1e12 / (2 * (shared + expert * chosen)), rel=1e-9)
    assert found["memory_needed_bytes"] == 2 * (shared + expert * experts + table)


def test_gpt_oss_as_published(predicted: Command) -> None:
    """Experts in MXFP4 (their biases in 16 bits), all else in 16 bits; every other layer slides over 128 tokens."""
    hidden, layers, heads, kv, dim = 2880, 24, 64, 8, 64
    projections, biases = attention(hidden, heads, kv, dim, qkv_bias=True)
    per_layer = projections + biases + hidden + heads + 32 * hidden + 32 + 2 * hidden
    plain = 2 * (layers * per_layer + hidden + 201088 * hidden)
    one_expert = (3 * hidden * hidden) * 4.25 / 8 + 2 * (2 * hidden + hidden)
    found = predicted("gpt-oss-20b --context 5000 --bandwidth 1TB/s")
    assert found["weight_bytes_per_pass"] == pytest.approx(plain + layers * 4 * one_expert, rel=1e-9)
    assert found["weight_bytes_total"] == pytest.approx(plain + layers * 32 * one_expert + 2 * 201088 * hidden)
    assert found["kv_bytes_per_pass"] == 2 * 2 * kv * dim * 12 * (128 + 5000)


def latent_layer(hidden: int, heads: int, query_rank: int, latent: int, rope: int, nope: int, value: int) -> int:
    """Elements of one layer of multi-head latent attention, with its norms."""
    queries = hidden * query_rank + query_rank + query_rank * heads * (nope + rope)
    keys = hidden * (latent + rope) + latent + latent * heads * (nope + value)
    return queries + keys + heads * value * hidden


DEEPSEEK_DENSE = (
    61 * (latent_layer(7168, 128, 1536, 512, 64, 128, 128) + 2 * 7168)
    + 3 * 3 * 7168 * 18432
    + 58 * (3 * 7168 * 2048 + 256 * 7168)  # the shared expert and the router
    + 7168
    + 129280 * 7168
)


@pytest.mark.parametrize("batch", [1, 32])
def test_deepseek_v3(batch: int, predicted: Command) -> None:
    """Three dense layers, one shared expert, 8 of 256; one latent and one rope key per token and layer."""
    found = predicted(f"deepseek-v3-r1 --weights bf16 --batch {batch} --context 4000 --bandwidth 8TB/s")
    expert = 58 * 3 * 7168 * 2048
    assert found["kv_bytes_per_token"] == 61 * (512 + 64) * 2
    assert found["kv_bytes_per_pass"] == batch * 4000 * 61 * 576 * 2
    # Each routed layer has a correction of 256 elements for its router, which a few bytes more may be stored in.
    correction = 58 * 256 * 4
    assert found["weight_bytes_per_pass"] == pytest.approx(
        2 * (DEEPSEEK_DENSE + expert * hit(256, 8, batch)), abs=correction
    )


def test_chunked_attention_of_llama_4(predicted: Command) -> None:
    """Three of four layers see their chunk of 8,192 alone: at 10,000 tokens 1,808 of them."""
    found = predicted("llama-4-scout --context 10000 --bandwidth 1TB/s")
    assert found["kv_bytes_per_pass"] == 2 * 2 * 8 * 128 * (12 * 10000 + 36 * (10000 - 8192))
    needed = found["memory_needed_bytes"] - found["weight_bytes_total"]
    assert needed == 2 * 2 * 8 * 128 * (12 * 10000 + 36 * 8192)


def test_the_states_of_jamba(predicted: Command) -> None:
    """Four layers of attention; 28 read and write a float32 state of 8192 x 16 and four inputs of the convolution."""
    found = predicted("jamba-v0.1 --context 1000 --batch 5 --bandwidth 1TB/s")
    state = 28 * (8192 * 16 * 4 + 8192 * 4 * 2)
    keys = 4 * 2 * 8 * 128 * 2 * 1000
    assert found["kv_bytes_per_pass"] == 5 * (keys + 2 * state)
    assert found["memory_needed_bytes"] - found["weight_bytes_total"] == 5 * (keys + state)


def test_the_states_of_qwen3_next(predicted: Command) -> None:
    """12 of 48 layers keep keys of two heads of 256; 36 keep 32 matrices of 128 x 128 in float32."""
    found = predicted("qwen3-next-80b-a3b --context 1000 --bandwidth 1TB/s")
    convolved = 2 * 16 * 128 + 32 * 128
    state = 36 * (32 * 128 * 128 * 4 + convolved * 4 * 2)
    assert found["kv_bytes_per_pass"] == 12 * 2 * 2 * 256 * 2 * 1000 + 2 * state


def test_per_layer_embeddings_are_looked_up(predicted: Command, tmp_path: Any) -> None:
    """Gemma 3n: a smaller table per layer changes the capacity, not the pass; layers that share keys keep none."""
    config = {
        "model_type": "gemma3n_text", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 30,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 262400,
        "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 10, "sliding_window": 512,
        "altup_num_inputs": 4, "laurel_rank": 64, "torch_dtype": "bfloat16",
    }  # fmt: skip
    found = []
    for rows in (262144, 1000):
        text = json.dumps({**config, "vocab_size_per_layer_input": rows})
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        found.append(predicted(f"{tmp_path}/config.json --bandwidth 1TB/s --context 2000"))
    large, small = found
    assert large["weight_bytes_per_pass"] == small["weight_bytes_per_pass"]
    assert large["weight_bytes_total"] - small["weight_bytes_total"] == (262144 - 1000) * 30 * 256 * 2
    # Of the first 20 layers every fifth attends to all.
    assert large["kv_bytes_per_pass"] == 2 * 2 * 2 * 256 * (16 * 512 + 4 * 2000)
