"""Watch a test read its clock.

While an audit runs, the functions of `time` (and `timeit.default_timer`) are wrapped, in their modules, in what
`timeit` times with, and wherever the test module, or another module of its project, imported them by name; on Python
3.12 and newer, calls of clocks that were bound elsewhere are seen by `sys.monitoring`. Each read by the test's code is
noted with the private time before and after it, the value returned, and a marker queued behind what had been submitted.
Reads by libraries are not the test's, and are not noted.

Sharp edges: a wrapper may outlive its audit, because `monkeypatch` may put it back later; it then passes straight
through. A clock that somebody patched over ours is left alone.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FrameType, FunctionType
from typing import Any

from pytest_roofline.checks.claimed import ClockDrift, ClockRead
from pytest_roofline.clock_places import Monitor, cells, functions_with_defaults, in_place_of
from pytest_roofline.protocol import Marker, WatchedClock
from pytest_roofline.provenance import Provenance, place_at

MOST_MARKERS = 256
"""Markers kept per audit; a loop that reads the clock more often has the oldest one settled with each read."""
_NANO = 1e-9


def host_clocks() -> tuple[WatchedClock, ...]:
    """The clocks of the standard library, as they are now (a test may have patched one already)."""
    names = (
        ("time", "perf_counter", 1.0),
        ("time", "perf_counter_ns", _NANO),
        ("time", "monotonic", 1.0),
        ("time", "monotonic_ns", _NANO),
        ("time", "time", 1.0),
        ("time", "time_ns", _NANO),
        ("time", "process_time", 1.0),
        ("time", "process_time_ns", _NANO),
        ("time", "thread_time", 1.0),
        ("time", "thread_time_ns", _NANO),
        ("time", "clock_gettime", 1.0),
        ("time", "clock_gettime_ns", _NANO),
        ("timeit", "default_timer", 1.0),
    )
    clocks = []
    for module, name, unit in names:
        read = getattr(sys.modules.get(module), name, None)
        if callable(read):
            clocks.append(WatchedClock(module, name, unit, read))
    return tuple(clocks)


_WALL_CLOCKS = frozenset({"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "default_timer"})
"""Clocks that must keep pace with the private one; `time.time` may be stepped, CPU time is no wall time."""
_CPU_CLOCKS = frozenset({"process_time", "process_time_ns", "thread_time", "thread_time_ns"})
_CPU_IDS = {
    getattr(time, name, None): clock
    for name, clock in (("CLOCK_PROCESS_CPUTIME_ID", "process_time"), ("CLOCK_THREAD_CPUTIME_ID", "thread_time"))
}


@dataclass(slots=True)
class _Read:
    clock: WatchedClock
    value_s: float
    low_s: float
    high_s: float
    file: str
    line: int
    markers: tuple[Marker, ...]
    cpu_s: float | None = None
    finished_s: float | None = None

    def settle(self) -> float | None:
        """When the work before this read was done; asks the markers once."""
        if self.markers:
            self.finished_s = max(marker.finished_s() for marker in self.markers)
            self.markers = ()
        return self.finished_s


@dataclass(frozen=True, slots=True)
class Stamp:
    """A public clock's reading between two readings of the private one."""

    clock: str
    value_s: float
    low_s: float
    high_s: float


