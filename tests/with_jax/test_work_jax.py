"""Was the work done, in JAX: arrays never change, so an old one that comes back is an old result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

from pytest_roofline.amounts import find_amounts  # noqa: E402
from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.checks.evidence import Evidence  # noqa: E402
from pytest_roofline.checks.work import stale_output, work_missing  # noqa: E402
from pytest_roofline.loop import Loop  # noqa: E402
from pytest_roofline.workproof import Question, WorkProof  # noqa: E402

BACKEND = JaxBackend()


def accused(step: Callable[..., Any], *, inputs: Any = None, reset: Any = None, **asked: Any) -> list[str]:
    """Checks that call a step's work bogus."""
    loop = Loop(
        step,
        backend=BACKEND,
        drains=[BACKEND],
        inputs=inputs,
        reset=reset,
        passes_per_reset=100,
        is_stateless=reset is None,
    )
    amounts = find_amounts(
        loop, step, backends=[BACKEND], backend=BACKEND, model=None, declared=1e6, batch=1, context=0
    )
    loop.run(3)
    question = Question(step=step, has_inputs=inputs is not None, is_stateless=reset is None, **asked)
    evidence = Evidence(kind="decode", work=WorkProof(question, loop, BACKEND, amounts, pass_s=1e-3).look().work)
    found = [finding for finding in (stale_output(evidence), work_missing(evidence)) if finding is not None]
    return [finding.check for finding in found if finding.severity == "bogus"]


@pytest.fixture(scope="module")
def weights() -> Any:
    """A square matrix."""
    return jax.random.normal(jax.random.PRNGKey(0), (256, 256))


def test_a_memo_is_stale(weights: Any) -> None:
    """functools.lru_cache hands out the very same array."""

    @functools.lru_cache
    def remember() -> Any:
        return weights @ weights

    assert accused(remember) == ["stale-output"]


def test_fresh_arrays_are_honest(weights: Any) -> None:
    """A jitted product, also as a reference of itself."""
    product = jax.jit(lambda: weights @ weights)
    assert accused(product, reference=lambda: weights @ weights, tamper=True) == []


def test_an_array_that_is_passed_through_is_honest(weights: Any) -> None:
    """Beside a fresh one, and alone."""
    assert accused(lambda: (weights @ weights, weights)) == []
    assert accused(lambda: weights) == []


def test_a_donated_state_is_honest(weights: Any) -> None:
    """The array of the pass before is deleted, its memory is written anew."""
    advance = jax.jit(lambda state: jax.numpy.tanh(weights @ state), donate_argnums=0)
    state = [jax.numpy.ones((256, 256))]

    def step() -> Any:
        state[0] = advance(state[0])
        return state[0]

    def reset() -> None:
        state[0] = jax.numpy.ones((256, 256))

    assert accused(step, reset=reset) == []


def test_an_output_that_ignores_its_input_is_stale(weights: Any) -> None:
    """Two different inputs, one output."""
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 64))
    product = jax.jit(lambda hidden: weights @ weights)
    assert accused(product, inputs=lambda: (jax.random.normal(next(keys), (256,)),)) == ["stale-output"]
    follows = jax.jit(lambda hidden: weights @ hidden)
    assert accused(follows, inputs=lambda: (jax.random.normal(next(keys), (256,)),)) == []


def test_half_of_the_layers_are_missing_work(weights: Any) -> None:
    """Every other pass skips a product."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        return weights @ weights if calls[0] % 2 else weights + 0

    assert accused(step, reference=lambda: weights @ weights) == ["work-missing"]
