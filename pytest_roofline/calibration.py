"""A device's own count of its memory traffic, made fit to testify: calibrated on copies of known size, once a session.

A reading may be as old as the counter's `refresh_s`, so a count is an interval: between two readings it is certain to
that at either end. Before and after a copy the device idles for so long that a reading holds all of it and nothing
before it; without that a count may only come out too high.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_roofline.checks.counted import Counted, Place
from pytest_roofline.device import Device
from pytest_roofline.probe import Probe
from pytest_roofline.protocol import Backend, CounterReading, TrafficCounter
from pytest_roofline.roofline import Interval

COPIES_S = (0.4, 0.8)
"""Two sizes, each several times as long as a reading may be old."""
AGREEMENT = 0.05
"""How far the two sizes may be apart, beyond what the age of a reading leaves open."""
SANE = (0.8, 1.25)
"""A counter that is further from the truth than this counts something else."""

_KNEES_OF_A_COPY = 32
_LEAST_COPY_BYTES = 2.0**28


@dataclass(frozen=True, slots=True)
class Factor:
    """Known bytes by counted ones; `openness` is the share by which the age of the two readings may have moved it."""

    value: float
    openness: float

    @property
    def low(self) -> float:
        """The least that it can be."""
        return self.value / (1 + self.openness)

    @property
    def high(self) -> float:
        """The most."""
        return self.value * (1 + self.openness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Work whose bytes are known: copies of buffers that no cache holds, made and dropped each time."""

    device: Device
    backend: Backend
    probe: Probe

    def factors(self, counter: TrafficCounter, lengths_s: Sequence[float]) -> list[Factor] | None:
        """One for each length of copying, and one for all; None without memory, or when the counter refuses."""
        backend, rate_of_copies = self.backend, self.probe.copy_bytes_per_s
        wanted = max(_KNEES_OF_A_COPY * self.probe.cache_knee_bytes, _LEAST_COPY_BYTES)
        if wanted > backend.free_memory_bytes(self.device) / 2:
            return None
        try:
            copy = backend.kernels(self.device, "copy", wanted)[0]
        except (MemoryError, IndexError):
            return None
        copy.launch()
        backend.drain()
        counter.settle()
        readings = [counter.read()]
        copied = [0.0]
        for seconds in lengths_s:
            times = math.ceil(seconds * rate_of_copies / copy.bytes_per_launch)
            for _ in range(times):
                copy.launch()
            backend.drain()
            counter.settle()
            readings.append(counter.read())
            copied.append(copied[-1] + times * copy.bytes_per_launch)
        # All of them together are the longest stretch, of which least is open.
        pairs = [(at, at + 1) for at in range(len(lengths_s))] + ([(0, len(lengths_s))] if len(lengths_s) > 1 else [])
        factors: list[Factor] = []
        for first, last in pairs:
            before, after = readings[first], readings[last]
            rate = None if before is None or after is None else counter.bytes_per_s(before, after)
            if before is None or after is None or rate is None or rate <= 0:
                return None
            span_s = (after.before_s + after.after_s - before.before_s - before.after_s) / 2
            factors.append(Factor((copied[last] - copied[first]) / (rate * span_s), counter.refresh_s / span_s))
        return factors


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A counter whose calibration held. `factor` is by what its answers are multiplied, at least and at most."""

    counter: TrafficCounter
    factor: Interval
    copies: Copies

    @property
    def source(self) -> str:
        """Which counter, and what its calibration found."""
        return f"{self.counter.source}, calibrated on copies: x{self.factor.low:.2f} to x{self.factor.high:.2f}"

    def still_holds(self) -> bool:
        """Whether it sees as much of a copy as it did: asked before it speaks against anyone."""
        factors = self.copies.factors(self.counter, COPIES_S[:1])
        return factors is not None and factors[0].low <= (1 + AGREEMENT) * self.factor.high

    def between(self, first: CounterReading, second: CounterReading) -> Interval | None:
        """Bytes that moved between two readings, by anybody; None when the counter refuses to say."""
        rate = self.counter.bytes_per_s(first, second)
        if rate is None:
            return None
        refresh_s, step = self.counter.refresh_s, self.counter.step_bytes_per_s
        shortest_s = max(0.0, second.before_s - first.after_s - refresh_s)
        longest_s = second.after_s - first.before_s + refresh_s
        return Interval(low=rate * shortest_s * self.factor.low, high=(rate + step) * longest_s * self.factor.high)

    def counted(
        self, first: CounterReading, second: CounterReading, passes: float, *, is_exact: bool, place: Place
    ) -> Counted | None:
        """The record for the court; None when the counter refuses, or was read at intervals that say nothing."""
        moved_bytes, span_s = self.between(first, second), second.before_s - first.after_s
        if moved_bytes is None or passes <= 0 or span_s < 2 * self.counter.refresh_s:
            return None
        return Counted(
            passes=passes,
            moved_bytes=moved_bytes,
            span_s=span_s,
            source=self.source,
            is_exact=is_exact,
            place=place,
        )


def calibrate(device: Device, backend: Backend, probe: Probe) -> Calibrated | None:
    """Copies of two sizes against what the counter says of them; None without a counter, or when it does not hold.

    A neighbour adds to what is counted and so lowers the factor: it is never taken to be under 1 at most, because a
    neighbour that is gone later would make honest passes look as if they read less.
    """
    ask = getattr(backend, "traffic_counter", None)
    counter: TrafficCounter | None = None if ask is None else ask(device)
    if counter is None or probe.copy_bytes_per_s <= 0:
        return None
    copies = Copies(device=device, backend=backend, probe=probe)
    factors = copies.factors(counter, COPIES_S)
    if factors is None:
        return None
    values = [factor.value for factor in factors]
    low, high = max(factor.low for factor in factors), min(factor.high for factor in factors)
    do_agree = low <= (1 + AGREEMENT) * high
    if not (do_agree and SANE[0] <= min(values) and max(values) <= SANE[1]):
        return None
    low, high = min(low, high), max(low, high)
    return Calibrated(counter=counter, factor=Interval(low=min(1.0, low), high=max(1.0, high)), copies=copies)
