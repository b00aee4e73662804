"""Configs of hybrid and recurrent models: lists, patterns and indices, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hybrid_reader_published import (
    FALCON_H1_500M,
    FALCON_MAMBA_7B,
    GRANITE_4_SMALL,
    JAMBA,
    LFM2_1B,
    MAMBA_3B,
    MINIMAX_01,
    NEMOTRON_H_8B,
    QWEN3_NEXT,
    SCOUT,
)

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import read_config

LLAMA4_TEXT = SCOUT["text_config"]
GEMMA3N = {
    "model_type": "gemma3n_text",
    "vocab_size": 262400,
    "hidden_size": 2048,
    "intermediate_size": [16384] * 35,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
}
MAMBA2 = {
    "model_type": "mamba2",
    "vocab_size": 32768,
    "hidden_size": 4096,
    "num_hidden_layers": 64,
    "num_heads": 128,
    "head_dim": 64,
    "n_groups": 8,
    "state_size": 128,
}
RECURRENT_GEMMA = {
    "model_type": "recurrent_gemma",
    "vocab_size": 256000,
    "hidden_size": 2560,
    "intermediate_size": 15360,
    "num_hidden_layers": 26,
    "num_attention_heads": 10,
    "num_key_value_heads": 1,
}
BAMBA = {
    "model_type": "bamba",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "mamba_n_heads": 128,
    "mamba_d_state": 128,
    "attn_layer_indices": [9, 18, 27],
}
ZAMBA2 = {
    "model_type": "zamba2",
    "vocab_size": 32000,
    "hidden_size": 2560,
    "num_hidden_layers": 6,
    "num_attention_heads": 32,
    "n_mamba_heads": 80,
    "num_mem_blocks": 2,
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba"],
}
LFM2_MOE = {
    **{key: value for key, value in LFM2_1B.items() if key not in ("full_attn_idxs", "block_ff_dim")},
    "model_type": "lfm2_moe",
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "num_dense_layers": 2,
    "layer_types": ["conv", "full_attention"] * 8,
}
GEMMA4 = {
    "model_type": "gemma4_text",
    "vocab_size": 262144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
KIMI_LINEAR: dict[str, Any] = {
    "model_type": "kimi_linear",
    "vocab_size": 163840,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "linear_attn_config": {"num_heads": 32, "head_dim": 128, "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]},
}
RWKV = {"model_type": "rwkv", "vocab_size": 50277, "hidden_size": 4096, "num_hidden_layers": 32}
ALL = {
    str(config["model_type"]): config
    for config in (
        *(FALCON_H1_500M, FALCON_MAMBA_7B, GRANITE_4_SMALL, JAMBA, LFM2_1B, LFM2_MOE, MAMBA_3B, MINIMAX_01),
        *(NEMOTRON_H_8B, QWEN3_NEXT, LLAMA4_TEXT, GEMMA3N, MAMBA2, RECURRENT_GEMMA, BAMBA, ZAMBA2, RWKV),
        *(GEMMA4, KIMI_LINEAR),
    )
}


def error_of(config: dict[str, Any]) -> str:
    """The first line of what is said about a bad config."""
    with pytest.raises(RooflineUsageError) as caught:
        read_config(config)
    return str(caught.value).splitlines()[0]


def attempt(config: dict[str, Any]) -> tuple[str, Architecture | None]:
    """What is read, or what is said instead."""
    try:
        return "", read_config(config)
    except RooflineUsageError as error:
        return str(error), None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (QWEN3_NEXT | {"layer_types": ["linear_attention"] * 47}, "layer_types: 47 entries for 48 layers"),
        (
            QWEN3_NEXT | {"layer_types": ["linear_attention"] * 47 + ["sorcery"]},
            "layer_types[47]: the text 'sorcery' is not known here; mamba, linear_attention, attention, full_attention",
        ),
        (QWEN3_NEXT | {"layer_types": [None] * 48}, "layer_types[0]: null is not known here"),
        (QWEN3_NEXT | {"layer_types": "linear"}, "layer_types: the text 'linear': a list is needed"),
        (QWEN3_NEXT | {"linear_num_value_heads": 24}, "linear_num_value_heads: 24: not a multiple of 16 key heads"),
        (QWEN3_NEXT | {"mlp_only_layers": [48]}, "mlp_only_layers[0]: 48: a layer from 0 to 47 is needed"),
        (QWEN3_NEXT | {"num_experts_per_tok": 513}, "num_experts_per_tok: 513: there are only 512 experts"),
        (
            NEMOTRON_H_8B | {"hybrid_override_pattern": "M-X*", "num_hidden_layers": 4},
            "hybrid_override_pattern[2]: the text 'X' is not known here; M, *, -, E are",
        ),
        (NEMOTRON_H_8B | {"num_hidden_layers": 51}, "hybrid_override_pattern: 52 letters for 51 layers"),
        (NEMOTRON_H_8B | {"hybrid_override_pattern": ""}, "hybrid_override_pattern: 0 letters: 1 to 10,000 are needed"),
        (
            NEMOTRON_H_8B | {"hybrid_override_pattern": "M" * 10_001},
            "hybrid_override_pattern: 10,001 letters: 1 to 10,000 are needed",
        ),
        (NEMOTRON_H_8B | {"layers_block_type": []}, "layers_block_type: 0 layers: 1 to 10,000 are believed"),
        (
            NEMOTRON_H_8B | {"layers_block_type": ["mamba"], "num_hidden_layers": 2},
            "layers_block_type: 1 entries for 2 layers",
        ),
        (JAMBA | {"attn_layer_offset": 8}, "attn_layer_offset: 8: less than attn_layer_period, 8, is needed"),
        (JAMBA | {"mamba_d_state": -16}, "mamba_d_state: -16: a whole number from 1 to 2**40 is needed"),
        (BAMBA | {"attn_layer_indices": [9, -1]}, "attn_layer_indices[1]: -1: a layer from 0 to 31 is needed"),
        (BAMBA | {"mamba_d_head": 65}, "mamba_d_head: 65: 128 heads of it are not 8192 wide"),
        (BAMBA | {"mamba_n_heads": 127}, "mamba_n_heads: 127: does not divide the inner width, 8192"),
        (MAMBA2 | {"num_heads": 64}, "num_heads: 64 heads of 64 are not 2 x hidden_size 4096"),
        (RECURRENT_GEMMA | {"block_types": []}, "block_types: empty: recurrent or attention is needed"),
        (RECURRENT_GEMMA | {"block_types": ["mamba"]}, "block_types[0]: the text 'mamba' is not known here"),
        (RECURRENT_GEMMA | {"intermediate_size": 15361}, "intermediate_size: 2: does not divide"),
        (RECURRENT_GEMMA | {"lru_width": 2561}, "num_attention_heads: 10: does not divide the width of the recurrence"),
        (RWKV | {"attention_hidden_size": 2048}, "attention_hidden_size: 2048: RWKV-4 needs the width of the model"),
        (ZAMBA2 | {"layers_block_type": ["mamba"] * 5}, "layers_block_type: 5 entries for 6 layers"),
        (LFM2_1B | {"full_attn_idxs": None}, "layer_types: missing, and so is full_attn_idxs"),
        (
            LFM2_1B | {"block_ffn_dim_multiplier": -1.0},
            "block_ffn_dim_multiplier: -1.0: a number above 0 is needed",
        ),
        (MINIMAX_01 | {"attn_type_list": [2] * 80}, "attn_type_list[0]: 2 is not known here; 0, 1 are"),
        (MINIMAX_01 | {"attn_type_list": [1]}, "attn_type_list: 1 entries for 80 layers"),
        (MINIMAX_01 | {"shared_intermediate_size": 64}, "shared_intermediate_size: above 0: a shared expert"),
        (LLAMA4_TEXT | {"no_rope_layers": [1] * 47}, "no_rope_layers: 47 entries for 48 layers"),
        (LLAMA4_TEXT | {"no_rope_layers": [3] * 48}, "no_rope_layers[0]: 3 is not known here; 0, 1 are"),
        (
            LLAMA4_TEXT | {"layer_types": ["sliding_attention"] * 48},
            "layer_types[0]: the text 'sliding_attention' is not known",
        ),
        (GEMMA3N | {"intermediate_size": [16384] * 34}, "intermediate_size: 34 entries for 35 layers"),
        (GEMMA3N | {"intermediate_size": [-1] * 35}, "intermediate_size[0]: -1: a whole number from 1 to 2**40"),
        (GEMMA3N | {"num_kv_shared_layers": 35}, "num_kv_shared_layers: 35 of 35 layers: one at least keeps keys"),
        (
            GEMMA4 | {"per_layer_config": {"x": {}}},
            "per_layer_config: key the text 'x': a layer from 0 to 29 is needed",
        ),
        (
            GEMMA4 | {"per_layer_config": {"30": {}}},
            "per_layer_config: key the text '30': a layer from 0 to 29 is needed",
        ),
        (GEMMA4 | {"per_layer_config": {"05": {"head_dim": -1}}}, "per_layer_config.05.head_dim: -1"),
        (GEMMA4 | {"num_kv_shared_layers": 30}, "num_kv_shared_layers: 30 of 30 layers: one at least keeps keys"),
        (GEMMA4 | {"layer_types": ["full_attention"] * 29}, "layer_types: 29 entries for 30 layers"),
        (
            KIMI_LINEAR | {"linear_attn_config": {"full_attn_layers": [0]}},
            "linear_attn_config.full_attn_layers: 0: its layers are numbered from 1",
        ),
        (
            KIMI_LINEAR | {"linear_attn_config": {"full_attn_layers": [28]}},
            "linear_attn_config.full_attn_layers[0]: 28: a layer from 0 to 27 is needed",
        ),
        (KIMI_LINEAR | {"mlp_layer_types": ["dense"]}, "mlp_layer_types: 1 entries for 27 layers"),
        (MAMBA_3B | {"num_hidden_layers": 10_001}, "num_hidden_layers: 10,001 layers: more than 10,000"),
    ],
)
def test_a_bad_config_names_the_key_and_what_is_wrong(config: dict[str, Any], expected: str) -> None:
    """Lists of the wrong length, unknown kinds of layer, sizes that cannot be: the error says where."""
    assert f"config: {expected}" in error_of(config)


@pytest.mark.parametrize("model_type", ALL)
def test_the_example_of_every_family_is_read(model_type: str) -> None:
    """What the tests of errors start from is right in itself."""
    assert read_config(ALL[model_type]).parameters > 10**8


@pytest.mark.parametrize("model_type", ALL)
@pytest.mark.parametrize("key", ["vocab_size", "hidden_size"])
def test_a_missing_size_names_its_key(model_type: str, key: str) -> None:
    """No family guesses a size that its config leaves out."""
    config = {name: value for name, value in ALL[model_type].items() if name != key}
    assert f"config: {key}: missing" in error_of(config)


@settings(max_examples=60, deadline=None)
@given(
    model_type=st.sampled_from(sorted(ALL)),
    data=st.data(),
    value=st.sampled_from([-1, 0, 2**63, 1.5, "8", True, [], {}, None, float("nan"), float("inf"), [[]], ["mamba"]]),
)
def test_any_value_at_any_key_is_read_or_named(model_type: str, data: st.DataObject, value: Any) -> None:
    """Nonsense at one key is refused with that config's name, or it does not matter; nothing else ever happens."""
    key = data.draw(st.sampled_from(sorted(set(ALL[model_type]) - {"model_type"})))
    said, architecture = attempt(ALL[model_type] | {key: value})
    assert said.startswith("config: ") if architecture is None else architecture.streamed_parameters > 0


