"""The fake as a backend: the verbs of the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import pytest

from pytest_roofline.backends import fake
from pytest_roofline.backends.fake import FakeBackend, FakeDevice, FakeModel
from pytest_roofline.device import PATTERNS
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Backend, Conditions, TraceRequest
from pytest_roofline.traffic import TRACED


def test_fake_is_a_backend() -> None:
    """It satisfies the protocol, always has a context and has no threads to set."""
    backend = FakeBackend()
    assert isinstance(backend, Backend)
    assert backend.name == "fake"
    assert backend.has_context()
    assert backend.threads(backend.devices()[0]) is None


def test_preparing_takes_no_time_and_queues_nothing() -> None:
    """There is nothing to import or compile, however often it is asked."""
    backend, other = FakeBackend(), FakeBackend()
    for _ in range(2):
        backend.prepare()
    assert backend.clock() == other.clock()
    assert backend.pending() == 0


def test_device_record_tells_the_figures() -> None:
    """The record is a discrete accelerator of kind fake with the figures it was made with."""
    first, second = FakeBackend(devices=2, cache_bytes=50e6, memory_bytes=8e9).devices()
    assert (first.id, second.id) == ("fake:0", "fake:1")
    assert first.key != second.key
    assert first.backend == first.kind == "fake"
    assert first.is_unified_memory is False
    assert first.last_level_cache_bytes == 50e6
    assert first.memory_bytes == 8e9
    assert first.driver_bandwidth_bytes_per_s == pytest.approx(1.1e12)


@pytest.mark.parametrize(("sheet", "told"), [(None, None), (3e12, 3e12), ("derived", 2.2e12)])
def test_datasheet_can_be_missing_or_given(sheet: Any, told: float | None) -> None:
    """Without a sheet the driver tells no bandwidth; derived, it is 1.1 times the read rate."""
    (device,) = FakeBackend(read_bytes_per_s=2e12, sheet_bytes_per_s=sheet).devices()
    assert device.driver_bandwidth_bytes_per_s == (None if told is None else pytest.approx(told))


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize(("pattern", "share"), [("read", 1.0), ("copy", 0.9), ("write", 0.92), ("triad", 0.87)])
def test_probe_kernels_reach_the_rate_of_their_pattern(pattern: Any, share: float, is_lazy: bool) -> None:
    """The best kernel of each pattern reaches its rate, counted as the protocol counts."""
    backend = FakeBackend(is_lazy=is_lazy)
    (device,) = backend.devices()
    kernels = backend.kernels(device, pattern, 3e9)
    assert backend.free_memory_bytes(device) == pytest.approx(13e9)
    rates = []
    for kernel in kernels:
        assert (kernel.pattern, kernel.working_set_bytes) == (pattern, 3e9)
        backend.drain()
        start_s = backend.clock()
        for _ in range(5):
            kernel.launch()
        backend.drain()
        rates.append(5 * kernel.bytes_per_launch / (backend.clock() - start_s))
    assert rates == pytest.approx([share * 1e12, 0.9 * share * 1e12], rel=1e-2)


def test_probe_kernels_release_their_buffers() -> None:
    """When the kernels are gone, so are the buffers."""
    backend = FakeBackend()
    (device,) = backend.devices()
    for pattern in PATTERNS:
        kernels = backend.kernels(device, pattern, 12e9)
        kernels[0].launch()
        backend.drain()
        del kernels
    assert backend.free_memory_bytes(device) == pytest.approx(16e9)


def test_probe_that_does_not_fit_is_out_of_memory() -> None:
    """Kernels over more than the free memory raise MemoryError and keep nothing."""
    backend = FakeBackend(memory_bytes=1e9)
    (device,) = backend.devices()
    with pytest.raises(MemoryError):
        backend.kernels(device, "triad", 2e9)
    assert backend.free_memory_bytes(device) == pytest.approx(1e9)
    with pytest.raises(RooflineUsageError, match="pattern is 'gather'"):
        backend.kernels(device, "gather", 1e6)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "peak"), [("bfloat16", 100e12), ("float32", 50e12), ("int8", 200e12)])
def test_matmul_reaches_the_peak_of_its_dtype(dtype: str, peak: float) -> None:
    """A large product takes 2 n**3 / peak."""
    backend = FakeBackend()
    multiply = backend.matmul(backend.devices()[0], dtype, 8192)
    start_s = backend.clock()
    multiply()
    backend.drain()
    assert 2 * 8192**3 / (backend.clock() - start_s) == pytest.approx(peak, rel=1e-2)


def test_matmul_refuses_what_the_device_lacks() -> None:
    """An unknown dtype is a usage error that lists the known ones; a huge product is out of memory."""
    backend = FakeBackend(peak_flops_per_s={"float16": 1e12})
    (device,) = backend.devices()
    with pytest.raises(RooflineUsageError, match="no products in dtype 'bfloat16'; it has float16"):
        backend.matmul(device, "bfloat16", 64)
    with pytest.raises(MemoryError):
        backend.matmul(device, "float16", 10**6)


def test_drain_waits_for_dropped_outputs_on_every_stream_and_device() -> None:
    """Work whose array nobody holds is waited for as well."""
    backend = FakeBackend(devices=2)
    backend.launch(seconds=1e-3)
    backend.launch(seconds=5e-3, stream="side")
    backend.launch(seconds=9e-3, device=1)
    backend.drain()
    assert backend.pending() == 0
    assert backend.now_s() == pytest.approx(9e-3, rel=1e-2)


def test_idle_drain_is_cheap() -> None:
    """With nothing pending a drain costs two microseconds."""
    backend = FakeBackend()
    backend.drain()
    assert backend.now_s() == pytest.approx(2e-6)


@dataclass
class Output:
    """An output as model libraries return it."""

    logits: Any
    cache: Any = None


def test_force_walks_containers_and_counts_ids() -> None:
    """Arrays are found in mappings, sequences and dataclasses, each once; ids are those of integer arrays."""
    backend = FakeBackend()
    ids = backend.launch(seconds=1e-3, size=4, is_int=True, value=[1, 2, 3, 4])
    logits = backend.launch(seconds=2e-3, size=128)
    forced = backend.force({"a": Output(logits=logits, cache=[ids, (ids, None)]), "text": "no array"})
    assert (forced.arrays, forced.ids, forced.notes) == (2, 4, ())
    assert ids.is_ready() and logits.is_ready()


def test_force_without_ids_tells_none() -> None:
    """No integer array among the outputs is None, not zero."""
    backend = FakeBackend()
    assert backend.force(backend.launch(seconds=1e-3)).ids is None
    assert backend.force("nothing").arrays == 0


def test_force_skips_deleted_arrays_with_a_note() -> None:
    """A donated output cannot be read: it is noted, and the others are forced."""
    backend = FakeBackend()
    gone, kept = backend.launch(seconds=1e-3), backend.launch(seconds=1e-3)
    gone.delete()
    forced = backend.force([gone, kept])
    assert forced.arrays == 1
    assert "deleted or donated" in forced.notes[0]
    with pytest.raises(RuntimeError, match="has been deleted"):
        gone.item()


def test_force_of_a_cycle_ends() -> None:
    """An output that contains itself is walked once."""
    backend = FakeBackend()
    output: list[Any] = [backend.launch(seconds=1e-3)]
    output.append(output)
    assert backend.force(output).arrays == 1


def test_arrays_behave_like_those_of_a_framework() -> None:
    """An array knows its device, its state and its value, and reads wait."""
    backend = FakeBackend()
    array = backend.launch(seconds=1e-3, value=[5], is_int=True)
    assert (array.device, array.size, array.is_int, array.value) == ("fake:0", 1, True, [5])
    assert "pending" in repr(array)
    assert array.item() == [5]
    assert "ready" in repr(array)
    assert array.block_until_ready() is array
    assert backend.array([1, 2, 3]).size == 3
    assert backend.array(2.0).is_ready()


def test_mark_knows_when_the_device_is_done() -> None:
    """A marker is behind everything on every device, costs nothing, and its moment is exact."""
    backend = FakeBackend(devices=2)
    backend.launch(seconds=1e-3)
    late = backend.launch(seconds=7e-3, device=1, stream="side")
    before_s = backend.now_s()
    marker = backend.mark()
    assert backend.now_s() == before_s
    backend.launch(seconds=1.0)
    assert marker.finished_s() == late.ready_s
    assert backend.now_s() == late.ready_s


def test_mark_on_an_idle_device_is_now() -> None:
    """With nothing pending a marker is reached when it is set, and waiting later does not change that."""
    backend = FakeBackend()
    backend.host(1.0)
    marker = backend.mark()
    backend.host(1.0)
    assert marker.finished_s() == 1.0
    assert backend.now_s() == 2.0


def test_device_of_knows_its_own() -> None:
    """Arrays, buffers, models and lists of arrays have a device; foreign objects have none."""
    backend = FakeBackend(devices=2)
    array = backend.launch(seconds=1e-3, device=1)
    assert backend.device_of(array) == "fake:1"
    assert backend.device_of([{"x": array}]) == "fake:1"
    assert backend.device_of(backend.buffer(1e3)) == "fake:0"
    assert backend.device_of(FakeModel(backend, 1e6, device=1)) == "fake:1"
    assert backend.device_of([FakeModel(backend, 1e6, device=1), array]) == "fake:1"
    assert backend.device_of([1, "x"]) is None


def test_trace_accounts_for_a_step() -> None:
    """The trace of a model's step equals its honest declaration, is closed, and names the device."""
    backend = FakeBackend()
    model = FakeModel(backend, 2e9, kv_bytes_per_token=1e5, batch=4, context=1000, max_context=1010)
    declared = model.traffic
    trace = backend.trace(TraceRequest(step=model.step))
    assert trace is not None
    traffic = trace.traffic
    assert traffic.source == TRACED
    assert traffic.is_closed
    for name in (
        "bytes_per_pass",
        "least_bytes_per_pass",
        "weight_bytes_per_pass",
        "kv_bytes_per_pass",
        "kv_bytes_per_token",
        "written_bytes_per_pass",
        "flops_per_pass",
        "batch",
        "context",
        "dtype",
    ):
        assert getattr(traffic, name) == pytest.approx(getattr(declared, name)), name
    assert traffic.extra_bytes_per_pass == 0
    assert trace.device_ids == ("fake:0",)
    assert trace.context_room == 9
    assert backend.force(trace.outputs).ids == 4


