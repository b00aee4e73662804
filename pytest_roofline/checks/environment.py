"""Did the device hold its own clocks down while it was measured?

Throttling only ever adds time. It may take a failure away where the clocks explain at least the gap; it never makes
one, and it never excuses a result that is too fast. The result is kept and marked.
"""

from __future__ import annotations

from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.ceiling import closed_pass_s
from pytest_roofline.checks.evidence import Clocks, Evidence, Finding
from pytest_roofline.samples import median
from pytest_roofline.units import format_fraction, format_ratio


def throttled(evidence: Evidence) -> Finding | None:
    """The device said that it slowed itself down; where its clocks explain a miss, that is no failure.

    A pass that memory bounds is slowed by the memory clock, one that arithmetic bounds by the clock of the compute
    units. What it is held against was probed on the same device: only a probe that shows a higher clock than the one
    reported leaves something to excuse.
    """
    clocks = evidence.clocks
    if clocks is None or not clocks.reasons:
        return None
    is_compute = evidence.ceiling is not None and evidence.ceiling.bound == "compute"
    share, whose = _relevant(clocks, is_compute=is_compute)
    slowdown = 1.0
    if share is not None and 0 < share <= 1:
        slowdown = max(1.0, _clock_of_ruler(evidence, is_compute=is_compute) / share)
    bounds, budget = fraction_bounds(evidence), evidence.at_least
    message = f"the device throttled itself while it was measured ({', '.join(clocks.reasons)})"
    if share is not None:
        message += f": its {whose} ran at {format_fraction(share)} of its maximum"
    if slowdown > 1.0:
        message += f", which may have slowed this pass by {format_ratio(slowdown)}"
    explains = False
    if budget is not None and bounds is not None and bounds.clears(budget) is False and slowdown > 1.0:
        best = bounds.high * slowdown
        explains = best >= budget
        message += (
            f": {format_fraction(bounds.high)} may be up to {format_fraction(best)} at full clocks, the test asks for "
            f"{format_fraction(budget)}"
        )
    return Finding(
        check="throttled",
        severity="inconclusive" if explains else "note",
        message=message,
        figures={
            "reasons": list(clocks.reasons),
            "compute_clock_share": clocks.compute_share,
            "memory_clock_share": clocks.memory_share,
            "slowdown": slowdown,
        },
        remedy="let the device cool down or raise its power limit, and measure again",
    )


def _relevant(clocks: Clocks, *, is_compute: bool) -> tuple[float | None, str]:
    """The clock that slows this pass; where the memory's is not known, the one that is."""
    if is_compute or clocks.memory_share is None:
        return clocks.compute_share, "compute clock"
    return clocks.memory_share, "memory clock"


def _clock_of_ruler(evidence: Evidence, *, is_compute: bool) -> float:
    """The least share of its clock at which the device can have run when it was probed, 0 to 1.

    No probe exceeds the clock's share of what is printed. Where nothing is printed the session's own figure stands in.
    """
    ceiling = evidence.ceiling
    if ceiling is None:
        return 1.0
    if is_compute:
        printed = None if evidence.is_peak_limit_measured else evidence.peak_limit_flops_per_s
        return min(1.0, (ceiling.peak_flops_per_s or 0.0) / printed) if printed else 1.0
    ruler = _ruler(evidence)
    is_printed = evidence.limit is not None and not evidence.limit.is_measured
    whole = evidence.limit.bytes_per_s if evidence.limit is not None and is_printed else ceiling.bandwidth_bytes_per_s
    return min(1.0, ruler / whole) if ruler else 1.0


def _ruler(evidence: Evidence) -> float | None:
    """Bytes per second of the probes beside the blocks; beside a window, what the fraction was taken from."""
    if evidence.samples:
        both = [rate for s in evidence.samples for rate in (s.ruler_before_bytes_per_s, s.ruler_after_bytes_per_s)]
        return median(both)
    pass_s, fraction, traffic = closed_pass_s(evidence), evidence.fraction, evidence.traffic
    if not pass_s or fraction is None or fraction.high <= 0 or traffic is None:
        return None
    return traffic.bytes_per_pass / pass_s / fraction.high
