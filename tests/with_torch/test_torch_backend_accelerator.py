"""The torch backend with an accelerator that a stand-in plays: waiting, marking, contexts and clocks."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends import torch_accelerator  # noqa: E402
from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.backends.torch_accelerator import Accelerator, count_quietly, find_accelerator  # noqa: E402
from pytest_roofline.backends.torch_markers import MAX_THREADS, Anchor, DrainMarker, EventMarker  # noqa: E402
from pytest_roofline.device import Device  # noqa: E402
from pytest_roofline.errors import MeasurementError, RooflineUsageError  # noqa: E402


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


class Event:
    """An event that is reached when the test says so; `reached_s` is the device's own time."""

    def __init__(self, clock: Clock, *, keeps_time: bool = True) -> None:
        self.clock = clock
        self.reached = threading.Event()
        self.reached_s = 0.0
        self.keeps_time = keeps_time
        self.error: Exception | None = None

    def record(self, stream: Stream) -> None:
        """Queue behind the stream's work: at once when there is none."""
        stream.events.append(self)
        if stream.idle:
            self.reach()

    def reach(self) -> None:
        """The device is here now."""
        self.reached_s = self.clock.now_s
        self.reached.set()

    def synchronize(self) -> None:
        """Wait, with a bound so that a fault of the test does not hang."""
        assert self.reached.wait(10)
        if self.error is not None:
            raise self.error

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds between two events, as torch gives them."""
        if not self.keeps_time:
            raise RuntimeError("no timing")
        return (other.reached_s - self.reached_s) * 1e3


class Stream:
    """A queue that is idle or not."""

    def __init__(self) -> None:
        self.idle = True
        self.events: list[Event] = []

    def query(self) -> bool:
        """Whether all work is done."""
        return self.idle


class Stand(Accelerator):
    """Two devices of which the process uses one, unless the test says otherwise."""

    def __init__(self, clock: Clock) -> None:
        self.kind = "stand"
        self.clock = clock
        self.used = {0}
        self.initialized = True
        self.capturing = False
        self.current = 1
        self.moves = False
        self.drained: list[int] = []
        self.chosen: list[int] = []
        self.all_streams = {0: [Stream(), Stream()], 1: [Stream()]}
        self.error: Exception | None = None
        self.keeps_time = True
        self.has_streams = True

    def count(self) -> int:
        """Two."""
        return 2

    def is_initialized(self) -> bool:
        """As the test set it."""
        return self.initialized

    def has_context(self, index: int) -> bool:
        """As the test set it."""
        assert self.initialized
        return index in self.used

    def is_capturing(self) -> bool:
        """As the test set it."""
        return self.capturing

    def synchronize(self, index: int) -> None:
        """Remember it, and fail if told to."""
        self.drained.append(index)
        if self.moves:
            self.current = index
        if self.error is not None:
            raise self.error

    def current_index(self) -> int:
        """The device that the test chose."""
        return self.current

    def set_index(self, index: int) -> None:
        """Remember it: choosing may create a context."""
        self.chosen.append(index)
        self.current = index

    def streams(self, index: int) -> list[Any]:
        """Current and default."""
        if not self.has_streams:
            raise NotImplementedError
        return list(self.all_streams[index])

    def event(self, index: int) -> Event:
        """A new event."""
        return Event(self.clock, keeps_time=self.keeps_time)

    def device(self, index: int) -> Device:
        """One that works, and one that does not."""
        if index == 1:
            raise RuntimeError("device 1 fell off the bus")
        return Device(name="Stand", kind=self.kind, index=index, backend="torch")


@pytest.fixture
def clock() -> Clock:
    """The host's clock."""
    return Clock()


@pytest.fixture
def stand(clock: Clock) -> Stand:
    """The accelerator."""
    return Stand(clock)


@pytest.fixture
def backend(stand: Stand, clock: Clock) -> TorchBackend:
    """The backend on both."""
    return TorchBackend(accelerator=stand, clock=clock)


