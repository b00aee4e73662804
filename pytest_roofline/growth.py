"""The sets of a probe: where their memory comes from, how large they get, and one rate of each size.

On a CPU all of them are parts of one arena, which is filled until it is large enough or a part of the time is over.
Elsewhere every set has memory of its own, and they double until memory or a part of the time is used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_roofline.backends.arena import USUAL_TARGET_BYTES
from pytest_roofline.contest import Entrant, compete, enlist
from pytest_roofline.device import Device
from pytest_roofline.errors import InconclusiveMeasurement, MeasurementError, RooflineError
from pytest_roofline.meter import credible_cache_bytes, open_arena
from pytest_roofline.protocol import Backend
from pytest_roofline.shortage import NO_TIME, shortage
from pytest_roofline.sweep import knee_bytes
from pytest_roofline.units import format_bytes

CONTEST_BYTES = 2**28
LEAST_CONTEST_BYTES = 2**26
SHORT_BYTES = 2**21
"""Sets up to here may be read in short windows: no knee of interest depends on them."""
WINDOW_S = 6e-3
"""Windows of the sweep on a processor, at least, where a knee may depend on them."""
_SMALLEST_BYTES = 2**18
_CACHE_BYTES = 2**23
"""Up to here all kernels of a backend are tried while the sets grow; beyond it the best of them."""
_REREAD_BYTES = 2**22
"""Sets up to here are read only once where each of them needs memory of its own."""
_LEAST_SOURCE_BYTES = 2**27
_LEAST_TARGET_BYTES = 96 * 2**20
"""What an arena is filled to even where memory is slow to come, and no further unless a cache asks for it."""
_LAUNCHES_PER_CONTEST = 12
_WANTED_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large the sets are, and by which share of the time each part has to end."""

    largest_bytes: int
    contest_knees: int
    """Size of the contests. Caches of accelerators may keep a part of any set; those of processors forget a set
    that is read from end to end."""
    shares: dict[str, float]


_SHARES = {"growth": 0.3, "read": 0.45, "sweep": 0.65, "copy": 0.77, "write": 0.87, "triad": 0.95}
CPU = Plan(largest_bytes=2**29, contest_knees=8, shares=_SHARES)
ACCELERATOR = Plan(largest_bytes=2**31, contest_knees=24, shares=_SHARES)
ARENA = Plan(
    largest_bytes=2**32,
    contest_knees=8,
    shares={
        "plenty": 0.15,
        "memory": 0.36,
        "read": 0.54,
        "sweep": 0.71,
        "copy": 0.79,
        "write": 0.86,
        "triad": 0.92,
    },
)