def test_trace_takes_only_the_virtual_time_of_the_step() -> None:
    """Tracing a step costs what the step costs."""
    traced, plain = FakeBackend(), FakeBackend()
    traced.trace(TraceRequest(step=FakeModel(traced, 1e9).step))
    FakeModel(plain, 1e9).step()
    assert traced.now_s() == plain.now_s()
    assert traced.pending_s() == plain.pending_s()


def test_trace_counts_distinct_bytes_once() -> None:
    """Bytes read twice in a step are compulsory once and extra the second time."""
    backend = FakeBackend()
    weights = backend.buffer(1e9, role="weights")
    scratch = backend.buffer(1e8, role="scratch")

    def step() -> object:
        backend.launch(buffer=weights, writes=scratch)
        backend.launch(buffer=scratch)
        return backend.launch(buffer=weights, read_bytes=5e8)

    trace = backend.trace(TraceRequest(step=step))
    assert trace is not None
    assert trace.traffic.bytes_per_pass == 1e9
    assert trace.traffic.footprint_bytes == 1e9
    assert dict(trace.traffic.extra) == {
        "the same bytes read again in one step": 5e8,
        "intermediates written and read": 2e8,
    }
    assert trace.traffic.extra[0][1] == 5e8


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda backend, model: backend.launch(read_bytes=1e6, is_opaque=True), "1 opaque launches"),
        (lambda backend, model: (model.step(), None)[1], "returned no array"),
        (lambda backend, model: [model.step(), backend.array([1])], "1 outputs written by no launch"),
    ],
)
def test_trace_is_open_when_it_cannot_see_everything(break_it: Any, reason: str) -> None:
    """Opaque launches, no output, and outputs from nowhere each open the trace and are named."""
    backend = FakeBackend()
    model = FakeModel(backend, 1e6)
    trace = backend.trace(TraceRequest(step=lambda: break_it(backend, model)))
    assert trace is not None
    assert not trace.traffic.is_closed
    assert reason in trace.traffic.notes[0]


