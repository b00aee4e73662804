"""What is kept of the attempts of a test, without pytest."""

from __future__ import annotations

from pytest_roofline.errors import BelowCeiling, BogusMeasurement
from pytest_roofline.outcome import Outcome, attempt_of, results_in
from pytest_roofline.reruns import irrevocable, rerun_lines
from pytest_roofline.tally import RECORD

BOGUS = {"verdict": "bogus", "message": "BogusMeasurement: the clock stopped at 1.2 ms", "results": []}
FAILED = {"verdict": "failed", "message": "BelowCeiling: 41 % of the probed read ceiling", "results": []}


def test_only_a_bogus_attempt_cannot_be_undone() -> None:
    """Missed budgets and doubt may be run again; the message counts attempts and names the cause."""
    assert irrevocable([]) is None
    assert irrevocable([FAILED, {"verdict": "inconclusive", "message": "", "results": []}]) is None
    error = irrevocable([FAILED, BOGUS])
    assert str(error).splitlines()[0] == (
        "attempt 2 of this test was bogus, and running it again does not undo that: "
        "BogusMeasurement: the clock stopped at 1.2 ms"
    )
    assert "--rerun-except=BogusMeasurement" in str(error)


def test_a_bogus_attempt_speaks_for_itself() -> None:
    """Where the present attempt is bogus too, its own figures are told."""
    assert irrevocable([BOGUS], BogusMeasurement("3.00 GB declared")) is None
    assert irrevocable([BOGUS], BelowCeiling("41 %")) is not None


def test_attempts_are_one_line_each() -> None:
    """The first line of whatever ended an attempt; nothing where it passed."""
    missed = attempt_of(Outcome(standing="failed"), BelowCeiling("41 % of the ceiling\n  found: more"))
    assert missed == {"verdict": "failed", "message": "BelowCeiling: 41 % of the ceiling"}
    assert attempt_of(Outcome(standing="passed"), None)["message"] == ""
    assert attempt_of(Outcome(standing="inconclusive", reason="noise"), None)["message"] == "noise"
    records = {"t.py::a": {"verdict": "passed", "attempts": [FAILED]}, "t.py::b": {"verdict": "passed"}}
    assert list(rerun_lines(records)) == [
        "RERUN t.py::a: passed on attempt 2 of 2",
        "  attempt 1 failed: BelowCeiling: 41 % of the probed read ceiling",
    ]


def test_results_are_taken_from_the_record() -> None:
    """They are kept once, as text; a test that left no record has none."""
    assert results_in([("other", 1), (RECORD, '{"results": [{"fraction": 0.4}]}')]) == [{"fraction": 0.4}]
    assert results_in([("other", 1)]) == []
