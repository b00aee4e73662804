"""Watch a test time with device events.

While an audit runs, `record` and the elapsed time of the framework's event classes are wrapped. Each record by the
test's code is noted with the private time around it and a marker queued before it; each difference that anybody but
this package reads is noted with the value it was given. Calls pass straight through, and do so for ever once the
audit has ended, because `monkeypatch` may put a wrapper back later. What somebody else put over a wrapper stays.

Not seen: events of C++ code, events recorded before the audit, and classes that a test bound by name before it where
the class itself cannot be changed (`torch.Event`). A record by a library has a time and no marker.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any

from pytest_roofline.checks.claimed import EventInterval
from pytest_roofline.protocol import Marker, WatchedEvents
from pytest_roofline.provenance import Provenance, place_of

MOST_MARKERS = 256
"""Markers kept per audit; the oldest is settled with each record beyond them."""
MOST_INTERVALS = 100_000
"""Events and readings kept per audit; what comes later is not noted."""
_READ_AGAIN = 64
"""Records up to which the times between neighbours are read again where the test was not seen to read any."""


@dataclass(slots=True)
class _Record:
    """A call of `record`: a marker before it, and the private time around it."""

    event: Any
    low_s: float
    high_s: float
    where: str
    markers: tuple[Marker, ...] | None
    """None where no marker was set, so that it is not known when the device got there."""
    finished_s: float | None = None

    def settle(self) -> None:
        if self.markers:
            self.finished_s = max(marker.finished_s() for marker in self.markers)
            self.markers = ()


@dataclass(slots=True)
class _Reading:
    start: _Record | None
    end: _Record | None
    value_s: float
    where: str
    name: str


class EventWatch:
    """Notes records and elapsed times of device events between `start` and `stop`."""

    def __init__(
        self,
        *,
        private: Callable[[], float],
        mark: Callable[[], Sequence[Marker]],
        classes: Sequence[WatchedEvents],
    ) -> None:
        self._private = private
        self._mark = mark
        self._classes = classes
        self._provenance = Provenance()
        self._records: dict[int, _Record] = {}
        self._order: list[tuple[WatchedEvents, _Record]] = []
        self._marked: deque[_Record] = deque()
        self._readings: list[_Reading] = []
        self._undo: list[Callable[[], None]] = []
        self._is_active = False

    @property
    def is_active(self) -> bool:
        """Whether records and readings are noted now."""
        return self._is_active

    def start(self) -> None:
        """Put the wrappers in place."""
        self._is_active = True
        for watched in self._classes:
            try:
                self._wrap(watched, watched.owner)
            except TypeError:  # a class of C code, which nobody can change: a subclass of it takes its place
                self._stand_in(watched)

    def stop(self) -> None:
        """Take them out again, where nobody put something else in their place."""
        self._is_active = False
        while self._undo:
            self._undo.pop()()

    def intervals(self) -> tuple[EventInterval, ...]:
        """The times that were read, with what the private clock and the markers make of them."""
        return tuple(
            self._interval(reading)
            for reading in self._readings
            if reading.start is None or reading.end is None or reading.start is not reading.end or reading.value_s <= 0
        )

    @staticmethod
    def _interval(reading: _Reading) -> EventInterval:
        start, end = reading.start, reading.end
        for record in (start, end):
            if record is not None:
                record.settle()
        is_known = start is not None and end is not None and start.markers is not None and end.markers is not None
        if not is_known or start is None or end is None:
            return EventInterval(name=reading.name, value_s=reading.value_s, where=reading.where)
        began_s = start.high_s if start.finished_s is None else max(start.high_s, start.finished_s)
        ended_s = end.low_s if end.finished_s is None else max(end.low_s, end.finished_s)
        return EventInterval(
            name=reading.name,
            value_s=reading.value_s,
            where=end.where,
            began_s=began_s,
            ended_s=ended_s,
            submitted_low_s=start.high_s,
            submitted_high_s=end.low_s,
            latest_s=max(end.high_s, ended_s) - start.low_s,
        )

    def read_again(self) -> None:
        """Read the time between neighbouring records as the test would read it now, and note what differs.

        Whoever replaced the method that tells the time has not replaced the markers. Only where records are few; the
        device is to be drained before.
        """
        if not 2 <= len(self._order) <= _READ_AGAIN:
            return
        is_active, self._is_active = self._is_active, False
        try:
            found = [self._read_pair(first, second) for first, second in pairwise(self._order)]
        finally:
            self._is_active = is_active
        seen = {(id(one.start), id(one.end)): one.value_s for one in self._readings}
        self._readings += [
            reading
            for reading in found
            if reading is not None
            and abs(seen.get((id(reading.start), id(reading.end)), float("inf")) - reading.value_s)
            > 0.01 * abs(reading.value_s)
            and (not self._readings or (id(reading.start), id(reading.end)) in seen)
        ]

    def _read_pair(
        self, first: tuple[WatchedEvents, _Record], second: tuple[WatchedEvents, _Record]
    ) -> _Reading | None:
        (watched, start), (_, end) = first, second
        with suppress(Exception):  # not reached, of another class, or replaced by whatever raises: it tells nothing
            value = float(getattr(start.event, watched.elapsed)(end.event)) * watched.seconds_per_unit
            return _Reading(start, end, value, end.where, watched.name)
        return None

    # -- the wrappers

    def _wrap(self, watched: WatchedEvents, owner: type) -> None:
        for name, wrapper in ((watched.record, self._recorder), (watched.elapsed, self._reader)):
            original = _without_ended_wrappers(getattr(owner, name))
            new = wrapper(watched, original)
            new.__dict__.update(roofline_watch=self, roofline_original=original)
            new.__doc__ = getattr(original, "__doc__", None)
            self._replace(owner, name, new)

    def _replace(self, owner: type, name: str, new: Any) -> None:
        is_own = name in vars(owner)
        old = _without_ended_wrappers(vars(owner).get(name))
        setattr(owner, name, new)

        def undo() -> None:
            if vars(owner).get(name) is not new:
                return
            if is_own:
                setattr(owner, name, old)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def _stand_in(self, watched: WatchedEvents) -> None:
        """A subclass under the class's own name in its module; instances of either count as instances of it."""
        original = watched.owner
        module = sys.modules.get(original.__module__)
        name = original.__name__
        if module is None or vars(module).get(name) is not original:
            return

        class Kind(type(original)):  # type: ignore[misc]
            """Makes events from before the audit instances of the stand-in too."""

            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, original)

            def __subclasscheck__(cls, subclass: type) -> bool:
                return issubclass(subclass, original)

        try:
            new = Kind(name, (original,), {"__doc__": original.__doc__, "__module__": original.__module__})
        except TypeError:  # nobody may derive from it: its events stay unseen
            return
        self._wrap(watched, new)
        setattr(module, name, new)

        def undo() -> None:
            if vars(module).get(name) is new:
                setattr(module, name, original)

        self._undo.append(undo)

    def _recorder(self, watched: WatchedEvents, original: Any) -> Any:
        private = self._private

        def record(event: Any, *args: Any, **kwargs: Any) -> Any:
            frame = _beyond_watches(sys._getframe(1))
            is_full = len(self._records) >= MOST_INTERVALS and id(event) not in self._records
            if not self._is_active or is_full or self._provenance.is_ours(frame.f_code.co_filename):
                return original(event, *args, **kwargs)
            markers = tuple(self._mark()) if self._is_near_test(frame) else None
            low = private()
            result = original(event, *args, **kwargs)
            noted = _Record(event, low, private(), place_of(frame), markers)
            self._records[id(event)] = noted
            if len(self._order) <= _READ_AGAIN:
                self._order.append((watched, noted))
            if markers:
                self._marked.append(noted)
                if len(self._marked) > MOST_MARKERS:
                    self._marked.popleft().settle()
            return result

        return record

    def _is_near_test(self, frame: FrameType) -> bool:
        """Whether the test's code records, or what it calls (`stream.record_event`, a library's timing function)."""
        callers = (frame, frame.f_back)
        return any(one is not None and self._provenance.is_of_test(one.f_code.co_filename) for one in callers)

    def _reader(self, watched: WatchedEvents, original: Any) -> Any:
        def elapsed(event: Any, end: Any, *args: Any, **kwargs: Any) -> Any:
            value = original(event, end, *args, **kwargs)
            frame = _beyond_watches(sys._getframe(1))
            if self._is_active and not self._provenance.is_ours(frame.f_code.co_filename):
                self._note(watched, event, end, value, frame)
            return value

        return elapsed

    def _note(self, watched: WatchedEvents, event: Any, end: Any, value: Any, frame: FrameType) -> None:
        try:
            value_s = float(value) * watched.seconds_per_unit
        except (TypeError, ValueError):  # a class that somebody replaced may return what it likes
            return
        if len(self._readings) >= MOST_INTERVALS:
            return
        caller = self._provenance.caller(frame)
        start, last = self._records.get(id(event)), self._records.get(id(end))
        where = place_of(caller) if caller is not None else ""
        self._readings.append(_Reading(start, last, value_s, where, watched.name))


def _beyond_watches(frame: FrameType) -> FrameType:
    """The caller, past the wrappers of audits around or inside this one."""
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _without_ended_wrappers(method: Any) -> Any:
    """The method behind wrappers whose audits are over: `monkeypatch` may have put one back."""
    while True:
        watch = getattr(method, "roofline_watch", None)
        if not isinstance(watch, EventWatch) or watch.is_active:
            return method
        method = method.roofline_original
