"""PyTorch as a backend: the CPU and every accelerator that this build of torch knows, through one API.

Import this module only when torch is wanted: it imports torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from pytest_roofline.backends import torch_outputs
from pytest_roofline.backends.arena import Arena
from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.backends.pages import survey_pages
from pytest_roofline.backends.private_clock import clock as _clock
from pytest_roofline.backends.torch_accelerator import (
    Accelerator,
    attempt,
    count_quietly,
    find_accelerator,
    first_line,
)
from pytest_roofline.backends.torch_compile import TorchCompileLog
from pytest_roofline.backends.torch_kernels import make_arena_kernels, make_kernels, make_matmul
from pytest_roofline.backends.torch_links import make_link_kernels, make_link_paths
from pytest_roofline.backends.torch_markers import MAX_THREADS, Anchor, DrainMarker, EventMarker
from pytest_roofline.backends.torch_weights import count_module
from pytest_roofline.device import Device, Pattern, Spec
from pytest_roofline.errors import DeviceUnavailable, MeasurementError, RooflineUsageError
from pytest_roofline.generation import GenerationRequest, GenerationWatch
from pytest_roofline.protocol import (
    Conditions,
    Forced,
    Kernel,
    LinkPath,
    Marker,
    Trace,
    TraceRequest,
    TrafficCounter,
    WatchedEvents,
)
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_bytes
from pytest_roofline.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

# Clocks of host and device drift apart by some millionths: an anchor of this age is still good to some
# microseconds.
_ANCHOR_LIFE_S = 1.0


class TorchBackend:
    """Drives torch. `accelerator` stands in for the device side; by default it is what torch was built for.

    On the CPU torch works in the calling thread's time: nothing is ever pending there.
    """

    name = "torch"
    is_lazy = False
    is_marker_complete = False

    def __init__(
        self,
        *,
        specs: Sequence[Spec] | None = None,
        accelerator: Accelerator | None = None,
        clock: Callable[[], float] = _clock,
    ) -> None:
        self._accelerator = accelerator if accelerator is not None else find_accelerator(specs)
        self._cpu = CpuBackend()
        self._read_clock = clock
        self._devices: tuple[Device, ...] | None = None
        self._anchors: dict[int, Anchor] = {}
        self._places = threading.Semaphore(MAX_THREADS)

    def devices(self) -> Sequence[Device]:
        """The accelerators that work, then the CPU; what stands in an accelerator's way is a note of the
        CPU's. Asked of the drivers once."""
        if self._devices is None:
            notes: list[str] = []
            found: list[Device] = []
            if self._accelerator is not None:
                for index in range(count_quietly(self._accelerator, notes)):
                    device = attempt(partial(self._accelerator.device, index), f"device {index}", notes)
                    found.extend([device] if device is not None else [])
            cpu = self._cpu.devices()[0]
            self._devices = (*found, replace(cpu, backend=self.name, notes=(*cpu.notes, *notes)))
        return self._devices

    def clock(self) -> float:
        """Seconds on the monotonic clock, as it was when this module was imported."""
        return self._read_clock()

    def threads(self, device: Device) -> int | None:
        """Threads of torch's operators now, on the CPU; None on an accelerator."""
        return torch.get_num_threads() if device.is_cpu else None

    def free_memory_bytes(self, device: Device) -> float:
        """Memory that buffers may take now; of an accelerator also what torch's allocator holds unused."""
        if device.is_cpu:
            return self._cpu.free_memory_bytes(device)
        return self._its_accelerator(device.id).free_memory_bytes(device.index)

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Kernels over buffers of random data that they share; raises MemoryError when those do not fit."""
        free_bytes = self.free_memory_bytes(device)
        if working_set_bytes > free_bytes:
            raise MemoryError(
                f"{device.id}: buffers of {format_bytes(working_set_bytes)} do not fit: "
                f"{format_bytes(free_bytes)} are free"
            )
        accelerator = None if device.is_cpu else self._its_accelerator(device.id)
        return make_kernels(device, pattern, working_set_bytes, accelerator)

    def make_arena(self, device: Device, source_bytes: float, target_bytes: float) -> Arena:
        """Memory of the CPU for `kernels_in`, as the bare processor's backend makes it."""
        return self._cpu.make_arena(device, source_bytes, target_bytes)

    def kernels_in(self, arena: Arena, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Kernels of the CPU over parts of that memory, without a copy."""
        return make_arena_kernels(arena, pattern, working_set_bytes)

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """A square product on random data, run once already; raises RooflineUsageError for no such dtype."""
        if not device.is_cpu:
            self._its_accelerator(device.id)
        return make_matmul(device, dtype, size)

    def link_kernels(self, device: Device, working_set_bytes: float) -> Sequence[Kernel]:
        """Ways to send so many bytes from page-locked host memory to an accelerator; counted once."""
        self._its_accelerator(device.id)
        return make_link_kernels(device, working_set_bytes)

    def link_paths(self, device: Device, working_set_bytes: float) -> Sequence[LinkPath]:
        """Every path to and from an accelerator, its peers of the same kind included: those then have a context."""
        accelerator = self._its_accelerator(device.id)
        peers = [one for one in self.devices() if one.kind == device.kind and one.id != device.id]
        with self._current_device_kept(accelerator):
            return make_link_paths(device, working_set_bytes, peers, accelerator.module)

    # -- waiting
    # -------------------------------------------------------------------------------------------------

    def has_context(self) -> bool:
        """Whether this process uses an accelerator; the CPU never has anything pending. Creates no
        context."""
        return self._accelerator is not None and bool(self._accelerator.indices_in_use())

    def drain(self) -> None:
        """Wait for all streams of every accelerator in use; the current device stays as it was.

        Raises RooflineUsageError while a graph is captured, and MeasurementError when a device reports an
        error (its own, or that of the work that was waited for).
        """
        accelerator = self._accelerator
        if accelerator is None or not accelerator.is_initialized():
            return
        if accelerator.is_capturing():
            raise RooflineUsageError(_IN_CAPTURE)
        with self._current_device_kept(accelerator):
            for index in accelerator.indices_in_use():
                try:
                    accelerator.synchronize(index)
                except RuntimeError as error:
                    if "captur" in str(error).lower():  # by another thread, or on another stream
                        raise RooflineUsageError(_IN_CAPTURE) from error
                    raise MeasurementError(
                        f"{accelerator.kind}:{index} reported an error: {first_line(error)}"
                    ) from error
                self._drop_anchor(accelerator, index)

    @contextmanager
    def _current_device_kept(self, accelerator: Accelerator) -> Iterator[None]:
        before = accelerator.current_index()
        try:
            yield
        finally:
            # Only if it moved: choosing a device may create a context on it.
            if accelerator.current_index() != before:
                accelerator.set_index(before)

    def _drop_anchor(self, accelerator: Accelerator, index: int) -> None:
        """Pair a moment of the idle device with one of the host; a device whose events keep no time has
        none."""
        now_s = self._read_clock()
        anchor = self._anchors.get(index)
        if anchor is not None and now_s - anchor.at_s < _ANCHOR_LIFE_S:
            return

        def record() -> Anchor:
            event = accelerator.event(index)
            at_s = self._read_clock()
            event.record(accelerator.streams(index)[0])
            event.synchronize()
            return Anchor(event=event, at_s=at_s)

        fresh = attempt(record, "", [])
        if fresh is not None:
            self._anchors[index] = fresh

    def submit(self, output: Any) -> None:
        """Nothing: torch hands work to the device as it goes."""

    def force(self, output: Any) -> Forced:
        """Read one element of every tensor in the output; see `torch_outputs.force` for what counts as an
        id."""
        return torch_outputs.force(output)

    def mark(self) -> Marker | None:
        """Mark the current and the default stream of every device in use; None when those are idle.

        Work on other streams is not seen here (a drain waits for it). None while a graph is captured.
        """
        accelerator = self._accelerator
        if accelerator is None or not accelerator.is_initialized() or accelerator.is_capturing():
            return None
        try:
            events = [
                (index, event)
                for index in accelerator.indices_in_use()
                for event in self._pending_events(accelerator, index)
            ]
        except (NotImplementedError, TypeError, AttributeError, ValueError):  # no such streams or events here
            return DrainMarker(self.drain, clock=self._read_clock)
        except RuntimeError as error:
            reason = first_line(error)
            raise MeasurementError(f"{accelerator.kind} reported an error: {reason}") from error
        if not events:
            return None
        return EventMarker(events, anchors=self._anchors, clock=self._read_clock, places=self._places)

    @staticmethod
    def _pending_events(accelerator: Accelerator, index: int) -> list[Any]:
        """An event behind the work of each stream that has some."""
        events = []
        for stream in accelerator.streams(index):
            if not stream.query():
                event = accelerator.event(index)
                event.record(stream)
                events.append(event)
        return events

    # -- what an audit watches
    # -------------------------------------------------------------------------------------------------

    def event_classes(self) -> Sequence[WatchedEvents]:
        """The classes of events that test code may time this accelerator with; none on the CPU."""
        return () if self._accelerator is None else self._accelerator.event_classes()

    def holds_lazy(self, output: Any) -> bool:
        """Whether a tensor of the output is on a device that evaluates when it is read (XLA, TorchScript's)."""
        return torch_outputs.holds_lazy(output)

    def evaluate(self, output: Any) -> bool:
        """Have such a device evaluate what is pending, without reading it; False where it cannot be asked to."""
        return torch_outputs.evaluate(output)

    def open_compile_log(self) -> TorchCompileLog:
        """What `torch.compile` compiles and what is captured from now on."""
        return TorchCompileLog(self._read_clock)

    # -- looking
    # -------------------------------------------------------------------------------------------------

    def device_of(self, obj: Any) -> str | None:
        """Id of the device that holds most of the bytes of a module, a tensor, or anything that holds
        some."""
        return torch_outputs.device_of(obj)

    def prepare(self) -> None:
        """Trace an addition of its own: the first trace of a process makes torch import its compiler, for seconds."""
        one = torch.ones(1, device="cpu")
        self.trace(TraceRequest(step=lambda: one + one))

    def witness(self) -> Witness:
        """Copies, compares and overwrites tensors that torch allocated; see `torch_witness`."""
        from pytest_roofline.backends.torch_witness import TorchWitness

        return TorchWitness()

    def watch_generation(self, request: GenerationRequest, drain: Callable[[], None]) -> GenerationWatch:
        """Calls the `generate` of a module and watches its passes; see `models.generation_watch`."""
        from pytest_roofline.models.generation_watch import TorchGenerationWatch

        return TorchGenerationWatch(
            request,
            drain,
            trace=self.trace,
            overwritten=self.witness().overwritten,
            force=self.force,
            clock=self._read_clock,
        )

    def trace(self, request: TraceRequest) -> Trace | None:
        """Run the step once under a dispatch mode and account for its bytes."""
        from pytest_roofline.models.module import trace_module

        trace: Trace | None = trace_module(request)
        surveyor = getattr(trace, "surveyor", None)
        if surveyor is not None:
            surveyor.look_at_pages(survey_pages)
        return trace

    def count_model(self, model: Any, *, batch: int | None = None, context: int | None = None) -> Traffic:
        """Traffic of one pass counted from the parameters of a module; see `torch_weights.count_module`."""
        return count_module(model, batch=batch, context=context)

    def conditions(self, device: Device) -> Conditions:
        """Clocks, power, throttling and neighbours (NVIDIA); load and threads on the CPU."""
        if device.is_cpu:
            return replace(self._cpu.conditions(device), threads=torch.get_num_threads())
        return self._its_accelerator(device.id).conditions(device)

    def traffic_counter(self, device: Device) -> TrafficCounter | None:
        """The device's own count of its memory traffic: NVIDIA's from Hopper on; None elsewhere."""
        return None if device.is_cpu else self._its_accelerator(device.id).traffic_counter(device, self._read_clock)

    def _its_accelerator(self, device_id: str) -> Accelerator:
        if self._accelerator is None:
            raise DeviceUnavailable(f"{device_id}: torch {torch.__version__} was built without accelerators")
        return self._accelerator


_IN_CAPTURE = (
    "the device cannot be waited for while a graph is being captured; "
    "capture before the measurement, and measure the replay"
)
