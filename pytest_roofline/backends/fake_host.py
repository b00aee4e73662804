"""The fake framework as the code under test sees it: launch, wait, time, capture.

Everything happens on a virtual clock, so a test that "runs" for an hour takes milliseconds, and takes the
same ones every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar

from pytest_roofline.backends.fake_array import FakeArray, FakeEvent, FakeGraph
from pytest_roofline.backends.fake_clock import HostClocks, PublicClocks, VirtualClock
from pytest_roofline.backends.fake_compile import FakeCompileLog
from pytest_roofline.backends.fake_device import FakeDevice
from pytest_roofline.backends.fake_memory import Data, FakeBuffer, Role
from pytest_roofline.backends.fake_queue import DEFAULT_STREAM, Launch, Timeline
from pytest_roofline.backends.fake_trace import Recording
from pytest_roofline.backends.fake_weather import Weather, resolve_noise
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Compilation, WatchedEvents

Buffers: TypeAlias = "FakeBuffer | Sequence[FakeBuffer] | None"
T = TypeVar("T")


class FakeHost(HostClocks):
    """The verbs of the fake framework; `FakeBackend` adds those of the tool, and explains the parameters."""

    def __init__(
        self,
        device: FakeDevice | None = None,
        *,
        devices: int | Sequence[FakeDevice] = 1,
        is_lazy: bool = False,
        seed: int = 0,
        start_s: float = 0.0,
        tick_s: float = 25e-9,
        clock_scale: float = 1.0,
        clock_step_s: float = 0.0,
        clock_step_at_s: float | None = None,
        clock_resolution_s: float = 0.0,
        lying_clocks: Sequence[str] | None = None,
        **figures: Any,
    ) -> None:
        if isinstance(devices, int):
            if devices < 1:
                raise RooflineUsageError(f"fake backend: devices is {devices}; it must be 1 or more")
            hardware = [device or FakeDevice()] * devices
        else:
            if device is not None or not devices:
                raise RooflineUsageError("fake backend: give one device with a count, or a list of at least one device")
            hardware = list(devices)
        self._hardware = tuple(one.changed(**figures) for one in hardware)
        self._clock = VirtualClock(start_s, tick_s)
        self._public = PublicClocks(
            self._clock,
            scale=clock_scale,
            step_s=clock_step_s,
            step_at_s=clock_step_at_s,
            resolution_s=clock_resolution_s,
            distorted=lying_clocks,
        )
        self.is_lazy = is_lazy
        self._timelines = tuple(self._timeline(index, one, seed) for index, one in enumerate(self._hardware))
        self._unsubmitted: dict[tuple[int, str], Launch] = {}
        self._capture: list[Launch] | None = None
        self._recording: Recording | None = None
        self._serial = 0
        self._compilations: list[Compilation] = []
        self._suspensions: list[tuple[float, float]] = []

    def _timeline(self, index: int, hardware: FakeDevice, seed: int) -> Timeline:
        random = Random(f"{seed}/{index}")
        weather = Weather(resolve_noise(hardware.noise), hardware.throttle, hardware.neighbours, random)
        return Timeline(hardware, weather, self.now_s, lambda moment_s: self.wait_until(moment_s, index))

    # Work

    def launch(
        self,
        read_bytes: float | None = None,
        write_bytes: float | None = None,
        flops: float = 0.0,
        seconds: float | None = None,
        stream: str | None = None,
        buffer: Buffers = None,
        writes: Buffers = None,
        *,
        device: int = 0,
        dtype: str | None = None,
        efficiency: float = 1.0,
        inputs: Sequence[FakeArray] | None = None,
        is_opaque: bool = False,
        extra: str | None = None,
        value: Any = None,
        size: int = 1,
        is_int: bool = False,
    ) -> FakeArray:
        """Queue one kernel and return the array that it will write, before the device has done anything.

        It takes ``max(bytes / rate, flops / peak) / efficiency`` of device time, times noise, or exactly
        `seconds` (times noise) when that is given. It reads the first `read_bytes` of each `buffer` (default:
        all of it; more than it has: round again) and writes the first `write_bytes` of each buffer in
        `writes`. Without a buffer the bytes are data that nothing else touches, which never comes from cache.
        The host pays `launch_s`, and waits when `queue_depth` launches of this stream are unfinished.

        On a lazy backend this only builds a node of a graph, which depends on the arrays in `inputs`; without
        them, on the launch before it on the same stream that had none either. `is_opaque` hides the launch
        from a trace, `extra` names traffic that a better implementation would not have. `value`, `size` and
        `is_int` describe the array returned.
        """
        if not 0 < efficiency <= 1:
            raise RooflineUsageError(f"launch: efficiency is {efficiency}; it must be over 0 and at most 1")
        for name, figure in (("flops", flops), ("seconds", 0.0 if seconds is None else seconds)):
            if not (math.isfinite(figure) and figure >= 0):
                raise RooflineUsageError(f"launch: {name} is {figure}; it must be a finite number, 0 or more")
        self._require_device(device)
        stream = stream or DEFAULT_STREAM
        launch = Launch(
            device_index=device,
            stream=stream,
            reads=_accesses("read_bytes", buffer, read_bytes, device),
            writes=_accesses("write_bytes", writes, write_bytes, device),
            flops=flops,
            dtype=dtype,
            seconds=seconds,
            efficiency=efficiency,
            is_opaque=is_opaque,
            extra=extra,
            after=tuple(array.launch for array in inputs or () if array.launch is not None),
        )
        if flops:
            self._timelines[device].peak(dtype)
        if self._capture is not None:
            self._capture.append(launch)
            return self._array(launch, device, size, is_int, value)
        self._require_alive(device)
        if self._recording is not None:
            self._recording.launches.append(launch)
        self._clock.advance(self._hardware[device].launch_s)
        if self.is_lazy:
            if inputs is None:
                previous = self._unsubmitted.get((device, stream))
                launch.after = () if previous is None else (previous,)
                self._unsubmitted[(device, stream)] = launch
        else:
            self._enqueue(launch)
        return self._array(launch, device, size, is_int, value)

    def buffer(
        self,
        size_bytes: float,
        *,
        data: Data = "random",
        role: Role = "data",
        name: str = "buffer",
        device: int = 0,
    ) -> FakeBuffer:
        """Allocate device memory, which costs no time; MemoryError when it does not fit.

        `data` is what it holds (``untouched``: never written), `role` what a trace reports it as.
        """
        self._require_device(device)
        self._require_alive(device)
        return FakeBuffer(self._timelines[device].memory, device, size_bytes, data, role, name)

    def array(self, value: Any, *, size: int | None = None, is_int: bool = False, device: int = 0) -> FakeArray:
        """Put data on the device from the host: an array that no launch wrote and that is ready at once."""
        self._require_device(device)
        if size is None:
            size = len(value) if isinstance(value, (list, tuple)) else 1
        return self._array(None, device, size, is_int, value)

    def host(self, seconds: float) -> None:
        """Let the host work for that long: virtual time passes, the device goes on."""
        self._clock.advance(seconds)

    def compile(self, seconds: float, what: str = "step") -> None:
        """Let the host compile for that long; an open compile log notes it, as it notes each graph capture."""
        start_s = self._clock.now_s
        self.host(seconds)
        self._compilations.append(Compilation(what=f"fake compiler ({what})", start_s=start_s, end_s=self._clock.now_s))

    def open_compile_log(self) -> FakeCompileLog:
        """What is compiled from now on."""
        return FakeCompileLog(self._compilations)

    def busy_wait(self, seconds: float) -> None:
        """The same as `host`, for a loop that waits instead of working."""
        self.host(seconds)

    # Waiting

    def synchronize(self, stream: str | None = None, *, device: int = 0) -> None:
        """Wait for one stream of a device, or for all of them: that is, unless the device's `sync_lies` says
        otherwise.

        Only submitted work is waited for: on a lazy backend it proves nothing about arrays that were not
        forced.
        """
        self._require_not_capturing()
        self._require_device(device)
        self._clock.advance(self._hardware[device].sync_s)
        lie = self._hardware[device].sync_lies
        if lie == "early":
            return
        if lie == "wrong-stream":
            stream = DEFAULT_STREAM
        if lie == "wrong-device":
            other = (device + 1) % len(self._timelines)
            if other == device:
                return
            device, stream = other, None
        timeline = self._timelines[device]
        self.wait_until(timeline.idle_s() if stream is None else timeline.tail_s(stream), device)

    def wait_stream(self, stream: str | None, other: str | None, *, device: int = 0) -> None:
        """Let what is queued on `stream` from now on wait for what `other` holds; the host does not wait."""
        self._require_device(device)
        self._timelines[device].join(stream or DEFAULT_STREAM, other or DEFAULT_STREAM)

    def event(self, *, device: int = 0) -> FakeEvent:
        """A time stamp to record on a stream."""
        self._require_device(device)
        return FakeEvent(self, device)

    def graph(self, function: Callable[[], Any]) -> FakeGraph:
        """Call the function once, capturing its launches without running them; `replay()` runs them."""
        self._require_not_capturing()
        if self.is_lazy:
            raise RooflineUsageError("graph: a lazy backend has no graph capture; its launches are a graph already")
        self._capture = []
        start_s = self._clock.now_s
        try:
            outputs = function()
            self._compilations.append(Compilation(what="graph capture", start_s=start_s, end_s=self._clock.now_s))
            return FakeGraph(self, self._capture, outputs)
        finally:
            self._capture = None

    def event_classes(self) -> tuple[WatchedEvents, ...]:
        """The events of this framework, which an audit watches while it lasts."""
        return (WatchedEvents("FakeEvent", FakeEvent, "record", "elapsed_s", 1.0),)

    # Looking on (costs no time, and no real device can do it)

    def now_s(self) -> float:
        """The private clock without the tick of reading it."""
        return self._clock.now_s

    def pending(self, stream: str | None = None, *, device: int | None = None) -> int:
        """Launches that are queued and not done: of one stream or all, of one device or all."""
        timelines = self._timelines if device is None else (self._timelines[device],)
        return sum(
            timeline.pending(one) for timeline in timelines for one in timeline.streams() if stream in (None, one)
        )

    def pending_s(self) -> float:
        """Seconds until everything that is queued is done."""
        return max(0.0, max(timeline.idle_s() for timeline in self._timelines) - self._clock.now_s)

    def busy_s(self, device: int = 0) -> float:
        """Device time of everything that was queued so far."""
        return self._timelines[device].busy_s

    def launches(self, device: int = 0) -> int:
        """Number of launches that were queued so far, those of graphs included."""
        return self._timelines[device].launches

    # What arrays, events and graphs ask for

    def settle(self, launch: Launch) -> None:
        """Submit a launch if nobody has, and wait until it is done."""
        self._require_not_capturing()
        index = launch.device_index
        self._clock.advance(self._hardware[index].sync_s)
        self.run(launch)
        # A captured launch that was never replayed has nothing to wait for: what is read is what lay there.
        self.wait_until(launch.finished_s or 0.0, index)

    def run(self, launch: Launch) -> None:
        """Submit a lazy launch and everything it depends on, without waiting."""
        if not self.is_lazy:
            return
        stack = [launch]
        while stack:
            node = stack[-1]
            needed = [one for one in node.after if one.finished_s is None]
            if node.finished_s is None and needed:
                stack.extend(needed)
                continue
            stack.pop()
            if node.finished_s is None:
                self._enqueue(node)
                key = (node.device_index, node.stream)
                if self._unsubmitted.get(key) is node:
                    del self._unsubmitted[key]

    def tail_s(self, stream: str, device: int) -> float:
        """When what is queued on a stream is done, or now."""
        return max(self._clock.now_s, self._timelines[device].tail_s(stream))

    def wait_until(self, moment_s: float, device: int) -> None:
        """Let virtual time pass until the device gets there; RuntimeError when it is lost before."""
        lost_at_s = self._hardware[device].lost_at_s
        if lost_at_s is not None and max(moment_s, self._clock.now_s) >= lost_at_s:
            self._clock.advance_to(lost_at_s)
            self._require_alive(device)
        self._clock.advance_to(moment_s)

    def event_figures(self, device: int) -> tuple[float, bool]:
        """Scale of event times, and whether they are taken at enqueue."""
        return self._hardware[device].event_scale, self._hardware[device].event_at_enqueue

    def replay(self, graph: FakeGraph) -> None:
        """Run every launch of a graph for the host cost, and one slot of the queue, of one."""
        self._require_not_capturing()
        if not graph.launches:
            return
        last = graph.launches[-1]
        self._require_alive(last.device_index)
        if self._recording is not None:
            self._recording.replays += 1
        self._clock.advance(self._hardware[last.device_index].launch_s)
        self._timelines[last.device_index].wait_for_slot(last.stream)
        for launch in graph.launches:
            self._timelines[launch.device_index].enqueue(launch, takes_slot=launch is last)

    def _enqueue(self, launch: Launch) -> None:
        timeline = self._timelines[launch.device_index]
        timeline.wait_for_slot(launch.stream)
        timeline.enqueue(launch)
        launch.after = ()
        if self._recording is None:
            # The array that this launch writes must not keep alive the buffers that it has read.
            launch.reads = launch.writes = ()

    def _array(self, launch: Launch | None, device: int, size: int, is_int: bool, value: Any) -> FakeArray:
        self._serial += 1
        return FakeArray(self, launch, device, self._serial, size, is_int, value)

    def _require_device(self, device: int) -> None:
        if not 0 <= device < len(self._timelines):
            ids = ", ".join(f"fake:{index}" for index in range(len(self._timelines)))
            raise RooflineUsageError(f"fake backend: no device {device}; there are {ids}")

    def _require_alive(self, device: int) -> None:
        lost_at_s = self._hardware[device].lost_at_s
        if lost_at_s is not None and self._clock.now_s >= lost_at_s:
            raise RuntimeError(f"device lost: fake:{device} at {lost_at_s} s of virtual time")

    def _require_not_capturing(self) -> None:
        if self._capture is not None:
            raise RooflineUsageError("graph capture is under way: nothing can wait or replay inside it")


def _accesses(
    what: str, buffers: Buffers, length_bytes: float | None, device: int
) -> tuple[tuple[FakeBuffer | None, float], ...]:
    if length_bytes is not None and not (math.isfinite(length_bytes) and length_bytes >= 0):
        raise RooflineUsageError(f"launch: {what} is {length_bytes}; it must be a finite number of bytes, 0 or more")
    if buffers is None:
        return ((None, float(length_bytes)),) if length_bytes else ()
    several: Iterable[FakeBuffer] = (buffers,) if isinstance(buffers, FakeBuffer) else buffers
    accesses = []
    for buffer in several:
        if buffer.is_freed:
            raise RuntimeError(f"fake device: {buffer!r} was freed; nothing can read or write it")
        if buffer.device_index != device:
            raise RooflineUsageError(f"launch: {buffer!r} is not on fake:{device}")
        length = buffer.size_bytes if length_bytes is None else float(length_bytes)
        if length > 0 and buffer.size_bytes > 0:
            accesses.append((buffer, length))
    return tuple(accesses)
