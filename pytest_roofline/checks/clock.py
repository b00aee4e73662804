"""Was the clock stopped when the work was done, and does the claim fit into the time that passed?

These checks need no knowledge of the hardware. A claimed rate may not exceed the ledger's tokens over the closed
time of its window.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_roofline.checks.amounts import tokens_disagree
from pytest_roofline.checks.evidence import Claim, ClockDrift, Evidence, Finding, Severity, Window
from pytest_roofline.units import format_fraction, format_rate, format_ratio, format_seconds

TOLERANCE = 0.02
"""By how much a claim may exceed the ledger over closed time: the cost of reading clocks and of forcing outputs."""
LOOK_AHEAD_PASSES = 2.0
"""Engines schedule the next step while this one runs: one or two passes in flight are honest."""
IDLE_DRAIN_FACTOR = 10.0
MANY_PASSES = 20
CLOCK_TOLERANCE = 0.01
"""A public and the private clock may differ by this share of the window (clocks are slewed by up to 0.05 %)."""
STEPPED_CLOCKS = ("time.time", "time.time_ns")
"""Clocks that a time server may set back at any moment, which is nobody's fault."""

DRAIN_REMEDY = (
    "drain the device before stopping the clock (torch.accelerator.synchronize(), jax.block_until_ready(out), "
    "mx.eval(out), or out.item()) on the device and stream that do the work"
)


def _excess(claim: Claim, seconds: float, tokens: float) -> float:
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


def _is_leftover_large(window: Window) -> bool:
    """More than two passes *and* more than ten drains of an idle device."""
    return (
        window.leftover_s > LOOK_AHEAD_PASSES * window.pass_s
        and window.leftover_s > IDLE_DRAIN_FACTOR * window.idle_drain_s
    )


def _stop(window: Window) -> str:
    return f" at {window.stop_where}" if window.stop_where else ""


def not_drained(evidence: Evidence) -> Finding | None:
    """The device was still working when the clock was stopped, and the claim profits from it."""
    window, claim = evidence.window, evidence.claim
    if window is None or claim is None or claim.seconds <= 0 or window.leftover_s <= 0:
        return None
    excess = _excess(claim, window.closed_s, ledger_tokens(evidence))
    share = window.leftover_s / window.window_s if window.window_s > 0 else float("inf")
    leftover_passes = window.leftover_s / window.pass_s if window.pass_s > 0 else 0.0
    is_idle_like = window.leftover_s <= IDLE_DRAIN_FACTOR * window.idle_drain_s
    severity: Severity = "note"
    if excess > 1 + TOLERANCE and not is_idle_like:
        if _is_leftover_large(window):
            severity = "bogus"
        elif window.passes < MANY_PASSES:
            severity = "bogus" if share > 1.0 else "inconclusive" if share > 0.1 else "note"
    if severity == "note" and is_idle_like:
        return None  # that is what draining an idle device costs
    figures = {
        "window_s": window.window_s,
        "leftover_s": window.leftover_s,
        "closed_s": window.closed_s,
        "leftover_passes": leftover_passes,
        "idle_drain_s": window.idle_drain_s,
        "passes": window.passes,
        "claimed_tokens_per_s": claim.tokens_per_s,
        "possible_tokens_per_s": ledger_tokens(evidence) / window.closed_s if window.closed_s > 0 else None,
    }
    if severity == "note":
        return Finding(
            check="not-drained",
            severity="note",
            message=(
                f"{leftover_passes:.1f} passes ({format_seconds(window.leftover_s)}) were still running when the clock "
                f"stopped{_stop(window)}; they are charged to the measurement"
            ),
            figures=figures,
        )
    message = (
        f"the clock stopped at {format_seconds(window.window_s)}{_stop(window)} but the device finished at "
        f"{format_seconds(window.closed_s)} ({format_ratio(window.closed_s / max(window.window_s, 1e-12))}): "
        f"missing synchronization\n"
        f"  found: {leftover_passes:.1f} passes of work, {format_seconds(window.leftover_s)}, left over after the stop "
        f"(an idle drain takes {format_seconds(window.idle_drain_s)})\n"
        f"  claimed {format_rate(claim.tokens_per_s)} tok/s, the closed time allows "
        f"{format_rate(ledger_tokens(evidence) / window.closed_s)} tok/s"
    )
    if severity == "inconclusive":
        message += (
            f"\n  {window.passes:g} passes are too few to tell look-ahead from a missing drain "
            f"({format_fraction(share)} of the window is left over)"
        )
    return Finding(check="not-drained", severity=severity, message=message, figures=figures, remedy=DRAIN_REMEDY)


