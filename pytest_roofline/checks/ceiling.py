"""Could the device have moved these bytes, and done this arithmetic, in that time?

Only the least compulsory bytes may convict, only against the largest credible limit, and only over closed time.
Of a pass at most the cache knee can have come from cache; the rest came from memory.
"""

from __future__ import annotations

from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.evidence import MEASURED_SLACK, Evidence, Finding, Limit
from pytest_roofline.samples import median
from pytest_roofline.traffic import TRACED, is_blind, moved_bytes
from pytest_roofline.units import (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    format_ratio,
    format_seconds,
)

ALTERNATIONS = 5
AUDIT_BOGUS_RATIO = 2.0
"""Without a sheet an audit cannot be repeated: up to twice the best of all probes it is only unsure."""
PEAK_SLACK = 1.15
LIMIT_REMEDY = (
    "check that the work ran in this call, that the bytes are those of one pass, and that the weights were written"
)
STREAM_REMEDY = (
    "state what the server runs (model=, weights=, device=, tp=, and tokens_per_pass= where it drafts), and look for "
    "answers that it remembers"
)
HOT_SLACK = 1.25
"""There is no sheet of a cache: what the probe read from it, and a quarter on top."""


def closed_pass_s(evidence: Evidence) -> float | None:
    """Closed time of one pass: median over the blocks of a loop, the window of an audit."""
    if evidence.samples:
        return median([sample.closed_step_s for sample in evidence.samples])
    if evidence.window is not None and evidence.window.passes > 0:
        return evidence.window.pass_s
    if evidence.claim is not None and evidence.tokens_per_pass > 0:
        # No window seen: the claim itself is held against the limit.
        passes = evidence.claim.tokens / (evidence.batch * evidence.tokens_per_pass * evidence.ranks_apart)
        return evidence.claim.seconds / passes if passes > 0 else None
    return None


def memory_bytes(evidence: Evidence) -> float | None:
    """The least bytes of a pass that neither a cache nor another memory can have served."""
    traced = evidence.traced if evidence.traced is not None and evidence.traced.is_closed else None
    if traced is not None and evidence.declared is not None and is_blind(traced, evidence.declared):
        traced = None  # what it did not see may have moved: then the declaration has to be possible by itself
    candidates = [t.least_bytes_per_pass for t in (evidence.traffic, evidence.declared, traced) if t]
    if not candidates:
        return None
    elsewhere = evidence.traffic.spilled_bytes_per_pass if evidence.traffic else 0.0
    elsewhere += sum(size for _, size in evidence.elsewhere)
    return max(0.0, min(candidates) - evidence.knee_bytes - elsewhere)


def faster_than_limit(evidence: Evidence) -> Finding | None:
    """More bytes per second from memory than the device can deliver."""
    limit, bytes_needed, pass_s = evidence.limit, memory_bytes(evidence), closed_pass_s(evidence)
    if limit is None or bytes_needed is None or pass_s is None or bytes_needed <= 0 or pass_s <= 0:
        return None
    rate = bytes_needed / pass_s
    if rate <= limit.with_slack_bytes_per_s:
        return None
    if limit.is_measured:
        if evidence.kind == "audit":
            if rate <= AUDIT_BOGUS_RATIO * limit.bytes_per_s:
                return _unsure(limit, rate)
        elif evidence.probe_doubts or not _confirmed(evidence, limit):
            return _unsure(limit, rate)
    ratio = rate / limit.bytes_per_s
    return Finding(
        check="faster-than-limit",
        severity="bogus",
        message=(
            f"{format_bytes_per_s(rate)} from memory, but this device cannot exceed "
            f"{format_bytes_per_s(limit.bytes_per_s)} ({format_ratio(ratio)})\n"
            f"  found: {format_bytes(bytes_needed)} per pass that no cache can hold, in {format_seconds(pass_s)}\n"
            f"  limit: {limit.source}, slack {limit.slack:g}\n"
            f"  likely: {_diagnosis(evidence, ratio)}"
        ),
        figures={
            "bytes_per_s": rate,
            "limit_bytes_per_s": limit.bytes_per_s,
            "slack": limit.slack,
            "least_bytes_from_memory": bytes_needed,
            "pass_s": pass_s,
            "ratio": ratio,
        },
        remedy=STREAM_REMEDY if evidence.kind == "stream" else LIMIT_REMEDY,
    )


