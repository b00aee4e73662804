"""Zamba2: Mamba-2 layers, and a few transformer blocks that many layers share."""

from __future__ import annotations

from dataclasses import replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Heads, Layers
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.layer_kinds import RECURRENT, of_kind, read_kinds
from pytest_roofline.readers.recurrent import Mamba2, split_evenly

DEFAULTS = {
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_ngroups": 1,
    "n_mamba_heads": 8,
    "add_bias_linear": False,
    "num_mem_blocks": 1,
    "use_shared_attention_adapter": False,
    "adapter_rank": 128,
    "tie_word_embeddings": True,
}
HYBRID = "hybrid"
WORDS = {"mamba": RECURRENT, "linear_attention": RECURRENT, HYBRID: HYBRID}
LAYER = "model.layers.*"


def zamba2(fields: Fields) -> Architecture:
    """Zamba2: a hybrid layer runs a shared transformer block of twice the width before its own Mamba-2.

    The shared blocks are in the checkpoint once, and counted once: what a pass must read at least. A device whose
    last-level cache does not hold a block reads it again for each layer that uses it.
    """
    fields = fields.with_defaults(DEFAULTS)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    kinds = read_kinds(fields, fields.either("layers_block_type", "layer_types"), count, WORDS)
    plain, mixed, every = of_kind(kinds, RECURRENT), of_kind(kinds, HYBRID), tuple(range(count))
    inner, bias = fields.size("mamba_expand") * hidden, fields.flag("add_bias_linear")
    mamba_heads = fields.size("n_mamba_heads")
    mixer = Mamba2(
        hidden=hidden,
        heads=mamba_heads,
        head_dim=split_evenly(fields, "n_mamba_heads", mamba_heads, inner, "the inner width"),
        groups=fields.size("mamba_ngroups"),
        state=fields.size("mamba_d_state"),
        kernel=fields.size("mamba_d_conv"),
        bias=bias,
        conv_bias=True,
    )
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *mixer.weights(f"{LAYER}.mamba", plain),
        *(blocks.norm(f"{LAYER}.input_layernorm", hidden, plain) if plain else []),
        *blocks.norm("model.final_layernorm", hidden),
    ]
    caches: list[CacheLayers] = []
    notes = []
    if mixed:
        heads = blocks.read_heads(fields, 2 * hidden, dim="attention_head_dim")
        shared = mixed[: fields.size("num_mem_blocks")]
        weights += [
            *mixer.weights(f"{LAYER}.mamba_decoder.mamba", mixed),
            *blocks.norm(f"{LAYER}.mamba_decoder.input_layernorm", hidden, mixed),
            *blocks.linear(f"{LAYER}.linear", "other", hidden, hidden, mixed),
            *_shared_block(fields, hidden, heads, shared, mixed, bias=bias),
        ]
        caches += blocks.kv_caches(heads, [None] * len(mixed))
        notes.append(f"{len(shared)} transformer blocks serve {len(mixed)} layers: counted once, read by each")
    caches += mixer.states(len(every))
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden, notes=notes)


def _shared_block(
    fields: Fields, hidden: int, heads: Heads, shared: Layers, users: Layers, *, bias: bool
) -> list[Weight]:
    """Attention over twice the width and a feed-forward, once per block; low-rank adapters, once per layer."""
    prefix, wide = f"{LAYER}.shared_transformer", 2 * hidden
    width = fields.size("intermediate_size", 4 * hidden)
    rank = fields.size("adapter_rank")
    outputs = {"attn_q": heads.query * heads.dim, "attn_k": heads.kv * heads.dim, "attn_v": heads.kv * heads.dim}
    weights = [
        *(
            weight
            for part, output in outputs.items()
            for weight in blocks.linear(f"{prefix}.self_attn.{part[-1]}_proj", part, output, wide, shared)
        ),
        *blocks.linear(f"{prefix}.self_attn.o_proj", "attn_output", hidden, heads.query * heads.dim, shared),
        *blocks.norm(f"{prefix}.input_layernorm", wide, shared),
        *blocks.norm(f"{prefix}.pre_ff_layernorm", hidden, shared),
        *blocks.gated(f"{prefix}.feed_forward", hidden, width, shared, bias=bias, fused="gate_up_proj"),
        *_adapter(f"{prefix}.feed_forward.gate_up_proj_adapter_list", 2 * width, rank, hidden, shared, users),
    ]
    if fields.flag("use_shared_attention_adapter"):
        for letter in "qkv":
            weights += _adapter(f"{prefix}.self_attn.linear_{letter}_adapter_list", wide, rank, wide, shared, users)
    return weights


def _adapter(name: str, outputs: int, rank: int, inputs: int, shared: Layers, users: Layers) -> list[Weight]:
    """Each block holds one for every layer that it serves: the blocks take turns."""
    weights: list[Weight] = []
    for turn, block in enumerate(shared):
        served = len(users[turn :: len(shared)])
        one = [
            *blocks.linear(f"{name}.*.0", "other", rank, inputs, (block,)),
            *blocks.linear(f"{name}.*.1", "other", outputs, rank, (block,)),
        ]
        weights += [replace(weight, experts=served) for weight in one]
    return weights


FAMILIES: dict[str, Family] = {"zamba2": zamba2}
