"""How grave is work that was still to be done when the clock was stopped: one rule for drains, events, lazy graphs."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.checks.claimed import Claim, Window
from pytest_roofline.checks.evidence import Evidence, Severity

TOLERANCE = 0.02
"""By how much a claim may exceed the ledger over closed time: the cost of reading clocks and of forcing outputs."""
LOOK_AHEAD_PASSES = 2.0
"""Engines schedule the next step while this one runs: one or two passes in flight are honest."""
IDLE_DRAIN_FACTOR = 10.0
MANY_PASSES = 20
PASS_SPREAD = 0.05
"""Two given passes may take this much longer than the mean one: devices breathe by a few percent."""
UNSEEN_SPREAD = 0.3
"""And so much longer on a busy machine; nobody can tell where the passes were not watched."""
MOST_GROWTH = 2.0
"""A pass that grows steadily from nothing ends at twice its mean."""
MOST_UNSTEADY = 4.0
"""By how much more than the mean one a pass may have taken where the probes beside it saw the device so unsteady."""


def excess(claim: Claim, seconds: float, tokens: float) -> float:
    """By which factor the claimed rate exceeds `tokens` in `seconds`; 1.0 is exactly as fast."""
    return claim.tokens_per_s * seconds / tokens if tokens > 0 and claim.seconds > 0 else float("inf")


def ledger_tokens(evidence: Evidence) -> float:
    """Tokens that a claim may divide: the ids that were seen, else what the claim says; at least the passes watched.

    More passes than tokens claimed is somebody who claims the time of one token. Fewer is `tokens-disagree`.
    """
    window = evidence.window
    watched = 0.0
    if window is not None and window.are_passes_watched:
        watched = window.passes * evidence.batch * evidence.tokens_per_pass * evidence.ranks_apart
    if evidence.ids_seen is not None:
        return max(float(evidence.ids_seen), watched)
    return max(evidence.claim.tokens, watched) if evidence.claim else 0.0


def is_idle_like(window: Window, leftover_s: float) -> bool:
    """Whether it is what draining an idle device may cost."""
    return leftover_s <= IDLE_DRAIN_FACTOR * window.idle_drain_s * window.stops


def typical_pass_s(evidence: Evidence, window: Window) -> float:
    """What a pass at the end of the window took: the mean, its spread, and the growth of a KV cache that is known."""
    growth = 1.0
    traffic = evidence.traffic
    if traffic is not None and traffic.context is not None and traffic.kv_bytes_per_token:
        passes = window.passes * evidence.tokens_per_pass
        middle = traffic.at_context(traffic.context + passes / 2).bytes_per_pass
        last = traffic.at_context(traffic.context + passes).bytes_per_pass
        growth = min(MOST_GROWTH, last / middle) if middle > 0 else 1.0
    return growth * window.pass_s * (1 + PASS_SPREAD)


def longest_pass_s(evidence: Evidence, window: Window) -> float:
    """The longest that it may have been, for all that is known of how steady the device was.

    By the probes on both sides of the window; by the calls of a watched step, which keep the device's pace where they
    wait for it; else by what a busy machine does.
    """
    typical_s = typical_pass_s(evidence, window)
    interval = evidence.fraction if evidence.kind == "audit" else None
    unsteady = min(MOST_UNSTEADY, interval.high / interval.low) if interval is not None and interval.low > 0 else 1.0
    if window.longest_call_s is None:
        return typical_s * max(unsteady, 1 + UNSEEN_SPREAD)
    called_s = min(window.longest_call_s, MOST_GROWTH * window.pass_s)
    return max(typical_s * unsteady, called_s * (1 + PASS_SPREAD))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Work that was still to be done at a stop: the least that the evidence allows, and how grave that is."""

    least_s: float
    longest_pass_s: float
    severity: Severity
    is_two_long_passes: bool = False
    """More than two typical passes, which two long ones would explain."""


def judge_leftover(
    evidence: Evidence, window: Window, leftover_s: float, *, open_s: float, closed_s: float
) -> Leftover:
    """For a claim that profits: over two passes is bogus; of few passes, over 10 % of the open window is unsure.

    Accused is only what the least leftover shows. An end is seen late, by what an idle device takes to answer or a
    marker behind nothing to be reached, and that once for every stop; the passes in flight may be long ones.
    """
    least_s = max(0.0, leftover_s - max(window.idle_drain_s, window.marker_late_s) * window.stops)
    longest_s = longest_pass_s(evidence, window)
    claim, tokens = evidence.claim, ledger_tokens(evidence)
    severity: Severity = "note"
    are_long = False
    is_gain = claim is not None and excess(claim, closed_s - leftover_s + least_s, tokens) > 1 + TOLERANCE
    if is_gain and not is_idle_like(window, leftover_s):
        share = least_s / open_s if open_s > 0 else float("inf")
        is_few = window.passes < MANY_PASSES
        if least_s > LOOK_AHEAD_PASSES * longest_s or (is_few and share > 1.0):
            severity = "bogus"
        elif least_s > LOOK_AHEAD_PASSES * typical_pass_s(evidence, window):
            severity, are_long = "inconclusive", True
        elif is_few and share > 0.1:
            severity = "inconclusive"
    return Leftover(least_s=least_s, longest_pass_s=longest_s, severity=severity, is_two_long_passes=are_long)
