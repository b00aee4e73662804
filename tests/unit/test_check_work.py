"""The court's word on whether work was done: texts, figures, and who is not accused."""

from __future__ import annotations

import math
from typing import Any

import court
import pytest

from pytest_roofline.checks.attempts import Compared, FreshInput, Overwritten, Tampered, Work
from pytest_roofline.checks.evidence import Finding
from pytest_roofline.checks.work import stale_output, work_missing
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.verdict import error_of, judge


def stale(**tried: Any) -> Finding | None:
    """What `stale-output` says of this work."""
    return stale_output(court.loop(work=Work(**tried)))


def missing(**tried: Any) -> Finding | None:
    """What `work-missing` says of this work."""
    return work_missing(court.loop(work=Work(**tried)))


def overwritten(fate: Any, **facts: Any) -> Overwritten:
    """Two arrays of 64 kB."""
    return Overwritten(**{"fate": fate, "arrays": 2, "size_bytes": 64e3, **facts})


def compared(**facts: Any) -> Compared:
    """Three passes that agree in bfloat16."""
    return Compared(
        **{
            "passes": 3,
            "worst_pass": 2,
            "elements": 4096,
            "rms_error": 0.01,
            "largest_error": 0.05,
            "tolerance": 0.0884,
            "dtype": "bfloat16",
            **facts,
        }
    )


@pytest.mark.parametrize(
    ("seen", "first_line"),
    [
        (
            overwritten("untouched", is_made_by_step=True),
            "a pass returned an earlier pass's output and did not write it (2 arrays, 64.0 kB)",
        ),
        (
            overwritten("unwritten", arrays=1),
            "the output of a pass was written by nobody: it is memory that the step allocated and returned as it came "
            "(1 array, 64.0 kB)",
        ),
        (overwritten("wakes-on-nan"), "the step writes its output only when it finds NaN in it (2 arrays, 64.0 kB)"),
    ],
)
def test_an_output_that_was_not_written_is_bogus(seen: Overwritten, first_line: str) -> None:
    """The first line is complete, the rest says what was found, what was expected, and why it may be."""
    finding = stale(overwritten=seen)
    assert finding is not None
    assert (finding.check, finding.severity) == ("stale-output", "bogus")
    assert finding.message.split("\n")[0] == first_line
    assert [line.split(":")[0].strip() for line in finding.message.split("\n")[1:]] == ["found", "expected", "likely"]
    assert finding.figures["size_bytes"] == 64e3
    assert finding.remedy


def test_an_output_that_nobody_was_seen_to_write_is_a_doubt() -> None:
    """It may be a placeholder beside work that leaves no trace: no verdict, and no accusation."""
    finding = stale(overwritten=overwritten("untouched"))
    assert finding is not None
    assert finding.severity == "inconclusive"
    assert "nothing shows that a pass did any work" in finding.message
    assert "return the output of the pass" in finding.remedy


@pytest.mark.parametrize(
    "seen",
    [overwritten("renewed"), overwritten("unknown"), overwritten("untouched", is_work_seen=True), None],
)
def test_nobody_is_accused_without_proof(seen: Overwritten | None) -> None:
    """Rewritten, not tried, or an input that is handed on beside visible work."""
    assert stale(overwritten=seen) is None


@pytest.mark.parametrize(
    ("is_same_address", "words"), [(True, "fresh values at the same address"), (False, "two different inputs")]
)
def test_an_output_that_ignores_its_input_is_bogus(is_same_address: bool, words: str) -> None:
    """Bit for bit the same, of another input."""
    finding = stale(fresh_input=FreshInput(elements=32_000, is_identical=True, is_same_address=is_same_address))
    assert finding is not None
    assert finding.severity == "bogus"
    assert finding.message.startswith(f"{words} gave the same output, bit for bit (32000 elements)")


def test_outputs_that_follow_their_input_are_honest() -> None:
    """Also where nothing could be compared."""
    assert stale(fresh_input=FreshInput(elements=10)) is None
    assert stale(fresh_input=FreshInput(reason="no arrays")) is None


