"""What the JAX backend finds, forces, and offers to the probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.device import PATTERNS, Device  # noqa: E402
from pytest_roofline.errors import DeviceUnavailable, RooflineUsageError  # noqa: E402
from pytest_roofline.protocol import Backend  # noqa: E402


def test_it_is_a_backend(backend: JaxBackend) -> None:
    """Every verb of the protocol is there."""
    assert isinstance(backend, Backend)
    assert backend.has_context()
    device = backend.devices()[0]
    assert device.backend == "jax"
    assert backend.threads(device) is None
    assert backend.free_memory_bytes(device) > 0
    backend.conditions(device)


def test_force_reads_every_array_and_counts_ids(backend: JaxBackend) -> None:
    """Pytrees, plain objects and dataclasses are walked; integer arrays are ids, booleans are not."""

    @dataclass
    class Output:
        logits: Any
        ids: Any

    output = {"out": Output(jnp.ones((2, 3)), jnp.array([4, 5])), "mask": jnp.array([True]), "name": "x", "none": None}
    forced = backend.force((output, jnp.zeros((0, 4)), jax.random.key(1), jnp.array(7)))
    assert forced.arrays == 6
    assert forced.ids == 3
    assert forced.notes == ()
    assert backend.force({"n": 1}).ids is None


def test_force_passes_over_deleted_and_donated_arrays(backend: JaxBackend) -> None:
    """A deleted and a donated array cost a note, the others are read."""
    deleted, kept, donated = jnp.ones(2) + 1, jnp.ones(2) + 1, jnp.ones(2) + 1
    deleted.delete()
    jax.jit(lambda value: value + 1, donate_argnums=0)(donated)
    forced = backend.force([deleted, kept, donated])
    assert forced.arrays == 1
    assert "2 deleted or donated" in forced.notes[0]


def test_force_leaves_a_cache_donatable(backend: JaxBackend) -> None:
    """Reading an element keeps no view of the buffer: the next step still updates it in place."""
    step = jax.jit(lambda cache: cache.at[0].set(1.0), donate_argnums=0)
    cache = step(jnp.zeros(1024))
    backend.force(cache)
    place = cache.unsafe_buffer_pointer()
    assert step(cache).unsafe_buffer_pointer() == place


def test_force_refuses_tracers(backend: JaxBackend) -> None:
    """A tracer has no value: wrong use, with a sentence."""

    def function(value: Any) -> Any:
        backend.force(value)
        return value

    with pytest.raises(RooflineUsageError, match="tracer"):
        jax.jit(function)(jnp.ones(2))


def test_the_device_of_an_object_is_that_of_its_first_array(backend: JaxBackend) -> None:
    """Models are pytrees or hold them; an object without arrays has no device."""
    assert backend.device_of({"w": [jnp.ones(2)]}) == "cpu"
    assert backend.device_of(["no", 1]) is None


def test_kernels_run_for_every_pattern_in_their_own_buffers(backend: JaxBackend) -> None:
    """Each pattern counts about the bytes asked for, and a launch that writes reuses its buffer."""
    device = backend.devices()[0]
    for pattern in PATTERNS:
        for kernel in backend.kernels(device, pattern, 2**20):
            assert 0.9 * 2**20 <= kernel.bytes_per_launch <= 2**20
            first: Any = kernel.launch()
            assert backend.force(first).arrays == 1
            if pattern != "read":
                place = first.unsafe_buffer_pointer()
                second: Any = kernel.launch()
                assert second.unsafe_buffer_pointer() == place
    with pytest.raises(MemoryError, match="free on cpu"):
        backend.kernels(device, "read", 1e18)


def test_the_probe_data_is_random() -> None:
    """Written values fill their range and do not repeat with a short period."""
    from pytest_roofline.backends.jax_kernels import random_array

    data = random_array(jax.devices()[0], 4096, 3)
    assert -0.5 <= float(data.min()) < -0.4
    assert 0.4 < float(data.max()) < 0.5
    assert abs(float(data.mean())) < 0.05
    assert len(jnp.unique(data)) > 4000


def test_products_run_in_every_dtype_that_is_offered(backend: JaxBackend) -> None:
    """Known dtypes give a callable; unknown ones, and float64 without x64, are wrong use."""
    device = backend.devices()[0]
    for dtype in ("float32", "bfloat16", "float16", "int8"):
        assert backend.force(backend.matmul(device, dtype, 16)()).arrays == 1
    for dtype in ("float64", "tf32", "int3"):
        with pytest.raises(RooflineUsageError, match=dtype):
            backend.matmul(device, dtype, 16)
    with pytest.raises(RooflineUsageError, match="size is 0"):
        backend.matmul(device, "float32", 0)


def test_an_absent_device_is_named_with_those_that_are_here(backend: JaxBackend) -> None:
    """Asking for buffers on a device that JAX does not have lists what it has."""
    absent = Device(name="H200", kind="cuda", index=7, backend="jax")
    with pytest.raises(DeviceUnavailable, match=r"'cuda:7'.*cpu"):
        backend.kernels(absent, "read", 2**20)
