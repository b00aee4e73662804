"""Decoders from before Llama: learned positions or ALiBi, fused projections, LayerNorms, keys of their own."""

from __future__ import annotations

from dataclasses import replace

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.readers.blocks import (
    Heads,
    Layers,
    assemble,
    attention,
    kv_caches,
    layer_count,
    linear,
    lookup,
    norm,
    norms,
    plain,
    read_heads,
    tables,
)
from pytest_roofline.readers.fields import Family, Fields


def _gpt2(fields: Fields) -> Architecture:
    """GPT-2 and GPT-BigCode (one key head when ``multi_query``)."""
    hidden_key, context = fields.either("n_embd", "hidden_size"), fields.either("n_positions", "n_ctx")
    hidden, count = fields.size(hidden_key), layer_count(fields, fields.either("n_layer", "num_hidden_layers"))
    layers = tuple(range(count))
    heads = read_heads(fields, hidden, query=fields.either("n_head", "num_attention_heads"), kv=None, dim="")
    if fields.flag("multi_query", False):
        heads = Heads(query=heads.query, kv=1, dim=heads.dim, value_dim=heads.dim)
    layer = "transformer.h.*"
    weights = [
        *tables(
            fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings"), embedding="transformer.wte"
        ),
        *lookup("transformer.wpe", fields.size(context), hidden),
        *attention(
            f"{layer}.attn", hidden, heads, layers, bias=True, output_bias=True, output="c_proj", fused="c_attn"
        ),
        *plain(f"{layer}.mlp", hidden, fields.size("n_inner", 4 * hidden), layers, bias=True, names=("c_fc", "c_proj")),
        *norms(layer, ("ln_1", "ln_2"), hidden, layers, bias=True),
        *norm("transformer.ln_f", hidden, bias=True),
    ]
    return assemble(fields, weights, kv_caches(heads, [None] * count), layers=count, hidden=hidden, max_context=context)


def _gpt_neox(fields: Fields) -> Architecture:
    """GPT-NeoX and Pythia: attention and feed-forward side by side, unless ``use_parallel_residual`` says otherwise."""
    hidden, count = fields.size("hidden_size"), layer_count(fields)
    layers, bias = tuple(range(count)), fields.flag("attention_bias")
    heads = read_heads(fields, hidden, kv=None, dim="")
    layer = "gpt_neox.layers.*"
    weights = [
        *tables(
            fields.size("vocab_size"),
            hidden,
            tied=fields.flag("tie_word_embeddings"),
            embedding="gpt_neox.embed_in",
            head="embed_out",
        ),
        *_fused_attention(f"{layer}.attention", hidden, heads, layers, bias=bias),
        *_fused_mlp(f"{layer}.mlp", hidden, fields.size("intermediate_size"), layers, bias=True),
        *norms(layer, ("input_layernorm", "post_attention_layernorm"), hidden, layers, bias=True),
        *norm("gpt_neox.final_layer_norm", hidden, bias=True),
    ]
    read = assemble(fields, weights, kv_caches(heads, [None] * count), layers=count, hidden=hidden)
    return replace(read, reductions=count) if fields.flag("use_parallel_residual", True) else read


def _bloom(fields: Fields) -> Architecture:
    hidden = fields.size(fields.either("hidden_size", "n_embed"))
    count = layer_count(fields, fields.either("n_layer", "num_hidden_layers"))
    layers = tuple(range(count))
    heads = read_heads(fields, hidden, query=fields.either("n_head", "num_attention_heads"), kv=None, dim="")
    layer = "transformer.h.*"
    weights = [
        *_word_tables(fields, hidden),
        *norm("transformer.word_embeddings_layernorm", hidden, bias=True),
        *_fused_attention(f"{layer}.self_attention", hidden, heads, layers, bias=True),
        *_fused_mlp(f"{layer}.mlp", hidden, 4 * hidden, layers, bias=True),
        *norms(layer, ("input_layernorm", "post_attention_layernorm"), hidden, layers, bias=True),
        *norm("transformer.ln_f", hidden, bias=True),
    ]
    return assemble(
        fields, weights, kv_caches(heads, [None] * count), layers=count, hidden=hidden, max_context="seq_length"
    )


