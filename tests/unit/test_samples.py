"""Statistics of few samples, by hand-made figures."""

from __future__ import annotations

import math

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import (
    between,
    enough_samples,
    is_steady,
    median,
    median_interval,
    outliers,
    outliers_remark,
    robust_line,
    sequential_cut,
    sequential_interval,
    spread,
)


def test_median_of_odd_and_even_counts() -> None:
    """The middle one, or the mean of the middle two, whatever the order."""
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5


def test_nothing_has_no_median_and_no_interval() -> None:
    """No samples are wrong use."""
    with pytest.raises(RooflineUsageError, match="median of no samples"):
        median([])
    with pytest.raises(RooflineUsageError, match="interval of no samples"):
        median_interval([])


@pytest.mark.parametrize(
    ("count", "confidence", "cut"),
    [
        (1, 0.95, 0),
        (2, 0.95, 0),
        (5, 0.95, 0),
        (6, 0.95, 0),
        (8, 0.95, 0),
        (9, 0.95, 1),
        (12, 0.95, 2),
        (20, 0.95, 5),
        (9, 0.99, 0),
    ],
)
def test_interval_cuts_as_many_as_the_confidence_allows(count: int, confidence: float, cut: int) -> None:
    """The ranks of the sign test: textbook values."""
    values = [float(value) for value in range(count)]
    assert median_interval(values, confidence) == Interval(low=cut, high=count - 1 - cut)


@pytest.mark.parametrize(
    ("count", "confidence", "enough"),
    [(0, 0.95, False), (5, 0.95, False), (6, 0.95, True), (7, 0.99, False), (8, 0.99, True)],
)
def test_enough_samples(count: int, confidence: float, enough: bool) -> None:
    """Six for 95 %, eight for 99 %."""
    assert enough_samples(count, confidence) is enough


def test_spread() -> None:
    """Interquartile range over the median; nothing to tell of one sample, endless around zero."""
    assert spread([1.0]) == 0.0
    assert spread([2.0] * 8) == 0.0
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert spread([-1.0, 0.0, 0.0, 1.0]) == math.inf


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        ([1.0, 1.0], False),
        ([1.0, 1.0, 1.0], True),
        ([3.0, 2.0, 1.0], False),
        ([3.0, 1.0, 0.951], True),
        ([3.0, 1.0, 0.949], False),
        ([1.0, 1.0, 5.0], True),
    ],
)
def test_only_a_trend_towards_faster_is_warm_up(values: list[float], steady: bool) -> None:
    """Slower may be a neighbour, and waiting for neighbours never ends."""
    assert is_steady(values) is steady


def test_robust_line_ignores_bursts() -> None:
    """Two of ten points far off do not bend the line."""
    points = [(float(x), 3.0 + 2.0 * x) for x in range(10)]
    points[3] = (3.0, 1000.0)
    points[8] = (8.0, -500.0)
    slope, intercept = robust_line(points)
    assert slope == pytest.approx(2.0)
    assert intercept == pytest.approx(3.0)


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 5.0)]])
def test_a_line_needs_two_different_places(points: list[tuple[float, float]]) -> None:
    """One place has no slope."""
    with pytest.raises(RooflineUsageError, match="two points with different x"):
        robust_line(points)


# -- looking after every sample


def test_the_sequential_cut_by_hand() -> None:
    """Nine in a row, one wrong of sixteen: 2^9/2 + 2^10/20 - 1/20 is over 200, 2^8/2 + 2^9/18 is not."""
    cuts = {count: sequential_cut(count, 0.005) for count in (8, 9, 15, 16, 19, 20, 200)}
    assert cuts == {8: None, 9: 0, 15: 0, 16: 1, 19: 1, 20: 2, 200: 72}


@pytest.mark.parametrize("error", [0.005, 0.05])
def test_the_sequential_error_is_kept_exactly(error: float) -> None:
    """The chance that fair coins ever cross the bound on one side within 200 looks, counted path by path."""
    alive, crossed = {0: 1.0}, 0.0  # samples above the median so far, and the chance to be there
    for count in range(1, 201):
        stepped: dict[int, float] = {}
        for above, chance in alive.items():
            for more in (above, above + 1):
                stepped[more] = stepped.get(more, 0.0) + chance / 2
        cut = sequential_cut(count, error)
        alive = {}
        for above, chance in stepped.items():
            if cut is not None and above <= cut:
                crossed += chance
            else:
                alive[above] = chance
    assert crossed <= error
    assert crossed >= error / 3  # and not so careful that it would never decide


def test_the_sequential_interval_is_made_of_samples() -> None:
    """The extremes until a look can end anything; then the cut ones; never of nothing."""
    assert sequential_interval([3.0, 1.0, 2.0], 0.005) == Interval(low=1.0, high=3.0)
    assert sequential_interval([float(value) for value in range(16)], 0.005) == Interval(low=1.0, high=14.0)
    with pytest.raises(RooflineUsageError, match="an interval of no samples is not defined"):
        sequential_interval([], 0.005)


def test_outliers_are_named_and_nothing_else() -> None:
    """Far by the scatter *and* by a tenth: what is merely outside a very narrow scatter is none."""
    assert outliers([]) == []
    assert outliers([1.0, 1.01, 0.99, 1.0, 1.05]) == []
    assert outliers([1.0, 1.01, 0.99, 1.0, 0.3, 2.5]) == [0.3, 2.5]
    assert outliers([0.5, 0.8, 1.1, 1.4, 1.7]) == []


def test_the_remark_about_outliers_says_where_they_lie() -> None:
    """One figure or a range; a sample whose long block took no longer than the short one has no figure."""
    usual = [0.8] * 6
    assert outliers_remark(usual) is None
    far = "of {} samples lie far from the median ({}); they were kept"
    assert outliers_remark([*usual, 0.06]) == "1 " + far.format(7, "6.0 %")
    assert outliers_remark([*usual, 0.06, 1.2]) == "2 " + far.format(8, "6.0 % to 120 %")
    inverted = "1 in which 2N passes took no longer than N"
    assert outliers_remark([*usual, math.inf]) == "1 " + far.format(7, inverted)
    assert outliers_remark([*usual, 0.06, math.inf]) == "2 " + far.format(8, f"6.0 %, {inverted}")


def test_times_add_up_not_rates() -> None:
    """A gigabyte at 1 GB/s and another at 3 take 1.33 s together."""
    assert between(1.0, 3.0) == pytest.approx(1.5)
    assert between(0.0, 3.0) == 0.0
