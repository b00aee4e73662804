"""Notices that this process did not run: it was stopped (SIGSTOP, a frozen container), or no core was free for it.

A thread looks at two clocks a hundred times a second. Where its turn comes far too late, and the process used next to
no processor time meanwhile, nothing of the process ran. Code that merely keeps the interpreter busy uses that time, so
it explains nothing away.

What it cannot tell from a stop: code that waits, without any processor time, and keeps the interpreter for itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_roofline.protocol import Backend

PERIOD_S = 0.01
LEAST_S = 0.25
"""Shorter ones happen on every busy machine, and are left to the spread of the samples."""
_USED_SHARE = 0.03
_MOST_USED_SHARE = 0.3
"""Of a gap. All cores may have been busy until it began, a turn of the thread at most; a process that merely shares its
cores with many others uses more."""
_MOST_GAPS = 1000
_JOIN_S = 0.2

Gap = tuple[float, float]
"""When it began and ended, on the clock of the backend."""


class Pulse(Protocol):
    """Tells when the process did not run."""

    def gaps(self) -> Sequence[Gap]:
        """All that were seen so far, in order."""
        ...

    def close(self) -> None:
        """Stop looking; a second call does nothing."""
        ...


class ProcessPulse:
    """The pulse of this very process, on the private clock of its backend."""

    def __init__(self, clock: Callable[[], float], *, used: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._used = used
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._gaps: list[Gap] = []
        self._stop = threading.Event()
        self._last = clock(), used()
        self._thread = threading.Thread(target=self._look, name="roofline-pulse", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system allows no further thread: nobody looks
            self._stop.set()

    def gaps(self) -> Sequence[Gap]:
        """All that were seen; the one that ended just now may not have been seen by the thread yet.

        After `close` nobody looks, so that nothing is said of the time since.
        """
        if self._stop.is_set():
            return tuple(self._gaps)
        begun_s, used_s = self._last
        now = gap(begun_s, self._clock(), self._used() - used_s, self._cores)
        seen = tuple(self._gaps)
        if now is None or (seen and seen[-1][1] > now[0]):  # seen by the thread in between
            return seen
        return (*seen, now)

    def close(self) -> None:
        """Stop looking."""
        if self._stop.is_set():
            return
        last = self.gaps()
        self._stop.set()
        self._thread.join(_JOIN_S)
        self._gaps[:] = last

    def _look(self) -> None:
        while not self._stop.wait(PERIOD_S) and len(self._gaps) < _MOST_GAPS:
            begun_s, used_s = self._last
            now_s, now_used_s = self._clock(), self._used()
            found = gap(begun_s, now_s, now_used_s - used_s, self._cores)
            if found is not None:
                self._gaps.append(found)
            self._last = now_s, now_used_s


def open_pulse(backend: Backend) -> Pulse:
    """The pulse that belongs to the backend's clock: its own where it has one (a virtual clock), else the process's."""
    own = getattr(backend, "open_pulse", None)
    pulse: Pulse = ProcessPulse(backend.clock) if own is None else own()
    return pulse


def gap(begun_s: float, ended_s: float, used_s: float, cores: int) -> Gap | None:
    """What lies between two looks, where it is too long, and too little processor time was used in it."""
    length_s = ended_s - begun_s - PERIOD_S
    most_used_s = min(_USED_SHARE * length_s + PERIOD_S * cores, _MOST_USED_SHARE * length_s)
    if length_s < LEAST_S or used_s > most_used_s:
        return None
    return ended_s - length_s, ended_s
