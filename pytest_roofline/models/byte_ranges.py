"""Sets of byte ranges: which bytes of a storage were read, written, or are wanted.

Pure arithmetic on half-open intervals ``[start, stop)``; no framework. A storage is one address space of its own,
so a set never mixes two of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

Range = tuple[int, int]

LINE_BYTES = 64
"""Memory moves in whole lines of about this size: a gap smaller than it is read along with its neighbours."""

RANGES_LIMIT = 1 << 16
"""More ranges than this in one view are counted by lines instead of exactly."""


class RangeSet:
    """A set of bytes as sorted, disjoint, non-touching ranges; adding is cheap, and queries merge what was added."""

    __slots__ = ("_pending", "_ranges")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges: list[Range] = []
        self._pending: list[Range] = [(start, stop) for start, stop in ranges if stop > start]

    def add(self, start: int, stop: int) -> None:
        """Add the bytes from `start` to before `stop`; an empty range adds nothing."""
        if stop > start:
            self._pending.append((start, stop))

    def update(self, ranges: Iterable[Range]) -> None:
        """Add every range."""
        self._pending.extend(pair for pair in ranges if pair[1] > pair[0])

    @property
    def ranges(self) -> list[Range]:
        """The ranges, sorted, disjoint and not touching."""
        if self._pending:
            self._ranges = merged(self._ranges + self._pending)
            self._pending = []
        return self._ranges

    @property
    def total_bytes(self) -> int:
        """Number of distinct bytes."""
        return sum(stop - start for start, stop in self.ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges or self._pending)

    def __iter__(self) -> Iterator[Range]:
        return iter(self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self.ranges == other.ranges

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, byte: int) -> bool:
        ranges = self.ranges
        at = bisect_right(ranges, (byte, byte)) if ranges else 0
        # The range that starts at `byte` sorts after (byte, byte), so both neighbours are looked at.
        return any(start <= byte < stop for start, stop in ranges[max(0, at - 1) : at + 1])

    def minus(self, other: RangeSet) -> RangeSet:
        """The bytes of this set that are not in the other."""
        return RangeSet(_difference(self.ranges, other.ranges))

    def common(self, other: RangeSet) -> RangeSet:
        """The bytes that are in both sets."""
        return RangeSet(_intersection(self.ranges, other.ranges))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Sort the ranges and join those that overlap or touch."""
    result: list[Range] = []
    for start, stop in sorted(ranges):
        if stop <= start:
            continue
        if result and start <= result[-1][1]:
            if stop > result[-1][1]:
                result[-1] = (result[-1][0], stop)
        else:
            result.append((start, stop))
    return result


def _difference(left: Sequence[Range], right: Sequence[Range]) -> list[Range]:
    result: list[Range] = []
    at = 0
    for start, stop in left:
        while at < len(right) and right[at][1] <= start:
            at += 1
        ahead = at
        while ahead < len(right) and right[ahead][0] < stop:
            if right[ahead][0] > start:
                result.append((start, right[ahead][0]))
            start = max(start, right[ahead][1])
            ahead += 1
        if start < stop:
            result.append((start, stop))
    return result


def _intersection(left: Sequence[Range], right: Sequence[Range]) -> list[Range]:
    result: list[Range] = []
    here = there = 0
    while here < len(left) and there < len(right):
        start = max(left[here][0], right[there][0])
        stop = min(left[here][1], right[there][1])
        if start < stop:
            result.append((start, stop))
        if left[here][1] < right[there][1]:
            here += 1
        else:
            there += 1
    return result


def view_ranges(
    offset_bytes: int,
    sizes: Sequence[int],
    strides_bytes: Sequence[int],
    item_bytes: int,
    *,
    limit: int = RANGES_LIMIT,
) -> list[Range] | None:
    """The bytes that a strided view covers, whatever the order of its dimensions; broadcast dimensions count once.

    Exact as long as there are at most `limit` runs. A view with more (every second element of a large matrix) is
    counted by whole lines, as memory moves it; None when even those are too many.
    """
    if any(size == 0 for size in sizes):
        return []
    dims = sorted((stride, size) for size, stride in zip(sizes, strides_bytes, strict=True) if size > 1 and stride != 0)
    for gap_bytes in (0, LINE_BYTES - 1):
        run_bytes = item_bytes
        outer: list[tuple[int, int]] = []
        count = 1
        for stride, size in dims:
            if stride <= run_bytes + gap_bytes:
                run_bytes += stride * (size - 1)
            else:
                outer.append((stride, size))
                count *= size
        if count <= limit:
            steps = [range(0, stride * size, stride) for stride, size in outer]
            starts = (offset_bytes + sum(step) for step in product(*steps))
            return merged((start, start + run_bytes) for start in starts)
    return None
