"""Could the device have done this in that time?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import MEASURED, SHEET, audit, claim, loop, sample, traced, traffic, window

from pytest_roofline.checks.ceiling import (
    above_ceiling,
    closed_pass_s,
    compute_unsure,
    faster_than_limit,
    memory_bytes,
    probe_unsure,
)
from pytest_roofline.checks.confronted import Alternation
from pytest_roofline.checks.evidence import Evidence, Finding

BYTES = 2e9


def at(rate: float, **figures: Any) -> Evidence:
    """A decode whose blocks read from memory at this rate."""
    step_s = BYTES / rate
    samples = tuple(sample(step_s=step_s, closed_step_s=step_s) for _ in range(9))
    return loop(**{"samples": samples, **figures})


def audited(rate: float, **figures: Any) -> Evidence:
    """An audit whose window closed at this rate."""
    return audit(**{"window": window(window_s=100 * BYTES / rate), "limit": SHEET, **figures})


def turns(*rates: float, probe: float = 1e12, after: float | None = None) -> tuple[Alternation, ...]:
    """A confrontation: block rates between probes."""
    return tuple(
        Alternation(
            probe_before_bytes_per_s=probe,
            block_bytes_per_s=rate,
            probe_after_bytes_per_s=probe if after is None else after,
        )
        for rate in rates
    )


def told(finding: Finding | None) -> tuple[str, str] | None:
    """Check and severity, None for silence."""
    return None if finding is None else (finding.check, finding.severity)


BOGUS = ("faster-than-limit", "bogus")
UNSURE = ("ceiling-unsure", "inconclusive")


# -- what is held against the limit


def test_only_the_least_bytes_beyond_the_knee_count() -> None:
    """The smallest of all counts, minus what a cache can have held; an open trace is a lower bound and no count."""
    evidence = loop(
        traffic=traffic(3e9, least_bytes_per_pass=2.5e9),
        declared=traffic(9e9),
        traced=traced(2e9, least_bytes_per_pass=1.5e9),
        knee_bytes=0.5e9,
    )
    assert memory_bytes(evidence) == 1e9
    assert memory_bytes(replace(evidence, knee_bytes=5e9)) == 0.0
    assert memory_bytes(replace(evidence, traced=replace(evidence.traced, is_closed=False))) == 2e9  # type: ignore[type-var]
    assert memory_bytes(audit(traffic=None, declared=None)) is None


def test_closed_time_of_a_pass() -> None:
    """The median block of a loop, the closed window of an audit, the claim where no window was seen."""
    samples = tuple(sample(closed_step_s=value) for value in (1.0, 9.0, 2.0))
    assert closed_pass_s(loop(samples=samples)) == 2.0
    assert closed_pass_s(audit(window=window(window_s=1.0, leftover_s=1.0))) == pytest.approx(0.02)
    unseen = audit(window=None, claim=claim(100.0, 0.5), batch=2, tokens_per_pass=5.0)
    assert closed_pass_s(unseen) == pytest.approx(0.05)
    assert closed_pass_s(replace(unseen, tokens_per_pass=0.0)) is None
    assert closed_pass_s(replace(unseen, claim=claim(0.0, 0.5))) is None
    assert closed_pass_s(replace(unseen, claim=None)) is None
    assert closed_pass_s(audit(window=window(passes=0.0))) == pytest.approx(0.0025)


# -- against a sheet


@pytest.mark.parametrize(("rate", "expected"), [(1.0e12, None), (1.1219e12, None), (1.1221e12, BOGUS), (9e12, BOGUS)])
@pytest.mark.parametrize("make", [at, audited])
def test_a_sheet_with_its_slack_decides(make: Any, rate: float, expected: Any) -> None:
    """1.1 TB/s with 2 % slack, for loops and audits alike."""
    assert told(faster_than_limit(make(rate))) == expected


def test_the_knee_and_the_least_bytes_excuse() -> None:
    """Of 2 GB at twice the limit half can have come from a large cache, or need not have been read."""
    fast = at(2.2e12)
    assert told(faster_than_limit(fast)) == BOGUS
    assert faster_than_limit(replace(fast, knee_bytes=1e9)) is None
    assert faster_than_limit(replace(fast, traced=traced(2e9, least_bytes_per_pass=1e9))) is None
    assert faster_than_limit(replace(fast, knee_bytes=4e9)) is None
    assert faster_than_limit(replace(fast, is_cache_hot=True, knee_bytes=4e9)) is None


def test_without_a_limit_or_time_nothing_is_impossible() -> None:
    """Absence of evidence accuses nobody."""
    assert faster_than_limit(at(9e12, limit=None)) is None
    assert faster_than_limit(audit(claim=None, window=None)) is None
    assert faster_than_limit(audited(9e12, window=None, claim=claim(1.0, 0.0))) is None


def test_message_of_the_impossible() -> None:
    """Found, limit with its source, likely cause, what to do."""
    finding = faster_than_limit(at(4.4e12))
    assert finding is not None
    assert finding.message.split("\n") == [
        "4.40 TB/s from memory, but this device cannot exceed 1.10 TB/s (4x)",
        "  found: 2.00 GB per pass that no cache can hold, in 455 us",
        "  limit: driver: bus width x memory clock, slack 1.02",
        "  likely: bytes declared that the step does not read, weights never written (one zero page), or work skipped",
    ]
    assert finding.remedy.startswith("check that the work ran in this call")
    assert finding.figures["ratio"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("ratio", "figures", "cause"),
    [
        (8.0, {"batch": 8}, "weights counted once per sequence (batch 8); the ratio is 8"),
        (6.9, {"batch": 8}, "weights counted once per sequence (batch 8)"),
        (4.0, {"tokens_per_pass": 4.0}, "4 tokens per pass counted as passes"),
        (2.0, {}, "bytes counted twice, or half of the work skipped"),
        (25.0, {}, "the work did not run"),
        (5.0, {}, "bytes declared that the step does not read"),
    ],
)
def test_likely_causes(ratio: float, figures: dict[str, Any], cause: str) -> None:
    """The factor nearest to the ratio is named."""
    finding = faster_than_limit(at(ratio * 1.1e12, **figures))
    assert finding is not None
    assert cause in finding.message


def test_a_declared_audit_may_have_counted_a_store_as_read() -> None:
    """Three times too fast, and no trace to say otherwise."""
    finding = faster_than_limit(audited(3.3e12))
    assert finding is not None
    assert "a store counted as read and written, or another model's bytes" in finding.message


# -- without a sheet


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(1.25e12, None), (1.2501e12, UNSURE), (1.9999e12, UNSURE), (2.0001e12, BOGUS)],
)
def test_an_audit_cannot_be_repeated(rate: float, expected: Any) -> None:
    """Up to 1.25 times the best of all probes is honest, up to twice unsure, above that bogus."""
    assert told(faster_than_limit(audited(rate, limit=MEASURED))) == expected


@pytest.mark.parametrize(
    ("confrontation", "expected"),
    [
        ((), UNSURE),
        (turns(*[3e12] * 4), UNSURE),
        (turns(*[3e12] * 5), BOGUS),
        (turns(*[1.2501e12] * 5), BOGUS),
        (turns(*[1.25e12] * 5), UNSURE),
        (turns(3e12, 3e12, 1.2e12, 3e12, 3e12), UNSURE),
        (turns(*[3e12] * 5, after=2.5e12), UNSURE),
        (turns(*[3e12] * 5, probe=2.5e12, after=1e12), UNSURE),
        (turns(*[3e12] * 6), BOGUS),
    ],
)
def test_a_loop_is_accused_only_when_every_turn_beats_both_probes(confrontation: Any, expected: Any) -> None:
    """Five alternations, each block over 1.25 times the probe before and the probe after it."""
    assert told(faster_than_limit(at(3e12, limit=MEASURED, confrontation=confrontation))) == expected


def test_within_the_slack_no_confrontation_matters() -> None:
    """A rate up to 1.25 times the best of all probes is believed."""
    assert faster_than_limit(at(1.25e12, limit=MEASURED, confrontation=turns(*[3e12] * 5))) is None


def test_message_of_the_unsure() -> None:
    """What was seen, against what, and how to find out."""
    finding = faster_than_limit(audited(1.5e12, limit=MEASURED))
    assert finding is not None
    assert finding.message == (
        "1.50 TB/s from memory is 1.5x the best of all probes (1.00 TB/s), and no datasheet says what "
        "this device can do"
    )
    assert "roofline.decode or roofline.kernel" in finding.remedy


# -- compute


def computing(rate: float, *, is_measured: bool = False, **figures: Any) -> Evidence:
    """A pass of 1 TFLOP at this rate, on a device whose largest peak is 1 PFLOP/s."""
    step_s = 1e12 / rate
    return loop(
        samples=tuple(sample(step_s=step_s, closed_step_s=step_s) for _ in range(9)),
        traffic=traffic(1e6, flops_per_pass=1e12, **figures),
        traced=None,
        limit=None,
        peak_limit_flops_per_s=1e15,
        is_peak_limit_measured=is_measured,
    )


@pytest.mark.parametrize(
    ("rate", "is_measured", "expected"),
    [
        (1.1499e15, False, None),
        (1.1501e15, False, BOGUS),
        (1.1499e15, True, None),
        (1.1501e15, True, UNSURE),
        (9e15, True, UNSURE),
    ],
)
def test_compute_is_bogus_only_above_a_sheets_largest_peak(rate: float, is_measured: bool, expected: Any) -> None:
    """15 % over the largest dense peak of any dtype; a measured product proves nothing."""
    assert told(compute_unsure(computing(rate, is_measured=is_measured))) == expected


def test_the_least_flops_count() -> None:
    """Head once, causal attention halved: only what cannot be avoided."""
    assert compute_unsure(computing(2e15, least_flops_per_pass=0.5e12)) is None
    assert compute_unsure(computing(2e15, least_flops_per_pass=0.0)) is None


def test_without_peak_flops_or_time_compute_says_nothing() -> None:
    """Absence of evidence accuses nobody."""
    fast = computing(9e15)
    assert compute_unsure(replace(fast, peak_limit_flops_per_s=None)) is None
    assert compute_unsure(replace(fast, traffic=None)) is None
    assert compute_unsure(replace(fast, traffic=traffic())) is None
    assert compute_unsure(replace(fast, samples=())) is None
    assert compute_unsure(replace(fast, samples=(sample(closed_step_s=0.0),))) is None


def test_compute_messages() -> None:
    """A dense peak, or a measured product."""
    sheet = compute_unsure(computing(2e15))
    assert sheet is not None
    assert sheet.message == "2.00 PFLOP/s, but the largest dense peak of this device is 1.00 PFLOP/s (2x)"
    assert "multiply-add is two" in sheet.remedy
    measured = compute_unsure(computing(2e15, is_measured=True))
    assert measured is not None
    assert measured.message == "2.00 PFLOP/s, but the largest measured product of this device is 1.00 PFLOP/s (2x)"


# -- a probe in doubt


def test_a_probe_in_doubt_carries_no_verdict() -> None:
    """Its doubts are told; where nothing was judged by it, or the cache was, they do not matter."""
    evidence = loop(probe_doubts=("buffers of 8 MB only", "rates spread by 80 %"))
    finding = probe_unsure(evidence)
    assert told(finding) == UNSURE
    assert finding is not None
    assert finding.message == ("the probe of this device cannot be trusted: buffers of 8 MB only; rates spread by 80 %")
    assert finding.remedy
    assert probe_unsure(loop()) is None
    assert probe_unsure(replace(evidence, fraction=None)) is None
    assert probe_unsure(replace(evidence, is_cache_hot=True)) is None


# -- a trace that was blind, and a fraction that nothing can reach


def test_a_blind_trace_lends_no_bytes_to_a_declaration_that_is_impossible() -> None:
    """40 times what was traced, at a rate that no memory has: the declaration has to be possible by itself."""
    evidence = loop(declared=traffic(80e9), traffic=traffic(80e9), traced=traced(2e9))
    finding = faster_than_limit(evidence)
    assert finding is not None
    assert finding.severity == "bogus"
    assert "80.0 GB per pass declared, 2.00 GB traced (40x)" in finding.message


def test_a_blind_trace_accuses_no_declaration_that_is_possible() -> None:
    """Work on another thread, which no trace sees, at 80 % of the ceiling."""
    assert faster_than_limit(loop(traced=traced(BYTES / 40), declared=traffic())) is None


@pytest.mark.parametrize(("fraction", "is_found"), [(1.2, False), (1.3, True), (25.0, True)])
def test_a_fraction_that_nothing_can_reach_is_not_passed(fraction: float, is_found: bool) -> None:
    """Without a limit that convicts it, the bytes, the clock or the ceiling is wrong all the same."""
    finding = above_ceiling(loop(*[fraction] * 9, limit=None))
    assert (finding is not None) is is_found
    if finding is not None:
        assert finding.check == "ceiling-unsure"
        assert "nothing honest exceeds it" in finding.message
        assert above_ceiling(loop(*[fraction] * 9, limit=None, is_cache_hot=True)) is None


def test_bytes_that_were_only_declared_may_be_too_many() -> None:
    """With nothing traced a large ratio is as well a figure too large as work that did not run."""
    said = at(50 * 1.1e12)
    finding = faster_than_limit(replace(said, declared=said.traffic, traced=None))
    assert finding is not None
    assert "the work did not run" in finding.message
    assert "or more bytes declared than a pass moves: none were traced" in finding.message
    finding = faster_than_limit(replace(said, declared=said.traffic, traced=said.traffic))
    assert finding is not None
    assert "more bytes declared" not in finding.message
