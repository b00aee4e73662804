"""When is a measurement over, and what may be concluded? Three verbs: add, finished, interval.

The default stops as soon as the interval of the fraction clears the budget on either side, or is narrow enough where
no budget is known. It never takes the best sample and never starts again.
"""

from __future__ import annotations

from pytest_roofline.roofline import Interval
from pytest_roofline.samples import enough_samples, median, median_interval

EARLY_CONFIDENCE = 0.99
"""Looking after every sample and stopping at the first clear one needs a stricter interval than one look."""
LEAST_SAMPLES = 8
NARROW = 0.02
MOST_SAMPLES = 200


class UntilDecided:
    """Add fractions until their median's interval clears `at_least` (and `at_most`), or is within 2 %."""

    def __init__(self, at_least: float | None = None, at_most: float | None = None) -> None:
        self._budgets = [budget for budget in (at_least, at_most) if budget is not None]
        self._fractions: list[float] = []

    def add(self, fraction: float) -> None:
        """Take one more sample; none is ever thrown away."""
        self._fractions.append(fraction)

    def is_finished(self) -> bool:
        """Whether more samples would not change what can be said."""
        count = len(self._fractions)
        if count >= MOST_SAMPLES:
            return True
        if count < LEAST_SAMPLES or not enough_samples(count, EARLY_CONFIDENCE):
            return False
        interval = median_interval(self._fractions, EARLY_CONFIDENCE)
        if self._budgets:
            return all(interval.clears(budget) is not None for budget in self._budgets)
        return interval.high - interval.low <= 2 * NARROW * median(self._fractions)

    def interval(self) -> Interval | None:
        """Where the median lies, with 95 % confidence; None before the first sample."""
        return median_interval(self._fractions) if self._fractions else None
