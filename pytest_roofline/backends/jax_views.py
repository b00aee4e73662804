"""Arrays that existed before a JAX step, and the parts of them that its values are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

_KNOWN_ITEMS = 4096

Range = tuple[int, int, int]
"""Axis, start, stop."""


@dataclass(slots=True, kw_only=True, eq=False)
class Root:
    """An array that existed before the step, and the ranges of it that were read."""

    nbytes: float
    shape: tuple[int, ...]
    dtype: str
    is_donated: bool = False
    is_cache: bool = False
    """Whether rows of it were replaced or appended to: the mark of a KV cache."""
    filled_bytes: float | None = None
    """Of a cache whose position is known: what lies before it."""
    _ranges: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    _loose_least: float = 0.0
    _loose_expected: float = 0.0

    def read(self, view: View, times: float) -> None:
        """Note that everything a view covers was read, `times` over when the place may differ each time."""
        if view.range is not None:
            axis, start, stop = view.range
            self._ranges.setdefault(axis, set()).add((start, stop))
            return
        self._loose_least = max(self._loose_least, view.least_bytes)
        self._loose_expected += view.expected_bytes * (1.0 if view.is_spread else times)

    def _range_bytes(self) -> float:
        largest = 0.0
        for axis, spans in self._ranges.items():
            covered, end = 0, 0
            for start, stop in sorted(spans):
                covered += max(0, stop - max(start, end))
                end = max(end, stop)
            largest = max(largest, self.nbytes * covered / max(1, self.shape[axis]))
        return largest

    @property
    def least_bytes(self) -> float:
        """Bytes of it that had to be read; slices whose place is not known may overlap, so the largest counts."""
        return min(self.nbytes, max(self._range_bytes(), self._loose_least))

    @property
    def expected_bytes(self) -> float:
        """Bytes of it that the program reads."""
        most = self.nbytes if self.filled_bytes is None else self.filled_bytes
        return max(self.least_bytes, min(most, self._range_bytes() + self._loose_expected))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A part of a root that a value is made of and that has not been read yet."""

    root: Root
    least_bytes: float
    expected_bytes: float
    range: Range | None = None
    is_intact: bool = True
    """Whether its axes are still those of the root."""
    is_spread: bool = False
    """Whether a loop reads it slice by slice, so that its bytes are those of all iterations."""

    def scaled(self, share: float, least_share: float | None = None) -> View:
        """A part of it whose place is not known."""
        return replace(
            self,
            least_bytes=self.least_bytes * (share if least_share is None else least_share),
            expected_bytes=self.expected_bytes * share,
            range=None,
            is_intact=False,
        )

    def within(self, axis: int, start: int, stop: int) -> View:
        """Part of it along one axis of the root."""
        share = (stop - start) / max(1, self.root.shape[axis])
        if not self.is_intact or self.range is not None:
            return self.scaled(share)
        return replace(self.scaled(share), range=(axis, start, stop))


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What is known of one variable of a program."""

    views: tuple[View, ...] = ()
    is_exact: bool = True
    """Whether a part of the value needs the same part of each view; not so after a concatenation."""
    is_computed: bool = False
    is_update: bool = False
    """A root with rows replaced or appended: those rows were counted as written already."""
    known: Any = None
    """The value itself, of small integers that decide which rows are touched."""


def known_of(array: Any) -> Any:
    """Small integers as a host array, None for anything else."""
    if isinstance(array, (bool, int)):
        return np.asarray(array)
    dtype = getattr(array, "dtype", None)
    if dtype is None or getattr(array, "size", _KNOWN_ITEMS + 1) > _KNOWN_ITEMS:
        return None
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iub":
        return None
    return np.asarray(array).copy()