def test_a_model_of_mamba_layers_alone_has_no_attention() -> None:
    """No layer of a kind means no weight of it, rather than one that belongs to no layer."""
    architecture = read_config(BAMBA | {"attn_layer_indices": None})
    assert not any("self_attn" in weight.name for weight in architecture.weights)
    assert architecture.kv_elements_per_token() == 0
    assert {cache.layers for cache in architecture.caches} == {32}


def test_a_model_of_attention_layers_alone_has_no_mamba() -> None:
    """The other way round."""
    architecture = read_config(BAMBA | {"attn_layer_indices": list(range(32))})
    assert not any("mamba" in weight.name for weight in architecture.weights)
    assert [cache.name for cache in architecture.caches] == ["attention"]


def test_jamba_with_one_expert_is_dense() -> None:
    """A single expert is a feed-forward and has no router."""
    architecture = read_config(JAMBA | {"num_experts": 1, "num_experts_per_tok": 1})
    assert not architecture.is_mixture
    assert not any(weight.part == "router" for weight in architecture.weights)


def test_recurrent_weights_are_never_quantized() -> None:
    """Convolutions, decays and skips are vectors, whatever their shape; the projections are matrices."""
    for config in (JAMBA, QWEN3_NEXT, NEMOTRON_H_8B, MAMBA_3B):
        for weight in read_config(config).weights:
            if weight.part in ("conv", "state", "norm", "bias"):
                assert weight.use == "vector", weight.name


