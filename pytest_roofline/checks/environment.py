"""Was the device held down, or shared with others, while it was measured?

Both only ever add time. They may take a failure away where their own figures explain at least the gap; they never make
one, and they never excuse a result that is too fast. Samples are kept and marked, and none is thrown away.
"""

from __future__ import annotations

import math

from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.ceiling import closed_pass_s
from pytest_roofline.checks.evidence import Clocks, Evidence, Finding
from pytest_roofline.samples import median, median_interval
from pytest_roofline.units import format_fraction, format_ratio

NEIGHBOURS_SHARE = 0.10
"""From a tenth of our cores, or of the device's time, on, others are worth a word."""
STALLED_SHARE = 0.9
"""While one of its cores is taken away, a parallel step does next to nothing: every barrier waits for that core."""
MOST_SHARE = 0.95
"""Of a device that others use all the time, nothing would be left to explain a miss by."""


def throttled(evidence: Evidence) -> Finding | None:
    """The device said that it was held down; where its clocks explain a miss, that is no failure.

    A pass that memory bounds is slowed by the memory clock, one that arithmetic bounds by the clock of the compute
    units, and any by a processor's quota. What it is held against was probed on the same device: only a probe that
    shows a higher clock than the one reported leaves something to excuse. Where the samples say which of them were
    throttled, each is excused by its own clock: one in nine moves no median.
    """
    clocks = evidence.clocks
    if clocks is None or not clocks.reasons:
        return None
    is_compute = evidence.ceiling is not None and evidence.ceiling.bound == "compute"
    share, whose = _relevant(clocks, is_compute=is_compute)
    marked = [
        number for number, one in enumerate(evidence.samples, 1) if one.conditions and one.conditions.is_throttled
    ]
    has_marks = any(one.conditions is not None for one in evidence.samples)
    slowdown = _gain(evidence, is_compute=is_compute) if has_marks else _slowdown(evidence, clocks, is_compute)
    bounds, budget = fraction_bounds(evidence), evidence.at_least
    message = f"the device throttled itself while it was measured ({', '.join(clocks.reasons)})"
    if share is not None:
        message += f": its {whose} ran at {format_fraction(share)} of its maximum"
    if clocks.held_share is not None:
        message = f"this process was held back while it was measured ({', '.join(clocks.reasons)})"
        message += f": {format_fraction(clocks.held_share)} of the time of its cores"
    if has_marks:
        message += f", in {len(marked)} of {len(evidence.samples)} samples"
    if slowdown > 1.0:
        message += f", which may have slowed this pass by {format_ratio(slowdown)}"
    explains = False
    if budget is not None and bounds is not None and bounds.clears(budget) is False and slowdown > 1.0:
        best = bounds.high * slowdown
        explains = best >= budget
        otherwise = "at full clocks" if clocks.held_share is None else "without it"
        message += (
            f": {format_fraction(bounds.high)} may be up to {format_fraction(best)} {otherwise}, the test asks for "
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
            "held_share": clocks.held_share,
            "throttled_samples": marked,
            "slowdown": slowdown,
        },
        remedy=(
            "raise the quota, or run fewer threads than it allows"
            if clocks.held_share is not None
            else "let the device cool down or raise its power limit, and measure again"
        ),
    )


def _gain(evidence: Evidence, *, is_compute: bool) -> float:
    """By how much the fraction may rise when each throttled sample is given back what its own clock took."""
    fractions = [one.fraction for one in evidence.samples]
    freed = []
    for one in evidence.samples:
        clocks = Clocks.of(one.conditions)
        slowdown = 1.0 if clocks is None else _slowdown(evidence, clocks, is_compute, ruler=one.ruler_bytes_per_s)
        freed.append(one.fraction * slowdown)
    high = median_interval(fractions).high
    return max(1.0, median_interval(freed).high / high) if 0 < high < math.inf else 1.0


def _slowdown(evidence: Evidence, clocks: Clocks, is_compute: bool, ruler: float | None = None) -> float:
    """How many times longer a pass took at these clocks than at those that its ruler shows; 1 where nobody knows."""
    share, _ = _relevant(clocks, is_compute=is_compute)
    if clocks.held_share is not None:
        share = (1.0 if share is None else share) * (1.0 - min(MOST_SHARE, clocks.held_share))
    if share is None or not 0 < share <= 1:
        return 1.0
    return max(1.0, _speed_of_ruler(evidence, is_compute=is_compute, ruler=ruler) / share)


