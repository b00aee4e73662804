"""Untouched pages and patterns: they name the cause of an impossible rate, take a verdict away, and else are a note."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import BYTES, MEASURED, RULER, ceiling, loop, sample, traced, traffic

from pytest_roofline.checks.confronted import Alternation
from pytest_roofline.checks.data import predictable_data, untouched_memory
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.residency import Survey
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import judge


def untouched(share: float = 1.0, **figures: Any) -> Evidence:
    """A believable decode, so much of whose weights were never written."""
    return loop(survey=Survey(untouched_bytes=share * BYTES, sampled=4096), **figures)


def pattern(share: float = 1.0, *, may_compress: bool = True, **figures: Any) -> Evidence:
    """A believable decode, so much of whose weights hold zeros."""
    survey = Survey(predictable_bytes=share * BYTES, sampled=32, pattern="zeros", may_compress=may_compress)
    return loop(survey=survey, **figures)


def at(fraction: float) -> dict[str, Any]:
    """Samples and interval at this fraction of the ruler."""
    return {"samples": (sample(fraction),) * 9, "fraction": Interval(low=fraction, high=fraction)}


@pytest.mark.parametrize(
    ("share", "at_least", "severity"),
    [
        (0.019, None, None),
        (0.02, None, "note"),
        (0.099, None, "note"),
        (0.1, None, "inconclusive"),
        (0.24, 0.6, "note"),  # 0.8 * 0.76 is 0.61: decided all the same
        (0.26, 0.6, "inconclusive"),
        (1.0, 0.6, "inconclusive"),
        (1.0, 0.9, "note"),  # missed in spite of it
    ],
)
@pytest.mark.parametrize(("check", "made"), [(untouched_memory, untouched), (predictable_data, pattern)])
def test_what_need_not_come_from_memory_decides_or_not(
    check: Any, made: Any, share: float, at_least: float | None, severity: str | None
) -> None:
    """The true fraction lies between what the rest makes of it and what was measured."""
    found = check(made(share, at_least=at_least))
    assert (found.severity if found else None) == severity


def test_caches_and_untouched_pages_add_up() -> None:
    """Each alone leaves 0.8 above the budget, together they do not."""
    assert untouched_memory(untouched(0.2, at_least=0.6)).severity == "note"  # type: ignore[union-attr]
    both = untouched(0.2, at_least=0.6, knee_bytes=0.2 * BYTES)
    assert untouched_memory(both).severity == "inconclusive"  # type: ignore[union-attr]


def test_the_message_says_what_where_and_what_to_do() -> None:
    """Bytes, the interval, the budget and the remedy."""
    found = untouched_memory(untouched(0.5, at_least=0.6))
    assert found is not None
    assert found.message == (
        "1.00 GB of the 2.00 GB that a pass reads lie in pages that were never written, and those are all one page of "
        "zeros that stays in cache: the fraction of the memory ceiling is between 40 % and 80 %, the test asks for 60 %"
    )
    assert found.remedy.startswith("write the weights before they are measured")
    assert found.figures["untouched_bytes"] == 0.5 * BYTES
    assert found.figures["pages_sampled"] == 4096


def test_an_impossible_rate_is_named_with_its_figures() -> None:
    """Five times the ruler and everything untouched: bogus, cause first, found and limit behind it."""
    found = untouched_memory(untouched(**at(5.0)))
    assert found is not None
    assert found.severity == "bogus"
    first, *rest = found.message.split("\n")
    assert first == (
        "5.00 TB/s from memory, but this device cannot exceed 1.10 TB/s (4.5x): all 2.00 GB that a pass reads lie in "
        "pages that were never written, and those are all one page of zeros that stays in cache"
    )
    assert rest == ["  found: 2.00 GB per pass, in 400 us", "  limit: driver: bus width x memory clock"]
    verdict = judge(untouched(**at(5.0)), 5.0)
    assert [finding.check for finding in verdict.of("bogus")] == ["untouched-memory", "faster-than-limit"]


def test_a_small_part_explains_no_large_excess() -> None:
    """A tenth untouched does not make five times the rate: that stays the business of the limit."""
    found = untouched_memory(untouched(0.1, **at(5.0)))
    assert found is not None
    assert found.severity != "bogus"
    assert judge(untouched(0.1, **at(5.0)), 5.0).outcome == "bogus"


def test_without_a_sheet_nobody_is_accused_unconfirmed() -> None:
    """Above the best of all probes but not confronted: no verdict; confronted five times: bogus."""
    fast = untouched(**at(5.0), limit=MEASURED)
    assert untouched_memory(fast).severity == "inconclusive"  # type: ignore[union-attr]
    turn = Alternation(probe_before_bytes_per_s=RULER, block_bytes_per_s=5 * RULER, probe_after_bytes_per_s=RULER)
    assert untouched_memory(replace(fast, confrontation=(turn,) * 5)).severity == "bogus"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "figures",
    [
        {"survey": None},
        {"survey": Survey()},
        {"survey": Survey(untouched_bytes=0.0, predictable_bytes=0.0)},
        {"traced": None},
        {"traced": traffic()},  # not closed
    ],
)
def test_what_is_not_known_accuses_nobody(figures: dict[str, Any]) -> None:
    """No survey, nothing found, no trace, an open trace."""
    assert untouched_memory(replace(untouched(), **figures)) is None


@pytest.mark.parametrize("figures", [{"survey": None}, {"survey": Survey()}, {"traced": None}])
def test_values_that_are_not_known_accuse_nobody(figures: dict[str, Any]) -> None:
    """The same for patterns."""
    assert predictable_data(replace(pattern(), **figures)) is None


def test_an_open_trace_is_held_against_the_whole_pass() -> None:
    """A trace that saw a twentieth, all of it zeros, does not make the pass zeros."""
    seen = replace(pattern(0.05), traced=traffic(0.05 * BYTES))
    found = predictable_data(seen)
    assert found is not None
    assert found.severity == "note"
    assert found.figures["share"] == pytest.approx(0.05)


def test_judged_against_the_cache_pages_do_not_matter() -> None:
    """cache="hot" asks for the cache."""
    assert untouched_memory(untouched(is_cache_hot=True)).severity == "note"  # type: ignore[union-attr]


def test_a_band_that_is_exceeded_by_untouched_pages_is_not_judged() -> None:
    """Above at_most as measured, inside it by what came from memory."""
    assert untouched_memory(untouched(0.5, at_most=0.6)).severity == "inconclusive"  # type: ignore[union-attr]
    assert untouched_memory(untouched(0.5, at_most=0.3)).severity == "note"  # type: ignore[union-attr]


def test_a_device_that_moves_every_byte_gets_a_note() -> None:
    """Zeros at its own rate are honest."""
    found = predictable_data(pattern(may_compress=False, at_least=0.6))
    assert found is not None
    assert found.severity == "note"
    assert found.message == "all 2.00 GB that a pass reads hold zeros; this device moves them whole, so the rate stands"
    assert judge(pattern(may_compress=False, at_least=0.6), 0.8).outcome == "passed"


@pytest.mark.parametrize(
    ("at_least", "severity"), [(None, "note"), (0.6, "note"), (0.75, "inconclusive"), (0.9, "note")]
)
def test_products_of_zeros_are_in_doubt_where_a_seventh_decides(at_least: float | None, severity: str) -> None:
    """Bound by arithmetic, 80 % of the peak with zeros may be 70 % with random numbers."""
    of = traced(flops_per_pass=1e15)
    bound = ceiling(of, peak_flops_per_s=1e14)
    found = predictable_data(pattern(ceiling=bound, traffic=of, traced=of, at_least=at_least))
    assert found is not None
    assert found.severity == severity
    assert "hold zeros: products of such data draw less power" in found.message
    assert "15 % faster" in found.message
    assert untouched_memory(untouched(ceiling=bound, traffic=of, traced=of)).severity == "note"  # type: ignore[union-attr]


def test_a_finding_can_be_allowed() -> None:
    """As every other, one by one."""
    verdict = judge(untouched(at_least=0.6, allow=frozenset({"untouched-memory"})), 0.8)
    assert verdict.outcome == "passed"
    assert verdict.findings[0].message.endswith("(allowed, so it decides nothing)")
