"""Models that mix linear attention or short convolutions with attention: Qwen3-Next, Qwen3.5, MiniMax-01, LFM2.

A layer of linear attention keeps a matrix per head instead of keys and values, whatever the context. It is read and
written by each pass: in float32 for the gated delta rule, in the model's dtype for MiniMax's lightning attention,
as transformers allocates them (vLLM keeps both in the model's dtype unless told otherwise). The format of the KV cache
changes neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Heads, Layers
from pytest_roofline.readers.fields import Family, Fields, shown
from pytest_roofline.readers.hybrid import attending
from pytest_roofline.readers.layer_kinds import ATTENTION, RECURRENT, of_kind, others, read_indices, read_kinds
from pytest_roofline.readers.prediction_layers import idle, prediction_count
from pytest_roofline.readers.recurrent import convolution, state_vector, states

QWEN3_NEXT = {
    "tie_word_embeddings": False,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attention_bias": False,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "decoder_sparse_step": 1,
}
LFM2 = {
    "tie_word_embeddings": True,
    "num_key_value_heads": 8,
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_auto_adjust_ff_dim": True,
    "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0,
}
CONVOLUTION = "conv"
LAYER = "model.layers.*"
PREDICTION = "mtp"
PREDICTION_KEYS = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
"""Qwen3.5 writes the first; of Qwen3-Next no published config says how many there are."""


def _interval_kinds(fields: Fields, layers: int) -> Sequence[str]:
    """By ``layer_types``, else attention in every ``full_attention_interval``-th layer."""
    if fields.has("layer_types"):
        return read_kinds(fields, "layer_types", layers)
    interval = fields.size("full_attention_interval")
    return [RECURRENT if (layer + 1) % interval else ATTENTION for layer in range(layers)]


def _gated_attention(
    prefix: str, hidden: int, heads: Heads, layers: Layers, *, bias: bool
) -> tuple[list[Weight], list[CacheLayers]]:
    """Attention whose query matrix also puts out a gate of the same width, with norms over each head."""
    if not layers:
        return [], []
    queries, keys = heads.query * heads.dim, heads.kv * heads.dim
    weights = [
        *blocks.linear(f"{prefix}.q_proj", "attn_q", 2 * queries, hidden, layers, bias=bias),
        *blocks.linear(f"{prefix}.k_proj", "attn_k", keys, hidden, layers, bias=bias),
        *blocks.linear(f"{prefix}.v_proj", "attn_v", keys, hidden, layers, bias=bias),
        *blocks.linear(f"{prefix}.o_proj", "attn_output", hidden, queries, layers, bias=bias),
        *blocks.head_norms(prefix, heads, layers),
    ]
    return weights, blocks.kv_caches(heads, [None] * len(layers))


def _delta_net(
    fields: Fields, prefix: str, hidden: int, layers: Layers, *, fused: bool
) -> tuple[list[Weight], list[CacheLayers]]:
    """The gated delta rule; `fused`: q, k, v and the gate z in one matrix, the two decays in another."""
    if not layers:
        return [], []
    key_heads, value_heads = fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads")
    if value_heads % key_heads:
        raise fields.fail("linear_num_value_heads", f"{value_heads}: not a multiple of {key_heads} key heads")
    key_dim, value_dim = fields.size("linear_key_head_dim"), fields.size("linear_value_head_dim")
    keys, values, kernel = key_heads * key_dim, value_heads * value_dim, fields.size("linear_conv_kernel_dim")
    channels = 2 * keys + values
    entries = (
        {"in_proj_qkvz": channels + values, "in_proj_ba": 2 * value_heads}
        if fused
        else {"in_proj_qkv": channels, "in_proj_z": values, "in_proj_b": value_heads, "in_proj_a": value_heads}
    )
    weights = [
        *(
            weight
            for name, width in entries.items()
            for weight in blocks.linear(f"{prefix}.{name}", "other", width, hidden, layers)
        ),
        *convolution(f"{prefix}.conv1d", channels, kernel, layers, bias=False),
        *state_vector(f"{prefix}.dt_bias", (value_heads,), layers),
        *state_vector(f"{prefix}.A_log", (value_heads,), layers),
        *blocks.norm(f"{prefix}.norm", value_dim, layers),
        *blocks.linear(f"{prefix}.out_proj", "other", hidden, values, layers),
    ]
    state = value_heads * key_dim * value_dim
    return weights, states("gated delta rule", len(layers), convolution=channels * kernel, state=state)


def _experts_and_shared(fields: Fields, hidden: int, layers: Layers, layer: str = LAYER) -> list[Weight]:
    """Routed experts, and one shared expert that a sigmoid gates."""
    if not layers:
        return []
    experts, per_token = blocks.read_experts(fields, "num_experts", "num_experts_per_tok")
    prefix, shared = f"{layer}.mlp", fields.size("shared_expert_intermediate_size")
    return [
        *blocks.router(f"{prefix}.gate", experts, hidden, layers),
        *blocks.gated_experts(
            f"{prefix}.experts",
            hidden,
            fields.size("moe_intermediate_size"),
            layers,
            experts=experts,
            per_token=per_token,
        ),
        *blocks.gated(f"{prefix}.shared_expert", hidden, shared, layers),
        *blocks.linear(f"{prefix}.shared_expert_gate", "router", 1, hidden, layers),
    ]


def _qwen(fields: Fields, *, fused: bool, mixed: Layers, dense: Layers) -> Architecture:
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    kinds = _interval_kinds(fields, count)
    projections, caches = _gated_attention(
        f"{LAYER}.self_attn",
        hidden,
        blocks.read_heads(fields, hidden),
        of_kind(kinds, ATTENTION),
        bias=fields.flag("attention_bias"),
    )
    delta, held = _delta_net(fields, f"{LAYER}.linear_attn", hidden, of_kind(kinds, RECURRENT), fused=fused)
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, ("input_layernorm", "post_attention_layernorm"), hidden, tuple(range(count))),
        *projections,
        *delta,
        *_experts_and_shared(fields, hidden, mixed),
        *(blocks.gated(f"{LAYER}.mlp", hidden, fields.size("intermediate_size"), dense) if dense else []),
        *blocks.norm("model.norm", hidden),
        *_qwen_prediction(fields, hidden, mixed=bool(mixed)),
    ]
    is_said = any(fields.has(key) for key in PREDICTION_KEYS)
    notes = () if is_said else ("multi-token-prediction weights, where the checkpoint has some, are left out",)
    return blocks.assemble(fields, weights, [*caches, *held], layers=count, hidden=hidden, notes=notes)


def _qwen_prediction(fields: Fields, hidden: int, *, mixed: bool) -> list[Weight]:
    """Layers under ``mtp``: full attention and the model's kind of feed-forward, behind one projection of two inputs.

    The embedding and the head are the model's own (``mtp_use_dedicated_embeddings: false``).
    """
    layers = tuple(range(prediction_count(fields, fields.either(*PREDICTION_KEYS))))
    if not layers:
        return []
    layer = f"{PREDICTION}.layers.*"
    heads, bias = blocks.read_heads(fields, hidden), fields.flag("attention_bias")
    attention, _ = _gated_attention(f"{layer}.self_attn", hidden, heads, layers, bias=bias)
    return idle(
        [
            *blocks.linear(f"{PREDICTION}.fc", "other", hidden, 2 * hidden),
            *blocks.norms(PREDICTION, ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"), hidden),
            *attention,
            *(
                _experts_and_shared(fields, hidden, layers, layer)
                if mixed
                else blocks.gated(f"{layer}.mlp", hidden, fields.size("intermediate_size"), layers)
            ),
            *blocks.norms(layer, ("input_layernorm", "post_attention_layernorm"), hidden, layers),
        ]
    )


def qwen3_next(fields: Fields) -> Architecture:
    """Qwen3-Next: the gated delta rule in three of four layers, experts in all but ``mlp_only_layers``."""
    fields = fields.with_defaults(QWEN3_NEXT)
    count, step = blocks.layer_count(fields), fields.size("decoder_sparse_step")
    plain = read_indices(fields, "mlp_only_layers", count)
    mixed = tuple(layer for layer in others(count, plain) if (layer + 1) % step == 0)
    return _qwen(fields, fused=True, mixed=mixed, dense=others(count, mixed))


def qwen3_5(fields: Fields) -> Architecture:
    """Qwen3.5: as Qwen3-Next with its projections apart, and a dense feed-forward."""
    fields = fields.with_defaults({**QWEN3_NEXT, "num_key_value_heads": 4})
    return _qwen(fields, fused=False, mixed=(), dense=tuple(range(blocks.layer_count(fields))))


def qwen3_5_moe(fields: Fields) -> Architecture:
    """Qwen3.5 with experts in every layer."""
    fields = fields.with_defaults(QWEN3_NEXT)
    return _qwen(fields, fused=False, mixed=tuple(range(blocks.layer_count(fields))), dense=())


def minimax(fields: Fields) -> Architecture:
    """MiniMax-01: lightning attention (a matrix per head) between layers of attention, experts in all."""
    fields = fields.with_defaults({"tie_word_embeddings": False, "num_key_value_heads": 8})
    if fields.count("shared_intermediate_size", 0):
        raise fields.fail(
            "shared_intermediate_size", "above 0: a shared expert beside the routed ones is not read here"
        )
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every = tuple(range(count))
    kinds = _minimax_kinds(fields, count)
    linear = of_kind(kinds, RECURRENT)
    heads = blocks.read_heads(fields, hidden)
    inner, prefix = heads.query * heads.dim, f"{LAYER}.self_attn"
    projections, caches = attending(prefix, hidden, heads, of_kind(kinds, ATTENTION))
    lightning = [
        *blocks.linear(f"{prefix}.qkv_proj", "attn_qkv", 3 * inner, hidden, linear),
        *blocks.linear(f"{prefix}.output_gate", "other", inner, hidden, linear),
        *blocks.linear(f"{prefix}.out_proj", "attn_output", hidden, inner, linear),
        *blocks.norm(f"{prefix}.norm", inner, linear),
    ]
    experts, per_token = blocks.read_experts(
        fields, fields.either("num_local_experts", "num_experts"), "num_experts_per_tok"
    )
    moe = f"{LAYER}.block_sparse_moe"
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, ("input_layernorm", "post_attention_layernorm"), hidden, every),
        *projections,
        *(lightning if linear else []),
        *blocks.router(f"{moe}.gate", experts, hidden, every),
        *blocks.gated_experts(
            f"{moe}.experts",
            hidden,
            fields.size("intermediate_size"),
            every,
            experts=experts,
            per_token=per_token,
            names=("w1", "w3", "w2"),
        ),
        *blocks.norm("model.norm", hidden),
    ]
    if linear:
        state = heads.query * heads.dim * heads.dim
        caches.append(CacheLayers(name="lightning attention", layers=len(linear), state_elements=state))
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden)


def _minimax_kinds(fields: Fields, layers: int) -> Sequence[str]:
    """By ``layer_types``; MiniMax's own files list 1 for attention and 0 for linear in ``attn_type_list``."""
    if fields.has("layer_types"):
        return read_kinds(fields, "layer_types", layers)
    if not fields.has("attn_type_list"):
        return [RECURRENT if layer % 2 else ATTENTION for layer in range(layers)]
    entries = fields.items("attn_type_list")
    if len(entries) != layers:
        raise fields.fail("attn_type_list", f"{len(entries)} entries for {layers} layers")
    for index, entry in enumerate(entries):
        if entry not in (0, 1):
            raise fields.fail(f"attn_type_list[{index}]", f"{shown(entry)} is not known here; 0, 1 are")
    return [ATTENTION if entry else RECURRENT for entry in entries]


