"""Which bytes a copy was made of, row by row.

Moving data (concatenate, roll, repeat, gather, cast) reads nothing by itself that the step *needs*: what it needs is
what the arithmetic then consumes of the copy. So every moved row carries a code of the bytes it came from; a row is
the run of elements along one dimension that moves as a whole, which keeps the codes at a few per cent of the data.
The movement itself is followed by doing the same operation on the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pytest_roofline.models.byte_ranges import Range, RangeSet
from pytest_roofline.models.storages import FRESH, NUMBER_SHIFT, SELF, Lineage, Storage, Storages, ranges_of

ROWS_LIMIT = 1 << 23
"""More rows than this are not followed one by one (64 MiB of codes)."""

OFFSET_MASK = (1 << NUMBER_SHIFT) - 1


@dataclass(slots=True)
class Rows:
    """Codes of a tensor: its shape, but one code per piece along `dim` (one piece, unless rows were put together).

    Each code stands for ``row_bytes * ratio`` bytes at its source.
    """

    codes: torch.Tensor
    dim: int
    row_bytes: int
    """Bytes of a row, or of a piece of it, in the tensor itself."""
    ratio: float
    """Source bytes per byte of the tensor."""


def row_dims(tensor: torch.Tensor) -> list[int]:
    """Dimensions along which neighbours are adjacent in memory, the last one first."""
    return [dim for dim in reversed(range(tensor.dim())) if tensor.stride(dim) == 1 or tensor.shape[dim] == 1]


def offsets(tensor: torch.Tensor, dim: int | None) -> torch.Tensor | None:
    """Byte offset of each row along `dim` (of each element when None), shaped like the tensor; None when too many."""
    item = tensor.element_size()
    shape = [1 if at == dim else size for at, size in enumerate(tensor.shape)]
    count = 1
    for size in shape:
        count *= size
    if count > ROWS_LIMIT:
        return None
    result = torch.full([1] * len(shape), tensor.storage_offset() * item, dtype=torch.int64, device="cpu")
    for at, size in enumerate(shape):
        steps = torch.arange(size, dtype=torch.int64, device="cpu") * (tensor.stride(at) * item)
        result = result + steps.reshape([-1 if other == at else 1 for other in range(len(shape))])
    return result


def rows_of(storages: Storages, tensor: torch.Tensor, dim: int) -> Rows | None:
    """Codes of a tensor's rows along `dim`; None when they cannot be told row by row."""
    storage = storages.of(tensor)
    starts = offsets(tensor, dim)
    if starts is None or dim not in row_dims(tensor):
        return None
    row_bytes = (tensor.shape[dim] if tensor.dim() else 1) * tensor.element_size()
    lineage = storage.lineage
    own = starts + (storage.number << NUMBER_SHIFT) if storage.existed else torch.full_like(starts, FRESH)
    if storage.existed and storage.written:
        own[_within(starts, row_bytes, storage.written)] = FRESH
    if lineage is None:
        return None if storage.whole else Rows(own, dim, row_bytes, 1.0)
    if row_bytes > lineage.unit_bytes and row_bytes % lineage.unit_bytes == 0:
        # Rows put together from several copied pieces: one code for each piece.
        pieces = torch.arange(row_bytes // lineage.unit_bytes, dtype=torch.int64, device="cpu") * lineage.unit_bytes
        shape = [len(pieces) if at == dim else 1 for at in range(tensor.dim())]
        starts, own = starts + pieces.reshape(shape), own + pieces.reshape(shape) * (own >= 0)
        row_bytes = lineage.unit_bytes
    inside = starts % lineage.unit_bytes
    if row_bytes and bool((inside + row_bytes > lineage.unit_bytes).any()):
        return None
    found = lineage.codes[starts // lineage.unit_bytes]
    if lineage.ratio != 1.0 and bool((found == SELF).any()):
        return None
    moved = found + (inside * lineage.ratio).to(torch.int64)
    codes = torch.where(found >= 0, moved, torch.where(found == SELF, own, found))
    return Rows(codes, dim, row_bytes, lineage.ratio)


def _within(starts: torch.Tensor, row_bytes: int, written: RangeSet) -> torch.Tensor:
    """Which rows lie wholly in the written ranges."""
    ranges = torch.tensor(written.ranges, dtype=torch.int64, device="cpu").reshape(-1, 2)
    at = torch.searchsorted(ranges[:, 0].contiguous(), starts.contiguous(), right=True) - 1
    return (at >= 0) & (starts + row_bytes <= ranges[at.clamp(min=0), 1])


def write_rows(storages: Storages, tensor: torch.Tensor, rows: Rows) -> bool:
    """Note that the tensor's rows now hold copies; False when they cannot be noted row by row."""
    storage = storages.of(tensor)
    starts = offsets(tensor, rows.dim)
    if starts is None or rows.dim not in row_dims(tensor) or rows.row_bytes == 0:
        return False
    lineage = storage.lineage
    if lineage is None:
        units = -(-storage.nbytes // rows.row_bytes)
        if units > ROWS_LIMIT:
            return False
        fill = SELF if storage.existed else FRESH
        lineage = Lineage(
            unit_bytes=rows.row_bytes,
            codes=torch.full((units,), fill, dtype=torch.int64, device="cpu"),
            ratio=rows.ratio,
        )
    if lineage.unit_bytes != rows.row_bytes or lineage.ratio != rows.ratio:
        return False
    if bool((starts % lineage.unit_bytes != 0).any()):
        return False
    storages.keep_codes(storage, lineage)
    lineage.codes[starts.reshape(-1) // lineage.unit_bytes] = rows.codes.expand(starts.shape).reshape(-1)
    return True


def forget_rows(storage: Storage, ranges: Sequence[Range] | None) -> None:
    """The step computed new bytes there: they are copies no longer."""
    storage.whole = ()
    lineage = storage.lineage
    if lineage is None:
        return
    if ranges is None:
        storage.lineage = None
        return
    for start, stop in ranges:
        lineage.codes[start // lineage.unit_bytes : -(-stop // lineage.unit_bytes)] = FRESH


def move(
    storages: Storages,
    output: torch.Tensor,
    sources: Sequence[torch.Tensor],
    shadow: Callable[[list[torch.Tensor]], torch.Tensor],
    *,
    is_same_shape: bool = False,
) -> Rows | None:
    """Follow a movement from `sources` to `output`: `shadow` does to the codes what was done to the data."""
    last = output.dim() - 1
    candidates = row_dims(output) if is_same_shape else [last]
    for dim in candidates:
        parts: list[Rows] = []
        for source in sources:
            # A gathered table may have another number of dimensions than what was gathered; rows are the last of both.
            part = rows_of(storages, source, dim if is_same_shape else source.dim() - 1)
            if part is None:
                break
            parts.append(part)
        if len(parts) != len(sources) or not parts:
            continue
        known = [part for part in parts if bool((part.codes >= 0).any())]
        ratios = {part.ratio for part in known} or {1.0}
        scale = sources[0].element_size() / output.element_size()
        if len(ratios) > 1:
            continue
        if not known:
            return Rows(torch.full((1,), FRESH), dim, 0, 1.0)
        codes = shadow([part.codes for part in parts])
        expected = [1 if at == dim else size for at, size in enumerate(output.shape)]
        if list(codes.shape) != expected:
            continue
        row_bytes = output.shape[dim] * output.element_size()
        return Rows(codes, dim, row_bytes, ratios.pop() * scale)
    return None


def source_numbers(rows: Rows) -> set[int]:
    """Numbers of the storages behind the rows."""
    numbers = rows.codes[rows.codes >= 0] >> NUMBER_SHIFT
    if not len(numbers):
        return set()
    low, high = int(numbers.min()), int(numbers.max())
    return {low} if low == high else set(numbers.unique().tolist())


def source_ranges(rows: Rows) -> dict[int, list[Range]]:
    """The distinct source bytes behind the rows, by storage number."""
    codes = rows.codes[rows.codes >= 0]
    if not len(codes):
        return {}
    if not bool((codes[1:] > codes[:-1]).all()):  # most copies keep the order, and sorting is what costs
        codes = codes.unique()
    width = max(1, round(rows.row_bytes * rows.ratio))
    gaps = codes[1:] - codes[:-1] > width
    firsts = codes[torch.cat([torch.ones(1, dtype=torch.bool, device="cpu"), gaps])]
    lasts = codes[torch.cat([gaps, torch.ones(1, dtype=torch.bool, device="cpu")])] + width
    result: dict[int, list[Range]] = {}
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        start = first & OFFSET_MASK
        result.setdefault(first >> NUMBER_SHIFT, []).append((start, start + last - first))
    return result


def whole_sources(storages: Storages, sources: Iterable[torch.Tensor]) -> tuple[tuple[int, tuple[Range, ...]], ...]:
    """What a copy is made of when its rows cannot be followed: everything that its sources cover."""
    found: dict[int, RangeSet] = {}
    for source in sources:
        storage = storages.of(source)
        for number, ranges in storage.whole:
            found.setdefault(number, RangeSet()).update(ranges)
        if storage.existed and storage.lineage is None:
            listed = RangeSet(ranges_of(source) or ()).minus(storage.written)
            found.setdefault(storage.number, RangeSet()).update(listed)
        elif storage.lineage is not None:
            for dim in row_dims(source):
                rows = rows_of(storages, source, dim)
                if rows is not None:
                    for number, listed_ranges in source_ranges(rows).items():
                        found.setdefault(number, RangeSet()).update(listed_ranges)
                    break
    return tuple((number, tuple(ranges.ranges)) for number, ranges in found.items() if ranges)


def cpu_indices(value: Any) -> Any:
    """An argument of an operation with its tensors on the CPU, to do the operation on codes."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {name: cpu_indices(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cpu_indices(item) for item in value)
    return value