def _confirmed(evidence: Evidence, limit: Limit) -> bool:
    """Without a sheet: in each of five alternations the block beats both neighbouring probes by the slack."""
    turns = evidence.confrontation
    return len(turns) >= ALTERNATIONS and all(turn.exceeds(limit.slack) for turn in turns)


def _unsure(limit: Limit, rate: float) -> Finding:
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"{format_bytes_per_s(rate)} from memory is {format_ratio(rate / limit.bytes_per_s)} the best of all "
            f"probes ({format_bytes_per_s(limit.bytes_per_s)}), and no datasheet says what this device can do"
        ),
        figures={"bytes_per_s": rate, "limit_bytes_per_s": limit.bytes_per_s, "slack": limit.slack},
        remedy="measure it with roofline.decode or roofline.kernel, which can repeat probe and block side by side",
    )


def _diagnosis(evidence: Evidence, ratio: float) -> str:
    """Name the factor that is most like the ratio, with its arithmetic."""
    traffic = evidence.traffic
    guesses: list[tuple[float, str]] = []
    if evidence.batch > 1:
        guesses.append((evidence.batch, f"weights counted once per sequence (batch {evidence.batch})"))
    if evidence.tokens_per_pass > 1:
        guesses.append((evidence.tokens_per_pass, f"{evidence.tokens_per_pass:g} tokens per pass counted as passes"))
    guesses.append((2.0, "bytes counted twice, or half of the work skipped"))
    traced = evidence.traced
    has_seen = traced is not None and (traced.is_closed or moved_bytes(traced) > 1)  # not into NumPy, or an extension
    if has_seen and traced is not None and evidence.declared is not None and is_blind(traced, evidence.declared):
        seen, said = moved_bytes(traced), evidence.declared.bytes_per_pass
        return (
            f"bytes declared that the step does not move: {format_bytes(said)} per pass declared, "
            f"{format_bytes(seen)} traced ({format_ratio(said / seen) if seen else 'nothing'})"
        )
    if traffic is not None and evidence.traced is None and not evidence.samples:
        guesses.append((3.0, "a store counted as read and written, or another model's bytes"))
    for factor, text in guesses:
        if 0.85 * factor <= ratio <= 1.2 * factor:
            return f"{text}; the ratio is {ratio:.2g}"
    is_only_said = evidence.traced is None and evidence.declared is not None
    if ratio > 5 and is_only_said:
        return (
            "the work did not run (a remembered result, a failed launch, a lazy graph never evaluated), or more bytes "
            "declared than a pass moves: none were traced"
        )
    if ratio > 5:
        return "the work did not run (a remembered result, a failed launch, a lazy graph never evaluated)"
    return "bytes declared that the step does not read, weights never written (one zero page), or work skipped"


def is_beyond(evidence: Evidence, pass_s: float) -> bool:
    """Whether a pass of this length exceeds the limit of memory or of compute, with its slack."""
    if pass_s <= 0:
        return False
    limit, needed = evidence.limit, memory_bytes(evidence)
    if limit is not None and needed and needed / pass_s > limit.with_slack_bytes_per_s:
        return True
    return is_above_peak(evidence, pass_s)


def is_above_peak(evidence: Evidence, pass_s: float) -> bool:
    """Whether a pass of this length does more arithmetic than the largest peak allows, with its slack."""
    peak, flops = evidence.peak_limit_flops_per_s, _least_flops(evidence)
    return peak is not None and bool(flops) and flops / pass_s > PEAK_SLACK * peak


def _least_flops(evidence: Evidence) -> float:
    traffic = evidence.traffic
    if traffic is None:
        return 0.0
    least = traffic.least_flops_per_pass
    return (traffic.flops_per_pass if least is None else least) or 0.0


