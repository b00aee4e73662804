"""The witness of MLX, whose arrays can be written through their handles: `array[...] = value`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from pytest_roofline.backends.array_figures import HostArray
from pytest_roofline.backends.array_witness import ArrayWitness
from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.witness import Rerun


class MlxWitness(ArrayWitness):
    """What a pass reads cannot be seen here, so nothing is overwritten unless a reset undoes what may come of it."""

    why_no_tamper = "MLX does not show which weights a pass reads: give reference="

    def __init__(self, mx: Any, arrays: Callable[[Any], Iterator[Any]]) -> None:
        super().__init__(arrays)
        self._mx = mx

    def _is_readable(self, array: Any) -> bool:
        return True

    def _is_floating(self, array: Any) -> bool:
        return bool(self._mx.issubdtype(array.dtype, self._mx.floating))

    def _on_host(self, array: Any) -> HostArray:
        import numpy

        mx, is_float = self._mx, self._is_floating(array)
        values = numpy.array(array.astype(mx.float32) if is_float else array)
        return HostArray(
            values=values.astype("float64") if is_float else values,
            dtype=str(array.dtype).rpartition(".")[2],
            epsilon=float(mx.finfo(array.dtype).eps) if is_float else 0.0,
        )

    def _run(self, rerun: Rerun) -> Any:
        output = rerun.run()
        self._mx.eval(list(self._arrays(output)))
        return output

    def _judge_old(self, rerun: Rerun, leaves: list[Any]) -> Overwritten:
        """Overwrite them, run a pass, look, and put back what they held."""
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
