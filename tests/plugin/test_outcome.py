"""From results and the body's ending to the outcome of a test, without pytest."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.device import Device
from pytest_roofline.errors import (
    AboveBand,
    BelowCeiling,
    BogusMeasurement,
    InconclusiveMeasurement,
    RooflineUsageError,
)
from pytest_roofline.outcome import asserted_comparison, outcome_of, properties_of, statement_lines
from pytest_roofline.result import Fraction, Result, unmeasured_result
from pytest_roofline.roofline import Interval
from pytest_roofline.settings import Settings, parse_budget
from pytest_roofline.verdict import judge

DEVICE = Device(name="Fake Accelerator", kind="fake", backend="fake")
PLAIN = Settings()


def made(
    fraction: float | None = 0.8,
    low: float | None = None,
    high: float | None = None,
    *,
    label: str = "step",
    at_least: float | None = None,
    at_most: float | None = None,
    severity: str | None = None,
    neighbours_share: float | None = None,
) -> Result:
    """A result with this interval, judged against its budget; `severity` adds a finding of that gravity."""
    bounds = None
    if fraction is not None:
        bounds = Interval(low=fraction if low is None else low, high=fraction if high is None else high)
    evidence = Evidence(
        kind="decode",
        label=label,
        fraction=bounds,
        at_least=at_least,
        at_most=at_most,
        neighbours_share=neighbours_share,
        cores=2,
    )
    finding = Finding(check="drifted", severity=severity, message="it drifted by 40 %") if severity else None  # type: ignore[arg-type]
    verdict = judge(evidence, fraction, [lambda _: finding])
    return Result(
        kind="decode",
        label=label,
        device=DEVICE,
        fraction=Fraction(
            math.nan if fraction is None else fraction,
            bounds or Interval(low=0.0, high=math.inf),
            lambda: "explained",
        ),
        mbu=None,
        step_s=None,
        fixed_s=None,
        tokens_per_s=None,
        tokens_per_s_per_user=None,
        bytes_per_s=None,
        ceiling=None,
        traffic=None,
        verdict=verdict,
        evidence=evidence,
    )


def raised_by(body: Any) -> BaseException:
    """What this body raises."""
    try:
        body()
    except Exception as error:
        return error
    raise RuntimeError("the body ended well")


def test_good_results_pass() -> None:
    """Passed results of a body that ended well: the test passes with no error."""
    outcome = outcome_of([made(), made()], [], PLAIN)
    assert (outcome.standing, outcome.standings, outcome.error) == ("passed", ("passed", "passed"), None)


def test_no_result_passes_without_a_marker_budget() -> None:
    """A test that only asks for a ceiling has nothing to judge."""
    assert outcome_of([], [], PLAIN).standing == "passed"


def test_no_result_under_a_marker_budget_is_an_error() -> None:
    """The marker's at_least with nothing measured is wrong use, in clear words."""
    settings = Settings(at_least=parse_budget(0.6, "x"), is_budget_explicit=True)
    outcome = outcome_of([], [], settings)
    assert outcome.standing == "failed"
    assert isinstance(outcome.error, RooflineUsageError)
    assert "nothing was measured" in str(outcome.error)


def test_a_result_without_a_fraction_under_a_marker_budget_is_inconclusive() -> None:
    """An audit without traffic can be held against nothing, which is no pass."""
    settings = Settings(at_least=parse_budget(0.6, "x"), is_budget_explicit=True)
    outcome = outcome_of([made(None)], [], settings)
    assert outcome.is_inconclusive
    assert "no fraction to hold against at_least=0.6" in outcome.reason


def test_failed_results_raise_below_ceiling_and_name_each() -> None:
    """The first one's message leads, the others follow in a line each."""
    results = [made(0.4, at_least=0.6), made(0.8, at_least=0.6), made(0.3, at_least=0.6, label="other")]
    outcome = outcome_of(results, [], PLAIN)
    assert outcome.standings == ("failed", "passed", "failed")
    assert isinstance(outcome.error, BelowCeiling)
    first, second = str(outcome.error).split("\n")
    assert first.startswith("40 % of the ceiling, the test asks for 60 %")
    assert second.startswith("  and other: 30 %")


def test_above_the_band_raises_its_own_name() -> None:
    """Better than at_most is a failure that asks for a new number."""
    assert isinstance(outcome_of([made(0.9, at_most=0.8)], [], PLAIN).error, AboveBand)


def test_inconclusive_goes_before_failed() -> None:
    """The precedence of verdicts holds among the results of a test."""
    outcome = outcome_of([made(0.4, at_least=0.6), made(severity="inconclusive")], [], PLAIN)
    assert outcome.standing == "inconclusive"
    assert outcome.standings == ("failed", "inconclusive")
    assert outcome.reason == "it drifted by 40 % [drifted]"
    assert outcome.error is None


