"""Virtual time: one private clock that tells the truth, and public clocks that may not.

Nothing here waits. Time moves when the fake host works, launches or waits for the device, and by a few
nanoseconds whenever a clock is read: reading a clock takes time, and ``while clock() < deadline`` has to end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import WatchedClock

_EPOCH_S = 1.8e9
# Module, name, seconds per unit, reading at virtual zero. CPU time passes as wall time does: the fake host spins.
_CLOCKS: tuple[tuple[str, str, float, float], ...] = (
    ("time", "perf_counter", 1.0, 0.0),
    ("time", "perf_counter_ns", 1e-9, 0.0),
    ("time", "monotonic", 1.0, 0.0),
    ("time", "monotonic_ns", 1e-9, 0.0),
    ("time", "time", 1.0, _EPOCH_S),
    ("time", "time_ns", 1e-9, _EPOCH_S),
    ("time", "process_time", 1.0, 0.0),
    ("time", "process_time_ns", 1e-9, 0.0),
    ("time", "thread_time", 1.0, 0.0),
    ("time", "thread_time_ns", 1e-9, 0.0),
    ("timeit", "default_timer", 1.0, 0.0),
)


class VirtualClock:
    """Seconds since the fake host started; never goes backwards."""

    def __init__(self, start_s: float, tick_s: float) -> None:
        if not (math.isfinite(start_s) and start_s >= 0):
            raise RooflineUsageError(f"fake clock: start_s is {start_s}; it must be a finite number, 0 or more")
        # Over a day, a double still resolves 15 ps; a year of virtual time would swallow the tick.
        if not 1e-10 <= tick_s < 1:
            raise RooflineUsageError(f"fake clock: tick_s is {tick_s}; it must lie between 1e-10 and 1 second")
        self.now_s = start_s
        self._tick_s = tick_s

    def read(self) -> float:
        """The time, a tick later than it was."""
        self.now_s += self._tick_s
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise RooflineUsageError(
                f"fake clock: cannot advance by {seconds} s; it must be a finite number, 0 or more"
            )
        self.now_s += seconds

    def advance_to(self, moment_s: float) -> None:
        """Let time pass until a moment; nothing happens when that is in the past."""
        self.now_s = max(self.now_s, moment_s)


class PublicClocks:
    """What the `time` module of the fake host shows: the virtual clock, distorted.

    `scale` is how fast they run, `step_s` a jump that happens at `step_at_s` (negative: back), `resolution_s`
    the width of one step of their readings. Only the clocks named in `distorted` lie; by default all of them
    do.
    """

    def __init__(
        self,
        clock: VirtualClock,
        *,
        scale: float = 1.0,
        step_s: float = 0.0,
        step_at_s: float | None = None,
        resolution_s: float = 0.0,
        distorted: Sequence[str] | None = None,
    ) -> None:
        self._epoch_s = {name: epoch_s for _, name, _, epoch_s in _CLOCKS}
        names = list(self._epoch_s)
        for name in distorted or ():
            if name not in names:
                raise RooflineUsageError(f"fake clock: no public clock {name!r}; known are {', '.join(names)}")
        if step_s and step_at_s is None:
            raise RooflineUsageError("fake clock: clock_step_s needs clock_step_at_s, the moment of the jump")
        for name, value in (
            ("clock_scale", scale),
            ("clock_step_s", step_s),
            ("clock_step_at_s", step_at_s or 0.0),
        ):
            if not math.isfinite(value):
                raise RooflineUsageError(f"fake clock: {name} is {value}; it must be a finite number")
        if not (math.isfinite(resolution_s) and resolution_s >= 0):
            raise RooflineUsageError(f"fake clock: clock_resolution_s is {resolution_s}; it must be 0 or more")
        self._clock = clock
        self._start_s = clock.now_s
        self._scale = scale
        self._step_s = step_s
        self._step_at_s = math.inf if step_at_s is None else step_at_s
        self._resolution_s = resolution_s
        self._distorted = frozenset(names if distorted is None else distorted)

    def seconds(self, name: str) -> float:
        """A reading of one public clock, in seconds."""
        return self._epoch_s[name] + self._shown_s(name)

    def nanoseconds(self, name: str) -> int:
        """A reading of one public clock, in whole nanoseconds."""
        # Epoch and reading are rounded apart: their sum as a float would lose the nanoseconds.
        return round(self._epoch_s[name] * 1e9) + round(self._shown_s(name) * 1e9)

    def watched(self) -> tuple[WatchedClock, ...]:
        """One record per clock of `time` and `timeit`, each reading this virtual one."""
        return tuple(
            WatchedClock(module, name, seconds_per_unit, self._reader(name, seconds_per_unit))
            for module, name, seconds_per_unit, _ in _CLOCKS
        )

    def _shown_s(self, name: str) -> float:
        now_s = self._clock.read()
        if name not in self._distorted:
            return now_s
        shown_s = self._start_s + (now_s - self._start_s) * self._scale
        if now_s >= self._step_at_s:
            shown_s += self._step_s
        if self._resolution_s > 0:
            shown_s = math.floor(shown_s / self._resolution_s) * self._resolution_s
        return shown_s

    def _reader(self, name: str, seconds_per_unit: float) -> Callable[[], float]:
        if seconds_per_unit == 1.0:
            return lambda: self.seconds(name)
        return lambda: self.nanoseconds(name)


class HostClocks:
    """The public clocks of a host, as its code reads them."""

    _public: PublicClocks

    def public_clocks(self) -> tuple[WatchedClock, ...]:
        """The clocks of `time` and `timeit` as this host shows them: virtual, and distorted as asked for.

        An audit puts them in the place of the real ones while it lasts.
        """
        return self._public.watched()

    def perf_counter(self) -> float:
        """The public `time.perf_counter()` of this host, seconds."""
        return self._public.seconds("perf_counter")

    def perf_counter_ns(self) -> int:
        """The public `time.perf_counter_ns()` of this host, nanoseconds."""
        return self._public.nanoseconds("perf_counter_ns")

    def monotonic(self) -> float:
        """The public `time.monotonic()` of this host, seconds."""
        return self._public.seconds("monotonic")

    def time(self) -> float:
        """The public `time.time()` of this host, seconds since an epoch."""
        return self._public.seconds("time")
