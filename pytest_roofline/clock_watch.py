"""Watch a test read its clock.

While an audit runs, the functions of `time` (and `timeit.default_timer`) are wrapped, in their modules and wherever
the test module, or another module of its project, imported them by name; on Python 3.12 and newer, calls of clocks
that were bound elsewhere are seen by `sys.monitoring`. Each read by the test's code is noted with the private time
before and after it, the value returned, and a marker queued behind what had been submitted. Reads by libraries are
not the test's, and are not noted.

Sharp edges: a wrapper may outlive its audit, because `monkeypatch` may put it back later; it then passes straight
through. A clock that somebody patched over ours is left alone.
"""

from __future__ import annotations

import sys
import time  # noqa: F401 - its clocks are looked up in sys.modules
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any

from pytest_roofline.checks.claimed import ClockDrift, ClockRead
from pytest_roofline.protocol import Marker, WatchedClock
from pytest_roofline.provenance import Provenance, place_of

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


@dataclass(slots=True)
class _Read:
    clock: WatchedClock
    value_s: float
    low_s: float
    high_s: float
    where: str
    markers: tuple[Marker, ...]
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
    ) -> None:
        self._private = private
        self._mark = mark
        self._clocks = clocks
        self._frame = frame
        self._reads: deque[_Read] = deque()
        self._marked: deque[_Read] = deque()
        self._undo: list[Callable[[], None]] = []
        self._own: dict[tuple[str, str], tuple[object, object]] = {}
        self._is_active = False
        self._provenance = Provenance()
        self._monitor: _Monitor | None = None

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
                self._monitor = _Monitor(self._frame, by_original, self._note_call)
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
                where=read.where,
                finished_s=read.settle(),
            )
            for read in self._reads
        )

    def _wrapper(self, clock: WatchedClock, original: Callable[[], float]) -> Callable[[], float]:
        private, unit, is_of_test = self._private, clock.seconds_per_unit, self._provenance.is_of_test
        # Inside another audit the reading is taken through its wrapper, so that it is noted there too.
        read = original if hasattr(original, "roofline_watch") else clock.read

        def watched() -> float:
            if not self._is_active:
                return original()
            frame = sys._getframe(1)
            while frame.f_code.co_filename == __file__ and frame.f_back is not None:
                frame = frame.f_back  # the wrapper of an audit around or inside this one
            if not is_of_test(frame.f_code.co_filename):
                return original()
            low = private()
            value = read()
            high = private()
            self._note(clock, value * unit, low, high, frame)
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
        read = _Read(clock, value_s, low, high, place_of(frame), tuple(self._mark()))
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
                wrapper = _in_place_of(value, wrappers)
                if wrapper is not None:
                    self._replace(names, name, value, wrapper)
        for cell in _cells(frame.f_globals):
            try:
                content = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            wrapper = _in_place_of(content, wrappers)
            if wrapper is not None:
                self._replace_cell(cell, content, wrapper)

    def _replace_cell(self, cell: Any, old: Any, new: Any) -> None:
        cell.cell_contents = new

        def undo() -> None:
            if cell.cell_contents is new:
                cell.cell_contents = old

        self._undo.append(undo)


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


def _without_ended_wrappers(clock: Any) -> Any:
    """The clock behind wrappers whose audits are over: `monkeypatch` may have put one back."""
    while True:
        watch = getattr(clock, "roofline_watch", None)
        if not isinstance(watch, ClockWatch) or watch.is_active:
            return clock
        clock = clock.roofline_original


def _in_place_of(value: object, wrappers: dict[int, Callable[[], float]]) -> Callable[[], float] | None:
    """The wrapper of a clock that was imported by name, also of one inside a `functools.partial`; else None."""
    if type(value) is partial:
        wrapper = wrappers.get(id(value.func))
        return None if wrapper is None else partial(wrapper, *value.args, **value.keywords)
    return wrappers.get(id(value))


def _cells(namespace: dict[str, Any]) -> Iterator[Any]:
    for value in list(namespace.values()):
        function = getattr(value, "__wrapped__", value)
        # A wrapper of ours holds the clock that it stands for: putting a wrapper there would call itself for ever.
        if isinstance(function, FunctionType) and function.__closure__ and function.__module__ != __name__:
            yield from function.__closure__


class _Monitor:
    """Sees calls of clocks that were bound before the audit, in the code of one test module (Python 3.12+)."""

    def __init__(
        self,
        frame: FrameType,
        clocks: dict[int, WatchedClock],
        note: Callable[[WatchedClock, FrameType], None],
    ) -> None:
        self._codes = list(_codes(frame))
        self._clocks = clocks
        self._note = note
        self._tool: int | None = None

    def start(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        for tool in (4, 3):
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "pytest-roofline")
                self._tool = tool
                break
        else:
            return  # every free slot is taken by debuggers and profilers; reads bound early stay unseen
        monitoring.register_callback(self._tool, monitoring.events.CALL, self._on_call)
        for code in self._codes:
            monitoring.set_local_events(self._tool, code, monitoring.events.CALL)

    def stop(self) -> None:
        if self._tool is None:
            return
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        for code in self._codes:
            monitoring.set_local_events(self._tool, code, 0)
        monitoring.register_callback(self._tool, monitoring.events.CALL, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None

    def _on_call(self, code: CodeType, offset: int, function: object, argument: object) -> None:
        clock = self._clocks.get(id(function))
        if clock is not None:
            self._note(clock, sys._getframe(1))


def _codes(frame: FrameType) -> Iterator[CodeType]:
    """The running test's code and that of its module's functions, with what they nest."""
    pending = [frame.f_code]
    for value in list(frame.f_globals.values()):
        function = getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType) and function.__module__ == frame.f_globals.get("__name__"):
            pending.append(function.__code__)
    seen: set[int] = set()
    while pending:
        code = pending.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        yield code
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
