"""What the JAX tests share: a backend, and work that is certainly still running when a test looks at it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402

ATTEMPTS = 8
"""How often the pending work doubles before a host is declared too strange for these tests."""


@pytest.fixture
def backend() -> JaxBackend:
    """A backend whose queues are compiled."""
    jax.block_until_ready(jnp.zeros(1) + 1)
    made = JaxBackend()
    made.prepare()
    return made


@pytest.fixture
def pending(backend: JaxBackend) -> Callable[[], list[jax.Array]]:
    """Submit products until some are seen unfinished, whatever the speed of the host; all their outputs."""
    product = jax.jit(lambda matrix: jnp.tanh(matrix @ matrix))
    behind = jax.jit(lambda value: value + 1)
    zero = behind(jnp.zeros(1))

    def submit() -> list[jax.Array]:
        size = 300
        for _ in range(ATTEMPTS):
            matrices = [jnp.full((size, size), float(number)) for number in range(8)]
            jax.block_until_ready([product(matrix) for matrix in matrices])
            backend.drain()
            outputs = [product(matrix) for matrix in matrices]
            # Ask an operation behind them: once an output itself was asked, its flag lags its computation.
            if not behind(zero).is_ready():
                return outputs
            size *= 2
        raise AssertionError("this host finishes every product before it can be asked about it")

    return submit
