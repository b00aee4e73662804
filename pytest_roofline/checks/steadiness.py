"""Does the evidence carry a verdict: enough samples, past every cache, on a machine that held still?

Nothing here ever creates a failure, and nothing here excuses a result that is too fast.
"""

from __future__ import annotations

from pytest_roofline.checks.bounds import fraction_bounds, is_compute_bound
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import enough_samples, median, median_interval
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction, format_ratio

DRIFT_NOTE_RATIO = 1.3
KNEES_FOR_A_VERDICT = 2.0


def cache_resident(evidence: Evidence) -> Finding | None:
    """Part of the pass may have come from cache, and that part decides: there is no DRAM verdict."""
    traffic, noise = evidence.traffic, evidence.fraction
    if traffic is None or noise is None or evidence.knee_bytes <= 0:
        return None
    if evidence.is_cache_hot or is_compute_bound(evidence):
        return None
    bounds = fraction_bounds(evidence)
    if bounds is None:  # pragma: no cover - noise is known here
        return None
    footprint, knee = traffic.footprint_bytes, evidence.knee_bytes
    if evidence.at_least is None:
        if footprint >= KNEES_FOR_A_VERDICT * knee:
            return None
    elif noise.clears(evidence.at_least) is not True or bounds.low >= evidence.at_least:
        return None
    needed = _needed_bytes(evidence, noise)
    figures = {
        "working_set_bytes": footprint,
        "cache_knee_bytes": knee,
        "fraction_low": bounds.low,
        "fraction_high": bounds.high,
    }
    asked = f", the test asks for {format_fraction(evidence.at_least)}" if evidence.at_least is not None else ""
    return Finding(
        check="cache-resident",
        severity="inconclusive",
        message=(
            f"a pass touches {format_bytes(footprint)} and up to {format_bytes(min(knee, footprint))} of it can come "
            f"from cache: the fraction of the memory ceiling is between {format_fraction(bounds.low)} and "
            f"{format_fraction(bounds.high)}{asked}"
        ),
        figures=figures,
        remedy=(
            f"use a working set of at least {format_bytes(needed)}, rotate several copies of the inputs, or judge "
            "against the cache with cache='hot'"
        ),
    )


def plateau_unsure(evidence: Evidence) -> Finding | None:
    """A miss that a probe explains which was still partly served by a cache."""
    bounds, noise, budget = fraction_bounds(evidence), evidence.fraction, evidence.at_least
    if bounds is None or noise is None or budget is None:
        return None
    if noise.clears(budget) is not False or bounds.clears(budget) is False:
        return None
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"the probe may read {format_ratio(evidence.probe_excess)} what memory gives (its rate still fell at "
            f"the largest set): the fraction is between {format_fraction(noise.low)} and "
            f"{format_fraction(bounds.high)}, the test asks for {format_fraction(budget)}"
        ),
        figures={"excess": evidence.probe_excess, "fraction_low": noise.low, "fraction_high": bounds.high},
        remedy="free memory, so that the probe can read larger sets",
    )


def _needed_bytes(evidence: Evidence, noise: Interval) -> float:
    """The working set that would have decided, at this fraction."""
    knee = evidence.knee_bytes
    if evidence.at_least is None or noise.low <= evidence.at_least:
        return 4 * knee
    # f * (1 - K / W) >= budget, solved for W.
    return max(KNEES_FOR_A_VERDICT * knee, knee / (1 - evidence.at_least / noise.low))


