"""Which keys an attention call may look at: rows that a mask hides need not be read."""

from __future__ import annotations

from typing import Any

import torch

from pytest_roofline.models.byte_ranges import RangeSet
from pytest_roofline.models.calls import Call
from pytest_roofline.models.ledger import Ledger, Product
from pytest_roofline.models.lineage import Rows, rows_of, source_ranges
from pytest_roofline.models.storages import FRESH

MASK_LIMIT = 1 << 26
"""A mask with more elements is not read; every key then counts as attended."""


def attend(ledger: Ledger, arguments: dict[str, Any], output: torch.Tensor) -> None:
    """Enter scaled dot product attention: the query, and the keys and values that some query may attend."""
    query, key, value = arguments["query"], arguments["key"], arguments["value"]
    mask = next((arguments[name] for name in ("attn_mask", "attn_bias", "attn_bias_mask") if name in arguments), None)
    is_causal = bool(arguments.get("is_causal", False))
    ledger.need(query)
    if mask is not None:
        ledger.need(mask)
    _note_shape(ledger, query, key)
    allowed = _attended(query, key, mask, is_causal)
    for tensor in (key, value):
        _mark_cache(ledger, tensor)
        _need_attended(ledger, tensor, allowed)
    queries, keys = query.shape[-2], key.shape[-2]
    pairs = query.numel() // max(1, query.shape[-1]) * keys
    flops = 2.0 * pairs * (query.shape[-1] + value.shape[-1])
    is_halved = queries > 1 and (is_causal or (mask is not None and mask.shape[-2] > 1))
    ledger.products.append(Product(flops=flops, least_flops=flops / 2 if is_halved else flops))
    ledger.made([output], [query, key, value])


def attend_packed(ledger: Ledger, call: Call) -> None:
    """Enter attention over packed or paged sequences; keys picked by a table or lengths are left out."""
    arguments = call.arguments
    indexed = ("block_table", "seqused_k", "seqlen_k", "window_size_left", "window_size_right", "window_size")
    is_indexed = any(arguments.get(name) is not None for name in indexed)
    keys = (arguments["key"], arguments["value"])
    hidden = {id(tensor) for tensor in keys} if is_indexed else set()
    written = call.written
    hidden |= {id(tensor) for tensor in written}
    for tensor in call.inputs:
        if id(tensor) not in hidden:
            ledger.need(tensor)
    for tensor in keys:
        _mark_cache(ledger, tensor)
    if is_indexed:
        ledger.open(f"{call.name} reads keys through a table or lengths; they are left out of the least bytes")
    for tensor in written:
        ledger.flows_into(tensor, call.inputs)
        ledger.wrote(tensor)
    ledger.made([tensor for tensor in call.outputs if id(tensor) not in hidden], call.inputs)


def visible(ledger: Ledger, arguments: dict[str, Any]) -> dict[int, RangeSet]:
    """Of the storages behind keys and values, the bytes that the call may look at, by storage number.

    For attention that is about to be taken apart into products, which show no mask.
    """
    key, value = arguments["key"], arguments["value"]
    _note_shape(ledger, arguments["query"], key)
    mask, is_causal = arguments.get("attn_mask"), bool(arguments.get("is_causal", False))
    allowed = _attended(arguments["query"], key, mask, is_causal)
    found: dict[int, RangeSet] = {}
    for tensor in (key, value):
        _mark_cache(ledger, tensor)
        rows = None if allowed is None else rows_of(ledger.storages, tensor, tensor.dim() - 1)
        if rows is not None and allowed is not None:
            for number, ranges in source_ranges(_chosen(rows, allowed)).items():
                found.setdefault(number, RangeSet()).update(ranges)
            for number in ledger.sources_of(tensor):
                found.setdefault(number, RangeSet())
    return found


def _mark_cache(ledger: Ledger, tensor: torch.Tensor) -> None:
    sources = [ledger.storages[number] for number in ledger.sources_of(tensor)]
    largest = max((source.nbytes for source in sources), default=0)
    for source in sources:
        # The new row, handed over as an argument and joined to the cache, is no cache itself.
        is_new = source.is_argument and source.nbytes < largest
        source.is_attended = source.is_attended or not (source.is_parameter or is_new)


def _chosen(rows: Rows, allowed: torch.Tensor) -> Rows:
    codes = rows.codes[allowed.unsqueeze(-1).expand(rows.codes.shape)]
    return Rows(codes, rows.dim, rows.row_bytes, rows.ratio)


def _note_shape(ledger: Ledger, query: torch.Tensor, key: torch.Tensor) -> None:
    """Sequences and new tokens of each; query heads may be packed as queries, so the new keys are counted."""
    if ledger.token_shapes or ledger.query_shapes or key.dim() != 4:
        return
    rows = rows_of(ledger.storages, key, 3)
    fresh = 0 if rows is None else int((rows.codes == FRESH).all(dim=3).sum())
    tokens = fresh // max(1, key.shape[0] * key.shape[1])
    is_new = 0 < tokens < key.shape[2] or tokens == query.shape[2]
    ledger.query_shapes.append((query.shape[0], tokens if is_new else query.shape[2]))


def _need_attended(ledger: Ledger, tensor: torch.Tensor, allowed: torch.Tensor | None) -> None:
    if allowed is None:
        ledger.need(tensor)
        return
    ledger.touch(tensor)
    rows = rows_of(ledger.storages, tensor, tensor.dim() - 1)
    if rows is None and all(ledger.storages[number].allowed is not None for number in ledger.sources_of(tensor)):
        ledger.need(tensor)  # the cache itself says how far it is filled
        return
    if rows is None:
        ledger.note("keys and values of an attention call could not be followed row by row; they are left out")
        return
    ledger.need_rows(_chosen(rows, allowed))


def _attended(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, is_causal: bool
) -> torch.Tensor | None:
    """True for each key that some query may attend, broadcastable to (batch, heads, keys); None means all."""
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is not None and mask.numel() <= MASK_LIMIT:
        # Additive masks hide with minus infinity or with the lowest number of their dtype.
        seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        seen = seen.any(dim=-2).cpu()
        while seen.dim() < key.dim() - 1:
            seen = seen.unsqueeze(0)
        if seen.dim() > 1 and seen.shape[-2] not in (1, key.shape[-3]):
            seen = seen.any(dim=-2, keepdim=True)  # several query heads share a key head
        return seen
    if is_causal and queries < keys:
        # Causal masks are aligned to the upper left corner: query i sees keys 0 to i.
        return torch.arange(keys, device="cpu").reshape([1] * (key.dim() - 2) + [keys]) < queries
    return None