class ClockWatch:
    """Notes the clock reads of test code between `start` and `stop`."""

    def __init__(
        self,
        *,
        private: Callable[[], float],
        mark: Callable[[], Sequence[Marker]],
        clocks: Sequence[WatchedClock],
        frame: FrameType | None,
        processor_s: Callable[[], float] | None = None,
    ) -> None:
        self._private = private
        self._processor_s = processor_s
        self._mark = mark
        self._clocks = clocks
        self._frame = frame
        self._reads: deque[_Read] = deque()
        self._marked: deque[_Read] = deque()
        self._undo: list[Callable[[], None]] = []
        self._own: dict[tuple[str, str], tuple[object, object]] = {}
        self._is_active = False
        self._provenance = Provenance()
        self._monitor: Monitor | None = None

    @property
    def is_active(self) -> bool:
        """Whether reads are noted now."""
        return self._is_active

    @property
    def count(self) -> int:
        """Reads noted so far."""
        return len(self._reads)

    def start(self) -> None:
        """Put the wrappers in place."""
        self._is_active = True
        originals: dict[int, Callable[[], float]] = {}
        by_original: dict[int, WatchedClock] = {}
        for clock in self._clocks:
            module = sys.modules.get(clock.module)
            found = getattr(module, clock.name, None)
            if module is None or found is None:
                continue
            original = _without_ended_wrappers(found)
            if original is not found:
                module.__dict__[clock.name] = original
            if id(original) not in originals:
                originals[id(original)] = self._wrapper(clock, original)
                by_original[id(original)] = clock
            self._own[clock.module, clock.name] = (original, originals[id(original)])
            self._replace(module.__dict__, clock.name, original, originals[id(original)])
        if self._frame is not None:
            self._replace_imported(self._frame, originals)
            if sys.version_info >= (3, 12):
                self._monitor = Monitor(self._frame, by_original, self._note_call)
                self._monitor.start()

    def stop(self) -> None:
        """Take the wrappers out again, where nobody put something else in their place."""
        self._is_active = False
        while self._undo:
            self._undo.pop()()
        if self._monitor is not None:
            self._monitor.stop()
            self._monitor = None
        self._frame = None

    def stamps(self) -> dict[str, Stamp]:
        """Read every public wall clock as the test would, between two private readings."""
        found = {}
        for clock in self._clocks:
            if clock.name not in _WALL_CLOCKS and clock.name != "time":
                continue
            public: Any = getattr(sys.modules.get(clock.module), clock.name, None)
            if not callable(public):
                continue
            if any(public is ours for ours in self._own.get((clock.module, clock.name), (clock.read,))):
                public = clock.read  # not patched since: the clock itself, without noting a read
            public = getattr(public, "roofline_read", public)  # the wrapper of an audit inside this one
            low = self._private()
            try:
                value = float(public()) * clock.seconds_per_unit
            except Exception:  # broad: whatever stands in for a clock may raise whatever it likes, and tells nothing
                continue
            found[f"{clock.module}.{clock.name}"] = Stamp(f"{clock.module}.{clock.name}", value, low, self._private())
        return found

    def reads(self) -> tuple[ClockRead, ...]:
        """The reads, with the moment when the work submitted before each was done."""
        return tuple(
            ClockRead(
                clock=f"{read.clock.module}.{read.clock.name}",
                value_s=read.value_s,
                private_low_s=read.low_s,
                private_high_s=read.high_s,
                where=place_at(read.file, read.line),
                finished_s=read.settle(),
                cpu_s=read.cpu_s,
            )
            for read in self._reads
        )

    def _wrapper(self, clock: WatchedClock, original: Callable[..., float]) -> Callable[..., float]:
        private, unit, is_of_test = self._private, clock.seconds_per_unit, self._provenance.is_of_test
        # Inside another audit the reading is taken through its wrapper, so that it is noted there too.
        read: Callable[..., float] = original if hasattr(original, "roofline_watch") else clock.read

        def watched(*which: Any) -> float:
            if not self._is_active:
                return original(*which)
            frame = sys._getframe(1)
            while frame.f_code.co_filename == __file__ and frame.f_back is not None:
                frame = frame.f_back  # the wrapper of an audit around or inside this one
            if not is_of_test(frame.f_code.co_filename):
                return original(*which)
            low = private()
            value = read(*which)
            high = private()
            self._note(_named(clock, which[0]) if which else clock, value * unit, low, high, frame)
            return value

        watched.__dict__.update(roofline_watch=self, roofline_original=original, roofline_read=clock.read)
        watched.__name__ = clock.name
        watched.__doc__ = getattr(original, "__doc__", None)
        return watched

    def _note_call(self, clock: WatchedClock, frame: FrameType) -> None:
        """A clock bound before the audit is about to be read: the moment is known, the value is not."""
        if self._is_active:
            now = self._private()
            self._note(clock, now, now, now, frame)

    def _note(self, clock: WatchedClock, value_s: float, low: float, high: float, frame: FrameType) -> None:
        cpu_s = self._processor_s() if self._processor_s is not None and clock.name in _CPU_CLOCKS else None
        read = _Read(clock, value_s, low, high, frame.f_code.co_filename, frame.f_lineno, tuple(self._mark()), cpu_s)
        self._reads.append(read)
        if read.markers:
            self._marked.append(read)
            if len(self._marked) > MOST_MARKERS:
                # Long passed, in all likelihood: queues are not that deep. What it says is kept, the marker is not.
                self._marked.popleft().settle()

    def _replace(self, namespace: dict[str, Any], name: str, old: Any, new: Any) -> None:
        namespace[name] = new

        def undo() -> None:
            if namespace.get(name) is new:
                namespace[name] = old

        self._undo.append(undo)

    def _replace_imported(self, frame: FrameType, wrappers: dict[int, Callable[[], float]]) -> None:
        """Find clocks that were imported by name: into modules of the project, and into the test module's closures."""
        spaces = {id(names): names for names in (frame.f_globals, *self._provenance.namespaces())}
        for names in spaces.values():
            for name, value in list(names.items()):
                wrapper = in_place_of(value, wrappers)
                if wrapper is not None:
                    self._replace(names, name, value, wrapper)
        for cell in cells(frame.f_globals):
            try:
                content = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            wrapper = in_place_of(content, wrappers)
            if wrapper is not None:
                self._replace_cell(cell, content, wrapper)
        for function in functions_with_defaults(sys.modules.get("timeit")):
            self._replace_defaults(function, wrappers)

    def _replace_defaults(self, function: FunctionType, wrappers: dict[int, Callable[[], float]]) -> None:
        """`timeit` has its clock as a default argument, and the code that it times, and reads it in, is the test's."""
        old = function.__defaults__ or ()
        new = tuple(in_place_of(value, wrappers) or value for value in old)
        if all(ours is theirs for ours, theirs in zip(new, old, strict=True)):
            return
        function.__defaults__ = new

        def undo() -> None:
            if function.__defaults__ is new:
                function.__defaults__ = old

        self._undo.append(undo)

    def _replace_cell(self, cell: Any, old: Any, new: Any) -> None:
        cell.cell_contents = new

        def undo() -> None:
            if cell.cell_contents is new:
                cell.cell_contents = old

        self._undo.append(undo)


