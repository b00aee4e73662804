"""Mixtures of experts with ordinary attention: Mixtral, Qwen, GPT-OSS, GLM-4.5 and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.readers.blocks import (
    Layers,
    attention,
    gated,
    gated_experts,
    linear,
    norms,
    read_experts,
    read_heads,
    read_windows,
    routed,
    router,
    vector,
)
from pytest_roofline.readers.decoder import (
    FeedForward,
    Style,
    attention_weights,
    mlp_weights,
    one_window,
    read_decoder,
    sinks,
    typed_windows,
    window_size,
)
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.prediction_layers import idle, numbered_layers, prediction_count

_MLP = "model.layers.*.mlp"
_SPARSE = "model.layers.*.block_sparse_moe"
_MIXTRAL_NAMES = ("w1", "w3", "w2")


def shared_and_routed(fields: Fields, hidden: int, layers: Layers, *, shared_bias: bool = False) -> list[Weight]:
    """Experts by DeepSeek's keys: ``n_routed_experts`` behind a router, ``n_shared_experts`` merged into one."""
    experts, used = read_experts(fields, fields.either("n_routed_experts", "num_local_experts"), "num_experts_per_tok")
    width, shared = fields.size("moe_intermediate_size"), fields.count("n_shared_experts", 0)
    weights = [
        *router(f"{_MLP}.gate", experts, hidden, layers),
        *gated_experts(f"{_MLP}.experts", hidden, width, layers, experts=experts, per_token=used),
    ]
    if shared:
        weights += gated(f"{_MLP}.shared_experts", hidden, shared * width, layers, bias=shared_bias)
    return weights


