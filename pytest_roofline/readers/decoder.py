"""A decoder as most models are built, and the ways in which families differ from it.

`Style` says them as data, so that a family of `dense` or `mixture` is one line; what goes further has a reader of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.readers.blocks import (
    Heads,
    Layers,
    assemble,
    attention,
    gated,
    kv_caches,
    layer_count,
    norm,
    norms,
    plain,
    read_heads,
    read_windows,
    tables,
    vector,
)
from pytest_roofline.readers.fields import Fields

Switch = bool | str
"""True, False, or the key of the config that says so."""

FeedForward = Callable[[Fields, int, Layers], list[Weight]]
"""The weights that follow the attention in these layers; given the fields and the width."""

Windows = Callable[[Fields, int], "list[int | None]"]
"""The window of each of so many layers, None for full attention."""


def no_windows(fields: Fields, layers: int) -> list[int | None]:
    """Every layer attends to the whole context."""
    return [None] * layers


def one_window(fields: Fields, layers: int) -> list[int | None]:
    """Every layer slides over ``sliding_window`` tokens, where the config has one."""
    return [window_size(fields)] * layers


def typed_windows(period: int, *, full: int = -1, key: str | None = None) -> Windows:
    """By ``layer_types``; without them one layer in `period` is full: the last of each period, or its first.

    `key`: the key by which a config may give another period.
    """

    def read(fields: Fields, layers: int) -> list[int | None]:
        every = period if key is None else fields.size(key, period)
        return read_windows(fields, layers, window_size(fields), lambda layer: layer % every != full % every)

    return read


def all_windows(fields: Fields, layers: int) -> list[int | None]:
    """By ``layer_types``; without them every layer slides."""
    return read_windows(fields, layers, window_size(fields), lambda layer: True)


def late_windows(fields: Fields, layers: int) -> list[int | None]:
    """Layers from ``max_window_layers`` on slide, where ``use_sliding_window`` switches that on."""
    window = window_size(fields) if fields.flag("use_sliding_window", False) else None
    start = fields.count("max_window_layers", 0)
    return read_windows(fields, layers, window, lambda layer: layer >= start)


def window_size(fields: Fields) -> int | None:
    """``sliding_window``, None where the config has none."""
    return fields.size("sliding_window") if fields.has("sliding_window") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a family builds its decoder; the defaults are Llama's."""

    qkv_bias: Switch = "attention_bias"
    output_bias: Switch = "attention_bias"
    output: str = "o_proj"
    fused_qkv: str | None = None
    query_norm: Literal["none", "head", "whole"] = "none"
    """Norms of queries and keys: none, over one head's width, over all heads together."""
    query_norm_names: tuple[str, str] = ("q_norm", "k_norm")
    query_norm_if: str | None = None
    """The key that switches these norms on."""
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    norm_bias: bool = False
    last_norm: str | None = "model.norm"
    mlp: Literal["gated", "fused", "plain"] = "gated"
    mlp_names: tuple[str, str] = ("up_proj", "down_proj")
    """Of a plain feed-forward."""
    mlp_bias: Switch = False
    head_bias: Switch = False
    is_parallel: Switch = False
    """Whether attention and feed-forward are added to the residual side by side: one all-reduce sums both."""
    windows: Windows = no_windows
    extra: Callable[[Fields, Heads, Layers], list[Weight]] | None = None
    """What else each layer has: sinks, activations with parameters."""


def switched(fields: Fields, switch: Switch) -> bool:
    """What a `Switch` says for this config."""
    return switch if isinstance(switch, bool) else fields.flag(switch)


def read_decoder(fields: Fields, style: Style, feed_forward: FeedForward | None = None) -> Architecture:
    """The architecture of a decoder of this style; `feed_forward` replaces the style's own."""
    hidden, count = fields.size("hidden_size"), layer_count(fields)
    layers = tuple(range(count))
    heads = read_heads(fields, hidden)
    weights = [
        *tables(
            fields.size("vocab_size"),
            hidden,
            tied=fields.flag("tie_word_embeddings"),
            head_bias=switched(fields, style.head_bias),
        ),
        *attention_weights(fields, style, hidden, heads, layers),
        *(feed_forward(fields, hidden, layers) if feed_forward else mlp_weights(fields, style, hidden, layers)),
        *norms("model.layers.*", style.norms, hidden, layers, bias=style.norm_bias),
    ]
    if style.last_norm is not None:
        weights += norm(style.last_norm, hidden, bias=style.norm_bias)
    read = assemble(fields, weights, kv_caches(heads, style.windows(fields, count)), layers=count, hidden=hidden)
    return replace(read, reductions=count) if switched(fields, style.is_parallel) else read


def attention_weights(fields: Fields, style: Style, hidden: int, heads: Heads, layers: Layers) -> list[Weight]:
    """Projections, norms of queries and keys, and the style's extras."""
    prefix = "model.layers.*.self_attn"
    weights = attention(
        prefix,
        hidden,
        heads,
        layers,
        bias=switched(fields, style.qkv_bias),
        output_bias=switched(fields, style.output_bias),
        output=style.output,
        fused=style.fused_qkv,
    )
    if style.query_norm != "none" and (style.query_norm_if is None or fields.flag(style.query_norm_if)):
        whole = style.query_norm == "whole"
        for name, number in zip(style.query_norm_names, (heads.query, heads.kv), strict=True):
            width = heads.dim * number if whole else heads.dim
            weights += norm(f"{prefix}.{name}", width, layers, bias=style.norm_bias and not whole)
    return weights if style.extra is None else [*weights, *style.extra(fields, heads, layers)]


def mlp_weights(fields: Fields, style: Style, hidden: int, layers: Layers) -> list[Weight]:
    """The dense feed-forward of a style in these layers."""
    width, bias, prefix = fields.size("intermediate_size"), switched(fields, style.mlp_bias), "model.layers.*.mlp"
    if style.mlp == "plain":
        return plain(prefix, hidden, width, layers, bias=bias, names=style.mlp_names)
    return gated(prefix, hidden, width, layers, bias=bias, fused="gate_up_proj" if style.mlp == "fused" else None)


def sinks(fields: Fields, heads: Heads, layers: Layers) -> list[Weight]:
    """One learned attention sink per query head."""
    return vector("model.layers.*.self_attn.sinks", heads.query, layers, part="other")
