"""When is a measurement over, and what may be concluded? A criterion has three verbs: add, is_finished, decide.

Criteria go by name (`CRITERIA`, ``--roofline-stopping``), some with a figure behind a colon:

    decided         until the interval of the fraction clears the budget on either side; without a budget as `precision`
    precision:0.02  until the interval is within this part of the median on either side, whatever is asked for
    fixed:30        after so many samples

None of them takes the best sample, throws one away or starts again, and none of them decides about a result: it says
where the median lies, and the court does the rest. Time that runs out ends every one of them early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from types import MappingProxyType
from typing import Protocol

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import median, median_interval, sequential_cut, sequential_interval

ERROR = 0.005
"""Chance that the interval ever leaves out the true median on one side, all looks together."""
SHARE = ERROR / 2
"""Half of it is for the looks after every sample, half for one more when time or room is over.

The last look is the only one that a measurement of few samples gets: an interval that may be looked at after every one
of them cuts none of 16, a plain one cuts one of 13, and so one wild sample keeps no slow step undecided.
"""
LEAST_SAMPLES = next(count for count in range(1, 100) if sequential_cut(count, SHARE) is not None)
"""The first look that can end anything."""
PRECISION = 0.02
FIXED_SAMPLES = 30
MOST_SAMPLES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the samples carry so far."""

    interval: Interval | None
    """Where the median of the fraction lies; None before the first sample."""
    is_reached: bool
    """Whether the criterion got what it waited for, rather than ran out of samples."""


class Criterion(Protocol):
    """Three verbs. `add` takes every sample there is, in order."""

    def add(self, fraction: float) -> None:
        """Take one more sample; none is ever thrown away."""
        ...

    def is_finished(self) -> bool:
        """Whether more samples would not change what can be said."""
        ...

    def decide(self) -> Decision:
        """What can be said now: after `is_finished`, or when time or room is over before that."""
        ...


Allowances = Callable[[Interval], Interval]


def _nothing(interval: Interval) -> Interval:
    return interval


class UntilDecided:
    """Until the median's interval clears `at_least` (and `at_most`); without either, until it is within `precision`.

    The interval is one that may be looked at after every sample (`sequential_interval`), so stopping at the first
    clear one does not raise the chance of being wrong. When time or room is over before that, one plain look at all of
    them is the last. Together they are wrong in 0.5 % of cases on either side, where the true median is the budget.

    `allowed_for` gives, for an interval of the samples, where the fraction may lie with all that the court allows for.
    That has to clear a budget, unless no number of samples could make it.
    """

    def __init__(
        self,
        at_least: float | None = None,
        at_most: float | None = None,
        precision: float = PRECISION,
        allowed_for: Allowances = _nothing,
    ) -> None:
        self._budgets = [budget for budget in (at_least, at_most) if budget is not None]
        self._precision = precision
        self._allowed_for = allowed_for
        self._fractions: list[float] = []

    def add(self, fraction: float) -> None:
        """Take one more sample; none is ever thrown away."""
        self._fractions.append(fraction)

    def is_finished(self) -> bool:
        """Whether more samples would not change what can be said, or there are 200 of them."""
        return len(self._fractions) >= MOST_SAMPLES or self._is_reached()

    def decide(self) -> Decision:
        """The interval, and whether it clears what it is held against."""
        if not self._fractions:
            return Decision(interval=None, is_reached=False)
        if self._is_reached():
            return Decision(interval=sequential_interval(self._fractions, SHARE), is_reached=True)
        last = median_interval(self._fractions, 1 - 2 * SHARE)
        return Decision(interval=last, is_reached=len(self._fractions) >= LEAST_SAMPLES and self._is_clear(last))

    def _is_reached(self) -> bool:
        if sequential_cut(len(self._fractions), SHARE) is None:
            return False
        return self._is_clear(sequential_interval(self._fractions, SHARE))

    def _is_clear(self, interval: Interval) -> bool:
        middle = median(self._fractions)
        if self._budgets:
            exact = self._allowed_for(Interval(low=middle, high=middle))
            allowed = self._allowed_for(interval)
            return all(
                (interval if exact.clears(budget) is None else allowed).clears(budget) is not None
                for budget in self._budgets
            )
        return middle < inf and max(interval.high - middle, middle - interval.low) <= self._precision * middle


class FixedCount:
    """After so many samples, whatever they are; one look at the end, so a plain interval of 99 % does."""

    def __init__(self, count: int = FIXED_SAMPLES) -> None:
        self._count = count
        self._fractions: list[float] = []

    def add(self, fraction: float) -> None:
        """Take one more sample; none is ever thrown away."""
        self._fractions.append(fraction)

    def is_finished(self) -> bool:
        """Whether there are that many."""
        return len(self._fractions) >= self._count

    def decide(self) -> Decision:
        """The interval of all of them."""
        if not self._fractions:
            return Decision(interval=None, is_reached=False)
        return Decision(interval=median_interval(self._fractions, 1 - 2 * ERROR), is_reached=self.is_finished())


Factory = Callable[[float | None, float | None, float | None, Allowances], Criterion]
"""``factory(at_least, at_most, figure, allowed_for)``; `figure` is what stands behind the colon, None without one."""


def _decided(
    at_least: float | None, at_most: float | None, _figure: float | None, allowed_for: Allowances
) -> Criterion:
    return UntilDecided(at_least, at_most, allowed_for=allowed_for)


def _precise(
    _at_least: float | None, _at_most: float | None, figure: float | None, _allowed_for: Allowances
) -> Criterion:
    return UntilDecided(precision=PRECISION if figure is None else figure)


def _fixed(
    _at_least: float | None, _at_most: float | None, figure: float | None, _allowed_for: Allowances
) -> Criterion:
    return FixedCount(FIXED_SAMPLES if figure is None else int(figure))


CRITERIA: Mapping[str, Factory] = MappingProxyType({"decided": _decided, "precision": _precise, "fixed": _fixed})
"""Every criterion by its name."""
DEFAULT = "decided"


def parse_stopping(value: object, where: str) -> tuple[str, float | None]:
    """Name and figure of a criterion from its text; an unknown name or a figure that makes no sense is an error."""
    name, colon, text = str(value).strip().partition(":")
    if name not in CRITERIA:
        near = get_close_matches(name, CRITERIA, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise RooflineUsageError(
            f"{where}: no stopping criterion is named {name!r}; {hint}known: {', '.join(CRITERIA)}"
        )
    if not colon:
        return name, None
    try:
        figure = float(text)
    except ValueError:
        figure = -1.0
    if name == "precision" and 0 < figure < 1:
        return name, figure
    if name == "fixed" and 1 <= figure <= 1_000_000 and figure == int(figure):
        return name, figure
    expected = {
        "precision": "precision:0.02 is within 2 % (a number above 0 and under 1)",
        "fixed": "fixed:30 is 30 samples (a whole number, 1 or more)",
    }.get(name, f"{name} takes no figure")
    raise RooflineUsageError(f"{where}: {value!r} is no stopping criterion: {expected}")


def checked_stopping(value: object, where: str) -> str:
    """The text, if it names a criterion; RooflineUsageError otherwise."""
    parse_stopping(value, where)
    return str(value).strip()


def criterion_named(
    text: str, at_least: float | None = None, at_most: float | None = None, allowed_for: Allowances = _nothing
) -> Criterion:
    """A fresh criterion by its name, for a result with these budgets; RooflineUsageError for an unknown name."""
    name, figure = parse_stopping(text, "stopping")
    return CRITERIA[name](at_least, at_most, figure, allowed_for)