def compute_unsure(evidence: Evidence) -> Finding | None:
    """More FLOP/s than the largest dense peak of any dtype: bogus against a sheet, unsure against a measurement."""
    peak, pass_s = evidence.peak_limit_flops_per_s, closed_pass_s(evidence)
    flops = _least_flops(evidence)
    if peak is None or pass_s is None or pass_s <= 0:
        return None
    if not flops or flops / pass_s <= PEAK_SLACK * peak:
        return None
    rate = flops / pass_s
    is_bogus = not evidence.is_peak_limit_measured
    return Finding(
        check="faster-than-limit" if is_bogus else "ceiling-unsure",
        severity="bogus" if is_bogus else "inconclusive",
        message=(
            f"{format_flops_per_s(rate)}, but the largest {'dense peak' if is_bogus else 'measured product'} of this "
            f"device is {format_flops_per_s(peak)} ({format_ratio(rate / peak)})"
        ),
        figures={"flops_per_s": rate, "peak_flops_per_s": peak, "least_flops_per_pass": flops, "pass_s": pass_s},
        remedy="count the FLOPs of one pass (multiply-add is two), dense, cached prompt excluded",
    )


def probe_unsure(evidence: Evidence) -> Finding | None:
    """A probe that cannot be trusted gives no ceiling to be judged by."""
    if not evidence.probe_doubts or evidence.fraction is None or evidence.is_cache_hot:
        return None
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=f"the probe of this device cannot be trusted: {'; '.join(evidence.probe_doubts)}",
        figures={"doubts": list(evidence.probe_doubts)},
        remedy="free memory and stop what else runs on this machine, then start again",
    )


def places_unsure(evidence: Evidence) -> Finding | None:
    """The bytes of a pass lie on several devices, and how fast one reads the other's memory is not known."""
    if not evidence.elsewhere or evidence.fraction is None:
        return None
    others = ", ".join(f"{format_bytes(size)} on {name}" for name, size in evidence.elsewhere)
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=f"a part of what a pass reads lies on another device: {others}; one device's ceiling is not theirs",
        figures={"elsewhere": dict(evidence.elsewhere)},
        remedy="measure the part of each device by itself, or say with offload= how much comes over the link",
    )


def above_ceiling(evidence: Evidence) -> Finding | None:
    """More than all of the ceiling, by more than rulers differ, caches allowed for: no figure to pass on.

    Nothing honest exceeds the right ceiling. Where no limit convicts it, the bytes, the clock or the ceiling is wrong
    all the same, so it is not judged.
    """
    bounds = fraction_bounds(evidence)
    if bounds is None or evidence.is_cache_hot or bounds.low <= MEASURED_SLACK:
        return None
    if evidence.exchanged is not None:
        return None  # a server's ceiling was stated, not probed: `streamed` says what is wrong with it
    if faster_than_limit(evidence) is not None or compute_unsure(evidence) is not None:
        return None  # said already, and with the limit's own figures
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"{format_ratio(bounds.low)} the probed ceiling at least: nothing honest exceeds it, so the bytes, the "
            "clock or the ceiling is wrong"
        ),
        figures={"fraction_low": bounds.low, "slack": MEASURED_SLACK},
        remedy="check the bytes and FLOPs declared for one pass, or pass model= and let the trace count them",
    )


def cache_unsure(evidence: Evidence) -> Finding | None:
    """Judged against the cache, and well above what the probe could read from it: no figure to judge by."""
    if not evidence.is_cache_hot or evidence.fraction is None or evidence.fraction.low <= HOT_SLACK:
        return None
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"{format_ratio(evidence.fraction.low)} the rate at which the probe reads from cache: a smaller cache "
            "served it, or the work did not run"
        ),
        figures={"fraction_low": evidence.fraction.low, "slack": HOT_SLACK},
        remedy="check that the work ran, or judge it cold, against the memory",
    )


def open_trace_unsure(evidence: Evidence) -> Finding | None:
    """The bytes come from a trace that does not account for everything: a fraction of them may be too low."""
    traffic, bounds = evidence.traffic, evidence.fraction
    if traffic is None or traffic.source != TRACED or traffic.is_closed or bounds is None:
        return None
    if evidence.at_least is None or bounds.clears(evidence.at_least) is not False:
        return None
    why = f" ({traffic.notes[0]})" if traffic.notes else ""
    return Finding(
        check="ceiling-unsure",
        severity="inconclusive",
        message=(
            f"only {format_bytes(traffic.bytes_per_pass)} per pass could be traced, and the trace is open{why}: the "
            "fraction is a lower bound, which cannot miss a budget"
        ),
        figures={"traced_bytes_per_pass": traffic.bytes_per_pass},
        remedy="declare the bytes of a pass with traffic=",
    )
