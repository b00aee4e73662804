"""The book of a traced step: what it needed, what it touched, what it wrote, and what kept the trace open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from pytest_roofline.models.byte_ranges import Range, RangeSet
from pytest_roofline.models.lineage import Rows, forget_rows, row_dims, rows_of, source_numbers, source_ranges
from pytest_roofline.models.storages import CopyNote, Storage, Storages, bytes_of, ranges_of

FLOOR_BYTES = 64 * 1024
"""Copies smaller than this are nobody's bottleneck and stay out of the extra bytes."""


@dataclass(slots=True, kw_only=True)
class Product:
    """One matrix product or attention: its FLOPs, and what the least FLOPs need to know of it."""

    flops: float
    least_flops: float
    rows: int | None = None
    """Rows of activations that a product with a weight multiplies; None for anything else."""


class Ledger:
    """Entries of one step. The rules of the operations write it, the accounts read it."""

    def __init__(self, *, has_model: bool) -> None:
        self.repeated_bytes = 0
        self.storages = Storages()
        self.has_model = has_model
        self.open_reasons: list[str] = []
        self.notes: list[str] = []
        self.products: list[Product] = []
        self.experts_per_token: dict[int, int] = {}
        """Experts chosen per token, by the number of experts chosen from."""
        self.token_shapes: list[tuple[int, int]] = []
        """(sequences, tokens of each) as embedding lookups showed them."""
        self.query_shapes: list[tuple[int, int]] = []
        """(sequences, queries of each) as attention showed them."""
        self.copies: list[CopyNote] = []
        self.is_paused = False
        """Operations that are done now are not the step's."""
        self.attended: dict[int, RangeSet] | None = None
        """While an attention call runs: of the storages behind its keys and values, the bytes that it may look at."""
        self.grown: list[tuple[Storage, int]] = []
        """Concatenations of an earlier tensor with new rows, and the bytes of these."""

    def open(self, reason: str) -> None:
        """The trace cannot account for everything, and why."""
        if reason not in self.open_reasons:
            self.open_reasons.append(reason)

    def note(self, text: str) -> None:
        """Something the reader of the figures should know."""
        if text not in self.notes:
            self.notes.append(text)

    def is_weight(self, storage: Storage) -> bool:
        """Whether it looks like a weight so far: here before the step and not changed by it."""
        if not storage.existed or storage.is_argument or storage.is_cache or storage.written:
            return False
        return storage.is_model if self.has_model else storage.nbytes >= FLOOR_BYTES

    def is_stored(self, storage: Storage) -> bool:
        """Whether it is a weight or a cache, which one step hands to the next in the form it is stored in."""
        is_state = storage.existed and 0 < storage.written.total_bytes < storage.nbytes
        return self.is_weight(storage) or storage.is_cache or is_state

    def touch(self, tensor: torch.Tensor) -> None:
        """An operation reads these bytes, needed or not."""
        storage = self.storages.of(tensor)
        if storage.existed:
            storage.touched.update(ranges_of(tensor) or ())
        if storage.note is not None:
            storage.note.is_read = True
        if storage.is_blank and tensor.numel():
            self.open("the step reads memory that no traced operation wrote (a kernel outside PyTorch's dispatcher)")
            storage.is_blank = False

    def need(self, tensor: torch.Tensor) -> None:
        """Arithmetic consumes this tensor: whatever was in memory before the step has to be read."""
        self.touch(tensor)
        storage = self.storages.of(tensor)
        if storage.lineage is not None:
            for dim in row_dims(tensor):
                rows = rows_of(self.storages, tensor, dim)
                if rows is not None:
                    self.need_rows(rows)
                    return
            self.note("part of a copy could not be followed row by row; its source is left out of the least bytes")
        elif storage.existed:
            listed = ranges_of(tensor)
            if listed is None:
                self.note("a tensor too scattered to list is left out of the least bytes")
                return
            read = RangeSet(listed)
            self.require(storage.number, read.minus(storage.written).ranges if storage.written else listed)
        elif storage.whole and bytes_of(tensor) >= storage.nbytes:
            for number, ranges in storage.whole:
                self.require(number, ranges)

    def need_rows(self, rows: Rows) -> None:
        """Arithmetic consumes these rows of a tensor; those that this step computed are in no memory yet."""
        for number, ranges in source_ranges(rows).items():
            self.require(number, ranges)

    def require(self, number: int, ranges: Iterable[Range]) -> None:
        """These bytes of a storage have to be read from memory."""
        limit = None if self.attended is None else self.attended.get(number)
        read = RangeSet(ranges) if limit is None else RangeSet(ranges).common(limit)
        needed = self.storages[number].needed
        before = needed.total_bytes
        needed.update(read)
        self.repeated_bytes += read.total_bytes - (needed.total_bytes - before)

    def wrote(self, tensor: torch.Tensor, ranges: Sequence[Range] | None = None) -> None:
        """New bytes were stored there (all of the tensor unless ranges are given)."""
        storage = self.storages.of(tensor)
        storage.is_written = True
        storage.is_blank = False
        listed = ranges_of(tensor) if ranges is None else ranges
        if storage.lineage is not None or storage.whole:
            forget_rows(storage, listed)
        if storage.existed and listed is not None:
            storage.written.update(listed)

    def made(self, outputs: Iterable[torch.Tensor], inputs: Iterable[torch.Tensor], *, is_blank: bool = False) -> None:
        """An operation allocated these outputs and filled them from the inputs."""
        flows = [self.storages.of(tensor) for tensor in inputs]
        for output in outputs:
            storage = self.storages.of(output, existed=False)
            if storage.existed:
                storage.is_written = True
                continue
            storage.is_blank = is_blank and output.numel() > 0
            storage.is_written = storage.is_written or not is_blank
            storage.reaches_memory = storage.reaches_memory or any(flow.reaches_memory for flow in flows)

    def came_about(self, outputs: Iterable[torch.Tensor]) -> None:
        """These came out of an operation that nobody understands: made in this step, from who knows what."""
        for output in outputs:
            with suppress(RuntimeError, NotImplementedError):  # layouts without a storage
                storage = self.storages.of(output, existed=False)
                storage.is_written = storage.reaches_memory = storage.is_fed = True

    def flows_into(self, tensor: torch.Tensor, inputs: Iterable[torch.Tensor]) -> None:
        """Data of the inputs went into an existing tensor."""
        storage = self.storages.of(tensor)
        if any(self.storages.of(source).reaches_memory for source in inputs):
            storage.reaches_memory = True
            storage.is_fed = True

    def copied(self, kind: str, output: torch.Tensor, copied_bytes: int, sources: Iterable[int]) -> None:
        """The output repeats bytes that were in memory already."""
        numbers = frozenset(sources)
        if copied_bytes >= FLOOR_BYTES and numbers:
            note = CopyNote(kind=kind, copied_bytes=copied_bytes, sources=numbers)
            self.storages.of(output).note = note
            self.copies.append(note)

    def sources_of(self, tensor: torch.Tensor) -> set[int]:
        """Numbers of the storages from before the step that this tensor is, or is a copy of."""
        storage = self.storages.of(tensor)
        numbers = {number for number, _ in storage.whole}
        if storage.note is not None:
            numbers |= storage.note.sources
        if storage.lineage is not None:
            for dim in row_dims(tensor):
                rows = rows_of(self.storages, tensor, dim)
                if rows is not None:
                    return numbers | source_numbers(rows)
        if storage.existed:
            numbers.add(storage.number)
        return numbers
