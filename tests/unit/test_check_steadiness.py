"""Does the evidence carry a verdict?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import RULER, audit, ceiling, loop, sample, traffic

from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.evidence import Evidence, Finding, Sample
from pytest_roofline.checks.steadiness import cache_resident, drifted, plateau_unsure, too_few_samples
from pytest_roofline.roofline import Interval

KNEE = 100e6
COMPUTE_BOUND = ceiling(traffic(flops_per_pass=1e14), peak_flops_per_s=1e15)


def cached(knees: float, at_least: float | None = 0.6, fraction: float = 0.8, **figures: Any) -> Evidence:
    """A working set of so many knees, at this fraction."""
    size = knees * KNEE
    return loop(*[fraction] * 9, traffic=traffic(size), knee_bytes=KNEE, at_least=at_least, **figures)


def severity(finding: Finding | None) -> str | None:
    """How grave, None for silence."""
    return None if finding is None else finding.severity


# -- cache-resident


@pytest.mark.parametrize(("knees", "low"), [(4.0, 0.6), (2.0, 0.4), (1.0, 0.0), (0.5, 0.0), (1000.0, 0.7992)])
def test_the_true_fraction_lies_between_all_and_none_from_cache(knees: float, low: float) -> None:
    """At most a knee of the working set came from cache."""
    bounds = fraction_bounds(cached(knees))
    assert bounds is not None
    assert bounds.low == pytest.approx(low)
    assert bounds.high == pytest.approx(0.8)


def test_caches_do_not_matter_where_memory_is_not_the_subject() -> None:
    """Judged against the cache, bound by compute, or without bytes: noise alone."""
    noise = Interval(low=0.8, high=0.8)
    for evidence in (
        cached(1.0, is_cache_hot=True),
        replace(cached(1.0), ceiling=COMPUTE_BOUND),
        replace(cached(1.0), traffic=None),
    ):
        assert fraction_bounds(evidence) == noise
        assert cache_resident(evidence) is None
    assert fraction_bounds(replace(cached(1.0), fraction=None)) is None
    assert cache_resident(replace(cached(1.0), fraction=None)) is None
    assert cache_resident(replace(cached(1.0), knee_bytes=0.0)) is None


@pytest.mark.parametrize(
    ("knees", "at_least", "expected"),
    [
        (4.01, 0.6, None),
        (3.99, 0.6, "inconclusive"),
        (3.99, 0.5, None),
        (0.5, 0.01, "inconclusive"),
        (0.5, 0.81, None),
        (1.0, 0.9, None),
    ],
)
def test_where_the_interval_decides_it_decides(knees: float, at_least: float, expected: str | None) -> None:
    """A fraction of 80 %: caches matter only when the budget lies between what they allow."""
    assert severity(cache_resident(cached(knees, at_least))) == expected


@pytest.mark.parametrize(("knees", "expected"), [(1.99, "inconclusive"), (2.0, None), (4.0, None)])
def test_without_a_budget_two_knees_are_enough(knees: float, expected: str | None) -> None:
    """Below about twice the knee there is no verdict on memory."""
    assert severity(cache_resident(cached(knees, None))) == expected


def test_noise_that_does_not_decide_is_not_the_caches_fault() -> None:
    """The budget lies inside the noise: too-few-samples says so."""
    evidence = replace(cached(3.0), fraction=Interval(low=0.55, high=0.65))
    assert cache_resident(evidence) is None
    assert severity(too_few_samples(evidence)) == "inconclusive"


def test_cache_message() -> None:
    """What is touched, what may be cached, the interval, the budget, and the size that would decide."""
    finding = cache_resident(cached(2.0))
    assert finding is not None
    assert finding.check == "cache-resident"
    assert finding.message == (
        "a pass touches 200 MB and up to 100 MB of it can come from cache: the fraction of the memory ceiling is "
        "between 40 % and 80 %, the test asks for 60 %"
    )
    assert finding.remedy == (
        "use a working set of at least 400 MB, rotate several copies of the inputs, or judge against the cache with "
        "cache='hot'"
    )
    small = cache_resident(cached(0.08, None))
    assert small is not None
    assert small.message == (
        "a pass touches 8.00 MB and up to 8.00 MB of it can come from cache: the fraction of the memory ceiling is "
        "between 0.0 % and 80 %"
    )
    assert "at least 400 MB" in small.remedy


@pytest.mark.parametrize(("at_least", "text"), [(0.1, "200 MB"), (0.76, "2.00 GB"), (0.8, "400 MB")])
def test_the_size_that_would_decide(at_least: float, text: str) -> None:
    """From f * (1 - K / W) = budget, at least two knees; four where no size would do."""
    finding = cache_resident(cached(0.5, at_least))
    assert finding is not None
    assert f"at least {text}" in finding.remedy


# -- too-few-samples


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "inconclusive"), (1, "inconclusive"), (5, "inconclusive"), (6, None)]
)
def test_six_samples_make_an_interval(count: int, expected: str | None) -> None:
    """Below that there is no verdict, however clear the figures look."""
    evidence = replace(loop(at_least=0.1), samples=tuple(sample() for _ in range(count)))
    assert severity(too_few_samples(evidence)) == expected


def test_a_loop_that_measured_nothing_is_undecided() -> None:
    """No samples and no fraction, with or without a budget: never a pass."""
    nothing = replace(loop(), samples=(), fraction=None)
    assert severity(too_few_samples(nothing)) == "inconclusive"
    assert severity(too_few_samples(replace(nothing, kind="kernel"))) == "inconclusive"


@pytest.mark.parametrize(
    ("low", "high", "at_least", "expected"),
    [
        (0.6, 0.7, 0.6, None),
        (0.59, 0.7, 0.6, "inconclusive"),
        (0.5, 0.6, 0.6, "inconclusive"),
        (0.5, 0.59, 0.6, None),
        (0.1, 0.9, None, None),
    ],
)
def test_a_budget_inside_the_interval(low: float, high: float, at_least: float | None, expected: str | None) -> None:
    """Equal to the lower end is reached; equal to the upper end is not decided."""
    evidence = loop(fraction=Interval(low=low, high=high), at_least=at_least)
    assert severity(too_few_samples(evidence)) == expected


def test_samples_messages() -> None:
    """How many, why no more, and what would help."""
    one = too_few_samples(replace(loop(), samples=(sample(),), timed_out=True))
    assert one is not None
    assert one.message == "1 sample in the time allowed; an interval of the median needs 6"
    room = too_few_samples(replace(loop(), samples=(sample(),) * 3, timed_out=False))
    assert room is not None
    assert room.message == "3 samples before the state ran out of room; an interval of the median needs 6"
    for helps in ("--roofline-max-time", "reset=", "passes_per_reset="):
        assert helps in room.remedy
    inside = too_few_samples(loop(fraction=Interval(low=0.55, high=0.65), at_least=0.6))
    assert inside is not None
    assert inside.message == ("after 9 samples the fraction lies between 55 % and 65 %: the budget of 60 % is inside")


@pytest.mark.parametrize(
    ("low", "high", "at_least", "expected"),
    [(0.6, 0.7, 0.6, None), (0.59, 0.7, 0.6, "inconclusive"), (0.5, 0.59, 0.6, None), (0.5, 0.7, None, None)],
)
def test_an_audits_interval_comes_from_the_probes_around_it(
    low: float, high: float, at_least: float | None, expected: str | None
) -> None:
    """One window has no samples: the machine drifted when the budget lies between both probes."""
    finding = too_few_samples(audit(fraction=Interval(low=low, high=high), at_least=at_least))
    assert severity(finding) == expected
    if finding is not None:
        assert finding.check == "drifted"
        assert finding.message == (
            "the fraction is 59 % of the probe on one side of the window and 70 % of that on the other: "
            "the budget of 60 % lies between"
        )
        assert "roofline.decode" in finding.remedy
    assert too_few_samples(audit(fraction=None, at_least=at_least)) is None


# -- drifted


def moving(fraction: float, before: float, after: float, count: int = 9) -> tuple[Sample, ...]:
    """Samples whose neighbouring probes differ."""
    return tuple(
        sample(fraction, ruler_before_bytes_per_s=before * RULER, ruler_after_bytes_per_s=after * RULER)
        for _ in range(count)
    )


def missed(fraction: float, before: float = 1.0, after: float = 1.0, **figures: Any) -> Evidence:
    """A miss of a budget of 60 % between such probes."""
    return loop(
        **{
            "samples": moving(fraction, before, after),
            "fraction": Interval(low=fraction, high=fraction),
            "at_least": 0.6,
            **figures,
        }
    )


@pytest.mark.parametrize(
    ("fraction", "slower", "expected"),
    [
        (0.5, 1.0, None),
        (0.5, 0.80, None),
        (0.5, 0.68, "note"),
        (0.5, 0.66, "inconclusive"),
        (0.58, 0.94, None),
        (0.58, 0.93, "inconclusive"),
        (0.3, 0.5, "note"),
    ],
)
def test_drift_excuses_a_miss_only_when_its_figures_explain_the_gap(
    fraction: float, slower: float, expected: str | None
) -> None:
    """Against the slower of both neighbouring probes, f * 2 / (1 + slower), the budget is within reach."""
    assert severity(drifted(missed(fraction, 1.0, slower))) == expected


def test_a_pass_is_never_excused_nor_touched() -> None:
    """A result that reaches its budget is at most noted."""
    assert drifted(missed(0.8)) is None
    assert severity(drifted(missed(0.8, 1.0, 0.5))) == "note"
    assert severity(drifted(missed(0.5, 1.0, 0.5, at_least=None))) == "note"
    assert severity(drifted(replace(missed(0.5, 1.0, 0.5), fraction=None))) == "note"


def test_a_two_per_cent_wobble_is_no_drift() -> None:
    """The kindest figure must differ from the plain one by over 2 %."""
    near = missed(0.595, 1.0, 0.98)
    assert drifted(near) is None


def test_a_compute_bound_pass_does_not_follow_the_bandwidth() -> None:
    """A bandwidth that moved explains nothing of it."""
    assert severity(drifted(missed(0.5, 1.0, 0.5))) == "inconclusive"
    assert severity(drifted(missed(0.5, 1.0, 0.5, ceiling=COMPUTE_BOUND))) == "note"


@pytest.mark.parametrize(("slower", "expected"), [(0.78, None), (0.76, "note")])
def test_drift_is_noted_from_1_3_on(slower: float, expected: str | None) -> None:
    """The fastest probe over the slowest one."""
    assert severity(drifted(loop(samples=moving(0.8, 1.0, slower)))) == expected


def test_drift_needs_samples_and_rates() -> None:
    """Audits have no samples; a probe without a rate tells nothing."""
    assert drifted(audit()) is None
    assert drifted(loop(samples=moving(0.8, 1.0, 0.0))) is None


def test_drift_messages() -> None:
    """From where to where, what it explains, and what helps."""
    excuse = drifted(missed(0.5, 1.0, 0.5))
    assert excuse is not None
    assert excuse.message == (
        "the probes around the blocks moved from 500 GB/s to 1.00 TB/s; against the slower neighbour the fraction is "
        "up to 67 %, the test asks for 60 %"
    )
    assert excuse.remedy == "measure on a machine that nobody else uses, or raise --roofline-max-time"
    note = drifted(missed(0.8, 1.0, 0.5))
    assert note is not None
    assert note.message == (
        "the probed bandwidth moved from 500 GB/s to 1.00 TB/s while measuring; the fraction follows it pair by pair"
    )


# -- a probe that a cache still served


@pytest.mark.parametrize(
    ("fraction", "excess", "expected"),
    [(0.50, 1.1, None), (0.57, 1.1, "inconclusive"), (0.70, 1.1, None), (0.57, 1.0, None)],
)
def test_a_probe_that_may_overstate_excuses_what_it_explains_and_no_more(
    fraction: float, excess: float, expected: str | None
) -> None:
    """Of a budget of 60 %, a miss by 5 % may be the probe's by 10 %; one by 17 % is not, and a pass stays one."""
    evidence = loop(*[fraction] * 9, at_least=0.6, probe_excess=excess)
    bounds = fraction_bounds(evidence)
    assert bounds is not None
    assert bounds.high == pytest.approx(fraction * excess)
    assert severity(plateau_unsure(evidence)) == expected


def test_the_overstated_probe_names_both_ends() -> None:
    """The message gives the factor, the two fractions and the budget."""
    finding = plateau_unsure(loop(*[0.57] * 9, at_least=0.6, probe_excess=1.1))
    assert finding is not None
    assert finding.check == "ceiling-unsure"
    assert "1.1x what memory gives" in finding.message
    assert "between 57 % and 63 %, the test asks for 60 %" in finding.message
    assert plateau_unsure(loop(*[0.57] * 9, at_least=None, probe_excess=1.1)) is None