def test_a_broken_device_costs_itself_and_a_note(backend: TorchBackend) -> None:
    """The other device and the CPU are there, the CPU last, with the reason."""
    devices = backend.devices()
    assert [device.id for device in devices] == ["stand:0", "cpu"]
    assert any("fell off the bus" in note for note in devices[-1].notes)
    assert backend.devices() is devices


def test_a_drain_waits_for_the_devices_in_use_alone(backend: TorchBackend, stand: Stand) -> None:
    """An untouched device stays untouched, and the current device is not even chosen anew."""
    backend.drain()
    assert stand.drained == [0]
    stand.used = {0, 1}
    backend.drain()
    assert stand.drained == [0, 0, 1]
    assert stand.chosen == []


def test_a_drain_gives_the_current_device_back(backend: TorchBackend, stand: Stand) -> None:
    """Also when waiting moved it, and when waiting failed."""
    stand.moves = True
    backend.drain()
    assert stand.current == 1
    stand.error = RuntimeError("CUDA error: device-side assert triggered\nmore lines")
    with pytest.raises(MeasurementError, match=r"stand:0 reported an error: CUDA error: device-side assert triggered$"):
        backend.drain()
    assert stand.current == 1


def test_nothing_is_created_where_nothing_is_in_use(backend: TorchBackend, stand: Stand) -> None:
    """An accelerator that this process has not started has no context, no marker, and nothing to drain."""
    stand.initialized = False
    assert backend.has_context() is False
    assert backend.mark() is None
    backend.drain()
    assert stand.drained == []
    stand.initialized, stand.used = True, set()
    assert backend.has_context() is False
    stand.used = {1}
    assert backend.has_context() is True


def test_inside_a_capture_a_drain_is_wrong_use(backend: TorchBackend, stand: Stand) -> None:
    """Said clearly, whichever stream captures; a marker there is none."""
    stand.capturing = True
    with pytest.raises(RooflineUsageError, match="while a graph is being captured"):
        backend.drain()
    assert stand.drained == []
    assert backend.mark() is None
    stand.capturing = False
    stand.error = RuntimeError("operation not permitted when stream is capturing")
    with pytest.raises(RooflineUsageError, match="while a graph is being captured"):
        backend.drain()


def test_idle_streams_need_no_marker(backend: TorchBackend, stand: Stand) -> None:
    """The honest case costs a query and no thread."""
    before = threading.active_count()
    assert backend.mark() is None
    assert threading.active_count() == before


@pytest.mark.parametrize("busy", [0, 1])
def test_a_marker_sees_the_current_and_the_default_stream(
    backend: TorchBackend, stand: Stand, clock: Clock, busy: int
) -> None:
    """Work on either keeps it waiting, and the moment stands however late somebody asks."""
    stream = stand.all_streams[0][busy]
    stream.idle = False
    marker = backend.mark()
    assert isinstance(marker, EventMarker)
    clock.now_s = 100.5
    (event,) = stream.events
    event.reach()
    marker._thread.join(10)  # type: ignore[union-attr]
    clock.now_s = 200.0
    assert marker.finished_s() == 100.5
    assert marker.finished_s() == 100.5


def test_after_a_drain_the_devices_own_time_counts(backend: TorchBackend, stand: Stand, clock: Clock) -> None:
    """Against an anchor no thread is needed, and a late question changes nothing."""
    backend.drain()
    before = threading.active_count()
    for stream in stand.all_streams[0]:
        stream.idle = False
    clock.now_s = 101.0
    marker = backend.mark()
    assert marker is not None
    assert threading.active_count() == before
    clock.now_s = 101.25
    for stream in stand.all_streams[0]:
        stream.events[-1].reach()
        clock.now_s += 0.25
    clock.now_s = 150.0
    assert marker.finished_s() == pytest.approx(101.5)


def test_an_anchor_is_renewed_when_it_is_old(backend: TorchBackend, stand: Stand, clock: Clock) -> None:
    """Two clocks drift apart; in a tight loop of drains the old anchor does."""
    backend.drain()
    backend.drain()
    assert len(stand.all_streams[0][0].events) == 1
    clock.now_s += 2.0
    backend.drain()
    assert len(stand.all_streams[0][0].events) == 2


