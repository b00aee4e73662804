"""What slows a fake device down while it works: noise, throttling and neighbours.

*Noise* multiplies the duration of one launch and is drawn when the launch is queued. *Windows* (throttling,
other processes) change the speed of the device at moments of virtual time: a launch that crosses the edge of
a window runs the part before it at one speed and the part after it at the other, exactly. So it does in a
*trace*: the slowness of a real machine, period by period, played again.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from pytest_roofline.errors import RooflineUsageError

Noise: TypeAlias = Callable[[float, Random], float]
"""``noise(start_s, random) -> factor``: what the duration of a launch that starts then is multiplied by.

Draw from the `random` that is passed in, and a run repeats itself exactly for the same seed.
"""

_LEAST_FACTOR = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """From `start_s` to `end_s` of virtual time every launch takes `slowdown` times as long, for a `reason`.

    The reason shows in `conditions().throttle_reasons` during the window, the clock in `clock_hz` falls with it, and
    `held_s` counts its seconds. Set `is_visible` to False for a device that slows down and does not say so.
    """

    start_s: float
    end_s: float
    slowdown: float
    reason: str = "thermal"
    is_visible: bool = True

    def __post_init__(self) -> None:
        _check_window("throttle", self.start_s, self.end_s)
        if not (math.isfinite(self.slowdown) and self.slowdown >= 1):
            raise RooflineUsageError(f"throttle: slowdown is {self.slowdown}; it must be 1 (no change) or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another process that takes `share` (0 to under 1) of the device from `start_s` to `end_s` of virtual
    time.

    Its name shows in `conditions().neighbours` during the window and its share in `neighbours_use`, unless
    `is_visible` is False.
    """

    start_s: float
    end_s: float
    share: float
    name: str = "pid 4242 (another process)"
    is_visible: bool = True

    def __post_init__(self) -> None:
        _check_window("neighbour", self.start_s, self.end_s)
        if not 0 <= self.share < 1:
            raise RooflineUsageError(f"neighbour: share is {self.share}; it must be at least 0 and under 1")

    @property
    def slowdown(self) -> float:
        """How much longer a launch takes beside this neighbour."""
        return 1 / (1 - self.share)


def _check_window(what: str, start_s: float, end_s: float) -> None:
    if math.isnan(start_s) or math.isnan(end_s) or not start_s < end_s:
        raise RooflineUsageError(f"{what}: the window {start_s} s to {end_s} s is empty; start_s must be under end_s")


def gaussian(sigma: float = 0.02) -> Noise:
    """Jitter to both sides: the one model here that makes some launches faster than the rates."""

    def factor(_start_s: float, random: Random) -> float:
        return random.gauss(1.0, sigma)

    return factor


def drift(halves_in_s: float = 120.0, levels_off_at: float = 4.0) -> Noise:
    """Bandwidth that halves every `halves_in_s` seconds, down to ``1 / levels_off_at`` of what it was."""

    def factor(start_s: float, _random: Random) -> float:
        return min(levels_off_at, math.pow(2.0, min(1000.0, start_s / halves_in_s)))

    return factor


def bursts(every_s: float = 0.5, length_s: float = 0.05, slowdown: float = 3.0) -> Noise:
    """In the last `length_s` of every `every_s`, launches take `slowdown` times as long."""

    def factor(start_s: float, _random: Random) -> float:
        return slowdown if start_s % every_s >= every_s - length_s else 1.0

    return factor


def heavy_tail(probability: float = 0.01, alpha: float = 1.5, cap: float = 50.0) -> Noise:
    """Rare launches take much longer: with `probability`, a Pareto factor of shape `alpha`, at most `cap`."""

    def factor(_start_s: float, random: Random) -> float:
        return min(cap, random.paretovariate(alpha)) if random.random() < probability else 1.0

    return factor


def step_change(at_s: float = 1.0, slowdown: float = 2.0) -> Noise:
    """From `at_s` of virtual time on, launches take `slowdown` times as long (under 1: faster)."""

    def factor(start_s: float, _random: Random) -> float:
        return slowdown if start_s >= at_s else 1.0

    return factor


