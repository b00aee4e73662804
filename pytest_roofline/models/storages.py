"""The storages that a traced step touches: who they are, and what was read and written of each.

A storage is known by the address of its implementation object. A weak reference keeps that *address* (not the
data) from being reused while the trace lasts, so a buffer that the step frees is never mistaken for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytest_roofline.models.byte_ranges import Range, RangeSet, view_ranges

NUMBER_SHIFT = 44
"""A source code is ``storage number << 44 | byte offset``: 16 TiB per storage, half a million storages."""


@dataclass(slots=True, eq=False)
class Lineage:
    """Where each unit of a storage was copied from.

    `codes` has one entry per `unit_bytes` of the storage: a source code, FRESH for bytes that this step computed, or
    SELF for bytes still as they were before the step. `ratio` is source bytes per own byte (a cast changes it).
    """

    unit_bytes: int
    codes: torch.Tensor
    ratio: float = 1.0


FRESH = -1
SELF = -2


@dataclass(slots=True, eq=False)
class CopyNote:
    """A copy that a better implementation would not make: `copied_bytes` written, and read again once if ever."""

    kind: str
    copied_bytes: int
    sources: frozenset[int]
    is_read: bool = False


@dataclass(slots=True, eq=False)
class Storage:
    """One storage and its part in the step; ranges are byte offsets into it."""

    number: int
    weak: Any
    nbytes: int
    device: str
    existed: bool
    """It was there before the step; otherwise a traced op made it."""
    is_parameter: bool = False
    is_model: bool = False
    """A parameter or a buffer of the model."""
    is_argument: bool = False
    is_blank: bool = False
    """Allocated and not written by anything that was traced."""
    is_attended: bool = False
    is_cache: bool = False
    is_written: bool = False
    is_fed: bool = False
    """Something that existed before the step, or was made from it, was stored here."""
    is_full_window: bool = False
    """A sliding window that has stopped growing."""
    reaches_memory: bool = False
    """Something that existed before the step flowed into it."""
    is_weights_only: bool = False
    """Made from weights alone: the same on every pass."""
    needed: RangeSet = field(default_factory=RangeSet)
    touched: RangeSet = field(default_factory=RangeSet)
    written: RangeSet = field(default_factory=RangeSet)
    """Bytes of new content; rows that were only shifted inside the storage are not among them."""
    appended_bytes: int = 0
    """New bytes joined to this earlier tensor by a concatenation."""
    allowed: RangeSet | None = None
    """The part of a static cache that held tokens before the step."""
    lineage: Lineage | None = None
    whole: tuple[tuple[int, tuple[Range, ...]], ...] = ()
    """Sources of a copy whose rows could not be followed: read only when all of it is."""
    note: CopyNote | None = None
    dtype: str = ""
    """Of the tensor that it was first seen as."""

    @property
    def is_alive(self) -> bool:
        """Whether somebody still holds it."""
        return not self.weak.expired()


class Storages:
    """Every storage of one trace, by identity."""

    def __init__(self) -> None:
        self._by_key: dict[int, tuple[Storage, Any]] = {}
        self._by_memory: dict[tuple[str, int, int], Storage] = {}
        self._all: list[Storage] = []
        self._copies: list[Storage] = []

    def __iter__(self) -> Iterator[Storage]:
        return iter(self._all)

    def __getitem__(self, number: int) -> Storage:
        return self._all[number]

    def forget_dead_copies(self) -> None:
        """Drop the codes of copies that nobody holds any more: they are the only large thing in a trace."""
        for entry in self._copies:
            if not entry.is_alive:
                entry.lineage = None
        self._copies = [entry for entry in self._copies if entry.lineage is not None]

    def keep_codes(self, entry: Storage, lineage: Lineage) -> None:
        """Give a storage its codes."""
        if entry.lineage is None:
            self.forget_dead_copies()
            self._copies.append(entry)
        entry.lineage = lineage

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether the trace has seen this tensor's storage."""
        return tensor.untyped_storage()._cdata in self._by_key

    def of(self, tensor: torch.Tensor, *, existed: bool = True) -> Storage:
        """The storage of a tensor, entered on first sight; RuntimeError or NotImplementedError where it has none."""
        storage = tensor.untyped_storage()
        known = self._by_key.get(storage._cdata)
        if known is not None:
            return known[0]
        weak = StorageWeakRef(storage)
        # The same memory under another storage object (DLPack, a file mapped twice) is not counted twice.
        memory = (str(tensor.device), storage.data_ptr(), storage.nbytes())
        twin = self._by_memory.get(memory) if existed and memory[1] else None
        if twin is not None and twin.is_alive:
            self._by_key[storage._cdata] = (twin, weak)
            return twin
        entry = Storage(
            number=len(self._all),
            weak=weak,
            nbytes=memory[2],
            device=memory[0],
            existed=existed,
            reaches_memory=existed,
            dtype=str(tensor.dtype).removeprefix("torch."),
        )
        self._by_key[storage._cdata] = (entry, weak)
        self._all.append(entry)
        if existed:
            self._by_memory[memory] = entry
        return entry


def ranges_of(tensor: torch.Tensor) -> list[Range] | None:
    """The bytes of its storage that a tensor covers; None where they are too scattered to list."""
    item = tensor.element_size()
    return view_ranges(
        tensor.storage_offset() * item, tensor.shape, [stride * item for stride in tensor.stride()], item
    )


def bytes_of(tensor: torch.Tensor) -> int:
    """Bytes of its elements, each counted (a broadcast one as often as it shows)."""
    return int(tensor.numel() * tensor.element_size())
