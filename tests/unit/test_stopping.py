"""When a measurement is over, by each criterion."""

from __future__ import annotations

import math
from collections.abc import Iterable
from random import Random

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval
from pytest_roofline.stopping import (
    CRITERIA,
    DEFAULT,
    ERROR,
    FIXED_SAMPLES,
    LEAST_SAMPLES,
    MOST_SAMPLES,
    Criterion,
    FixedCount,
    UntilDecided,
    checked_stopping,
    criterion_named,
    parse_stopping,
)


def feed(criterion: Criterion, fractions: Iterable[float]) -> int:
    """Add until it is finished; how many that took."""
    count = 0
    for fraction in fractions:
        criterion.add(fraction)
        count += 1
        if criterion.is_finished():
            break
    return count


@pytest.mark.parametrize("name", CRITERIA)
def test_nothing_is_known_before_the_first_sample(name: str) -> None:
    """No interval, and not finished."""
    criterion = criterion_named(name, 0.5)
    assert criterion.decide().interval is None
    assert not criterion.decide().is_reached
    assert not criterion.is_finished()


@pytest.mark.parametrize("name", CRITERIA)
def test_no_criterion_drops_a_sample(name: str) -> None:
    """The interval is that of all of them: the lowest and the highest bound it until one may be cut."""
    criterion = criterion_named(name, 0.5)
    for fraction in (0.1, 0.2, 0.9):
        criterion.add(fraction)
    interval = criterion.decide().interval
    assert interval is not None
    assert (interval.low, interval.high) == (0.1, 0.9)


# -- decided


def test_a_clear_result_stops_at_the_least_count() -> None:
    """Far above or far below the budget, ten samples are enough, and fewer are not."""
    assert LEAST_SAMPLES == 10
    assert feed(UntilDecided(0.6), [0.8] * 50) == LEAST_SAMPLES
    assert feed(UntilDecided(0.6), [0.2] * 50) == LEAST_SAMPLES


def test_one_sample_on_the_wrong_side_asks_for_more() -> None:
    """Sixteen others outweigh it; it is not left out, and it does not start anything again."""
    assert feed(UntilDecided(0.6), [0.8, 0.8, 0.5, *[0.8] * 50]) == 17


@pytest.mark.parametrize(("count", "is_reached"), [(12, False), (13, True)])
def test_the_last_look_cuts_one_wild_sample_of_thirteen(count: int, is_reached: bool) -> None:
    """When time is over nobody looks again, so a plain interval does: it outweighs one sample of 13, and none of 12."""
    criterion = UntilDecided(0.6)
    assert feed(criterion, [math.inf, *[0.3] * (count - 1)]) == count
    decision = criterion.decide()
    assert decision.is_reached is is_reached
    assert decision.interval is not None
    assert decision.interval.high == (0.3 if is_reached else math.inf)


def test_a_budget_inside_the_interval_goes_on() -> None:
    """Samples on both sides of the budget never decide, until there are 200."""
    criterion = UntilDecided(0.6)
    assert feed(criterion, [0.5, 0.7] * 500) == MOST_SAMPLES
    assert not criterion.decide().is_reached


def test_both_budgets_must_be_clear() -> None:
    """With at_most inside the interval it goes on though at_least is clear."""
    assert feed(UntilDecided(0.2, 0.6), [0.5, 0.7] * 500) == MOST_SAMPLES
    assert feed(UntilDecided(0.2, 0.6), [0.4] * 50) == LEAST_SAMPLES


def test_endless_fractions_do_not_decide() -> None:
    """A slope of zero gives an infinite fraction: no interval of those is narrow."""
    assert feed(UntilDecided(), [math.inf] * 500) == MOST_SAMPLES


def test_looking_after_every_sample_does_not_raise_the_error() -> None:
    """The worst case: the true median *is* the budget. Of 2,000 runs at most one in a hundred ends with a verdict.

    How far the samples scatter makes no difference: only on which side each of them lies.
    """
    random = Random(7)
    wrong = 0
    for _ in range(2000):
        criterion = UntilDecided(0.6)
        feed(criterion, (0.6 * math.exp(random.gauss(0.0, 0.3)) for _ in range(MOST_SAMPLES)))
        wrong += criterion.decide().is_reached
    assert wrong / 2000 <= 2 * ERROR


