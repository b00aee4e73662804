"""Models without attention, and their mixers: Mamba, Mamba-2, Falcon-Mamba, RWKV-4, RecurrentGemma.

A recurrent layer remembers a constant amount: the last inputs of its convolution and a state. Both are read and
written by each pass. transformers keeps the state in float32 whatever the model's dtype, and the convolution's inputs
in the model's dtype; so do we, as two `CacheLayers`. (vLLM keeps both in the model's dtype unless told otherwise, hence
`Inventory.at_least`.)

Not counted: the FLOPs of the recurrence itself, a few per element of state, which is read from memory in any case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Layers
from pytest_roofline.readers.fields import Family, Fields, shown

FLOAT32_BYTES = 4.0

MAMBA = {"use_bias": False, "use_conv_bias": True, "expand": 2, "conv_kernel": 4, "tie_word_embeddings": True}
MAMBA2 = {**MAMBA, "tie_word_embeddings": False}
RECURRENT_GEMMA = {
    "conv1d_width": 4,
    "attention_window_size": 2048,
    "block_types": ["recurrent", "recurrent", "attention"],
    "attention_bias": False,
    "tie_word_embeddings": True,
}


def convolution(name: str, channels: int, kernel: int, layers: Layers, *, bias: bool) -> list[Weight]:
    """A depthwise convolution over the last `kernel` tokens; too small to quantize."""
    shape = (channels, 1, kernel)
    weights = [Weight(name=name, part="conv", shape=shape, use="vector", layers=layers)]
    return [*weights, *blocks.vector(f"{name}.bias", channels, layers, part="bias")] if bias else weights


def state_vector(name: str, shape: tuple[int, ...], layers: Layers) -> list[Weight]:
    """Decays, skips and time steps of a recurrence: read whole, never quantized."""
    return [Weight(name=name, part="state", shape=shape, use="vector", layers=layers)]


def states(name: str, layers: int, *, convolution: int, state: int) -> list[CacheLayers]:
    """What recurrent layers hold per sequence: inputs of the convolution (in the model's dtype), a float32 state."""
    if not layers:
        return []
    return [
        CacheLayers(name=f"{name} convolution", layers=layers, state_elements=convolution),
        CacheLayers(name=f"{name} state", layers=layers, state_elements=state, state_bytes_per_element=FLOAT32_BYTES),
    ]


def split_evenly(fields: Fields, key: str, parts: int, total: int, of: str) -> int:
    """``total / parts``, an error at `key` where it is no whole number."""
    if total % parts:
        raise fields.fail(key, f"{parts}: does not divide {of}, {total}")
    return total // parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba:
    """Sizes of a Mamba-1 mixer."""

    hidden: int
    inner: int
    state: int
    kernel: int
    rank: int
    """Of the time step's projection."""
    bias: bool
    conv_bias: bool

    def weights(self, prefix: str, layers: Layers) -> list[Weight]:
        """The mixer of each of `layers`; nothing for none."""
        if not layers:
            return []
        return [
            *blocks.linear(f"{prefix}.in_proj", "other", 2 * self.inner, self.hidden, layers, bias=self.bias),
            *convolution(f"{prefix}.conv1d", self.inner, self.kernel, layers, bias=self.conv_bias),
            *blocks.linear(f"{prefix}.x_proj", "other", self.rank + 2 * self.state, self.inner, layers),
            *blocks.linear(f"{prefix}.dt_proj", "other", self.inner, self.rank, layers, bias=True),
            *state_vector(f"{prefix}.A_log", (self.inner, self.state), layers),
            *state_vector(f"{prefix}.D", (self.inner,), layers),
            *blocks.linear(f"{prefix}.out_proj", "other", self.hidden, self.inner, layers, bias=self.bias),
        ]

    def states(self, layers: int) -> list[CacheLayers]:
        """Per layer ``inner * kernel`` inputs and ``inner * state`` of state."""
        return states("Mamba", layers, convolution=self.inner * self.kernel, state=self.inner * self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """Sizes of a Mamba-2 mixer; ``inner`` is ``heads * head_dim``."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    bias: bool
    conv_bias: bool
    output_bias: bool | None = None
    """Where it differs from the entry's `bias`."""
    gated_norm: bool = True

    @property
    def inner(self) -> int:
        """Width inside the mixer."""
        return self.heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Channels of the convolution: the inner ones and B and C of each group."""
        return self.inner + 2 * self.groups * self.state

    def weights(self, prefix: str, layers: Layers) -> list[Weight]:
        """The mixer of each of `layers`; nothing for none."""
        if not layers:
            return []
        projected = self.inner + self.convolved + self.heads
        output_bias = self.bias if self.output_bias is None else self.output_bias
        return [
            *blocks.linear(f"{prefix}.in_proj", "other", projected, self.hidden, layers, bias=self.bias),
            *convolution(f"{prefix}.conv1d", self.convolved, self.kernel, layers, bias=self.conv_bias),
            *(item for name in ("dt_bias", "A_log", "D") for item in self._per_head(f"{prefix}.{name}", layers)),
            *(blocks.norm(f"{prefix}.norm", self.inner, layers) if self.gated_norm else []),
            *blocks.linear(f"{prefix}.out_proj", "other", self.hidden, self.inner, layers, bias=output_bias),
        ]

    def _per_head(self, name: str, layers: Layers) -> list[Weight]:
        return state_vector(name, (self.heads,), layers)

    def states(self, layers: int) -> list[CacheLayers]:
        """Per layer ``convolved * kernel`` inputs and ``heads * head_dim * state`` of state."""
        return states("Mamba-2", layers, convolution=self.convolved * self.kernel, state=self.inner * self.state)


def time_step_rank(fields: Fields, key: str, hidden: int) -> int:
    """The rank written at `key`; ``auto`` or nothing means a sixteenth of the width."""
    return math.ceil(hidden / 16) if fields.get(key) in (None, "auto") else fields.size(key)


def _every_layer(fields: Fields) -> Layers:
    return tuple(range(blocks.layer_count(fields)))


def _backbone(fields: Fields, hidden: int, layers: Layers, mixer: Sequence[Weight]) -> list[Weight]:
    return [
        *blocks.tables(
            fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings"), embedding="backbone.embeddings"
        ),
        *blocks.norm("backbone.layers.*.norm", hidden, layers),
        *mixer,
        *blocks.norm("backbone.norm_f", hidden),
    ]


def mamba(fields: Fields) -> Architecture:
    """Mamba and Falcon-Mamba (its norms of B, C and the time step have no weights)."""
    fields = fields.with_defaults(MAMBA)
    hidden, layers = fields.size("hidden_size"), _every_layer(fields)
    mixer = Mamba(
        hidden=hidden,
        # Falcon-Mamba 7B writes an expand of 16 beside the width it really has: the width goes before.
        inner=fields.size("intermediate_size") if fields.has("intermediate_size") else fields.size("expand") * hidden,
        state=fields.size("state_size"),
        kernel=fields.size("conv_kernel"),
        rank=time_step_rank(fields, "time_step_rank", hidden),
        bias=fields.flag("use_bias"),
        conv_bias=fields.flag("use_conv_bias"),
    )
    weights = _backbone(fields, hidden, layers, mixer.weights("backbone.layers.*.mixer", layers))
    return _assembled(fields, weights, mixer.states(len(layers)), layers=len(layers), hidden=hidden)


def mamba2(fields: Fields) -> Architecture:
    """Mamba-2."""
    fields = fields.with_defaults(MAMBA2)
    hidden, layers = fields.size("hidden_size"), _every_layer(fields)
    mixer = Mamba2(
        hidden=hidden,
        heads=fields.size("num_heads"),
        head_dim=fields.size("head_dim"),
        groups=fields.size("n_groups"),
        state=fields.size("state_size"),
        kernel=fields.size("conv_kernel"),
        bias=fields.flag("use_bias"),
        conv_bias=fields.flag("use_conv_bias"),
    )
    if mixer.inner != fields.size("expand") * hidden:
        raise fields.fail(
            "num_heads",
            f"{mixer.heads} heads of {mixer.head_dim} are not {fields.size('expand')} x hidden_size {hidden}",
        )
    weights = _backbone(fields, hidden, layers, mixer.weights("backbone.layers.*.mixer", layers))
    return _assembled(fields, weights, mixer.states(len(layers)), layers=len(layers), hidden=hidden)


def _assembled(
    fields: Fields, weights: Sequence[Weight], caches: Sequence[CacheLayers], *, layers: int, hidden: int
) -> Architecture:
    """Of layers that are one mixer each: one all-reduce follows it."""
    return replace(blocks.assemble(fields, weights, caches, layers=layers, hidden=hidden), reductions=layers)


def recurrent_gemma(fields: Fields) -> Architecture:
    """RecurrentGemma (Griffin): linear recurrences and local attention, repeating as ``block_types`` says."""
    fields = fields.with_defaults(RECURRENT_GEMMA)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    layers = tuple(range(count))
    words = fields.items("block_types")
    for index, word in enumerate(words):
        if word not in ("recurrent", "attention"):
            raise fields.fail(f"block_types[{index}]", f"{shown(word)} is not known here; recurrent, attention are")
    if not words:
        raise fields.fail("block_types", "empty: recurrent or attention is needed")
    recurrent = tuple(layer for layer in layers if words[layer % len(words)] == "recurrent")
    attending = tuple(layer for layer in layers if words[layer % len(words)] == "attention")
    heads = blocks.read_heads(fields, hidden)
    width, kernel = fields.size("lru_width", hidden), fields.size("conv1d_width")
    half = split_evenly(fields, "intermediate_size", 2, fields.size("intermediate_size"), "gate and up together")
    layer = "model.layers.*"
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(layer, ("temporal_pre_norm", "channel_pre_norm"), hidden, layers),
        *_recurrent_block(fields, f"{layer}.temporal_block", hidden, width, kernel, heads.query, recurrent),
        *blocks.gated(f"{layer}.mlp_block", hidden, half, layers, bias=True),
        *blocks.norm("model.final_norm", hidden),
    ]
    caches = states("RG-LRU", len(recurrent), convolution=width * (kernel - 1), state=width)
    if attending:
        bias = fields.flag("attention_bias")
        weights += blocks.attention(f"{layer}.temporal_block", hidden, heads, attending, bias=bias, output_bias=True)
        caches += blocks.kv_caches(heads, [fields.size("attention_window_size")] * len(attending))
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden)


def _recurrent_block(
    fields: Fields, prefix: str, hidden: int, width: int, kernel: int, heads: int, layers: Layers
) -> list[Weight]:
    if not layers:
        return []
    block = split_evenly(fields, "num_attention_heads", heads, width, "the width of the recurrence")
    gates = [
        Weight(
            name=f"{prefix}.rg_lru.{name}_gate_weight",
            part="other",
            shape=(heads, block, block),
            use="matrix",
            layers=layers,
        )
        for name in ("input", "recurrent")
    ]
    return [
        *blocks.linear(f"{prefix}.linear_y", "other", width, hidden, layers, bias=True),
        *blocks.linear(f"{prefix}.linear_x", "other", width, hidden, layers, bias=True),
        *blocks.linear(f"{prefix}.linear_out", "other", hidden, width, layers, bias=True),
        *convolution(f"{prefix}.conv_1d", width, kernel, layers, bias=True),
        *gates,
        *blocks.vector(f"{prefix}.rg_lru.input_gate_bias", width, layers, part="bias"),
        *blocks.vector(f"{prefix}.rg_lru.recurrent_gate_bias", width, layers, part="bias"),
        *state_vector(f"{prefix}.rg_lru.recurrent_param", (width,), layers),
    ]


def rwkv(fields: Fields) -> Architecture:
    """RWKV-4: time mixing and channel mixing; its state is two last inputs and three float32 vectors per layer."""
    fields = fields.with_defaults({"tie_word_embeddings": False})
    hidden, layers = fields.size("hidden_size"), _every_layer(fields)
    width = fields.size("attention_hidden_size", hidden)
    if width != hidden:
        raise fields.fail("attention_hidden_size", f"{width}: RWKV-4 needs the width of the model, {hidden}")
    inner = fields.size("intermediate_size", 4 * hidden)
    block = "rwkv.blocks.*"
    mixes = [
        *(f"attention.time_{name}" for name in ("decay", "first", "mix_key", "mix_value", "mix_receptance")),
        *(f"feed_forward.time_mix_{name}" for name in ("key", "receptance")),
    ]
    weights = [
        *blocks.tables(
            fields.size("vocab_size"),
            hidden,
            tied=fields.flag("tie_word_embeddings"),
            embedding="rwkv.embeddings",
            head="head",
        ),
        *blocks.norm(f"{block}.pre_ln", hidden, (0,), bias=True),
        *blocks.norms(block, ("ln1", "ln2"), hidden, layers, bias=True),
        *(item for name in mixes for item in state_vector(f"{block}.{name}", (hidden,), layers)),
        *blocks.linear(f"{block}.attention.key", "attn_k", hidden, hidden, layers),
        *blocks.linear(f"{block}.attention.value", "attn_v", hidden, hidden, layers),
        *blocks.linear(f"{block}.attention.receptance", "attn_q", hidden, hidden, layers),
        *blocks.linear(f"{block}.attention.output", "attn_output", hidden, hidden, layers),
        *blocks.linear(f"{block}.feed_forward.key", "ffn_up", inner, hidden, layers),
        *blocks.linear(f"{block}.feed_forward.receptance", "ffn_gate", hidden, hidden, layers),
        *blocks.linear(f"{block}.feed_forward.value", "ffn_down", hidden, inner, layers),
        *blocks.norm("rwkv.ln_out", hidden, bias=True),
    ]
    caches = states("RWKV", len(layers), convolution=2 * hidden, state=3 * hidden)
    return blocks.assemble(fields, weights, caches, layers=len(layers), hidden=hidden, max_context="context_length")


FAMILIES: dict[str, Family] = {
    "mamba": mamba,
    "falcon_mamba": mamba,
    "mamba2": mamba2,
    "recurrent_gemma": recurrent_gemma,
    "rwkv": rwkv,
}
