"""What the C library of this process does at memory speed, and memory to do it in: no framework, no compiler.

`ctypes` releases the interpreter lock around a call, so one long call per thread runs on every core at once.
What reads, copies and writes is in every C library: `memchr` looks for a byte that is absent, `memcmp`
compares two equal buffers, `memmove` copies, `memset` fills.

Stores that bypass the cache need a trick. The x86 `memmove` of glibc uses them only when one call is longer
than a threshold (3/4 of the cache per thread, or of what a virtual machine claims to have). So a shorter call is
*stretched*: the same physical pages are mapped again and again into one long range of addresses. A copy then
runs over its buffer several times within one call; a streaming write is a copy whose source pages are so few
that they stay in cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import finalize

ABSENT = 0
"""The byte value that no buffer contains."""
PAGE_BYTES = mmap.ALLOCATIONGRANULARITY
_HUGE_BYTES = 2**21
# The standard library has no names for them on every Python we support. These are their values on Linux for
# x86 and ARM, the only places where they are used: the code that needs them also needs `memfd_create`.
_MAP_FIXED = 0x10
_MAP_POPULATE = 0x8000  # all pages at once instead of one fault for each


class Library:
    """The functions of the C library of this process; a missing one is None."""

    def __init__(self) -> None:
        pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self._library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
        self.memchr = self._function("memchr", pointer, pointer, integer, size)
        self.memrchr = self._function("memrchr", pointer, pointer, integer, size)
        self.memcmp = self._function("memcmp", integer, pointer, pointer, size)
        self.memmove = self._function("memmove", pointer, pointer, pointer, size)
        self.memset = self._function("memset", pointer, pointer, integer, size)
        self.mmap = self._function("mmap", pointer, pointer, size, integer, integer, integer, ctypes.c_ssize_t)

    def _function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any] | None:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return None
        function.restype = result
        function.argtypes = arguments
        return function  # type: ignore[no-any-return]


def streaming_threshold_bytes(root: Path = Path("/")) -> int | None:
    """The length of a call from which `memmove` bypasses the cache; None where this C library does not say.

    Asks the dynamic loader that this process runs under; only glibc on x86 answers.
    """
    try:
        lines = (root / "proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        fields = (line.split(None, 5) for line in lines)
        loaders = {words[5] for words in fields if len(words) == 6 and Path(words[5]).name.startswith("ld-linux")}
        for loader in sorted(loaders):
            answer = subprocess.run([loader, "--list-tunables"], capture_output=True, text=True, timeout=5, check=False)
            for line in answer.stdout.splitlines():
                if line.startswith("glibc.cpu.x86_non_temporal_threshold:"):
                    return int(line.split()[1], 16)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None  # no /proc, another C library, or a sandbox that starts no processes: plain calls only
    return None


class Range:
    """A range of addresses, valid as long as this object lives.

    `physical_bytes` of memory lie behind `length`. `mapping` holds it from `offset` on. `descriptor` is the memory
    file behind it where there is one; the range closes it.
    """

    def __init__(
        self, mapping: mmap.mmap, length: int, physical_bytes: int, *, offset: int = 0, descriptor: int | None = None
    ) -> None:
        self.mapping = mapping
        self.length = length
        self.physical_bytes = physical_bytes
        self.offset = offset
        self.descriptor = descriptor
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(mapping)) + offset
        if descriptor is not None:
            finalize(self, os.close, descriptor)

    def write(self, offset: int, data: bytes, length: int) -> None:
        """Put the first `length` bytes of the data there; the thread that does it first owns the memory."""
        ctypes.memmove(self.address + offset, data, length)

    def give_back(self, start: int) -> None:
        """Let the system have what lies after so many bytes (whole pages); it reads as zeros from then on."""
        self.mapping.madvise(mmap.MADV_DONTNEED, self.offset + start, self.length - start)


def plain_range(length: int) -> Range:
    """Private anonymous memory from a multiple of 2 MiB on, in huge pages where the system has them.

    MemoryError when it cannot be had.
    """
    mapping = _anonymous(length + _HUGE_BYTES)
    _ask_for_huge_pages(mapping)
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    return Range(mapping, length, length, offset=-start % _HUGE_BYTES)


def shared_range(length: int) -> Range | None:
    """Memory in a memory file, which can be mapped a second time; None where the system has none. Linux alone."""
    if not hasattr(os, "memfd_create"):
        return None
    descriptor = None
    try:
        descriptor = os.memfd_create("roofline")
        os.ftruncate(descriptor, length)
        mapping = mmap.mmap(descriptor, length)
    except (OSError, ValueError, OverflowError):
        if descriptor is not None:
            os.close(descriptor)
        return None
    _ask_for_huge_pages(mapping)
    return Range(mapping, length, length, descriptor=descriptor)


def stretched_range(
    library: Library, memory: Range | None, physical_bytes: int, length: int, *, start: int = 0, turn: int = 0
) -> Range | None:
    """At least `length` bytes of addresses over the same `physical_bytes` of a shared range, again and again.

    They begin at `start` of it, and the first round at `turn` within them (all of them whole pages). None where this
    is not to be had.
    """
    if library.mmap is None or memory is None or memory.descriptor is None:
        return None
    rounds = -(-length // physical_bytes)
    parts = [(turn, physical_bytes - turn), *([(0, turn)] if turn else [])]
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED | _MAP_POPULATE
    try:
        whole = Range(_anonymous(rounds * physical_bytes), rounds * physical_bytes, physical_bytes)
    except MemoryError:
        return None
    address = whole.address
    for offset, size in parts * rounds:
        if library.mmap(address, size, protection, flags, memory.descriptor, start + offset) != address:
            return None
        address += size
    return whole


def _ask_for_huge_pages(mapping: mmap.mmap) -> None:
    if hasattr(mapping, "madvise") and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system built without huge pages, or without them for shared memory: small ones
            mapping.madvise(mmap.MADV_HUGEPAGE)


def _anonymous(length: int) -> mmap.mmap:
    try:
        if hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS"):
            return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return mmap.mmap(-1, length)
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError(f"{length} bytes could not be mapped: {error}") from error
