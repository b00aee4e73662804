"""The witness of the fake device: which launch wrote an array last, and when, says whether a pass wrote it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_roofline.backends.fake_array import FakeArray, arrays_in
from pytest_roofline.checks.attempts import Overwritten, Tampered
from pytest_roofline.witness import Difference, PairFigures, Rerun, difference_of, obstacle_between

_EPSILON = 2.0**-7


class FakeWitness:
    """Values are compared where the simulation gave the arrays some; arrays without values cannot be."""

    def copies(self, output: Any) -> list[tuple[bool, list[Any]]]:
        """Whether integers, and the values, of every array that has some."""
        return [
            (array.is_int, list(array.value) if isinstance(array.value, (list, tuple)) else [array.value])
            for array in _valued(output)
        ]

    def size_bytes(self, obj: Any) -> float:
        """0: values cost no memory of a device."""
        return 0.0

    def difference(self, left: list[tuple[bool, list[Any]]], right: list[tuple[bool, list[Any]]]) -> Difference:
        """By value, taken for bfloat16."""
        floats = [[values for is_int, values in side if not is_int] for side in (left, right)]
        obstacle = obstacle_between(((len(v),) for v in floats[0]), ((len(v),) for v in floats[1]))
        if obstacle:
            return Difference(obstacle=obstacle)
        pairs = [_figures(one, other) for one, other in zip(*floats, strict=True)]
        ids = [[value for is_int, values in side if is_int for value in values] for side in (left, right)]
        differing = sum(one != other for one, other in zip(*ids, strict=False))
        return difference_of(pairs, dtype="bfloat16", epsilon=_EPSILON, ids=len(ids[1]), ids_differing=differing)

    def overwritten(self, rerun: Rerun) -> Overwritten:
        """One pass: was any floating output written in it?"""
        before = {id(array): _last_write(array) for array in arrays_in(rerun.latest)}
        leaves = [array for array in arrays_in(rerun.run()) if not array.is_int and not array.is_deleted]
        if not leaves:
            return Overwritten(fate="unknown", reason="no floating output was returned")
        if any(before.get(id(array)) != _last_write(array) for array in leaves):
            return Overwritten(fate="renewed", arrays=len(leaves))
        theirs = {id(array) for array in arrays_in(rerun.args)}
        leaves = [array for array in leaves if id(array) not in theirs]
        if not leaves:
            return Overwritten(fate="unknown", reason="what was returned are arguments")
        first = {id(array) for array in arrays_in(rerun.first)}
        return Overwritten(
            fate="wakes-on-nan" if _wakes_on_nan(rerun, leaves) else "untouched",
            arrays=len(leaves),
            size_bytes=float(sum(array.size for array in leaves)),
            is_made_by_step=rerun.is_first_closed or any(id(array) not in first for array in leaves),
        )

    def places_of(self, output: Any, arguments: Any) -> frozenset[int]:
        """By identity."""
        returned = {id(array) for array in arrays_in(output)}
        return frozenset(at for at, array in enumerate(_valued(arguments)) if id(array) in returned)

    @contextmanager
    def refilled(self, arguments: Any, others: Any, skip: frozenset[int]) -> Iterator[int]:
        """Values of arrays with values are swapped in."""
        ours, theirs = ([a for at, a in enumerate(_valued(side)) if at not in skip] for side in (arguments, others))
        if len(ours) != len(theirs) or any(one.size != other.size for one, other in zip(ours, theirs, strict=True)):
            yield 0
            return
        with self.restored(arguments):
            for one, other in zip(ours, theirs, strict=True):
                one.value = other.value
            yield len(ours)

    @contextmanager
    def restored(self, arguments: Any) -> Iterator[None]:
        """Values are put back."""
        saved = [(array, array.value) for array in arrays_in(arguments)]
        try:
            yield
        finally:
            for array, value in saved:
                array.value = value

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step as it is."""
        return step

    def tampered(self, rerun: Rerun) -> Tampered:
        """Not possible."""
        return Tampered(reason="the buffers of a fake device hold no values")


def _wakes_on_nan(rerun: Rerun, leaves: list[FakeArray]) -> bool:
    """Whether a pass writes outputs that hold NaN, having left them alone before; where they have values at all."""
    saved = [(array, array.value, _last_write(array)) for array in leaves if array.value is not None]
    if not saved:
        return False
    try:
        for array, value, _ in saved:
            array.value = [math.nan] * (len(value) if isinstance(value, (list, tuple)) else 1)
        rerun.run()
        return any(_last_write(array) != before for array, _, before in saved)
    finally:
        for array, value, _ in saved:
            array.value = value


def _valued(obj: Any) -> list[FakeArray]:
    return [array for array in arrays_in(obj) if array.value is not None]


def _last_write(array: FakeArray) -> tuple[int, float | None]:
    """A replayed graph writes the same array by the same launch, at another time."""
    return (id(array.launch), array.ready_s)


def _figures(left: list[Any], right: list[Any]) -> PairFigures:
    errors = [abs(float(one) - float(other)) for one, other in zip(left, right, strict=True)]
    return PairFigures(
        elements=len(right),
        is_identical=left == right,
        is_constant=len(set(right)) <= 1,
        error_squares=sum(error**2 for error in errors),
        squares=sum(float(value) ** 2 for value in right),
        largest_error=max(errors, default=0.0),
        is_choice_same=left.index(max(left)) == right.index(max(right)),
    )