def _named(clock: WatchedClock, which: Any) -> WatchedClock:
    """One of the clocks of `clock_gettime`, by its number: readings of different ones have nothing to do with another.

    Those of processor time go by the names that they have elsewhere.
    """
    name = _CPU_IDS.get(which)
    return replace(clock, name=name or f"{clock.name}({which})")


def drifts(before: dict[str, Stamp], after: dict[str, Stamp]) -> tuple[ClockDrift, ...]:
    """How far each public clock advanced between two sets of stamps, against the private clock."""
    return tuple(
        ClockDrift(
            clock=name,
            public_s=after[name].value_s - start.value_s,
            private_low_s=max(0.0, after[name].low_s - start.high_s),
            private_high_s=after[name].high_s - start.low_s,
        )
        for name, start in before.items()
        if name in after
    )


def stretches(before: dict[str, Stamp], after: dict[str, Stamp]) -> tuple[tuple[float, float], ...]:
    """From when to when each public clock went between two sets of stamps, in its own seconds."""
    return tuple((start.value_s, after[name].value_s) for name, start in before.items() if name in after)


def _without_ended_wrappers(clock: Any) -> Any:
    """The clock behind wrappers whose audits are over: `monkeypatch` may have put one back."""
    while True:
        watch = getattr(clock, "roofline_watch", None)
        if not isinstance(watch, ClockWatch) or watch.is_active:
            return clock
        clock = clock.roofline_original