def test_events_that_keep_no_time_leave_the_moment_of_the_wait(
    backend: TorchBackend, stand: Stand, clock: Clock
) -> None:
    """Late, but never early, and never before the mark."""
    stand.keeps_time = False
    backend.drain()
    stand.all_streams[0][0].idle = False
    marker = backend.mark()
    assert marker is not None
    clock.now_s = 103.0
    stand.all_streams[0][0].events[-1].reach()
    assert marker.finished_s() == 103.0


def test_a_device_without_streams_is_marked_by_a_drain(backend: TorchBackend, stand: Stand, clock: Clock) -> None:
    """A backend with one queue and no events can still tell when it was done."""
    stand.has_streams = False
    marker = backend.mark()
    assert isinstance(marker, DrainMarker)
    assert marker.finished_s() == 100.0
    assert stand.drained == [0]


def test_an_error_of_the_device_comes_out_of_the_marker(backend: TorchBackend, stand: Stand, clock: Clock) -> None:
    """Whoever asks for the moment hears why there is none."""
    stream = stand.all_streams[0][0]
    stream.idle = False
    marker = backend.mark()
    assert marker is not None
    (event,) = stream.events
    event.error = RuntimeError("illegal memory access")
    event.reach()
    with pytest.raises(MeasurementError, match="illegal memory access"):
        marker.finished_s()

    def fail() -> None:
        raise RuntimeError("lost")

    with pytest.raises(MeasurementError, match="lost"):
        DrainMarker(fail, clock=clock).finished_s()

    def refuse() -> None:
        raise MeasurementError("stand:0 reported an error: lost again")

    with pytest.raises(MeasurementError, match="lost again"):
        DrainMarker(refuse, clock=clock).finished_s()


def test_markers_do_not_start_threads_without_end(clock: Clock) -> None:
    """A loop that reads the clock ten thousand times gets some threads; the rest waits when asked."""
    places = threading.Semaphore(MAX_THREADS)
    events = [Event(clock) for _ in range(MAX_THREADS + 4)]
    markers = [EventMarker([(0, event)], anchors={}, clock=clock, places=places) for event in events]
    assert sum(marker._thread is not None for marker in markers) == MAX_THREADS
    for event in events:
        event.reach()
    assert {marker.finished_s() for marker in markers} == {100.0}
    assert EventMarker([(0, events[0])], anchors={}, clock=clock, places=places)._thread is not None


def test_a_moment_is_never_before_its_mark(clock: Clock) -> None:
    """An anchor that claims otherwise is wrong."""
    anchor = Event(clock)
    anchor.reached_s = 500.0
    event = Event(clock)
    event.reach()
    marker = EventMarker([(0, event)], anchors={0: Anchor(anchor, 100.0)}, clock=clock, places=threading.Semaphore(0))
    assert marker.finished_s() == 100.0


# -- the shared API of torch
# ---------------------------------------------------------------------------------------


class Module:
    """What `torch.get_device_module` gives for a made-up kind."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


def accelerator(monkeypatch: pytest.MonkeyPatch, kind: str = "xpu", **members: Any) -> Accelerator:
    """An accelerator of that kind whose module has those members, one device that works."""
    monkeypatch.setattr(torch, "get_device_module", lambda kind: Module(**members))
    made = Accelerator(kind, specs=())
    made._count = 1
    return made


class Properties:
    """What a property record may hold."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


def test_a_cpu_build_has_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build decides, not what is plugged in."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: None)
    assert find_accelerator() is None