def test_an_undecided_comparison_of_a_passing_test_is_inconclusive() -> None:
    """The assert held by the middle of an interval that the budget lies in: nothing was shown."""
    result = made(0.8, 0.3, 0.8)
    assert result.fraction is not None
    assert result.fraction >= 0.5
    outcome = outcome_of([result], [], PLAIN)
    assert outcome.is_inconclusive
    assert outcome.reason == "step: the fraction is between 30 % and 80 %, which does not decide >= 50 %"


def test_a_missed_budget_is_missed_whatever_is_not_decided_beside_it() -> None:
    """The test's own assertion about the same fraction is undecided; that its budget was missed is not."""
    missed = made(0.6, 0.58, 0.62, at_least=0.74)
    assert missed.verdict.outcome == "failed"

    def body() -> None:
        assert missed.fraction >= 0.61  # type: ignore[operator]

    raised = outcome_of([missed], [], PLAIN, raised_by(body))
    assert (raised.standing, raised.standings) == ("failed", ("failed",))
    passing = made(0.6, 0.58, 0.62, at_least=0.74)
    assert passing.fraction is not None
    assert passing.fraction >= 0.59
    outcome = outcome_of([passing], [], PLAIN)
    assert outcome.standing == "failed"
    assert isinstance(outcome.error, BelowCeiling)


def test_an_undecided_assertion_is_inconclusive() -> None:
    """An AssertionError about an undecided fraction, on the asserting line."""
    result = made(0.8, 0.3, 0.9)

    def body() -> None:
        assert result.fraction >= 0.85  # type: ignore[operator]

    assert outcome_of([result], [], PLAIN, raised_by(body)).is_inconclusive


def test_an_undecided_assertion_over_several_lines_is_inconclusive() -> None:
    """The comparison may stand on another line of the statement than the one that raises."""
    result = made(0.8, 0.3, 0.9)

    def body() -> None:
        assert (
            result is not None
            and result.fraction  # type: ignore[operator]
            >= 0.85
        ), "too slow"

    assert outcome_of([result], [], PLAIN, raised_by(body)).is_inconclusive


def test_a_decided_assertion_is_a_failure() -> None:
    """The row says failed, although the court knew no budget."""
    result = made(0.8)

    def body() -> None:
        assert result.fraction >= 0.9  # type: ignore[operator]

    outcome = outcome_of([result], [], PLAIN, raised_by(body))
    assert (outcome.standing, outcome.standings, outcome.error) == ("failed", ("failed",), None)


@pytest.mark.parametrize(("share", "standing"), [(0.5, "inconclusive"), (0.12, "failed"), (None, "failed")])
def test_an_assertion_is_excused_by_what_excuses_a_budget(share: float | None, standing: str) -> None:
    """The same miss of the same figure: neighbours that explain it do so whether a marker asks or an assert does."""
    result = made(0.4, neighbours_share=share)

    def body() -> None:
        assert result.fraction >= 0.6

    outcome = outcome_of([result], [], PLAIN, raised_by(body))
    assert outcome.standing == standing
    assert ("[device-shared]" in outcome.reason) is (standing == "inconclusive")


def test_neighbours_do_not_excuse_an_upper_bound() -> None:
    """Contention makes nothing faster: a figure above the one that was asserted at most stays a failure."""
    result = made(0.4, neighbours_share=0.5)

    def body() -> None:
        assert result.fraction <= 0.3

    assert outcome_of([result], [], PLAIN, raised_by(body)).standing == "failed"


def test_a_decided_assertion_about_an_inconclusive_result_is_inconclusive() -> None:
    """Whatever else makes the result doubtful makes the assertion doubtful."""
    result = made(0.8, severity="inconclusive")

    def body() -> None:
        assert result.fraction >= 0.9  # type: ignore[operator]

    assert outcome_of([result], [], PLAIN, raised_by(body)).reason == "it drifted by 40 % [drifted]"


def test_another_line_than_the_asserting_one_excuses_nothing() -> None:
    """An undecided comparison before an unrelated AssertionError leaves that a failure."""
    result = made(0.8, 0.3, 0.9)

    def body() -> None:
        assert result.fraction >= 0.5  # type: ignore[operator]
        assert 1 + 1 == 3

    assert outcome_of([result], [], PLAIN, raised_by(body)).standing == "failed"


@pytest.mark.parametrize("error", [ValueError, RuntimeError, KeyError, MemoryError])
def test_every_other_exception_stays_a_failure(error: type[Exception]) -> None:
    """Doubt excuses no crash."""
    result = made(0.8, 0.3, 0.9, severity="inconclusive")

    def body() -> None:
        raise error(result.fraction is not None and result.fraction >= 0.85)

    outcome = outcome_of([result], [], PLAIN, raised_by(body))
    assert (outcome.standing, outcome.error, outcome.reason) == ("failed", None, "")