def dense_first(style: Style, experts: FeedForward = shared_and_routed) -> FeedForward:
    """The first ``first_k_dense_replace`` layers have an ordinary feed-forward, the others experts."""

    def build(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
        first = min(fields.count("first_k_dense_replace", 0), len(layers))
        weights = mlp_weights(fields, style, hidden, layers[:first]) if first else []
        return [*weights, *experts(fields, hidden, layers[first:])] if layers[first:] else weights

    return build


def _mixtral_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    experts, used = read_experts(fields, fields.either("num_local_experts", "num_experts"), "num_experts_per_tok")
    width = fields.size("intermediate_size")
    return [
        *router(f"{_SPARSE}.gate", experts, hidden, layers),
        *gated_experts(
            f"{_SPARSE}.experts", hidden, width, layers, experts=experts, per_token=used, names=_MIXTRAL_NAMES
        ),
    ]


def _olmoe_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    experts, used = read_experts(fields, fields.either("num_experts", "num_local_experts"), "num_experts_per_tok")
    width = fields.size("intermediate_size")
    return [
        *router(f"{_MLP}.gate", experts, hidden, layers),
        *gated_experts(f"{_MLP}.experts", hidden, width, layers, experts=experts, per_token=used),
    ]


def _sparse_layers(fields: Fields, layers: Layers) -> tuple[int, ...]:
    """Every ``decoder_sparse_step``-th layer but ``mlp_only_layers``."""
    step, only = fields.size("decoder_sparse_step"), fields.items("mlp_only_layers", [])
    plain = {layer for layer in only if isinstance(layer, int)}
    return tuple(layer for layer in layers if layer not in plain and (layer + 1) % step == 0)


def _qwen3_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """Experts in the sparse layers, an ordinary feed-forward in the others."""
    sparse = _sparse_layers(fields, layers)
    dense = tuple(sorted(set(layers) - set(sparse)))
    weights = gated(_MLP, hidden, fields.size("intermediate_size"), dense) if dense else []
    if not sparse:
        return weights
    experts, used = read_experts(fields, fields.either("num_experts", "num_local_experts"), "num_experts_per_tok")
    weights += router(f"{_MLP}.gate", experts, hidden, sparse)
    weights += gated_experts(
        f"{_MLP}.experts", hidden, fields.size("moe_intermediate_size"), sparse, experts=experts, per_token=used
    )
    return weights


def _qwen2_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """As Qwen 3, and one expert that all tokens share, with a gate of its own."""
    weights = _qwen3_experts(fields, hidden, layers)
    sparse = _sparse_layers(fields, layers)
    if sparse:
        weights += gated(f"{_MLP}.shared_expert", hidden, fields.size("shared_expert_intermediate_size"), sparse)
        weights += router(f"{_MLP}.shared_expert_gate", 1, hidden, sparse)
    return weights


def _qwen2_windows(fields: Fields, layers: int) -> list[int | None]:
    """Every other of the first ``max_window_layers`` layers slides, where ``use_sliding_window`` says so."""
    window = window_size(fields) if fields.flag("use_sliding_window") else None
    limit = fields.count("max_window_layers")
    return read_windows(fields, layers, window, lambda layer: layer % 2 == 0 and layer < limit)


def _qwen3_windows(fields: Fields, layers: int) -> list[int | None]:
    return one_window(fields, layers) if fields.flag("use_sliding_window") else [None] * layers


def _dots_windows(fields: Fields, layers: int) -> list[int | None]:
    """Layers from ``max_window_layers`` on slide."""
    start = fields.count("max_window_layers")
    return read_windows(fields, layers, window_size(fields), lambda layer: layer >= start)


def _granite_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """Gate and up of all experts are one tensor; the shared variant has a feed-forward beside them."""
    experts, used = read_experts(fields, "num_local_experts", "num_experts_per_tok")
    width, shared = fields.size("intermediate_size"), fields.count("shared_intermediate_size", 0)
    entry, down = f"{_SPARSE}.input_linear", f"{_SPARSE}.output_linear"
    weights = [
        *router(f"{_SPARSE}.router.layer", experts, hidden, layers),
        routed(entry, "ffn_gate_up", (2 * width, hidden), layers, experts, used),
        routed(down, "ffn_down", (hidden, width), layers, experts, used),
    ]
    if shared:
        weights += linear("model.layers.*.shared_mlp.input_linear", "ffn_gate_up", 2 * shared, hidden, layers)
        weights += linear("model.layers.*.shared_mlp.output_linear", "ffn_down", hidden, shared, layers)
    return weights


def _gpt_oss_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """Router and experts have biases; an expert's bias is read when the expert is."""
    experts, used = read_experts(fields, fields.either("num_local_experts", "num_experts"), "num_experts_per_tok")
    width, prefix = fields.size("intermediate_size"), f"{_MLP}.experts"
    return [
        *router(f"{_MLP}.router", experts, hidden, layers, bias=True),
        routed(f"{prefix}.gate_up_proj", "ffn_gate_up", (2 * width, hidden), layers, experts, used),
        routed(f"{prefix}.gate_up_proj_bias", "bias", (2 * width,), layers, experts, used),
        routed(f"{prefix}.down_proj", "ffn_down", (hidden, width), layers, experts, used),
        routed(f"{prefix}.down_proj_bias", "bias", (hidden,), layers, experts, used),
    ]


def _ernie_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """Experts from ``moe_layer_start_index`` to ``moe_layer_end_index`` at every ``moe_layer_interval``."""
    start, interval = fields.count("moe_layer_start_index"), fields.size("moe_layer_interval")
    end = len(layers) - 1 if fields.get("moe_layer_end_index") in (-1, None) else fields.count("moe_layer_end_index")
    bias = fields.flag("use_bias")
    sparse = tuple(layer for layer in layers if (layer + 1) % interval == 0 and start <= layer <= end)
    dense = tuple(sorted(set(layers) - set(sparse)))
    weights = gated(_MLP, hidden, fields.size("intermediate_size"), dense, bias=bias) if dense else []
    if not sparse:
        return weights
    experts, used = read_experts(fields, "moe_num_experts", "moe_k")
    width, shared = fields.size("moe_intermediate_size"), fields.count("moe_num_shared_experts", 0)
    weights += router(f"{_MLP}.gate", experts, hidden, sparse)
    weights += vector(f"{_MLP}.moe_statics.e_score_correction_bias", experts, sparse, part="bias")
    weights += gated_experts(f"{_MLP}.experts", hidden, width, sparse, experts=experts, per_token=used)
    if shared:
        weights += gated(f"{_MLP}.shared_experts", hidden, shared * width, sparse, bias=bias)
    return weights


def _hunyuan_experts(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    """Experts and one shared among all tokens, of one width. Hunyuan-A13B writes a number for each layer."""
    for key in ("num_experts", "moe_topk", "moe_intermediate_size", "num_shared_expert"):
        fields = _alike_in_all(fields, key)
    experts, used = read_experts(fields, "num_experts", "moe_topk")
    width = fields.size("intermediate_size")
    for key, needed in (("moe_intermediate_size", width), ("num_shared_expert", 1)):
        if fields.has(key) and fields.size(key) != needed:
            raise fields.fail(key, f"{fields.size(key)}: only {needed} is known here")
    return [
        *router(f"{_MLP}.gate.wg", experts, hidden, layers),
        *gated_experts(f"{_MLP}.experts", hidden, width, layers, experts=experts, per_token=used),
        *gated(f"{_MLP}.shared_mlp", hidden, width, layers),
    ]


def _alike_in_all(fields: Fields, key: str) -> Fields:
    """The same fields with one number where there is a list of equal ones, one for each layer."""
    if not isinstance(fields.get(key), (list, tuple)):
        return fields
    each = fields.items(key)
    if not each or any(one != each[0] for one in each):
        raise fields.fail(key, "the layers differ, and only layers that are alike are known here")
    return replace(fields, values={**fields.values, key: each[0]})


_SOLAR = Style(output_bias=False)
_GLM4 = Style(output_bias=False, query_norm="head", query_norm_if="use_qk_norm")
_DOTS1 = Style(query_norm="head", windows=_dots_windows)
_POST = ("post_attention_layernorm", "post_feedforward_layernorm")

STYLES: dict[str, tuple[Style, FeedForward]] = {
    "mixtral": (Style(qkv_bias=False, output_bias=False, windows=one_window), _mixtral_experts),
    "phimoe": (Style(norm_bias=True, head_bias="lm_head_bias", windows=one_window), _mixtral_experts),
    "minimax_m2": (Style(qkv_bias=False, output_bias=False, query_norm="whole"), _mixtral_experts),
    "olmoe": (Style(query_norm="whole"), _olmoe_experts),
    "flex_olmo": (Style(query_norm="whole", norms=_POST), _olmoe_experts),
    "qwen2_moe": (Style(qkv_bias="qkv_bias", output_bias=False, windows=_qwen2_windows), _qwen2_experts),
    "qwen3_moe": (Style(query_norm="head", windows=_qwen3_windows), _qwen3_experts),
    "granitemoe": (Style(), _granite_experts),
    "granitemoeshared": (Style(), _granite_experts),
    "gpt_oss": (Style(extra=sinks, windows=typed_windows(2)), _gpt_oss_experts),
    "ernie4_5_moe": (Style(qkv_bias="use_bias", output_bias="use_bias", head_bias="use_bias"), _ernie_experts),
    "glm4_moe": (_GLM4, dense_first(_GLM4)),
    "dots1": (_DOTS1, dense_first(_DOTS1)),
    "solar_open": (_SOLAR, shared_and_routed),
    "hunyuan_v1_moe": (
        Style(query_norm="head", query_norm_names=("query_layernorm", "key_layernorm")),
        _hunyuan_experts,
    ),
}
"""How the decoder of each family differs from a plain one, and what follows its attention."""


def _glm4_prediction(fields: Fields, hidden: int, first: int) -> list[Weight]:
    """Further layers, with experts."""

    def block(layers: Layers) -> list[Weight]:
        return [
            *attention_weights(fields, _GLM4, hidden, read_heads(fields, hidden), layers),
            *shared_and_routed(fields, hidden, layers),
            *norms("model.layers.*", _GLM4.norms, hidden, layers),
        ]

    return numbered_layers(fields, hidden, first, block)


def _ernie_prediction(fields: Fields, hidden: int, first: int) -> list[Weight]:
    """Blocks of their own numbers with an ordinary feed-forward (vLLM, ``ernie_mtp.py``)."""
    layers, block, bias = tuple(range(prediction_count(fields))), "model.mtp_block.*", fields.flag("use_bias")
    if not layers:
        return []
    heads = read_heads(fields, hidden)
    return idle(
        [
            *linear("model.mtp_linear_proj.*", "other", hidden, 2 * hidden, layers, bias=bias),
            *norms("model", ("mtp_emb_norm.*", "mtp_hidden_norm.*"), hidden, layers),
            *attention(f"{block}.self_attn", hidden, heads, layers, bias=bias, output_bias=bias),
            *gated(f"{block}.mlp", hidden, fields.size("intermediate_size"), layers, bias=bias),
            *norms(block, ("input_layernorm", "post_attention_layernorm"), hidden, layers),
        ]
    )


PredictionLayers = Callable[[Fields, int, int], list[Weight]]
"""The layers for multi-token prediction; given the fields, the width and the number of layers before them."""
PREDICTION: dict[str, PredictionLayers] = {"glm4_moe": _glm4_prediction, "ernie4_5_moe": _ernie_prediction}


def _family(style: Style, experts: FeedForward, prediction: PredictionLayers | None) -> Family:
    def read(fields: Fields) -> Architecture:
        architecture = read_decoder(fields, style, experts)
        if prediction is None:
            return architecture
        layers = prediction(fields, architecture.hidden, architecture.layers)
        return replace(architecture, weights=(*architecture.weights, *layers))

    return read


FAMILIES: dict[str, Family] = {
    name: _family(style, experts, PREDICTION.get(name)) for name, (style, experts) in STYLES.items()
}