class Growth:
    """Sets of growing size on one device; `largest` is the largest there is, in bytes, and `rates` the best of each."""

    def __init__(self, device: Device, backends: Sequence[Backend], budget_s: float) -> None:
        self.device = device
        self.backends = backends
        self.clock = backends[0].clock
        self.start_s = self.clock()
        self.budget_s = budget_s
        self.notes: list[str] = []
        self.largest = 0
        self.rates: dict[int, Entrant] = {}
        self.is_short_of_memory = False
        """Whether memory, not time, bounds the sets."""
        self.s_per_byte = 0.0
        """What a contest takes for a set of one byte more."""
        self._free_bytes = min(backend.free_memory_bytes(device) for backend in backends)
        self.arena = open_arena(device, backends, ARENA.largest_bytes, self._free_bytes, self.notes)
        if self.arena is not None:
            self.plan = ARENA
            self._fill_arena()
            return
        self.plan = CPU if device.is_cpu else ACCELERATOR
        # All sets of the sweep live at once, and together they take twice the largest: a quarter of what is free.
        self.largest = _power_below(min(self.plan.largest_bytes, self._free_bytes / 8))
        if self.largest < self.plan.largest_bytes:
            self._note_free()

    def until(self, part: str) -> float:
        """When this part of the probe has to end."""
        return self.start_s + self.plan.shares[part] * self.budget_s

    @property
    def knee_bytes(self) -> float:
        """The knee that one window of each size shows, at least the cache that a discrete accelerator reports."""
        points = [(size, entrant.best_bytes_per_s) for size, entrant in self.rates.items()]
        return max(knee_bytes(points, self.rates[max(self.rates)].best_bytes_per_s), self.least_knee_bytes)

    @property
    def least_knee_bytes(self) -> float:
        """The reported cache of a discrete accelerator, whose sweep may show no bend; else 0."""
        if self.device.is_cpu or self.device.is_unified_memory:
            return 0.0
        spec = self.device.spec.last_level_cache_bytes if self.device.spec else None
        return max(self.device.last_level_cache_bytes or 0.0, spec or 0.0)

    @property
    def cache_champion(self) -> str:
        """The kernel that read the fastest from a cache."""
        return self.rates[min(_CACHE_BYTES, max(self.rates))].name

    def _fill_arena(self) -> None:
        cache = 2 * credible_cache_bytes(self.device)
        self._fill("memory", max(_LEAST_SOURCE_BYTES, cache), max(_LEAST_TARGET_BYTES, cache / 2))
        self._fill("plenty", max(CONTEST_BYTES, cache), max(USUAL_TARGET_BYTES, cache / 2))
        if self.largest < min(_LEAST_SOURCE_BYTES, self._free_bytes / 6):
            self.notes.append(f"{NO_TIME} {format_bytes(self.largest)}")
        elif self.largest < _LEAST_SOURCE_BYTES:
            self._note_free()

    def _fill(self, part: str, source_bytes: float, target_bytes: float) -> None:
        """Have so much data in the arena, or as much as there is time for."""
        if self.arena is not None:
            self.arena.fill(source_bytes, target_bytes, lambda: self.clock() < self.until(part))
            self.largest = self.arena.room_bytes("read")

    def _note_free(self) -> None:
        self.is_short_of_memory = True
        free, largest = format_bytes(self._free_bytes), format_bytes(self.largest)
        self.notes.append(f"{free} of memory are free: sets up to {largest} only")

    def run(self) -> list[Entrant]:
        """Read one window of each size; the kernels of the largest set, so that its memory may serve for what follows.

        Memory that the process never had before is the dearest part of a probe: where there is no arena a set is
        dropped before the next one is made. MeasurementError when not even the smallest one could be read.
        """
        kept: list[Entrant] = []
        size = _SMALLEST_BYTES if self.arena is None else min(_CACHE_BYTES, self.largest)
        while size <= self.largest:
            before = self.clock()
            names = [max(kept, key=_best).name] if kept and size > _CACHE_BYTES else None
            kept.clear()  # frees the last set
            kept += self._scouts(size, names)
            if not kept:
                self.is_short_of_memory |= bool(self.rates)
                break
            best = max(kept, key=_best)
            self.rates[size] = best.without_launch()
            step_s = self.clock() - before
            if self.arena is not None:
                self.s_per_byte = _LAUNCHES_PER_CONTEST / _best(best)
                size = self._next_in_arena(size)
                continue
            self.s_per_byte = len(self.backends) * step_s / size
            size *= 2
            # The next set takes twice the time, for its memory and its windows. What a small set took says
            # little: it is a moment in which somebody else had the processor.
            needed_s = 2 * step_s if size > LEAST_CONTEST_BYTES else 0.0
            limit = "growth" if size > LEAST_CONTEST_BYTES else "read"
            if size <= self.largest and self.clock() + needed_s > self.until(limit):
                self.notes.append(f"{NO_TIME} {format_bytes(size // 2)}")
                break
        if not self.rates:
            raise self.failure()
        return kept

    def failure(self) -> RooflineError:
        """Nothing could be read, and why: no verdict where others have the memory."""
        if self.is_short_of_memory:
            return self.shortage(0.0)
        return MeasurementError("; ".join(self.notes) or f"no backend reads memory on {self.device.id}")

    def shortage(self, knee_bytes: float) -> InconclusiveMeasurement:
        """The sets are too small to tell memory from the cache."""
        largest = float(max(self.rates, default=0))
        text = shortage(self.device, self.backends, largest_bytes=largest, knee_bytes=knee_bytes, reasons=self.notes)
        return InconclusiveMeasurement(text)

    def _next_in_arena(self, size: int) -> int:
        """Twice the size, or what is left. Where the filling ended it goes on only for a cache that asks for it."""
        if 2 * size <= self.largest:
            return 2 * size
        if size <= 0.8 * self.largest:
            return self.largest
        if size < self.plan.contest_knees * self.knee_bytes and self.clock() < self.until("memory"):
            self._fill("memory", 2 * size, max(USUAL_TARGET_BYTES, size))
            if self.largest >= 1.25 * size:
                return min(2 * size, self.largest)
        return self.largest + 1

    def _scouts(self, size: int, names: list[str] | None) -> list[Entrant]:
        for group in [[backend] for backend in self.backends] if self.arena is None else [self.backends]:
            entrants, notes = enlist(group, self.device, "read", size, only=names, arena=self.arena)
            self.notes += notes
            if entrants:
                compete(entrants, rounds=1, until_s=self.start_s)
                return entrants
        return []

    def contest_bytes(self) -> int:
        """Several times the knee, at least 256 MiB, at most what the growth reached."""
        largest, knee = max(self.rates), self.knee_bytes
        size = min(CONTEST_BYTES, largest)
        while size < largest and size < self.plan.contest_knees * knee:
            size *= 2
        return min(size, largest)

    def sweep_sizes(self) -> list[int]:
        """The sizes that are read in rounds: those that need no memory, or that a cache may not hold."""
        if self.arena is None:
            return [size for size in self.rates if size > _REREAD_BYTES] or [max(self.rates)]
        powers = [2**power for power in range(_SMALLEST_BYTES.bit_length() - 1, self.largest.bit_length())]
        between = [power * 3 // 2 for power in powers if SHORT_BYTES < power * 3 // 2 < 0.8 * self.largest]
        sizes = {*powers, *between, *self.rates}
        window_s = max(WINDOW_S, self.largest / _best(self.rates[max(self.rates)]))
        if self.clock() + _WANTED_ROUNDS * len(sizes) * window_s > self.until("sweep"):
            sizes -= {*between, *(size for size in powers if size < SHORT_BYTES)}
        return sorted(sizes)


def _power_below(size: float) -> int:
    """The largest power of two that is not over `size`, at least the smallest set."""
    power = _SMALLEST_BYTES
    while power * 2 <= size:
        power *= 2
    return power


def _best(entrant: Entrant) -> float:
    return entrant.best_bytes_per_s
