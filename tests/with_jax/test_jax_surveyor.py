"""What lies in the arrays of a traced JAX step: pages of the host, as far as it tells."""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import numpy as np  # noqa: E402

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.protocol import TraceRequest  # noqa: E402

SIDE = 2048
BYTES = 4 * SIDE * SIDE
needs_pagemap = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not os.access("/proc/self/pagemap", os.R_OK), reason="needs a pagemap"
)


def untouched() -> np.ndarray:
    """Zeros that nobody wrote, on a page of their own, so that JAX may take them without a copy."""
    mapping = mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(mapping, np.float32).reshape(SIDE, SIDE)


def survey(weights: Any) -> Any:
    """Trace a product with these weights, wait for it, look."""
    product = jax.jit(lambda matrix, vector: matrix @ vector)
    hidden = jax.numpy.ones(SIDE)
    trace = JaxBackend().trace(TraceRequest(step=lambda: product(weights, hidden)))
    assert trace is not None
    assert trace.surveyor is not None
    jax.block_until_ready(trace.outputs)
    return trace.surveyor.survey()


@needs_pagemap
def test_an_array_over_untouched_memory_is_found() -> None:
    """Taken from numpy without a copy, as far as this JAX does that."""
    memory = untouched()
    weights = jax.device_put(memory, may_alias=True)
    if weights.unsafe_buffer_pointer() != memory.ctypes.data:
        pytest.skip("this JAX copies")
    assert survey(weights).untouched_bytes == pytest.approx(BYTES, rel=0.01)


@needs_pagemap
@pytest.mark.parametrize("kind", ["zeros", "random", "copied"])
def test_arrays_that_jax_wrote_are_not_accused(kind: str) -> None:
    """Its own zeros, random numbers, a copy of untouched memory."""
    made = {
        "zeros": lambda: jax.numpy.zeros((SIDE, SIDE)),
        "random": lambda: jax.random.normal(jax.random.key(0), (SIDE, SIDE)),
        "copied": lambda: jax.numpy.array(untouched(), copy=True) + 0.0,
    }[kind]()
    assert survey(jax.block_until_ready(made)).untouched_bytes == 0


def test_a_deleted_array_is_not_looked_at() -> None:
    """Donated since the trace."""
    weights = jax.numpy.ones((SIDE, SIDE))
    product = jax.jit(lambda matrix: matrix.sum())
    trace = JaxBackend().trace(TraceRequest(step=lambda: product(weights)))
    assert trace is not None
    assert trace.surveyor is not None
    jax.block_until_ready(trace.outputs)
    weights.delete()
    assert trace.surveyor.survey() is None
