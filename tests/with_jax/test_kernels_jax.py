"""roofline.kernel on real JAX: jitted functions traced and declared, compiled before they are timed; opaque ones."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import numpy as np  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402
from pytest_roofline.session import Session  # noqa: E402

SECONDS = 0.3


@pytest.fixture(scope="module")
def roofline() -> Instrument:
    """One probe for all of them."""
    return Instrument(Session(added_backends=[JaxBackend()]))


@pytest.fixture(scope="module")
def matrix() -> Any:
    """16 MB."""
    return jax.random.normal(jax.random.key(0), (2048, 2048))


def measured(roofline: Instrument, kernel: Any, **given: Any) -> Any:
    """A short measurement on the processor; how fast it was is the machine's mood."""
    result = roofline.kernel(kernel, max_time_s=SECONDS, device="cpu", **given)
    assert result.verdict.outcome != "bogus"
    return result


def accessed(function: Any, *args: Any) -> float:
    """The compiler's own count of the bytes of a call: a second opinion."""
    analysis = function.lower(*args).compile().cost_analysis()
    return float((analysis[0] if isinstance(analysis, list) else analysis)["bytes accessed"])


def test_a_jitted_function_is_traced_to_the_bytes_that_xla_counts(roofline: Instrument, matrix: Any) -> None:
    """A product and a map: inputs and outputs of the pytree, as the compiled program has them."""
    product, shifted = jax.jit(lambda left, right: left @ right), jax.jit(lambda one: {"all": one + 1.0})
    vector = matrix[0]
    by_trace = measured(roofline, lambda: product(matrix, vector)).traffic
    assert by_trace.bytes_per_pass == pytest.approx(accessed(product, matrix, vector), rel=0.01)
    assert by_trace.is_closed
    mapped = measured(roofline, lambda: shifted(matrix)).traffic
    assert mapped.bytes_per_pass == pytest.approx(accessed(shifted, matrix), rel=0.01)
    assert mapped.written_bytes_per_pass == matrix.nbytes


def test_unpacked_weights_count_as_they_are_stored(roofline: Instrument) -> None:
    """int8 weights are read as bytes, whatever the compiler makes of them in between (which it counts as well)."""
    weights = jax.random.randint(jax.random.key(1), (2048, 4096), -100, 100, dtype=jnp.int8)
    scales, vector = jnp.ones(2048), jnp.ones(4096)
    unpacked = jax.jit(lambda packed, scale, right: (packed.astype(jnp.float32) @ right) * scale)
    traffic = measured(roofline, lambda: unpacked(weights, scales, vector)).traffic
    assert traffic.bytes_per_pass == pytest.approx(weights.nbytes, rel=0.01)


def test_what_xla_compiles_is_in_no_sample(roofline: Instrument, matrix: Any) -> None:
    """The first calls compile, before anything is timed; the timed ones find it done."""
    compiled: list[bool] = []

    def body(one: Any) -> Any:
        compiled.append(True)  # runs while JAX traces, and never again
        return jnp.tanh(one) * 3

    function = jax.jit(body)
    calls: list[int] = []

    def step() -> Any:
        calls.append(len(compiled))
        return function(matrix)

    result = measured(roofline, step, bytes_read=matrix.nbytes, bytes_written=matrix.nbytes)
    assert compiled and calls[0] == 0
    assert calls[-1] == len(compiled) == calls[2]
    assert [sample.compiled for sample in result.samples if sample.compiled] == []
    assert not any(finding.check == "compiled-in-window" for finding in result.findings)


def test_a_call_back_to_the_host_needs_declared_bytes(roofline: Instrument, matrix: Any) -> None:
    """As does a program compiled ahead of time: neither can be looked into, and the message says what to give."""
    shape = jax.ShapeDtypeStruct(matrix.shape, matrix.dtype)
    foreign = jax.jit(lambda one: jax.pure_callback(lambda value: np.asarray(value) * 2, shape, one))
    with pytest.raises(
        RooflineUsageError, match=r"cannot be traced, only .* \(a lower bound: pure_callback\): give byte"
    ):
        measured(roofline, lambda: foreign(matrix))
    ahead = jax.jit(lambda one: one * 2).lower(matrix).compile()
    with pytest.raises(RooflineUsageError, match="none could be traced: give bytes_read= and bytes_written="):
        measured(roofline, lambda: ahead(matrix))
    result = measured(roofline, lambda: ahead(matrix), bytes_read=matrix.nbytes, bytes_written=matrix.nbytes)
    assert result.traffic.bytes_per_pass == 2 * matrix.nbytes


def test_a_pallas_kernel_needs_declared_bytes(roofline: Instrument, matrix: Any) -> None:
    """Jitted, and interpreted on the processor: the error names the primitive, and declared it is measured."""
    pallas = pytest.importorskip("jax.experimental.pallas", exc_type=ImportError)

    def doubled(source: Any, target: Any) -> None:
        target[...] = source[...] * 2.0

    shape = jax.ShapeDtypeStruct(matrix.shape, matrix.dtype)
    kernel = jax.jit(lambda one: pallas.pallas_call(doubled, out_shape=shape, interpret=True)(one))
    with pytest.raises(RooflineUsageError, match=r"cannot be traced, only .* \(a lower bound: pallas_call\)"):
        measured(roofline, lambda: kernel(matrix))
    result = measured(roofline, lambda: kernel(matrix), bytes_read=matrix.nbytes, bytes_written=matrix.nbytes)
    assert result.traffic.bytes_per_pass == 2 * matrix.nbytes
    assert not result.evidence.traced.is_closed
