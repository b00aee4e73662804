"""The clock behind every backend cannot be reached by a test."""

from __future__ import annotations

import subprocess
import sys

from pytest_roofline.backends.private_clock import clock


def test_it_advances_and_never_goes_back() -> None:
    """Readings are ordered."""
    readings = [clock() for _ in range(100)]
    assert readings == sorted(readings)
    assert readings[-1] > readings[0]


def test_a_patch_that_came_first_is_not_believed() -> None:
    """A `time.perf_counter` that was replaced before the first backend was imported is not the private clock."""
    program = (
        "import time\n"
        "time.perf_counter = lambda: 42.0\n"
        "from pytest_roofline.backends.private_clock import clock\n"
        "from pytest_roofline.backends.cpu import CpuBackend\n"
        "assert clock() != 42.0 and CpuBackend().clock() != 42.0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_it_is_the_interpreters_own_counter() -> None:
    """It counts from the same origin as an unpatched `time.perf_counter`."""
    import time

    assert abs(clock() - time.perf_counter()) < 1.0
