"""The witness of JAX, whose arrays never change: a pass that returns the very array of the pass before made nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pytest_roofline.backends.array_figures import HostArray
from pytest_roofline.backends.array_witness import ArrayWitness
from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.witness import Rerun


class JaxWitness(ArrayWitness):
    """Nothing is ever overwritten, for nothing can be; deleted, extended and far-away arrays are left out of copies."""

    why_no_tamper = "the arrays of JAX cannot be changed in place: give reference="

    def __init__(self, jax: Any, arrays: Callable[[Any], Iterator[Any]]) -> None:
        super().__init__(arrays)
        self._jax = jax

    def _is_readable(self, array: Any) -> bool:
        dtypes = self._jax.dtypes
        is_here = not self._is_gone(array) and array.is_fully_addressable
        return bool(is_here and not dtypes.issubdtype(array.dtype, dtypes.extended))

    def _is_floating(self, array: Any) -> bool:
        numpy = self._jax.numpy
        return not self._is_gone(array) and bool(numpy.issubdtype(array.dtype, numpy.floating))

    def _on_host(self, array: Any) -> HostArray:
        numpy, is_float = self._jax.numpy, self._is_floating(array)
        # A copy on the device first: a view in host memory would keep the buffer from being donated.
        values = self._jax.device_get(numpy.copy(array))
        return HostArray(
            values=values.astype("float64") if is_float else values,
            dtype=str(array.dtype),
            epsilon=float(numpy.finfo(array.dtype).eps) if is_float else 0.0,
        )

    def _judge_old(self, rerun: Rerun, leaves: list[Any]) -> Overwritten:
        first = {id(array) for array in self._arrays(rerun.first)}
        return Overwritten(
            fate="untouched",
            arrays=len(leaves),
            size_bytes=float(sum(array.nbytes for array in leaves)),
            is_made_by_step=rerun.is_first_closed or any(id(array) not in first for array in leaves),
        )

    def _is_gone(self, array: Any) -> bool:
        return isinstance(array, self._jax.core.Tracer) or bool(array.is_deleted())
