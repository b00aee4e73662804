"""Device events against the markers behind the work: which gap is bogus, unsure or a note, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import audit, claim, loop, window

from pytest_roofline.checks.clock import claim_exceeds_closed_time, not_drained
from pytest_roofline.checks.device_events import EVENT_REMEDY, events_disagree
from pytest_roofline.checks.disagreement import clock_disagrees
from pytest_roofline.checks.evidence import Evidence

PASS_S = 1e-3


def timed(given_s: float, *, passes: float = 100.0, **figures: Any) -> Evidence:
    """Passes of 1 ms by the markers; what the events gave is claimed."""
    closed_s = passes * PASS_S
    within_s = min(closed_s, max(0.0, given_s))
    return audit(
        window=window(
            **{
                "window_s": within_s,
                "leftover_s": closed_s - within_s,
                "beside_s": closed_s - within_s,
                "passes": passes,
                "returned_s": given_s,
                "private_low_s": closed_s,
                "private_high_s": closed_s,
                "is_by_events": True,
                "host_s": 0.5 * closed_s,
                "clock": "torch.cuda.Event",
                **figures,
            }
        ),
        claim=claim(passes, max(given_s, 1e-9)),
        reads=0,
        events_read=1,
    )


@pytest.mark.parametrize(
    ("given_s", "passes", "expected"),
    [
        (0.1, 100.0, None),
        (0.0995, 100.0, None),
        (0.0981, 100.0, "note"),
        (0.0975, 100.0, "inconclusive"),
        (0.097, 100.0, "bogus"),
        (0.05, 100.0, "bogus"),
        (0.2, 100.0, "note"),
        (0.0095, 10.0, "note"),
        (0.0085, 10.0, "inconclusive"),
        (0.0005, 1.0, "inconclusive"),
        (0.0004, 1.0, "bogus"),
    ],
)
def test_a_gap_is_judged_in_passes(given_s: float, passes: float, expected: str | None) -> None:
    """Two passes of look-ahead are honest, two long ones unsure; of few, over 10 % unsure, over the window bogus."""
    finding = events_disagree(timed(given_s, passes=passes))
    assert (finding.severity if finding else None) == expected


def test_only_events_are_judged_here_and_only_here() -> None:
    """Other windows are the clock checks' business, and a gap beside events is nobody else's."""
    evidence = timed(0.05)
    assert clock_disagrees(evidence) is None
    assert not_drained(evidence) is None
    assert claim_exceeds_closed_time(evidence) is None
    assert events_disagree(audit()) is None
    assert events_disagree(loop()) is None
    assert events_disagree(replace(evidence, claim=claim(100.0, 0.0))) is None


def test_a_claim_that_does_not_profit_is_a_note() -> None:
    """The events lost half of the time, and the claim is of all of it."""
    finding = events_disagree(replace(timed(0.05), claim=claim(100.0, 0.1)))
    assert finding is not None
    assert finding.severity == "note"
    assert finding.message == (
        "the device events say 50.0 ms, the private clock 100 ms for the same stretch; the longer one is charged to "
        "the measurement"
    )


@pytest.mark.parametrize(
    ("given_s", "host_s", "check", "cause"),
    [
        (0.0, 0.05, "clock-disagrees", "one event was read at both ends, or its stamp wrapped"),
        (-0.1, 0.05, "clock-disagrees", "one event was read at both ends, or its stamp wrapped"),
        (1e-4, 0.05, "clock-disagrees", "the time was read in another unit (a factor of 1000)"),
        (1e-7, 0.05, "clock-disagrees", "the time was read in another unit (a factor of 1e+06)"),
        (
            0.05,
            0.0505,
            "claim-exceeds-closed-time",
            "the events kept pace with the host and not with the work: they stand on another stream than it, or were "
            "stamped when they were queued",
        ),
        (
            0.03,
            0.05,
            "claim-exceeds-closed-time",
            "the work ran on a stream that these events do not wait for, or their clock is wrong",
        ),
    ],
)
def test_the_cause_is_named(given_s: float, host_s: float, check: str, cause: str) -> None:
    """By zero, by the host's own time, by a power of a thousand; else the work was elsewhere."""
    finding = events_disagree(timed(given_s, host_s=host_s))
    assert finding is not None
    assert (finding.check, finding.severity, finding.remedy) == (check, "bogus", EVENT_REMEDY)
    assert finding.message.split("\n")[0].endswith(cause)


def test_the_message() -> None:
    """Both times, the line, the passes outside, and both rates."""
    finding = events_disagree(timed(0.025))
    assert finding is not None
    assert finding.message.split("\n") == [
        "the device events say 25.0 ms at test_it.py:12, but the work submitted between them took 100 ms (4x): the "
        "work ran on a stream that these events do not wait for, or their clock is wrong",
        "  found: torch.cuda.Event; 75.0 passes of 100 outside of the interval",
        "  claimed 4,000 tok/s, the closed time allows 1,000 tok/s",
    ]
    assert finding.figures["possible_tokens_per_s"] == pytest.approx(1000)
    assert "on the stream that does the work" in finding.remedy


def test_an_unknown_window_names_the_events() -> None:
    """The claim is none of the times that were read."""
    finding = claim_exceeds_closed_time(audit(window=None, is_window_unknown=True, reads=2, events_read=3))
    assert finding is not None
    assert finding.message == (
        "3 times between device events and 2 clock reads were seen, and nothing that is made of them is 250 ms, "
        "which is what the claim says: its window is not known"
    )
