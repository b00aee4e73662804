"""Hybrid, recurrent and wrapped models: the readers against transformers' own classes, and their caches."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import meta_oracle as oracle
import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, DynamicCache, PretrainedConfig

from pytest_roofline.architecture import Architecture
from pytest_roofline.readers import gemma4, hybrid, kimi_linear, linear_attention, nested, recurrent, zamba
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.text_parts import PARTS
from pytest_roofline.readers.wrappers import WRAPPERS

SMALL: dict[str, dict[str, Any]] = {
    "mamba": {"hidden_size": 32, "state_size": 5, "num_hidden_layers": 3, "use_bias": True},
    "falcon_mamba": {
        "hidden_size": 32,
        "state_size": 5,
        "num_hidden_layers": 3,
        "conv_kernel": 3,
        "time_step_rank": 3,
        "expand": 16,
        "intermediate_size": 64,
        "tie_word_embeddings": False,
    },
    "mamba2": {
        "hidden_size": 32,
        "state_size": 6,
        "num_hidden_layers": 3,
        "num_heads": 8,
        "head_dim": 8,
        "n_groups": 2,
        "conv_kernel": 3,
        "use_conv_bias": False,
    },
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 48},
    "recurrent_gemma": {
        "hidden_size": 48,
        "num_hidden_layers": 5,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attention_window_size": 16,
    },
    "jamba": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "mamba_d_state": 5,
        "mamba_proj_bias": True,
    },
    "bamba": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attn_layer_indices": [1, 3],
        "mamba_n_heads": 8,
        "mamba_d_state": 6,
        "mamba_n_groups": 2,
        "attention_bias": True,
    },
    "falcon_h1": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "mamba_n_heads": 8,
        "mamba_d_ssm": 48,
        "mamba_d_state": 6,
        "mamba_n_groups": 2,
        "mamba_rms_norm": True,
        "projectors_bias": True,
    },
    "nemotron_h": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "hybrid_override_pattern": "MEM*-M",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "ssm_state_size": 6,
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "n_groups": 2,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 40,
        "moe_latent_size": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "mlp_bias": True,
    },
    "granitemoehybrid": {
        "hidden_size": 32,
        "intermediate_size": 24,
        "shared_intermediate_size": 20,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "layer_types": ["mamba", "mamba", "attention", "mamba"],
        "mamba_n_heads": 8,
        "mamba_d_state": 6,
    },
    "zamba2": {
        "hidden_size": 32,
        "num_hidden_layers": 6,
        "layers_block_type": ["mamba", "mamba", "hybrid", "mamba", "hybrid", "hybrid"],
        "mamba_d_state": 6,
        "n_mamba_heads": 8,
        "mamba_ngroups": 2,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_mem_blocks": 2,
        "use_shared_attention_adapter": True,
        "adapter_rank": 5,
    },
    "qwen3_next": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 12,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "mlp_only_layers": [1],
    },
    "qwen3_5_text": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 12,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
    },
    "qwen3_5_moe_text": {
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    },
    "lfm2": {
        "hidden_size": 32,
        "intermediate_size": 60,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "full_attn_idxs": [2, 4],
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.3,
        "conv_bias": True,
    },
    "lfm2_moe": {
        "hidden_size": 32,
        "intermediate_size": 60,
        "moe_intermediate_size": 24,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "num_dense_layers": 2,
        "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"],
    },
    "minimax": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_local_experts": 4,
        "block_size": 8,
    },
    "llama4_text": {
        "hidden_size": 32,
        "intermediate_size": 24,
        "intermediate_size_mlp": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_local_experts": 4,
        "interleave_moe_layer_step": 2,
        "attention_chunk_size": 16,
    },
    "gemma4_text": {
        "vocab_size_per_layer_input": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_size_per_layer_input": 6,
        "num_kv_shared_layers": 4,
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "use_double_wide_mlp": True,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 2,
    },
    "kimi_linear": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "moe_intermediate_size": 24,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "q_lora_rank": 12,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "num_experts_per_tok": 2,
        "num_local_experts": 8,
        "n_shared_experts": 2,
        "first_k_dense_replace": 2,
        "pad_token_id": 0,
        "linear_attn_config": {
            "head_dim": 8,
            "num_heads": 3,
            "short_conv_kernel_size": 3,
            "full_attn_layers": [2, 5, 8],
            "kda_layers": [1, 3, 4, 6, 7],
        },
    },
    "gemma3n_text": {
        "vocab_size_per_layer_input": 97,
        "hidden_size": 32,
        "intermediate_size": [48] * 3 + [40] * 3 + [48] * 4,
        "num_hidden_layers": 10,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_size_per_layer_input": 6,
        "num_kv_shared_layers": 5,
        "laurel_rank": 4,
        "altup_num_inputs": 3,
        "sliding_window": 16,
    },
}
"""Every branch of a family at least once, in sizes that no two keys share where it matters."""

FULL: dict[str, dict[str, Any]] = {
    name: {}
    for name in SMALL
    if name not in ("lfm2_moe", "nemotron_h", "bamba", "granitemoehybrid", "falcon_h1", "minimax", "gemma4_text")
}
FULL |= {
    "lfm2_moe": {"num_hidden_layers": 24, "layer_types": (["conv", "conv", "full_attention"] * 8)},
    "nemotron_h": {"hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-", "ssm_state_size": 128},
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "granitemoehybrid": {
        "hidden_size": 4096,
        "intermediate_size": 768,
        "num_hidden_layers": 40,
        "num_local_experts": 72,
        "num_experts_per_tok": 10,
        "shared_intermediate_size": 1536,
        "num_key_value_heads": 8,
        "mamba_d_state": 128,
        "layer_types": (["mamba"] * 9 + ["attention"]) * 4,
    },
    "gemma4_text": {
        "enable_moe_block": True,
        "num_experts": 128,
        "top_k_experts": 8,
        "num_experts_per_tok": 8,  # the oracle's word for it
        "moe_intermediate_size": 704,
        "hidden_size_per_layer_input": 0,
    },
    "falcon_h1": {"num_hidden_layers": 44, "hidden_size": 3072, "num_attention_heads": 12, "num_key_value_heads": 2},
    "minimax": {
        "hidden_size": 6144,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "head_dim": 128,
        "intermediate_size": 9216,
        "num_local_experts": 32,
        "vocab_size": 200064,
        "layer_types": (["linear_attention"] * 7 + ["full_attention"]) * 10,
    },
}

WRAPPED: dict[str, dict[str, Any]] = {
    name: {}
    for name in (
        *("llava", "llava_next", "llava_next_video", "llava_onevision", "gemma3", "paligemma", "mistral3", "mllama"),
        *("cohere2_vision", "lfm2_vl", "internvl", "idefics3", "smolvlm", "llama4", "qwen2_vl", "qwen2_5_vl"),
        *("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "glm4v", "kimi_k25"),
    )
}
WRAPPED |= {
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 12}},
    # The class's own default has 96 heads on a width of 4096, which they do not divide.
    "glm4v_moe": {"text_config": {"model_type": "glm4v_moe_text", "head_dim": 128}},
}
VARIED: dict[str, dict[str, Any]] = {
    "llava": {
        "vision_feature_layer": [-2, -5],
        "multimodal_projector_bias": False,
        "vision_config": {"model_type": "pixtral", "hidden_size": 256, "num_hidden_layers": 3, "patch_size": 8},
        "text_config": {"model_type": "mistral", "num_hidden_layers": 2, "tie_word_embeddings": True},
        "tie_word_embeddings": False,
    },
    "gemma3": {
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, "image_size": 64},
        "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 7, "vocab_size": 1000},
    },
    "mllama": {
        "vision_config": {
            "model_type": "mllama_vision_model",
            "num_hidden_layers": 3,
            "num_global_layers": 2,
            "max_num_tiles": 2,
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
            "image_size": 56,
            "intermediate_layers_indices": [0, 1],
            "vision_output_dim": 3840,
        },
        "text_config": {"model_type": "mllama_text_model", "num_hidden_layers": 6, "cross_attention_layers": [1, 4]},
    },
    "qwen3_vl": {
        "vision_config": {"model_type": "qwen3_vl_vision", "depth": 3, "deepstack_visual_indexes": [1]},
        "text_config": {"model_type": "qwen3_vl_text", "num_hidden_layers": 2},
        "tie_word_embeddings": True,
    },
    "internvl": {
        "vision_config": {"model_type": "internvl_vision", "use_qk_norm": True, "attention_bias": True},
        "text_config": {"model_type": "qwen3", "num_hidden_layers": 2},
        "downsample_ratio": 0.25,
    },
    "lfm2_vl": {
        "projector_use_layernorm": False,
        "vision_config": {"model_type": "siglip2_vision_model", "vision_use_head": False, "num_patches": 64},
        "text_config": {"model_type": "lfm2", "num_hidden_layers": 2, "full_attn_idxs": [1]},
    },
}

IDLE = (
    *("model.vision_tower", "model.visual", "vision_model", "model.vision_model", "model.multi_modal_projector"),
    *("multi_modal_projector", "model.connector", "model.image_newline", "model.mm_projector"),
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """transformers warns of its own renamed arguments."""
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _config(model_type: str, values: dict[str, Any], *, small: bool = False) -> PretrainedConfig:
    return AutoConfig.for_model(model_type, **({"vocab_size": 101} if small else {}), **values)


def _agrees(architecture: Architecture, figures: oracle.Figures) -> None:
    assert architecture.parameters == figures.parameters
    assert architecture.streamed_parameters == figures.streamed


@pytest.mark.parametrize("model_type", SMALL)
def test_small_models_are_counted_exactly(model_type: str) -> None:
    """Parameters and those that one token streams, from a config that takes every branch of the family."""
    config = _config(model_type, SMALL[model_type], small=True)
    _agrees(read_config(config), oracle.measure(config))


@pytest.mark.parametrize("model_type", FULL)
def test_full_models_are_counted_exactly(model_type: str) -> None:
    """Parameters and those that one token streams, at the sizes that people serve."""
    config = _config(model_type, FULL[model_type])
    _agrees(read_config(config), oracle.measure(config))


@pytest.mark.parametrize("model_type", WRAPPED)
def test_wrappers_are_counted_exactly(model_type: str) -> None:
    """The text model as the text model, and every parameter of tower and projector as idle."""
    _wrapped(_config(model_type, WRAPPED[model_type]))


@pytest.mark.parametrize("model_type", VARIED)
def test_varied_wrappers_are_counted_exactly(model_type: str) -> None:
    """Towers without pooling heads, other tilings, several feature layers, and a wrapper that overrules its text."""
    _wrapped(_config(model_type, VARIED[model_type]))


def _wrapped(config: PretrainedConfig) -> None:
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    figures = oracle.measure(config, model, idle=IDLE)
    architecture = read_config(config)
    _agrees(architecture, figures)
    assert architecture.idle_parameters == sum(p.numel() for p in model.parameters()) - figures.parameters


@pytest.mark.parametrize("model_type", [name for name in SMALL if name != "rwkv"])
def test_states_and_keys_are_what_the_cache_holds(model_type: str) -> None:
    """Per layer, the elements and the bytes of recurrent states, and of keys and values per token."""
    config = _config(model_type, SMALL[model_type], small=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    tokens = 5
    # RecurrentGemma returns no cache: it is watched through one that it is given.
    given = {"cache": DynamicCache(config=config)} if model_type == "recurrent_gemma" else {}
    with torch.no_grad():
        output = model(input_ids=torch.ones((1, tokens), dtype=torch.long), use_cache=True, **given)
    cache = given.get("cache") or _cache(output)
    architecture = read_config(config)
    assert Counter(_states(model, cache)) == Counter(
        (cache.state_elements, cache.state_bytes_per_element or 2.0)
        for cache in architecture.caches
        for _ in range(cache.layers if cache.state_elements else 0)
    )
    assert Counter(_keys(cache, tokens)) == Counter(
        cache.elements_per_token
        for cache in architecture.caches
        for _ in range(cache.layers if cache.elements_per_token else 0)
    )


def test_rwkv_keeps_two_inputs_and_three_vectors() -> None:
    """The state of RWKV-4, of which transformers holds one tensor per kind with the layers as its last axis."""
    config = _config("rwkv", SMALL["rwkv"], small=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        state = model(input_ids=torch.ones((1, 5), dtype=torch.long), use_cache=True).state
    held = Counter[float]()
    for tensor in state:
        held[float(tensor.element_size())] += tensor.numel()
    caches = read_config(config).caches
    assert held == Counter(
        {cache.state_bytes_per_element or 2.0: cache.layers * cache.state_elements for cache in caches}
    )


@pytest.mark.parametrize(
    "model_type", ["llama4_text", "gemma3n_text", "gemma4_text", "jamba", "bamba", "qwen3_next", "zamba2"]
)
def test_windows_and_chunks_stop_growing_where_the_reader_says(model_type: str) -> None:
    """Layers whose cache is full at the window or the chunk, beside those that grow on."""
    config = _config(model_type, SMALL[model_type], small=True)
    told = [
        (cache.elements_per_token, cache.window or cache.chunk or 0)
        for cache in read_config(config).caches
        for _ in range(cache.layers if cache.elements_per_token else 0)
    ]
    assert sorted(told) == oracle.in_order(oracle.layer_caches(config))


@pytest.mark.parametrize("part", PARTS)
def test_defaults_of_text_parts_are_those_of_their_classes(part: str) -> None:
    """What a part leaves out is what its class of transformers fills in."""
    config = AutoConfig.for_model(part)
    for key, value in PARTS[part][1].items():
        found = getattr(config, key, None)
        assert found == value or (isinstance(found, list) and set(found) == {value}), key


@pytest.mark.parametrize(
    ("model_type", "defaults"),
    [
        ("mamba", recurrent.MAMBA),
        ("falcon_mamba", recurrent.MAMBA),
        ("mamba2", recurrent.MAMBA2),
        ("recurrent_gemma", recurrent.RECURRENT_GEMMA),
        ("jamba", hybrid.JAMBA),
        ("bamba", hybrid.MAMBA2_KEYS),
        ("falcon_h1", hybrid.MAMBA2_KEYS),
        ("nemotron_h", hybrid.NEMOTRON_H),
        ("zamba2", zamba.DEFAULTS),
        ("qwen3_next", linear_attention.QWEN3_NEXT),
        ("lfm2", linear_attention.LFM2),
        ("llama4_text", nested.LLAMA4),
        ("gemma3n_text", nested.GEMMA3N),
        ("gemma4_text", gemma4.DEFAULTS),
        ("kimi_linear", kimi_linear.DEFAULTS),
    ],
)
def test_defaults_are_those_of_the_classes(model_type: str, defaults: dict[str, Any]) -> None:
    """What a config leaves out is what transformers fills in."""
    written = AutoConfig.for_model(model_type).to_dict()
    # The two that the class takes apart as it reads them.
    derived = {"full_attention_interval": 4, "mamba_d_head": "auto"}
    for key, value in defaults.items():
        assert derived.get(key, written.get(key)) == value, key


TOWERS = {
    **dict.fromkeys(("llava", "llava_next", "llava_next_video"), "clip_vision_model"),
    **dict.fromkeys(("llava_onevision", "gemma3", "paligemma", "cohere2_vision", "aya_vision"), "siglip_vision_model"),
    "mistral3": "pixtral",
    "lfm2_vl": "siglip2_vision_model",
    "mllama": "mllama_vision_model",
    "llama4": "llama4_vision_model",
    **{
        name: f"{name}_vision"
        for name in ("internvl", "idefics3", "smolvlm", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v")
    },
    "kimi_k25": "kimi_k25_vision",
}


@pytest.mark.parametrize("model_type", TOWERS)
def test_towers_are_filled_in_by_their_classes(model_type: str) -> None:
    """A wrapper that names no size of its tower or its text has those of the classes, on both sides."""
    # LFM2 has no default that says which layers attend: this reader asks.
    text = {"model_type": WRAPPERS[model_type].text, "num_hidden_layers": 4}
    text |= {"full_attn_idxs": [1]} if model_type == "lfm2_vl" else {}
    config = {"text_config": text, "vision_config": {"model_type": TOWERS[model_type]}, "tie_word_embeddings": False}
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(_config(model_type, config))
    total = sum(parameter.numel() for parameter in model.parameters())
    architecture = read_config({"model_type": model_type, **config})
    assert architecture.parameters + architecture.idle_parameters == total


def test_a_part_of_a_wrapper_that_says_little_is_filled_in() -> None:
    """As files are written: the text part of Llama 4 names its type, and the rest is the class's default."""
    config = {"model_type": "llama4", "text_config": {"model_type": "llama4_text"}, "tie_word_embeddings": False}
    _agrees(read_config(config), oracle.measure(_config("llama4_text", {})))


def _states(model: torch.nn.Module, cache: Any) -> list[tuple[int, float]]:
    """(elements, bytes of one) of every recurrent state of every layer."""
    tensors: list[torch.Tensor] = []
    for layer in getattr(cache, "layers", []):
        for name in ("conv_states", "recurrent_states"):
            tensors += [state for state in (getattr(layer, name, None) or {}).values() if state is not None]
    tensors += [state for state in getattr(cache, "linear_cache", []) if len(state)]
    for module in model.modules():
        tensors += [
            state
            for name in ("conv1d_state", "recurrent_states")
            if isinstance(state := getattr(module, name, None), torch.Tensor)
        ]
    return [(state.numel(), float(state.element_size())) for state in tensors]


def _keys(cache: Any, tokens: int) -> list[int]:
    return [
        (layer.keys.numel() + layer.values.numel()) // tokens
        for layer in getattr(cache, "layers", [])
        if getattr(layer, "keys", None) is not None
    ]


def _cache(output: Any) -> Any:
    return output.get("past_key_values") or output.get("cache_params") or output.get("cache")
