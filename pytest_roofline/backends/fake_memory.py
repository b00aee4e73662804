"""The memory of a fake device: buffers, and a cache that decides which of their bytes come from where.

Every access is a scan of the first n bytes of a buffer, in order. With that, least-recently-used replacement
has an exact solution that needs no cache lines: a byte hits if at most `cache_bytes` distinct bytes were
touched since it was touched last, itself included; and for scans that is the same number for every byte of a
segment.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, get_args

from pytest_roofline.errors import RooflineUsageError

Data = Literal["random", "predictable", "constant", "untouched"]
"""What a buffer holds. Only a device with `compresses=True` can tell the first three apart."""
CachePolicy = Literal["lru", "best"]
Role = Literal["weights", "kv", "scratch", "data"]
"""What a buffer is for, as a trace reports it: `scratch` holds intermediates and is no compulsory traffic."""

_ENTROPY: tuple[tuple[str, float], ...] = (("random", 1.0), ("predictable", 1 / 3), ("constant", 1 / 4))


_NOBODY = 0
"""Key of data that is in no buffer."""


class FakeBuffer:
    """Device memory; made by `FakeBackend.buffer`, freed by `free()` or when nobody holds it any more.

    `data="untouched"` is memory that was never written: its pages are one zero page, and it reads at the rate
    of the cache. The first launch that writes to it makes it ordinary memory.
    """

    __slots__ = ("__weakref__", "_memory", "data", "device_index", "key", "name", "role", "size_bytes")

    def __init__(
        self, memory: DeviceMemory, device_index: int, size_bytes: float, data: Data, role: Role, name: str
    ) -> None:
        self._memory: DeviceMemory | None = None
        if data not in get_args(Data):
            raise RooflineUsageError(f"buffer: data is {data!r}; known are {', '.join(get_args(Data))}")
        if role not in get_args(Role):
            raise RooflineUsageError(f"buffer: role is {role!r}; known are {', '.join(get_args(Role))}")
        self.key = memory.take(size_bytes)
        self._memory = memory
        self.device_index = device_index
        self.size_bytes = size_bytes
        self.data: Data = data
        self.role: Role = role
        self.name = name

    @property
    def is_freed(self) -> bool:
        """Whether the memory was given back; a freed buffer can be neither read nor written."""
        return self._memory is None

    @property
    def entropy(self) -> float:
        """Share of its bytes that a compressing device has to move."""
        return dict(_ENTROPY).get(self.data, 1.0)

    def free(self) -> None:
        """Give the memory back; a second call does nothing."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.give(self.size_bytes)
            memory.cache.forget(self.key)

    def __del__(self) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"FakeBuffer({self.name!r}, {self.size_bytes:g} bytes, {self.data}, fake:{self.device_index})"


class Cache(Protocol):
    """Which bytes of a scan come from cache; a scan leaves its mark."""

    def scan(self, key: int, length_bytes: float) -> float:
        """Touch the first `length_bytes` of a buffer, in order; how many of them hit."""
        ...

    def stream(self, length_bytes: float) -> None:
        """Touch data that nothing touched before and nothing will again."""
        ...

    def forget(self, key: int) -> None:
        """The buffer is gone, and what it held is free."""
        ...


