"""Text models that stand inside larger ones and have a shape of their own: Llama 4, Gemma 3n, Llama 3.2 Vision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers import blocks
from pytest_roofline.readers.blocks import Heads
from pytest_roofline.readers.fields import LARGEST, Family, Fields, shown
from pytest_roofline.readers.layer_kinds import ATTENTION, others, read_indices, read_kinds

LLAMA4 = {
    "tie_word_embeddings": False,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attention_bias": False,
    "interleave_moe_layer_step": 1,
    "no_rope_layer_interval": 4,
    "attention_chunk_size": 8192,
}
GEMMA3N = {
    "tie_word_embeddings": True,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attention_bias": False,
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262_144,
    "hidden_size_per_layer_input": 256,
    "altup_num_inputs": 4,
    "num_kv_shared_layers": 15,
    "laurel_rank": 64,
}
CHUNKED, SLIDING = "chunked_attention", "sliding_attention"
LAYER = "model.layers.*"


def llama4(fields: Fields) -> Architecture:
    """Llama 4's text model: attention in chunks with every fourth layer global, experts beside one shared expert.

    `intermediate_size` is the width of an expert, `intermediate_size_mlp` that of the layers without experts.
    """
    fields = fields.with_defaults(LLAMA4)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every, heads = tuple(range(count)), blocks.read_heads(fields, hidden)
    bias = fields.flag("attention_bias")
    step = fields.size("interleave_moe_layer_step")
    mixed = read_indices(fields, "moe_layers", count) if fields.has("moe_layers") else every[step - 1 :: step]
    dense = others(count, mixed)
    prefix = f"{LAYER}.feed_forward"
    weights = [
        *blocks.tables(
            fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings"), embedding="model.embed_tokens"
        ),
        *blocks.norms(LAYER, ("input_layernorm", "post_attention_layernorm"), hidden, every),
        *blocks.attention(f"{LAYER}.self_attn", hidden, heads, every, bias=bias, output_bias=bias),
        *(blocks.gated(prefix, hidden, fields.size("intermediate_size_mlp"), dense) if dense else []),
        *blocks.norm("model.norm", hidden),
    ]
    if mixed:
        experts, per_token = blocks.read_experts(fields, "num_local_experts", "num_experts_per_tok")
        width = fields.size("intermediate_size")
        weights += [
            *blocks.router(f"{prefix}.router", experts, hidden, mixed),
            blocks.routed(
                f"{prefix}.experts.gate_up_proj", "ffn_gate_up", (2 * width, hidden), mixed, experts, per_token
            ),
            blocks.routed(f"{prefix}.experts.down_proj", "ffn_down", (hidden, width), mixed, experts, per_token),
            *blocks.gated(f"{prefix}.shared_expert", hidden, width, mixed),
        ]
    kinds = _llama4_kinds(fields, count)
    caches = _chunked_caches(fields, heads, kinds)
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden)


def _llama4_kinds(fields: Fields, layers: int) -> Sequence[str]:
    """By ``layer_types``, else chunked wherever there is rope: ``no_rope_layers`` has a 1 for a layer *with* rope."""
    if fields.has("layer_types"):
        return read_kinds(fields, "layer_types", layers, {ATTENTION: ATTENTION, CHUNKED: CHUNKED})
    flags = fields.items("no_rope_layers", [])
    if not flags:
        interval = fields.size("no_rope_layer_interval")
        flags = [int((layer + 1) % interval != 0) for layer in range(layers)]
    if len(flags) != layers:
        raise fields.fail("no_rope_layers", f"{len(flags)} entries for {layers} layers")
    for index, flag in enumerate(flags):
        if flag not in (0, 1):
            raise fields.fail(f"no_rope_layers[{index}]", f"{shown(flag)} is not known here; 0, 1 are")
    return [CHUNKED if flag and fields.has("attention_chunk_size") else ATTENTION for flag in flags]


def _chunked_caches(fields: Fields, heads: Heads, kinds: Sequence[str]) -> list[CacheLayers]:
    return [
        CacheLayers(
            name="attention" if kind == ATTENTION else "chunked attention",
            layers=layers,
            elements_per_token=heads.kv_elements_per_token,
            kv_heads=heads.kv,
            chunk=None if kind == ATTENTION else fields.size("attention_chunk_size"),
            flops_per_position=heads.flops_per_position,
        )
        for kind, layers in Counter(kinds).items()
    ]


def gemma3n(fields: Fields) -> Architecture:
    """Gemma 3n's text model: per-layer embeddings are looked up, not streamed; its last layers share earlier keys.

    A layer that shares keys and values reads those of an earlier layer again. They are counted once, as bytes that a
    pass must read at least, but for every layer's FLOPs.
    """
    fields = fields.with_defaults(GEMMA3N)
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every, heads, streams = tuple(range(count)), blocks.read_heads(fields, hidden), fields.size("altup_num_inputs")
    shared = fields.count("num_kv_shared_layers")
    if shared >= count:
        raise fields.fail("num_kv_shared_layers", f"{shared} of {count} layers: one at least keeps keys of its own")
    own = every[: count - shared]
    width = fields.size("hidden_size_per_layer_input")
    weights = [
        *blocks.tables(fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings")),
        *blocks.lookup("model.embed_tokens_per_layer", fields.size("vocab_size_per_layer_input"), count * width),
        *blocks.linear("model.per_layer_model_projection", "other", count * width, hidden),
        *blocks.norm("model.per_layer_projection_norm", width),
        *_gemma3n_attention(fields, hidden, heads, every, own),
        *_gemma3n_feed_forward(fields, hidden, count),
        *_gemma3n_layer(fields, hidden, width, streams),
        *blocks.norm("model.norm", hidden),
    ]
    if streams > 1:
        for name in ("altup_projections", "altup_unembed_projections"):
            weights += blocks.linear(f"model.{name}.*", "other", hidden, hidden, tuple(range(streams - 1)))
    windows = blocks.read_windows(fields, count, fields.size("sliding_window"), lambda layer: (layer + 1) % 5 != 0)
    caches = blocks.kv_caches(heads, windows[: len(own)])
    caches += [
        CacheLayers(
            name="attention to shared keys", layers=layers, window=window, flops_per_position=heads.flops_per_position
        )
        for window, layers in Counter(windows[len(own) :]).items()
    ]
    notes = (
        [f"{shared} of {count} layers attend to the keys of earlier ones: read again, counted once"] if shared else []
    )
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden, notes=notes)


def _gemma3n_attention(
    fields: Fields, hidden: int, heads: Heads, every: tuple[int, ...], own: tuple[int, ...]
) -> list[Weight]:
    prefix, bias = f"{LAYER}.self_attn", fields.flag("attention_bias")
    queries, keys = heads.query * heads.dim, heads.kv * heads.dim
    return [
        *blocks.linear(f"{prefix}.q_proj", "attn_q", queries, hidden, every, bias=bias),
        *blocks.linear(f"{prefix}.k_proj", "attn_k", keys, hidden, own, bias=bias),
        *blocks.linear(f"{prefix}.v_proj", "attn_v", keys, hidden, own, bias=bias),
        *blocks.linear(f"{prefix}.o_proj", "attn_output", hidden, queries, every, bias=bias),
        *blocks.norm(f"{prefix}.q_norm", heads.dim, every),
        *blocks.norm(f"{prefix}.k_norm", heads.dim, own),
    ]


def _gemma3n_feed_forward(fields: Fields, hidden: int, count: int) -> list[Weight]:
    """``intermediate_size`` is one width, or a list with the width of each layer."""
    if not isinstance(fields.get("intermediate_size"), (list, tuple)):
        return blocks.gated(f"{LAYER}.mlp", hidden, fields.size("intermediate_size"), tuple(range(count)))
    widths = fields.items("intermediate_size")
    if len(widths) != count:
        raise fields.fail("intermediate_size", f"{len(widths)} entries for {count} layers")
    for index, width in enumerate(widths):
        if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= LARGEST:
            raise fields.fail(
                f"intermediate_size[{index}]", f"{shown(width)}: a whole number from 1 to 2**40 is needed"
            )
    layers: dict[int, list[int]] = {}
    for layer, width in enumerate(widths):
        layers.setdefault(width, []).append(layer)
    return [
        weight
        for width, alike in layers.items()
        for weight in blocks.gated(f"{LAYER}.mlp", hidden, width, tuple(alike))
    ]


def _gemma3n_layer(fields: Fields, hidden: int, width: int, streams: int) -> list[Weight]:
    every = tuple(range(blocks.layer_count(fields)))
    rank = fields.size("laurel_rank")
    altup, laurel = f"{LAYER}.altup", f"{LAYER}.laurel"
    names = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    return [
        *blocks.norms(LAYER, (*names, "post_per_layer_input_norm"), hidden, every),
        *blocks.linear(f"{LAYER}.per_layer_input_gate", "other", width, hidden, every),
        *blocks.linear(f"{LAYER}.per_layer_projection", "other", hidden, width, every),
        *blocks.norms(altup, ("correct_output_scale", "router_norm"), hidden, every),
        *blocks.linear(f"{altup}.correction_coefs", "other", streams, streams, every),
        *blocks.linear(f"{altup}.prediction_coefs", "other", streams * streams, streams, every),
        *blocks.router(f"{altup}.modality_router", streams, hidden, every),
        *blocks.linear(f"{laurel}.linear_left", "other", rank, hidden, every),
        *blocks.linear(f"{laurel}.linear_right", "other", hidden, rank, every),
        *blocks.norm(f"{laurel}.post_laurel_norm", hidden, every),
    ]


def mllama(fields: Fields) -> Architecture:
    """Llama 3.2 Vision's text model: some layers attend to an image instead of to the text.

    Those keep the image's positions (``cross_attention_tokens``, which the wrapper counts from its tower) whatever
    the context. Without an image the model passes them over: what is counted is decoding beside one, and what the
    limit leaves out is marked.
    """
    fields = fields.with_defaults({"tie_word_embeddings": False, "num_key_value_heads": 8})
    hidden, count = fields.size("hidden_size"), blocks.layer_count(fields)
    every, heads = tuple(range(count)), blocks.read_heads(fields, hidden)
    listed = fields.has("cross_attention_layers")
    crossed = read_indices(fields, "cross_attention_layers", count) if listed else every[3::5]
    own = others(count, crossed)
    vocabulary = fields.size("vocab_size")
    if fields.flag("tie_word_embeddings"):
        raise fields.fail(
            "tie_word_embeddings", "true: its table has eight rows more than its head, both cannot be one"
        )
    weights = [
        # Eight rows more than the head: tokens that stand for an image are never put out.
        *blocks.lookup("model.embed_tokens", vocabulary + 8, hidden),
        *blocks.linear("lm_head", "head", vocabulary, hidden),
        *blocks.norm("model.norm", hidden),
    ]
    caches: list[CacheLayers] = []
    notes: list[str] = []
    if own:
        weights += _mllama_block(fields, hidden, own)
        weights += blocks.attention(f"{LAYER}.self_attn", hidden, heads, own)
        caches += blocks.kv_caches(heads, [None] * len(own))
    if crossed:
        beside_image = [
            *_mllama_block(fields, hidden, crossed),
            *blocks.attention(f"{LAYER}.cross_attn", hidden, heads, crossed),
            *blocks.head_norms(f"{LAYER}.cross_attn", heads, crossed),
            *blocks.vector(f"{LAYER}.cross_attn_attn_gate", 1, crossed, part="other"),
            *blocks.vector(f"{LAYER}.cross_attn_mlp_gate", 1, crossed, part="other"),
        ]
        weights += [replace(weight, needs_image=True) for weight in beside_image]
        notes.append(
            f"{len(crossed)} of {count} layers attend to an image and are skipped without one: this is decoding beside "
            "an image, and only the limit is without"
        )
        caches.append(
            CacheLayers(
                name="cross-attention",
                layers=len(crossed),
                elements_per_token=heads.kv_elements_per_token,
                kv_heads=heads.kv,
                fixed_tokens=fields.size("cross_attention_tokens"),
                flops_per_position=heads.flops_per_position,
                needs_image=True,
            )
        )
    return blocks.assemble(fields, weights, caches, layers=count, hidden=hidden, notes=notes)


def _mllama_block(fields: Fields, hidden: int, layers: tuple[int, ...]) -> list[Weight]:
    """What every layer has, whatever it attends to."""
    return [
        *blocks.norms(LAYER, ("input_layernorm", "post_attention_layernorm"), hidden, layers),
        *blocks.gated(f"{LAYER}.mlp", hidden, fields.size("intermediate_size"), layers),
    ]


FAMILIES: dict[str, Family] = {"llama4_text": llama4, "gemma3n_text": gemma3n, "mllama_text_model": mllama}