def _lfm2(fields: Fields, kinds: Sequence[str], feed_forward: Sequence[Weight]) -> Architecture:
    hidden, count = fields.size("hidden_size"), len(kinds)
    attention, convolved = of_kind(kinds, ATTENTION), of_kind(kinds, CONVOLUTION)
    heads, kernel, bias = blocks.read_heads(fields, hidden), fields.size("conv_L_cache"), fields.flag("conv_bias")
    prefix = f"{LAYER}.self_attn"
    projections, caches = attending(prefix, hidden, heads, attention, output="out_proj")
    short = [
        *blocks.linear(f"{LAYER}.conv.in_proj", "other", 3 * hidden, hidden, convolved, bias=bias),
        *convolution(f"{LAYER}.conv.conv", hidden, kernel, convolved, bias=bias),
        *blocks.linear(f"{LAYER}.conv.out_proj", "other", hidden, hidden, convolved, bias=bias),
    ]
    weights = [
        *blocks.tables(
            fields.size("vocab_size"), hidden, tied=fields.flag(fields.either("tie_embedding", "tie_word_embeddings"))
        ),
        *blocks.norms(LAYER, ("operator_norm", "ffn_norm"), hidden, tuple(range(count))),
        *projections,
        *(blocks.norms(prefix, ("q_layernorm", "k_layernorm"), heads.dim, attention) if attention else []),
        *(short if convolved else []),
        *feed_forward,
        *blocks.norm("model.embedding_norm", hidden),
    ]
    if convolved:
        caches.append(CacheLayers(name="convolution", layers=len(convolved), state_elements=hidden * kernel))
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden)


