"""Operations that only move data: out of place, into a tensor, or rows picked by an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytest_roofline.models.byte_ranges import Range, merged
from pytest_roofline.models.calls import Call
from pytest_roofline.models.ledger import Ledger
from pytest_roofline.models.lineage import (
    ROWS_LIMIT,
    Rows,
    cpu_indices,
    move,
    offsets,
    source_ranges,
    whole_sources,
    write_rows,
)
from pytest_roofline.models.storages import FRESH, NUMBER_SHIFT, CopyNote, bytes_of

_JOINS = frozenset({"aten.cat", "aten.stack"})
_PICKS = frozenset({"aten.embedding", "aten.index", "aten.index_select", "aten.gather", "aten.take"})
_KINDS = {
    "aten.cat": "concatenated",
    "aten.stack": "concatenated",
    "aten.roll": "shifted",
    "aten.repeat": "repeated",
    "aten.repeat_interleave": "repeated",
    "aten.index": "gathered",
    "aten.index_select": "gathered",
    "aten.gather": "gathered",
}
_MERGES = frozenset({"aten.slice_scatter", "aten.select_scatter", "aten.index_copy"})
COPIES = frozenset({"aten.clone", "aten._to_copy", "aten.lift_fresh_copy", "aten.contiguous"})
MOVES = frozenset({"aten.roll", "aten.flip", "aten.repeat", "aten.repeat_interleave"}) | _JOINS | _PICKS | _MERGES


def follow_move(ledger: Ledger, call: Call) -> None:
    """Enter a movement that makes a new tensor; what it reads is needed only if arithmetic consumes it later."""
    output: torch.Tensor = call.result
    sources = _sources(call)
    ids = {id(source) for source in sources}
    indices = [tensor for tensor in call.inputs if id(tensor) not in ids]
    for index in indices:
        ledger.need(index)
    is_pick = call.name in _PICKS
    if not is_pick:
        for source in sources:
            ledger.touch(source)
    ledger.made([output], sources)
    if not any(_has_past(ledger, source) for source in sources):
        return
    rows = move(ledger.storages, output, sources, _shadow(call))
    if rows is None:
        _enter_whole(ledger, call, sources)
        return
    _enter_rows(ledger, call, rows)
    if is_pick:
        for number, ranges in source_ranges(rows).items():
            ledger.storages[number].touched.update(ranges)


def _enter_rows(ledger: Ledger, call: Call, rows: Rows) -> None:
    if not rows.row_bytes:
        return
    output: torch.Tensor = call.result
    if not write_rows(ledger.storages, output, rows):
        ledger.need_rows(rows)
    is_past = rows.codes >= 0
    found = {number: sum(stop - start for start, stop in ranges) for number, ranges in source_ranges(rows).items()}
    if call.name in _JOINS and found:
        # A joint of something from before the step and something new: a cache that grows by being copied. New are
        # rows that the step computed, and those that it was handed as an argument beside the larger cache.
        largest = max(found, key=lambda number: found[number])
        for number in set(found) - {largest}:
            if ledger.storages[number].is_argument:
                is_past &= rows.codes >> NUMBER_SHIFT != number
                del found[number]
        fresh_bytes = int((~is_past).sum()) * rows.row_bytes
        if fresh_bytes:
            ledger.grown.append((ledger.storages.of(output), fresh_bytes))
            for number in found:
                storage = ledger.storages[number]
                storage.appended_bytes = max(storage.appended_bytes, fresh_bytes)
    if call.name != "aten.embedding":
        kind = _KINDS.get(call.name, "copied")
        ledger.copied(kind, output, int(is_past.sum()) * rows.row_bytes, found)


def _enter_whole(ledger: Ledger, call: Call, sources: list[torch.Tensor]) -> None:
    """Rows cannot be followed: single elements are picked, or all of the sources was copied in another order."""
    output: torch.Tensor = call.result
    if call.name not in _PICKS:
        whole = whole_sources(ledger.storages, sources)
        ledger.storages.of(output).whole = whole
        ledger.copied(_KINDS.get(call.name, "copied"), output, bytes_of(output), {number for number, _ in whole})
        return
    source = sources[0]
    storage = ledger.storages.of(source)
    starts = offsets(source, None)
    if not storage.existed or storage.lineage is not None or starts is None or output.numel() > ROWS_LIMIT:
        ledger.note(f"elements picked by {call.name} could not be followed; they are left out of the least bytes")
        return
    picked = call.func(starts, *cpu_indices(call.args[1:]), **cpu_indices(call.kwargs))
    ranges = row_ranges(picked, source.element_size())
    ledger.require(storage.number, ranges)
    storage.touched.update(ranges)


def follow_copy(ledger: Ledger, call: Call) -> None:
    """Enter a copy of the same shape: a clone, a cast, a transfer."""
    output: torch.Tensor = call.result
    source: torch.Tensor = call.args[0]
    ledger.touch(source)
    ledger.made([output], [source])
    if not _has_past(ledger, source):
        return
    rows = move(ledger.storages, output, [source], lambda codes: codes[0], is_same_shape=True)
    numbers = ledger.sources_of(source)
    if rows is None or (rows.row_bytes and not write_rows(ledger.storages, output, rows)):
        ledger.storages.of(output).whole = whole_sources(ledger.storages, [source])
        moved_bytes = bytes_of(output)
    else:
        moved_bytes = int((rows.codes >= 0).sum()) * rows.row_bytes
    is_repeated = any(stride == 0 and size > 1 for stride, size in zip(source.stride(), source.shape, strict=True))
    is_cast = source.dtype != output.dtype
    kind = "repeated" if is_repeated else "cast" if is_cast else "copied"
    if source.device != output.device:
        kind = f"moved from {source.device} to {output.device}"
    ledger.copied(kind, output, moved_bytes, numbers)


def follow_store(ledger: Ledger, call: Call) -> None:
    """Enter ``target.copy_(source)``."""
    target: torch.Tensor = call.args[0]
    source: torch.Tensor = call.args[1]
    storage = ledger.storages.of(target)
    if not isinstance(source, torch.Tensor):
        ledger.wrote(target)
        return
    ledger.touch(source)
    ledger.flows_into(target, [source])
    if not _has_past(ledger, source):
        ledger.wrote(target)
        return
    spread = source.expand(target.shape)
    rows = move(ledger.storages, target, [spread], lambda codes: codes[0], is_same_shape=True)
    if rows is None or not rows.row_bytes:
        if storage.existed or rows is not None:
            ledger.need(source)
            ledger.wrote(target)
            return
        whole = whole_sources(ledger.storages, [source])
        ledger.wrote(target)
        if bytes_of(target) >= storage.nbytes:
            storage.whole = whole
        return
    if not storage.existed:
        ledger.wrote(target)
        if not write_rows(ledger.storages, target, rows):
            ledger.need_rows(rows)
        ledger.copied("copied", target, int((rows.codes >= 0).sum()) * rows.row_bytes, source_ranges(rows))
        return
    # Rows that come from this very storage were only shifted: a ring buffer would leave them where they are.
    is_shift = (rows.codes >= 0) & (rows.codes >> NUMBER_SHIFT == storage.number)
    others = torch.where(is_shift, torch.full_like(rows.codes, FRESH), rows.codes)
    ledger.need_rows(Rows(others, rows.dim, rows.row_bytes, rows.ratio))
    starts = offsets(target, rows.dim)
    if starts is None:
        ledger.wrote(target)
        return
    ledger.wrote(target, row_ranges(starts[~is_shift.expand(starts.shape)], rows.row_bytes))
    shifts = torch.where(is_shift, rows.codes, torch.full_like(rows.codes, FRESH))
    write_rows(ledger.storages, target, Rows(shifts, rows.dim, rows.row_bytes, rows.ratio))
    shifted_bytes = int(is_shift.sum()) * rows.row_bytes
    ledger.copies.append(CopyNote(kind="shifted", copied_bytes=shifted_bytes, sources=frozenset({storage.number})))


def stored_rows(call: Call) -> list[Range] | None:
    """Byte ranges that an indexed store writes in its first argument; None when they cannot be told."""
    target: torch.Tensor = call.args[0]
    last = target.dim() - 1
    for dim in (last, None):
        starts = offsets(target, dim)
        if starts is None or (dim is not None and target.stride(last) != 1 and target.shape[last] > 1):
            continue
        width = target.element_size() * (target.shape[last] if dim is not None else 1)
        try:
            if call.name == "aten.index_put_":
                indices = [None if index is None else index.cpu() for index in call.args[1]]
                picked = torch.ops.aten.index.Tensor(starts, indices)
            elif call.name.startswith("aten.scatter"):
                if dim is not None:
                    continue
                picked = starts.gather(call.args[1], call.args[2].cpu())
            elif call.name.startswith("aten.masked"):
                if dim is not None:
                    continue
                picked = starts[call.args[1].cpu().expand(starts.shape)]
            else:
                if dim is not None and call.args[1] % target.dim() == last:
                    continue
                picked = starts.index_select(call.args[1], call.args[2].reshape(-1).cpu())
        except (IndexError, RuntimeError):
            continue  # the index reaches into the row itself: once more, by element
        return row_ranges(picked, width)
    return None


def row_ranges(starts: torch.Tensor, width: int) -> list[Range]:
    """Ranges of `width` bytes from each start, joined."""
    ordered = starts.reshape(-1).unique()
    if not len(ordered):
        return []
    breaks = torch.nonzero(ordered[1:] - ordered[:-1] > width).reshape(-1)
    firsts = ordered[torch.cat([torch.zeros(1, dtype=torch.int64, device="cpu"), breaks + 1])]
    lasts = ordered[torch.cat([breaks, torch.tensor([len(ordered) - 1], device="cpu")])] + width
    return merged(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _has_past(ledger: Ledger, tensor: torch.Tensor) -> bool:
    """Whether it is, or holds copies of, something from before the step."""
    storage = ledger.storages.of(tensor)
    return storage.existed or storage.lineage is not None or bool(storage.whole)


def _sources(call: Call) -> list[torch.Tensor]:
    if call.name in _JOINS:
        return [part for part in call.args[0] if part.numel()]
    if call.name in _MERGES:
        arguments = call.arguments
        return [arguments["self"], arguments.get("src", arguments.get("source"))]
    if call.name == "aten.repeat_interleave" and len(call.args) == 1:
        return []
    return [call.args[0]]


def _shadow(call: Call) -> Callable[[list[torch.Tensor]], torch.Tensor]:
    """The same movement, to be done to codes."""

    def shadow(codes: list[torch.Tensor]) -> torch.Tensor:
        try:
            return _moved(call, codes)
        except (IndexError, RuntimeError):
            return torch.empty(0)  # the movement reaches into the rows: no shape that could be expected

    return shadow


def _moved(call: Call, codes: list[torch.Tensor]) -> Any:
    if call.name in _JOINS:
        dim = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0)
        return torch.cat(codes, dim) if call.name == "aten.cat" else torch.stack(codes, dim)
    if call.name == "aten.embedding":
        return codes[0][call.args[1].cpu()]
    if call.name in _MERGES:
        arguments = cpu_indices(call.arguments)
        arguments["self"] = codes[0]
        arguments["src" if "src" in arguments else "source"] = codes[1]
        return call.func(**arguments)
    if call.name == "aten.gather":
        dim, index = call.args[1], call.args[2].cpu()
        if dim % codes[0].dim() == codes[0].dim() - 1 or not bool((index == index[..., :1]).all()):
            return torch.empty(0)
        if call.args[0].shape[-1] != index.shape[-1]:
            return torch.empty(0)
        return codes[0].gather(dim, index[..., :1])
    return call.func(codes[0], *cpu_indices(call.args[1:]), **cpu_indices(call.kwargs))
