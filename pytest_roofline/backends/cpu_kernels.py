"""Access patterns of the bare processor: functions of the C library, one thread per core, on parts of an arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_roofline.backends.arena import TILE_BYTES, Arena, tile
from pytest_roofline.backends.crew import Crew, Task
from pytest_roofline.backends.libc import (
    ABSENT,
    PAGE_BYTES,
    Library,
    Range,
    shared_range,
    streaming_threshold_bytes,
    stretched_range,
)
from pytest_roofline.device import Pattern
from pytest_roofline.errors import MeasurementError
from pytest_roofline.protocol import Kernel

_CALL_BYTES = 8 * 2**20
"""Traffic of one thread in one launch, at least.

Handing a launch to the threads takes tens of microseconds.
"""
_CACHED_BYTES = 2 * 2**20
"""Source of a streaming write: so little that it stays in cache while other memory streams by."""
_LONGEST_THRESHOLD_BYTES = 2**32
"""A threshold above this was set by somebody who wants no streaming stores at all."""

Call = tuple[int, int, int]
"""The arguments of one call: an address, an address or a byte, a length."""


class Streaming:
    """How this C library has stores that bypass the cache: in calls of at least so many bytes; 0 for no way at all."""

    def __init__(self, library: Library, root: Path) -> None:
        threshold = streaming_threshold_bytes(root)
        if threshold is None or threshold > _LONGEST_THRESHOLD_BYTES:
            threshold = 0
        self.call_bytes = threshold + threshold // 16
        self.library = library


class CpuKernels:
    """Makes kernels for a crew of so many threads."""

    def __init__(self, threads: int, streaming: Streaming) -> None:
        self.crew = Crew(threads)
        self._library = streaming.library
        self._streaming_bytes = streaming.call_bytes
        self._sources: list[Range] = []
        self._sources_bytes = 0

    def make(self, arena: Arena, pattern: Pattern, working_set_bytes: float) -> list[Kernel]:
        """Every kernel for the pattern; a C library adds no two arrays, so there is none for the triad."""
        working_set = min(int(working_set_bytes), arena.room_bytes(pattern))
        if pattern == "read":
            return self._reads(arena, working_set)
        if pattern == "copy":
            return self._copies(arena, working_set)
        return self._writes(arena, working_set) if pattern == "write" else []

    def _share(self, part_bytes: int) -> int:
        """What one thread takes of a part: whole pages, at least one."""
        return max(1, part_bytes // self.crew.size // PAGE_BYTES) * PAGE_BYTES

    def _reads(self, arena: Arena, working_set: int) -> list[Kernel]:
        memory = arena.source
        share = self._share(working_set // 2)
        part = share * self.crew.size
        # The second half is one tile further than need be where there is room for it: two streams a power of two
        # apart met in the same banks of the memory, which cost the comparison a tenth.
        tiles = -(-part // TILE_BYTES)
        distance = (tiles + 1) * TILE_BYTES
        if distance + part > memory.filled_bytes:
            distance = tiles * TILE_BYTES
        calls = max(1, _CALL_BYTES // 2 // share)
        searches: list[Sequence[Call]] = []
        comparisons: list[Sequence[Call]] = []
        for thread in range(self.crew.size):
            one = memory.address + thread * share
            two = one + distance
            searches.append(((one, ABSENT, share), (two, ABSENT, share)) * calls)
            comparisons.append(((one, two, share),) * calls)
        library, kernels = self._library, []
        for name, function, work in (
            ("memchr", library.memchr, searches),
            ("memrchr", library.memrchr, searches),
            ("memcmp", library.memcmp, comparisons),
        ):
            if function is not None:
                tasks = [partial(_scan, function, arguments, memory.memory) for arguments in work]
                kernels.append(self._kernel(name, "read", 2 * share * calls, 2 * share, tasks))
        return kernels

    def _copies(self, arena: Arena, working_set: int) -> list[Kernel]:
        move = self._library.memmove
        if move is None:
            return []
        share = self._share(working_set // 2)
        source, target = arena.source, arena.target
        calls = max(1, _CALL_BYTES // 2 // share)
        work = [
            ((target.address + thread * share, source.address + thread * share, share),) * calls
            for thread in range(self.crew.size)
        ]
        tasks = self._repeats(move, work, (source.memory, target.memory))
        kernels = [self._kernel("memmove", "copy", 2 * share * calls, 2 * share, tasks)]
        ranges = self._stretched(arena, share, 2 * share)
        if ranges:
            length = self._streaming_bytes
            work = [((to.address, origin.address, length),) for origin, to in ranges]
            tasks = self._repeats(move, work, ranges)
            memory = ranges[0][0].physical_bytes  # source and target are one memory, each byte read and written
            kernels.append(self._kernel("memmove-streaming", "copy", 2 * length, memory, tasks))
        return kernels

    def _writes(self, arena: Arena, working_set: int) -> list[Kernel]:
        library, target, kernels = self._library, arena.target, []
        share = self._share(working_set)
        starts = [target.address + thread * share for thread in range(self.crew.size)]
        if library.memset is not None:
            calls = max(1, _CALL_BYTES // share)
            work: list[Sequence[Call]] = [((start, ABSENT + 1, share),) * calls for start in starts]
            tasks = self._repeats(library.memset, work, target.memory)
            kernels.append(self._kernel("memset", "write", share * calls, share, tasks))
        move, length = library.memmove, self._streaming_bytes
        if move is None or not length:
            return kernels
        ranges = self._stretched(arena, share, share)
        if ranges:
            starts = [to.address for _, to in ranges]
            memory = ranges[0][1].physical_bytes
        elif share >= length:
            length = memory = share
        else:
            return kernels
        if length > self._sources_bytes:
            found = [self._cached_source(length) for _ in starts]
            self._sources = [source for source in found if source is not None]
            self._sources_bytes = length
        if len(self._sources) == len(starts):
            work = [((start, one.address, length),) for start, one in zip(starts, self._sources, strict=True)]
            tasks = self._repeats(move, work, (target.memory, ranges, self._sources))
            kernels.append(self._kernel("memmove-streaming", "write", length, memory, tasks))
        return kernels

    def _stretched(self, arena: Arena, plain: int, share: int) -> list[tuple[Range, Range]] | None:
        """Ranges in which one call streams; None where the plain call is long enough, or nothing streams."""
        if plain >= self._streaming_bytes:
            return None
        return arena.stretched(self.crew.size, share, self._streaming_bytes)

    def _cached_source(self, length: int) -> Range | None:
        """So many addresses over little memory."""
        memory = shared_range(_CACHED_BYTES)
        source = stretched_range(self._library, memory, _CACHED_BYTES, length)
        if source is not None and memory is not None:
            data = tile()
            for offset in range(0, _CACHED_BYTES, len(data)):
                memory.write(offset, data, len(data))
        return source

    def _repeats(self, function: Callable[..., Any], work: Sequence[Sequence[Call]], alive: object) -> list[Task]:
        return [partial(_repeat, function, calls, alive) for calls in work]

    def _kernel(self, name: str, pattern: Pattern, moved: int, share: int, tasks: Sequence[Task]) -> Kernel:
        """`moved` and `share` (of the memory) are those of one thread."""
        return Kernel(
            name=name,
            pattern=pattern,
            bytes_per_launch=float(moved * self.crew.size),
            working_set_bytes=float(share * self.crew.size),
            launch=partial(self.crew.run, tasks),
        )


def _scan(function: Callable[..., Any], calls: Sequence[Call], alive: object) -> None:
    """Look for what is not there; `alive` holds the memory behind the addresses."""
    for arguments in calls:
        if function(*arguments):
            raise MeasurementError("the random data of the probe was overwritten while it was being read")


def _repeat(function: Callable[..., Any], calls: Sequence[Call], alive: object) -> None:
    for arguments in calls:
        function(*arguments)
