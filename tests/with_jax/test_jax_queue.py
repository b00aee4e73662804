"""Drain and mark: nothing that this thread dispatched is still running afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402

Pending = Callable[[], "list[jax.Array]"]


def test_kept_outputs_are_drained(backend: JaxBackend, pending: Pending) -> None:
    """The outputs of an un-drained loop are ready after a drain, and were not before."""
    outputs = pending()
    backend.drain()
    assert all(output.is_ready() for output in outputs)


def test_dropped_outputs_are_drained(backend: JaxBackend, pending: Pending, monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent products are finished even where no live array leads to them: the queue alone does it."""
    monkeypatch.setattr(jax, "live_arrays", lambda *_: [])
    outputs = pending()
    backend.drain()
    assert all(output.is_ready() for output in outputs)


def test_a_second_drain_finds_nothing(backend: JaxBackend, pending: Pending) -> None:
    """After a drain of truly dropped outputs a marker is reached at once: nothing stands before it."""
    pending()
    backend.drain()
    marker = backend.mark()
    assert marker is not None
    assert marker.is_finished


def test_a_drain_waits_for_the_live_arrays_of_other_threads(backend: JaxBackend, pending: Pending) -> None:
    """Kept outputs that another thread dispatched are waited for."""
    outputs: list[jax.Array] = []
    thread = threading.Thread(target=lambda: outputs.extend(pending()))
    thread.start()
    thread.join()
    backend.drain()
    assert all(output.is_ready() for output in outputs)


def test_a_drain_survives_deleted_arrays(backend: JaxBackend) -> None:
    """A deleted array has nothing to wait for."""
    array = jnp.ones(3) + 1
    array.delete()
    backend.drain()


def test_a_drain_inside_a_trace_is_wrong_use(backend: JaxBackend) -> None:
    """Waiting inside a function that is being traced is refused with a sentence."""

    def function(value: jax.Array) -> jax.Array:
        backend.drain()
        return value

    with pytest.raises(RooflineUsageError, match="while it traces"):
        jax.jit(function)(jnp.ones(2))


def test_a_marker_is_stamped_when_the_work_before_it_is_done(backend: JaxBackend, pending: Pending) -> None:
    """The stamp lies after the work before the marker, and before the work that came later."""
    outputs = pending()
    marker = backend.mark()
    submitted_s = backend.clock()
    assert marker is not None
    stamp_s = marker.finished_s()
    assert all(output.is_ready() for output in outputs)
    later = pending()
    later_s = backend.clock()
    behind = backend.mark()
    assert behind is not None
    assert stamp_s <= later_s <= behind.finished_s()
    assert all(output.is_ready() for output in later)
    assert marker.finished_s() == stamp_s
    assert submitted_s < behind.finished_s()


def test_a_marker_does_not_wait(backend: JaxBackend, pending: Pending) -> None:
    """Two markers behind pending work are reached in their order, and the first is pending when it is made."""
    pending()
    first = backend.mark()
    second = backend.mark()
    assert first is not None
    assert second is not None
    assert first.finished_s() <= second.finished_s()


def test_a_marker_on_an_idle_device_is_stamped_on_the_spot(backend: JaxBackend) -> None:
    """With nothing pending, the stamp lies between two readings around the call."""
    backend.drain()
    before_s = backend.clock()
    marker = backend.mark()
    after_s = backend.clock()
    assert marker is not None
    assert before_s <= marker.finished_s() <= after_s


def test_preparing_starts_no_client() -> None:
    """Where JAX is imported and was not used yet, there is nothing to compile for, and it stays so."""
    code = """
        import jax
        from pytest_roofline.backends.jax import JaxBackend

        backend = JaxBackend()
        backend.prepare()
        assert not backend.has_context()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=_ENVIRONMENT, check=True)


_ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}

_TWO_DEVICES = """
    import jax, jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from pytest_roofline.backends.jax import JaxBackend

    devices = jax.local_devices()
    assert len(devices) == 2
    backend = JaxBackend()
    backend.prepare()
    assert [device.id for device in backend.devices()] == ["cpu"]
    mesh = Mesh(devices, ("d",))
    step = jax.jit(lambda matrix: jnp.tanh(matrix @ matrix.T))
    ones = jnp.ones((700, 700))
    places = [*devices, NamedSharding(mesh, PartitionSpec("d"))]
    jax.live_arrays = lambda *_: []          # the queues alone must do it
    for place in places:
        matrix = jax.device_put(ones, place)
        step(matrix).block_until_ready()
        outputs = [step(matrix) for _ in range(8)]
        backend.drain()
        assert all(output.is_ready() for output in outputs), place
        outputs = [step(matrix) for _ in range(8)]
        backend.mark().finished_s()
        assert all(output.is_ready() for output in outputs), place
        assert backend.force(outputs).arrays == 8
        assert backend.device_of(outputs) == "cpu"
    print("drained")
"""


def test_every_forced_host_device_and_every_sharded_computation_is_drained() -> None:
    """With two host devices, work on either and work sharded over both has finished after drain and mark."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_TWO_DEVICES)],
        env={**_ENVIRONMENT, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout.strip().endswith("drained"), run.stderr


_NO_CONTEXT = """
    import sys
    from pytest_roofline.backends.jax import JaxBackend

    backend = JaxBackend()
    assert not backend.has_context() and "jax" not in sys.modules
    assert backend.mark() is None and backend.force([1]).arrays == 0 and backend.device_of([1]) is None
    backend.drain()
    assert "jax" not in sys.modules
    import jax
    assert not backend.has_context()
    backend.drain()
    assert backend.mark() is None
    assert not jax._src.xla_bridge.backends_are_initialized()
    jax.numpy.zeros(1)
    assert backend.has_context() and backend.mark() is not None
    print("left alone")
"""


def test_asking_creates_no_context() -> None:
    """Neither importing the backend nor asking, draining or marking imports JAX or creates a client."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_NO_CONTEXT)],
        env=_ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout.strip().endswith("left alone"), run.stderr
