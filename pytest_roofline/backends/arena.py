"""Memory that every kernel of a CPU's probe shares: filled once, and then only looked at through views.

Memory that a process never had before is the dearest part of a probe: a virtual machine was seen to take seconds
for 256 MiB of it, and reads them in 10 ms from then on. So there is one arena, and the kernels of all backends,
sizes and patterns work on parts of it.

::

    source   what is read. Nobody writes to it, so its data stays as it was filled.
    target   what is written. It holds what the last kernel left there.

The data serves everybody. Any four aligned bytes are an ordinary float32 number, any two an ordinary bfloat16 and
float16 number (no zero, infinity, NaN or subnormal: those take other times than data does), no byte is `ABSENT` (a
search for it goes to the end), and it repeats itself every `TILE_BYTES` (parts that far apart are equal).
"""

from __future__ import annotations

import mmap
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, runtime_checkable

from pytest_roofline.backends.crew import Crew
from pytest_roofline.backends.libc import Library, Range, plain_range, shared_range, stretched_range
from pytest_roofline.device import Device, Pattern
from pytest_roofline.protocol import Kernel

TILE_BYTES = 2**20
USUAL_TARGET_BYTES = 2**27
"""What an arena has where caches ask for no more."""
_TOUCH_BYTES = 2**21
"""What one thread fills at a time: a huge page. Memory belongs where it was touched first, and the kernels of all
sizes and thread numbers use the same memory: turn by turn is fair to all of them."""
_STEP_BYTES = 2**23
"""What is filled between two looks at the clock, at least."""
_FIRST_BYTES = 2**26
_SEED = 0x726F6F66


