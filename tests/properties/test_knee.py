"""The cache knee: the smallest figure that explains every point of a sweep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline.errors import MeasurementError
from pytest_roofline.sweep import knee_bytes, settled_ratio, without_rises

SIZES = st.floats(min_value=2**18, max_value=2**36)
RATES = st.floats(min_value=1e6, max_value=1e14)
POINTS = st.lists(st.tuples(SIZES, RATES), min_size=1, max_size=20)


def explains(knee: float, points: list[tuple[float, float]], plateau: float) -> bool:
    """Whether the inequality of the contract holds at every point; at W <= K it bounds nothing."""
    return all(size <= knee or rate * (1 - knee / size) <= 1.05 * plateau for size, rate in points)


@given(points=POINTS, plateau=RATES)
def test_the_knee_explains_every_point(points: list[tuple[float, float]], plateau: float) -> None:
    """With the knee, and a hair for rounding, the inequality of the contract holds everywhere."""
    assert explains(knee_bytes(points, plateau) * (1 + 1e-9) + 1e-6, points, plateau)


@given(points=POINTS, plateau=RATES)
def test_nothing_smaller_explains_them(points: list[tuple[float, float]], plateau: float) -> None:
    """A knee that is one per cent smaller leaves a point unexplained, unless it is zero or close."""
    knee = knee_bytes(points, plateau)
    if knee > 1.0:
        assert not explains(knee * 0.99, points, plateau)


@given(points=POINTS, plateau=RATES)
def test_the_knee_is_smaller_than_the_largest_set(points: list[tuple[float, float]], plateau: float) -> None:
    """It is never negative and never as large as the largest set that was read."""
    assert 0 <= knee_bytes(points, plateau) <= max(size for size, _ in points)


@given(points=POINTS, plateau=RATES, factor=st.floats(min_value=0.01, max_value=100))
def test_the_knee_does_not_depend_on_the_unit_of_the_rates(
    points: list[tuple[float, float]], plateau: float, factor: float
) -> None:
    """A device that is faster throughout has the same knee."""
    scaled = [(size, rate * factor) for size, rate in points]
    largest = max(size for size, _ in points)
    assert knee_bytes(scaled, plateau * factor) == pytest.approx(knee_bytes(points, plateau), abs=1e-6 * largest)


@given(plateau=RATES, sizes=st.lists(SIZES, min_size=1), share=st.floats(min_value=0.01, max_value=1.05))
def test_a_flat_sweep_has_no_knee(plateau: float, sizes: list[float], share: float) -> None:
    """Points up to 5 % over the plateau need no cache to explain them."""
    assert knee_bytes([(size, share * plateau * (1 - 1e-12)) for size in sizes], plateau) == 0


@given(cache=st.floats(min_value=2**20, max_value=2**27), speedup=st.floats(min_value=1.2, max_value=50))
def test_the_knee_never_exceeds_the_cache_of_an_ideal_machine(cache: float, speedup: float) -> None:
    """Where a cache keeps its share of every set, the knee comes out at no more than that cache."""
    points = []
    for power in range(18, 31):
        size = 2.0**power
        kept = min(1.0, cache / size)
        points.append((size, 1e10 / ((1 - kept) + kept / speedup)))
    assert knee_bytes(points, 1e10) <= cache * (1 + 1e-9)


@pytest.mark.parametrize("plateau", [0.0, -1.0, float("nan"), float("inf")])
def test_a_plateau_that_is_no_rate_is_an_error(plateau: float) -> None:
    """Zero, negative and infinite plateaus, and NaN, are refused by name."""
    with pytest.raises(MeasurementError, match="plateau"):
        knee_bytes([(1e6, 1e9)], plateau)


@given(ratios=st.lists(st.floats(min_value=0.01, max_value=100), min_size=1, max_size=20))
def test_beyond_the_fastest_size_nothing_rises(ratios: list[float]) -> None:
    """What noise raised is averaged away: the rest falls, the sum stays, and up to the fastest size nothing changes."""
    fitted = without_rises(ratios)
    peak = ratios.index(max(ratios))
    assert fitted[: peak + 1] == ratios[: peak + 1]
    assert all(high >= low for high, low in zip(fitted[peak:], fitted[peak + 1 :], strict=False))
    assert sum(fitted) == pytest.approx(sum(ratios))


@given(ratios=st.lists(st.floats(min_value=0.01, max_value=100), min_size=1, max_size=20))
def test_rates_that_fall_are_left_as_they_are(ratios: list[float]) -> None:
    """A machine without noise is reported as it was measured."""
    falling = sorted(ratios, reverse=True)
    assert without_rises(falling) == falling


@given(burst=st.floats(min_value=1.0, max_value=2.0), place=st.integers(min_value=6, max_value=10))
def test_one_burst_of_a_busy_machine_makes_no_cache(burst: float, place: int) -> None:
    """A size beyond the cache that was read at twice the rate moves the knee by less than a fifth of that size."""
    sizes = [2.0**power for power in range(20, 31)]
    ratios = [4.0, 4.0, 4.0, 3.0, 1.2, *[1.0] * 6]
    ratios[place] = burst
    points = list(zip(sizes, without_rises(ratios), strict=True))
    assert knee_bytes(points, 1.0) < 2.0**23 + 0.2 * sizes[place]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([2.0], 2.0),
        ([1.2, 1.3, 1.1, 1.2], 1.2),
        ([1.0, 1.0, 1.2, 1.2, 1.2], 1.05),  # not over it in a quarter of the rounds
        ([0.9, 1.0, 1.4, 1.5, 1.6], 1.4),  # far over it in half of them
        ([0.9, 0.95, 1.0], 0.95),
    ],
)
def test_a_size_counts_as_cached_only_where_most_rounds_say_so(ratios: list[float], expected: float) -> None:
    """On either side of both thresholds."""
    assert settled_ratio(ratios) == pytest.approx(expected)
