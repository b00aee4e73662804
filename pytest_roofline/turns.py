"""One thread after the other: the locks between processes know nothing of the threads of one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pytest_roofline.device import Device
from pytest_roofline.errors import InconclusiveMeasurement
from pytest_roofline.units import format_seconds


@dataclass(slots=True)
class Turn:
    """Whose turn it is on one device; `thread` is the one that has it, None where nobody has."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: int | None = None

    def go_on(self) -> None:
        """Whoever has it goes on in this thread, and the one that took it waits like every other."""
        self.thread = threading.get_ident()


class Turns:
    """Whose turn it is on each device in this process; within its own turn a thread waits for nothing."""

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = min(wait_s, threading.TIMEOUT_MAX)
        self._guard = threading.Lock()
        self._turns: dict[str, Turn] = {}

    @contextmanager
    def take(self, device: Device) -> Iterator[Turn]:
        """Until the end of the block, on whatever thread that is (an audit may be left on another one).

        InconclusiveMeasurement when another thread still has it after `wait_s`.
        """
        with self._guard:
            turn = self._turns.setdefault(device.key, Turn())
        thread = threading.get_ident()
        if turn.thread == thread:
            yield turn
            return
        if not turn.lock.acquire(timeout=self._wait_s):
            raise InconclusiveMeasurement(
                f"{device.id} was not free within {format_seconds(self._wait_s)}: another thread of this process "
                "measures on it\n"
                "  do: let one thread measure at a time, or raise --roofline-lock-wait"
            )
        turn.thread = thread
        try:
            yield turn
        finally:
            turn.thread = None
            turn.lock.release()
