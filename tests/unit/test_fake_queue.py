"""The fake device as a machine: launches, streams, full queues, graphs, events, lazy evaluation."""

from __future__ import annotations

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeDevice
from pytest_roofline.errors import RooflineUsageError

LAUNCH_S = 5e-6
SYNC_S = 2e-6


def elapsed(backend: FakeBackend, start_s: float) -> float:
    """Virtual seconds since `start_s`, without advancing the clock."""
    return backend.now_s() - start_s


def test_launch_returns_before_the_device_is_done() -> None:
    """A launch costs the host its overhead alone, however long the kernel takes."""
    backend = FakeBackend()
    array = backend.launch(read_bytes=10e9)
    assert backend.now_s() == pytest.approx(LAUNCH_S)
    assert not array.is_ready()
    assert array.ready_s == pytest.approx(LAUNCH_S + 10e-3)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        ({"read_bytes": 1e9}, 1e-3),
        ({"write_bytes": 1e9}, 1e-3 / 0.92),
        ({"read_bytes": 1e9, "write_bytes": 1e9}, 2e-3 / 0.9),
        ({"read_bytes": 2e9, "write_bytes": 1e9}, 3e-3 / 0.87),
        ({"flops": 1e11}, 1e-3),
        ({"flops": 1e11, "dtype": "float32"}, 2e-3),
        ({"flops": 1e9, "read_bytes": 1e9}, 1e-3),
        ({"flops": 1e12, "read_bytes": 1e9}, 10e-3),
        ({"read_bytes": 1e9, "efficiency": 0.5}, 2e-3),
        ({"read_bytes": 1e9, "seconds": 0.25}, 0.25),
        ({}, 0.0),
    ],
)
def test_duration_is_the_slowest_resource(work: dict[str, float], seconds: float) -> None:
    """A launch takes the larger of memory and compute time, at the rate of its pattern and its efficiency."""
    backend = FakeBackend()
    backend.launch(**work)  # type: ignore[arg-type]
    assert backend.busy_s() == pytest.approx(seconds)


def test_launches_of_one_stream_follow_each_other() -> None:
    """Ten queued kernels end ten durations after the first could start."""
    backend = FakeBackend()
    for _ in range(10):
        last = backend.launch(read_bytes=1e9)
    assert last.ready_s == pytest.approx(LAUNCH_S + 10e-3)
    assert backend.pending() == 10


def test_device_idles_while_the_host_is_slow() -> None:
    """Kernels shorter than a launch leave the device waiting for the host: time goes by launches."""
    backend = FakeBackend()
    for _ in range(100):
        backend.launch(read_bytes=1e6)
    backend.synchronize()
    assert backend.now_s() == pytest.approx(100 * LAUNCH_S + SYNC_S, rel=1e-3)
    assert backend.busy_s() == pytest.approx(100e-6)


def test_two_streams_share_the_bandwidth() -> None:
    """Work on two streams takes as long as the same work on one."""
    backend = FakeBackend()
    backend.launch(read_bytes=1e9, stream="left")
    backend.launch(read_bytes=1e9, stream="right")
    backend.synchronize()
    assert backend.now_s() == pytest.approx(2e-3 + LAUNCH_S)


def test_synchronizing_one_stream_leaves_the_other_alone() -> None:
    """The wait on an idle stream is instant, though the library's own stream is busy."""
    backend = FakeBackend()
    backend.launch(read_bytes=10e9, stream="library")
    backend.synchronize("default")
    assert backend.now_s() < 1e-4
    assert backend.pending("library") == 1
    backend.synchronize("library")
    assert backend.pending() == 0


def test_full_queue_blocks_the_host() -> None:
    """With 32 slots the 33rd launch waits for the first kernel, and so on at the pace of the device."""
    backend = FakeBackend(queue_depth=32)
    for _ in range(32):
        backend.launch(seconds=1e-3)
    assert backend.now_s() == pytest.approx(32 * LAUNCH_S)
    for _ in range(32):
        backend.launch(seconds=1e-3)
        assert backend.pending() <= 32
    assert backend.now_s() == pytest.approx(32e-3 + LAUNCH_S, rel=1e-2)
    assert backend.pending_s() == pytest.approx(32e-3, rel=1e-2)


def test_queue_depth_counts_per_stream() -> None:
    """A full stream does not block launches on another."""
    backend = FakeBackend(queue_depth=1)
    backend.launch(seconds=1.0, stream="full")
    backend.launch(seconds=1.0, stream="other")
    assert backend.now_s() == pytest.approx(2 * LAUNCH_S)


def test_graph_replay_costs_one_launch() -> None:
    """Capturing runs nothing; a replay runs all of it for the host cost of one launch."""
    backend = FakeBackend()

    def step() -> object:
        for _ in range(50):
            written = backend.launch(read_bytes=1e6)
        return written

    graph = backend.graph(step)
    assert backend.now_s() == 0
    assert backend.launches() == 0
    outputs = graph.replay()
    assert backend.now_s() == pytest.approx(LAUNCH_S)
    assert backend.launches() == 50
    backend.synchronize()
    assert backend.busy_s() == pytest.approx(50e-6)
    assert graph.replay() is outputs


