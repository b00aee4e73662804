"""The clocks that nobody else can reach: `clock()` gives monotonic seconds, `processor_clock()` this process's own.

Backends are imported late, and by then a test may have put something else in place of `time.perf_counter`. So the
function is taken from a copy of the `time` module of our own, made from the interpreter's built-in one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.machinery import BuiltinImporter
from importlib.util import module_from_spec
from types import ModuleType


def _private_time() -> ModuleType:
    spec = BuiltinImporter.find_spec("time")
    if spec is None or spec.loader is None:  # an interpreter that keeps `time` elsewhere
        return time
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_time = _private_time()
clock: Callable[[], float] = _time.perf_counter
processor_clock: Callable[[], float] = _time.process_time
"""Seconds that the processor spent on all threads of this process."""


def held_up_s() -> float:
    """Seconds that the calling thread has waited for a processor so far; 0 where the system does not say.

    It was ready to run and others ran: what it waited for may have been over all the while.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):  # not Linux, or a kernel that does not count it
        return 0.0
