"""The timer that pytest-timeout runs for a test: it stands still while the test waits for a device.

That somebody else measures on it is no fault of the test, and the wait has a bound of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAME = "roofline-timers"
"""What the one of a run is called among its plugins; there is none without pytest-timeout."""


class Timers:
    """Knows the timer that is running, by the hooks that pytest-timeout has for those who make timers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._running: tuple[pytest.Item, Any, int] | None = None

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        """It is about to be set."""
        self._running = (item, settings, threading.get_ident())

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> None:
        """It is about to be stopped."""
        self._running = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No timer runs meanwhile; behind it the test has its whole time again.

        Only for the thread that set the timer: a signal can be stopped and set by the main thread alone.
        """
        running = self._running
        if running is None or running[2] != threading.get_ident():
            yield
            return
        item, settings, _ = running
        self._config.hook.pytest_timeout_cancel_timer(item=item)
        try:
            yield
        finally:
            self._config.hook.pytest_timeout_set_timer(item=item, settings=settings)