class LruCache:
    """Least recently used: a loop over more than the cache hits nothing at all, one over less hits always."""

    def __init__(self, cache_bytes: float) -> None:
        self._cache_bytes = cache_bytes
        # Least recent first. Segments of one buffer are disjoint, the more recent ones at lower addresses.
        self._segments: list[tuple[int, float, float]] = []

    def scan(self, key: int, length_bytes: float) -> float:
        """Touch the first `length_bytes` of a buffer, in order; how many of them hit."""
        if length_bytes <= 0:
            return 0.0
        hits = 0.0
        newer_bytes = 0.0
        for owner, low, high in reversed(self._segments):
            newer_bytes += high - low
            # A segment that does not fit behind the newer ones is evicted just ahead of the scan.
            if newer_bytes > self._cache_bytes:
                break
            if owner == key and low < length_bytes:
                hits += min(high, length_bytes) - low
        self._touch(key, length_bytes)
        return hits

    def stream(self, length_bytes: float) -> None:
        """Touch data that nothing touched before and nothing will again."""
        if length_bytes > 0:
            self._touch(_NOBODY, length_bytes)

    def _touch(self, key: int, length_bytes: float) -> None:
        kept: list[tuple[int, float, float]] = []
        total = length_bytes
        for owner, low, high in reversed(self._segments):
            start = max(low, length_bytes) if owner == key != _NOBODY else low
            if start >= high:
                continue
            total += high - start
            if total > self._cache_bytes:
                break
            if owner == _NOBODY and kept and kept[-1][0] == _NOBODY:
                # Nothing ever hits these: neighbours merge, so that a million small ones stay one segment.
                kept[-1] = (_NOBODY, 0.0, kept[-1][2] + high)
            else:
                kept.append((owner, start, high))
        kept.reverse()
        if length_bytes <= self._cache_bytes:
            kept.append((key, 0.0, length_bytes))
        self._segments = kept

    def forget(self, key: int) -> None:
        """The buffer is gone, and what it held is free."""
        self._segments = [segment for segment in self._segments if segment[0] != key]


class BestCache:
    """The kindest cache there can be: of a loop over any set, up to `cache_bytes` hit in every round.

    A buffer keeps what it got first. It loses its place only to a buffer that was read twice while it was not
    read at all, that is, when the loop has moved on to other data.
    """

    def __init__(self, cache_bytes: float) -> None:
        self._cache_bytes = cache_bytes
        self._held: dict[int, float] = {}
        self._touched: dict[int, int] = {}
        self._scans = 0

    def scan(self, key: int, length_bytes: float) -> float:
        """Touch the first `length_bytes` of a buffer, in order; how many of them hit."""
        self._scans += 1
        held = self._held.get(key, 0.0)
        wanted = min(length_bytes, self._cache_bytes)
        if wanted > held:
            free = self._cache_bytes - sum(self._held.values())
            before = self._touched.get(key, 0)
            for other in sorted(self._held, key=lambda owner: self._touched[owner]):
                if free >= wanted - held or self._touched[other] >= before:
                    break
                if other != key:
                    free += self._held.pop(other)
            self._held[key] = min(wanted, held + max(0.0, free))
        self._touched[key] = self._scans
        return min(held, length_bytes)

    def stream(self, length_bytes: float) -> None:
        """Touch data that nothing will touch again: the kindest cache does not keep it."""

    def forget(self, key: int) -> None:
        """The buffer is gone, and what it held is free."""
        self._held.pop(key, None)
        self._touched.pop(key, None)


class DeviceMemory:
    """How much of the memory of one device is taken, and its cache."""

    def __init__(self, memory_bytes: float, cache_bytes: float, policy: CachePolicy) -> None:
        self._memory_bytes = memory_bytes
        self.used_bytes = 0.0
        self._last_key = 0
        self.cache: Cache = LruCache(cache_bytes) if policy == "lru" else BestCache(cache_bytes)

    @property
    def free_bytes(self) -> float:
        """What buffers may still take."""
        return max(0.0, self._memory_bytes - self.used_bytes)

    def take(self, size_bytes: float) -> int:
        """Allocate; a key that no other allocation of this device has. MemoryError when it does not fit."""
        if not (math.isfinite(size_bytes) and size_bytes >= 0):
            raise RooflineUsageError(f"buffer: size is {size_bytes} bytes; it must be a finite number, 0 or more")
        # Sizes may be fractions of a byte (a model divided by its layers): full is full to within a byte.
        if size_bytes > self.free_bytes + 1:
            raise MemoryError(
                f"fake device out of memory: {size_bytes:g} bytes wanted, {self.free_bytes:g} of "
                f"{self._memory_bytes:g} bytes are free"
            )
        self.used_bytes += size_bytes
        self._last_key += 1
        return self._last_key

    def give(self, size_bytes: float) -> None:
        """Free."""
        self.used_bytes -= size_bytes
