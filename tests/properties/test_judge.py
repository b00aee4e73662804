"""The court: total, and just."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import FRACTIONS, RATES, evidence, intervals, limits, samples, steady

from pytest_roofline.checks.ceiling import memory_bytes
from pytest_roofline.checks.evidence import CHECK_NAMES, Evidence, Limit, Sample
from pytest_roofline.checks.steadiness import drifted
from pytest_roofline.errors import AboveBand, BelowCeiling, BogusMeasurement, InconclusiveMeasurement
from pytest_roofline.result import plain
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.samples import median, median_interval
from pytest_roofline.traffic import Traffic
from pytest_roofline.verdict import error_of, judge

BYTES = 2e9
RULER = 1e12
KINDS = {
    "failed": (BelowCeiling, AboveBand),
    "bogus": (BogusMeasurement,),
    "inconclusive": (InconclusiveMeasurement,),
}


@steady
@given(evidence=evidence, fraction=st.one_of(st.none(), FRACTIONS))
def test_any_evidence_gets_one_verdict_and_its_exception(evidence: Evidence, fraction: float | None) -> None:
    """Never an error of the court; precedence holds; the text is whole and the record is JSON."""
    verdict = judge(evidence, fraction)
    severities = {finding.severity for finding in verdict.findings}
    if "bogus" in severities:
        assert verdict.outcome == "bogus"
    elif "inconclusive" in severities:
        assert verdict.outcome == "inconclusive"
    else:
        assert verdict.outcome != "bogus"
    for finding in verdict.findings:
        assert finding.check in CHECK_NAMES
        assert finding.severity == "note" or finding.check not in evidence.allow
        assert finding.message.split("\n")[0].strip()
        assert finding.severity == "note" or finding.remedy
    json.dumps(plain(verdict.to_dict()), allow_nan=False)
    error = error_of(evidence, verdict)
    if verdict.outcome == "passed":
        assert error is None
    else:
        assert isinstance(error, KINDS[verdict.outcome])
        assert str(error).split("\n")[0].strip()


@steady
@given(evidence=evidence, fraction=FRACTIONS)
def test_a_budget_decides_only_by_whole_intervals(evidence: Evidence, fraction: float) -> None:
    """Failed is all below (or all above the band), passed is none below."""
    evidence = replace(evidence, allow=frozenset())
    verdict = judge(evidence, fraction)
    bounds = verdict.bounds
    if verdict.outcome == "failed":
        assert bounds is not None
        below = evidence.at_least is not None and bounds.high < evidence.at_least
        above = evidence.at_most is not None and bounds.low > evidence.at_most
        assert below or above
    if verdict.outcome == "passed" and evidence.at_least is not None:
        assert bounds is not None
        assert bounds.low >= evidence.at_least


def honest(fractions: list[float], at_least: float, knees: float) -> Evidence:
    """A decode of 2 GB without a limit, at these fractions of the ruler."""
    traffic = Traffic(bytes_per_pass=BYTES, least_bytes_per_pass=BYTES)
    return Evidence(
        kind="decode",
        traffic=traffic,
        ceiling=Ceiling(traffic=traffic, bandwidth_bytes_per_s=RULER, bandwidth_source="read"),
        knee_bytes=knees * BYTES,
        samples=tuple(
            Sample(
                passes=10,
                step_s=BYTES / RULER / one,
                fixed_s=0.0,
                closed_step_s=BYTES / RULER / one,
                ruler_before_bytes_per_s=RULER,
                ruler_after_bytes_per_s=RULER,
                fraction=one,
            )
            for one in fractions
        ),
        fraction=median_interval(fractions),
        at_least=at_least,
    )


@steady
@given(
    fractions=st.lists(st.floats(min_value=0.01, max_value=1.0), min_size=6, max_size=20),
    at_least=st.floats(min_value=0.05, max_value=1.0),
    knees=st.floats(min_value=0.0, max_value=2.0),
    slower=st.floats(min_value=1.0, max_value=20.0),
)
def test_slower_never_turns_failed_into_passed(
    fractions: list[float], at_least: float, knees: float, slower: float
) -> None:
    """Whatever the noise and the caches."""
    order = ("failed", "inconclusive", "passed")
    before = judge(honest(fractions, at_least, knees), median(fractions)).outcome
    slow = [one / slower for one in fractions]
    after = judge(honest(slow, at_least, knees), median(slow)).outcome
    assert order.index(after) <= order.index(before)


@steady
@given(
    evidence=evidence,
    limit=limits,
    needed=st.floats(min_value=1e6, max_value=1e13),
    times=st.floats(min_value=1.001, max_value=1e6),
    rulers=st.lists(samples, min_size=1, max_size=2),
)
def test_an_impossible_result_is_never_passed(
    evidence: Evidence, limit: Limit, needed: float, times: float, rulers: list[Sample]
) -> None:
    """Closed time beyond the limit's slack is bogus against a sheet, and never a pass against a measurement.

    Budget, conditions, drift and everything else notwithstanding: nothing excuses too fast.
    """
    pass_s = needed / (limit.with_slack_bytes_per_s * times)
    bytes_ = needed + evidence.knee_bytes
    fast = replace(
        evidence,
        allow=frozenset(),
        is_cache_hot=False,
        limit=limit,
        traffic=Traffic(bytes_per_pass=bytes_, least_bytes_per_pass=bytes_),
        declared=None,
        traced=None,
        samples=tuple(replace(one, closed_step_s=pass_s) for one in rulers * 5),
    )
    assume((memory_bytes(fast) or 0.0) >= needed * 0.9999)
    outcome = judge(fast, 0.5).outcome
    assert outcome == "bogus" or (limit.is_measured and outcome == "inconclusive")


@steady
@given(
    evidence=evidence,
    step_s=st.floats(min_value=-1.0, max_value=1.0),
    peak=RATES,
    limit=RATES,
)
def test_a_slope_that_no_device_reaches_is_never_passed(
    evidence: Evidence, step_s: float, peak: float, limit: float
) -> None:
    """Also where fixed costs hide it from the closed time."""
    rule = Limit(bytes_per_s=limit, slack=1.02, source="a sheet")
    evidence = replace(evidence, allow=frozenset(), limit=rule, peak_limit_flops_per_s=peak)
    assume(evidence.samples)
    evidence = replace(evidence, samples=tuple(replace(one, step_s=step_s) for one in evidence.samples))
    needed = memory_bytes(evidence)
    if step_s <= 0 or (needed and needed / step_s > rule.with_slack_bytes_per_s):
        assert judge(evidence, 0.5).outcome in ("bogus", "inconclusive")


@steady
@given(evidence=evidence)
def test_conditions_never_create_a_failure(evidence: Evidence) -> None:
    """A machine that drifted only takes away: a note, or failed to inconclusive, and only with a budget missed."""
    finding = drifted(evidence)
    assume(finding is not None)
    assert finding is not None
    assert finding.severity in ("note", "inconclusive")
    if finding.severity == "inconclusive":
        assert evidence.at_least is not None
        assert evidence.fraction is not None
        assert evidence.fraction.high < evidence.at_least


@steady
@given(evidence=evidence, fraction=FRACTIONS, allow=st.sets(st.sampled_from(CHECK_NAMES)))
def test_allowing_more_never_adds_a_decision(evidence: Evidence, fraction: float, allow: set[str]) -> None:
    """What is allowed is still told, as a note."""
    plain_ = judge(replace(evidence, allow=frozenset()), fraction)
    allowed = judge(replace(evidence, allow=frozenset(allow)), fraction)
    assert {finding.check for finding in plain_.findings} <= {finding.check for finding in allowed.findings} | {
        "clock-disagrees"
    }
    if set(CHECK_NAMES) <= allow:
        assert allowed.outcome in ("passed", "failed", "inconclusive")


@steady
@given(interval=intervals(), budget=st.floats(min_value=0.01, max_value=1.0))
def test_an_interval_clears_by_all_of_it(interval: Interval, budget: float) -> None:
    """Three answers, and they exclude each other."""
    clears = interval.clears(budget)
    assert (clears is True) == (interval.low >= budget)
    assert (clears is False) == (interval.high < budget)