class NoiseTrace:
    """The slowness of a machine over time: in each period of `period_s`, work takes so many times as long.

    It begins at `offset_s` and goes round. Give it as `noise=`, alone or among others::

        FakeBackend(noise=NoiseTrace([1.0, 1.0, 3.0, 1.2], period_s=1e-3))
    """

    def __init__(self, factors: Sequence[float], period_s: float, offset_s: float = 0.0) -> None:
        if not factors or not all(math.isfinite(factor) and factor > 0 for factor in factors):
            raise RooflineUsageError("noise trace: factors must be positive, finite numbers, at least one")
        if not (math.isfinite(period_s) and period_s > 0):
            raise RooflineUsageError(f"noise trace: period_s is {period_s}; it must be a positive number")
        self.period_s = period_s
        self.offset_s = offset_s
        self._factors = tuple(factors)
        self._done_s = [0.0]  # undisturbed work that is done by the end of each period
        for factor in self._factors:
            self._done_s.append(self._done_s[-1] + period_s / factor)

    @property
    def length_s(self) -> float:
        """Once round."""
        return self.period_s * len(self._factors)

    def shifted(self, offset_s: float) -> NoiseTrace:
        """The same trace, begun elsewhere; it shares the figures."""
        other = object.__new__(NoiseTrace)
        other.__dict__.update(self.__dict__)
        other.offset_s = offset_s
        return other

    def finish_s(self, start_s: float, work_s: float) -> float:
        """When work that takes `work_s` undisturbed is done if it starts at `start_s`."""
        rounds, left_s = divmod(self._done(start_s) + work_s, self._done_s[-1])
        index = min(bisect_right(self._done_s, left_s) - 1, len(self._factors) - 1)
        at_s = index * self.period_s + (left_s - self._done_s[index]) * self._factors[index]
        return max(start_s, rounds * self.length_s + at_s - self.offset_s)

    def work_s(self, start_s: float, end_s: float) -> float:
        """Undisturbed work that is done between two moments."""
        return self._done(end_s) - self._done(start_s)

    def _done(self, moment_s: float) -> float:
        """Undisturbed work from the beginning of the trace to a moment."""
        rounds, left_s = divmod(moment_s + self.offset_s, self.length_s)
        index = min(int(left_s / self.period_s), len(self._factors) - 1)
        return rounds * self._done_s[-1] + self._done_s[index] + (left_s - index * self.period_s) / self._factors[index]


NOISES: tuple[tuple[str, Callable[[], Noise]], ...] = (
    ("gaussian", gaussian),
    ("drift", drift),
    ("bursts", bursts),
    ("heavy-tail", heavy_tail),
    ("step-change", step_change),
)
"""The names that `noise=` takes, each with the factory whose defaults it stands for."""


def resolve_noise(
    noise: str | Noise | NoiseTrace | Sequence[str | Noise | NoiseTrace] | None,
) -> tuple[Noise | NoiseTrace, ...]:
    """The noise that `noise=` asks for: a name, a function, a trace, or several whose factors multiply."""
    if noise is None:
        return ()
    if isinstance(noise, str):
        known = dict(NOISES)
        if noise not in known:
            raise RooflineUsageError(f"noise {noise!r} is not known; known are {', '.join(known)}, or give a function")
        return (known[noise](),)
    if isinstance(noise, NoiseTrace) or callable(noise):
        return (noise,)
    return tuple(function for part in noise for function in resolve_noise(part))


