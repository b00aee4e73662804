"""Hybrid, recurrent and wrapped models as their publishers describe them.

To the last digit: Qwen3-Next 80B-A3B, Jamba v0.1 and Llama 4 by the sizes of their publishers' config.json, compared
with the defaults of transformers' classes. To the digits printed: the parameters that model cards and papers name
(MiniMax-01: "456 billion parameters, 45.9 billion activated" without tables; Nemotron-H by NVIDIA's Megatron Bridge
recipe).
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_roofline.readers.config import read_config

QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": False,
}
JAMBA = {
    "model_type": "jamba",
    "vocab_size": 65536,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "mamba_dt_rank": 256,
    "tie_word_embeddings": False,
}
SCOUT: dict[str, Any] = {
    "model_type": "llama4",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "llama4_text",
        "vocab_size": 202048,
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1,
        "attention_chunk_size": 8192,
    },
}
MAVERICK = {**SCOUT, "text_config": {**SCOUT["text_config"], "num_local_experts": 128, "interleave_moe_layer_step": 2}}
GEMMA3_27B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "patch_size": 14,
        "vision_use_head": False,
    },
}
FALCON_H1_500M = {
    "model_type": "falcon_h1",
    "vocab_size": 32784,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 36,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "mamba_d_ssm": 1536,
    "mamba_n_heads": 24,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
}
MINIMAX_01 = {
    "model_type": "minimax_text_01",
    "vocab_size": 200064,
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 0,
    "attn_type_list": [*[0] * 7, 1] * 10,
}
NEMOTRON_H_8B = {
    "model_type": "nemotron_h",
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 21504,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "num_hidden_layers": 52,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
}
GRANITE_4_SMALL = {
    "model_type": "granitemoehybrid",
    "vocab_size": 100352,
    "hidden_size": 4096,
    "intermediate_size": 768,
    "shared_intermediate_size": 1536,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 72,
    "num_experts_per_tok": 10,
    "mamba_n_heads": 128,
    "mamba_d_state": 128,
    "tie_word_embeddings": True,
    "layer_types": [*["mamba"] * 5, "attention", *["mamba"] * 4] * 4,
}
LFM2_1B = {
    "model_type": "lfm2",
    "vocab_size": 65536,
    "hidden_size": 2048,
    "block_ff_dim": 12288,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "tie_embedding": True,
}
MAMBA_3B = {
    "model_type": "mamba",
    "vocab_size": 50280,
    "hidden_size": 2560,
    "num_hidden_layers": 64,
    "state_size": 16,
}
FALCON_MAMBA_7B = {
    "model_type": "falcon_mamba",
    "vocab_size": 65024,
    "hidden_size": 4096,
    "expand": 16,
    "intermediate_size": 8192,
    "num_hidden_layers": 64,
    "state_size": 16,
    "time_step_rank": 256,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("config", "parameters", "streamed", "kv_bytes_per_token"),
    [
        pytest.param(QWEN3_NEXT, 79_674_391_296, 3_563_764_480, 24_576, id="Qwen3-Next 80B-A3B"),
        pytest.param(JAMBA, 51_570_323_328, 11_841_875_840, 16_384, id="Jamba v0.1"),
        pytest.param(SCOUT, 107_769_861_120, 16_138_408_960, 196_608, id="Llama 4 Scout"),
        pytest.param(MAVERICK, 400_711_848_960, 16_150_205_440, 196_608, id="Llama 4 Maverick"),
        pytest.param(GEMMA3_27B, 27_009_346_304, 27_009_346_304, 507_904, id="Gemma 3 27B"),
    ],
)
def test_a_published_model_comes_out_to_the_last_parameter(
    config: dict[str, Any], parameters: int, streamed: int, kv_bytes_per_token: int
) -> None:
    """Total, streamed per token and KV bytes per token at 16 bits."""
    architecture = read_config(config)
    assert architecture.parameters == parameters
    assert architecture.streamed_parameters == streamed
    assert architecture.kv_elements_per_token() * 2 == kv_bytes_per_token


@pytest.mark.parametrize(
    ("config", "billions", "digit"),
    [
        pytest.param(FALCON_H1_500M, 0.52, 0.01, id="Falcon-H1 0.5B"),
        pytest.param(MINIMAX_01, 456, 1, id="MiniMax-Text-01"),
        pytest.param(NEMOTRON_H_8B, 8, 1, id="Nemotron-H 8B"),
        pytest.param(GRANITE_4_SMALL, 32, 1, id="Granite 4.0 H Small"),
        pytest.param(LFM2_1B, 1.17, 0.01, id="LFM2 1.2B"),
        pytest.param(MAMBA_3B, 2.8, 0.1, id="Mamba 2.8B"),
        pytest.param(FALCON_MAMBA_7B, 7.27, 0.01, id="Falcon-Mamba 7B"),
    ],
)
def test_a_published_model_rounds_to_its_name(config: dict[str, Any], billions: float, digit: float) -> None:
    """The parameters that its publisher names, to the digits named."""
    assert abs(read_config(config).parameters / 1e9 - billions) <= digit / 2


@pytest.mark.parametrize(
    ("config", "billions", "digit"),
    [
        # The paper counts what is activated without the tables.
        pytest.param(MINIMAX_01, 45.9 + 2 * 200064 * 6144 / 1e9, 0.1, id="MiniMax-Text-01"),
        pytest.param(GRANITE_4_SMALL, 9, 1, id="Granite 4.0 H Small"),
        pytest.param(SCOUT, 17, 1, id="Llama 4 Scout"),
    ],
)
def test_active_parameters_are_the_published_ones(config: dict[str, Any], billions: float, digit: float) -> None:
    """The parameters that serve one token, to the digits named."""
    assert abs(read_config(config).active_parameters / 1e9 - billions) <= digit / 2


def test_gemma_3_counts_its_tower_for_the_size_alone() -> None:
    """The tower's and the projector's parameters are never streamed; windows are those of the text model."""
    architecture = read_config(GEMMA3_27B)
    assert architecture.idle_parameters == 423_060_336
    assert architecture.streamed_parameters == architecture.parameters
    assert {cache.window: cache.layers for cache in architecture.caches} == {1024: 52, None: 10}


def test_llama_4_forgets_in_three_of_four_layers() -> None:
    """36 layers start anew every 8,192 tokens, 12 keep everything."""
    caches = {cache.chunk: cache for cache in read_config(SCOUT).caches}
    assert {chunk: cache.layers for chunk, cache in caches.items()} == {8192: 36, None: 12}
    assert caches[8192].positions(8193) == 1
    assert caches[8192].kept_positions(8193) == 8192
    assert caches[None].positions(8193) == 8193


def test_qwen3_next_holds_a_constant_state_in_36_layers() -> None:
    """Per layer 8,192 channels of 4 inputs in the model's dtype, and 32 heads of 128 x 128 in float32."""
    states = [cache for cache in read_config(QWEN3_NEXT).caches if cache.state_elements]
    assert [(cache.layers, cache.state_elements, cache.state_bytes_per_element) for cache in states] == [
        (36, 8192 * 4, None),
        (36, 32 * 128 * 128, 4.0),
    ]
    assert all(cache.elements_per_token == 0 for cache in states)


def test_falcon_h1_attends_and_recurs_in_every_layer() -> None:
    """36 layers of each, with 2 x 2 x 64 elements of KV per token and layer."""
    caches = read_config(FALCON_H1_500M).caches
    assert [cache.layers for cache in caches] == [36, 36, 36]
    assert caches[0].elements_per_token == 2 * 2 * 64
    assert caches[2].state_elements == 24 * 64 * 128
