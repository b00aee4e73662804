"""A public fake: an asynchronous accelerator on a virtual clock, to test measuring code without a device.

It has queues, streams, graphs, a cache, lazy evaluation, noise, throttling and neighbours, and it can lie:
with its synchronize, its events, its public clocks. Nothing waits and nothing depends on the machine: the
same calls take the same virtual time, to the last digit, on every run with the same seed. ::

    from pytest_roofline.backends.fake import FakeBackend, FakeModel

    backend = FakeBackend(read_bytes_per_s=1e12)
    model = FakeModel(backend, weight_bytes=2e9, efficiency=0.8)

    start = backend.clock()
    for _ in range(10):
        token = model.step()                 # queued: 2 GB at 80 % of 1 TB/s, 2.5 ms each
    assert backend.clock() - start < 1e-3    # the host has only launched
    backend.synchronize()
    assert 25e-3 < backend.clock() - start < 26e-3

Ways to be fooled, each one keyword away::

    FakeBackend(queue_depth=32)                         # the host runs ahead 32 launches, then keeps pace
    FakeBackend(sync_lies="early")                      # synchronize() returns at once
    FakeBackend(devices=2)                              # synchronize() waits for the default device only
    FakeBackend(is_lazy=True)                           # nothing runs until it is submitted or forced
    FakeBackend(clock_scale=0.5)                        # perf_counter() runs at half speed
    FakeBackend(event_at_enqueue=True)                  # events time the host
    FakeBackend(noise="drift", seed=1)                  # bandwidth halves within minutes
    FakeBackend(throttle=[Throttle(start_s=1, end_s=2, slowdown=3)])
    FakeBackend(state=Conditions(uncorrected_errors=1)) # what its driver tells; a function of time may also raise
    FakeBackend(compresses=True)                        # constant data is faster than memory
    FakeBackend(counter=MemoryCounter(step_percent=1))  # the device counts its own memory traffic, in whole percents
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_roofline.backends.fake_array import FakeArray, FakeEvent, FakeGraph, FakeMarker, arrays_in
from pytest_roofline.backends.fake_counter import FakeCounter, MemoryCounter
from pytest_roofline.backends.fake_device import FakeDevice
from pytest_roofline.backends.fake_generation import FakeGenerationWatch, FakeGenerator
from pytest_roofline.backends.fake_host import FakeHost
from pytest_roofline.backends.fake_links import fake_link_paths
from pytest_roofline.backends.fake_memory import FakeBuffer
from pytest_roofline.backends.fake_model import FakeModel
from pytest_roofline.backends.fake_trace import FakeSurveyor, ModelFacts, Recording, bytes_by_device, traffic_of
from pytest_roofline.backends.fake_weather import (
    Neighbour,
    Noise,
    NoiseTrace,
    Throttle,
    bursts,
    drift,
    gaussian,
    heavy_tail,
    step_change,
)
from pytest_roofline.backends.fake_witness import FakeWitness
from pytest_roofline.device import PATTERNS, Device, Pattern
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.generation import GenerationRequest, GenerationWatch
from pytest_roofline.protocol import HOST, Conditions, Forced, Kernel, LinkPath, Trace, TraceRequest
from pytest_roofline.traffic import Traffic, declared_traffic
from pytest_roofline.witness import Witness

__all__ = [
    "FakeArray",
    "FakeBackend",
    "FakeBuffer",
    "FakeDevice",
    "FakeEvent",
    "FakeGenerator",
    "FakeGraph",
    "FakeModel",
    "MemoryCounter",
    "Neighbour",
    "Noise",
    "NoiseTrace",
    "Throttle",
    "bursts",
    "drift",
    "gaussian",
    "heavy_tail",
    "step_change",
]

_TOP_CLOCK_HZ = 1.5e9
# Buffers read and written: a copy reads half of its working set and writes the other half.
_READ_PARTS: Mapping[Pattern, tuple[int, int]] = {
    "read": (1, 0),
    "write": (0, 1),
    "copy": (1, 1),
    "triad": (2, 1),
}
_KERNELS = (("tuned", 1.0), ("simple", 0.9))


class FakePulse:
    """When the fake host was suspended; see `FakeBackend.suspend`."""

    def __init__(self, gaps: Sequence[tuple[float, float]]) -> None:
        self._gaps = gaps

    def gaps(self) -> Sequence[tuple[float, float]]:
        """All of them, on the virtual clock."""
        return tuple(self._gaps)

    def close(self) -> None:
        """Nothing is held."""


class FakeBackend(FakeHost):
    """An asynchronous accelerator on a virtual clock, as a backend.

    `device` holds the figures of the device, and each of them can be given by its name instead: see
    `FakeDevice`. `devices` is how many of them there are, or a list of different ones. With `is_lazy`,
    launches only build a graph, which runs when it is submitted or forced. `seed` fixes the noise.

    The private clock starts at `start_s` and advances by `tick_s` (25 ns) whenever a clock, private or
    public, is read: reading takes time, and a loop that waits for a deadline ends. The public clocks run at
    `clock_scale`, jump by `clock_step_s` at the moment `clock_step_at_s`, and show multiples of
    `clock_resolution_s`; `lying_clocks` names those that do (default all), the rest tell the truth.
    """

    name = "fake"
    is_marker_complete = True
    is_private = True
    """Its devices exist in this process alone: no other one has to be kept from measuring on them."""

    def devices(self) -> tuple[Device, ...]:
        """Every fake device, in the order of their indices."""
        return tuple(
            Device(
                name=hardware.name,
                kind="fake",
                index=index,
                backend=self.name,
                vendor="fake",
                uuid=f"FAKE-{index}",
                memory_bytes=hardware.memory_bytes,
                is_unified_memory=False,
                last_level_cache_bytes=hardware.cache_bytes,
                driver_bandwidth_bytes_per_s=hardware.datasheet_bytes_per_s,
            )
            for index, hardware in enumerate(self._hardware)
        )

    def clock(self) -> float:
        """Seconds on the private clock, which is never distorted; each reading advances it by `tick_s`."""
        return self._clock.read()

    def threads(self, device: Device) -> int | None:
        """None: threads are no setting of a fake."""
        return None

    def free_memory_bytes(self, device: Device) -> float:
        """Memory that buffers may take now."""
        return self._timelines[device.index].memory.free_bytes

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> tuple[Kernel, ...]:
        """A tuned kernel of full efficiency and a simple one at 90 %, sharing their buffers."""
        if pattern not in _READ_PARTS:
            raise RooflineUsageError(f"kernels: pattern is {pattern!r}; known are {', '.join(PATTERNS)}")
        reads, writes = _READ_PARTS[pattern]
        part_bytes = working_set_bytes / (reads + writes)
        index = device.index
        sources = [self.buffer(part_bytes, name=f"probe source {number}", device=index) for number in range(reads)]
        targets = [self.buffer(part_bytes, name=f"probe target {number}", device=index) for number in range(writes)]

        def runner(efficiency: float) -> Callable[[], object]:
            def launch() -> FakeArray:
                written = self.launch(buffer=sources, writes=targets, efficiency=efficiency, device=index, inputs=())
                self.submit(written)
                return written

            return launch

        return tuple(
            Kernel(
                name=f"{pattern} ({name})",
                pattern=pattern,
                bytes_per_launch=working_set_bytes,
                working_set_bytes=working_set_bytes,
                launch=runner(efficiency),
            )
            for name, efficiency in _KERNELS
        )

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """A square product at the peak of the dtype, reading two matrices and writing one."""
        hardware = self._hardware[device.index]
        hardware.peak(dtype)
        matrix_bytes = float(size) ** 2 * hardware.item_bytes(dtype)
        left, right, product = (
            self.buffer(matrix_bytes, name=name, device=device.index) for name in ("left", "right", "product")
        )

        def multiply() -> FakeArray:
            written = self.launch(
                buffer=(left, right),
                writes=product,
                flops=2.0 * size**3,
                dtype=dtype,
                device=device.index,
                inputs=(),
            )
            self.submit(written)
            return written

        return multiply

    def link_paths(self, device: Device, working_set_bytes: float) -> list[LinkPath]:
        """Every path to and from the host and the other devices, by the figures of the device."""
        peers = [peer for peer in self.devices() if peer.index != device.index]

        def send(seconds: float) -> FakeArray:
            sent = self.launch(seconds=seconds, device=device.index, inputs=())
            self.submit(sent)
            return sent

        return fake_link_paths(send, self._hardware[device.index], device, peers, working_set_bytes)

    def link_kernels(self, device: Device, working_set_bytes: float) -> list[Kernel]:
        """What sends bytes from page-locked memory of the host; nothing where there is no link."""
        paths = self.link_paths(device, working_set_bytes)
        return [kernel for path in paths if path.source == HOST and path.is_pinned for kernel in path.kernels][:1]

    def has_context(self) -> bool:
        """True: whoever made a fake uses it."""
        return True

    def prepare(self) -> None:
        """Nothing: imports and compilation take no virtual time."""

    def drain(self) -> None:
        """Wait until every stream of every device is idle, unless `drain_lies`.

        Work whose array was dropped is waited for too. Lazy launches that nobody submitted are not run: they
        cannot be found through a queue, only through their arrays. Raises RooflineUsageError inside graph
        capture.
        """
        self._require_not_capturing()
        for index, timeline in enumerate(self._timelines):
            self._clock.advance(self._hardware[index].sync_s)
            if not self._hardware[index].drain_lies:
                self.wait_until(timeline.idle_s(), index)

    def submit(self, output: Any) -> None:
        """On a lazy backend, queue every array in the output with all that it depends on, without waiting."""
        if self.is_lazy:
            for array in arrays_in(output):
                if array.launch is not None and not array.is_deleted:
                    self.run(array.launch)

    def force(self, output: Any) -> Forced:
        """Run what is lazy, wait for every array and read one element of each, at `sync_s` of host time."""
        self._require_not_capturing()
        self.submit(output)
        count, ids, id_arrays, notes = 0, None, 0, []
        for array in arrays_in(output):
            if array.is_deleted:
                notes.append(f"an output on {array.device} was deleted or donated, and could not be read")
                continue
            count += 1
            array.item()
            if array.is_int:
                ids = (ids or 0) + array.size
                id_arrays += 1
        return Forced(arrays=count, ids=ids, id_arrays=id_arrays, notes=tuple(notes))

    def mark(self) -> FakeMarker:
        """A marker behind everything queued on every device. It costs nothing and its moment is exact."""
        moments = [timeline.idle_s() for timeline in self._timelines]
        last = max(range(len(moments)), key=lambda index: moments[index])
        moment_s = max(moments[last], self._clock.now_s)
        return FakeMarker(moment_s, lambda until_s: self.wait_until(until_s, last))

    def device_of(self, obj: Any) -> str | None:
        """``fake:0`` for an array, buffer or model that lives there (a list: its first array); else None."""
        if isinstance(obj, (FakeArray, FakeBuffer, FakeModel)):
            return f"fake:{obj.device_index}"
        if isinstance(obj, (list, tuple)) and obj and isinstance(obj[0], (FakeBuffer, FakeModel)):
            return f"fake:{obj[0].device_index}"
        return next((array.device for array in arrays_in(obj)), None)

    def witness(self) -> Witness:
        """Tells by its launches whether an array was written; see `fake_witness`."""
        return FakeWitness()

    def watch_generation(self, request: GenerationRequest, drain: Callable[[], None]) -> GenerationWatch:
        """Watches the passes of a `FakeGenerator`."""
        return FakeGenerationWatch(request, drain, trace=self.trace, clock=self.clock)

    def trace(self, request: TraceRequest) -> Trace | None:
        """Run the step once, for the virtual time that takes, and account for what its launches declare.

        The trace is closed unless a launch `is_opaque`, a graph is replayed, or what is returned was written
        by no launch that was seen. None when the step moved no bytes at all.
        """
        owner = getattr(request.step, "__self__", None)
        model = next((one for one in (request.model, owner) if isinstance(one, FakeModel)), None)
        facts = ModelFacts(batch=request.batch, context=request.context)
        if model is not None:
            facts = ModelFacts(
                batch=model.batch if request.batch is None else request.batch,
                context=model.context if request.context is None else request.context,
                kv_bytes_per_token=model.kv_bytes_per_token or None,
            )
        outer = self._recording
        recording = self._recording = Recording(first_serial=self._serial + 1)
        try:
            outputs = request.step(*request.args)
            self.submit(outputs)
        finally:
            self._recording = outer
        traffic = traffic_of(recording, tuple(arrays_in(outputs)), facts)
        compresses = any(self._hardware[launch.device_index].compresses for launch in recording.launches)
        surveyor = FakeSurveyor(recording, compresses=compresses)
        by_device = bytes_by_device(recording)
        for launch in recording.launches:
            if launch.finished_s is not None:
                launch.reads = launch.writes = ()
        if traffic is None:
            return None
        indices = sorted({launch.device_index for launch in recording.launches})
        return Trace(
            traffic=traffic,
            outputs=outputs,
            device_ids=tuple(f"fake:{index}" for index in indices),
            bytes_by_device=by_device,
            context_room=None if model is None else model.context_room,
            surveyor=surveyor,
        )

    def count_model(self, model: FakeModel, *, batch: int | None = None, context: int | None = None) -> Traffic:
        """What a pass of the model moves at this context, without running it."""
        return model.traffic if context is None else model.traffic.at_context(context)

    def declare(
        self,
        read_bytes: float,
        write_bytes: float = 0.0,
        *,
        flops: float | None = None,
        batch: int | None = None,
        context: int | None = None,
        working_set_bytes: float | None = None,
    ) -> Traffic:
        """The caller's word for a step, as a `Traffic`: for comparing it with what a trace saw."""
        traffic = declared_traffic(read_bytes, write_bytes, flops=flops, batch=batch, context=context)
        return replace(traffic, working_set_bytes=working_set_bytes)

    def traffic_counter(self, device: Device) -> FakeCounter | None:
        """The device's own count of its memory traffic; None unless it was given one (`counter=`)."""
        hardware, timeline = self._hardware[device.index], self._timelines[device.index]
        if hardware.counter is None or timeline.moved is None:
            return None
        peak_bytes_per_s = hardware.datasheet_bytes_per_s or hardware.read_bytes_per_s
        return FakeCounter(hardware.counter, timeline.moved, self._clock, peak_bytes_per_s)

    def suspend(self, seconds: float) -> None:
        """Stop the process for that long, as SIGSTOP does: the device goes on, and the pulse shows the gap."""
        begun_s = self._clock.now_s
        self.host(seconds)
        self._suspensions.append((begun_s, self._clock.now_s))

    def open_pulse(self) -> FakePulse:
        """Tells of every `suspend`."""
        return FakePulse(self._suspensions)

    def conditions(self, device: Device) -> Conditions:
        """What the device admits to at this moment: its `state`, throttling, its clock, other processes."""
        weather, now_s = self._timelines[device.index].weather, self._clock.now_s
        state = self._hardware[device.index].state
        clock_hz = _TOP_CLOCK_HZ * weather.clock_share(now_s)
        return replace(
            state(now_s) if callable(state) else state,
            clock_hz=clock_hz if math.isfinite(clock_hz) else None,
            max_clock_hz=_TOP_CLOCK_HZ,
            throttle_reasons=weather.throttle_reasons(now_s),
            held_s=weather.held_s(now_s),
            neighbours=weather.neighbours(now_s),
            neighbours_use=weather.neighbours_use(now_s),
        )
