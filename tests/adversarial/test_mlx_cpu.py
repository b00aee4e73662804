"""A lazy framework: a correctly placed synchronize proves nothing, only forcing the outputs does."""

from __future__ import annotations

import time

import pytest

mx = pytest.importorskip("mlx.core")

from pytest_roofline.errors import BogusMeasurement  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402

SIZE = 768


def test_a_graph_that_was_never_evaluated_is_bogus(roofline: Instrument) -> None:
    """32 products and a synchronize take no time; the claim forces the value, and that takes all of it."""
    weights = mx.random.normal((SIZE, SIZE))
    mx.eval(weights)
    with pytest.raises(BogusMeasurement, match="never evaluated before"), roofline.audit() as audit:
        state = mx.ones((SIZE, SIZE))
        start = time.perf_counter()
        for _ in range(32):
            state = mx.tanh(weights @ state)
        mx.synchronize()
        audit.claim(tokens=32, seconds=time.perf_counter() - start, outputs=state)


def test_an_evaluated_loop_is_believed(roofline: Instrument) -> None:
    """With `mx.eval` before the stop the same loop passes."""
    weights = mx.random.normal((SIZE, SIZE))
    mx.eval(weights)
    with roofline.audit() as audit:
        state = mx.ones((SIZE, SIZE))
        start = time.perf_counter()
        for _ in range(32):
            state = mx.tanh(weights @ state)
        mx.eval(state)
        audit.claim(tokens=32, seconds=time.perf_counter() - start, outputs=state)
    assert audit.result.verdict.outcome == "passed"


def test_decode_runs_what_is_lazy(roofline: Instrument) -> None:
    """Each pass is submitted inside the loop, or an honest lazy loop would never run and look impossibly fast."""
    weights = mx.random.normal((4096, 2048))
    hidden = mx.random.normal((2048,))
    mx.eval(weights, hidden)
    result = roofline.decode(lambda: weights @ hidden, traffic=weights.nbytes)
    assert result.verdict.outcome != "bogus"
