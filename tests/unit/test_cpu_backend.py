"""The bare processor as a device: what its kernels count, and what is left where a system offers less."""

from __future__ import annotations

import gc
import mmap
import os
import threading
from array import array
from pathlib import Path

import pytest

from pytest_roofline.backends import cpu_kernels, libc
from pytest_roofline.backends.arena import Arena
from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.backends.crew import Crew
from pytest_roofline.backends.libc import ABSENT, PAGE_BYTES, Library, plain_range, shared_range, stretched_range
from pytest_roofline.device import Pattern
from pytest_roofline.errors import MeasurementError, RooflineUsageError
from pytest_roofline.protocol import Backend, Forced

MIB = 2**20


def test_it_is_a_backend() -> None:
    """It has every verb of the protocol, and the one device that every process has."""
    backend = CpuBackend()
    assert isinstance(backend, Backend)
    (device,) = backend.devices()
    assert device.id == "cpu"
    assert device.key == f"cpu-{device.name}"
    assert device.compute_units == backend.threads(device) >= 1
    assert backend.free_memory_bytes(device) > 0
    assert backend.conditions(device).threads == backend.threads(device)
    assert backend.clock() <= backend.clock()
    backend.prepare()
    assert backend.mark() is None  # preparing left nothing pending


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("pattern", "size"), [("read", MIB), ("read", 40 * MIB), ("copy", MIB), ("write", MIB)])
def test_kernels_count_what_they_move(pattern: Pattern, size: int, threads: int) -> None:
    """The working set is the one that was asked for, in whole pages.

    A launch runs and moves at least that much.
    """
    backend = CpuBackend(threads=threads)
    kernels = backend.kernels(backend.devices()[0], pattern, size)
    assert kernels
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    for kernel in kernels:
        assert size - 2 * threads * PAGE_BYTES <= kernel.working_set_bytes <= size
        assert kernel.bytes_per_launch >= kernel.working_set_bytes
        kernel.launch()


def test_no_triad_without_a_framework() -> None:
    """A C library adds no two arrays."""
    backend = CpuBackend()
    assert list(backend.kernels(backend.devices()[0], "triad", MIB)) == []


def arena(backend: CpuBackend, source_bytes: int, target_bytes: int) -> Arena:
    """Filled to these sizes."""
    made = backend.make_arena(backend.devices()[0], source_bytes, target_bytes)
    made.fill(source_bytes, target_bytes)
    return made


def test_kernels_are_views_of_the_arena() -> None:
    """Another size or pattern needs no memory, and no set is larger than the arena has room for."""
    backend = CpuBackend(threads=2)
    memory = arena(backend, 16 * MIB, 8 * MIB)
    for pattern, room in (("read", 16), ("copy", 16), ("write", 8)):
        for kernel in backend.kernels_in(memory, pattern, 64 * MIB):  # type: ignore[arg-type]
            assert kernel.working_set_bytes == room * MIB or "streaming" in kernel.name
        for kernel in backend.kernels_in(memory, pattern, 2 * MIB):  # type: ignore[arg-type]
            assert kernel.working_set_bytes == 2 * MIB or "streaming" in kernel.name
            kernel.launch()


