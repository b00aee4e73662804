"""What a measurement returns."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction as Ratio
from pathlib import Path
from typing import Any

import pytest
from court import ceiling, claim, loop, sample, traffic, window

from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.device import Device
from pytest_roofline.result import (
    NOT_MEASURED,
    SCHEMA,
    Fraction,
    Result,
    explain_fraction,
    plain,
    unmeasured_result,
)
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import Verdict, judge

DEVICE = Device(name="Fake Accelerator", kind="fake", backend="fake")
BUILTIN = (dict, list, str, int, float, bool, type(None))


def fraction(value: float = 0.5, low: float = 0.4, high: float = 0.6, *, is_measured: bool = True) -> Fraction:
    """Half of the ceiling, known to within a tenth."""
    return Fraction(value, Interval(low=low, high=high), lambda: "the figures behind it", is_measured=is_measured)


def result(evidence: Evidence, middle: float | None = 0.8, **figures: Any) -> Result:
    """The result of a loop, judged."""
    verdict = judge(evidence, middle)
    return Result(
        **{
            "kind": evidence.kind,
            "label": evidence.label,
            "device": DEVICE,
            "fraction": fraction(math.nan if middle is None else middle),
            "mbu": 0.7,
            "step_s": 2.5e-3,
            "fixed_s": 1e-4,
            "tokens_per_s": 400.0,
            "tokens_per_s_per_user": 400.0,
            "bytes_per_s": 0.8e12,
            "ceiling": evidence.ceiling,
            "traffic": evidence.traffic,
            "verdict": verdict,
            "evidence": evidence,
            "samples": evidence.samples,
            **figures,
        }
    )


# -- the fraction


@pytest.mark.parametrize(
    ("compare", "operator", "truth"),
    [
        (lambda f: f >= 0.45, ">=", True),
        (lambda f: f > 0.5, ">", False),
        (lambda f: f <= 0.45, "<=", False),
        (lambda f: f < 0.7, "<", True),
        (lambda f: f == 0.5, "==", True),
        (lambda f: f != 0.5, "!=", False),
        (lambda f: 0.45 <= f, ">=", True),  # noqa: SIM300 - the number on the left is the subject
        (lambda f: 1 > f, "<", True),  # noqa: SIM300
        (lambda f: 0.5 == f, "==", True),  # noqa: SIM300
        (lambda f: f >= Ratio(1, 2), ">=", True),
    ],
)
def test_comparisons_are_those_of_a_float_and_are_recorded(
    compare: Callable[[Fraction], bool], operator: str, truth: bool
) -> None:
    """Each one is noted with its operator and its outcome, also when the number stands on the left."""
    value = fraction()
    assert compare(value) is truth
    (noted,) = value.comparisons
    assert (noted.operator, noted.truth) == (operator, truth)


def test_a_comparison_remembers_file_and_line() -> None:
    """The line of the test that compared, so that an assertion there can be recognised."""
    value = fraction()
    assert value >= 0.3
    assert 0.4 <= value  # noqa: SIM300 - the number on the left is the subject
    assert value == 0.5
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    lines = ("assert value >= 0.3", "assert 0.4 <= value", "assert value == 0.5")
    for noted, text in zip(value.comparisons, lines, strict=True):
        assert noted.where[0] == __file__
        assert source[noted.where[1] - 1].strip().startswith(text)


@pytest.mark.parametrize(("budget", "decided"), [(0.39, True), (0.4, True), (0.5, False), (0.6, False), (0.61, True)])
def test_a_comparison_is_decided_unless_the_budget_lies_inside(budget: float, decided: bool) -> None:
    """By the bounds of the fraction."""
    value = fraction()
    _ = value >= budget
    assert value.comparisons[-1].is_decided is decided
    assert value.comparisons[-1].other == budget


def test_other_types_are_compared_and_not_recorded() -> None:
    """A text is no budget, and has no order; approx and Decimal keep their own."""
    value = fraction()
    assert value != "0.5"
    assert value == pytest.approx(0.5)
    assert value > Decimal("0.1")
    assert value.comparisons == []
    with pytest.raises(TypeError):
        _ = value >= "0.5"  # type: ignore[operator]


def test_two_fractions_are_compared_once() -> None:
    """The left one records, with the line of the test; the right one is a number."""
    left, right = fraction(0.5), fraction(0.4)
    assert left > right
    assert (len(left.comparisons), len(right.comparisons)) == (1, 0)
    assert left.comparisons[0].where[0] == __file__


def test_not_measured_makes_every_comparison_true() -> None:
    """With --roofline=off the budgets of a test are not its subject, and it says so."""
    value = fraction(math.nan, math.nan, math.nan, is_measured=False)
    assert value >= 2
    assert value > 2
    assert value <= 0
    assert value < 0
    assert value == 7
    assert value != math.nan
    assert 0.6 <= value  # noqa: SIM300 - the number on the left is the subject
    assert fraction() < value
    assert value.comparisons == []
    assert repr(value) == str(value) == f"{value:.2f}" == NOT_MEASURED == "not measured (--roofline=off)"


def test_it_prints_the_figures_behind_it() -> None:
    """A plain assert shows them; text and formats are those of the number."""
    value = fraction()
    assert repr(value) == "<the figures behind it>"
    assert str(value) == "0.5"
    assert f"{value:.1%}" == "50.0%"
    assert f"{value}" == "0.5"
    assert str(fraction(1 / 3)) == "0.3333"


def test_it_is_a_float_and_travels_as_one() -> None:
    """Arithmetic, hashing, pickling and copying give plain floats."""
    value = fraction()
    assert isinstance(value, float)
    assert type(value * 2) is float
    assert hash(value) == hash(0.5)
    assert {0.5: "here"}[value] == "here"
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
        assert type(other) is float
        assert other == 0.5


def test_explanation_has_the_figures() -> None:
    """Measured and possible rate by the probes around the blocks, bytes, step, bandwidths and interval."""
    bounds = Interval(low=0.38, high=0.44)
    assert explain_fraction(0.41, ceiling(), 2e-3 / 0.41, bounds) == (
        "41 % of the ceiling: 205 of 500 tok/s, 2.00 GB per pass in 4.88 ms (410 GB/s of 1.00 TB/s), "
        "interval 38 % to 44 %"
    )
    assert explain_fraction(0.41, ceiling(batch=4, tokens_per_pass=2.0), 10e-3, bounds, "calls/s").startswith(
        "41 % of the ceiling: 800 of 1,951 calls/s"
    )


def test_explanation_without_figures() -> None:
    """Nothing is invented: no ceiling, no step, no interval."""
    point = Interval(low=0.41, high=0.41)
    assert explain_fraction(0.41, None, None, point) == "41 % of the ceiling"
    assert explain_fraction(0.41, None, 5e-3, point) == "41 % of the ceiling in 5.00 ms"
    assert explain_fraction(0.41, ceiling(), None, point) == "41 % of the ceiling: 205 of 500 tok/s, 2.00 GB per pass"


# -- the record


def types_in(value: Any) -> set[type]:
    """Every type in a nested record."""
    if isinstance(value, dict):
        return {dict} | {kind for item in (*value, *value.values()) for kind in types_in(item)}
    if isinstance(value, list):
        return {list} | {kind for item in value for kind in types_in(item)}
    return {type(value)}


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        (loop(at_least=0.6), "passed"),
        (loop(at_least=0.9), "failed"),
        (loop(0.8, 0.8), "inconclusive"),
        (loop(declared=traffic(9e9)), "bogus"),
    ],
)
def test_to_dict_is_json_for_every_outcome(evidence: Evidence, outcome: str) -> None:
    """Builtin types, no NaN, no infinity; the fraction is a plain float."""
    record = result(evidence, notes=("a note",), not_checked=("passes",), conditions={"load_average": 0.5}).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert types_in(record) <= set(BUILTIN)
    assert record["schema"] == SCHEMA == 1
    assert record["verdict"] == outcome
    assert type(record["fraction"]) is float
    assert len(record["samples"]) == len(evidence.samples)
    assert record["device"]["id"] == "fake:0"
    assert (record["notes"], record["not_checked"]) == (["a note"], ["passes"])


def test_to_dict_turns_what_json_cannot_hold_into_none() -> None:
    """An infinite fraction of a slope of zero, and the infinite rate of a claim of no time."""
    odd = loop(samples=tuple(sample(step_s=0.0, fraction=1.0) for _ in range(9)))
    odd = replace(odd, samples=tuple(replace(one, fraction=math.inf) for one in odd.samples))
    record = result(odd, math.inf, mbu=math.nan).to_dict()
    assert json.dumps(record, allow_nan=False)
    assert record["fraction"] is record["mbu"] is record["samples"][0]["fraction"] is None
    timeless = replace(loop(), kind="audit", samples=(), claim=claim(1.0, 0.0), window=window(leftover_s=1.0))
    assert json.dumps(result(timeless, None).to_dict(), allow_nan=False)


def test_to_dict_without_figures() -> None:
    """--roofline=off: a passed row without a figure."""
    unmeasured = unmeasured_result("decode", "step", DEVICE, "outputs")
    record = unmeasured.to_dict()
    assert json.dumps(record, allow_nan=False)
    assert record["verdict"] == "passed"
    assert record["fraction"] is record["ceiling"] is record["traffic"] is record["fraction_low"] is None
    assert unmeasured.outputs == "outputs"
    assert unmeasured.notes == (NOT_MEASURED,)
    assert unmeasured.fraction is not None
    assert unmeasured.fraction >= 0.99
    assert result(loop(), None).to_dict()["fraction"] is None


def test_a_result_prints_what_came_of_it() -> None:
    """Kind, label, device, outcome and the figures; not the whole record."""
    assert repr(result(loop())) == "<decode step on fake:0: passed, <the figures behind it>>"
    assert repr(result(loop(), None)) == "<decode step on fake:0: passed, <the figures behind it>>"


def test_a_result_prints_what_an_assert_missed() -> None:
    """Beside a row that says failed it must not say passed; an undecided comparison is called that."""
    made = result(loop(), fraction=fraction())
    assert made.fraction >= 0.3
    assert "passed" in repr(made)
    assert not made.fraction >= 0.7
    assert repr(made) == "<decode step on fake:0: not >= 70 %, <the figures behind it>>"
    assert not made.fraction > 0.55
    assert repr(made) == "<decode step on fake:0: undecided whether > 55 %, <the figures behind it>>"
    bogus = result(loop(), fraction=fraction(), verdict=Verdict(outcome="bogus"))
    assert not bogus.fraction >= 0.7
    assert repr(bogus).startswith("<decode step on fake:0: bogus, ")


def test_findings_are_those_of_the_verdict() -> None:
    """One place holds them."""
    finding = Finding(check="drifted", severity="note", message="it moved")
    made = result(loop(), verdict=Verdict(outcome="passed", findings=(finding,)))
    assert made.findings == (finding,)
    assert made.to_dict()["findings"][0]["message"] == "it moved"


class Text(str):
    """A text of another type."""

    __slots__ = ()

    def __str__(self) -> str:
        return "not what it holds"


@pytest.mark.parametrize(
    ("value", "reduced"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (Ratio(1, 4), 0.25),
        (1e400, None),
        (-math.inf, None),
        (math.nan, None),
        (Text("held"), "held"),
        ((1, [2.0, {"a": (math.nan,)}]), [1, [2.0, {"a": [None]}]]),
        ({1: "one", None: 2}, {"1": "one", "None": 2}),
        ({7}, "{7}"),
        (Decimal("0.5"), "0.5"),
    ],
)
def test_plain(value: Any, reduced: Any) -> None:
    """Subclasses become builtins, what cannot be a number becomes None, and what is unknown a text."""
    made = plain(value)
    assert made == reduced
    assert type(made) is type(reduced)


def test_plain_knows_the_numbers_of_arrays() -> None:
    """Array scalars are numbers, not texts."""
    numpy = pytest.importorskip("numpy")
    made = plain({"i": numpy.int64(3), "f": numpy.float32(0.5)})
    assert made == {"i": 3, "f": 0.5}
    assert {type(item) for item in made.values()} == {int, float}
    value = fraction()
    assert value >= numpy.float32(0.25)
    assert value.comparisons[0].truth is True
