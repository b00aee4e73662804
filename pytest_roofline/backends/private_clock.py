"""The clock that nobody else can reach: `clock()` gives monotonic seconds.

Backends are imported late, and by then a test may have put something else in place of `time.perf_counter`. So the
function is taken from a copy of the `time` module of our own, made from the interpreter's built-in one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.machinery import BuiltinImporter
from importlib.util import module_from_spec


def _private_perf_counter() -> Callable[[], float]:
    spec = BuiltinImporter.find_spec("time")
    if spec is None or spec.loader is None:  # an interpreter that keeps `time` elsewhere
        return time.perf_counter
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    counter: Callable[[], float] = module.perf_counter
    return counter


clock = _private_perf_counter()