def claim_exceeds_closed_time(evidence: Evidence) -> Finding | None:
    """The claimed rate does not fit into the window even without what was left over."""
    claim = evidence.claim
    if claim is None:
        return None
    if claim.seconds <= 0:
        return Finding(
            check="claim-exceeds-closed-time",
            severity="bogus",
            message=(
                f"an elapsed time of {format_seconds(claim.seconds)} was claimed, and no work takes that: a timer that "
                "was read twice at one end, wrapped, or is too coarse"
            ),
            figures={"claimed_s": claim.seconds},
            remedy="time more passes, with time.perf_counter()",
        )
    if evidence.is_window_unknown:
        return Finding(
            check="claim-exceeds-closed-time",
            severity="inconclusive",
            message=(
                f"{evidence.reads} clock reads were seen and no two of them are {format_seconds(claim.seconds)} apart, "
                "which is what the claim says: its window is not known"
            ),
            figures={"reads": evidence.reads, "claimed_s": claim.seconds},
            remedy="put the timed part into `with audit.window():`, or pass the single timings as samples=[...]",
        )
    window = evidence.window
    if window is None:
        return _longer_than_audit(evidence, claim)
    tokens = ledger_tokens(evidence)
    # What was left over after the stop is `not-drained`'s to judge: a little of it is honest.
    if _excess(claim, window.window_s, tokens) <= 1 + TOLERANCE:
        return None
    if _is_clock_the_cause(evidence) or _are_tokens_the_cause(evidence, claim, window):
        return None  # those checks name it
    possible = tokens / window.closed_s if window.closed_s > 0 else 0.0
    return Finding(
        check="claim-exceeds-closed-time",
        severity="bogus",
        message=(
            f"{format_rate(claim.tokens_per_s)} tok/s claimed, but {tokens:g} tokens in "
            f"{format_seconds(window.closed_s)} are {format_rate(possible)} tok/s"
            f"{_less(claim.tokens_per_s, possible)}\n"
            f"  the window was closed by the tool ({window.source}{_stop(window)}): "
            f"{format_seconds(window.window_s)} and {format_seconds(window.leftover_s)} left over\n"
            f"  likely: a wrong divisor, another unit, or only part of the time counted"
        ),
        figures={
            "claimed_tokens_per_s": claim.tokens_per_s,
            "claimed_s": claim.seconds,
            "window_s": window.window_s,
            "closed_s": window.closed_s,
            "tokens": tokens,
            "possible_tokens_per_s": possible,
        },
        remedy="claim the tokens and the seconds of the same stretch of the run",
    )


def _less(claimed: float, possible: float) -> str:
    return f" ({format_ratio(claimed / possible)} less)" if possible > 0 else ""


def _is_clock_the_cause(evidence: Evidence) -> bool:
    """Whether `clock-disagrees` decides already; a note of it, or an allowed one, explains nothing."""
    finding = clock_disagrees(evidence)
    return finding is not None and finding.severity == "bogus" and finding.check not in evidence.allow


def _are_tokens_the_cause(evidence: Evidence, claim: Claim, window: Window) -> bool:
    """Whether the claimed time is right and only its tokens were never seen, which `tokens-disagree` says."""
    return window.window_s <= claim.seconds * (1 + TOLERANCE) and tokens_disagree(evidence) is not None


