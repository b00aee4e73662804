"""Statistics of few, noisy samples: medians, an interval that needs no distribution, a slope that bursts do not bend.

Contention only ever adds time, and it comes in bursts; so nothing here uses a mean or a standard deviation, and no
sample is thrown away. Pure arithmetic over plain floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval
from pytest_roofline.units import format_fraction


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    if not values:
        raise RooflineUsageError("the median of no samples is not defined")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def between(before: float, after: float) -> float:
    """The harmonic mean of two rates: what both did together, each for the same work. 0 when either is."""
    return 2 / (1 / before + 1 / after) if before > 0 and after > 0 else 0.0


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """An interval that holds the true median with at least this confidence, whatever the distribution.

    From order statistics: the k-th smallest and k-th largest of n samples bracket the median with probability
    ``1 - 2 * P(Binomial(n, 1/2) < k)``. Under 6 samples even the extremes do not reach 95 %; then they are
    returned, and it is for the caller to ask `enough_samples`.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise RooflineUsageError("an interval of no samples is not defined")
    tail = 0.0
    rank = 0  # how many samples may be cut at each end
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if 1 - 2 * tail < confidence:
            break
        rank += 1
    cut = max(0, rank - 1)
    return Interval(low=ordered[cut], high=ordered[count - 1 - cut])


@cache
def sequential_cut(count: int, error: float) -> int | None:
    """How many of `count` samples may be cut at each end when the interval is looked at after *every* sample.

    None while even the extremes cannot be trusted that far. With the cut, the chance that a look, however late, ever
    leaves the true median out on one side is at most `error`, whatever the distribution, for independent samples.

    By Ville's inequality for a bet against "half of the samples lie below m": half of the stake goes on "all of them
    do", half evenly over every share p from 1/2 to 1. With k of n samples below, the second half is worth
    ``2**(n+1) * P(Binomial(n+1, 1/2) <= k) / ((n+1) * C(n, k))`` (Robbins, "Statistical methods related to the law of
    the iterated logarithm", 1970); whoever would win ``1 / error`` by it may stop.
    """
    cut = None
    shares = 2 ** (count + 1) - 1  # outcomes of count + 1 tosses with at most `below` heads
    for wrong in range(count // 2):
        below = count - wrong
        worth = shares / ((count + 1) * math.comb(count, below)) + (2**count if wrong == 0 else 0)
        if worth / 2 < 1 / error:
            break
        cut = wrong
        shares -= math.comb(count + 1, below)
    return cut


def sequential_interval(values: Sequence[float], error: float) -> Interval:
    """The interval of the median that stays true under looking after every sample: see `sequential_cut`.

    Before the first sample at which a look could end anything, the extremes: nobody has looked until then.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise RooflineUsageError("an interval of no samples is not defined")
    cut = sequential_cut(count, error) or 0
    return Interval(low=ordered[cut], high=ordered[count - 1 - cut])


def outliers(values: Sequence[float], distance: float = 5.0) -> list[float]:
    """Values further from the median than so many median absolute deviations, and than 10 % of it; never dropped."""
    if not values:
        return []
    middle = median(values)
    scatter = median([abs(value - middle) for value in values])
    return [value for value in values if abs(value - middle) > max(distance * scatter, 0.1 * abs(middle))]


def outliers_remark(fractions: Sequence[float]) -> str | None:
    """How many samples are outliers, and where they lie; None where none is.

    One is infinite where a block of 2N passes took no longer than the one of N passes beside it.
    """
    far = outliers(fractions)
    if not far:
        return None
    known = sorted(value for value in far if math.isfinite(value))
    shown = [" to ".join(dict.fromkeys(map(format_fraction, (known[0], known[-1]))))] if known else []
    if len(known) < len(far):
        shown.append(f"{len(far) - len(known)} in which 2N passes took no longer than N")
    return f"{len(far)} of {len(fractions)} samples lie far from the median ({', '.join(shown)}); they were kept"


def enough_samples(count: int, confidence: float = 0.95) -> bool:
    """Whether `median_interval` can hold its confidence with this many samples."""
    return count > 0 and 1 - 2 / 2**count >= confidence


def spread(values: Sequence[float]) -> float:
    """Interquartile range over the median: 0 is steady, above about 0.3 is a busy machine."""
    if len(values) < 2:
        return 0.0
    ordered = sorted(values)
    quarter = len(ordered) // 4
    middle = median(ordered)
    return (ordered[len(ordered) - 1 - quarter] - ordered[quarter]) / middle if middle else math.inf


def is_steady(values: Sequence[float], tolerance: float = 0.05) -> bool:
    """Whether a warm-up trend is gone: the last third is no faster than the third before it, within the tolerance.

    Only a trend towards *faster* counts. Slower may be a neighbour, and waiting for neighbours never ends.
    """
    third = len(values) // 3
    if third < 1:
        return False
    last, before = median(values[-third:]), median(values[-2 * third : -third])
    return last >= before * (1 - tolerance)


def robust_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope and intercept of y over x by Theil and Sen: the median of all pairwise slopes.

    Up to 29 % of the points may be arbitrarily wrong. O(n^2) in the number of points.
    """
    slopes = [
        (second_y - first_y) / (second_x - first_x)
        for index, (first_x, first_y) in enumerate(points)
        for second_x, second_y in points[index + 1 :]
        if second_x != first_x
    ]
    if not slopes:
        raise RooflineUsageError("a line needs two points with different x")
    slope = median(slopes)
    return slope, median([y - slope * x for x, y in points])
