"""Dense decoders of today: Llama and all who took after it.

Where a config leaves a key out, the defaults of the model's own configuration class hold (see `defaults`).
"""

from __future__ import annotations

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.readers.blocks import Heads, Layers, read_heads, read_windows, vector
from pytest_roofline.readers.decoder import (
    Style,
    all_windows,
    late_windows,
    one_window,
    read_decoder,
    typed_windows,
    window_size,
)
from pytest_roofline.readers.fields import Family, Fields


def _stablelm(fields: Fields) -> Architecture:
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    if fields.flag("use_parallel_residual"):
        norms = norms[:1]
    return read_decoder(
        fields,
        Style(
            qkv_bias="use_qkv_bias",
            output_bias=False,
            norms=norms,
            norm_bias=True,
            query_norm="whole",
            query_norm_names=("q_layernorm.norms.*", "k_layernorm.norms.*"),
            query_norm_if="qk_layernorm",
            is_parallel="use_parallel_residual",
        ),
    )


def _helium(fields: Fields) -> Architecture:
    """Its output projection is as wide as the residual on both sides: the heads together have to be, too."""
    read = read_decoder(fields, Style(output_bias=False, mlp_bias="mlp_bias"))
    heads = read_heads(fields, read.hidden)
    if heads.query * heads.dim != read.hidden:
        raise fields.fail(
            "head_dim", f"{heads.dim}: {heads.query} heads of it are not the width {read.hidden}, as Helium's must be"
        )
    return read


def _smollm3_windows(fields: Fields, layers: int) -> list[int | None]:
    """Layers without rotary positions slide, where ``use_sliding_window`` says so."""
    window = window_size(fields) if fields.flag("use_sliding_window") else None
    every = fields.size("no_rope_layer_interval", 4)
    rotary = fields.items("no_rope_layers", [(layer + 1) % every for layer in range(layers)])
    if len(rotary) != layers:
        raise fields.fail("no_rope_layers", f"{len(rotary)} entries for {layers} layers")
    return read_windows(fields, layers, window, lambda layer: not rotary[layer])


def _exaone4_windows(fields: Fields, layers: int) -> list[int | None]:
    """All but one layer of each period slide; the period may be spelt ``LLLG``, and then the last layer is full."""
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return read_windows(
            fields,
            layers,
            window_size(fields),
            lambda layer: layer < layers - 1 and pattern[layer % len(pattern)] == "L",
        )
    if pattern is None or not fields.has("sliding_window"):
        return [None] * layers
    return typed_windows(4, key="sliding_window_pattern")(fields, layers)


def _activation(fields: Fields, heads: Heads, layers: Layers) -> list[Weight]:
    """The two learned slopes of Apertus' activation."""
    return [
        *vector("model.layers.*.mlp.act_fn.alpha_p", 1, layers, part="other"),
        *vector("model.layers.*.mlp.act_fn.alpha_n", 1, layers, part="other"),
    ]


_BIASED = Style(qkv_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias")

STYLES: dict[str, Style] = {
    "llama": Style(mlp_bias="mlp_bias"),
    "mistral": Style(qkv_bias=False, output_bias=False, windows=one_window),
    "ministral": Style(qkv_bias=False, output_bias=False, windows=all_windows),
    "ministral3": Style(qkv_bias=False, output_bias=False, windows=one_window),
    "qwen2": Style(qkv_bias=True, output_bias=False, windows=late_windows),
    "qwen3": Style(query_norm="head", windows=late_windows),
    "phi": Style(
        qkv_bias=True,
        output_bias=True,
        output="dense",
        mlp="plain",
        mlp_names=("fc1", "fc2"),
        mlp_bias=True,
        head_bias=True,
        norms=("input_layernorm",),
        norm_bias=True,
        last_norm="model.final_layernorm",
        query_norm="head",
        query_norm_names=("q_layernorm", "k_layernorm"),
        query_norm_if="qk_layernorm",
        is_parallel=True,
    ),
    "phi3": Style(qkv_bias=False, output_bias=False, fused_qkv="qkv_proj", mlp="fused", windows=one_window),
    "olmo": Style(norms=(), last_norm=None),
    "olmo2": Style(query_norm="whole", norms=("post_attention_layernorm", "post_feedforward_layernorm")),
    "olmo3": Style(
        query_norm="whole",
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        windows=typed_windows(4),
    ),
    "granite": Style(mlp_bias="mlp_bias"),
    "smollm3": Style(mlp_bias="mlp_bias", windows=_smollm3_windows),
    "starcoder2": Style(
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp="plain",
        mlp_names=("c_fc", "c_proj"),
        mlp_bias="use_bias",
        norm_bias=True,
        windows=one_window,
    ),
    "cohere": Style(query_norm="whole", query_norm_if="use_qk_norm", norms=("input_layernorm",), is_parallel=True),
    "cohere2": Style(
        norms=("input_layernorm",), windows=typed_windows(4, key="sliding_window_pattern"), is_parallel=True
    ),
    "nemotron": Style(mlp="plain", mlp_bias="mlp_bias", norm_bias=True),
    "glm": Style(output_bias=False, mlp="fused"),
    "glm4": Style(
        output_bias=False,
        mlp="fused",
        norms=(
            "input_layernorm",
            "post_self_attn_layernorm",
            "post_attention_layernorm",
            "post_mlp_layernorm",
        ),
    ),
    "exaone4": Style(
        qkv_bias=False,
        output_bias=False,
        query_norm="head",
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        windows=_exaone4_windows,
    ),
    "ernie4_5": _BIASED,
    "hunyuan_v1_dense": Style(query_norm="head", query_norm_names=("query_layernorm", "key_layernorm")),
    "seed_oss": Style(output_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "arcee": Style(mlp="plain", mlp_bias="mlp_bias"),
    "apertus": Style(
        query_norm="head",
        mlp="plain",
        norms=("attention_layernorm", "feedforward_layernorm"),
        extra=_activation,
    ),
    "cwm": Style(qkv_bias=False, output_bias=False, mlp_bias="mlp_bias", windows=typed_windows(4, full=0)),
    "jais2": Style(mlp="plain", mlp_bias="mlp_bias", norm_bias=True),
    "nanochat": Style(mlp="plain", mlp_names=("fc1", "fc2"), norms=(), last_norm=None),
}
"""How each family differs from a plain decoder."""


def _family(style: Style) -> Family:
    return lambda fields: read_decoder(fields, style)


FAMILIES: dict[str, Family] = {
    **{name: _family(style) for name, style in STYLES.items()},
    "helium": _helium,
    "stablelm": _stablelm,
}
