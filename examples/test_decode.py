"""The first test of a team: does decoding reach its share of what this machine's memory can do?"""

from __future__ import annotations

import pytest

BUDGET = {"cpu": 0.2, "*": 0.5}


@pytest.mark.roofline(at_least=BUDGET)
def test_decode(roofline, llama):
    """A static-cache decode is judged against the bandwidth measured beside it."""
    result = roofline.decode(llama.step, model=llama.model, reset=llama.reset)
    print(f"{result.fraction:.0%} of the ceiling, {result.tokens_per_s:.1f} tok/s, bound: {result.ceiling.bound}")


def test_the_ceiling_before_anything_runs(roofline, llama):
    """How fast can this model be on this machine? The division, without running the model."""
    ceiling = roofline.ceiling(llama.model, context=64)
    print(f"at most {ceiling.tokens_per_s:.1f} tok/s: {ceiling.traffic.bytes_per_pass / 1e9:.2f} GB per pass")
    assert ceiling.bound == "memory"


def test_your_own_timing_code(roofline, llama):
    """An audit watches a loop that the test times itself, and holds its claim against the closed time."""
    import time

    with roofline.audit(model=llama.model, context=64) as audit:
        step = audit.watch(llama.step)
        step()  # a warm-up belongs outside the timed part
        start = time.perf_counter()
        ids = [step().item() for _ in range(8)]  # .item() waits for the device; nothing else here does
        elapsed = time.perf_counter() - start
        audit.claim(tokens=8, seconds=elapsed, ids=ids)
    llama.reset()
    assert audit.result.fraction >= 0.1
