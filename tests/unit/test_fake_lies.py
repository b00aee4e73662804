"""The ways in which the fake device fools whoever measures it, each beside its honest twin."""

from __future__ import annotations

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeDevice, FakeModel


def timed(backend: FakeBackend, steps: int = 10, **launch: object) -> float:
    """Seconds between two readings around launches and a synchronize."""
    start_s = backend.perf_counter()
    for _ in range(steps):
        backend.launch(seconds=1e-3, **launch)  # type: ignore[arg-type]
    backend.synchronize()
    return backend.perf_counter() - start_s


def test_honest_synchronize_waits() -> None:
    """Without a lie, launches and a synchronize take the time of the device."""
    backend = FakeBackend()
    assert timed(backend) == pytest.approx(10e-3, rel=1e-2)
    assert backend.pending() == 0


def test_early_synchronize_returns_at_once() -> None:
    """A synchronize that lies returns with everything pending; the drain of the tool still waits."""
    backend = FakeBackend(sync_lies="early")
    assert timed(backend) < 1e-4
    assert backend.pending() == 10
    backend.drain()
    assert backend.pending() == 0


def test_wrong_stream_is_seen_on_side_streams_only() -> None:
    """Waiting for the default stream is enough for work on it, and proves nothing about another."""
    assert timed(FakeBackend(sync_lies="wrong-stream")) == pytest.approx(10e-3, rel=1e-2)
    backend = FakeBackend(sync_lies="wrong-stream")
    assert timed(backend, stream="side") < 1e-4
    backend.synchronize("side")
    assert backend.pending("side") == 10


@pytest.mark.parametrize("devices", [1, 2])
def test_wrong_device_is_never_waited_for(devices: int) -> None:
    """A synchronize of another device, or of none, is instant."""
    backend = FakeBackend(sync_lies="wrong-device", devices=devices)
    assert timed(backend) < 1e-4
    backend.drain()
    assert backend.pending() == 0


def test_default_device_is_not_all_devices() -> None:
    """Honest synchronize waits for the default device; the work was on the second."""
    backend = FakeBackend(devices=2)
    assert timed(backend, device=1) < 1e-4
    assert backend.pending(device=1) == 10
    backend.synchronize(device=1)
    assert backend.pending() == 0


def test_lying_drain_leaves_force_and_markers() -> None:
    """When the drain lies too, reading a value and the marker still tell when the device is done."""
    backend = FakeBackend(drain_lies=True)
    array = backend.launch(seconds=1.0)
    marker = backend.mark()
    backend.drain()
    assert backend.pending() == 1
    assert marker.finished_s() == pytest.approx(1.0, rel=1e-3)
    backend.force(array)
    assert backend.pending() == 0


def test_missing_synchronize_shrinks_as_the_loop_grows() -> None:
    """Without any wait, 32 steps look hundreds of times too fast, 512 steps nearly right."""

    def factor(steps: int) -> float:
        backend = FakeBackend(queue_depth=32)
        start_s = backend.perf_counter()
        for _ in range(steps):
            backend.launch(seconds=3e-3)
        claimed_s = backend.perf_counter() - start_s
        backend.drain()
        return (backend.perf_counter() - start_s) / claimed_s

    assert factor(32) > 300
    assert 1.9 < factor(64) < 2.1
    assert 1.0 < factor(512) < 1.1


@pytest.mark.parametrize(("scale", "expected_s"), [(1.0, 5e-3), (1e-3, 5e-6), (0.0, 0.0), (-1.0, -5e-3)])
def test_event_clock_lies_by_its_scale(scale: float, expected_s: float) -> None:
    """Unit errors, a dead clock and one that runs backwards are scales of the elapsed time."""
    backend = FakeBackend(event_scale=scale)
    start, end = backend.event(), backend.event()
    start.record()
    backend.launch(seconds=5e-3)
    end.record()
    end.synchronize()
    assert start.elapsed_s(end) == pytest.approx(expected_s, rel=1e-2)


def test_event_stamped_at_enqueue_times_the_host() -> None:
    """An event that takes its time when queued shows launches, and not the device."""
    backend = FakeBackend(event_at_enqueue=True)
    start, end = backend.event(), backend.event()
    start.record()
    backend.launch(seconds=5e-3)
    end.record()
    end.synchronize()
    assert start.elapsed_s(end) == pytest.approx(5e-6)
    assert backend.now_s() > 5e-3


def test_lost_device_raises_from_its_moment_on() -> None:
    """Whoever launches, waits or reads after the loss is told; the clock still runs."""
    backend = FakeBackend(lost_at_s=0.5)
    array = backend.launch(seconds=0.1)
    array.item()
    late = backend.launch(seconds=10.0)
    with pytest.raises(RuntimeError, match=r"device lost: fake:0 at 0\.5 s"):
        backend.synchronize()
    assert backend.now_s() == 0.5
    for call in (lambda: backend.launch(seconds=1.0), backend.drain, late.item, lambda: backend.buffer(1.0)):
        with pytest.raises(RuntimeError, match="device lost"):
            call()
    assert backend.clock() > 0.5


def test_lost_device_does_not_take_the_other_along() -> None:
    """Only the device that is lost raises."""
    backend = FakeBackend(devices=[FakeDevice(lost_at_s=0.0), FakeDevice()])
    with pytest.raises(RuntimeError, match="device lost"):
        backend.launch(seconds=1.0)
    backend.launch(seconds=1.0, device=1)


def test_lazy_loop_with_synchronize_proves_nothing() -> None:
    """64 lazy steps and the right call at the right place take no time; reading the value takes all of it."""
    backend = FakeBackend(is_lazy=True)
    model = FakeModel(backend, weight_bytes=1e9)
    start_s = backend.perf_counter()
    for _ in range(64):
        token = model.step()
    backend.synchronize()
    claimed_s = backend.perf_counter() - start_s
    token.item()
    assert (backend.perf_counter() - start_s) / claimed_s > 50
