"""Markers whose time is taken by a helper thread, for frameworks that can wait for an array but not date it.

Late is the direction that accuses, and on a busy machine a helper is late for reasons that are nobody's work: it wakes
late, it stands in line for a core, it waits for the interpreter. So a stamp is the earliest moment that its evidence
allows. Taken off are

- how late the helper began to look, which is how late a control came back that had nothing to wait for,
- the time for which it then stood in line for a core, by the system's own account,
- two switch intervals of the interpreter (5 ms each) where nobody was waiting for the stamp, for then Python code ran
  elsewhere.

A marker may say that the device was there some milliseconds early, never that it was late. What the device was seen to
have done when the helper first looked was done when the marker was made.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from pytest_roofline.errors import MeasurementError

AT_ONCE_S = 50e-6
"""A wait that took no longer had nothing to wait for."""
_UNSEEN_S = float("-inf")


class Line(Protocol):
    """How long the calling thread has stood in line for a core."""

    def stood_s(self) -> float:
        """Seconds, ever."""
        ...


class CoreLine:
    """By Linux's account of the thread that made this; elsewhere nothing is known, and zero said."""

    def __init__(self) -> None:
        self._file: int | None
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = None

    def stood_s(self) -> float:
        """Seconds, ever."""
        if self._file is None:
            return 0.0
        try:
            return int(os.pread(self._file, 96, 0).split()[1]) * 1e-9
        except (OSError, IndexError, ValueError):
            return 0.0


class StampedMarker:
    """A point in the queue of a device, and when the device got there."""

    def __init__(self, clock: Callable[[], float], framework: str) -> None:
        self._framework = framework
        self._stamp_s: float | None = None
        self._error: Exception | None = None
        self._done = threading.Event()
        self.made_s = clock()
        """To be made before what it stands for is queued: queueing wakes others, who may take the core."""
        self.is_awaited = False

    @property
    def is_finished(self) -> bool:
        """Whether the device has been seen to reach the marker."""
        return self._done.is_set()

    def stamp(self, at_s: float | None = None, error: Exception | None = None) -> None:
        """The device is there, at that moment or when the marker was made, or it failed."""
        self._stamp_s = at_s
        self._error = error
        self._done.set()

    def since(self, moment_s: float) -> None:
        """The thread that made it submitted nothing since that moment: what was done then was done as early."""
        self.made_s = min(self.made_s, moment_s)

    def finished_s(self) -> float:
        """When the device reached the marker at the earliest, on the backend's clock; waits until it has."""
        self.is_awaited = True
        self._done.wait()
        if self._error is not None:
            what = (str(self._error).splitlines() or [type(self._error).__name__])[0]
            raise MeasurementError(f"{self._framework} could not finish what was queued: {what}") from self._error
        return self.made_s if self._stamp_s is None else self._stamp_s


class Watchman:
    """What the helper thread does with one marker after the other."""

    def __init__(self, clock: Callable[[], float], line: Line) -> None:
        self._clock = clock
        self._line = line
        self._free_s = _UNSEEN_S
        self._last_stamp_s = _UNSEEN_S

    def watch(self, marker: StampedMarker, wait: Callable[[], object], control: Callable[[], object]) -> None:
        """Wait for the control, then for the device, and stamp the marker.

        What goes wrong is raised where the marker is asked: it belongs to that thread, not to the helper.
        """
        error: Exception | None = None
        with suppress(Exception):  # without a control the helper's own lateness is all that is known
            control()
        stood_before_s, begun_s = self._line.stood_s(), self._clock()
        late_s = begun_s - max(marker.made_s, self._free_s)
        try:
            wait()
        except Exception as caught:
            error = caught
        seen_s = self._clock()
        stood_s = self._line.stood_s() - stood_before_s
        self._free_s = seen_s
        earliest_s = self._last_stamp_s  # a queue is in order, and so are its stamps
        if seen_s - begun_s - stood_s > AT_ONCE_S:
            interpreter_s = 0.0 if marker.is_awaited else 2 * sys.getswitchinterval()
            earliest_s = max(earliest_s, seen_s - late_s - stood_s - interpreter_s)
        if earliest_s > marker.made_s:
            self._last_stamp_s = earliest_s
            marker.stamp(earliest_s, error)
        else:
            marker.stamp(error=error)


class Stamper:
    """One helper thread for the life of a backend: starting a thread costs more than a whole marker may."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._work: queue.SimpleQueue[tuple[StampedMarker, Callable[[], object], Callable[[], object]]]
        self._thread: threading.Thread | None = None

    def watch(
        self, marker: StampedMarker, wait: Callable[[], object], control: Callable[[], object] = lambda: None
    ) -> None:
        """Have the helper wait, and stamp the marker then; markers are stamped in the order they came in.

        `control` waits for an operation made at the same moment that nothing stands before.
        """
        if self._thread is None or not self._thread.is_alive():  # a forked process has no thread of its parent's
            self._work = queue.SimpleQueue()
            self._thread = threading.Thread(
                target=self._stamp_each, args=(self._work, self._clock), name=self._name, daemon=True
            )
            self._thread.start()
        self._work.put((marker, wait, control))

    @staticmethod
    def _stamp_each(
        work: queue.SimpleQueue[tuple[StampedMarker, Callable[[], object], Callable[[], object]]],
        clock: Callable[[], float],
    ) -> None:
        watchman = Watchman(clock, CoreLine())
        while True:
            marker, wait, control = work.get()
            watchman.watch(marker, wait, control)
            del marker, wait, control  # or the arrays of the last marker would live until the next one
