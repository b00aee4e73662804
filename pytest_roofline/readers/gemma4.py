"""Gemma 4's text models: local and global layers with heads of different widths, shared keys, per-layer embeddings.

Global layers have wider heads, and may use their keys as values (one matrix less; both are cached). The last
``num_kv_shared_layers`` layers attend to the keys of earlier ones: read again, counted once as bytes that a pass must
read at least, but for every layer's FLOPs. Per-layer embeddings are looked up, not streamed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Heads
from pytest_roofline.readers.fields import Family, Fields, shown
from pytest_roofline.readers.layer_kinds import ATTENTION, read_kinds

DEFAULTS = {
    "num_key_value_heads": 4,
    "head_dim": 256,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262_144,
    "hidden_size_per_layer_input": 256,
    "attention_k_eq_v": False,
    "num_kv_shared_layers": 0,
    "enable_moe_block": False,
    "use_double_wide_mlp": False,
}
SLIDING = "sliding_attention"
LAYER = "model.layers.*"
NORMS = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What layers of one build share; layers of one kind stand together in weights and caches."""

    heads: Heads
    window: int | None
    shares: bool
    """Whether it attends to the keys of an earlier layer."""
    value: bool
    """Whether it has a matrix for values."""


def gemma4(fields: Fields) -> Architecture:
    """Gemma 4, dense or with experts beside the feed-forward."""
    fields = fields.with_defaults(DEFAULTS)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    kinds = _kinds(fields, hidden, count)
    shared = fields.count("num_kv_shared_layers")
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, NORMS, hidden, tuple(range(count))),
        *(weight for kind, layers in kinds.items() for weight in _attention(fields, hidden, kind, layers)),
        *_feed_forward(fields, hidden, count, shared),
        *(_experts(fields, hidden, count) if fields.flag("enable_moe_block") else []),
        *(_per_layer(fields, hidden, count) if fields.count("hidden_size_per_layer_input") else []),
        *blocks.norm("model.norm", hidden),
    ]
    caches = [
        CacheLayers(
            name="attention to shared keys" if kind.shares else "sliding attention" if kind.window else "attention",
            layers=len(layers),
            elements_per_token=0 if kind.shares else kind.heads.kv_elements_per_token,
            kv_heads=kind.heads.kv,
            window=kind.window,
            flops_per_position=kind.heads.flops_per_position,
        )
        for kind, layers in kinds.items()
    ]
    notes = (
        [f"{shared} of {count} layers attend to the keys of earlier ones: read again, counted once"] if shared else []
    )
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden, notes=notes)


def _kinds(fields: Fields, hidden: int, count: int) -> dict[_Kind, tuple[int, ...]]:
    words = {SLIDING: SLIDING, ATTENTION: ATTENTION}
    named = fields.has("layer_types")
    words_of = read_kinds(fields, "layer_types", count, words) if named else ()
    shared, equal = fields.count("num_kv_shared_layers"), fields.flag("attention_k_eq_v")
    if shared >= count:
        raise fields.fail("num_kv_shared_layers", f"{shared} of {count} layers: one at least keeps keys of its own")
    overrides = _overrides(fields, count)
    kinds: dict[_Kind, list[int]] = {}
    for layer in range(count):
        # The class makes the last layer global whatever the list says.
        sliding = (words_of[layer] == SLIDING if named else (layer + 1) % 6 != 0) and layer != count - 1
        kind = _Kind(
            heads=_heads(fields, hidden, overrides.get(layer), sliding=sliding),
            window=fields.size("sliding_window") if sliding else None,
            shares=layer >= count - shared,
            value=sliding or not equal,
        )
        kinds.setdefault(kind, []).append(layer)
    return {kind: tuple(layers) for kind, layers in kinds.items()}


def _overrides(fields: Fields, count: int) -> dict[int, dict[str, int]]:
    """By layer, the sizes in ``per_layer_config``; its keys are numbers as text, with leading zeros or without."""
    if not fields.has("per_layer_config"):
        return {}
    per_layer = fields.part("per_layer_config")
    found: dict[int, dict[str, int]] = {}
    for key in per_layer.values:
        if not isinstance(key, str) or not key.isascii() or not key.isdigit() or len(key) > 9 or int(key) >= count:
            raise fields.fail("per_layer_config", f"key {shown(key)}: a layer from 0 to {count - 1} is needed")
        part = per_layer.part(key)
        found[int(key)] = {name: part.size(name) for name in ("head_dim", "num_key_value_heads") if part.has(name)}
    return found


