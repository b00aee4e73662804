"""The exceptions: what can be caught as what."""

from __future__ import annotations

import pytest

from pytest_roofline import errors
from pytest_roofline.verdict import Verdict

VERDICTS = (errors.BogusMeasurement, errors.BelowCeiling, errors.AboveBand, errors.InconclusiveMeasurement)


def test_everything_is_a_roofline_error() -> None:
    """One name catches all that the package raises on purpose."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) >= 9
    assert all(issubclass(kind, errors.RooflineError) for kind in kinds)


def test_wrong_use_is_a_value_error() -> None:
    """Usage errors, missing libraries and missing devices can be caught as ValueError."""
    for kind in (errors.RooflineUsageError, errors.MissingDependency, errors.DeviceUnavailable):
        assert issubclass(kind, ValueError)
        assert issubclass(kind, errors.RooflineUsageError)
    assert not issubclass(errors.MeasurementError, ValueError)


def test_only_budgets_are_assertions() -> None:
    """A budget is asserted; a bogus or an undecided figure is no failed assertion."""
    assert [issubclass(kind, AssertionError) for kind in VERDICTS] == [False, True, True, False]


@pytest.mark.parametrize("kind", VERDICTS)
def test_verdicts_are_told_apart_and_carry_their_findings(kind: type[Exception]) -> None:
    """No verdict is caught by the name of another, and each holds the verdict behind its message."""
    others = tuple(other for other in VERDICTS if other is not kind)
    verdict = Verdict(outcome="bogus")
    error = kind("a message", verdict)  # type: ignore[call-arg]
    assert not isinstance(error, others)
    assert str(error) == "a message"
    assert error.verdict is verdict  # type: ignore[attr-defined]
    assert kind("alone").verdict is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name, na\u00efve", "plain name, na\u00efve"),
        ("a\nb\x1b[2J\t", "a\\nb\\x1b[2J\\t"),
        ("bad\udcff \u202e", "bad\\udcff \\u202e"),
        ("x" * 200, "x" * 120 + " ..."),
        ("\n" * 200, "\\n" * 60 + " ..."),
    ],
)
def test_a_strangers_name_is_one_line(text: str, shown: str) -> None:
    """Escaped where it is not printable, and cut."""
    assert errors.one_line(text) == shown
