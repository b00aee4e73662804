"""Threads that stay: starting one per launch would cost more than a launch on a small working set takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING
from weakref import finalize

Task = Callable[[], object]

if TYPE_CHECKING:
    Order = tuple[Task, SimpleQueue[BaseException | None]] | None


class Crew:
    """A team of `size` threads that run one task each at the same time; the calling thread is one of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._process = os.getpid()
        self._inboxes: list[SimpleQueue[Order]] = []
        for number in range(1, size):
            inbox: SimpleQueue[Order] = SimpleQueue()
            Thread(target=_work, args=(inbox,), name=f"roofline-crew-{number}", daemon=True).start()
            self._inboxes.append(inbox)
        # The threads hold their inboxes and never the crew, so that a crew nobody uses any more ends them.
        finalize(self, _dismiss, self._inboxes)

    @property
    def is_here(self) -> bool:
        """Whether the threads live in this process: a fork takes none of them along."""
        return self._process == os.getpid()

    def run(self, tasks: Sequence[Task]) -> None:
        """Run one task per thread and wait for all of them; an error of any of them is raised here."""
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        for inbox, task in zip(self._inboxes, tasks[1:], strict=True):
            inbox.put((task, done))
        try:
            tasks[0]()
        finally:
            errors = [done.get() for _ in self._inboxes]
        for error in errors:
            if error is not None:
                raise error


def _work(inbox: SimpleQueue[Order]) -> None:
    while (order := inbox.get()) is not None:
        task, done = order
        try:
            task()
        except BaseException as error:  # handed over to the thread that waits, which raises it
            done.put(error)
        else:
            done.put(None)
        del order, task, done  # an idle thread must keep no buffer alive


def _dismiss(inboxes: Sequence[SimpleQueue[Order]]) -> None:
    for inbox in inboxes:
        inbox.put(None)
