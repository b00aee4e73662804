"""What a trace counts: each byte range of a weight once, rows of a table, filled rows of a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.protocol import Trace, TraceRequest  # noqa: E402

WIDTH = 128
TOKENS = 16
VOCABULARY = 1000
FLOAT = 4


def _traced(backend: JaxBackend, step: Callable[..., Any], *args: Any, context: int | None = None) -> Trace:
    traced = backend.trace(TraceRequest(step=step, args=args, context=context))
    assert traced is not None
    return traced


def test_a_matrix_vector_step_reads_its_matrix_once(backend: JaxBackend) -> None:
    """The matrix (a closed-over constant), the vector in and the vector out; the outputs are the real ones."""
    matrix, vector = jnp.ones((WIDTH, WIDTH)), jnp.ones(WIDTH)
    step = jax.jit(lambda value: jnp.tanh(matrix @ value) + (matrix.T @ value))
    traced = _traced(backend, lambda: step(vector))
    assert traced.traffic.bytes_per_pass == FLOAT * (WIDTH * WIDTH + WIDTH + WIDTH)
    assert traced.traffic.least_bytes_per_pass == traced.traffic.bytes_per_pass
    assert traced.traffic.written_bytes_per_pass == FLOAT * WIDTH
    assert traced.traffic.flops_per_pass == 4 * WIDTH * WIDTH
    assert traced.traffic.is_closed
    assert traced.traffic.dtype == "float32"
    assert traced.device_ids == ("cpu",)
    assert jnp.array_equal(traced.outputs, step(vector))


def test_an_embedding_reads_rows_and_a_tied_head_reads_the_table_once(backend: JaxBackend) -> None:
    """A lookup alone costs its distinct rows; with the head tied to it, the table counts once."""
    table, ids = jnp.ones((VOCABULARY, WIDTH)), jnp.array([3, 7, 3])
    lookup = jax.jit(lambda rows, at: (rows[at] * 2.0).sum(0))
    traced = _traced(backend, lookup, table, ids)
    rows = traced.traffic.least_bytes_per_pass - ids.nbytes - FLOAT * WIDTH
    assert rows == 2 * FLOAT * WIDTH
    tied = jax.jit(lambda rows, at: rows[at] @ rows.T)
    traced = _traced(backend, tied, table, ids)
    assert traced.traffic.weight_bytes_per_pass == table.nbytes + ids.nbytes
    assert traced.traffic.written_bytes_per_pass == FLOAT * 3 * VOCABULARY


def _attend(cache: Any, row: Any, at: Any) -> Any:
    cache = jax.lax.dynamic_update_slice(cache, row[None], (at, 0))
    scores = jnp.where(jnp.arange(TOKENS) <= at, cache @ row, -jnp.inf)
    return jax.nn.softmax(scores) @ cache, cache


def _attend_by_index(cache: Any, row: Any, at: Any) -> Any:
    cache = cache.at[at].set(row)
    return cache @ row, cache


@pytest.mark.parametrize("function", [_attend, _attend_by_index])
def test_a_static_cache_counts_the_rows_it_holds(backend: JaxBackend, function: Callable[..., Any]) -> None:
    """Of a donated buffer updated in place: one row written, the rows before it read, the rest is extra."""
    step = jax.jit(function, donate_argnums=0)
    row = jnp.ones(WIDTH)
    state = {"cache": jnp.zeros((TOKENS, WIDTH)), "at": 4}

    def loop() -> Any:
        out, state["cache"] = step(state["cache"], row, state["at"])
        return out

    loop()
    state["at"] = 5
    traffic = _traced(backend, loop).traffic
    assert traffic.kv_bytes_per_pass == 5 * FLOAT * WIDTH
    assert 0 <= traffic.written_bytes_per_pass - FLOAT * WIDTH <= FLOAT * max(WIDTH, TOKENS)
    assert dict(traffic.extra) == {"cache room that is not filled yet": 11 * FLOAT * WIDTH}
    assert isinstance(state["cache"], jax.Array)
    assert not isinstance(state["cache"], jax.core.Tracer)


def test_a_cache_that_is_not_donated_is_extra_traffic(backend: JaxBackend) -> None:
    """XLA copies a buffer that it may not take over: read and written once more."""
    step = jax.jit(_attend)
    cache = jnp.zeros((TOKENS, WIDTH))
    traffic = _traced(backend, step, cache, jnp.ones(WIDTH), 5).traffic
    assert dict(traffic.extra)["buffer updated but not donated: copied each step"] == 2 * cache.nbytes


def test_a_cache_that_is_concatenated_is_extra_traffic(backend: JaxBackend) -> None:
    """Appending by concatenation writes one new row of need, and copies the rest."""
    step = jax.jit(
        lambda cache, row: (jnp.concatenate([cache, row[None] * 2]) @ row, jnp.concatenate([cache, row[None] * 2]))
    )
    cache = jnp.zeros((TOKENS, WIDTH))
    traffic = _traced(backend, step, cache, jnp.ones(WIDTH)).traffic
    assert traffic.kv_bytes_per_pass == cache.nbytes
    assert dict(traffic.extra)["buffer concatenated anew each step"] == 2 * cache.nbytes


def test_a_cache_at_an_unknown_place_adds_nothing_to_the_least_bytes(backend: JaxBackend) -> None:
    """Where the position comes out of the step itself, only the context that was stated counts."""
    step = jax.jit(lambda cache, row: _attend(cache, row, jnp.argmax(row)), donate_argnums=0)
    row = jnp.ones(WIDTH)
    traffic = _traced(backend, step, jnp.zeros((TOKENS, WIDTH)), row).traffic
    assert traffic.least_bytes_per_pass < 4 * FLOAT * WIDTH
    assert not traffic.is_closed
    stated = _traced(backend, step, jnp.zeros((TOKENS, WIDTH)), row, context=3).traffic
    assert stated.kv_bytes_per_pass == 3 * FLOAT * WIDTH


def test_quantized_weights_count_as_stored(backend: JaxBackend) -> None:
    """int8 weights with scales are read at one byte each, however they are widened before the product."""
    weights, scales = jnp.ones((WIDTH, WIDTH), jnp.int8), jnp.ones((WIDTH, 1))
    step = jax.jit(lambda w, s, x: (w.astype(jnp.float32) * s) @ x)
    traffic = _traced(backend, step, weights, scales, jnp.ones(WIDTH)).traffic
    assert traffic.weight_bytes_per_pass == weights.nbytes + scales.nbytes + FLOAT * WIDTH


def test_stacked_layers_count_once(backend: JaxBackend) -> None:
    """A scan over stacked layers, and a Python loop over their slices, read every layer once."""
    stack = jnp.ones((6, WIDTH, WIDTH))
    scanned = jax.jit(lambda w, x: jax.lax.scan(lambda carry, layer: (jnp.tanh(layer @ carry), None), x, w)[0])
    unrolled = jax.jit(lambda w, x: [x := jnp.tanh(w[i] @ x) for i in range(6)][-1])
    for step in (scanned, unrolled):
        traffic = _traced(backend, step, stack, jnp.ones(WIDTH)).traffic
        assert traffic.least_bytes_per_pass == stack.nbytes + 2 * FLOAT * WIDTH
        assert traffic.flops_per_pass == 6 * 2 * WIDTH * WIDTH


def test_unused_weights_and_unused_products_do_not_count(backend: JaxBackend) -> None:
    """What no output needs is removed by the compiler, and by the count."""
    used, unused = jnp.ones((WIDTH, WIDTH)), jnp.ones((WIDTH, WIDTH))

    def function(first: Any, second: Any, value: Any) -> Any:
        second @ value
        return first[:8] @ value

    traffic = _traced(backend, jax.jit(function), used, unused, jnp.ones(WIDTH)).traffic
    assert traffic.bytes_per_pass == FLOAT * (8 * WIDTH + WIDTH + 8)


def test_a_step_of_several_calls_is_one_program(backend: JaxBackend) -> None:
    """Arrays made by the step are not read from memory, and a weight used by two calls counts once."""
    matrix = jnp.ones((WIDTH, WIDTH))
    product = jax.jit(jnp.matmul)
    traffic = _traced(
        backend, lambda value: jax.nn.relu(product(matrix, product(matrix, value))), jnp.ones(WIDTH)
    ).traffic
    assert traffic.least_bytes_per_pass == matrix.nbytes + 2 * FLOAT * WIDTH
    assert traffic.is_closed


def test_what_was_compiled_ahead_is_open(backend: JaxBackend) -> None:
    """A compiled program is not seen, so the trace says that it is only a lower bound."""
    matrix = jnp.ones((WIDTH, WIDTH))
    compiled = jax.jit(jnp.matmul).lower(matrix, jnp.ones(WIDTH)).compile()
    traced = backend.trace(TraceRequest(step=lambda value: compiled(matrix, value) + 1.0, args=(jnp.ones(WIDTH),)))
    assert traced is None or not traced.traffic.is_closed


def test_a_decision_at_run_time_opens_the_trace(backend: JaxBackend) -> None:
    """A branch may or may not read its weights: they are not among the least bytes."""
    matrix = jnp.ones((WIDTH, WIDTH))
    step = jax.jit(lambda w, x: jax.lax.cond(x[0] > 0, lambda: w @ x, lambda: x))
    traffic = _traced(backend, step, matrix, jnp.ones(WIDTH)).traffic
    assert traffic.least_bytes_per_pass < matrix.nbytes
    assert not traffic.is_closed


def test_the_step_runs_once(backend: JaxBackend) -> None:
    """The traced step is called a single time, and what it raises comes through."""
    calls: list[int] = []

    def step() -> Any:
        calls.append(1)
        return jnp.ones(WIDTH) + 1

    _traced(backend, step)
    assert calls == [1]
    with pytest.raises(ZeroDivisionError):
        backend.trace(TraceRequest(step=lambda: 1 // 0))
