"""Laws of the statistics."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import steady

from pytest_roofline.samples import enough_samples, is_steady, median, median_interval, robust_line, spread
from pytest_roofline.stopping import LEAST_SAMPLES, MOST_SAMPLES, UntilDecided

VALUES = st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=40)
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.99])


@steady
@given(values=VALUES, confidence=CONFIDENCES)
def test_the_interval_contains_the_median_and_is_made_of_samples(values: list[float], confidence: float) -> None:
    """Order statistics: both ends are samples, and more confidence is never narrower."""
    interval = median_interval(values, confidence)
    assert interval.low <= median(values) <= interval.high
    assert interval.low in values
    assert interval.high in values
    surer = median_interval(values, 0.999)
    assert surer.low <= interval.low
    assert surer.high >= interval.high


@steady
@given(values=VALUES, confidence=CONFIDENCES)
def test_the_interval_has_the_coverage_it_promises(values: list[float], confidence: float) -> None:
    """By the binomial sum over the ranks that it cut, wherever there are enough samples for it."""
    count = len(values)
    assume(enough_samples(count, confidence))
    ordered = [float(number) for number in range(count)]
    cut = int(median_interval(ordered, confidence).low)
    tail = sum(math.comb(count, rank) for rank in range(cut + 1)) / 2**count
    assert 1 - 2 * tail >= confidence
    # One more at each end would be too many: the interval is no wider than it must be.
    wider = tail + math.comb(count, cut + 1) / 2**count
    assert 1 - 2 * wider < confidence or cut + 1 > count // 2


@pytest.mark.parametrize("count", [6, 9, 15, 30])
def test_the_interval_holds_its_confidence_for_skewed_noise(count: int) -> None:
    """Simulated with bursts that only ever add time: at least 95 % of the intervals hold the true median."""
    random = Random(count)
    hits = 0
    for _ in range(2000):
        interval = median_interval([random.paretovariate(1.2) for _ in range(count)])
        hits += interval.low <= 2 ** (1 / 1.2) <= interval.high
    assert hits / 2000 >= 0.94


@steady
@given(values=st.lists(st.floats(min_value=1.0, max_value=2.0), min_size=9, max_size=40), burst=st.floats(10, 1e9))
def test_one_burst_moves_no_interval_far(values: list[float], burst: float) -> None:
    """From nine samples on, a single one, however wrong, stays outside."""
    interval = median_interval([burst, *values[1:]])
    assert interval.low <= 2.0
    assert interval.high <= 2.0


@steady
@given(
    count=st.integers(min_value=14, max_value=45),
    slope=st.integers(min_value=-50, max_value=50),
    intercept=st.integers(min_value=-50, max_value=50),
    seed=st.integers(0, 1000),
    wrong=st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=13, max_size=13),
)
def test_a_line_survives_29_per_cent_of_arbitrary_points(
    count: int, slope: int, intercept: int, seed: int, wrong: list[float]
) -> None:
    """As long as most pairs are of good points, slope and intercept are exact."""
    bad = int(0.29 * count)
    good = count - bad
    assume(2 * math.comb(good, 2) > math.comb(count, 2))
    points = [(float(x), float(slope * x + intercept)) for x in range(count)]
    for position, value in zip(Random(seed).sample(range(count), bad), wrong, strict=False):
        points[position] = (points[position][0], value)
    found_slope, found_intercept = robust_line(points)
    assert found_slope == slope
    assert found_intercept == intercept


@steady
@given(values=VALUES, factor=st.sampled_from([0.5, 2.0, 1024.0]))
def test_scaling_scales(values: list[float], factor: float) -> None:
    """Units do not matter: medians scale, spreads and steadiness do not change."""
    scaled = [value * factor for value in values]
    assert median(scaled) == pytest.approx(median(values) * factor)
    assert spread(scaled) == pytest.approx(spread(values))
    assert is_steady(scaled) == is_steady(values)


@steady
@given(
    fractions=st.lists(st.floats(min_value=0.0, max_value=2.0), min_size=1, max_size=30),
    budgets=st.tuples(st.one_of(st.none(), st.floats(0.1, 1.0)), st.one_of(st.none(), st.floats(0.1, 1.0))),
)
def test_the_criterion_always_ends(fractions: list[float], budgets: tuple[float | None, float | None]) -> None:
    """Between nine and 200 samples; where it ended early on a budget, its interval is clear of it."""
    criterion = UntilDecided(*budgets)
    count = 0
    while not criterion.is_finished():
        criterion.add(fractions[count % len(fractions)])
        count += 1
    assert LEAST_SAMPLES <= count <= MOST_SAMPLES
    decision = criterion.decide()
    interval = decision.interval
    assert interval is not None
    assert decision.is_reached or count == MOST_SAMPLES
    if count < MOST_SAMPLES:
        assert all(interval.clears(budget) is not None for budget in budgets if budget is not None)