def test_zamba_counts_its_shared_blocks_once() -> None:
    """Two blocks serve three layers: their weights come twice, keys and values three times, and a note says so."""
    architecture = read_config(ZAMBA2)
    shared = next(
        weight for weight in architecture.weights if weight.name.endswith("shared_transformer.self_attn.q_proj")
    )
    assert shared.layers == (1, 3)
    assert next(cache for cache in architecture.caches if cache.name == "attention").layers == 3
    assert any("2 transformer blocks serve 3 layers" in note for note in architecture.notes)


def test_gemma_3n_looks_its_per_layer_embeddings_up() -> None:
    """262,144 rows of 35 x 256: capacity, not traffic; 20 layers keep keys, 15 attend to those of others."""
    architecture = read_config(GEMMA3N)
    table = next(weight for weight in architecture.weights if weight.name.endswith("embed_tokens_per_layer"))
    assert table.use == "lookup"
    assert table.elements == 262_144 * 35 * 256
    assert architecture.streamed_parameters == architecture.parameters - table.elements
    assert sum(cache.layers for cache in architecture.caches if cache.elements_per_token) == 20
    assert sum(cache.layers for cache in architecture.caches if cache.flops_per_position) == 35


def test_kimi_linear_numbers_its_layers_from_one() -> None:
    """Layers 4, 8, ... 24 and 27 of 27 keep latents of 576 elements, the other 20 a matrix per head."""
    caches = {cache.name: cache for cache in read_config(KIMI_LINEAR).caches}
    assert (caches["MLA"].layers, caches["MLA"].elements_per_token) == (7, 576)
    state = caches["Kimi delta attention state"]
    assert (state.layers, state.state_elements, state.state_bytes_per_element) == (20, 32 * 128 * 128, 4.0)


