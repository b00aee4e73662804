"""From evidence to one of four outcomes, and the exception that says it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from court import BYTES, MEASURED, SHEET, audit, ceiling, claim, loop, sample, traced, traffic, window

from pytest_roofline.checks import CHECKS
from pytest_roofline.checks.evidence import CHECK_NAMES, Evidence, Finding
from pytest_roofline.errors import AboveBand, BelowCeiling, BogusMeasurement, InconclusiveMeasurement
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import Verdict, error_of, judge

FAST = tuple(sample(step_s=BYTES / 9e12, closed_step_s=BYTES / 9e12, fraction=9.0) for _ in range(9))
NOT_DRAINED: dict[str, Any] = {
    "window": window(window_s=1.2e-3, leftover_s=46.8e-3),
    "claim": claim(100.0, 1.2e-3),
}


def finds(severity: str, check: str = "drifted") -> Any:
    """A check that always finds the same."""
    return lambda evidence: Finding(check=check, severity=severity, message=severity)  # type: ignore[arg-type]


def test_an_honest_loop_passes() -> None:
    """80 % of the ceiling against a budget of 60 %, without a finding."""
    verdict = judge(loop(at_least=0.6), 0.8)
    assert verdict == Verdict(outcome="passed", fraction=0.8, at_least=0.6, bounds=Interval(low=0.8, high=0.8))
    assert error_of(loop(at_least=0.6), verdict) is None


@pytest.mark.parametrize(
    ("severities", "outcome"),
    [
        (("note", "inconclusive", "bogus"), "bogus"),
        (("note", "bogus", "note"), "bogus"),
        (("note", "inconclusive"), "inconclusive"),
        (("note",), "failed"),
        ((), "failed"),
    ],
)
def test_precedence(severities: tuple[str, ...], outcome: str) -> None:
    """Bogus over inconclusive over failed over passed, whatever their order."""
    evidence = loop(at_least=0.9)
    verdict = judge(evidence, 0.8, [finds(one) for one in severities])
    assert verdict.outcome == outcome
    assert len(verdict.findings) == len(severities)


@pytest.mark.parametrize(("at_least", "outcome"), [(0.79, "passed"), (0.8, "passed"), (0.81, "failed")])
def test_a_budget_is_reached_when_equal(at_least: float, outcome: str) -> None:
    """Nine samples of 80 % each."""
    assert judge(loop(at_least=at_least), 0.8).outcome == outcome


@pytest.mark.parametrize(("at_most", "outcome"), [(0.81, "passed"), (0.8, "passed"), (0.79, "failed")])
def test_a_band_is_left_only_with_the_whole_interval(at_most: float, outcome: str) -> None:
    """Better than `at_most` asks for a new number; an interval around it does not."""
    assert judge(loop(at_most=at_most), 0.8).outcome == outcome
    wide = loop(at_most=0.75, fraction=Interval(low=0.7, high=0.9))
    assert judge(wide, 0.8).outcome == "passed"


@pytest.mark.parametrize("at_least", [None, 0.1, 0.6, 0.99])
def test_an_impossible_result_is_bogus_whatever_the_budget(at_least: float | None) -> None:
    """Too fast is never passed and never excused."""
    evidence = loop(samples=FAST, fraction=Interval(low=9.0, high=9.0), at_least=at_least)
    assert judge(evidence, 9.0).outcome == "bogus"


def test_a_loop_without_any_sample_is_undecided() -> None:
    """A step that took longer than the time allowed has not passed."""
    evidence = loop(samples=(), fraction=None, timed_out=True)
    assert judge(evidence).outcome == "inconclusive"
    assert judge(replace(evidence, at_least=0.6, allow=frozenset({"too-few-samples"}))).outcome == "inconclusive"


def test_a_budget_without_a_figure_is_undecided() -> None:
    """The safety net: an audit whose fraction is not known reaches no budget."""
    assert judge(audit(fraction=None)).outcome == "passed"
    assert judge(audit(fraction=None, at_least=0.6)).outcome == "inconclusive"
    assert judge(audit(fraction=None, at_most=0.6)).outcome == "inconclusive"


def test_doubt_without_a_finding_is_no_pass() -> None:
    """The safety net again: no check speaks, and the budget lies inside."""
    evidence = loop(at_least=0.6, fraction=Interval(low=0.5, high=0.7))
    assert judge(evidence, 0.65, ()).outcome == "inconclusive"
    unrelated = replace(evidence, allow=frozenset({"throttled"}))
    assert judge(unrelated, 0.65, ()).outcome == "inconclusive"
    error = error_of(evidence, judge(evidence, 0.65, ()))
    assert isinstance(error, InconclusiveMeasurement)
    assert str(error) == "the evidence does not carry a verdict"


@pytest.mark.parametrize("severity", ["bogus", "inconclusive"])
def test_an_allowed_finding_is_kept_as_a_note(severity: str) -> None:
    """It says so, and decides nothing; the same finding under another name does."""
    evidence = loop(allow=frozenset({"drifted"}))
    verdict = judge(evidence, 0.8, [finds(severity)])
    assert verdict.outcome == "passed"
    assert verdict.of("note")[0].message == f"{severity} (allowed, so it decides nothing)"
    assert judge(evidence, 0.8, [finds(severity, "throttled")]).outcome == severity


def test_an_allowed_note_stays_as_it_is() -> None:
    """There is nothing to allow."""
    verdict = judge(loop(allow=frozenset({"drifted"})), 0.8, [finds("note")])
    assert verdict.findings[0].message == "note"


@pytest.mark.parametrize(
    ("allow", "evidence"),
    [
        ("not-drained", audit(**NOT_DRAINED, limit=None)),
        ("clock-disagrees", audit(window=window(returned_s=0.5, private_low_s=0.25, private_high_s=0.25))),
        ("claim-exceeds-closed-time", audit(claim=claim(100.0, 0.02), limit=None)),
        ("tokens-disagree", audit(ids_seen=10)),
        ("bytes-disagree", loop(declared=traffic(9e9))),
        ("faster-than-limit", loop(samples=FAST, fraction=Interval(low=9.0, high=9.0))),
        ("ceiling-unsure", loop(samples=FAST, fraction=Interval(low=9.0, high=9.0), limit=MEASURED)),
        ("does-not-scale", loop(samples=tuple(sample(step_s=0.0) for _ in range(9)))),
        ("cache-resident", loop(knee_bytes=BYTES)),
        ("too-few-samples", loop(0.8, 0.8)),
        ("drifted", audit(fraction=Interval(low=0.5, high=0.7), at_least=0.6)),
    ],
)
def test_each_check_can_be_allowed_by_its_name(allow: str, evidence: Evidence) -> None:
    """Every check that decides is silenced by exactly its own name."""
    assert allow in CHECK_NAMES
    plain = judge(evidence, 0.8)
    assert allow in {finding.check for finding in plain.findings}
    allowed = judge(replace(evidence, allow=frozenset({allow})), 0.8)
    assert allowed.outcome == "passed"
    others = frozenset(CHECK_NAMES) - {allow}
    assert judge(replace(evidence, allow=others), 0.8).outcome == plain.outcome


@pytest.mark.parametrize(
    ("fraction", "outcome"), [(0.7, "passed"), (0.6, "passed"), (0.59, "failed"), (None, "passed")]
)
def test_allowed_doubt_takes_the_figure_at_its_face_value(fraction: float | None, outcome: str) -> None:
    """With too few samples allowed the median decides; without a median the upper end."""
    evidence = loop(at_least=0.6, fraction=Interval(low=0.5, high=0.7), allow=frozenset({"too-few-samples"}))
    verdict = judge(evidence, fraction)
    assert verdict.outcome == outcome
    if outcome == "failed":
        assert isinstance(error_of(evidence, verdict), BelowCeiling)


def test_allowing_drift_lets_a_miss_fail() -> None:
    """What turned the failure into doubt is gone, so the failure stands."""
    samples = tuple(sample(0.5, ruler_after_bytes_per_s=0.5e12) for _ in range(9))
    evidence = loop(samples=samples, fraction=Interval(low=0.5, high=0.5), at_least=0.6)
    assert judge(evidence, 0.5).outcome == "inconclusive"
    assert judge(replace(evidence, allow=frozenset({"drifted"})), 0.5).outcome == "failed"


def test_the_cache_widens_the_bounds_of_a_verdict() -> None:
    """The interval told is that of noise and caches together."""
    verdict = judge(loop(knee_bytes=BYTES / 4, at_least=0.7), 0.8)
    assert verdict.outcome == "inconclusive"
    assert verdict.bounds is not None
    assert (verdict.bounds.low, verdict.bounds.high) == pytest.approx((0.6, 0.8))


def test_to_dict_is_json() -> None:
    """Builtin types, findings included; bounds may be missing."""
    verdict = judge(audit(**NOT_DRAINED), 0.8)
    record = verdict.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["outcome"] == "bogus"
    assert record["findings"][0]["check"] == "not-drained"
    assert Verdict(outcome="passed").to_dict()["fraction_low"] is None


def test_every_check_is_in_the_court_once() -> None:
    """The order of the findings: causes first."""
    assert len(set(CHECKS)) == len(CHECKS)
    assert CHECKS[0].__name__ == "clock_disagrees"
    assert CHECKS[-1].__name__ == "too_few_samples"


# -- the exceptions


def lines_of(evidence: Evidence, fraction: float | None = 0.8) -> tuple[type[Exception], list[str]]:
    """Kind and lines of what is raised."""
    verdict = judge(evidence, fraction)
    error = error_of(evidence, verdict)
    assert error is not None
    assert error.verdict is verdict  # type: ignore[attr-defined]
    return type(error), str(error).split("\n")


def test_text_of_a_missing_drain() -> None:
    """Both times, the ratio, the cause, the check's name; then figures; then what to do."""
    kind, lines = lines_of(audit(**NOT_DRAINED))
    assert kind is BogusMeasurement
    assert lines == [
        "the clock stopped at 1.20 ms at test_it.py:12 but the device finished at 48.0 ms (40x): missing "
        "synchronization [not-drained]",
        "  found: 97.5 passes of work, 46.8 ms, left over after the stop (an idle drain takes 5.00 us)",
        "  claimed 83,333 tok/s, the closed time allows 2,083 tok/s",
        "4.17 TB/s from memory, but this device cannot exceed 1.10 TB/s (3.8x)",
        "  found: 2.00 GB per pass that no cache can hold, in 480 us",
        "  limit: driver: bus width x memory clock, slack 1.02",
        "  likely: bytes declared that the step does not read, weights never written (one zero page), or work skipped",
        "  do: drain the device before stopping the clock (torch.accelerator.synchronize(), jax.block_until_ready(out)"
        ", mx.eval(out), or out.item()) on the device and stream that do the work",
        "  do: check that the work ran in this call, that the bytes are those of one pass, and that the weights were "
        "written",
    ]


