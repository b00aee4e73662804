"""The process did not run for a part of an audit: stopped, frozen, or without a core. What that leaves undecided.

It never creates a failure, and it excuses no result that is too fast.
"""

from __future__ import annotations

from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.units import format_fraction, format_seconds

LEAST_SHARE = 0.02
"""Of the window: a shorter stop moves no verdict."""
_REMEDY = "run the test again, on a machine that does not stop it; roofline.decode measures in blocks and survives one"


def suspended(evidence: Evidence) -> Finding | None:
    """A window with a stop in it proves no miss, and a stop behind it no work that was left over."""
    window_s = evidence.window.window_s if evidence.window else evidence.claim.seconds if evidence.claim else 0.0
    if evidence.suspended_s <= 0 and evidence.suspended_late_s <= 0:
        return None
    figures = {
        "suspended_s": evidence.suspended_s,
        "suspended_late_s": evidence.suspended_late_s,
        "window_s": window_s,
    }
    if evidence.suspended_late_s > LEAST_SHARE * window_s:
        return Finding(
            check="not-drained",  # allowing neighbours is not allowing an open clock
            severity="inconclusive",
            message=(
                f"the process did not run for {format_seconds(evidence.suspended_late_s)} while the device was drained "
                "behind the stop of the clock: whether work was left over cannot be told"
            ),
            figures=figures,
            remedy=_REMEDY,
        )
    noise, budget = evidence.fraction, evidence.at_least
    is_open = noise is not None and budget is not None and noise.clears(budget) is None
    through = (
        f": the fraction is between {format_fraction(noise.low)} with and {format_fraction(noise.high)} without them"
        if noise is not None
        else ""
    )
    return Finding(
        check="device-shared",
        severity="inconclusive" if is_open else "note",
        message=(
            f"the process did not run for {format_seconds(evidence.suspended_s)} of the window of "
            f"{format_seconds(window_s)} (it was stopped, or no core was free){through}"
        ),
        figures=figures,
        remedy=_REMEDY,
    )
