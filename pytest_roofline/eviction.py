"""Cold caches for a kernel: every call starts after a sweep over a buffer larger than the caches.

The sweep is outside the timed span. What remains inside each span is one launch and one drain, so a call that is
short against those (tens of microseconds on a GPU) is better measured by rotating `inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_roofline.device import Device
from pytest_roofline.errors import MeasurementError
from pytest_roofline.loop import Block, Loop
from pytest_roofline.protocol import Backend, Forced, Kernel
from pytest_roofline.units import format_bytes


class SeparateLoop:
    """A loop whose passes are timed one by one, each from drained to drained, with something untimed before each.

    Serves kernels whose caches are to be cold, and steps that need a reset before every pass.
    """

    def __init__(self, loop: Loop, before: Callable[[], object]) -> None:
        self._loop = loop
        self._before = before
        self.has_reset = loop.has_reset
        self.room = None if loop.has_reset else loop.room

    @property
    def room_left(self) -> int | None:
        """Passes that may still run; without bound where each begins with a reset."""
        return None if self.has_reset else self._loop.room_left

    @property
    def in_all(self) -> int:
        """Passes that ran."""
        return self._loop.in_all

    def drain(self) -> None:
        """Wait for every framework in use."""
        self._loop.drain()

    def run(self, passes: int) -> Block:
        """Time each pass by itself; the sum of their times."""
        host_s = closed_s = 0.0
        forced = Forced()
        for _ in range(passes):
            self._before()
            block = self._loop.run(1)
            host_s += block.host_s
            closed_s += block.closed_s
            forced = block.forced
        return Block(passes=passes, first_pass=0, host_s=host_s, closed_s=closed_s, forced=forced)


def cold_loop(loop: Loop, device: Device, backends: Sequence[Backend], evicted_bytes: float) -> SeparateLoop:
    """Before each pass, sweep over a buffer of that size, so that the caches are full of it."""
    backend, sweep = _sweeper(device, backends, evicted_bytes)

    def evict() -> None:
        sweep.launch()
        backend.drain()

    return SeparateLoop(loop, evict)


def _sweeper(device: Device, backends: Sequence[Backend], evicted_bytes: float) -> tuple[Backend, Kernel]:
    """A read kernel over at least that many bytes, of the first backend that has one."""
    for backend in backends:
        try:
            kernels = backend.kernels(device, "read", evicted_bytes)
        except MemoryError:
            continue
        if kernels:
            return backend, kernels[0]
    raise MeasurementError(
        f"the caches of {device.id} cannot be evicted: no memory for a buffer of {format_bytes(evicted_bytes)}; "
        "free some, or judge against the cache with cache='hot'"
    )


def rotated_bytes(inputs: Any, call_bytes: float) -> float | None:
    """Distinct bytes of a whole turn through `inputs`; None when they are not a sequence of several."""
    if inputs is None or callable(inputs):
        return None
    try:
        count = len(inputs)
    except TypeError:
        return None
    return count * call_bytes if count > 1 else None
