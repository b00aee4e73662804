"""Multi-head latent attention: DeepSeek V2 and V3, Kimi K2, GLM-4.7 Flash, MiniCPM3.

A layer keeps one latent of ``kv_lora_rank`` and one rope key of ``qk_rope_head_dim`` per token, whatever the number of
heads. Engines without a kernel for it unfold and cache every head, which is many times more: a note says how much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers.blocks import Layers, assemble, layer_count, linear, norm, norms, tables
from pytest_roofline.readers.decoder import FeedForward, Style, mlp_weights
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.mixture import dense_first, shared_and_routed
from pytest_roofline.readers.prediction_layers import numbered_layers

_GATED = Style()


Extra = Callable[[Fields, int, Layers], list[Weight]]
"""What else the attention of these layers has; given the fields and the width."""


def read_latent(
    fields: Fields,
    feed_forward: FeedForward,
    predicting: FeedForward,
    *,
    extra: Extra | None = None,
    caches: Sequence[CacheLayers] = (),
) -> Architecture:
    """`predicting`: what follows the attention in layers for multi-token prediction; of a mixture, the experts.

    `caches`: what all layers together keep, where it is more than the latents.
    """
    hidden, count = fields.size("hidden_size"), layer_count(fields)
    layers = tuple(range(count))

    def block(layers: Layers, feed_forward: FeedForward) -> list[Weight]:
        return [
            *latent_attention(fields, hidden, layers),
            *([] if extra is None else extra(fields, hidden, layers)),
            *feed_forward(fields, hidden, layers),
            *norms("model.layers.*", ("input_layernorm", "post_attention_layernorm"), hidden, layers),
        ]

    weights = [
        *tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *block(layers, feed_forward),
        *norm("model.norm", hidden),
        *numbered_layers(fields, hidden, count, lambda layers: block(layers, predicting)),
    ]
    kept = caches or [latent_cache(fields, count)]
    return assemble(fields, weights, kept, layers=count, hidden=hidden, notes=_notes(fields))


def latent_attention(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """Down and up projections of queries (or one, without ``q_lora_rank``) and of keys and values."""
    heads, latent, bias = fields.size("num_attention_heads"), fields.size("kv_lora_rank"), fields.flag("attention_bias")
    nope, rope, value = (fields.size(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    prefix = "model.layers.*.self_attn"
    if fields.has("q_lora_rank"):
        rank = fields.size("q_lora_rank")
        weights = [
            *linear(f"{prefix}.q_a_proj", "attn_q", rank, hidden, layers, bias=bias),
            *norm(f"{prefix}.q_a_layernorm", rank, layers),
            *linear(f"{prefix}.q_b_proj", "attn_q", heads * (nope + rope), rank, layers),
        ]
    else:
        weights = linear(f"{prefix}.q_proj", "attn_q", heads * (nope + rope), hidden, layers)
    return [
        *weights,
        *linear(f"{prefix}.kv_a_proj_with_mqa", "attn_k", latent + rope, hidden, layers, bias=bias),
        *norm(f"{prefix}.kv_a_layernorm", latent, layers),
        *linear(f"{prefix}.kv_b_proj", "attn_v", heads * (nope + value), latent, layers),
        *linear(f"{prefix}.o_proj", "attn_output", hidden, heads * value, layers, bias=bias),
    ]


def latent_cache(fields: Fields, layers: int) -> CacheLayers:
    """Latent and rope key; the FLOPs are those of unfolded heads, the least that any scheme needs per position.

    Kernels that work on the latent itself spend ``2 * heads * (2 * kv_lora_rank + rope)`` instead, more FLOPs for
    fewer bytes. Only the least can make a claim impossible, so the least is counted; unfolding a position from the
    latent (``kv_b_proj``) is not counted.
    """
    heads, rope = fields.size("num_attention_heads"), fields.size("qk_rope_head_dim")
    unfolded = fields.size("qk_nope_head_dim") + rope + fields.size("v_head_dim")
    return CacheLayers(
        name="MLA",
        layers=layers,
        elements_per_token=fields.size("kv_lora_rank") + rope,
        kv_heads=1,
        flops_per_position=2 * heads * unfolded,
    )


def _notes(fields: Fields) -> tuple[str, ...]:
    heads, rope = fields.size("num_attention_heads"), fields.size("qk_rope_head_dim")
    unfolded = heads * (fields.size("qk_nope_head_dim") + rope + fields.size("v_head_dim"))
    kept = fields.size("kv_lora_rank") + rope
    return (
        f"MLA keeps {kept:,} elements per token and layer; an engine without MLA kernels caches {unfolded:,} "
        f"({unfolded / kept:.0f}x)",
    )


def _deepseek_v2(fields: Fields) -> Architecture:
    bias = fields.flag("mlp_bias")
    experts = partial(shared_and_routed, shared_bias=bias)
    return read_latent(fields, dense_first(Style(mlp_bias=bias), experts), experts)


def _deepseek_v3(fields: Fields) -> Architecture:
    return read_latent(fields, dense_first(_GATED), shared_and_routed)


def kinds_of_feed_forward(
    fields: Fields, hidden: int, layers: Layers, *, dense_layers: int | None = None
) -> list[Weight]:
    """Which layers are dense stands in ``mlp_layer_types``; without it, the first `dense_layers` of them are
    (None: ``first_k_dense_replace``)."""
    first = min(fields.count("first_k_dense_replace") if dense_layers is None else dense_layers, len(layers))
    kinds = fields.items("mlp_layer_types", ["dense"] * first + ["sparse"] * (len(layers) - first))
    if len(kinds) != len(layers):
        raise fields.fail("mlp_layer_types", f"{len(kinds)} entries for {len(layers)} layers")
    dense = tuple(layer for layer in layers if kinds[layer] != "sparse")
    sparse = tuple(layer for layer in layers if kinds[layer] == "sparse")
    weights = mlp_weights(fields, _GATED, hidden, dense) if dense else []
    return [*weights, *shared_and_routed(fields, hidden, sparse)] if sparse else weights


def _glm4_moe_lite(fields: Fields) -> Architecture:
    return read_latent(fields, partial(kinds_of_feed_forward, dense_layers=1), shared_and_routed)


def _dense(fields: Fields) -> Architecture:
    return _dense_of(fields, _GATED)


def _dense_of(fields: Fields, style: Style) -> Architecture:
    def feed_forward(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
        return mlp_weights(fields, style, hidden, layers)

    return read_latent(fields, feed_forward, feed_forward)


def _minicpm3(fields: Fields) -> Architecture:
    """Where ``v_head_dim`` is not given, a value is as wide as the share of one head."""
    heads = fields.size("num_attention_heads")
    fields = fields.with_defaults({"v_head_dim": fields.size("hidden_size") // heads})
    return _dense_of(fields, Style(mlp_bias="mlp_bias"))


FAMILIES: dict[str, Family] = {
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "kimi_k2": _deepseek_v3,
    "glm4_moe_lite": _glm4_moe_lite,
    "minicpm3": _minicpm3,
    "youtu": _dense,
}