@pytest.mark.parametrize("working_set_bytes", [1, MIB // 2, 3 * MIB, 7 * MIB, 15 * MIB, 16 * MIB])
@pytest.mark.parametrize("threads", [1, 3])
def test_reads_of_every_size_find_equal_parts_and_no_absent_byte(working_set_bytes: int, threads: int) -> None:
    """A comparison and a search both go to the end: the parts are whole periods of the data apart."""
    backend = CpuBackend(threads=threads)
    memory = arena(backend, 16 * MIB, 2 * MIB)
    kernels = backend.kernels_in(memory, "read", working_set_bytes)
    assert "memcmp" in {kernel.name for kernel in kernels}
    for kernel in kernels:
        kernel.launch()


def test_a_read_notices_that_its_data_was_overwritten() -> None:
    """A scan that stops early would look infinitely fast: it raises instead."""
    backend = CpuBackend(threads=1)
    memory = arena(backend, 16 * MIB, 2 * MIB)
    kernels = backend.kernels_in(memory, "read", 8 * MIB)
    memory.source.memory.write(3 * MIB, bytes([ABSENT]), 1)
    for kernel in kernels:
        with pytest.raises(MeasurementError, match="overwritten"):
            kernel.launch()


def test_copies_arrive() -> None:
    """After a launch the target holds the source."""
    backend = CpuBackend(threads=2)
    memory = arena(backend, 4 * MIB, 4 * MIB)
    libc.ctypes.memset(memory.target.address, 7, 4 * MIB)
    copy = next(kernel for kernel in backend.kernels_in(memory, "copy", 8 * MIB) if kernel.name == "memmove")
    copy.launch()
    assert Library().memcmp(memory.source.address, memory.target.address, 4 * MIB) == 0  # type: ignore[misc]


def with_threshold(monkeypatch: pytest.MonkeyPatch, threshold: int | None, threads: int) -> CpuBackend:
    """A processor on which a call of so many bytes streams."""
    monkeypatch.setattr(cpu_kernels, "streaming_threshold_bytes", lambda root: threshold)
    return CpuBackend(threads=threads)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs a memory file")
def test_streaming_kernels_exist_where_the_library_has_a_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a threshold of 32 MiB a call is made longer than that, over 2 MiB of memory per thread."""
    backend = with_threshold(monkeypatch, 32 * MIB, 2)
    memory = arena(backend, 4 * MIB, 4 * MIB)
    assert memory.is_stretchable
    copy = {kernel.name: kernel for kernel in backend.kernels_in(memory, "copy", 8 * MIB)}
    assert set(copy) == {"memmove", "memmove-streaming"}
    assert copy["memmove-streaming"].bytes_per_launch >= 2 * 2 * 32 * MIB
    assert copy["memmove-streaming"].working_set_bytes == 4 * MIB
    copy["memmove-streaming"].launch()
    write = {kernel.name: kernel for kernel in backend.kernels_in(memory, "write", 4 * MIB)}
    assert set(write) == {"memset", "memmove-streaming"}
    assert write["memmove-streaming"].bytes_per_launch >= 2 * 32 * MIB
    write["memmove-streaming"].launch()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs a memory file")
def test_a_long_call_streams_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a threshold below a thread's share there is nothing to stretch."""
    backend = with_threshold(monkeypatch, MIB, 2)
    memory = arena(backend, 8 * MIB, 8 * MIB)
    assert not memory.is_stretchable
    assert [kernel.name for kernel in backend.kernels_in(memory, "copy", 16 * MIB)] == ["memmove"]
    write = {kernel.name: kernel for kernel in backend.kernels_in(memory, "write", 8 * MIB)}
    assert set(write) == {"memset", "memmove-streaming"}
    assert write["memmove-streaming"].bytes_per_launch == 8 * MIB
    write["memmove-streaming"].launch()


@pytest.mark.parametrize("threshold", [None, 2**40])
def test_without_a_threshold_there_are_plain_kernels_alone(
    monkeypatch: pytest.MonkeyPatch, threshold: int | None
) -> None:
    """A C library that does not say, or somebody who set it out of reach."""
    backend = with_threshold(monkeypatch, threshold, 2)
    memory = arena(backend, 2 * MIB, 2 * MIB)
    assert not memory.is_stretchable
    assert [kernel.name for kernel in backend.kernels_in(memory, "copy", MIB)] == ["memmove"]
    assert [kernel.name for kernel in backend.kernels_in(memory, "write", MIB)] == ["memset"]


def test_a_system_without_memory_files_loses_the_streaming_kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and Windows: no memfd, no MADV_HUGEPAGE, no affinity, no load average, no /proc."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    monkeypatch.delattr(mmap, "MAP_PRIVATE", raising=False)
    backend = CpuBackend(root=Path("/nonexistent"))
    (device,) = backend.devices()
    assert device.name
    assert device.last_level_cache_bytes is None or device.last_level_cache_bytes > 0
    assert backend.free_memory_bytes(device) > 0
    assert backend.conditions(device).load_average is None
    for pattern in ("read", "copy", "write"):
        kernels = backend.kernels(device, pattern, MIB)
        assert kernels
        assert not any("streaming" in kernel.name for kernel in kernels)
        for kernel in kernels:
            kernel.launch()


def test_a_library_that_lacks_a_function_loses_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """`memrchr` is a GNU extension: without it the other reads remain."""
    original = Library._function

    def without(self: Library, name: str, *types: object) -> object:
        return None if name in ("memrchr", "memset") else original(self, name, *types)

    monkeypatch.setattr(Library, "_function", without)
    backend = CpuBackend(threads=1)
    device = backend.devices()[0]
    assert [kernel.name for kernel in backend.kernels(device, "read", MIB)] == ["memchr", "memcmp"]
    assert not any(kernel.name == "memset" for kernel in backend.kernels(device, "write", MIB))


def test_memory_that_cannot_be_had_is_a_memory_error() -> None:
    """An absurd size does not come back as an OSError from somewhere below."""
    with pytest.raises(MemoryError, match="could not be mapped"):
        plain_range(2**62)


def test_a_stretched_range_is_the_same_memory_again_and_again() -> None:
    """A byte written at the start appears one length later, and half a length on where it begins in the middle."""
    library, memory = Library(), shared_range(3 * PAGE_BYTES)
    size = 2 * PAGE_BYTES
    straight = stretched_range(library, memory, size, 5 * PAGE_BYTES, start=PAGE_BYTES)
    turned = stretched_range(library, memory, size, 5 * PAGE_BYTES, start=PAGE_BYTES, turn=PAGE_BYTES)
    if memory is None or straight is None or turned is None:
        pytest.skip("this system maps no memory file")
    assert straight.length == turned.length == 6 * PAGE_BYTES
    assert straight.physical_bytes == size
    straight.write(0, b"\x07", 1)
    for address in (memory.address + PAGE_BYTES, straight.address + size, turned.address + PAGE_BYTES):
        assert libc.ctypes.string_at(address, 1) == b"\x07"


def test_threads_can_be_fixed() -> None:
    """A one-thread ruler for a one-thread framework; nonsense is refused."""
    backend = CpuBackend()
    device = backend.devices()[0]
    assert backend.with_threads(5).threads(device) == 5
    assert backend.with_threads(backend.threads(device)) is backend
    with pytest.raises(RooflineUsageError, match="threads is 0"):
        CpuBackend(threads=0)


def test_verbs_that_a_processor_does_not_need() -> None:
    """Nothing is pending, lazy or traced; plain memory of Python is here, anything else is not ours."""
    backend = CpuBackend()
    backend.drain()
    backend.submit(object())
    assert backend.has_context()
    assert backend.mark() is None
    assert backend.force(object()) == Forced()
    assert backend.device_of(bytearray(4)) == "cpu"
    assert backend.device_of([object(), array("f", [1.0])]) == "cpu"
    assert backend.device_of(memoryview(b"abc")) == "cpu"
    assert backend.device_of(object()) is None
    assert backend.device_of([]) is None


def test_no_matmul_without_a_framework() -> None:
    """The message says what to install."""
    backend = CpuBackend()
    with pytest.raises(RooflineUsageError, match=r"pip install 'pytest-roofline\[torch\]'"):
        backend.matmul(backend.devices()[0], "float32", 128)


def test_another_number_of_threads_asks_the_system_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding the threshold starts a process: a ruler with its own threads must not."""
    asked: list[Path] = []
    monkeypatch.setattr(cpu_kernels, "streaming_threshold_bytes", asked.append)
    backend = CpuBackend(threads=2)
    memory = arena(backend, 2 * MIB, 2 * MIB)
    assert list(backend.with_threads(1).kernels_in(memory, "read", MIB))
    assert len(asked) == 1


# -- the crew


def test_a_crew_runs_one_task_per_thread_at_the_same_time() -> None:
    """All of them meet at a barrier, so none waits for another to end; the caller is one of them."""
    crew = Crew(3)
    barrier = threading.Barrier(3, timeout=10)
    seen: list[int] = []

    def task() -> None:
        barrier.wait()
        seen.append(threading.get_ident())

    crew.run([task] * 3)
    assert len(set(seen)) == 3
    assert threading.get_ident() in seen


def test_an_error_of_any_thread_reaches_the_caller() -> None:
    """And the crew works on afterwards."""
    crew = Crew(2)

    def broken() -> None:
        raise MeasurementError("broken")

    for tasks in ([lambda: None, broken], [broken, lambda: None]):
        with pytest.raises(MeasurementError, match="broken"):
            crew.run(tasks)
    crew.run([lambda: None] * 2)


def test_a_crew_that_nobody_holds_ends_its_threads() -> None:
    """No thread outlives the crew by more than its last task."""
    crew = Crew(2)
    (worker,) = [thread for thread in threading.enumerate() if thread.name == "roofline-crew-1"][-1:]
    del crew
    gc.collect()
    worker.join(timeout=10)
    assert not worker.is_alive()
