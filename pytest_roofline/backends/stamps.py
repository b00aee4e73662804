"""Markers whose time is taken by a helper thread, for frameworks that can wait for an array but not date it.

A helper that wakes may still wait for the interpreter, by its switch interval (5 ms) and a little more, while Python
code runs elsewhere. Late is the direction that accuses, so two intervals are taken off a stamp that nobody was waiting
for: a marker may say that the device was there up to 10 ms early, never that it was late.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable

from pytest_roofline.errors import MeasurementError


class StampedMarker:
    """A point in the queue of a device, and when the device got there."""

    def __init__(self, clock: Callable[[], float], framework: str) -> None:
        self._clock = clock
        self._framework = framework
        self._stamp_s: float | None = None
        self._error: Exception | None = None
        self._done = threading.Event()
        self._made_s = clock()
        self._is_awaited = False

    @property
    def is_finished(self) -> bool:
        """Whether the device has been seen to reach the marker."""
        return self._done.is_set()

    def stamp(self) -> None:
        """The device is there: note the time."""
        self._stamp_s = self._clock()
        self._done.set()

    def wait_and_stamp(self, wait: Callable[[], object], not_before_s: float = 0.0) -> float:
        """Wait for the device, note the time and return it; what goes wrong is raised where the marker is asked."""
        try:
            wait()
        except Exception as error:  # whatever it is, it belongs to the thread that asks, not to the helper
            self._error = error
        seen_s = self._clock()
        allowance_s = 0.0 if self._is_awaited else 2 * sys.getswitchinterval()
        stamp_s = self._stamp_s = max(self._made_s, not_before_s, seen_s - allowance_s)
        self._done.set()
        return stamp_s

    def finished_s(self) -> float:
        """When the device reached the marker, on the backend's clock; waits until it has."""
        self._is_awaited = True
        self._done.wait()
        if self._error is not None or self._stamp_s is None:
            what = (str(self._error).splitlines() or [type(self._error).__name__])[0]
            raise MeasurementError(f"{self._framework} could not finish what was queued: {what}") from self._error
        return self._stamp_s


class Stamper:
    """One helper thread for the life of a backend: starting a thread costs more than a whole marker may."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[tuple[StampedMarker, Callable[[], object]]] | None = None

    def watch(self, marker: StampedMarker, wait: Callable[[], object]) -> None:
        """Have the helper wait, and stamp the marker then; markers are stamped in the order they came in."""
        if self._work is None:
            self._work = queue.SimpleQueue()
            threading.Thread(target=self._stamp_each, args=(self._work,), name=self._name, daemon=True).start()
        self._work.put((marker, wait))

    @staticmethod
    def _stamp_each(work: queue.SimpleQueue[tuple[StampedMarker, Callable[[], object]]]) -> None:
        last_s = 0.0  # a queue is in order, and so are its stamps
        while True:
            marker, wait = work.get()
            last_s = marker.wait_and_stamp(wait, last_s)
            del marker, wait  # or the arrays of the last marker would live until the next one
