"""A JAX loop whose clock stops before the device does: `block_until_ready` is missing. Ends BOGUS."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp

STEPS = 16


def test_decode(roofline):
    """16 products are queued in a moment and run for much longer."""
    weights = jax.random.normal(jax.random.key(0), (3072, 3072))
    state = jax.random.normal(jax.random.key(1), (3072, 64))
    step = jax.jit(lambda state: jnp.tanh(weights @ state))
    step(state).block_until_ready()
    with roofline.audit(traffic=weights.nbytes) as audit:
        start = time.perf_counter()
        for _ in range(STEPS):
            state = step(state)
        elapsed = time.perf_counter() - start
        audit.claim(tokens=STEPS, seconds=elapsed, outputs=state)
