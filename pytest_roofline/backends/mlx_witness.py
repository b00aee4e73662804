"""The witness of MLX, whose arrays can be written through their handles: `array[...] = value`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_roofline.backends.array_figures import HostArray, difference
from pytest_roofline.checks.attempts import Overwritten, Tampered
from pytest_roofline.witness import Difference, Rerun

COPIES_BYTES = 2**27


class MlxWitness:
    """`arrays` walks through an object and gives every MLX array in it."""

    def __init__(self, mx: Any, arrays: Callable[[Any], Iterator[Any]]) -> None:
        self._mx = mx
        self._arrays = arrays

    def copies(self, output: Any) -> list[HostArray]:
        """Copies on the host, up to 128 MiB."""
        import numpy

        mx, left, copied = self._mx, COPIES_BYTES, []
        for array in self._arrays(output):
            left -= array.nbytes
            if left < 0:
                break
            is_float = bool(mx.issubdtype(array.dtype, mx.floating))
            values = numpy.array(array.astype(mx.float32) if is_float else array)
            copied.append(
                HostArray(
                    values=values.astype("float64") if is_float else values,
                    dtype=str(array.dtype).rpartition(".")[2],
                    epsilon=float(mx.finfo(array.dtype).eps) if is_float else 0.0,
                )
            )
        return copied

    def size_bytes(self, obj: Any) -> float:
        """Bytes of its arrays."""
        return float(sum(array.nbytes for array in self._arrays(obj)))

    def difference(self, left: list[HostArray], right: list[HostArray]) -> Difference:
        """See `array_figures.difference`."""
        return difference(left, right)

    def overwritten(self, rerun: Rerun) -> Overwritten:
        """A pass; where it returns the handles of the pass before, one on overwritten ones.

        What a pass reads cannot be seen here, so nothing is overwritten unless a reset undoes what may come of it.
        """
        before = {id(array) for array in self._floating(rerun.latest)}
        leaves = list(self._floating(self._run(rerun)))
        if not leaves:
            return Overwritten(fate="unknown", reason="no floating output was returned")
        if any(id(array) not in before for array in leaves):
            return Overwritten(fate="renewed", arrays=len(leaves))
        theirs = {id(array) for root in (rerun.args, rerun.model, *rerun.held) for array in self._arrays(root)}
        leaves = [array for array in leaves if id(array) not in theirs]
        if not leaves:
            return Overwritten(fate="unknown", reason="what was returned are parameters, arguments or held arrays")
        if not rerun.is_harmless:
            return Overwritten(
                fate="unknown", reason="the step may read what it returns, and nothing undoes that: give reset="
            )
        value = random.SystemRandom().uniform(0.3, 0.7)
        saved = [self._mx.array(array) for array in leaves]
        try:
            for array in leaves:
                array[...] = value
            self._mx.eval(leaves)
            returned = {id(array) for array in self._floating(self._run(rerun))}
            is_kept = all(
                id(array) in returned and bool((array == self._mx.array(value, array.dtype)).all()) for array in leaves
            )
        finally:
            for array, copy in zip(leaves, saved, strict=True):
                array[...] = copy
            self._mx.eval(leaves)
        return Overwritten(
            fate="untouched" if is_kept else "renewed",
            arrays=len(leaves),
            size_bytes=float(sum(array.nbytes for array in leaves)),
            is_made_by_step=is_kept,  # nothing that the step was given or holds, so it was made in it
        )

    def places_of(self, output: Any, arguments: Any) -> frozenset[int]:
        """By identity."""
        returned = {id(array) for array in self._arrays(output)}
        return frozenset(at for at, array in enumerate(self._arrays(arguments)) if id(array) in returned)

    @contextmanager
    def refilled(self, arguments: Any, others: Any, skip: frozenset[int]) -> Iterator[int]:
        """None: which other handles share the memory of an argument is not known."""
        yield 0

    @contextmanager
    def restored(self, arguments: Any) -> Iterator[None]:
        """Nothing: a pass that writes its arguments makes new memory for them."""
        yield

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step as it is."""
        return step

    def tampered(self, rerun: Rerun) -> Tampered:
        """Not possible."""
        return Tampered(reason="MLX does not show which weights a pass reads: give reference=")

    def _run(self, rerun: Rerun) -> Any:
        output = rerun.run()
        self._mx.eval(list(self._arrays(output)))
        return output

    def _floating(self, output: Any) -> Iterator[Any]:
        mx = self._mx
        return (array for array in self._arrays(output) if mx.issubdtype(array.dtype, mx.floating) and array.size)