def test_the_false_comparison_of_an_assertion_decides() -> None:
    """Of two fractions in one assert, the one that made it fail is the one it is about."""
    undecided, decided = made(0.8, 0.3, 0.9), made(0.4, label="slow")

    def fails_on_decided() -> None:
        assert undecided.fraction >= 0.5 and decided.fraction >= 0.5  # type: ignore[operator]

    assert outcome_of([undecided, decided], [], PLAIN, raised_by(fails_on_decided)).standing == "failed"


def test_an_assertion_without_fraction_is_about_none() -> None:
    """Nothing to find, and no file is read for it."""

    def body() -> None:
        raise AssertionError("unrelated")

    assert asserted_comparison([made()], raised_by(body)) is None
    assert asserted_comparison([made()], AssertionError("without traceback")) is None


def test_a_statement_that_cannot_be_read_is_its_line(tmp_path: Any) -> None:
    """Sources may be missing or no Python at all."""
    broken = tmp_path / "broken.py"
    broken.write_text("def (:\n")
    assert statement_lines(str(broken), 1) == range(1, 2)
    assert statement_lines(str(tmp_path / "missing.py"), 7) == range(7, 8)


def test_a_bogus_that_comes_through_is_bogus_and_earlier_ones_are_caught() -> None:
    """The last bogus result is the one that raised; its exception is left as it is."""
    results = [made(severity="bogus"), made(), made(severity="bogus")]
    outcome = outcome_of(results, [], PLAIN, BogusMeasurement("impossible"))
    assert outcome.standing == "bogus"
    assert outcome.standings == ("bogus (caught)", "passed", "bogus")
    assert outcome.error is None


def test_a_caught_bogus_leaves_the_outcome_to_the_test() -> None:
    """The row says so, the test passes; other results count as ever."""
    outcome = outcome_of([made(severity="bogus"), made()], [], PLAIN)
    assert (outcome.standing, outcome.error) == ("bogus (caught)", None)
    assert outcome_of([made(severity="bogus"), made(0.4, at_least=0.6)], [], PLAIN).standing == "failed"


def test_an_inconclusive_measurement_that_the_body_raises_is_inconclusive() -> None:
    """Its first line is the reason."""
    outcome = outcome_of([], [], PLAIN, InconclusiveMeasurement("too few samples\n  do: more"))
    assert (outcome.standing, outcome.reason) == ("inconclusive", "too few samples")


def test_an_audit_without_claim_is_inconclusive() -> None:
    """Nothing was claimed, so nothing could be judged."""
    audits: Any = [SimpleNamespace(is_open=False), SimpleNamespace(is_open=True)]
    outcome = outcome_of([], audits, PLAIN)
    assert outcome.is_inconclusive
    assert "call audit.claim" in outcome.reason


def test_off_judges_nothing() -> None:
    """With mode off rows say not measured, whatever happened."""
    result = unmeasured_result("decode", "step", DEVICE, None)
    outcome = outcome_of([result], [], Settings(mode="off", is_budget_explicit=True))
    assert (outcome.standing, outcome.standings) == ("not measured", ("not measured",))
    assert "roofline.fraction" not in dict(properties_of(outcome, [result], Settings(mode="off")))


def test_properties_are_text_and_numbers() -> None:
    """JSON text with a schema, and flat values; the lowest fraction stands for the test."""
    results = [made(0.8), made(0.7, at_least=0.6, label="other")]
    properties = dict(properties_of(outcome_of(results, [], PLAIN), results, PLAIN))
    record = json.loads(str(properties.pop("roofline")))
    assert properties == {"roofline.verdict": "passed", "roofline.fraction": 0.7, "roofline.device": "fake:0"}
    assert type(properties["roofline.fraction"]) is float
    assert (record["schema"], record["mode"], record["verdict"]) == (1, "auto", "passed")
    assert [result["standing"] for result in record["results"]] == ["passed", "passed"]


@pytest.mark.parametrize(
    ("hooks", "named"),
    [
        ((None, None), ""),
        ((print, None), "sys.settrace is"),
        ((None, print), "sys.setprofile is"),
        ((print, print), "sys.settrace and sys.setprofile is"),
    ],
    ids=["none", "coverage", "profiler", "both"],
)
def test_a_miss_in_a_process_whose_python_is_watched_says_so(
    monkeypatch: pytest.MonkeyPatch, hooks: tuple[Any, Any], named: str
) -> None:
    """As with --cov: a note at what failed, for a step that is bound by Python is slower then; none at what passed."""
    stand_in = SimpleNamespace(gettrace=lambda: hooks[0], getprofile=lambda: hooks[1])
    monkeypatch.setattr("pytest_roofline.outcome.sys", stand_in)
    results = [made(0.4, at_least=0.6), made(0.8)]
    record = json.loads(str(dict(properties_of(outcome_of(results, [], PLAIN), results, PLAIN))["roofline"]))
    slow, fine = (" ".join(result["notes"]) for result in record["results"])
    assert slow == (
        f"{named} in use (coverage, a debugger, a profiler): the Python of a step is slower than without"
        if named
        else ""
    )
    assert fine == ""
