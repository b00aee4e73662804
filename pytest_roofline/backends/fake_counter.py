"""A fake device's own count of what moves through its memory: exact inside, and as coarse as real ones outside."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_roofline.backends.fake_clock import VirtualClock
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import CounterReading

if TYPE_CHECKING:
    from pytest_roofline.backends.fake_weather import Weather

_READ_S = 50e-6
"""Host time of one reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounter:
    """How a fake device counts: a percentage of the peak between two readings, as NVIDIA's driver gives it.

    What its neighbours move is counted as well, at their share of the read rate. A kernel that lasts `seconds` is
    taken to move what it says that it reads and writes, as far as memory delivers that in its time.
    """

    scale: float = 1.0
    """What is counted of every byte: 0.9 is a counter that sees nine in ten, 0 one that is switched off."""
    step_percent: float = 0.0
    """Width of one step of its answers, rounded down; 0 is exact."""
    refresh_s: float = 0.1
    """How often readings are renewed: between two renewals they are that old."""
    lost_at_s: float | None = None
    """From this moment of virtual time on readings are refused."""
    failing_reads: frozenset[int] = frozenset()
    """Readings that are refused, by their number; the first is 0."""
    failing_answers: frozenset[int] = frozenset()
    """Comparisons of two readings that are refused, by their number."""

    def __post_init__(self) -> None:
        for name in ("scale", "step_percent", "refresh_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise RooflineUsageError(f"fake counter: {name} is {value}; it must be a finite number, 0 or more")


class Moved:
    """Bytes that moved through the memory of one device by any moment of the last second, and by now."""

    def __init__(self, weather: Weather, read_bytes_per_s: float) -> None:
        self._weather = weather
        self._read_bytes_per_s = read_bytes_per_s
        self._done_bytes = 0.0
        self._recent: deque[tuple[float, float, float]] = deque()

    def add(self, start_s: float, end_s: float, moved_bytes: float, now_s: float) -> None:
        """A launch moves so many bytes, evenly, from start to end; launches of a device follow each other."""
        while self._recent and self._recent[0][1] < now_s - 1.0:
            self._done_bytes += self._recent.popleft()[2]
        self._recent.append((start_s, end_s, moved_bytes))

    def until(self, moment_s: float) -> float:
        """What had moved by then, neighbours included."""
        total = self._done_bytes + self._weather.neighbours_s(moment_s) * self._read_bytes_per_s
        for start_s, end_s, moved_bytes in self._recent:
            if start_s >= moment_s:
                break
            whole_s = end_s - start_s
            total += moved_bytes * min(1.0, (moment_s - start_s) / whole_s) if whole_s > 0 else moved_bytes
        return total


@dataclass(frozen=True, slots=True)
class _Held:
    moment_s: float
    moved_bytes: float


class FakeCounter:
    """The counter of one fake device; made by `FakeBackend.traffic_counter`."""

    source = "fake counter of memory traffic"

    def __init__(self, figures: MemoryCounter, moved: Moved, clock: VirtualClock, peak_bytes_per_s: float) -> None:
        self._figures = figures
        self._moved = moved
        self._clock = clock
        self._peak = peak_bytes_per_s
        self._reads = self._answers = -1
        self.refresh_s = figures.refresh_s
        self.step_bytes_per_s = figures.step_percent / 100 * peak_bytes_per_s

    def settle(self) -> None:
        """Let a renewal pass."""
        self._clock.advance(1.2 * self.refresh_s)

    def read(self) -> CounterReading | None:
        """What had moved at the last renewal."""
        figures = self._figures
        self._reads += 1
        before_s = self._clock.read()
        self._clock.advance(_READ_S)
        if self._reads in figures.failing_reads or (figures.lost_at_s is not None and before_s >= figures.lost_at_s):
            return None
        moment_s = math.floor(before_s / self.refresh_s) * self.refresh_s if self.refresh_s > 0 else before_s
        held = _Held(moment_s, self._moved.until(moment_s))
        return CounterReading(before_s=before_s, after_s=self._clock.read(), held=held)

    def bytes_per_s(self, first: CounterReading, second: CounterReading) -> float | None:
        """The percentage between the two, of the peak, in its steps; None between readings of the same renewal."""
        self._answers += 1
        earlier: _Held = first.held
        later: _Held = second.held
        elapsed_s = later.moment_s - earlier.moment_s
        if self._answers in self._figures.failing_answers or elapsed_s <= 0:
            return None
        moved_bytes = later.moved_bytes - earlier.moved_bytes
        percent = min(100.0, 100 * self._figures.scale * moved_bytes / (elapsed_s * self._peak))
        step = self._figures.step_percent
        if step > 0:
            percent = math.floor(percent / step) * step
        return percent / 100 * self._peak
