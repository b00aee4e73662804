"""Were the device events behind a claim where the work was, and did they keep time?

An interval between two events must hold the work that was submitted between their records. Where it was shorter than
the private clock and the markers allow, the events stood on another stream, were stamped by the host, or told the
time in another unit.
"""

from __future__ import annotations

from pytest_roofline.checks.claimed import Window
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.leftover import judge_leftover, ledger_tokens
from pytest_roofline.units import format_rate, format_ratio, format_seconds

SAME_TIME = 0.05
"""Two times of one stretch are the same within 5 % (and 20 us): what recording an event costs the host."""
_SLACK_S = 20e-6
UNIT_FACTORS = (1e3, 1e6, 1e9)

EVENT_REMEDY = (
    "record both events on the stream that does the work (or let its stream wait for the others), synchronize the "
    "second one, and read milliseconds as milliseconds; or drain the device and read time.perf_counter()"
)


def events_disagree(evidence: Evidence) -> Finding | None:
    """Device events gave less time than the work submitted between their records took."""
    window, claim = evidence.window, evidence.claim
    if window is None or claim is None or not window.is_by_events or claim.seconds <= 0:
        return None
    given_s = window.returned_s
    if given_s is None:
        return None
    closed_s = window.window_s + window.beside_s
    highest_s = window.private_high_s if window.private_high_s is not None else closed_s
    if window.beside_s <= 0.01 * closed_s + _SLACK_S:
        if given_s > highest_s * 1.01 + 2 * _SLACK_S:
            return _note(window, given_s, highest_s)
        return None
    beside = judge_leftover(evidence, window, window.beside_s, open_s=window.window_s, closed_s=window.closed_s)
    severity = beside.severity
    if severity == "note":
        return _note(window, given_s, closed_s)
    check, cause = _cause(window, given_s, closed_s)
    where = f" at {window.stop_where}" if window.stop_where else ""
    return Finding(
        check=check,
        severity=severity,
        message=(
            f"the device events say {format_seconds(given_s)}{where}, but the work submitted between them took "
            f"{format_seconds(closed_s)} ({format_ratio(closed_s / given_s) if given_s > 0 else 'not positive'}): "
            f"{cause}\n"
            f"  found: {window.clock or 'device events'}; {window.beside_s / window.pass_s:.1f} passes of "
            f"{window.passes:g} outside of the interval\n"
            f"  claimed {format_rate(claim.tokens_per_s)} tok/s, the closed time allows "
            f"{format_rate(ledger_tokens(evidence) / window.closed_s)} tok/s"
        ),
        figures={
            "events_s": given_s,
            "closed_s": window.closed_s,
            "host_s": window.host_s,
            "passes": window.passes,
            "claimed_tokens_per_s": claim.tokens_per_s,
            "possible_tokens_per_s": ledger_tokens(evidence) / window.closed_s,
        },
        remedy=EVENT_REMEDY,
    )


def _note(window: Window, given_s: float, private_s: float) -> Finding:
    return Finding(
        check="clock-disagrees",
        severity="note",
        message=(
            f"the device events say {format_seconds(given_s)}, the private clock {format_seconds(private_s)} for the "
            "same stretch; the longer one is charged to the measurement"
        ),
        figures={"events_s": given_s, "closed_s": window.closed_s, "host_s": window.host_s},
    )


def _cause(window: Window, given_s: float, closed_s: float) -> tuple[str, str]:
    """Which check it is, and the likely cause."""
    if given_s <= 0:
        return "clock-disagrees", "one event was read at both ends, or its stamp wrapped"
    host_s = window.host_s
    if host_s is not None and abs(given_s - host_s) <= SAME_TIME * host_s + _SLACK_S and host_s > _SLACK_S:
        return (
            "claim-exceeds-closed-time",
            "the events kept pace with the host and not with the work: they stand on another stream than it, or were "
            "stamped when they were queued",
        )
    ratio = closed_s / given_s
    for factor in UNIT_FACTORS:
        if abs(ratio / factor - 1) <= SAME_TIME:
            return "clock-disagrees", f"the time was read in another unit (a factor of {factor:g})"
    return (
        "claim-exceeds-closed-time",
        "the work ran on a stream that these events do not wait for, or their clock is wrong",
    )