def test_outputs_of_a_graph_are_written_anew() -> None:
    """The static output of a graph is pending again after each replay."""
    backend = FakeBackend()
    graph = backend.graph(lambda: backend.launch(seconds=1e-3))
    first = graph.replay()
    first.item()
    assert first.is_ready()
    graph.replay()
    assert not first.is_ready()
    first.item()
    assert backend.busy_s() == pytest.approx(2e-3)


def test_output_of_a_graph_that_never_ran_is_not_waited_for() -> None:
    """Reading a static output before any replay is instant: nothing will write it."""
    backend = FakeBackend()
    graph = backend.graph(lambda: backend.launch(seconds=1.0))
    graph.outputs.item()
    assert backend.now_s() < 1e-4


def test_nothing_waits_inside_a_capture() -> None:
    """Drain, synchronize and force inside graph capture are usage errors, and the capture ends."""
    backend = FakeBackend()
    array = backend.launch(seconds=1e-3)
    for wait in (backend.drain, backend.synchronize, array.item, lambda: backend.force(array)):
        with pytest.raises(RooflineUsageError, match="capture is under way"):
            backend.graph(wait)
    backend.drain()


def test_replaying_a_graph_inside_a_capture_is_an_error() -> None:
    """Graphs do not nest."""
    backend = FakeBackend()
    graph = backend.graph(lambda: backend.launch(seconds=1e-3))
    with pytest.raises(RooflineUsageError, match="capture is under way"):
        backend.graph(graph.replay)


def test_empty_graph_costs_nothing() -> None:
    """A graph that captured no launch replays in no time."""
    backend = FakeBackend()
    assert backend.graph(lambda: 7).replay() == 7
    assert backend.now_s() == 0


def test_event_pair_times_its_own_stream() -> None:
    """Events around a kernel give the kernel's time once they are reached."""
    backend = FakeBackend()
    start, end = backend.event(), backend.event()
    start.record()
    backend.launch(seconds=3e-3)
    end.record()
    assert not end.query()
    with pytest.raises(RuntimeError, match="not reached yet"):
        start.elapsed_s(end)
    end.synchronize()
    assert end.query()
    assert start.elapsed_s(end) == pytest.approx(3e-3, rel=1e-2)


def test_event_on_another_stream_sees_nothing() -> None:
    """Events on the default stream bracket none of the work of a side stream."""
    backend = FakeBackend()
    start, end = backend.event(), backend.event()
    start.record()
    backend.launch(seconds=3e-3, stream="side")
    end.record()
    backend.synchronize()
    assert start.elapsed_s(end) == pytest.approx(LAUNCH_S)


def test_joined_streams_are_seen_by_the_event() -> None:
    """After the default stream waits for the side stream, an event on it covers both."""
    backend = FakeBackend()
    start, end = backend.event(), backend.event()
    start.record()
    backend.launch(seconds=3e-3, stream="side")
    backend.wait_stream("default", "side")
    end.record()
    backend.synchronize("default")
    assert start.elapsed_s(end) == pytest.approx(3e-3, rel=1e-2)
    assert backend.pending() == 0


def test_unrecorded_event_has_no_time() -> None:
    """An event that was never recorded is complete, and has no elapsed time."""
    backend = FakeBackend()
    start, end = backend.event(), backend.event()
    assert start.query()
    start.synchronize()
    with pytest.raises(RuntimeError, match="never recorded"):
        start.elapsed_s(end)


def test_starved_device_makes_events_long_not_short() -> None:
    """Host work between short kernels shows up in the event interval."""
    backend = FakeBackend()
    start, end = backend.event(), backend.event()
    start.record()
    for _ in range(10):
        backend.host(100e-6)
        backend.launch(seconds=20e-6)
    end.record()
    end.synchronize()
    assert start.elapsed_s(end) > 1e-3
    assert backend.busy_s() == pytest.approx(200e-6)


def test_devices_work_at_the_same_time() -> None:
    """Two devices share no bandwidth."""
    backend = FakeBackend(devices=2)
    backend.launch(seconds=1.0)
    backend.launch(seconds=1.0, device=1)
    backend.drain()
    assert backend.now_s() == pytest.approx(1.0, rel=1e-3)


def test_work_on_another_devices_result_waits_for_it() -> None:
    """A launch whose input is being written on another device starts when that is done."""
    backend = FakeBackend(devices=2)
    first = backend.launch(seconds=1.0)
    second = backend.launch(seconds=0.5, device=1, inputs=[first])
    assert second.ready_s == pytest.approx(1.5, rel=1e-3)


