"""The quick re-probe that brackets every measurement: what does this device do right now, for this mix of traffic?

On a shared host bandwidth moves by half within a minute. A fraction is taken against a reading from just
before and just after, with the thread setting of the code under test, or it is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import harmonic_mean
from types import TracebackType
from typing import Protocol, runtime_checkable

from pytest_roofline.backends.arena import Arena
from pytest_roofline.contest import Entrant, compete, enlist
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import MeasurementError, RooflineUsageError
from pytest_roofline.meter import open_arena
from pytest_roofline.probe import Probe
from pytest_roofline.protocol import Backend
from pytest_roofline.roofline import Interval, Rates, mixed_bytes_per_s
from pytest_roofline.units import format_bytes

_ANCHORS: tuple[tuple[Pattern, float], ...] = (
    ("read", 0.0),
    ("triad", 1 / 3),
    ("copy", 1 / 2),
    ("write", 1.0),
)
_LEAST_BYTES = 2**27
_SMALLEST_BYTES = 2**22
_KNEES = 4
_READING_S = 20e-3
_MOST_WINDOWS = 12
_FREE_SHARE = 1 / 8
_FILL_S = 1.0
"""How long the memory of a ruler may take to come, where nobody else's can be shared."""


@runtime_checkable
class ThreadedBackend(Protocol):
    """What a backend may offer on top: itself with another number of threads."""

    def with_threads(self, threads: int) -> Backend:
        """A backend whose kernels use so many threads."""
        ...