def tile() -> bytes:
    """One period of the data: half-words whose exponent is that of [1, 2) in bfloat16, of either sign, random."""
    generator = random.Random(_SEED)
    exponents = bytes(0x3F if value % 2 else 0xBF for value in range(256))
    fractions = bytes(value | 0x80 for value in range(256))
    data = bytearray(TILE_BYTES)
    high = 1 if sys.byteorder == "little" else 0
    data[high::2] = generator.randbytes(TILE_BYTES // 2).translate(exponents)
    data[1 - high :: 2] = generator.randbytes(TILE_BYTES // 2).translate(fractions)
    return bytes(data)


class Region:
    """One part of an arena: addresses for `capacity_bytes`, of which the first `filled_bytes` hold data."""

    def __init__(self, memory: Range, capacity_bytes: int) -> None:
        self.memory = memory
        self.capacity_bytes = capacity_bytes
        self.filled_bytes = 0

    @property
    def address(self) -> int:
        """Where it starts."""
        return self.memory.address

    def fill(self, crew: Crew, data: bytes, wanted_bytes: int, has_time: Callable[[], bool]) -> bool:
        """Fill it up to `wanted_bytes`, step by step as long as there is time; whether that was reached."""
        wanted = min(wanted_bytes, self.capacity_bytes)
        step = max(_STEP_BYTES, _TOUCH_BYTES * crew.size)
        while self.filled_bytes < wanted:
            if not has_time():
                return False
            end = min(wanted, self.filled_bytes + step)
            starts = range(self.filled_bytes, end, _TOUCH_BYTES)
            crew.run(
                [
                    partial(
                        self._write,
                        data,
                        [(start, min(start + _TOUCH_BYTES, end)) for start in starts[turn :: crew.size]],
                    )
                    for turn in range(crew.size)
                ]
            )
            self.filled_bytes = end
        return True

    def _write(self, data: bytes, parts: Sequence[tuple[int, int]]) -> None:
        for start, end in parts:
            for offset in range(start, end, len(data)):
                self.memory.write(offset, data, min(len(data), end - offset))


class Arena:
    """The shared memory of one CPU device. Its parts live as long as it does, or any kernel made in it.

    `source_bytes` and `target_bytes` are what they may grow to: addresses, and no memory before `fill`. With
    `is_stretchable`, the target is memory that can be mapped again and again (see `stretched`). MemoryError where
    the system has not even so many addresses.
    """

    def __init__(
        self, library: Library, threads: int, source_bytes: float, target_bytes: float, *, is_stretchable: bool = False
    ) -> None:
        self._library = library
        self._threads = threads
        self._stretched: dict[tuple[int, int, int], list[tuple[Range, Range]] | None] = {}
        self._data = tile()
        source, target = _whole(source_bytes), _whole(target_bytes)
        self.source = Region(plain_range(source), source)
        shared = shared_range(target) if is_stretchable else None
        self.is_stretchable = shared is not None
        self.target = Region(shared or plain_range(target), target)

    def fill(self, source_bytes: float, target_bytes: float, has_time: Callable[[], bool] = lambda: True) -> None:
        """Have so much data in the two parts, or as much as there is time for: first a quarter of it, then a half.

        What is there stays, and at least 2 MiB of each are filled whatever the time.
        """
        self._stretched.clear()
        crew = Crew(self._threads)
        asked = ((self.source, _whole(source_bytes)), (self.target, _whole(target_bytes)))
        for region, _ in asked:
            region.fill(crew, self._data, _TOUCH_BYTES, lambda: True)
        size = _FIRST_BYTES
        while any(region.filled_bytes < min(wanted, region.capacity_bytes) for region, wanted in asked):
            for region, wanted in asked:
                if not region.fill(crew, self._data, min(wanted, size), has_time):
                    return
            size *= 2

    def room_bytes(self, pattern: Pattern) -> int:
        """The largest working set of the pattern for which this arena has data."""
        source, target = self.source.filled_bytes, self.target.filled_bytes
        if pattern == "read":
            return source
        if pattern == "write":
            return target
        return 2 * min(source, target) if pattern == "copy" else 3 * min(source // 2, target)

    def stretched(self, threads: int, share_bytes: int, length: int) -> list[tuple[Range, Range]] | None:
        """For each thread a share of the target as two ranges of at least `length` bytes; None where unavailable.

        Behind both is the same memory again and again, half a share apart: what is copied from the first to the
        second is read long after it was written, and written long after it was read. A share is a multiple of two
        tiles, at most `share_bytes` and what the target has.
        """
        share = min(share_bytes, self.target.filled_bytes // threads) // (2 * TILE_BYTES) * (2 * TILE_BYTES)
        key = threads, share, length
        if key not in self._stretched:
            self._stretched[key] = self._stretch(threads, share, length)
        return self._stretched[key]

    def _stretch(self, threads: int, share: int, length: int) -> list[tuple[Range, Range]] | None:
        memory = self.target.memory
        if not self.is_stretchable or not share:
            return None
        ranges = []
        for thread in range(threads):
            start = thread * share
            first = stretched_range(self._library, memory, share, length, start=start)
            second = stretched_range(self._library, memory, share, length, start=start, turn=share // 2)
            if first is None or second is None:
                return None  # the system allows so many mappings and no more
            ranges.append((first, second))
        return ranges

    def trim(self, source_bytes: float) -> None:
        """Give back what the source has over so many bytes, where the system can take a part of a mapping."""
        keep = _whole(source_bytes)
        if keep < self.source.filled_bytes and hasattr(mmap, "MADV_DONTNEED"):
            with suppress(OSError):
                self.source.memory.give_back(keep)
                self.source.filled_bytes = keep


def _whole(size_bytes: float) -> int:
    """Whole huge pages, at least one."""
    return max(1, -(-int(size_bytes) // _TOUCH_BYTES)) * _TOUCH_BYTES


@runtime_checkable
class ArenaBackend(Protocol):
    """What a backend of the CPU may offer on top: kernels in memory that it shares with other backends."""

    def make_arena(self, device: Device, source_bytes: float, target_bytes: float) -> Arena:
        """An arena that may grow to these sizes; MemoryError where there are no addresses for it."""
        ...

    def kernels_in(self, arena: Arena, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Every kernel for the pattern over parts of the arena, which must have room for them. Nothing is allocated."""
        ...
