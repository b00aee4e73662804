"""Does the time grow with the passes, and with the size? A slope that no device reaches is no time of a pass.

Accusations rest on closed time, which fixed costs only lengthen; a result may not pass on a slope that no device can
reach. So a slope never accuses, and never lets pass. What slowed the short blocks alone makes the slope small too:
where a compilation, throttling, neighbours or a moving bandwidth explains it by its own figures, that is the cause
named.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from pytest_roofline.checks.ceiling import ALTERNATIONS, closed_pass_s, is_beyond
from pytest_roofline.checks.environment import MOST_SHARE
from pytest_roofline.checks.evidence import Evidence, Finding, Sample
from pytest_roofline.samples import median
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_ratio, format_seconds

QUIET = "measure on a machine that nobody else uses, or raise --roofline-max-time"
CAUSES: tuple[tuple[str, str, str, Callable[[Sample], float]], ...] = (
    (
        "compiled-in-window",
        "what was compiled inside the blocks explains it",
        "warm up with the shapes that the blocks use, and keep them fixed",
        lambda one: _without(one, seconds=one.compiled.seconds if one.compiled else 0.0),
    ),
    (
        "throttled",
        "the clocks that the device held down meanwhile explain it",
        "let the device cool down or raise its power limit, and measure again",
        lambda one: _without(one, slowdown=_of_clocks(one)),
    ),
    (
        "device-shared",
        "what others used of the device meanwhile explains it",
        QUIET,
        lambda one: _without(one, slowdown=_of_neighbours(one)),
    ),
    (
        "drifted",
        "the bandwidth that moved meanwhile, by the probes around the blocks, explains it",
        QUIET,
        lambda one: _without(one, slowdown=_of_rulers(one)),
    ),
)
"""By check: how it is said, what to do, and the slope of a sample had its short block been spared."""
LARGEST = 1e300
LEAST_SLOWDOWN = 1.10
"""Probes differ by less on a quiet machine: that explains nothing."""


def does_not_scale(evidence: Evidence) -> Finding | None:
    """The slope is no time of a pass: 2N passes take hardly longer than N, though a block as a whole is slow enough."""
    if not evidence.samples:
        return None
    slope_s, closed_s = median([one.step_s for one in evidence.samples]), closed_pass_s(evidence)
    if closed_s is None or _is_possible(evidence, slope_s) or is_beyond(evidence, closed_s):
        return None
    figures = {"step_s": slope_s, "closed_pass_s": closed_s}
    found = (
        f"{format_seconds(slope_s)} per pass by the difference of N and 2N passes, {format_seconds(closed_s)} by "
        "the whole block"
    )
    for check, said, remedy, slope_of in CAUSES:
        spared_s = median([slope_of(one) for one in evidence.samples])
        if spared_s > slope_s and _is_possible(evidence, spared_s):
            return Finding(
                check=check,
                severity="inconclusive",
                message=f"{found}: {said} ({format_seconds(spared_s)} per pass without it)",
                figures={**figures, "spared_step_s": spared_s},
                remedy=remedy,
            )
    return Finding(
        check="does-not-scale",
        severity="inconclusive",
        message=f"{found}: the time does not grow with the passes",
        figures=figures,
        remedy=(
            "check that every call does its work (a remembered result, a graph that is not replayed), or give the "
            "blocks more time (--roofline-max-time) and room (passes_per_reset=)"
        ),
    )


def does_not_grow(evidence: Evidence) -> Finding | None:
    """A larger step, which the test gave, is possible too; what no size lengthens does not do its work.

    Time that does not grow accuses nobody while the larger step could have run in it: launches may cost more than bytes
    do. What the device cannot move in that time was not moved, in this size or the other.
    """
    sized, limit, own_s = evidence.sized, evidence.limit, closed_pass_s(evidence)
    if sized is None or limit is None or own_s is None or len(sized.turns) < ALTERNATIONS:
        return None
    pass_s = median(list(sized.passes_s))
    growth = pass_s / own_s if own_s > 0 else 1.0
    said = (
        f"a step of {format_ratio(sized.bytes_ratio)} the bytes takes {format_ratio(growth)} the time "
        f"({format_seconds(pass_s)} per pass, {format_seconds(own_s)} before)"
    )
    figures = {"bytes_ratio": sized.bytes_ratio, "time_ratio": growth, "pass_s": own_s, "larger_pass_s": pass_s}
    # A measured limit has to be beaten, too: launches may cost the probes between the blocks more than the blocks.
    is_impossible = all(turn.block_bytes_per_s > limit.with_slack_bytes_per_s for turn in sized.turns)
    if limit.is_measured:
        is_impossible &= not evidence.probe_doubts and all(turn.exceeds(limit.slack) for turn in sized.turns)
    if is_impossible:
        rate = sized.least_bytes_from_memory / pass_s if pass_s > 0 else inf
        return Finding(
            check="does-not-scale",
            severity="bogus",
            message=(
                f"{said}: the time does not grow with the size\n"
                f"  found: {format_bytes(sized.least_bytes_from_memory)} per pass of the larger step that no cache can "
                f"hold, {format_bytes_per_s(rate)} from memory in each of {len(sized.turns)} turns\n"
                f"  limit: {format_bytes_per_s(limit.bytes_per_s)}, {limit.source}, slack {limit.slack:g}\n"
                "  likely: the work is remembered, skipped, or the same at every size; or its memory was never written"
            ),
            figures={**figures, "bytes_per_s": min(rate, LARGEST), "limit_bytes_per_s": limit.bytes_per_s},
            remedy="check that both steps do their work in each call, and that larger= states the bytes of its step",
        )
    if growth - 1 >= (sized.bytes_ratio - 1) / 2:
        return None
    return Finding(
        check="does-not-scale",
        severity="note",
        message=f"{said}: what takes the time is not the bytes",
        figures=figures,
        remedy="launches, locks or arithmetic may cost more than the bytes do; or the work is not done",
    )


def _is_possible(evidence: Evidence, slope_s: float) -> bool:
    return slope_s > 0 and not is_beyond(evidence, slope_s)


def _without(one: Sample, *, seconds: float = 0.0, slowdown: float = 1.0) -> float:
    """The slope of a sample whose short block alone was held up for so long, or slowed so many times."""
    long_s, short_s = 2 * one.passes * one.closed_step_s, one.passes * one.step_s + one.fixed_s
    if slowdown < LEAST_SLOWDOWN:
        slowdown = 1.0
    return (long_s - max(0.0, short_s - seconds) / slowdown) / one.passes if seconds or slowdown > 1 else one.step_s


def _of_clocks(one: Sample) -> float:
    """By the lowest clock that was seen, and by the quota."""
    held = one.conditions
    if held is None or not held.is_throttled:
        return 1.0
    share = held.memory_share if held.memory_share is not None else held.compute_share
    speed = (1.0 if share is None else share) * (1.0 - min(MOST_SHARE, held.held_share or 0.0))
    return 1 / speed if 0 < speed <= 1 else 1.0


def _of_neighbours(one: Sample) -> float:
    share = None if one.conditions is None else one.conditions.neighbours_share
    return 1.0 if share is None else 1 / (1 - min(MOST_SHARE, share))


def _of_rulers(one: Sample) -> float:
    slow, fast = sorted((one.ruler_before_bytes_per_s, one.ruler_after_bytes_per_s))
    return fast / slow if slow > 0 else 1.0
