"""Models that mix Mamba layers with attention: Jamba, Bamba, Falcon-H1, Granite 4, Nemotron-H.

Attention layers keep keys and values, Mamba layers a constant state (see `recurrent`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Heads, Layers
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.layer_kinds import (
    ATTENTION,
    RECURRENT,
    of_kind,
    others,
    periodic,
    read_indices,
    read_kinds,
    read_pattern,
)
from pytest_roofline.readers.prediction_layers import NEXTN, idle, prediction_count
from pytest_roofline.readers.recurrent import Mamba, Mamba2, split_evenly, time_step_rank

JAMBA = {
    "tie_word_embeddings": False,
    "num_key_value_heads": 8,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
MAMBA2_KEYS = {
    "num_key_value_heads": 8,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
NEMOTRON_H = {
    "tie_word_embeddings": False,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mlp_bias": False,
    "use_bias": False,
    "n_groups": 8,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "num_nextn_predict_layers": 0,
}
NEMOTRON_H_LETTERS = {"M": RECURRENT, "*": ATTENTION, "-": "mlp", "E": "moe"}
NEMOTRON_H_WORDS = {
    "mamba": RECURRENT,
    "linear_attention": RECURRENT,
    "attention": ATTENTION,
    "full_attention": ATTENTION,
    "mlp": "mlp",
    "moe": "moe",
}
LAYER = "model.layers.*"


def attending(
    prefix: str, hidden: int, heads: Heads, layers: Layers, *, bias: bool = False, output: str = "o_proj"
) -> tuple[list[Weight], list[CacheLayers]]:
    """Attention of those `layers` and its KV cache; nothing for none."""
    if not layers:
        return [], []
    weights = blocks.attention(prefix, hidden, heads, layers, bias=bias, output_bias=bias, output=output)
    return weights, blocks.kv_caches(heads, [None] * len(layers))


def jamba(fields: Fields) -> Architecture:
    """Jamba: one attention layer in a period, experts in every other feed-forward."""
    fields = fields.with_defaults(JAMBA)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    attention = periodic(fields, "attn_layer_period", "attn_layer_offset", count)
    recurrent = others(count, attention)
    mixer = Mamba(
        hidden=hidden,
        inner=fields.size("mamba_expand") * hidden,
        state=fields.size("mamba_d_state"),
        kernel=fields.size("mamba_d_conv"),
        rank=time_step_rank(fields, "mamba_dt_rank", hidden),
        bias=fields.flag("mamba_proj_bias"),
        conv_bias=fields.flag("mamba_conv_bias"),
    )
    projections, caches = attending(f"{LAYER}.self_attn", hidden, blocks.read_heads(fields, hidden), attention)
    norms = [
        *blocks.norm(f"{LAYER}.mamba.dt_layernorm", mixer.rank, recurrent),
        *blocks.norms(f"{LAYER}.mamba", ("b_layernorm", "c_layernorm"), mixer.state, recurrent),
    ]
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, ("input_layernorm", "pre_ff_layernorm"), hidden, tuple(range(count))),
        *mixer.weights(f"{LAYER}.mamba", recurrent),
        *(norms if recurrent else []),
        *projections,
        *_jamba_feed_forward(fields, hidden, count),
        *blocks.norm("model.final_layernorm", hidden),
    ]
    return blocks.assemble(fields, weights, [*caches, *mixer.states(len(recurrent))], layers=count, hidden=hidden)


def _jamba_feed_forward(fields: Fields, hidden: int, count: int) -> list[Weight]:
    prefix, width = f"{LAYER}.feed_forward", fields.size("intermediate_size")
    experts, per_token = blocks.read_experts(
        fields, fields.either("num_experts", "num_local_experts"), "num_experts_per_tok"
    )
    mixed = periodic(fields, "expert_layer_period", "expert_layer_offset", count) if experts > 1 else ()
    dense = others(count, mixed)
    weights = blocks.gated(prefix, hidden, width, dense) if dense else []
    if mixed:
        weights += blocks.router(f"{prefix}.router", experts, hidden, mixed)
        weights += blocks.gated_experts(f"{prefix}.experts", hidden, width, mixed, experts=experts, per_token=per_token)
    return weights


def _mamba2(fields: Fields, hidden: int, inner: int, **options: bool | None) -> Mamba2:
    """The Mamba-2 mixer by the keys that Bamba, Granite and Falcon-H1 share."""
    heads = fields.size("mamba_n_heads")
    width = split_evenly(fields, "mamba_n_heads", heads, inner, "the inner width")
    if fields.get("mamba_d_head") not in (None, "auto") and fields.size("mamba_d_head") != width:
        raise fields.fail("mamba_d_head", f"{fields.size('mamba_d_head')}: {heads} heads of it are not {inner} wide")
    return Mamba2(
        hidden=hidden,
        heads=heads,
        head_dim=width,
        groups=fields.size("mamba_n_groups"),
        state=fields.size("mamba_d_state"),
        kernel=fields.size("mamba_d_conv"),
        bias=fields.flag("mamba_proj_bias"),
        conv_bias=fields.flag("mamba_conv_bias"),
        output_bias=options.get("output_bias"),
        gated_norm=options.get("gated_norm") is not False,
    )


def bamba(fields: Fields) -> Architecture:
    """Bamba: Mamba-2, and attention in the layers that ``attn_layer_indices`` lists."""
    fields = fields.with_defaults(MAMBA2_KEYS)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    attention = read_indices(fields, "attn_layer_indices", count)
    recurrent = others(count, attention)
    mixer = _mamba2(fields, hidden, fields.size("mamba_expand") * hidden)
    projections, caches = attending(
        f"{LAYER}.self_attn", hidden, blocks.read_heads(fields, hidden), attention, bias=fields.flag("attention_bias")
    )
    every = tuple(range(count))
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, ("input_layernorm", "pre_ff_layernorm"), hidden, every),
        *mixer.weights(f"{LAYER}.mamba", recurrent),
        *projections,
        *blocks.gated(
            f"{LAYER}.feed_forward", hidden, fields.size("intermediate_size"), every, bias=fields.flag("mlp_bias")
        ),
        *blocks.norm("model.final_layernorm", hidden),
    ]
    return blocks.assemble(fields, weights, [*caches, *mixer.states(len(recurrent))], layers=count, hidden=hidden)


def falcon_h1(fields: Fields) -> Architecture:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    fields = fields.with_defaults({**MAMBA2_KEYS, "mamba_rms_norm": False, "projectors_bias": False})
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every = tuple(range(count))
    inner = fields.size("mamba_d_ssm") if fields.has("mamba_d_ssm") else fields.size("mamba_expand") * hidden
    mixer = _mamba2(
        fields,
        hidden,
        inner,
        output_bias=fields.flag("projectors_bias"),
        gated_norm=fields.flag("mamba_rms_norm"),
    )
    projections, caches = attending(
        f"{LAYER}.self_attn", hidden, blocks.read_heads(fields, hidden), every, bias=fields.flag("attention_bias")
    )
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, ("input_layernorm", "pre_ff_layernorm"), hidden, every),
        *mixer.weights(f"{LAYER}.mamba", every),
        *projections,
        *blocks.gated(
            f"{LAYER}.feed_forward", hidden, fields.size("intermediate_size"), every, bias=fields.flag("mlp_bias")
        ),
        *blocks.norm("model.final_layernorm", hidden),
    ]
    return blocks.assemble(fields, weights, [*caches, *mixer.states(count)], layers=count, hidden=hidden)


def granite_hybrid(fields: Fields) -> Architecture:
    """Granite 4 (``granitemoehybrid``): Mamba-2 or attention, a shared feed-forward, and experts where it has any."""
    fields = fields.with_defaults({**MAMBA2_KEYS, "num_key_value_heads": None})
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every, key = tuple(range(count)), fields.either("layer_types", "layers_block_type")
    kinds: Sequence[str] = read_kinds(fields, key, count) if fields.has(key) else [RECURRENT] * count
    attention, recurrent = of_kind(kinds, ATTENTION), of_kind(kinds, RECURRENT)
    mixer = _mamba2(fields, hidden, fields.size("mamba_expand") * hidden)
    projections, caches = attending(
        f"{LAYER}.self_attn", hidden, blocks.read_heads(fields, hidden), attention, bias=fields.flag("attention_bias")
    )
    shared, width = fields.size("shared_intermediate_size"), fields.size("intermediate_size")
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.norms(LAYER, ("input_layernorm", "post_attention_layernorm"), hidden, every),
        *mixer.weights(f"{LAYER}.mamba", recurrent),
        *projections,
        *blocks.linear(f"{LAYER}.shared_mlp.input_linear", "ffn_gate_up", 2 * shared, hidden, every),
        *blocks.linear(f"{LAYER}.shared_mlp.output_linear", "ffn_down", hidden, shared, every),
        *blocks.norm("model.norm", hidden),
    ]
    if fields.count("num_local_experts"):
        experts, per_token = blocks.read_experts(fields, "num_local_experts", "num_experts_per_tok")
        moe = f"{LAYER}.block_sparse_moe"
        weights += [
            *blocks.router(f"{moe}.router.layer", experts, hidden, every),
            blocks.routed(f"{moe}.input_linear", "ffn_gate_up", (2 * width, hidden), every, experts, per_token),
            blocks.routed(f"{moe}.output_linear", "ffn_down", (hidden, width), every, experts, per_token),
        ]
    return blocks.assemble(fields, weights, [*caches, *mixer.states(len(recurrent))], layers=count, hidden=hidden)


def nemotron_h(fields: Fields) -> Architecture:
    """Nemotron-H: each layer is one thing: Mamba-2, attention, a feed-forward or experts, as the pattern says."""
    fields = fields.with_defaults(NEMOTRON_H)
    hidden, kinds = fields.size("hidden_size"), _nemotron_h_kinds(fields)
    mixers, caches = _nemotron_h_mixers(fields, "backbone.layers.*", hidden, kinds)
    weights = [
        # Whatever tie_word_embeddings says, its classes keep a head of its own.
        *blocks.tables(fields.size("vocab_size"), hidden, tied=False, embedding="backbone.embeddings"),
        *mixers,
        *blocks.norm("backbone.norm_f", hidden),
        *_nemotron_h_prediction(fields, hidden),
    ]
    # Each layer is one mixer, and one all-reduce follows it.
    return replace(blocks.assemble(fields, weights, caches, layers=len(kinds), hidden=hidden), reductions=len(kinds))


def _nemotron_h_mixers(
    fields: Fields, layer: str, hidden: int, kinds: Sequence[str]
) -> tuple[list[Weight], list[CacheLayers]]:
    """A norm and the one thing that each layer is, and what the layers keep."""
    attention, recurrent = of_kind(kinds, ATTENTION), of_kind(kinds, RECURRENT)
    dense, mixed = of_kind(kinds, "mlp"), of_kind(kinds, "moe")
    mixer = Mamba2(
        hidden=hidden,
        heads=fields.size("mamba_num_heads"),
        head_dim=fields.size("mamba_head_dim"),
        groups=fields.size(fields.either("mamba_n_groups", "n_groups")),
        state=fields.size("ssm_state_size"),
        kernel=fields.size(fields.either("mamba_d_conv", "conv_kernel")),
        bias=fields.flag("use_bias"),
        conv_bias=fields.flag(fields.either("mamba_conv_bias", "use_conv_bias")),
    )
    heads = blocks.read_heads(fields, hidden, dim=fields.either("head_dim", "attention_head_dim"))
    projections, caches = attending(f"{layer}.mixer", hidden, heads, attention)
    weights = [
        *blocks.norm(f"{layer}.norm", hidden, tuple(range(len(kinds)))),
        *mixer.weights(f"{layer}.mixer", recurrent),
        *projections,
    ]
    if dense:
        weights += blocks.plain(
            f"{layer}.mixer", hidden, fields.size("intermediate_size"), dense, bias=fields.flag("mlp_bias")
        )
    if mixed:
        weights += _nemotron_h_experts(fields, f"{layer}.mixer", hidden, mixed)
    return weights, [*caches, *mixer.states(len(recurrent))]


def _nemotron_h_prediction(fields: Fields, hidden: int) -> list[Weight]:
    """Modules under ``mtp``, each of so many layers as its pattern has letters.

    The first of a module joins embedding and hidden state, the last ends in a norm. The head is the model's own.
    """
    count = prediction_count(fields)
    if not count:
        return []
    if fields.has("mtp_layers_block_type"):
        kinds = read_kinds(
            fields, "mtp_layers_block_type", len(fields.items("mtp_layers_block_type")), NEMOTRON_H_WORDS
        )
    else:
        fields = fields.with_defaults({"mtp_hybrid_override_pattern": "*E"})
        kinds = read_pattern(fields, "mtp_hybrid_override_pattern", NEMOTRON_H_LETTERS)
    if not 1 <= count * len(kinds) <= blocks.MOST_LAYERS:
        raise fields.fail(NEXTN, f"{count:,} x {len(kinds):,} layers: 1 to {blocks.MOST_LAYERS:,} are believed")
    layer, length = "mtp.layers.*", len(kinds)
    mixers, _ = _nemotron_h_mixers(fields, layer, hidden, [*kinds] * count)
    first = tuple(module * length for module in range(count))
    last = tuple(index + length - 1 for index in first)
    return idle(
        [
            *mixers,
            *blocks.linear(f"{layer}.eh_proj", "other", hidden, 2 * hidden, first),
            *blocks.norms(layer, ("enorm", "hnorm"), hidden, first),
            *blocks.norm(f"{layer}.final_layernorm", hidden, last),
        ]
    )


def _nemotron_h_kinds(fields: Fields) -> tuple[str, ...]:
    key = fields.either("layers_block_type", "layer_types", "hybrid_override_pattern")
    if key == "hybrid_override_pattern" or not fields.has(key):
        kinds = read_pattern(fields, "hybrid_override_pattern", NEMOTRON_H_LETTERS)
        if fields.has("num_hidden_layers") and blocks.layer_count(fields) != len(kinds):
            raise fields.fail(
                "hybrid_override_pattern", f"{len(kinds)} letters for {blocks.layer_count(fields)} layers"
            )
        return kinds
    count = len(fields.items(key))
    if not 1 <= count <= blocks.MOST_LAYERS:
        raise fields.fail(key, f"{count:,} layers: 1 to {blocks.MOST_LAYERS:,} are believed")
    layers = blocks.layer_count(fields) if fields.has("num_hidden_layers") else count
    return read_kinds(fields, key, layers, NEMOTRON_H_WORDS)


def _nemotron_h_experts(fields: Fields, prefix: str, hidden: int, layers: Layers) -> list[Weight]:
    """Experts of two matrices; with ``moe_latent_size`` they work between two projections on a narrower stream."""
    experts, per_token = blocks.read_experts(
        fields, fields.either("n_routed_experts", "num_local_experts"), "num_experts_per_tok"
    )
    width, bias = fields.size("moe_intermediate_size"), fields.flag("mlp_bias")
    entry = fields.size("moe_latent_size", hidden)
    latent = []
    if fields.has("moe_latent_size"):
        latent = [
            *blocks.linear(f"{prefix}.fc1_latent_proj", "other", entry, hidden, layers, bias=bias),
            *blocks.linear(f"{prefix}.fc2_latent_proj", "other", hidden, entry, layers, bias=bias),
        ]
    return [
        *blocks.router(f"{prefix}.gate", experts, hidden, layers),
        blocks.routed(f"{prefix}.experts.*.up_proj", "ffn_up", (width, entry), layers, experts, per_token),
        blocks.routed(f"{prefix}.experts.*.down_proj", "ffn_down", (entry, width), layers, experts, per_token),
        *latent,
        *blocks.plain(
            f"{prefix}.shared_experts",
            hidden,
            fields.size("moe_shared_expert_intermediate_size"),
            layers,
            bias=bias,
        ),
    ]


FAMILIES: dict[str, Family] = {
    "jamba": jamba,
    "bamba": bamba,
    "falcon_h1": falcon_h1,
    "granitemoehybrid": granite_hybrid,
    "nemotron_h": nemotron_h,
}