@pytest.mark.parametrize(("kind", "name"), [("xpu", "Accelerator"), ("cuda", "CudaAccelerator")])
def test_the_build_names_its_accelerator(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """CUDA has a layer of its own, the others share one."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device(kind))
    found = find_accelerator(specs=())
    assert found is not None
    assert (type(found).__name__, found.kind) == (name, kind)


def test_an_xpu_tells_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, memory, units and driver come from the property record."""
    record = Properties(total_memory=48 * 2**30, gpu_subslice_count=64, driver_version="1.6", name="Arc")
    found = accelerator(
        monkeypatch, get_device_properties=lambda index: record, get_device_name=lambda index: "Intel Arc"
    ).device(0)
    assert (found.id, found.name, found.vendor, found.driver) == ("xpu:0", "Intel Arc", "Intel", "1.6")
    assert (found.memory_bytes, found.compute_units, found.notes) == (48 * 2**30, 64, ())


def test_a_silent_device_has_its_id_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refusal costs one field."""

    def refuse(index: int) -> Any:
        raise RuntimeError("driver too old\nsecond line")

    found = accelerator(monkeypatch, get_device_properties=refuse, get_device_name=refuse).device(0)
    assert found.name == "xpu:0"
    assert found.memory_bytes is None
    assert found.notes == ("torch: device properties: driver too old", "torch: device name: driver too old")


def test_mps_shares_the_hosts_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no property record, one device and a recommended size."""
    monkeypatch.setattr(torch.backends.mps, "get_name", lambda: "Apple M4", raising=False)
    monkeypatch.setattr(torch.backends.mps, "get_core_count", lambda: 10, raising=False)
    mps = accelerator(
        monkeypatch,
        "mps",
        recommended_max_memory=lambda: 12e9,
        current_allocated_memory=lambda: 2e9,
        driver_allocated_memory=lambda: 3e9,
    )
    found = mps.device(0)
    assert (found.id, found.name, found.vendor, found.is_unified_memory) == (
        "mps:0",
        "Apple M4",
        "Apple",
        True,
    )
    assert (found.memory_bytes, found.compute_units) == (12e9, 10)
    assert mps.free_memory_bytes(0) == 10e9
    assert mps.is_initialized() is True
    assert mps.indices_in_use() == [0]


def test_free_memory_counts_what_the_allocator_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework that holds most of the card without using it does not starve the probe."""
    xpu = accelerator(
        monkeypatch,
        mem_get_info=lambda index: (1e9, 80e9),
        memory_reserved=lambda index: 70e9,
        memory_allocated=lambda index: 20e9,
    )
    assert xpu.free_memory_bytes(0) == 51e9
    assert accelerator(monkeypatch).free_memory_bytes(0) > 0


def test_a_device_counts_as_used_once_memory_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared API has no better sign; asking creates nothing."""
    reserved = {0: 0, 1: 5}
    xpu = accelerator(monkeypatch, is_initialized=lambda: True, memory_reserved=lambda index: reserved[index])
    xpu._count = 2
    assert xpu.indices_in_use() == [1]


def test_an_older_torch_raises_where_there_is_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.6 raises where later versions give None: both mean a CPU build."""

    def none_here() -> Any:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", none_here)
    assert find_accelerator() is None


def test_waiting_and_streams_go_through_the_shared_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """One path for every accelerator."""
    waited: list[int] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda index: Properties(stream_id=index))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 3)
    chosen: list[int] = []
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    xpu = accelerator(monkeypatch, is_current_stream_capturing=lambda: True)
    xpu.set_index(2)
    assert (xpu.current_index(), chosen) == (3, [2])
    xpu.synchronize(1)
    assert waited == [1]
    assert [stream.stream_id for stream in xpu.streams(1)] == [1]
    assert xpu.is_capturing() is True
    with_default = accelerator(monkeypatch, default_stream=lambda index: Properties(stream_id=0))
    assert [stream.stream_id for stream in with_default.streams(1)] == [1, 0]
    assert [stream.stream_id for stream in with_default.streams(0)] == [0]
    assert with_default.is_capturing() is False


def test_a_broken_driver_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch warns and finds nothing: the run goes on with the CPU."""

    def unavailable() -> bool:
        import warnings

        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old\nmore", stacklevel=1)
        return False

    monkeypatch.setattr(torch.accelerator, "is_available", unavailable)
    xpu = accelerator(monkeypatch)
    xpu._count = None
    notes: list[str] = []
    assert count_quietly(xpu, notes) == 0
    assert notes == ["xpu: CUDA initialization: The NVIDIA driver on your system is too old"]


# -- kernels of an accelerator, on the CPU's memory
# -----------------------------------------------------------------


class Repeating(Stand):
    """Repeats everything three times, in a way that can be counted."""

    def repeated(self, launch: Any, index: int, seconds: float) -> tuple[Any, int]:
        """As a graph would."""
        self.guesses.append(seconds)
        return (lambda: [launch() for _ in range(3)]), 3


def on_cpu(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> Device:
    """A device that is no CPU and whose tensors are on the CPU all the same."""
    real = torch.device
    monkeypatch.setattr(torch, "device", lambda *_: real("cpu"))
    return replace(Device(name="Stand", kind="stand", backend="torch"), **facts)


def test_an_accelerator_has_more_kernels_and_repeats_them(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Half precision too, each run once before, and a launch counts all the bytes that its repeats move."""
    from pytest_roofline.backends.torch_kernels import make_kernels

    stand = Repeating(clock)
    stand.guesses = []  # type: ignore[attr-defined]
    device = on_cpu(monkeypatch, driver_bandwidth_bytes_per_s=1e12)
    kernels = make_kernels(device, "read", 2**20, stand)
    names = {kernel.name for kernel in kernels}
    assert {"torch-mv-bfloat16", "torch-mv-float16", "torch-linear-bfloat16"} <= names
    for kernel in kernels:
        assert kernel.bytes_per_launch == pytest.approx(3 * 2**20, rel=0.01)
        assert kernel.working_set_bytes == pytest.approx(2**20, rel=0.01)
        kernel.launch()
    assert stand.guesses == [pytest.approx(2**20 / 1e12, rel=0.01)] * len(kernels)  # type: ignore[attr-defined]


def test_a_kernel_that_the_device_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Not every device has every dtype, and deterministic mode forbids some kernels."""
    from pytest_roofline.backends import torch_kernels

    real = torch.mv

    def refuse(matrix: Any, vector: Any, **keywords: Any) -> Any:
        if matrix.dtype is torch.float16:
            raise NotImplementedError("no half")
        return real(matrix, vector, **keywords)

    monkeypatch.setattr(torch, "mv", refuse)
    kernels = torch_kernels.make_kernels(on_cpu(monkeypatch), "read", 2**20, Stand(clock))
    names = {kernel.name for kernel in kernels}
    assert "torch-mv-float16" not in names
    assert "torch-mv-float32" in names


def test_running_out_while_a_kernel_runs_is_a_memory_error(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """A workspace may be what does not fit any more."""
    from pytest_roofline.backends.torch_kernels import make_kernels

    def refuse(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "sum", refuse)
    with pytest.raises(MemoryError, match="stand:0: buffers of"):
        make_kernels(on_cpu(monkeypatch), "read", 2**20, Stand(clock))


def test_the_shared_layer_knows_no_graph_and_no_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a launch stays what it is, and nothing is claimed."""
    xpu = accelerator(monkeypatch)

    def launch() -> None:
        return None

    assert xpu.repeated(launch, 0, 1e-6) == (launch, 1)
    assert xpu.conditions(Device(name="x", kind="xpu", backend="torch")).clock_hz is None


def test_the_library_of_cards_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only when a device asks for it."""
    reads: list[int] = []
    monkeypatch.setattr(torch_accelerator, "load_devices", lambda: reads.append(1) or ("cards",))
    xpu = accelerator(monkeypatch)
    xpu._specs = None
    assert reads == []
    assert xpu.specs == xpu.specs == ("cards",)
    assert reads == [1]


def test_the_link_is_fed_from_page_locked_memory(monkeypatch: pytest.MonkeyPatch, backend: TorchBackend) -> None:
    """Counted once; where the host cannot lock pages there is no kernel, and no error."""
    device = on_cpu(monkeypatch)

    def locked(self: Any) -> Any:
        return self

    monkeypatch.setattr(torch.Tensor, "pin_memory", locked)
    (kernel,) = backend.link_kernels(device, 2**20)
    assert kernel.bytes_per_launch == 2**20
    kernel.launch()

    def refuse(self: Any) -> Any:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.Tensor, "pin_memory", refuse)
    assert backend.link_kernels(device, 2**20) == []

    def exhausted(self: Any) -> Any:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.Tensor, "pin_memory", exhausted)
    with pytest.raises(MemoryError, match="page-locked"):
        backend.link_kernels(device, 2**20)
