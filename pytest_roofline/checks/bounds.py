"""Where the fraction lies, everything allowed for: what several checks and the verdict start from."""

from __future__ import annotations

from collections.abc import Callable

from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.roofline import Ceiling, Interval, cache_interval
from pytest_roofline.traffic import Traffic


def fraction_bounds(evidence: Evidence) -> Interval | None:
    """Where the fraction of the memory ceiling lies: noise, caches, and what the probe may have overstated."""
    noise, knee, excess = evidence.fraction, evidence.knee_bytes, evidence.probe_excess
    if noise is None or evidence.traffic is None:
        return noise
    return allowances(evidence.traffic, evidence.ceiling, knee, excess, is_hot=evidence.is_cache_hot)(noise)


def allowances(
    traffic: Traffic, ceiling: Ceiling | None, knee_bytes: float, probe_excess: float, *, is_hot: bool = False
) -> Callable[[Interval], Interval]:
    """From where the samples say that the fraction lies to where it may lie, by what caches and the probe may do."""
    if is_hot or (ceiling is not None and ceiling.bound == "compute"):
        return lambda noise: noise
    return lambda noise: Interval(
        low=cache_interval(noise.low, traffic.footprint_bytes, knee_bytes).low, high=noise.high * probe_excess
    )


def is_compute_bound(evidence: Evidence) -> bool:
    """Whether arithmetic, not memory, sets the floor of the pass: caches and bandwidth explain nothing then."""
    return evidence.ceiling is not None and evidence.ceiling.bound == "compute"
