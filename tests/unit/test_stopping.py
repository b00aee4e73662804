"""When a measurement is over."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pytest_roofline.stopping import LEAST_SAMPLES, MOST_SAMPLES, UntilDecided


def feed(criterion: UntilDecided, fractions: Iterable[float]) -> int:
    """Add until it is finished; how many that took."""
    count = 0
    for fraction in fractions:
        criterion.add(fraction)
        count += 1
        if criterion.is_finished():
            break
    return count


def test_nothing_is_known_before_the_first_sample() -> None:
    """No interval, and not finished."""
    criterion = UntilDecided()
    assert criterion.interval() is None
    assert not criterion.is_finished()


def test_a_clear_result_stops_at_the_least_count() -> None:
    """Far above or far below the budget, eight samples are enough, and fewer are not."""
    assert feed(UntilDecided(0.6), [0.8] * 50) == LEAST_SAMPLES
    assert feed(UntilDecided(0.6), [0.2] * 50) == LEAST_SAMPLES


def test_a_budget_inside_the_interval_goes_on() -> None:
    """Samples on both sides of the budget never decide, until there are 200."""
    assert feed(UntilDecided(0.6), [0.5, 0.7] * 500) == MOST_SAMPLES


def test_both_budgets_must_be_clear() -> None:
    """With at_most inside the interval it goes on though at_least is clear."""
    assert feed(UntilDecided(0.2, 0.6), [0.5, 0.7] * 500) == MOST_SAMPLES
    assert feed(UntilDecided(0.2, 0.6), [0.4] * 50) == LEAST_SAMPLES


def test_without_a_budget_it_stops_when_the_interval_is_narrow() -> None:
    """Within 2 % at once; wide noise needs more samples; endless noise ends at the most."""
    assert feed(UntilDecided(), [0.79, 0.81] * 50) == LEAST_SAMPLES
    wide = feed(UntilDecided(), [0.7, 0.8, 0.8, 0.8, 0.9] * 100)
    assert LEAST_SAMPLES < wide < MOST_SAMPLES
    assert feed(UntilDecided(), [0.1, 0.9] * 500) == MOST_SAMPLES


def test_endless_fractions_do_not_decide() -> None:
    """A slope of zero gives an infinite fraction: no interval of those is narrow."""
    assert feed(UntilDecided(), [math.inf] * 500) == MOST_SAMPLES


def test_the_interval_holds_every_sample() -> None:
    """None is thrown away: the interval is that of the median of all."""
    criterion = UntilDecided(0.5)
    for fraction in (0.1, 0.2, 0.9):
        criterion.add(fraction)
    interval = criterion.interval()
    assert interval is not None
    assert (interval.low, interval.high) == (0.1, 0.9)