def too_few_samples(evidence: Evidence) -> Finding | None:
    """Too few samples for an interval, or the budget lies inside it."""
    if evidence.kind == "stream":
        return None  # requests, not samples: `answers_too_few`
    if evidence.kind == "audit":
        return _undecided_audit(evidence)
    count, noise = len(evidence.samples), evidence.fraction
    figures = {
        "samples": count,
        "fraction_low": noise.low if noise else None,
        "fraction_high": noise.high if noise else None,
        "timed_out": evidence.timed_out,
    }
    remedy = "raise --roofline-max-time, give the cache more room (reset=, passes_per_reset=), or use a quieter machine"
    if noise is None or not enough_samples(count):
        end = "in the time allowed" if evidence.timed_out else "before the state ran out of room"
        if evidence.kind == "generate" and not evidence.timed_out:
            end = "of runs that went on after their first token"
            remedy = "set min_new_tokens=, or another prompt, so that the runs decode"
        return Finding(
            check="too-few-samples",
            severity="inconclusive",
            message=f"{count} sample{'' if count == 1 else 's'} {end}; an interval of the median needs 6",
            figures=figures,
            remedy=remedy,
        )
    if evidence.at_least is None or noise.clears(evidence.at_least) is not None:
        return None
    return Finding(
        check="too-few-samples",
        severity="inconclusive",
        message=(
            f"after {count} samples the fraction lies between {format_fraction(noise.low)} and "
            f"{format_fraction(noise.high)}: the budget of {format_fraction(evidence.at_least)} is inside"
        ),
        figures=figures,
        remedy=remedy,
    )


def _undecided_audit(evidence: Evidence) -> Finding | None:
    """One window has no interval of its own; the probes before and after it give one."""
    noise = evidence.fraction
    if noise is None or evidence.at_least is None or noise.clears(evidence.at_least) is not None:
        return None
    if evidence.suspended_s > 0:
        return None  # not the probes: `suspended` says it
    return Finding(
        check="drifted",
        severity="inconclusive",
        message=(
            f"the fraction is {format_fraction(noise.low)} of the probe on one side of the window and "
            f"{format_fraction(noise.high)} of that on the other: the budget of "
            f"{format_fraction(evidence.at_least)} lies between"
        ),
        figures={"fraction_low": noise.low, "fraction_high": noise.high},
        remedy="measure with roofline.decode, which alternates probe and block",
    )


def drifted(evidence: Evidence) -> Finding | None:
    """The machine's bandwidth moved under the measurement; where that explains a miss, it is no failure."""
    samples = evidence.samples
    if not samples:
        return None
    rulers = [r for s in samples for r in (s.ruler_before_bytes_per_s, s.ruler_after_bytes_per_s)]
    if min(rulers) <= 0:
        return None
    ratio = max(rulers) / min(rulers)
    figures = {"slowest_probe_bytes_per_s": min(rulers), "fastest_probe_bytes_per_s": max(rulers), "ratio": ratio}
    span = f"{format_bytes_per_s(min(rulers))} to {format_bytes_per_s(max(rulers))}"
    is_miss = (
        evidence.at_least is not None and evidence.fraction is not None and evidence.fraction.high < evidence.at_least
    )
    # A pass that is bound by compute does not follow the bandwidth, so a moving bandwidth explains nothing.
    if evidence.at_least is not None and is_miss and not is_compute_bound(evidence):
        # Against the slower of the two neighbouring probes each: would the budget be within reach?
        kindest = [
            s.fraction * s.ruler_bytes_per_s / min(s.ruler_before_bytes_per_s, s.ruler_after_bytes_per_s)
            for s in samples
        ]
        if median_interval(kindest).high >= evidence.at_least and median(kindest) > 1.02 * median(
            [s.fraction for s in samples]
        ):
            return Finding(
                check="drifted",
                severity="inconclusive",
                message=(
                    f"the probes around the blocks moved from {span}; against the slower neighbour the fraction is "
                    f"up to {format_fraction(median_interval(kindest).high)}, the test asks for "
                    f"{format_fraction(evidence.at_least)}"
                ),
                figures=figures,
                remedy="measure on a machine that nobody else uses, or raise --roofline-max-time",
            )
    if ratio < DRIFT_NOTE_RATIO:
        return None
    return Finding(
        check="drifted",
        severity="note",
        message=f"the probed bandwidth moved from {span} while measuring; the fraction follows it pair by pair",
        figures=figures,
    )
