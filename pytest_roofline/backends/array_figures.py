"""Figures of two arrays held against each other, on the host: for frameworks whose arrays numpy can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.witness import Difference, PairFigures, difference_of, obstacle_between


@dataclass(frozen=True, slots=True, kw_only=True)
class HostArray:
    """A copy of an array: floating ones as float64, with the name and the epsilon of what they were."""

    values: Any
    dtype: str
    epsilon: float
    """0 for integers."""


def difference(left: Sequence[HostArray], right: Sequence[HostArray]) -> Difference:
    """Floating arrays one by one, in order; the coarsest dtype gives the epsilon."""
    floats = [[array for array in side if array.epsilon] for side in (left, right)]
    obstacle = obstacle_between((a.values.shape for a in floats[0]), (a.values.shape for a in floats[1]))
    if obstacle:
        return Difference(obstacle=obstacle)
    pairs = [_figures(one.values, other.values) for one, other in zip(*floats, strict=True) if one.values.size]
    ids = [[array.values for array in side if not array.epsilon] for side in (left, right)]
    count = differing = 0
    if len(ids[0]) == len(ids[1]):
        for one, other in zip(*ids, strict=True):
            if one.size == other.size:
                count += int(one.size)
                differing += int((one.reshape(-1) != other.reshape(-1)).sum())
    coarsest = max((array for side in floats for array in side), key=lambda array: array.epsilon, default=None)
    return difference_of(
        pairs,
        dtype=coarsest.dtype if coarsest else "",
        epsilon=coarsest.epsilon if coarsest else 0.0,
        ids=count,
        ids_differing=differing,
    )


def _figures(left: Any, right: Any) -> PairFigures:
    import numpy

    one, other = left.reshape(-1), right.reshape(-1)
    finite = numpy.isfinite(one) & numpy.isfinite(other)
    same_stray = bool(numpy.array_equal(one[~finite], other[~finite], equal_nan=True))
    errors, sizes = numpy.abs(one[finite] - other[finite]), other[finite]
    last = right.shape[-1] if right.ndim else 1
    is_choice_same = last <= 1 or bool((one.reshape(-1, last).argmax(-1) == other.reshape(-1, last).argmax(-1)).all())
    return PairFigures(
        elements=int(one.size),
        is_identical=same_stray and not errors.any(),
        is_constant=bool(numpy.array_equal(other, numpy.full_like(other, other[0]), equal_nan=True)),
        error_squares=float((errors**2).sum()),
        squares=float((sizes**2).sum()),
        largest_error=float(errors.max()) if errors.size else 0.0,
        has_stray_infinity=not same_stray,
        is_choice_same=is_choice_same,
    )
