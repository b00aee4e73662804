"""What the timed loop adds to each pass, against a bare `for` loop around the same step, in one run.

Prints the median over interleaved rounds, and exits 1 when the loop adds more than 2 us per pass.

    python benchmarks/loop_overhead.py
"""

from __future__ import annotations

import statistics
import sys
import time

from pytest_roofline.audit import Audit
from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.loop import Loop

PASSES = 20_000
ROUNDS = 31
BAR_S = 2e-6


def step() -> int:
    """The least a step can be."""
    return 1


def bare() -> float:
    """Seconds per pass of a plain loop that keeps the last output."""
    start = time.perf_counter()
    for _ in range(PASSES):
        output = step()
    elapsed = time.perf_counter() - start
    assert output == 1
    return elapsed / PASSES


def measured(loop: Loop) -> float:
    """Seconds per pass in the tool's loop, drains and forcing included."""
    return loop.run(PASSES).closed_s / PASSES


def watched() -> float:
    """Seconds per pass through `audit.watch`."""
    backend = CpuBackend()
    audit = Audit(
        backend=backend,
        drains=lambda: (backend,),
        judge=lambda ledger: None,  # type: ignore[arg-type, return-value]
        on_enter=lambda: None,
        on_leave=lambda: None,
        loaded=lambda: (backend,),
        frame=None,
    )
    run = audit.watch(step)
    start = time.perf_counter()
    for _ in range(PASSES):
        run()
    return (time.perf_counter() - start) / PASSES


def main() -> int:
    """Interleave the three, print what they add."""
    backend = CpuBackend()
    loop = Loop(step, backend=backend, drains=(backend,), is_stateless=True)
    rows: dict[str, list[float]] = {"bare loop": [], "roofline.decode's loop": [], "audit.watch": []}
    for _ in range(ROUNDS):
        rows["bare loop"].append(bare())
        rows["roofline.decode's loop"].append(measured(loop))
        rows["audit.watch"].append(watched())
    base = statistics.median(rows["bare loop"])
    print(f"{'':26}{'ns per pass':>12}{'added':>10}")
    worst = 0.0
    for name, times in rows.items():
        middle = statistics.median(times)
        print(f"{name:26}{middle * 1e9:12.0f}{(middle - base) * 1e9:10.0f}")
        worst = max(worst, middle - base)
    print(f"bar: {BAR_S * 1e9:.0f} ns added per pass: {'held' if worst < BAR_S else 'MISSED'}")
    return 0 if worst < BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
