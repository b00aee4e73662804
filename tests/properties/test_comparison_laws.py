"""Laws of comparing two runs: symmetry, scale, the weather of the device, and how often noise is called a change."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import document_with, kept_test, result_of

from pytest_roofline.comparison.change import Change
from pytest_roofline.comparison.runs import compare_runs
from pytest_roofline.comparison.speeds import LEAST_SAMPLES, speed_interval

TIMES = st.lists(st.floats(1e-5, 1e-1), min_size=LEAST_SAMPLES, max_size=40)
FACTORS = st.floats(0.1, 10.0)
OPPOSITE = {"faster": "slower", "slower": "faster", "undecided": "undecided", "same": "same"}


def change_of(old: list[float], new: list[float], old_ruler: float = 1e12, new_ruler: float = 1e12) -> Change:
    """One decode test in both runs, on a device that was steady in each."""
    sides = [
        document_with(kept_test(result_of(times, [ruler] * len(times))))
        for times, ruler in ((old, old_ruler), (new, new_ruler))
    ]
    (change,) = compare_runs(*sides).changes
    return change


@given(TIMES, TIMES)
@settings(max_examples=60, deadline=None)
def test_the_interval_holds_the_ratio(old: list[float], new: list[float]) -> None:
    """The figure that is shown lies in the interval that is shown."""
    change = change_of(old, new)
    assert change.speed is not None
    assert change.interval is not None
    assert change.interval.low * (1 - 1e-9) <= change.speed <= change.interval.high * (1 + 1e-9)


@given(TIMES, TIMES)
@settings(max_examples=60, deadline=None)
def test_the_other_way_round(old: list[float], new: list[float]) -> None:
    """With the runs exchanged the ratio is the inverse one, and what was faster is slower."""
    there, back = change_of(old, new), change_of(new, old)
    assert there.speed is not None
    assert back.speed == pytest.approx(1 / there.speed)
    assert there.interval is not None
    assert back.interval is not None
    assert back.interval.low == pytest.approx(1 / there.interval.high)
    # The band of "the same" is 5 % on either side, and 1 / 1.05 is not 0.95.
    if "same" not in (there.answer, back.answer):
        assert back.answer == OPPOSITE[there.answer]


@given(TIMES)
@settings(max_examples=60, deadline=None)
def test_a_run_is_not_faster_than_itself(times: list[float]) -> None:
    """Nor slower, however wild it was."""
    change = change_of(times, times)
    assert change.speed == 1.0
    assert change.answer in ("same", "undecided")


@given(TIMES, TIMES, FACTORS)
@settings(max_examples=60, deadline=None)
def test_units_do_not_matter(old: list[float], new: list[float], factor: float) -> None:
    """Both runs measured in another unit of time: the same interval."""
    plain = speed_interval(old, new)
    scaled = speed_interval([one * factor for one in old], [one * factor for one in new])
    assert scaled.low == pytest.approx(plain.low)
    assert scaled.high == pytest.approx(plain.high)


@given(TIMES, FACTORS)
@settings(max_examples=60, deadline=None)
def test_the_weather_of_the_device_is_no_change(times: list[float], factor: float) -> None:
    """The device moves less and the same code takes longer by as much: never slower; the other way, never faster."""
    change = change_of(times, [one * factor for one in times], new_ruler=1e12 / factor)
    assert change.answer in ("same", "undecided")
    assert not change.is_slower_by(0.05)
    assert change.speed_at_same_bandwidth == pytest.approx(1.0)


@given(TIMES, st.floats(1.2, 10.0), FACTORS)
@settings(max_examples=60, deadline=None)
def test_a_slower_step_never_is_faster(times: list[float], factor: float, weather: float) -> None:
    """Whatever the device did meanwhile."""
    change = change_of(times, [one * factor * weather for one in times], new_ruler=1e12 / weather)
    assert change.answer != "faster"


@pytest.mark.parametrize("count", [LEAST_SAMPLES, 12, 40])
def test_noise_is_rarely_called_a_change(count: int) -> None:
    """The same distribution twice, with heavy tails, a thousand times: under 5 % are called faster or slower."""
    noise = random.Random(count)

    def run() -> list[float]:
        return [1e-3 * (1 + noise.paretovariate(1.5)) for _ in range(count)]

    intervals = [speed_interval(run(), run()) for _ in range(1000)]
    wrong = sum(not interval.low <= 1 <= interval.high for interval in intervals)
    assert wrong < 50