def _heads(fields: Fields, hidden: int, overrides: dict[str, int] | None, *, sliding: bool) -> Heads:
    """By ``per_layer_config``, else global layers have ``global_head_dim`` and ``num_global_key_value_heads``."""
    if overrides is None and not fields.has("per_layer_config") and not sliding:
        overrides = {"head_dim": fields.size("global_head_dim", 512)}
        if fields.flag("attention_k_eq_v") and fields.has("num_global_key_value_heads"):
            overrides["num_key_value_heads"] = fields.size("num_global_key_value_heads")
    return blocks.read_heads(replace(fields, values={**fields.values, **(overrides or {})}), hidden)


def _attention(fields: Fields, hidden: int, kind: _Kind, layers: tuple[int, ...]) -> list[Weight]:
    prefix, bias, heads = f"{LAYER}.self_attn", fields.flag("attention_bias"), kind.heads
    queries, keys = heads.query * heads.dim, heads.kv * heads.dim
    weights = [
        *blocks.linear(f"{prefix}.q_proj", "attn_q", queries, hidden, layers, bias=bias),
        *blocks.linear(f"{prefix}.o_proj", "attn_output", hidden, queries, layers, bias=bias),
        *blocks.norm(f"{prefix}.q_norm", heads.dim, layers),
    ]
    if kind.shares:
        return weights
    weights += blocks.linear(f"{prefix}.k_proj", "attn_k", keys, hidden, layers, bias=bias)
    weights += blocks.norm(f"{prefix}.k_norm", heads.dim, layers)
    return weights + (
        blocks.linear(f"{prefix}.v_proj", "attn_v", keys, hidden, layers, bias=bias) if kind.value else []
    )


def _feed_forward(fields: Fields, hidden: int, count: int, shared: int) -> list[Weight]:
    """Twice as wide in the layers that share keys, where the config says so."""
    width = fields.size("intermediate_size")
    wide = tuple(range(count - shared, count)) if fields.flag("use_double_wide_mlp") else ()
    weights = blocks.gated(f"{LAYER}.mlp", hidden, width, tuple(range(count - len(wide))))
    return weights + (blocks.gated(f"{LAYER}.mlp", hidden, 2 * width, wide) if wide else [])


def _experts(fields: Fields, hidden: int, count: int) -> list[Weight]:
    layers = tuple(range(count))
    experts, per_token = blocks.read_experts(fields, "num_experts", "top_k_experts")
    width = fields.size("moe_intermediate_size")
    extra = ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")
    return [
        *blocks.router(f"{LAYER}.router.proj", experts, hidden, layers),
        *blocks.vector(f"{LAYER}.router.scale", hidden, layers, part="router"),
        *blocks.vector(f"{LAYER}.router.per_expert_scale", experts, layers, part="router"),
        blocks.routed(f"{LAYER}.experts.gate_up_proj", "ffn_gate_up", (2 * width, hidden), layers, experts, per_token),
        blocks.routed(f"{LAYER}.experts.down_proj", "ffn_down", (hidden, width), layers, experts, per_token),
        *blocks.norms(LAYER, extra, hidden, layers),
    ]


def _per_layer(fields: Fields, hidden: int, count: int) -> list[Weight]:
    width, layers = fields.size("hidden_size_per_layer_input"), tuple(range(count))
    return [
        *blocks.lookup("model.embed_tokens_per_layer", fields.size("vocab_size_per_layer_input"), count * width),
        *blocks.linear("model.per_layer_model_projection", "other", count * width, hidden),
        *blocks.norm("model.per_layer_projection_norm", width),
        *blocks.linear(f"{LAYER}.per_layer_input_gate", "other", width, hidden, layers),
        *blocks.linear(f"{LAYER}.per_layer_projection", "other", hidden, width, layers),
        *blocks.norm(f"{LAYER}.post_per_layer_input_norm", hidden, layers),
    ]


FAMILIES: dict[str, Family] = {"gemma4_text": gemma4}