def test_text_of_wrong_bytes() -> None:
    """Declared, seen, the cause; a note about the machine follows."""
    evidence = loop(
        declared=traffic(3.0e9),
        traced=traced(2.47e9, weight_bytes_per_pass=2.47e9),
        samples=tuple(sample(ruler_after_bytes_per_s=0.5e12) for _ in range(9)),
    )
    kind, lines = lines_of(evidence)
    assert kind is BogusMeasurement
    assert lines[0] == (
        "3.00 GB per pass declared, 2.47 GB read and written: bytes that are resident but not read (an embedding "
        "table, experts not hit, a cache's capacity) were counted [bytes-disagree]"
    )
    assert lines[-1] == (
        "  note (drifted): the probed bandwidth moved from 500 GB/s to 1.00 TB/s while measuring; "
        "the fraction follows it pair by pair"
    )


def test_text_of_a_missed_budget() -> None:
    """Fraction, measured and possible rate, the budget, the bound and the largest extra traffic."""
    evidence = loop(
        *[0.41] * 9,
        at_least=0.6,
        traffic=traffic(extra=(("KV cache copied each step", 0.8e9),), extra_bytes_per_pass=0.8e9),
    )
    kind, lines = lines_of(evidence, 0.41)
    assert kind is BelowCeiling
    assert lines == [
        "41 % of the probed read ceiling (205 of 500 tok/s), the test asks for 60 %; memory-bound, "
        "KV cache copied each step (800 MB per pass)",
        "  ceiling: 1 TB/s (read beside the samples) / 2 GB per pass = 500 tok/s",
        "  measured: 1 token / 4.88 ms = 205 tok/s (9 samples)",
        "  fraction: 205 / 500 = 41 %",
    ]