def _lfm2_kinds(fields: Fields, layers: int) -> Sequence[str]:
    words = {CONVOLUTION: CONVOLUTION, "attention": ATTENTION, "full_attention": ATTENTION}
    if fields.has("layer_types"):
        return read_kinds(fields, "layer_types", layers, words)
    if not fields.has("full_attn_idxs"):
        raise fields.fail("layer_types", "missing, and so is full_attn_idxs: which layers attend is not said")
    attention = set(read_indices(fields, "full_attn_idxs", layers))
    return [ATTENTION if layer in attention else CONVOLUTION for layer in range(layers)]


def lfm2(fields: Fields) -> Architecture:
    """LFM2: short gated convolutions between layers of attention; its feed-forward width is two thirds, rounded up."""
    fields = fields.with_defaults(LFM2)
    kinds = _lfm2_kinds(fields, blocks.layer_count(fields))
    width = fields.size(fields.either("block_ff_dim", "intermediate_size"))
    if fields.flag("block_auto_adjust_ff_dim"):
        multiple = fields.size("block_multiple_of")
        width = int(_multiplier(fields, "block_ffn_dim_multiplier") * (2 * width // 3))
        width = multiple * max(1, -(-width // multiple))
    every = tuple(range(len(kinds)))
    feed_forward = blocks.gated(
        f"{LAYER}.feed_forward", fields.size("hidden_size"), width, every, names=("w1", "w3", "w2")
    )
    return _lfm2(fields, kinds, feed_forward)


def _multiplier(fields: Fields, key: str) -> float:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e6:
        raise fields.fail(key, f"{shown(value)}: a number above 0 is needed")
    return float(value)


def lfm2_moe(fields: Fields) -> Architecture:
    """LFM2 with experts after the first ``num_dense_layers``."""
    fields = fields.with_defaults(LFM2)
    count, hidden = blocks.layer_count(fields), fields.size("hidden_size")
    kinds, prefix = _lfm2_kinds(fields, count), f"{LAYER}.feed_forward"
    first = fields.count("num_dense_layers")
    dense, mixed = tuple(range(min(first, count))), tuple(range(first, count))
    experts, per_token = blocks.read_experts(fields, "num_experts", "num_experts_per_tok")
    names = ("w1", "w3", "w2")
    feed_forward = blocks.gated(prefix, hidden, fields.size("intermediate_size"), dense, names=names) if dense else []
    if mixed:
        feed_forward += blocks.router(f"{prefix}.gate", experts, hidden, mixed)
        feed_forward += blocks.gated_experts(
            f"{prefix}.experts",
            hidden,
            fields.size("moe_intermediate_size"),
            mixed,
            experts=experts,
            per_token=per_token,
            names=names,
        )
    return _lfm2(fields, kinds, feed_forward)


FAMILIES: dict[str, Family] = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5,
    "qwen3_5_moe_text": qwen3_5_moe,
    "minimax": minimax,
    "minimax_m1": minimax,
    "minimax_text_01": minimax,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
}