def _falcon(fields: Fields) -> Architecture:
    """Falcon 7B (one key head), 40B and 180B (grouped, ``new_decoder_architecture``) and Falcon-RW (one per head)."""
    hidden = fields.size("hidden_size")
    count = layer_count(fields, fields.either("num_hidden_layers", "n_layer"))
    layers, bias, is_new = tuple(range(count)), fields.flag("bias"), fields.flag("new_decoder_architecture")
    query = fields.either("num_attention_heads", "n_head")
    heads = read_heads(
        fields, hidden, query=query, kv=fields.either("num_kv_heads", "n_head_kv") if is_new else None, dim=""
    )
    if not is_new and fields.flag("multi_query"):
        heads = Heads(query=heads.query, kv=1, dim=heads.dim, value_dim=heads.dim)
    names: tuple[str, ...] = ("input_layernorm",)
    if not fields.flag("parallel_attn"):
        names = ("input_layernorm", "post_attention_layernorm")
    elif fields.count("num_ln_in_parallel_attn", 2 if is_new else 1) == 2:
        names = ("ln_attn", "ln_mlp")
    layer = "transformer.h.*"
    weights = [
        *_word_tables(fields, hidden),
        *_fused_attention(f"{layer}.self_attention", hidden, heads, layers, bias=bias),
        *_fused_mlp(f"{layer}.mlp", hidden, fields.size("ffn_hidden_size", 4 * hidden), layers, bias=bias),
        *norms(layer, names, hidden, layers, bias=True),
        *norm("transformer.ln_f", hidden, bias=True),
    ]
    notes: tuple[str, ...] = ()
    if is_new and heads.kv < heads.query:
        notes = (f"{heads.kv} key heads are counted; transformers caches them repeated for {heads.query} heads",)
    read = assemble(fields, weights, kv_caches(heads, [None] * count), layers=count, hidden=hidden, notes=notes)
    return replace(read, reductions=count) if is_new or fields.flag("parallel_attn") else read


def _opt(fields: Fields) -> Architecture:
    """OPT: two more positions than it says, and in the 350M a narrower embedding with projections."""
    hidden, count, bias = fields.size("hidden_size"), layer_count(fields), fields.flag("enable_bias")
    layers, narrow = tuple(range(count)), fields.size("word_embed_proj_dim", hidden)
    heads = read_heads(fields, hidden, kv=None, dim="")
    root, layer = "model.decoder", "model.decoder.layers.*"
    weights = [
        *tables(
            fields.size("vocab_size"),
            narrow,
            tied=fields.flag("tie_word_embeddings"),
            embedding=f"{root}.embed_tokens",
        ),
        *lookup(f"{root}.embed_positions", fields.size("max_position_embeddings") + 2, hidden),
        *attention(f"{layer}.self_attn", hidden, heads, layers, bias=bias, output_bias=bias, output="out_proj"),
        *plain(layer, hidden, fields.size("ffn_dim"), layers, bias=bias, names=("fc1", "fc2")),
    ]
    if narrow != hidden:
        weights += linear(f"{root}.project_in", "other", hidden, narrow)
        weights += linear(f"{root}.project_out", "other", narrow, hidden)
    if fields.flag("layer_norm_elementwise_affine"):
        weights += norms(layer, ("self_attn_layer_norm", "final_layer_norm"), hidden, layers, bias=True)
        if fields.flag("do_layer_norm_before") and not fields.flag("_remove_final_layer_norm"):
            weights += norm(f"{root}.final_layer_norm", hidden, bias=True)
    return assemble(fields, weights, kv_caches(heads, [None] * count), layers=count, hidden=hidden)


def _mpt(fields: Fields) -> Architecture:
    """MPT: no biases, a feed-forward of four widths whatever ``expansion_ratio`` says, as transformers builds it."""
    hidden, count = fields.size("d_model"), layer_count(fields, "n_layers")
    layers = tuple(range(count))
    heads = read_heads(fields, hidden, query="n_heads", kv=None, dim="")
    layer = "transformer.blocks.*"
    weights = [
        *tables(
            fields.size("vocab_size"), hidden, tied=fields.flag("tie_word_embeddings"), embedding="transformer.wte"
        ),
        *attention(f"{layer}.attn", hidden, heads, layers, output="out_proj", fused="Wqkv"),
        *plain(f"{layer}.ffn", hidden, 4 * hidden, layers),
        *norms(layer, ("norm_1", "norm_2"), hidden, layers),
        *norm("transformer.norm_f", hidden),
    ]
    return assemble(
        fields, weights, kv_caches(heads, [None] * count), layers=count, hidden=hidden, max_context="max_seq_len"
    )


def _word_tables(fields: Fields, hidden: int) -> list[Weight]:
    return tables(
        fields.size("vocab_size"),
        hidden,
        tied=fields.flag("tie_word_embeddings"),
        embedding="transformer.word_embeddings",
    )


def _fused_attention(prefix: str, hidden: int, heads: Heads, layers: Layers, *, bias: bool) -> list[Weight]:
    return attention(
        prefix, hidden, heads, layers, bias=bias, output_bias=bias, output="dense", fused="query_key_value"
    )


def _fused_mlp(prefix: str, hidden: int, width: int, layers: Layers, *, bias: bool) -> list[Weight]:
    return plain(prefix, hidden, width, layers, bias=bias, names=("dense_h_to_4h", "dense_4h_to_h"))


FAMILIES: dict[str, Family] = {
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt2,
    "gpt_neox": _gpt_neox,
    "bloom": _bloom,
    "falcon": _falcon,
    "opt": _opt,
    "mpt": _mpt,
}