def test_a_miss_tells_what_was_measured_and_what_the_probes_around_it_allow() -> None:
    """The machine ran at half of the session's probe: 205 tok/s would be wrong."""
    half = tuple(replace(one, step_s=2 * one.step_s, closed_step_s=2 * one.step_s) for one in loop(*[0.41] * 9).samples)
    _, lines = lines_of(loop(samples=half, fraction=Interval(low=0.41, high=0.41), at_least=0.6), 0.41)
    assert "(102 of 250 tok/s)" in lines[0]


def test_text_of_a_miss_at_compute() -> None:
    """The roof is named by what bounds the pass; a kernel makes calls, not tokens."""
    busy = traffic(flops_per_pass=4e12)
    evidence = loop(
        *[0.5] * 9,
        kind="kernel",
        at_least=0.6,
        traffic=busy,
        ceiling=ceiling(busy, peak_flops_per_s=1e15),
    )
    _, lines = lines_of(evidence, 0.5)
    assert lines == [
        "50 % of the probed compute ceiling (250 of 500 calls/s), the test asks for 60 %; compute-bound",
        "  ceiling: 2 PFLOP/s / 4 TFLOP per pass = 500 calls/s",
        "  measured: 1 call / 4.00 ms = 250 calls/s (9 samples)",
        "  fraction: 250 / 500 = 50 %",
    ]


