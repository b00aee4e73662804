"""The processor as a device that every process has: no framework is needed to measure it.

Its kernels are functions of the C library, run by one thread per core (`cpu_kernels`). On a system or a C
library that lacks one of them there are fewer kernels, and on one without any the list is empty.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_roofline.backends import cpu_facts
from pytest_roofline.backends.arena import USUAL_TARGET_BYTES, Arena
from pytest_roofline.backends.cpu_conditions import cpu_conditions
from pytest_roofline.backends.cpu_kernels import CpuKernels, Streaming
from pytest_roofline.backends.libc import PAGE_BYTES, Library
from pytest_roofline.backends.private_clock import clock as _perf_counter
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Conditions, Forced, Kernel, Marker, Trace, TraceRequest

_DEFAULT_FREE_BYTES = float(2**31)
"""Where no source tells how much memory is free."""
_MEMORY_TYPES = (mmap.mmap, bytearray, memoryview, array)


class CpuBackend:
    """The bare processor; `threads` fixes the size of its crew, by default every core of this process.

    Not counted anywhere: the reads that a plain store causes (write-allocate).
    """

    name = "cpu"
    is_lazy = False
    is_marker_complete = True

    def __init__(self, *, threads: int | None = None, root: Path = cpu_facts.ROOT) -> None:
        if threads is not None and threads < 1:
            raise RooflineUsageError(f"threads is {threads}; a CPU needs 1 or more")
        self._threads = threads
        self._root = root
        self._streaming: Streaming | None = None
        self._makers: CpuKernels | None = None
        self._devices: dict[tuple[int, ...], Device] = {}

    def with_threads(self, threads: int) -> CpuBackend:
        """The same processor with a crew of another size.

        The ruler of a framework that runs so many threads.
        """
        if threads == self._size:
            return self
        other = CpuBackend(threads=threads, root=self._root)
        other._streaming = self._streams()  # asking the system for it starts a process
        return other

    def devices(self) -> Sequence[Device]:
        """One device, ``cpu``. Its facts are read once for each affinity of this process: they are many small files."""
        root, affinity = self._root, cpu_facts.usable_cpus()
        if affinity not in self._devices:
            self._devices[affinity] = Device(
                name=cpu_facts.model_name(root),
                kind="cpu",
                backend=self.name,
                vendor=cpu_facts.vendor(root),
                memory_bytes=cpu_facts.memory_bytes(root),
                is_unified_memory=True,
                last_level_cache_bytes=cpu_facts.last_level_cache_bytes(root),
                compute_units=cpu_facts.core_count(root),
            )
        return [self._devices[affinity]]

    def clock(self) -> float:
        """Seconds on the private monotonic clock."""
        return _perf_counter()

    def threads(self, device: Device) -> int:
        """Threads that a launch uses."""
        return self._size

    def free_memory_bytes(self, device: Device) -> float:
        """Available memory, or the room under the cgroup's limit where that is less."""
        free = cpu_facts.free_memory_bytes(self._root)
        return _DEFAULT_FREE_BYTES if free is None else free

    def conditions(self, device: Device) -> Conditions:
        """Clock, load, steal, quota and threads; see `cpu_conditions`."""
        return cpu_conditions(self._size, self._root)

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Every kernel for the pattern in an arena of its own; raises MemoryError when that does not fit.

        A working set is whole pages per thread; a small one is gone through many times within one launch.
        """
        source, target = {"read": (1.0, 0.0), "copy": (0.5, 0.5), "write": (0.0, 1.0), "triad": (0.0, 0.0)}[pattern]
        # A page per thread and part is the least that a kernel takes.
        least = 4.0 * self._size * PAGE_BYTES
        source, target = (max(least, part * working_set_bytes) for part in (source, target))
        arena = self.make_arena(device, source, target)
        arena.fill(source, target)
        return self.kernels_in(arena, pattern, working_set_bytes)

    def make_arena(self, device: Device, source_bytes: float, target_bytes: float) -> Arena:
        """An arena that every thread fills a part of; its target is stretchable where that makes stores stream."""
        streams = self._streams()
        usual = min(target_bytes, USUAL_TARGET_BYTES)
        return Arena(
            streams.library,
            self._size,
            source_bytes,
            target_bytes,
            is_stretchable=usual / self._size < streams.call_bytes,
        )

    def kernels_in(self, arena: Arena, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Every kernel for the pattern over parts of the arena."""
        makers = self._makers
        if makers is None or not makers.crew.is_here or makers.crew.size != self._size:
            makers = self._makers = CpuKernels(self._size, self._streams())
        return makers.make(arena, pattern, working_set_bytes)

    def _streams(self) -> Streaming:
        if self._streaming is None:
            self._streaming = Streaming(Library(), self._root)
        return self._streaming

    @property
    def _size(self) -> int:
        return self._threads or cpu_facts.core_count(self._root)

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """No C library multiplies matrices: always a usage error that says what to install."""
        raise RooflineUsageError(
            f"the peak of {device.id} for {dtype} needs a framework that multiplies matrices: "
            "pip install 'pytest-roofline[torch]'"
        )

    def has_context(self) -> bool:
        """A process always has its processor."""
        return True

    def prepare(self) -> None:
        """Nothing: what a drain, a mark and a trace need here is plain Python, imported with this room."""

    def drain(self) -> None:
        """Nothing: a call to the C library has finished when it returns."""

    def submit(self, output: Any) -> None:
        """Nothing: nothing here is lazy."""

    def force(self, output: Any) -> Forced:
        """Nothing to force: plain memory holds what was written to it."""
        return Forced()

    def mark(self) -> Marker | None:
        """None: nothing can be pending."""
        return None

    def device_of(self, obj: Any) -> str | None:
        """``cpu`` for plain memory of Python (or a list of it), else None."""
        if isinstance(obj, (list, tuple)):
            return next((found for found in map(self.device_of, obj) if found is not None), None)
        return "cpu" if isinstance(obj, _MEMORY_TYPES) else None

    def trace(self, request: TraceRequest) -> Trace | None:
        """None: without a framework there is nothing to look into."""
        return None