def device_shared(evidence: Evidence) -> Finding | None:
    """Others used the device that was measured; where that explains a miss, it is no failure.

    *A processor.* Unlike bandwidth, which the probes follow, a core that is taken away stalls all threads of a step at
    their next barrier. With a share s of c cores taken, at least one is missing for up to ``s * c`` of the time, and
    the step was slowed by up to ``1 / (1 - 0.9 * s * c)`` (measured: eight times, beside one busy process on two).

    *Any other device* is shared by turns, the probes' as well as the step's: a share s explains ``1 / (1 - s)``, less
    what the probes beside the blocks lost of the printed bandwidth; nothing where none is printed.
    """
    share = evidence.neighbours_share
    if share is None or share < NEIGHBOURS_SHARE:
        return _seen_neighbours(evidence)
    if evidence.cores is not None or not evidence.neighbours:
        slowdown = 1 / (1 - STALLED_SHARE * min(1.0, share * (evidence.cores or 1)))
        whose = "this process's cores"
    else:
        is_printed = evidence.limit is not None and not evidence.limit.is_measured
        speed = _speed_of_ruler(evidence, is_compute=False) if is_printed else 0.0
        slowdown = max(1.0, speed / (1 - min(MOST_SHARE, share)))
        whose = f"the device's time ({', '.join(evidence.neighbours)})"
    bounds, budget = fraction_bounds(evidence), evidence.at_least
    is_missed = budget is not None and bounds is not None and bounds.clears(budget) is False
    explains = is_missed and bounds is not None and budget is not None and bounds.high * slowdown >= budget
    stolen = evidence.steal_share
    taken = f" ({format_fraction(stolen)} went to other virtual machines)" if stolen and stolen >= 0.01 else ""
    effect = f", which may slow it by up to {format_ratio(slowdown)}" if slowdown > 1.0 else ""
    return Finding(
        check="device-shared",
        severity="inconclusive" if explains else "note",
        message=(
            f"other processes used {format_fraction(share)} of {whose} while it was measured{taken}{effect}"
            + (": below the budget, but not by its own fault alone" if explains else "")
        ),
        figures={
            "neighbours_share": share,
            "steal_share": stolen,
            "neighbours": list(evidence.neighbours),
            "cores": evidence.cores,
            "slowdown": slowdown,
        },
        remedy="measure on a machine that nobody else uses, one test process at a time",
    )


def _seen_neighbours(evidence: Evidence) -> Finding | None:
    """Others are on the device and hardly used it, or nobody says how much: a word, no excuse."""
    if not evidence.neighbours:
        return None
    share = evidence.neighbours_share
    used = "how much of it they used is not known" if share is None else f"they used {format_fraction(share)} of it"
    return Finding(
        check="device-shared",
        severity="note",
        message=f"other processes were on the device while it was measured ({', '.join(evidence.neighbours)}); {used}",
        figures={"neighbours_share": share, "neighbours": list(evidence.neighbours)},
        remedy="measure on a device that nobody else uses",
    )


def _relevant(clocks: Clocks, *, is_compute: bool) -> tuple[float | None, str]:
    """The clock that slows this pass; where the memory's is not known, the one that is."""
    if is_compute or clocks.memory_share is None:
        return clocks.compute_share, "compute clock"
    return clocks.memory_share, "memory clock"


def _speed_of_ruler(evidence: Evidence, *, is_compute: bool, ruler: float | None = None) -> float:
    """The least share of its full speed at which the device can have run when it was probed, 0 to 1.

    No probe exceeds the clock's share of what is printed. Where nothing is printed the session's own figure stands in.
    """
    ceiling = evidence.ceiling
    if ceiling is None:
        return 1.0
    if is_compute:
        printed = None if evidence.is_peak_limit_measured else evidence.peak_limit_flops_per_s
        return min(1.0, (ceiling.peak_flops_per_s or 0.0) / printed) if printed else 1.0
    ruler = ruler or _ruler(evidence)
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
