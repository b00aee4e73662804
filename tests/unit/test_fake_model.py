"""The model on the fake device."""

from __future__ import annotations

from inspect import cleandoc
from textwrap import dedent

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.backends.fake_model import COPIED
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import TraceRequest


def step_s(backend: FakeBackend, model: FakeModel, steps: int = 20) -> float:
    """Virtual seconds per step, drained."""
    backend.drain()
    start_s = backend.now_s()
    for _ in range(steps):
        model.step()
    backend.drain()
    return (backend.now_s() - start_s) / steps


@pytest.mark.parametrize("efficiency", [0.4, 0.8, 1.0])
def test_step_takes_its_bytes_at_its_efficiency(efficiency: float) -> None:
    """A step of 2 GB at 1 TB/s takes 2 ms divided by the efficiency."""
    backend = FakeBackend()
    model = FakeModel(backend, 2e9, efficiency=efficiency)
    assert step_s(backend, model) == pytest.approx(2e-3 / efficiency, rel=1e-2)


def test_kv_cache_grows_with_the_context() -> None:
    """Each step reads the cache at its context, writes one row, and makes the context one longer."""
    backend = FakeBackend()
    model = FakeModel(backend, 1e9, kv_bytes_per_token=1e6, batch=2, context=100, efficiency=1.0)
    first, second = model.traffic, (model.step(), model.traffic)[1]
    assert first.kv_bytes_per_pass == 2e8
    assert second.kv_bytes_per_pass == 2.02e8
    assert first.at_context(101).bytes_per_pass == second.bytes_per_pass
    assert model.context == 101
    assert backend.busy_s() == pytest.approx(first.bytes_per_pass / 1e12, rel=1e-2)


def test_ids_are_one_per_sequence_and_repeat_after_reset() -> None:
    """A step returns the ids of the batch, the same ones after a reset."""
    backend = FakeBackend()
    model = FakeModel(backend, 1e6, batch=3, context=5)
    first = [model.step().item() for _ in range(4)]
    model.reset()
    assert model.context == 5
    assert [model.step().item() for _ in range(4)] == first
    assert len({tuple(ids) for ids in first}) == 4
    assert backend.force(model.step()).ids == 3


def test_static_cache_overrun_is_a_device_side_assert() -> None:
    """A step beyond the room of a static cache fails; a reset makes room."""
    model = FakeModel(FakeBackend(), 1e6, kv_bytes_per_token=1e3, context=8, max_context=10)
    assert model.context_room == 2
    model.step()
    model.step()
    with pytest.raises(RuntimeError, match="device-side assert: the KV cache is full \\(10 tokens\\)"):
        model.step()
    model.reset()
    model.step()


def test_growing_cache_takes_memory_until_there_is_none() -> None:
    """Without a static cache the room doubles, and runs out of memory in the end."""
    backend = FakeBackend(memory_bytes=2e9)
    (device,) = backend.devices()
    model = FakeModel(backend, 1e9, kv_bytes_per_token=1e6, context=60)
    assert model.context_room is None
    assert backend.free_memory_bytes(device) == pytest.approx(1e9 - 64e6)

    def decode_on() -> None:
        for _ in range(1000):
            model.step()

    with pytest.raises(MemoryError):
        decode_on()


def test_copied_cache_is_slower_and_named_in_the_trace() -> None:
    """A cache concatenated anew costs time, and the trace names the extra bytes."""
    backend = FakeBackend()
    good = FakeModel(backend, 1e9, kv_bytes_per_token=1e5, context=2000)
    slow = FakeModel(backend, 1e9, kv_bytes_per_token=1e5, context=2000, copies_kv=True)
    assert step_s(backend, slow) > 1.2 * step_s(backend, good)
    slow.reset()
    trace = backend.trace(TraceRequest(step=slow.step, model=slow))
    assert trace is not None
    assert trace.traffic.extra == ((COPIED, 4e8),)
    slow.reset()
    assert trace.traffic.bytes_per_pass == slow.traffic.bytes_per_pass


def test_slow_host_bounds_the_step() -> None:
    """Host work longer than the device's is what a step takes."""
    backend = FakeBackend()
    assert step_s(backend, FakeModel(backend, 1e9, host_s=5e-3)) == pytest.approx(5e-3, rel=2e-2)


def test_small_model_runs_from_cache() -> None:
    """Weights that fit the cache are read four times too fast."""
    backend = FakeBackend(launch_s=0.0)
    model = FakeModel(backend, 20e6, efficiency=1.0)
    model.step()
    assert step_s(backend, model) == pytest.approx(20e6 / 4e12, rel=3e-2)


def test_model_can_live_on_a_side_stream_and_another_device() -> None:
    """Stream and device of the launches are those it was given."""
    backend = FakeBackend(devices=2)
    model = FakeModel(backend, 1e9, kv_bytes_per_token=1e6, context=40, stream="side", device=1)
    assert model.step().device == "fake:1"
    assert backend.pending("side", device=1) == 5
    assert backend.pending(device=0) == 0


def test_opaque_model_opens_the_trace() -> None:
    """A model in an extension cannot be seen through."""
    backend = FakeBackend()
    trace = backend.trace(TraceRequest(step=FakeModel(backend, 1e9, is_opaque=True).step))
    assert trace is not None
    assert not trace.traffic.is_closed


def test_example_in_the_docstring_runs() -> None:
    """What the class shows works as it stands."""
    text = cleandoc(FakeModel.__doc__ or "")  # Python 3.13 takes the indentation away by itself
    example = text[text.index("    backend =") : text.index("A step launches")]
    names = {"FakeBackend": FakeBackend, "FakeModel": FakeModel}
    exec(compile(dedent(example), "docstring", "exec"), names)
    assert names["ids"].size == 4
    assert names["model"].context == 2048


def test_model_in_a_graph_replays() -> None:
    """A captured step replays with one launch of overhead."""
    backend = FakeBackend()
    graph = backend.graph(FakeModel(backend, 1e9, efficiency=1.0).step)
    start_s = backend.now_s()
    for _ in range(10):
        graph.replay()
    assert backend.now_s() - start_s == pytest.approx(50e-6)
    backend.drain()
    assert backend.busy_s() == pytest.approx(10e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weight_bytes": -1.0}, "weight_bytes is -1.0"),
        ({"kv_bytes_per_token": float("nan")}, "kv_bytes_per_token is nan"),
        ({"batch": 0}, "batch is 0"),
        ({"layers": 0}, "layers is 0"),
        ({"context": 9, "max_context": 8}, "context is 9; it must lie between 0 and 8"),
    ],
)
def test_impossible_models_are_usage_errors(arguments: dict[str, float], message: str) -> None:
    """Each wrong argument is named with its value."""
    with pytest.raises(RooflineUsageError, match=message):
        FakeModel(FakeBackend(), **{"weight_bytes": 1e6, **arguments})  # type: ignore[arg-type]


def test_model_that_does_not_fit_is_out_of_memory() -> None:
    """Weights larger than the memory raise MemoryError and give back what they took."""
    backend = FakeBackend(memory_bytes=1e9)
    with pytest.raises(MemoryError):
        FakeModel(backend, 2e9)
    assert backend.free_memory_bytes(backend.devices()[0]) == pytest.approx(1e9)