def test_an_output_off_the_reference_is_bogus_with_figures() -> None:
    """Errors, the tolerance, and which dtype it comes from."""
    finding = missing(compared=compared(rms_error=0.5, largest_error=2.0))
    assert finding is not None
    assert (finding.check, finding.severity) == ("work-missing", "bogus")
    assert finding.message.split("\n")[0] == (
        "the output of pass 2 is not the reference's: off by 0.5 of its magnitude, 0.0884 is what bfloat16 explains"
    )
    assert "a largest one of 2" in finding.message
    assert "at most 0.0884 and 0.707" in finding.message
    assert "layers, rows or passes that are skipped" in finding.message
    assert finding.figures["tolerance"] == 0.0884


def test_one_wrong_row_is_bogus() -> None:
    """The root mean square forgives a row, the largest error does not."""
    finding = missing(compared=compared(rms_error=0.02, largest_error=1.4))
    assert finding is not None
    assert finding.severity == "bogus"


def test_a_stray_infinity_is_bogus_and_its_figures_are_numbers() -> None:
    """NaN on one side only; reports hold no infinity."""
    finding = missing(compared=compared(rms_error=math.inf, largest_error=math.inf))
    assert finding is not None
    assert finding.severity == "bogus"
    assert finding.figures["rms_error"] is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"is_same_state": False}, "there is no reset, so step and reference may not have begun in the same state"),
        ({"is_path_same": False}, "an earlier pass chose another token, so the inputs differ from there"),
        ({"elements": 0, "ids": 4, "ids_differing": 1}, "1 of 4 ids differ from the reference's"),
    ],
)
def test_a_difference_with_another_explanation_is_a_doubt(facts: dict[str, Any], words: str) -> None:
    """State, path and close calls."""
    finding = missing(compared=compared(rms_error=0.5, **facts))
    assert finding is not None
    assert finding.severity == "inconclusive"
    assert words in finding.message
    assert finding.remedy


@pytest.mark.parametrize(
    "seen",
    [
        compared(),
        compared(elements=0, ids=4),
        compared(elements=0),
    ],
)
def test_outputs_like_the_reference_are_honest(seen: Compared) -> None:
    """Within the tolerance, or nothing to compare."""
    assert missing(compared=seen) is None


def test_an_output_that_ignores_the_weights_is_bogus() -> None:
    """Every weight that was tried is named by its shape."""
    finding = missing(tampered=Tampered(weights=("4096x4096", "4096x11008")))
    assert finding is not None
    assert (finding.check, finding.severity) == ("work-missing", "bogus")
    assert finding.message.startswith("a weight was changed and the output was not: nothing moved in any of 2 tries")
    assert "4096x4096, 4096x11008" in finding.message
    assert finding.remedy == "read the weights on every pass"


@pytest.mark.parametrize("seen", [Tampered(weights=("8x8",), is_changed=True), Tampered()])
def test_an_output_that_follows_a_weight_is_honest(seen: Tampered) -> None:
    """Or where nothing was asked."""
    assert missing(tampered=seen) is None


def test_a_proof_that_was_asked_for_and_not_tried_is_told() -> None:
    """In a note, which hides nothing that the other proof found."""
    untried = Compared(reason="one side returned nothing")
    note = missing(compared=untried)
    assert note is not None
    assert (note.check, note.severity) == ("work-missing", "note")
    assert note.message == "reference= was asked for and not tried: one side returned nothing"
    assert "give reset=" in note.remedy
    tampered = missing(tampered=Tampered(reason="the weights are mapped"))
    assert tampered is not None
    assert tampered.message == "tamper=True was asked for and not tried: the weights are mapped"
    found = missing(compared=untried, tampered=Tampered(weights=("8x8",)))
    assert found is not None
    assert found.severity == "bogus"


def test_without_a_look_at_the_work_the_checks_are_silent() -> None:
    """Absence of evidence accuses nobody."""
    assert stale_output(court.loop()) is None
    assert work_missing(court.loop()) is None


def test_the_verdict_is_bogus_and_may_be_allowed() -> None:
    """The two names are what `allow=` takes."""
    work = Work(overwritten=overwritten("untouched", is_made_by_step=True))
    evidence = court.loop(work=work)
    verdict = judge(evidence, 0.8)
    error = error_of(evidence, verdict)
    assert isinstance(error, BogusMeasurement)
    assert str(error).split("\n")[0].endswith("[stale-output]")
    assert judge(court.loop(work=work, allow=frozenset({"stale-output"})), 0.8).outcome == "passed"