def test_what_the_court_allows_for_has_to_clear_too() -> None:
    """Clear by the samples, open by what a cache may have done: a narrower interval decides it, so it goes on."""

    def half_from_cache(interval: Interval) -> Interval:
        return Interval(low=interval.low / 2, high=interval.high)

    fractions = [0.9, *[1.4] * 60]
    assert feed(UntilDecided(0.6), fractions) == LEAST_SAMPLES
    assert feed(UntilDecided(0.6, allowed_for=half_from_cache), fractions) == 17
    hopeless = [0.9] * 60  # no number of samples clears it: the samples alone decide when to stop
    assert feed(UntilDecided(0.6, allowed_for=half_from_cache), hopeless) == LEAST_SAMPLES


# -- precision


def test_without_a_budget_it_stops_when_the_interval_is_narrow() -> None:
    """Within 2 % at once; wide noise needs more samples; endless noise ends at the most."""
    assert feed(UntilDecided(), [0.79, 0.80, 0.81] * 50) == LEAST_SAMPLES
    wide = feed(UntilDecided(), [0.7, 0.8, 0.8, 0.8, 0.9] * 100)
    assert LEAST_SAMPLES < wide < MOST_SAMPLES
    assert feed(UntilDecided(), [0.1, 0.9] * 500) == MOST_SAMPLES


def test_precision_ignores_the_budget() -> None:
    """A clear result goes on until the figure itself is known well enough."""
    fractions = [0.7, 0.8, 0.8, 0.8, 0.9] * 100
    assert feed(criterion_named("decided", 0.2), fractions) == LEAST_SAMPLES
    assert feed(criterion_named("precision", 0.2), fractions) == feed(UntilDecided(), fractions) > LEAST_SAMPLES
    assert feed(criterion_named("precision:0.2", 0.2), fractions) == LEAST_SAMPLES


# -- fixed


def test_a_fixed_count_stops_there() -> None:
    """Neither sooner nor later, and its interval is that of a single look."""
    assert feed(criterion_named("fixed", 0.2), [0.8] * 500) == FIXED_SAMPLES
    criterion = FixedCount(12)
    assert feed(criterion, [0.1, *[0.8] * 500]) == 12
    interval = criterion.decide().interval
    assert interval is not None
    assert (interval.low, interval.high) == (0.8, 0.8)
    assert criterion.decide().is_reached


# -- names


def test_names_are_read() -> None:
    """With a figure where one makes sense."""
    assert parse_stopping(DEFAULT, "here") == ("decided", None)
    assert parse_stopping(" precision:0.05 ", "here") == ("precision", 0.05)
    assert parse_stopping("fixed:12", "here") == ("fixed", 12.0)
    assert checked_stopping(" fixed:12 ", "here") == "fixed:12"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "decidde",
            "here: no stopping criterion is named 'decidde'; did you mean decided? known: decided, precision, fixed",
        ),
        ("", "here: no stopping criterion is named ''; known: decided, precision, fixed"),
        ("decided:3", "here: 'decided:3' is no stopping criterion: decided takes no figure"),
        (
            "precision:2",
            "here: 'precision:2' is no stopping criterion: precision:0.02 is within 2 % (a number above 0 and under 1)",
        ),
        (
            "precision:nan",
            "here: 'precision:nan' is no stopping criterion: precision:0.02 is within 2 % "
            "(a number above 0 and under 1)",
        ),
        (
            "fixed:2.5",
            "here: 'fixed:2.5' is no stopping criterion: fixed:30 is 30 samples (a whole number, 1 or more)",
        ),
        ("fixed:", "here: 'fixed:' is no stopping criterion: fixed:30 is 30 samples (a whole number, 1 or more)"),
    ],
)
def test_a_wrong_name_is_a_usage_error(text: str, message: str) -> None:
    """With the nearest name, or what the figure means."""
    with pytest.raises(RooflineUsageError) as error:
        parse_stopping(text, "here")
    assert str(error.value) == message
