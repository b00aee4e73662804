"""Evidence for the court's tests: one believable result of each kind, every figure of which can be replaced.

A pass moves 2 GB, the probe reads 1 TB/s, the sheet says 1.1 TB/s: the floor of a pass is 2 ms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_roofline.checks.claimed import Claim, Window
from pytest_roofline.checks.evidence import Evidence, Limit, Sample
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.samples import median_interval
from pytest_roofline.traffic import TRACED, Traffic

BYTES = 2e9
RULER = 1e12
FLOOR_S = BYTES / RULER
SHEET = Limit(bytes_per_s=1.1e12, slack=1.02, source="driver: bus width x memory clock")
MEASURED = Limit(bytes_per_s=1e12, slack=1.25, source="best of all probes", is_measured=True)


def traffic(bytes_: float = BYTES, **figures: Any) -> Traffic:
    """A pass that moves so many bytes, all of them compulsory unless said otherwise."""
    return Traffic(**{"bytes_per_pass": bytes_, "least_bytes_per_pass": bytes_, **figures})


def traced(bytes_: float = BYTES, **figures: Any) -> Traffic:
    """The same as a closed trace saw it."""
    return traffic(bytes_, **{"source": TRACED, "is_closed": True, **figures})


def ceiling(of: Traffic | None = None, **figures: Any) -> Ceiling:
    """What the probe allows."""
    return Ceiling(
        **{
            "traffic": of or traffic(),
            "bandwidth_bytes_per_s": RULER,
            "bandwidth_source": "read",
            **figures,
        }
    )


def sample(fraction: float = 0.8, **figures: Any) -> Sample:
    """One pair of blocks at this fraction of the ruler."""
    step_s = FLOOR_S / fraction
    return Sample(
        **{
            "passes": 10,
            "step_s": step_s,
            "fixed_s": 0.0,
            "closed_step_s": step_s,
            "ruler_before_bytes_per_s": RULER,
            "ruler_after_bytes_per_s": RULER,
            "fraction": fraction,
            **figures,
        }
    )


def loop(*fractions: float, **figures: Any) -> Evidence:
    """A decode measured by the tool's own loop: nine samples at 80 %, or those given."""
    samples = tuple(sample(fraction) for fraction in fractions or (0.8,) * 9)
    evidence = Evidence(
        kind="decode",
        ceiling=ceiling(),
        traffic=traffic(),
        traced=traced(),
        limit=SHEET,
        samples=samples,
        fraction=median_interval([one.fraction for one in samples]),
    )
    return replace(evidence, **figures)


def window(**figures: Any) -> Window:
    """100 passes in 250 ms, drained before the clock was stopped."""
    return Window(
        **{
            "window_s": 0.25,
            "leftover_s": 0.0,
            "idle_drain_s": 5e-6,
            "passes": 100.0,
            "stop_where": "test_it.py:12",
            "clock": "time.perf_counter",
            **figures,
        }
    )


def claim(tokens: float = 100.0, seconds: float = 0.25, **figures: Any) -> Claim:
    """What the test says."""
    return Claim(**{"tokens": tokens, "seconds": seconds, "is_tokens_seen": False, **figures})


def audit(**figures: Any) -> Evidence:
    """An honest audit: 100 tokens in 250 ms, 80 % of the ceiling."""
    claimed = figures.get("claim", claim())
    return Evidence(
        **{
            "kind": "audit",
            "ceiling": ceiling(),
            "traffic": traffic(),
            "declared": traffic(),
            "limit": SHEET,
            "fraction": Interval(low=0.8, high=0.8),
            "window": window(),
            "claim": claimed,
            "tokens_claimed": claimed.tokens if claimed else None,
            "reads": 2,
            "whole_audit_s": 1.0,
            **figures,
        }
    )