def test_trace_of_a_replay_is_open() -> None:
    """Launches of a replayed graph are not seen."""
    backend = FakeBackend()
    graph = backend.graph(FakeModel(backend, 1e6).step)

    def step() -> object:
        backend.launch(read_bytes=1e6)
        return graph.replay()

    trace = backend.trace(TraceRequest(step=step))
    assert trace is not None
    assert trace.traffic.bytes_per_pass == 1e6
    assert not trace.traffic.is_closed


def test_memo_from_before_the_step_keeps_the_trace_closed() -> None:
    """An output that existed before the step is explained."""
    backend = FakeBackend()
    memo = backend.launch(read_bytes=1e6)

    def step() -> object:
        backend.launch(read_bytes=1e3)
        return memo

    trace = backend.trace(TraceRequest(step=step))
    assert trace is not None
    assert trace.traffic.is_closed


def test_trace_of_nothing_is_none() -> None:
    """A step that moves no bytes and does no arithmetic has no traffic to tell of."""
    backend = FakeBackend()
    assert backend.trace(TraceRequest(step=lambda: None)) is None
    assert backend.trace(TraceRequest(step=lambda: backend.launch(seconds=1.0))) is None


def test_trace_passes_arguments_and_survives_an_exception() -> None:
    """Arguments reach the step; a step that raises leaves the next trace intact."""
    backend = FakeBackend()

    def broken(size_bytes: float) -> object:
        backend.launch(read_bytes=size_bytes)
        raise KeyError("oh")

    with pytest.raises(KeyError):
        backend.trace(TraceRequest(step=broken, args=(1e6,)))
    trace = backend.trace(TraceRequest(step=lambda n: backend.launch(read_bytes=n), args=(7.0,), batch=3))
    assert trace is not None
    assert (trace.traffic.bytes_per_pass, trace.traffic.batch) == (7.0, 3)