def test_text_of_a_miss_of_many_tokens_has_the_division_with_all_of_them() -> None:
    """A batch of 8 with 2.5 tokens per pass: what one pass is divided by, and multiplied with; and the interval."""
    evidence = loop(
        *[0.41] * 9,
        at_least=0.6,
        ceiling=ceiling(batch=8, tokens_per_pass=2.5),
        fraction=Interval(low=0.4, high=0.42),
    )
    _, lines = lines_of(evidence, 0.41)
    assert lines[1:4] == [
        "  ceiling: 1 TB/s (read beside the samples) / 2 GB per pass x 20 tokens = 10,000 tok/s",
        "  measured: 20 tokens / 4.88 ms = 4,100 tok/s (9 samples)",
        "  fraction: 4,100 / 10,000 = 41 %, between 40 % and 42 %",
    ]


def test_text_of_a_miss_over_a_link_has_both_paths() -> None:
    """1.5 GB of memory and 0.5 GB over a link of 50 GB/s: 11.5 ms."""
    spilling = traffic(spilled_bytes_per_pass=0.5e9)
    evidence = loop(
        at_least=0.6,
        traffic=spilling,
        ceiling=ceiling(spilling, spill_bytes_per_s=50e9),
        samples=tuple(replace(sample(0.5), step_s=23e-3, closed_step_s=23e-3) for _ in range(9)),
    )
    verdict = Verdict(outcome="failed", fraction=0.5, bounds=Interval(low=0.5, high=0.5))
    lines = str(error_of(evidence, verdict)).split("\n")
    assert lines[1] == "  ceiling: 1.5 GB of memory and 500 MB over the link in turn, 11.5 ms per pass = 87.0 tok/s"


def test_text_of_a_miss_with_large_rates_has_no_exponent() -> None:
    """Thousands are separated, and notes follow."""
    small = traffic(2e6)
    evidence = loop(at_least=0.9, traffic=small, traced=None, ceiling=ceiling(small), samples=(), declared=None)
    verdict = Verdict(
        outcome="failed",
        fraction=0.8,
        bounds=Interval(low=0.8, high=0.8),
        findings=(Finding(check="drifted", severity="note", message="it moved"),),
    )
    assert str(error_of(evidence, verdict)) == (
        "80 % of the probed read ceiling (400,000 of 500,000 tok/s), the test asks for 90 %; memory-bound\n"
        "  ceiling: 1 TB/s (read) / 2 MB per pass = 500,000 tok/s\n"
        "  measured: 1 token / 2.50 us = 400,000 tok/s\n"
        "  fraction: 400,000 / 500,000 = 80 %\n"
        "  note (drifted): it moved"
    )


def test_text_of_a_miss_without_a_ceiling() -> None:
    """Nothing is invented where no figure is known."""
    evidence = audit(ceiling=None, traffic=None, declared=None, fraction=Interval(low=0.1, high=0.3), at_least=0.6)
    verdict = judge(evidence)
    error = error_of(evidence, verdict)
    assert isinstance(error, BelowCeiling)
    assert str(error) == "30 % of the ceiling, the test asks for 60 %"


def test_text_of_an_improvement() -> None:
    """Above the band: good news that wants a new number."""
    kind, lines = lines_of(loop(at_least=0.5, at_most=0.7))
    assert kind is AboveBand
    assert lines == [
        "80 % of the probed read ceiling (400 of 500 tok/s), above the 70 % that the test expects at most: "
        "an improvement asks for a new number; memory-bound",
        "  ceiling: 1 TB/s (read beside the samples) / 2 GB per pass = 500 tok/s",
        "  measured: 1 token / 2.50 ms = 400 tok/s (9 samples)",
        "  fraction: 400 / 500 = 80 %",
    ]


def test_text_of_an_undecided_result() -> None:
    """What is missing and what would supply it."""
    kind, lines = lines_of(loop(0.8, 0.8, timed_out=True))
    assert kind is InconclusiveMeasurement
    assert lines == [
        "2 samples in the time allowed; an interval of the median needs 6 [too-few-samples]",
        "  do: raise --roofline-max-time, give the cache more room (reset=, passes_per_reset=), or use a quieter "
        "machine",
    ]


def test_a_finding_without_a_remedy_tells_none() -> None:
    """No empty advice."""
    verdict = judge(loop(limit=SHEET), 0.8, [finds("bogus")])
    assert str(error_of(loop(), verdict)) == "bogus [drifted]"


def test_findings_are_told_by_severity() -> None:
    """`of` filters, in order."""
    verdict = judge(loop(), 0.8, [finds("note", "a"), finds("bogus", "b"), finds("note", "c")])
    assert [finding.check for finding in verdict.of("note")] == ["a", "c"]
    assert [finding.check for finding in verdict.of("inconclusive")] == []
