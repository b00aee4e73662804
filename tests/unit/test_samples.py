"""Statistics of few samples, by hand-made figures."""

from __future__ import annotations

import math

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import (
    enough_samples,
    is_steady,
    median,
    median_interval,
    robust_line,
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