class Ruler:
    """Holds buffers past the knee for the patterns of one mix, and reads their rate again and again.

    `written_share` (0 to 1) is the share of the traffic that is written: 0 needs only the read pattern,
    everything else the two patterns whose shares lie around it. `threads`: how many threads the code under
    test uses; a backend that can be set to them is, and the others keep their present setting.
    MeasurementError when no kernel of a read fits into memory.
    """

    def __init__(
        self,
        device: Device,
        backends: Sequence[Backend],
        probe: Probe,
        *,
        written_share: float,
        threads: int | None = None,
    ) -> None:
        if not 0.0 <= written_share <= 1.0:
            raise RooflineUsageError(f"written share is {written_share}; it must lie between 0 and 1")
        self.device = device
        self.written_share = written_share
        self._probe = probe
        self._backends = [
            backend.with_threads(threads) if threads is not None and isinstance(backend, ThreadedBackend) else backend
            for backend in backends
        ]
        self._has_other_threads = threads is not None and threads != probe.threads
        self._notes: list[str] = []
        self.readings: list[tuple[float, float, Interval]] = []
        """Start and end of every reading, by the first backend's clock, and the bytes from memory that it took: of each
        launch caches may have served a knee."""
        self._arena = self._find_arena()
        self._entrants = self._anchors()

    @property
    def notes(self) -> tuple[str, ...]:
        """What falls short: buffers that are smaller than four knees, backends without room."""
        return tuple(self._notes)

    @property
    def kernels(self) -> dict[Pattern, str]:
        """The kernel that reads each pattern of this mix."""
        return {pattern: entrant.name for pattern, entrant in self._entrants.items()}

    def __enter__(self) -> Ruler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the buffers; a closed ruler measures nothing any more."""
        self._entrants = {}
        self._arena = None

    def measure(self) -> float:
        """Bytes/s that the device moves now in this mix: as many bytes at every reading, some 20 ms by the probe.

        The bytes are fixed, not the time: a reading that ended at a time would end just after whatever held it up,
        and show less than the truth (4 % less on a recorded host whose reads are stopped for milliseconds at a time).

        The figure of each pattern is total bytes by total time. In one run of 150 turns beside a matrix-vector
        product on a shared two-core host, the ratio of the product to eight launches had a standard deviation
        of 10.2 % with this mean, 10.3 % with the median and 10.5 % with the best launch: too close to choose by.
        The mean is taken because all of the time counts for the code under test as well.
        """
        if not self._entrants:
            raise RooflineUsageError("this ruler is closed: its buffers are gone")
        start_s = self._backends[0].clock()
        rates = {pattern: self._reading(entrant) for pattern, entrant in self._entrants.items()}
        moved = [self._moved(entrant) for entrant in self._entrants.values()]
        taken = Interval(low=sum(one.low for one in moved), high=sum(one.high for one in moved))
        self.readings.append((start_s, self._backends[0].clock(), taken))
        return _mixed(rates, self.written_share)

    def _reading(self, entrant: Entrant) -> float:
        if self.device.is_cpu:
            # The first window is not read: a parallel step's threads keep their cores for some milliseconds after it,
            # waiting busily for more work, and halve whatever comes next (7.6 against 15 GB/s, medians of 30).
            entrant.run()
        rates = [entrant.run() for _ in range(self._windows(entrant))]
        entrant.rates.clear()
        return harmonic_mean(rates)

    def _moved(self, entrant: Entrant) -> Interval:
        """Bytes of one reading: at least, and at most."""
        launches = entrant.launches * (self._windows(entrant) + (1 if self.device.is_cpu else 0))
        each, knee = entrant.kernel.bytes_per_launch, self._probe.cache_knee_bytes
        return Interval(low=launches * max(0.0, each - knee), high=launches * each)

    def _windows(self, entrant: Entrant) -> int:
        """How many windows a reading has, by the probe's rate and not by what is seen now."""
        kernel = entrant.kernel
        rate: float = getattr(self._probe, f"{kernel.pattern}_bytes_per_s")
        window_s = entrant.launches * kernel.bytes_per_launch / rate
        return min(_MOST_WINDOWS, max(1, round(_READING_S / len(self._entrants) / window_s)))

    def _anchors(self) -> dict[Pattern, Entrant]:
        """The winners of the patterns around the share; a pattern that no backend has is passed over."""
        below: dict[Pattern, Entrant] = {}
        for pattern, _ in reversed([anchor for anchor in _ANCHORS if anchor[1] <= self.written_share]):
            if winner := self._winner(pattern):
                below = {pattern: winner}
                break
        if any(share == self.written_share for pattern, share in _ANCHORS if pattern in below):
            return below
        for pattern, _ in [anchor for anchor in _ANCHORS if anchor[1] > self.written_share]:
            if winner := self._winner(pattern):
                return {**below, pattern: winner}
        if not below:
            raise MeasurementError("; ".join(self._notes) or f"no backend measures {self.device.id} again")
        return below

    def _find_arena(self) -> Arena | None:
        """The arena of the probe, or of a ruler that lives; else a new one, which later rulers may share."""
        meter = self._probe.meter
        arena = meter.arena() if meter is not None else None
        if arena is None:
            wanted = max(_LEAST_BYTES, _KNEES * self._probe.cache_knee_bytes)
            arena = open_arena(self.device, self._backends, 2 * wanted, self._free_bytes(), [])
            if arena is None:
                return None
            start = self._backends[0].clock()
            arena.fill(2 * wanted, wanted, lambda: self._backends[0].clock() - start < _FILL_S)
            if meter is not None:
                meter.keep(arena, for_good=False)
        return arena

    def _free_bytes(self) -> float:
        return min(backend.free_memory_bytes(self.device) for backend in self._backends)

    def _winner(self, pattern: Pattern) -> Entrant | None:
        if pattern not in self._probe.kernels:
            return None  # the probe found none, or none as fast as its neighbours make it
        # Another number of threads may have another best kernel; else the probe has chosen with more care.
        only = None if self._has_other_threads else [self._probe.kernels[pattern]]
        size = self._size(pattern)
        while True:
            entrants, notes = enlist(self._backends, self.device, pattern, size, arena=self._arena, only=only)
            if not entrants and only is not None:
                only = None
                continue
            if entrants or not notes or size // 2 < _SMALLEST_BYTES:
                break
            size //= 2
        self._notes += notes
        winner = compete(entrants, rounds=2, is_quick=True) if len(entrants) > 1 else next(iter(entrants), None)
        if winner is not None and winner.kernel.working_set_bytes < 0.95 * _KNEES * self._probe.cache_knee_bytes:
            self._notes.append(
                f"the ruler's {pattern} buffers have {format_bytes(winner.kernel.working_set_bytes)}, under "
                f"{_KNEES} cache knees of {format_bytes(self._probe.cache_knee_bytes)}: it may read high"
            )
        return winner

    def _size(self, pattern: Pattern) -> int:
        wanted = max(_LEAST_BYTES, _KNEES * self._probe.cache_knee_bytes)
        if pattern != "read":
            wanted *= 2  # stores that bypass the cache leave all of it to the sources
        if self._arena is not None:
            return int(min(wanted, self._arena.room_bytes(pattern)))
        return max(_SMALLEST_BYTES, ceil(min(wanted, self._free_bytes() * _FREE_SHARE)))


def _mixed(rates: dict[Pattern, float], written_share: float) -> float:
    """Interpolate in seconds per byte; patterns between two measured ones lie on the line between them."""
    known = [(share, 1 / rates[pattern]) for pattern, share in _ANCHORS if pattern in rates]
    (low, low_cost), (high, high_cost) = known[0], known[-1]
    slope = (high_cost - low_cost) / (high - low) if high > low else 0.0
    costs = {}
    for pattern, share in _ANCHORS:
        # Outside of the two the line is not followed: those patterns take no part in this mix.
        costs[pattern] = low_cost + slope * (min(max(share, low), high) - low)
    return mixed_bytes_per_s(
        Rates(
            read_bytes_per_s=1 / costs["read"],
            copy_bytes_per_s=1 / costs["copy"],
            write_bytes_per_s=1 / costs["write"],
            triad_bytes_per_s=1 / costs["triad"],
        ),
        written_share,
    )
