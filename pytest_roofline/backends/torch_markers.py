"""When a device finished, on the host's clock, even if nobody asked until much later.

A marker is an event behind everything that was submitted so far. Its moment is found in one of two ways:
against an *anchor* (an event that was recorded on the idle device at a known host time: events of one device
measure the time between each other), else by a thread that waits and looks at the clock. The anchor is the
better one, because a thread that wakes may still wait milliseconds for the interpreter, and late is the
direction that accuses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import MeasurementError, RooflineError

MAX_THREADS = 16


@dataclass(frozen=True, slots=True)
class Anchor:
    """An event that an idle device reached at `at_s` (or at most some microseconds later)."""

    event: Any
    at_s: float


class EventMarker:
    """Waits for `events` (device index and event): the last of them is the moment."""

    def __init__(
        self,
        events: Sequence[tuple[int, Any]],
        *,
        anchors: Mapping[int, Anchor],
        clock: Callable[[], float],
        places: threading.Semaphore,
    ) -> None:
        self._events = tuple(events)
        self._anchors = dict(anchors)
        self._clock = clock
        self._marked_s = clock()
        self._finished_s: float | None = None
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        if any(index not in self._anchors for index, _ in self._events) and places.acquire(blocking=False):
            self._thread = threading.Thread(
                target=self._wait_and_leave, args=(places,), name="roofline-marker", daemon=True
            )
            self._thread.start()

    def finished_s(self) -> float:
        """Wait until the device has reached the marker; when that was. Raises MeasurementError if it never
        did."""
        if self._thread is not None:
            self._thread.join()
        elif self._finished_s is None and self._error is None:
            self._wait()
        if self._error is not None or self._finished_s is None:
            raise MeasurementError(f"the device reported an error: {self._error}") from self._error
        return self._finished_s

    def _wait_and_leave(self, places: threading.Semaphore) -> None:
        try:
            self._wait()
        finally:
            places.release()

    def _wait(self) -> None:
        finished_s = self._marked_s
        try:
            for index, event in self._events:
                event.synchronize()
                seen_s = self._clock()
                finished_s = max(finished_s, min(seen_s, self._by_anchor(index, event, seen_s)))
        except RuntimeError as error:  # frameworks report the faults of a device as RuntimeError
            self._error = error
        else:
            self._finished_s = finished_s

    def _by_anchor(self, index: int, event: Any, seen_s: float) -> float:
        anchor = self._anchors.get(index)
        if anchor is None:
            return seen_s
        try:
            return anchor.at_s + float(anchor.event.elapsed_time(event)) / 1e3
        except (
            RuntimeError,
            ValueError,
            NotImplementedError,
            TypeError,
        ):  # a backend whose events keep no time
            return seen_s


class DrainMarker:
    """For a device without usable events: a thread drains it and looks at the clock."""

    def __init__(self, drain: Callable[[], None], *, clock: Callable[[], float]) -> None:
        self._drain = drain
        self._clock = clock
        self._finished_s: float | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._wait, name="roofline-marker", daemon=True)
        self._thread.start()

    def finished_s(self) -> float:
        """Wait until the device has drained; when that was. Raises MeasurementError if it never did."""
        self._thread.join()
        if self._finished_s is None:
            raise MeasurementError(f"the device reported an error: {self._error}") from self._error
        return self._finished_s

    def _wait(self) -> None:
        try:
            self._drain()
            self._finished_s = self._clock()
        except (RuntimeError, RooflineError) as error:
            self._error = error
