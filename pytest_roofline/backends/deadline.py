"""Questions to a driver that may never answer: each has a deadline, and a driver that missed one is not asked again.

A driver hangs in the kernel, where nothing can interrupt it; its thread is left behind (a daemon, so that the process
can end). A thread is made for each question and none lives in between: a fork has nothing to lose, and nothing runs
while nothing is measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
DEADLINE_S = 2.0
"""Far above what an answer takes (under 10 ms), far under what a measurement may take."""
FIRST_DEADLINE_S = 20.0
"""For the first question: loading a driver that is not kept loaded takes some seconds on a machine of eight cards."""


class DriverHungError(Exception):
    """A question was not answered in time, now or earlier."""


class _Answer(Generic[T]):
    """What one question brought."""

    value: T
    error: BaseException | None = None
    is_there: bool = False


class Deadline:
    """Asks questions in threads of their own. `is_hung` once one was not answered: then no other is put."""

    def __init__(self, name: str, *, seconds: float = DEADLINE_S) -> None:
        self._name = name
        self._seconds = seconds
        self.is_hung = False

    def ask(self, question: Callable[[], T], *, seconds: float | None = None) -> T:
        """The answer, or the exception that the question raised. Raises DriverHungError after the deadline."""
        allowed_s = self._seconds if seconds is None else seconds
        if self.is_hung:
            raise DriverHungError(f"{self._name} did not answer earlier and is not asked again")
        answer: _Answer[T] = _Answer()

        def put() -> None:
            try:
                answer.value = question()
            except BaseException as error:
                answer.error = error
            answer.is_there = True

        thread = threading.Thread(target=put, name=f"roofline-{self._name}", daemon=True)
        thread.start()
        thread.join(allowed_s)
        if not answer.is_there:
            self.is_hung = True
            raise DriverHungError(f"{self._name} did not answer within {allowed_s:g} s and is not asked again")
        if answer.error is not None:
            raise answer.error
        return answer.value
