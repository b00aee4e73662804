"""Waiting for the device, and when it was done: by markers, and by the wait, less what only held up this thread.

On a busy machine a thread that waits is taken off its processor for milliseconds. That is no work of the device, and
where it is all that a claim can be held against, it must not look like it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_roofline.protocol import Backend, Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Moments of the private clock around one wait for every framework."""

    entry_s: float
    """Before the wait, and before any marker."""
    drained_s: float
    """Behind it."""
    seen_done_s: float
    """When the markers were reached that were set at the entry; the entry itself without any."""
    is_complete: bool
    """Whether no queue can have outlasted those markers."""
    held_up_s: float
    """Part of the wait in which this thread was ready to run, and was not running."""

    @property
    def marked_s(self) -> float:
        """Up to when the markers answer for all that was waited for."""
        return max(self.seen_done_s, self.drained_s) if self.is_complete else self.seen_done_s

    @property
    def done_s(self) -> float:
        """When the device was done, on queues with a marker and without."""
        if self.is_complete:
            return self.seen_done_s
        return max(self.seen_done_s, self.drained_s - self.held_up_s)


def wait_for(
    backends: Sequence[Backend],
    *,
    mark: Callable[[], Sequence[Marker]],
    clock: Callable[[], float],
    held_up_s: Callable[[], float],
) -> Drained:
    """Drain them, with markers set before."""
    held_before_s = held_up_s()
    entry_s = clock()
    markers = mark()
    for backend in backends:
        backend.drain()
    drained_s = clock()
    held_s = max(0.0, held_up_s() - held_before_s)
    return Drained(
        entry_s=entry_s,
        drained_s=drained_s,
        seen_done_s=max((marker.finished_s() for marker in markers), default=entry_s),
        is_complete=all(backend.is_marker_complete or not backend.has_context() for backend in backends),
        held_up_s=held_s,
    )