class Weather:
    """The speed of one device over virtual time."""

    def __init__(
        self,
        noises: tuple[Noise | NoiseTrace, ...],
        throttle: Iterable[Throttle],
        neighbours: Iterable[Neighbour],
        random: Random,
    ) -> None:
        self._noises = tuple(noise for noise in noises if not isinstance(noise, NoiseTrace))
        traces = [noise for noise in noises if isinstance(noise, NoiseTrace)]
        if len(traces) > 1:
            raise RooflineUsageError(f"noise: {len(traces)} traces were given; a device plays one")
        self._trace = traces[0] if traces else None
        self._throttle = tuple(throttle)
        self._neighbours = tuple(neighbours)
        self._windows: tuple[Throttle | Neighbour, ...] = (*self._throttle, *self._neighbours)
        self._edges = sorted({edge for window in self._windows for edge in (window.start_s, window.end_s)})
        self._random = random

    def noise(self, start_s: float) -> float:
        """The factor of a launch that starts at `start_s`; never under 0.05, so that time keeps moving."""
        factor = 1.0
        for noise in self._noises:
            factor *= noise(start_s, self._random)
        if math.isnan(factor):
            raise RooflineUsageError("noise returned NaN; it must return a positive factor")
        return max(_LEAST_FACTOR, factor)

    def slowdown(self, at_s: float) -> float:
        """How many times longer work takes at this moment, by its windows alone."""
        slowdown = 1.0
        for window in self._windows:
            if window.start_s <= at_s < window.end_s:
                slowdown *= window.slowdown
        return slowdown

    def finish_s(self, start_s: float, work_s: float) -> float:
        """When work that takes `work_s` at full speed is done if it starts at `start_s`."""
        if not self._windows:
            return self._undisturbed_end_s(start_s, work_s)
        now_s, left_s = start_s, work_s
        for edge_s in self._edges:
            if edge_s <= now_s:
                continue
            slowdown = self.slowdown(now_s)
            end_s = self._undisturbed_end_s(now_s, left_s * slowdown)
            if end_s <= edge_s:
                return end_s
            done_s = edge_s - now_s if self._trace is None else self._trace.work_s(now_s, edge_s)
            left_s -= done_s / slowdown
            now_s = edge_s
        return self._undisturbed_end_s(now_s, max(0.0, left_s) * self.slowdown(now_s))

    def _undisturbed_end_s(self, start_s: float, work_s: float) -> float:
        """The end as if there were no windows."""
        return start_s + work_s if self._trace is None else self._trace.finish_s(start_s, work_s)

    def neighbours_s(self, until_s: float) -> float:
        """Device time that other processes have taken by then."""
        return sum(
            n.share * (min(n.end_s, until_s) - max(0.0, n.start_s))
            for n in self._neighbours
            if until_s > max(0.0, n.start_s)
        )

    def throttle_reasons(self, at_s: float) -> tuple[str, ...]:
        """Reasons of the throttling that the device admits to at this moment."""
        return tuple(t.reason for t in self._throttle if t.is_visible and t.start_s <= at_s < t.end_s)

    def clock_share(self, at_s: float) -> float:
        """Share of the top clock that the device admits to running at."""
        share = 1.0
        for window in self._throttle:
            if window.is_visible and window.start_s <= at_s < window.end_s:
                share /= window.slowdown
        return share

    def held_s(self, at_s: float) -> tuple[tuple[str, float], ...]:
        """Seconds of throttling up to this moment by reason, as far as the device admits it: its own counters."""
        counted: dict[str, float] = {}
        for window in self._throttle:
            if window.is_visible:
                seconds = max(0.0, min(at_s, window.end_s) - max(0.0, window.start_s))
                counted[window.reason] = counted.get(window.reason, 0.0) + seconds
        return tuple(counted.items())

    def neighbours_use(self, at_s: float) -> float | None:
        """Part of the device that the neighbours who can be seen take at this moment; None where none ever can."""
        visible = [window for window in self._neighbours if window.is_visible]
        left = math.prod(1 - window.share for window in visible if window.start_s <= at_s < window.end_s)
        return 1 - left if visible else None

    def neighbours(self, at_s: float) -> tuple[str, ...]:
        """Names of the other processes that can be seen at this moment."""
        return tuple(n.name for n in self._neighbours if n.is_visible and n.start_s <= at_s < n.end_s)
