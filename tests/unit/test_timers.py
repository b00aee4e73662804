"""The timer of pytest-timeout: who may stop it while a device is waited for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_roofline.timers import Timers


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["its thread", "another"])
def test_only_the_thread_that_set_the_timer_stops_it(is_elsewhere: bool) -> None:
    """Elsewhere it runs on: no other thread than the main one may stop or set a signal."""
    calls: list[str] = []
    hook = SimpleNamespace(
        pytest_timeout_cancel_timer=lambda item: calls.append(f"stop {item}"),
        pytest_timeout_set_timer=lambda item, settings: calls.append(f"set {item} {settings}"),
    )
    config: Any = SimpleNamespace(hook=hook)
    item: Any = "test_waits"
    timers = Timers(config)
    timers.pytest_timeout_set_timer(item, "300 s")

    def wait() -> None:
        with timers.paused():
            calls.append("waits")

    thread = threading.Thread(target=wait) if is_elsewhere else None
    if thread is None:
        wait()
    else:
        thread.start()
        thread.join()
    assert calls == (["waits"] if is_elsewhere else ["stop test_waits", "waits", "set test_waits 300 s"])
    timers.pytest_timeout_cancel_timer(item)
    calls.clear()
    wait()
    assert calls == ["waits"]
