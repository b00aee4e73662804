"""Kimi Linear: Kimi delta attention in most layers, multi-head latent attention in the others, experts after the first.

A layer of delta attention keeps a float32 matrix per head and the last inputs of its convolution, a layer of latent
attention one latent per token (see `latent`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Layers
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.latent import latent_attention, latent_cache
from pytest_roofline.readers.layer_kinds import ATTENTION, RECURRENT, of_kind, others, read_indices, read_kinds
from pytest_roofline.readers.recurrent import convolution, state_vector, states

DEFAULTS = {
    "tie_word_embeddings": False,
    "attention_bias": False,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "linear_head_dim": 128,
    "linear_num_heads": 32,
    "linear_conv_kernel_dim": 4,
}
LAYER = "model.layers.*"


def kimi_linear(fields: Fields) -> Architecture:
    """Kimi Linear. Moonshot's own files keep the linear layers' sizes and numbers in ``linear_attn_config``."""
    fields = fields.with_defaults(DEFAULTS)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every, kinds = tuple(range(count)), _kinds(fields, count)
    latent, delta = of_kind(kinds, ATTENTION), of_kind(kinds, RECURRENT)
    first = _dense_layers(fields, count)
    weights = [
        # Whatever tie_word_embeddings says, its classes keep a head of its own.
        *blocks.tables(fields.size("vocab_size"), hidden, tied=False),
        *blocks.norms(LAYER, ("input_layernorm", "post_attention_layernorm"), hidden, every),
        *(latent_attention(fields, hidden, latent) if latent else []),
        *blocks.norm("model.norm", hidden),
    ]
    caches: list[CacheLayers] = [latent_cache(fields, len(latent))] if latent else []
    if delta:
        projections, held = _delta_attention(fields, hidden, delta)
        weights += projections
        caches += held
    if first:
        weights += blocks.gated(f"{LAYER}.mlp", hidden, fields.size("intermediate_size"), first)
    mixed = others(count, first)
    if mixed:
        weights += _experts(fields, hidden, mixed)
    return blocks.assemble(
        fields,
        weights,
        caches,
        layers=count,
        hidden=hidden,
        max_context=fields.either("model_max_length", "max_position_embeddings"),
    )


def _linear_sizes(fields: Fields) -> tuple[int, int, int]:
    """Heads, width of a head and length of the convolution."""
    if not fields.has("linear_attn_config"):
        keys = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
        heads, width, kernel = (fields.size(key) for key in keys)
        return heads, width, kernel
    part = fields.part("linear_attn_config")
    return (
        part.size("num_heads", fields.size("linear_num_heads")),
        part.size("head_dim", fields.size("linear_head_dim")),
        part.size("short_conv_kernel_size", fields.size("linear_conv_kernel_dim")),
    )


def _kinds(fields: Fields, layers: int) -> Sequence[str]:
    """By ``layer_types``, else by the numbers (from 1) in ``linear_attn_config``, else latent in every fourth layer."""
    if fields.has("layer_types"):
        return read_kinds(fields, "layer_types", layers)
    if fields.has("linear_attn_config") and fields.part("linear_attn_config").has("full_attn_layers"):
        part = fields.part("linear_attn_config")
        # Numbered from 1: a model of one layer more has every number as an index.
        latent = {number - 1 for number in read_indices(part, "full_attn_layers", layers + 1)}
        if -1 in latent:
            raise part.fail("full_attn_layers", "0: its layers are numbered from 1")
        return [ATTENTION if layer in latent else RECURRENT for layer in range(layers)]
    return [ATTENTION if layer and layer % 4 == 0 else RECURRENT for layer in range(layers)]


def _dense_layers(fields: Fields, layers: int) -> Layers:
    if fields.has("mlp_layer_types"):
        words = {"dense": "dense", "sparse": "sparse"}
        return of_kind(read_kinds(fields, "mlp_layer_types", layers, words), "dense")
    return tuple(range(min(fields.count("first_k_dense_replace", 1), layers)))


def _delta_attention(fields: Fields, hidden: int, layers: Layers) -> tuple[list[Weight], list[CacheLayers]]:
    heads, width, kernel = _linear_sizes(fields)
    inner, prefix = heads * width, f"{LAYER}.self_attn"
    weights = [
        *blocks.linear(f"{prefix}.q_proj", "attn_q", inner, hidden, layers),
        *blocks.linear(f"{prefix}.k_proj", "attn_k", inner, hidden, layers),
        *blocks.linear(f"{prefix}.v_proj", "attn_v", inner, hidden, layers),
        *(w for name in "qkv" for w in convolution(f"{prefix}.{name}_conv1d", inner, kernel, layers, bias=False)),
        *blocks.linear(f"{prefix}.f_a_proj", "other", width, hidden, layers),
        *blocks.linear(f"{prefix}.f_b_proj", "other", inner, width, layers),
        *blocks.linear(f"{prefix}.g_a_proj", "other", width, hidden, layers),
        *blocks.linear(f"{prefix}.g_b_proj", "other", inner, width, layers),
        *blocks.linear(f"{prefix}.b_proj", "other", heads, hidden, layers),
        *state_vector(f"{prefix}.dt_bias", (inner,), layers),
        *state_vector(f"{prefix}.A_log", (1, 1, heads, 1), layers),
        *blocks.norm(f"{prefix}.o_norm", width, layers),
        *blocks.linear(f"{prefix}.o_proj", "attn_output", hidden, inner, layers),
    ]
    held = states("Kimi delta attention", len(layers), convolution=3 * inner * kernel, state=heads * width * width)
    return weights, held


def _experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    experts, per_token = blocks.read_experts(
        fields,
        fields.either("num_experts", "num_local_experts"),
        fields.either("num_experts_per_token", "num_experts_per_tok"),
    )
    width, prefix = fields.size("moe_intermediate_size"), f"{LAYER}.mlp"
    shared = fields.count(fields.either("num_shared_experts", "n_shared_experts"), 1)
    weights = [
        *blocks.router(f"{prefix}.gate", experts, hidden, layers),
        *blocks.gated_experts(f"{prefix}.experts", hidden, width, layers, experts=experts, per_token=per_token),
    ]
    return weights + (blocks.gated(f"{prefix}.shared_experts", hidden, shared * width, layers) if shared else [])


FAMILIES: dict[str, Family] = {"kimi_linear": kimi_linear}
