"""Where the fraction lies, everything allowed for: what several checks and the verdict start from."""

from __future__ import annotations

from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.roofline import Interval, cache_interval


def fraction_bounds(evidence: Evidence) -> Interval | None:
    """Where the fraction of the memory ceiling lies: noise, caches, and what the probe may have overstated."""
    noise = evidence.fraction
    if noise is None or evidence.traffic is None:
        return noise
    if evidence.is_cache_hot or is_compute_bound(evidence):
        return noise
    low = cache_interval(noise.low, evidence.traffic.footprint_bytes, evidence.knee_bytes).low
    return Interval(low=low, high=noise.high * evidence.probe_excess)


def is_compute_bound(evidence: Evidence) -> bool:
    """Whether arithmetic, not memory, sets the floor of the pass: caches and bandwidth explain nothing then."""
    return evidence.ceiling is not None and evidence.ceiling.bound == "compute"
