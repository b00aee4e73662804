"""Laws of finding the window of a claim."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import ANY_TIMES_S, reads, steady

from pytest_roofline.checks.claimed import ClockRead
from pytest_roofline.window import MATCH, closed_samples_s, find_span, laps_of, spans_of_samples


@steady
@given(seen=reads(least=2, most=2), seconds=st.one_of(st.none(), ANY_TIMES_S))
def test_two_reads_are_the_window(seen: list[ClockRead], seconds: float | None) -> None:
    """Whatever is claimed."""
    span = find_span(seen, seconds)
    assert span is not None
    assert (span.start, span.stop) == (seen[0], seen[1])


@steady
@given(seen=reads(least=3), data=st.data())
def test_an_honest_claim_finds_its_pair(seen: list[ClockRead], data: Any) -> None:
    """The difference of any two reads is found, within 1 % of what was claimed."""
    first, second = sorted(data.draw(st.lists(st.integers(0, len(seen) - 1), min_size=2, max_size=2, unique=True)))
    seconds = (seen[second].value_s or 0.0) - (seen[first].value_s or 0.0)
    span = find_span(seen, seconds)
    assert span is not None
    assert span.returned_s == pytest.approx(seconds, rel=1e-9)


@steady
@given(seen=reads(least=3), seconds=ANY_TIMES_S)
def test_what_is_found_equals_the_claim_and_nothing_nearer_exists(seen: list[ClockRead], seconds: float) -> None:
    """None only if no two reads are that far apart."""
    values = [read.value_s or 0.0 for read in seen]
    gaps = [later - earlier for index, earlier in enumerate(values) for later in values[index + 1 :]]
    span = find_span(seen, seconds)
    if span is None:
        assert seconds <= 0 or all(abs(gap - seconds) > MATCH * seconds * (1 - 1e-9) for gap in gaps)
    else:
        assert span.returned_s is not None
        error = abs(span.returned_s - seconds)
        assert error <= MATCH * seconds * (1 + 1e-9)
        assert error <= min(abs(gap - seconds) for gap in gaps) + 1e-9
        assert span.private_low_s <= span.measured_s <= span.private_high_s


@steady
@given(seen=reads(least=2))
def test_samples_are_found_and_closed(seen: list[ClockRead]) -> None:
    """Differences of neighbours are found in order; closed, each covers its own work, and together no more than all."""
    samples = [(b.value_s or 0.0) - (a.value_s or 0.0) for a, b in itertools.pairwise(seen)]
    spans = spans_of_samples(seen, samples)
    assert spans is not None
    assert len(spans) == len(samples)
    closed = closed_samples_s(spans)
    end = max(read.finished_s or 0.0 for read in seen)
    assert all(one >= 0 for one in closed)
    assert sum(closed) <= max(end, seen[-1].private_high_s) - seen[0].private_low_s + 1e-9
    drained = [read.leftover_s == 0 for read in seen]
    if all(drained):
        assert closed == pytest.approx(samples)


@steady
@given(seen=reads(least=2), factor=st.floats(min_value=1.05, max_value=100.0))
def test_a_sample_longer_than_all_of_it_is_not_found(seen: list[ClockRead], factor: float) -> None:
    """No read can explain it."""
    whole = (seen[-1].value_s or 0.0) - (seen[0].value_s or 0.0)
    assume(whole > 0)
    assert spans_of_samples(seen, [whole * factor]) is None


CHANCES = 100
"""Claims that are held against the same reads."""


def _random_reads(random: Random, lines: int, count: int = 200) -> list[ClockRead]:
    """Reads at random moments of a hundred seconds, at random lines of so many."""
    moments = sorted(random.uniform(0.0, 100.0) for _ in range(count))
    return [
        ClockRead(
            clock="time.perf_counter",
            value_s=moment,
            private_low_s=moment,
            private_high_s=moment,
            where=f"test_it.py:{random.randrange(lines)}",
        )
        for moment in moments
    ]


@steady
@given(seed=st.integers(0, 1 << 30), lines=st.sampled_from([1, 2, 3, 10, 50]))
def test_random_reads_are_no_laps(seed: int, lines: int) -> None:
    """200 reads at random, and claims around half of their time, where their sums lie: hardly one of them fits."""
    random = Random(seed)
    seen = _random_reads(random, lines)
    found = sum(laps_of(seen, random.uniform(35.0, 65.0)) is not None for _ in range(CHANCES))
    assert found <= 4  # 0.07 expected: two sums, each met by 0.02 % of some 50 s out of 30 s; by 1 % it were 7


@steady
@given(seed=st.integers(0, 1 << 30), laps=st.integers(2, 100), rounding=st.integers(2, 9))
def test_laps_of_a_loop_are_found_among_log_lines(seed: int, laps: int, rounding: int) -> None:
    """The sum of a loop's laps, rounded, with a log line before it and one behind."""
    random = Random(seed)
    seen, now_s, total_s = [], 0.0, 0.0
    lines = ["test_it.py:1", *["test_it.py:3", "test_it.py:5"] * laps, "test_it.py:9"]
    for index, where in enumerate(lines):
        seen.append(ClockRead(clock="time.time", value_s=now_s, private_low_s=now_s, private_high_s=now_s, where=where))
        step_s = random.uniform(1.0, 3.0)
        total_s += step_s if index % 2 else 0.0
        now_s += step_s
    total_s -= step_s if (len(lines) - 1) % 2 else 0.0
    found = laps_of(seen, round(total_s, rounding))
    assert found is not None
    assert len(found) == laps