def _longer_than_audit(evidence: Evidence, claim: Claim) -> Finding | None:
    """No clock read was seen (device events, C timers): the claim must at least fit into the audit and its pace."""
    whole = evidence.whole_audit_s
    if whole is None or claim.seconds <= whole * (1 + TOLERANCE):
        return None
    return Finding(
        check="claim-exceeds-closed-time",
        # With a read inside, its start may lie before the audit: too slow a claim, and nobody's gain.
        severity="note" if evidence.reads else "bogus",
        message=(
            f"{format_seconds(claim.seconds)} claimed, but the whole audit lasted {format_seconds(whole)}: "
            "the clock behind the claim runs in another unit"
        ),
        figures={"claimed_s": claim.seconds, "whole_audit_s": whole},
        remedy="claim seconds; device events give milliseconds, profilers micro- or nanoseconds",
    )


def _outside(value_s: float, low_s: float, high_s: float, slack_s: float) -> bool:
    """Whether a public reading disagrees with the private bounds by over 1 % and by over a tick of the clock."""
    lowest = low_s - CLOCK_TOLERANCE * abs(low_s) - slack_s
    highest = high_s + CLOCK_TOLERANCE * abs(high_s) + slack_s
    return not lowest <= value_s <= highest


def clock_disagrees(evidence: Evidence) -> Finding | None:
    """The clock that the test read and the private clock do not tell the same time.

    Bogus only where the claim profits from it; a clock that runs fast makes a result look slow, which is a note. Of
    several disagreements the gravest one is told.
    """
    findings = list(_disagreements(evidence))
    graded = [finding for severity in ("bogus", "inconclusive") for finding in findings if finding.severity == severity]
    return next(iter(graded or findings), None)


def _disagreements(evidence: Evidence) -> Iterator[Finding]:
    window = evidence.window
    if (
        window is not None
        and window.returned_s is not None
        and window.private_low_s is not None
        and window.private_high_s is not None
        and _outside(window.returned_s, window.private_low_s, window.private_high_s, 2e-6)
    ):
        yield _disagreement(
            evidence, window.clock or "the clock", window.returned_s, window.private_low_s, window.private_high_s
        )
    for drift in evidence.drifts:
        if _outside(drift.public_s, drift.private_low_s, drift.private_high_s, 2 * drift.resolution_s + 1e-3):
            is_of_others = bool(evidence.clocks_read) and drift.clock not in evidence.clocks_read
            if not is_of_others and (window is None or window.returned_s is None or window.clock == drift.clock):
                yield _disagreement(evidence, drift.clock, drift.public_s, drift.private_low_s, drift.private_high_s)
            else:
                yield _clock_note(drift)


def _clock_note(drift: ClockDrift) -> Finding:
    return Finding(
        check="clock-disagrees",
        severity="note",
        message=(
            f"{drift.clock} advanced by {format_seconds(drift.public_s)} while "
            f"{format_seconds(drift.private_high_s)} passed; the claim rests on another clock"
        ),
        figures={"public_s": drift.public_s, "private_s": drift.private_high_s},
    )


def _disagreement(evidence: Evidence, clock: str, public_s: float, low_s: float, high_s: float) -> Finding:
    claim, window = evidence.claim, evidence.window
    severity: Severity = "note"
    if claim is not None:
        if window is not None:
            if _excess(claim, window.closed_s, ledger_tokens(evidence)) > 1 + TOLERANCE:
                severity = "bogus"
        elif public_s < low_s:
            # No window: a claim that rests on this clock is too good, and nobody can tell whether it does. A clock
            # that no time server touches was patched; one that may be set back accuses nobody.
            severity = "inconclusive" if clock in STEPPED_CLOCKS else "bogus"
    return Finding(
        check="clock-disagrees",
        severity=severity,
        message=(
            f"{clock} says {format_seconds(public_s)}, the private clock {format_seconds(high_s)} "
            f"({format_ratio(high_s / public_s) if public_s > 0 else 'not positive'}) for the same stretch"
            f"{_stop(window) if window else ''}: the clock was patched, stepped, or read in another unit"
        ),
        figures={"public_s": public_s, "private_low_s": low_s, "private_high_s": high_s},
        remedy="time with time.perf_counter(), unpatched, in seconds",
    )