def test_lazy_trace_submits_the_step() -> None:
    """On a lazy backend the traced step is submitted, so that it has run when the device is drained."""
    backend = FakeBackend(is_lazy=True)
    trace = backend.trace(TraceRequest(step=FakeModel(backend, 1e9).step))
    assert trace is not None
    assert trace.traffic.bytes_per_pass == 1e9
    backend.drain()
    assert trace.outputs.is_ready()


def test_trace_keeps_no_buffers() -> None:
    """The outputs of a trace do not keep its buffers alive."""
    backend = FakeBackend()
    (device,) = backend.devices()
    buffer = backend.buffer(1e9)
    trace = backend.trace(TraceRequest(step=lambda b: backend.launch(buffer=b), args=(buffer,)))
    del buffer
    assert trace is not None
    assert backend.free_memory_bytes(device) == 16e9


def test_declared_traffic_is_the_callers_word() -> None:
    """`declare` takes bytes per step, open and unchecked, with a working set of its own."""
    traffic = FakeBackend().declare(1e9, 1e6, flops=1e9, batch=2, context=5, working_set_bytes=8e6)
    assert (traffic.bytes_per_pass, traffic.written_bytes_per_pass) == (1.001e9, 1e6)
    assert (traffic.batch, traffic.context, traffic.footprint_bytes) == (2, 5, 8e6)
    assert not traffic.is_closed
    with pytest.raises(RooflineUsageError, match="-1"):
        FakeBackend().declare(-1)


def test_quiet_conditions() -> None:
    """An undisturbed device runs at its top clock, alone."""
    backend = FakeBackend()
    assert backend.conditions(backend.devices()[0]) == Conditions(clock_hz=1.5e9, max_clock_hz=1.5e9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queue_dept": 3}, "no parameter 'queue_dept'; did you mean queue_depth"),
        ({"zzz": 3}, "no parameter 'zzz'; did you mean name, read_bytes_per_s"),
        ({"queue_depth": 0}, "queue_depth is 0"),
        ({"queue_depth": 1.5}, "queue_depth is 1.5"),
        ({"read_bytes_per_s": 0}, "read_bytes_per_s is 0; it must be a positive number"),
        ({"launch_s": -1}, "launch_s is -1; it must be 0 or more"),
        ({"cache_policy": "fifo"}, "cache_policy is 'fifo'"),
        ({"sync_lies": "late"}, "sync_lies is 'late'; known are early"),
        ({"sheet_bytes_per_s": "big"}, "sheet_bytes_per_s is 'big'"),
        ({"sheet_bytes_per_s": -1.0}, "sheet_bytes_per_s is -1.0"),
        ({"peak_flops_per_s": {}}, "peak_flops_per_s is empty"),
        ({"peak_flops_per_s": -1.0}, "peak_flops_per_s of bfloat16 is -1.0"),
        ({"devices": 0}, "devices is 0"),
        ({"devices": []}, "a list of at least one device"),
        ({"device": FakeDevice(), "devices": [FakeDevice()]}, "one device with a count, or a list"),
    ],
)
def test_impossible_devices_are_usage_errors(arguments: dict[str, Any], message: str) -> None:
    """Each wrong parameter is named with its value, and a misspelt one with the nearest name."""
    with pytest.raises(RooflineUsageError, match=message):
        FakeBackend(**arguments)


def test_unnamed_peak_is_that_of_bfloat16_or_the_largest() -> None:
    """FLOPs without a dtype run at the bfloat16 peak, or at the largest where there is none."""
    assert FakeDevice().peak(None) == 100e12
    assert FakeDevice(peak_flops_per_s={"float16": 1e12, "float64": 5e11}).peak(None) == 1e12
    assert FakeDevice.item_bytes("float32") == FakeDevice.item_bytes("unheard of") == 4


def test_example_in_the_docstring_runs() -> None:
    """What the module shows first works as it stands."""
    text = fake.__doc__ or ""
    example = text[text.index("    from pytest") : text.index("Ways to be fooled")]
    exec(compile(dedent(example), "docstring", "exec"), {})


def test_ways_to_be_fooled_in_the_docstring_exist() -> None:
    """Every constructor that the module lists can be called."""
    text = fake.__doc__ or ""
    lines = dedent(text[text.index("    FakeBackend(queue_depth=32)") :]).splitlines()
    calls = [line.split("#")[0] for line in lines if line.startswith("FakeBackend(")]
    assert len(calls) >= 9
    for call in calls:
        assert isinstance(eval(call, vars(fake)), FakeBackend)