def test_devices_may_differ() -> None:
    """A list of devices gives each its own figures."""
    backend = FakeBackend(devices=[FakeDevice(), FakeDevice(read_bytes_per_s=2e12, name="Fast")])
    backend.launch(read_bytes=1e9)
    backend.launch(read_bytes=1e9, device=1)
    assert backend.busy_s(0) == pytest.approx(2 * backend.busy_s(1))
    assert [device.name for device in backend.devices()] == ["Fake Accelerator", "Fast"]


def test_lazy_launches_run_only_when_forced() -> None:
    """On a lazy backend neither synchronize nor drain runs a graph; forcing the last array runs all of it."""
    backend = FakeBackend(is_lazy=True)
    for _ in range(64):
        last = backend.launch(seconds=1e-3)
    backend.synchronize()
    backend.drain()
    assert backend.now_s() < 1e-3
    assert last.ready_s is None
    assert backend.launches() == 0
    start_s = backend.now_s()
    assert backend.force(last).arrays == 1
    assert elapsed(backend, start_s) == pytest.approx(64e-3, rel=1e-2)


def test_submitting_a_lazy_array_does_not_wait() -> None:
    """A submitted graph runs while the host goes on, and then synchronize waits for it."""
    backend = FakeBackend(is_lazy=True)
    array = backend.launch(seconds=10e-3)
    backend.submit([array])
    assert backend.now_s() < 1e-4
    assert backend.pending() == 1
    backend.synchronize()
    assert array.is_ready()


def test_lazy_array_with_inputs_leaves_other_nodes_alone() -> None:
    """With explicit inputs only those are run: a dropped result costs nothing, as in a lazy framework."""
    backend = FakeBackend(is_lazy=True)
    weights = backend.array([1.0, 2.0])
    backend.launch(seconds=1.0, inputs=[weights])
    kept = backend.launch(seconds=1e-3, inputs=[weights])
    final = backend.launch(seconds=1e-3, inputs=[kept])
    backend.force(final)
    assert backend.launches() == 2
    assert backend.busy_s() == pytest.approx(2e-3)


def test_lazy_diamond_runs_every_node_once() -> None:
    """A node that two others depend on is run once."""
    backend = FakeBackend(is_lazy=True)
    top = backend.launch(seconds=1e-3, inputs=())
    left = backend.launch(seconds=1e-3, inputs=[top])
    right = backend.launch(seconds=1e-3, inputs=[top])
    bottom = backend.launch(seconds=1e-3, inputs=[left, right])
    backend.force([bottom, left])
    assert backend.launches() == 4


def test_probing_a_lazy_backend_leaves_the_users_graph_alone() -> None:
    """A probe kernel between two unforced launches is no part of their chain, and does not break it."""
    backend = FakeBackend(is_lazy=True)
    backend.launch(seconds=1e-3)
    backend.kernels(backend.devices()[0], "read", 1e9)[0].launch()
    assert backend.launches() == 1
    last = backend.launch(seconds=1e-3)
    backend.force(last)
    assert backend.launches() == 3


def test_long_lazy_chain_needs_no_recursion() -> None:
    """Ten thousand unforced passes are one chain, and forcing its end works."""
    backend = FakeBackend(is_lazy=True)
    for _ in range(10_000):
        last = backend.launch(seconds=1e-6)
    last.item()
    assert backend.launches() == 10_000


def test_lazy_backend_has_no_graph_capture() -> None:
    """Capture on a lazy backend is a usage error."""
    with pytest.raises(RooflineUsageError, match="lazy backend has no graph capture"):
        FakeBackend(is_lazy=True).graph(lambda: None)


def test_host_work_overlaps_the_device() -> None:
    """The host's own work hides behind a longer kernel."""
    backend = FakeBackend()
    backend.launch(seconds=10e-3)
    backend.host(4e-3)
    backend.busy_wait(4e-3)
    assert backend.now_s() == pytest.approx(8e-3 + LAUNCH_S)
    backend.synchronize()
    assert backend.now_s() == pytest.approx(10e-3 + LAUNCH_S)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"efficiency": 0.0}, "efficiency is 0.0"),
        ({"efficiency": 1.5}, "at most 1"),
        ({"seconds": -1.0}, "seconds is -1.0"),
        ({"flops": float("nan")}, "flops is nan"),
        ({"read_bytes": -1.0}, "read_bytes is -1.0"),
        ({"write_bytes": float("inf")}, "write_bytes is inf"),
        ({"device": 3}, "no device 3; there are fake:0"),
        ({"flops": 1.0, "dtype": "float3"}, "no products in dtype 'float3'"),
    ],
)
def test_impossible_launches_are_usage_errors(arguments: dict[str, float], message: str) -> None:
    """Each wrong argument of a launch is named with its value."""
    with pytest.raises(RooflineUsageError, match=message):
        FakeBackend().launch(**arguments)  # type: ignore[arg-type]
