"""Do the clock that the test read and the private clock tell the same time?"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_roofline.checks.claimed import Claim, ClockDrift, Window
from pytest_roofline.checks.evidence import Evidence, Finding, Severity
from pytest_roofline.checks.leftover import TOLERANCE, excess, ledger_tokens
from pytest_roofline.units import format_ratio, format_seconds

CLOCK_TOLERANCE = 0.01
"""A public and the private clock may differ by this share of the window (clocks are slewed by up to 0.05 %)."""
LEAST_OF_ALL = 0.5
"""Share of the processor's time: threads that only wait, or do something else, take some of it, too."""
STEPPED_CLOCKS = ("time.time", "time.time_ns")
"""Clocks that a time server may set back at any moment, which is nobody's fault."""


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
        and not window.is_by_events  # `events_disagree` knows how those go wrong
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


def _counts_processor_time(evidence: Evidence, claim: Claim, window: Window) -> bool:
    """Whether the test's clock counted most of what the processor did for this process, on a device that is the
    processor, and no more is claimed than that.

    The time of one thread, while others did the work, is less than that; and an accelerator works in no such time.
    """
    if evidence.cores is None or window.cpu_s is None or window.returned_s is None:
        return False
    is_most = window.returned_s >= LEAST_OF_ALL * window.cpu_s
    return is_most and excess(claim, window.returned_s, ledger_tokens(evidence)) <= 1 + TOLERANCE


def _disagreement(evidence: Evidence, clock: str, public_s: float, low_s: float, high_s: float) -> Finding:
    claim, window = evidence.claim, evidence.window
    severity: Severity = "note"
    if claim is not None:
        if window is not None:
            if excess(claim, window.closed_s, ledger_tokens(evidence)) > 1 + TOLERANCE:
                severity = "bogus"
        elif public_s < low_s:
            # No window: a claim that rests on this clock is too good, and nobody can tell whether it does. A clock
            # that no time server touches was patched; one that may be set back accuses nobody.
            severity = "inconclusive" if clock in STEPPED_CLOCKS else "bogus"
    cause = "the clock was patched, stepped, or read in another unit"
    if claim is not None and window is not None and _counts_processor_time(evidence, claim, window):
        # The work is all in there. That others had the processor meanwhile makes nobody a cheat, and no rate either.
        severity = "inconclusive" if severity == "bogus" else severity
        cause = (
            f"it counts the time of the processor, which worked for {format_seconds(public_s)} on this process; "
            "for the rest the process waited, or others had the processor"
        )
    where = f" at {window.stop_where}" if window is not None and window.stop_where else ""
    return Finding(
        check="clock-disagrees",
        severity=severity,
        message=(
            f"{clock} says {format_seconds(public_s)}, the private clock {format_seconds(high_s)} "
            f"({format_ratio(high_s / public_s) if public_s > 0 else 'not positive'}) for the same stretch"
            f"{where}: {cause}"
        ),
        figures={"public_s": public_s, "private_low_s": low_s, "private_high_s": high_s},
        remedy="time with time.perf_counter(), unpatched, in seconds",
    )
