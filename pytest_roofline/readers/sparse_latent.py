"""Latent attention to a selection of tokens: DeepSeek V3.2 and GLM-5, whose indexers score all tokens and pick some.

A layer keeps the latent and the rope key of every token and reads those of the ``index_topk`` that it picked. To pick
them, its indexer reads one key of ``index_head_dim`` of every token. Engines keep these keys in 8 bits with a scale of
32 for each, as in DeepSeek's own kernels, whatever the format of the KV cache (transformers: in 16 bits).
"""

from __future__ import annotations

from dataclasses import replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers.blocks import Layers, layer_count, linear, norm
from pytest_roofline.readers.fields import Family, Fields
from pytest_roofline.readers.latent import kinds_of_feed_forward, latent_cache, read_latent
from pytest_roofline.readers.mixture import shared_and_routed

_SCALE_BYTES = 4
"""Of one index key, in float32."""
_ATTENTION = "indexed_attention"


def _sparse(fields: Fields) -> Architecture:
    count = layer_count(fields)
    kinds = fields.items("layer_types", [_ATTENTION] * count)
    if kinds != [_ATTENTION] * count:
        raise fields.fail("layer_types", f"{count} times {_ATTENTION} is needed: no other layers are known here")
    indexing = _indexing_layers(fields, count)

    def extra(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
        # What follows the model's own layers predicts further tokens, and picks for itself.
        return _indexer(fields, hidden, tuple(layer for layer in layers if layer in indexing or layer >= count))

    latents = replace(latent_cache(fields, count), selected=fields.size("index_topk"))
    caches = [_index_keys(fields, len(indexing)), latents]
    read = read_latent(fields, kinds_of_feed_forward, shared_and_routed, extra=extra, caches=caches)
    note = (
        f"sparse attention: a step reads the latents of {latents.selected:,} tokens at most, and an index key of each; "
        "an engine that attends to all reads all"
    )
    return replace(read, notes=(*read.notes, note))


def _indexing_layers(fields: Fields, count: int) -> frozenset[int]:
    """The layers that pick; the others of GLM-5 take what the last of them has picked."""
    kinds = fields.items("indexer_types", _scheduled(fields, count))
    if len(kinds) != count or not set(kinds) <= {"full", "shared"}:
        raise fields.fail("indexer_types", f"'full' or 'shared' is needed for each of {count} layers")
    if kinds[0] != "full":
        raise fields.fail("indexer_types", "the first layer has to pick: no layer before it has")
    return frozenset(layer for layer, kind in enumerate(kinds) if kind == "full")


def _scheduled(fields: Fields, count: int) -> list[str]:
    """By ``index_topk_pattern``, such as ``FSSF``, else every ``index_topk_freq``-th layer."""
    if fields.has("index_topk_pattern"):
        pattern = fields.get("index_topk_pattern")
        if isinstance(pattern, str):
            return [{"F": "full", "S": "shared"}.get(letter, letter) for letter in pattern]
        return fields.items("index_topk_pattern")
    every, offset = fields.size("index_topk_freq", 1), fields.count("index_skip_topk_offset", 2)
    return ["shared" if max(layer - offset + 1, 0) % every else "full" for layer in range(count)]


def _indexer(fields: Fields, hidden: int, layers: Layers) -> list[Weight]:
    if not layers:
        return []
    heads, dim, rank = fields.size("index_n_heads"), fields.size("index_head_dim"), fields.size("q_lora_rank")
    prefix = "model.layers.*.self_attn.indexer"
    return [
        *linear(f"{prefix}.wq_b", "other", heads * dim, rank, layers),
        *linear(f"{prefix}.wk", "other", dim, hidden, layers),
        *norm(f"{prefix}.k_norm", dim, layers, bias=True),
        # As small as a router, and kept like one.
        *linear(f"{prefix}.weights_proj", "router", heads, hidden, layers),
    ]


def _index_keys(fields: Fields, layers: int) -> CacheLayers:
    heads, dim = fields.size("index_n_heads"), fields.size("index_head_dim")
    return CacheLayers(
        name="index keys",
        layers=layers,
        elements_per_token=dim,
        kv_heads=1,
        bytes_per_element=1 + _SCALE_BYTES / dim,
        flops_per_position=2 * heads * dim,
    )


FAMILIES: dict[str, Family] = {"deepseek_v32": _sparse, "glm_moe_dsa": _sparse}
