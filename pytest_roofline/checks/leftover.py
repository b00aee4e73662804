"""How grave is work that was still to be done when the clock was stopped: one rule for drains, events, lazy graphs."""

from __future__ import annotations

from pytest_roofline.checks.evidence import Claim, Evidence, Severity, Window

TOLERANCE = 0.02
"""By how much a claim may exceed the ledger over closed time: the cost of reading clocks and of forcing outputs."""
LOOK_AHEAD_PASSES = 2.0
"""Engines schedule the next step while this one runs: one or two passes in flight are honest."""
IDLE_DRAIN_FACTOR = 10.0
MANY_PASSES = 20


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
        watched = window.passes * evidence.batch * evidence.tokens_per_pass
    if evidence.ids_seen is not None:
        return max(float(evidence.ids_seen), watched)
    return max(evidence.claim.tokens, watched) if evidence.claim else 0.0


def is_idle_like(window: Window, leftover_s: float) -> bool:
    """Whether it is what draining an idle device may cost."""
    return leftover_s <= IDLE_DRAIN_FACTOR * window.idle_drain_s * window.stops


def severity_of_leftover(window: Window, leftover_s: float, open_s: float) -> Severity:
    """For a claim that profits: over two passes is bogus; of few passes, over 10 % of the open window is unsure."""
    if is_idle_like(window, leftover_s):
        return "note"
    # What an idle device takes to answer is no work: each stop is seen that much late.
    if leftover_s - window.idle_drain_s * window.stops > LOOK_AHEAD_PASSES * window.pass_s:
        return "bogus"
    share = leftover_s / open_s if open_s > 0 else float("inf")
    if window.passes < MANY_PASSES:
        return "bogus" if share > 1.0 else "inconclusive" if share > 0.1 else "note"
    return "note"
