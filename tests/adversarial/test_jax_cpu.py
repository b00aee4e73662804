"""Cheats and honest programs in JAX on the CPU, which is asynchronous: the clock can stop before the device."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

jax = pytest.importorskip("jax")

from pytest_roofline.errors import BogusMeasurement  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402

SIZE = 1024


@pytest.fixture(scope="module")
def step() -> object:
    """A product of some milliseconds, compiled."""
    weights = jax.random.normal(jax.random.key(0), (SIZE, SIZE))
    run = jax.jit(lambda state: jax.numpy.tanh(weights @ state))
    run(jax.numpy.ones((SIZE, SIZE))).block_until_ready()
    return run


def first_bogus(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> str:
    """Name of the first check behind a bogus verdict."""
    verdict = excinfo.value.verdict
    assert verdict is not None
    return verdict.of("bogus")[0].check


@pytest.mark.parametrize("passes", [4, 24, 80])
def test_a_loop_without_a_wait_is_bogus(roofline: Instrument, step: object, passes: int) -> None:
    """Below and above the queue's depth, the work that is left over is found."""
    state = jax.numpy.ones((SIZE, SIZE))
    with pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo, roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(passes):
            state = step(state)  # type: ignore[operator]
        audit.claim(tokens=passes, seconds=time.perf_counter() - start, outputs=state)
    assert first_bogus(excinfo) == "not-drained"


def test_dropped_outputs_are_found(roofline: Instrument, step: object) -> None:
    """Nothing is kept of the passes, so nothing could be waited for: the queue still shows them."""
    state = jax.numpy.ones((SIZE, SIZE))
    with pytest.raises(BogusMeasurement) as excinfo, roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(24):
            step(state)  # type: ignore[operator]
        audit.claim(tokens=24, seconds=time.perf_counter() - start)
    assert first_bogus(excinfo) == "not-drained"


def test_an_honest_loop_is_believed(roofline: Instrument, step: object) -> None:
    """With a wait at its end the same loop passes, compilation and checks around it included."""
    with roofline.audit() as audit:
        state = step(jax.numpy.ones((SIZE, SIZE)))  # type: ignore[operator]
        jax.jit(lambda value: value + 1)(state).block_until_ready()
        start = time.perf_counter()
        for _ in range(24):
            state = step(state)  # type: ignore[operator]
        state.block_until_ready()
        elapsed = time.perf_counter() - start
        assert bool(jax.numpy.isfinite(state).all())
        audit.claim(tokens=24, seconds=elapsed, outputs=state)
    assert audit.result.verdict.outcome == "passed"


def test_decode_waits_for_an_asynchronous_step(roofline: Instrument) -> None:
    """The tool's own loop drains, so a step that never waits is measured at its true time."""
    weights = jax.random.normal(jax.random.key(0), (4096, 4096))
    hidden = jax.numpy.ones((4096,))
    run = jax.jit(lambda matrix, vector: matrix @ vector)
    result = roofline.decode(lambda: run(weights, hidden), traffic=weights.nbytes)
    assert result.verdict.outcome != "bogus"


def test_forcing_an_output_for_the_first_time_is_not_the_windows_work(roofline: Instrument) -> None:
    """The tool may have to compile how it reads an output; a drained loop is not charged for that."""
    run = jax.jit(lambda state: (state @ state) / 600)
    state = jax.numpy.ones((600, 600))
    run(state).block_until_ready()
    with roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(10):
            state = run(state)
        state.block_until_ready()
        audit.claim(tokens=10, seconds=time.perf_counter() - start, outputs={"state": state})
    assert audit.result.verdict.outcome == "passed"


def test_checks_queued_after_an_honest_stop_are_not_the_windows_work(roofline: Instrument, step: object) -> None:
    """Verification that runs behind the claim belongs to nobody's window."""
    state = jax.numpy.ones((SIZE, SIZE))
    with roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(20):
            state = step(state)  # type: ignore[operator]
        state.block_until_ready()
        elapsed = time.perf_counter() - start
        checks = [step(state) for _ in range(20)]  # type: ignore[operator]
        audit.claim(tokens=20, seconds=elapsed)
    assert len(checks) == 20
    assert audit.result.verdict.outcome == "passed"


def test_outputs_dropped_by_another_thread_are_found(roofline: Instrument, step: object) -> None:
    """A worker submits the passes and drops what they return: the main thread's queue is empty all the while."""
    state = jax.numpy.ones((SIZE, SIZE))

    def generate() -> None:
        for _ in range(24):
            step(state)  # type: ignore[operator]

    with (
        ThreadPoolExecutor(1) as worker,
        pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo,
        roofline.audit() as audit,
    ):
        start = time.perf_counter()
        worker.submit(generate).result()
        audit.claim(tokens=24, seconds=time.perf_counter() - start)
    assert first_bogus(excinfo) == "not-drained"


def test_a_worker_that_waits_is_believed(roofline: Instrument, step: object) -> None:
    """The same with a wait in the worker, behind the last pass."""
    state = jax.numpy.ones((SIZE, SIZE))

    def generate() -> None:
        for _ in range(24):
            output = step(state)  # type: ignore[operator]
        output.block_until_ready()

    with ThreadPoolExecutor(1) as worker, roofline.audit() as audit:
        start = time.perf_counter()
        worker.submit(generate).result()
        audit.claim(tokens=24, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "passed"
