"""The timeline of a fake device: what was queued, on which stream, and when each piece of it starts and ends.

Launches of all streams of a device are served in the order in which they were queued, one at a time, each
with the whole bandwidth: two streams that each have work together take exactly as long as one stream that has
all of it. What streams change is who waits for whom: an event, a synchronize or a full queue sees only its
own stream. Because no later launch can change an earlier one, the end of a launch is known, exactly, when it
is queued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytest_roofline.backends.fake_counter import Moved
from pytest_roofline.backends.fake_device import FakeDevice
from pytest_roofline.backends.fake_memory import DeviceMemory, FakeBuffer
from pytest_roofline.backends.fake_weather import Weather
from pytest_roofline.roofline import mixed_bytes_per_s

DEFAULT_STREAM = "default"


@dataclass(slots=True, kw_only=True, eq=False)
class Launch:
    """One piece of work as it was asked for. `finished_s` is None until it is queued on the device."""

    device_index: int
    stream: str
    reads: tuple[tuple[FakeBuffer | None, float], ...] = ()
    """Buffers with the bytes read from the start of each; None is data that nothing else touches."""
    writes: tuple[tuple[FakeBuffer | None, float], ...] = ()
    flops: float = 0.0
    dtype: str | None = None
    seconds: float | None = None
    efficiency: float = 1.0
    is_opaque: bool = False
    extra: str | None = None
    after: tuple[Launch, ...] = ()
    """Work on whose results this one is done; it starts when all of that is done."""
    finished_s: float | None = field(default=None)


class Timeline:
    """One device: its streams and its one engine. Times are seconds of virtual time."""

    def __init__(
        self, hardware: FakeDevice, weather: Weather, now_s: Callable[[], float], wait: Callable[[float], Any]
    ) -> None:
        self.memory = DeviceMemory(hardware.memory_bytes, hardware.cache_bytes, hardware.cache_policy)
        self.weather = weather
        self.busy_s = 0.0
        self.launches = 0
        self.moved = None if hardware.counter is None else Moved(weather, hardware.read_bytes_per_s)
        self._launch_bytes = 0.0
        self._hardware = hardware
        self._rates = hardware.rates
        self._peaks: dict[str | None, float] = {}
        self._now_s = now_s
        self._wait = wait
        self._engine_free_s = now_s()
        self._tails: dict[str, float] = {}
        self._queues: dict[str, deque[float]] = {}

    def wait_for_slot(self, stream: str) -> None:
        """Block the host while the queue of the stream is full."""
        queue = self._queue(stream)
        if len(queue) >= self._hardware.queue_depth:
            self._wait(queue[len(queue) - self._hardware.queue_depth])

    def enqueue(self, launch: Launch, *, takes_slot: bool = True) -> float:
        """Queue a launch that fits; the moment it will be done, which is also noted in the launch."""
        stream = launch.stream
        start_s = max(self._now_s(), self._engine_free_s, self._tails.get(stream, 0.0))
        if launch.after:
            start_s = max(start_s, *(needed.finished_s or 0.0 for needed in launch.after))
        work_s = self._work_s(launch) / launch.efficiency * self.weather.noise(start_s)
        end_s = self.weather.finish_s(start_s, work_s)
        self._engine_free_s = self._tails[stream] = end_s
        self.busy_s += end_s - start_s
        if self.moved is not None:
            self.moved.add(start_s, end_s, self._launch_bytes, self._now_s())
        self.launches += 1
        if takes_slot:
            self._queue(stream).append(end_s)
        launch.finished_s = end_s
        return end_s

    def join(self, stream: str, other: str) -> None:
        """Let what is queued on `stream` from now on wait for what `other` has queued."""
        self._tails[stream] = max(self.tail_s(stream), self.tail_s(other))

    def tail_s(self, stream: str) -> float:
        """When everything queued on one stream is done; in the past for an idle one."""
        return self._tails.get(stream, 0.0)

    def idle_s(self) -> float:
        """When everything queued on any stream is done."""
        return max(self._tails.values(), default=0.0)

    def pending(self, stream: str) -> int:
        """Launches on one stream that are not done now."""
        return len(self._queue(stream))

    def streams(self) -> tuple[str, ...]:
        """Streams that were ever used."""
        return tuple(self._queues)

    def _queue(self, stream: str) -> deque[float]:
        queue = self._queues.get(stream)
        if queue is None:
            queue = self._queues[stream] = deque()
        now_s = self._now_s()
        while queue and queue[0] <= now_s:
            queue.popleft()
        return queue

    def _work_s(self, launch: Launch) -> float:
        if launch.seconds is not None:
            # What it says that it reads, as far as the memory can deliver that in its time.
            said_bytes = sum(length_bytes for _, length_bytes in (*launch.reads, *launch.writes))
            self._launch_bytes = min(said_bytes, launch.seconds * self._rates.read_bytes_per_s)
            return launch.seconds
        hit_bytes = missed_read_bytes = missed_written_bytes = 0.0
        for buffer, length_bytes in launch.reads:
            hits, missed = self._scan(buffer, length_bytes)
            hit_bytes += hits
            missed_read_bytes += missed
        for buffer, length_bytes in launch.writes:
            if buffer is not None and buffer.data == "untouched":
                buffer.data = "random"
            hits, missed = self._scan(buffer, length_bytes)
            hit_bytes += hits
            missed_written_bytes += missed
        memory_s = hit_bytes / (self._rates.read_bytes_per_s * self._hardware.cache_rate_factor)
        missed_bytes = self._launch_bytes = missed_read_bytes + missed_written_bytes
        if missed_written_bytes == 0:
            memory_s += missed_bytes / self._rates.read_bytes_per_s
        elif missed_bytes > 0:
            memory_s += missed_bytes / mixed_bytes_per_s(self._rates, missed_written_bytes / missed_bytes)
        return max(memory_s, launch.flops / self.peak(launch.dtype)) if launch.flops else memory_s

    def peak(self, dtype: str | None) -> float:
        """Peak of one dtype, FLOP/s, as `FakeDevice.peak` has it; remembered, since every launch asks."""
        peak = self._peaks.get(dtype)
        if peak is None:
            peak = self._peaks[dtype] = self._hardware.peak(dtype)
        return peak

    def _scan(self, buffer: FakeBuffer | None, length_bytes: float) -> tuple[float, float]:
        """Bytes from cache and bytes from memory, of one buffer; a length over its size goes round again."""
        cache = self.memory.cache
        if buffer is None:
            cache.stream(length_bytes)
            return 0.0, length_bytes
        if buffer.data == "untouched":
            return length_bytes, 0.0
        once_bytes = min(length_bytes, buffer.size_bytes)
        hits = cache.scan(buffer.key, once_bytes)
        again_bytes = length_bytes - once_bytes
        if again_bytes > 0:
            hits += again_bytes * cache.scan(buffer.key, once_bytes) / once_bytes
        missed = length_bytes - hits
        return hits, missed * buffer.entropy if self._hardware.compresses else missed