def test_gemma_4_has_wider_heads_in_its_global_layers() -> None:
    """4 key heads of 256 in 25 layers of 512 tokens, and of 512 in the 5 layers that keep everything."""
    caches = read_config(GEMMA4).caches
    assert {(cache.window, cache.layers, cache.elements_per_token) for cache in caches} == {
        (512, 25, 2 * 4 * 256),
        (None, 5, 2 * 4 * 512),
    }


@pytest.mark.parametrize(
    "kinds", [{"mtp_hybrid_override_pattern": "*-"}, {"mtp_layers_block_type": ["full_attention", "mlp"]}]
)
def test_nemotron_predicts_with_modules_of_several_layers(kinds: dict[str, Any]) -> None:
    """Attention and a feed-forward each with its norm, two norms and a projection before them, a norm behind."""
    plain = read_config(NEMOTRON_H_8B)
    model = read_config(NEMOTRON_H_8B | {"num_nextn_predict_layers": 2} | kinds)
    hidden, width = NEMOTRON_H_8B["hidden_size"], NEMOTRON_H_8B["intermediate_size"]
    heads, keys = NEMOTRON_H_8B["num_attention_heads"] * 128, NEMOTRON_H_8B["num_key_value_heads"] * 128
    each = 2 * hidden * (heads + keys) + 2 * hidden * width + 2 * hidden**2 + 5 * hidden
    assert sum(weight.elements for weight in model.prediction_weights) == model.idle_parameters == 2 * each
    assert (model.parameters, model.caches) == (plain.parameters, plain.caches)
    joined = {weight.name: weight.layers for weight in model.prediction_weights}
    assert joined["mtp.layers.*.eh_proj"] == (0, 2)
    assert joined["mtp.layers.*.final_layernorm"] == (1, 3)


def test_nemotron_without_layers_in_its_modules() -> None:
    """A pattern of no letters is an error."""
    with pytest.raises(RooflineUsageError, match="mtp_hybrid_override_pattern"):
        read_config(NEMOTRON_H_8B | {"num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": ""})
