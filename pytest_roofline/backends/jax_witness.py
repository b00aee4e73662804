"""The witness of JAX, whose arrays never change: a pass that returns the very array of the pass before made nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_roofline.backends.array_figures import HostArray, difference
from pytest_roofline.checks.attempts import Overwritten, Tampered
from pytest_roofline.witness import Difference, Rerun

COPIES_BYTES = 2**27


class JaxWitness:
    """`arrays` walks through an object and gives every JAX array in it."""

    def __init__(self, jax: Any, arrays: Callable[[Any], Iterator[Any]]) -> None:
        self._jax = jax
        self._arrays = arrays

    def copies(self, output: Any) -> list[HostArray]:
        """Copies on the host; deleted, extended and far-away arrays are left out, and what exceeds 128 MiB."""
        jnp, left, copied = self._jax.numpy, COPIES_BYTES, []
        for array in self._arrays(output):
            if self._is_gone(array) or not array.is_fully_addressable:
                continue
            if self._jax.dtypes.issubdtype(array.dtype, self._jax.dtypes.extended):
                continue
            left -= array.nbytes
            if left < 0:
                break
            is_float = bool(jnp.issubdtype(array.dtype, jnp.floating))
            # A copy on the device first: a view in host memory would keep the buffer from being donated.
            values = self._jax.device_get(jnp.copy(array))
            copied.append(
                HostArray(
                    values=values.astype("float64") if is_float else values,
                    dtype=str(array.dtype),
                    epsilon=float(jnp.finfo(array.dtype).eps) if is_float else 0.0,
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
        """One pass: are its floating arrays those of the pass before? Nothing is overwritten, for nothing can be."""
        before = {id(array) for array in self._floating(rerun.latest)}
        leaves = list(self._floating(rerun.run()))
        if not leaves:
            return Overwritten(fate="unknown", reason="no floating output was returned")
        if any(id(array) not in before for array in leaves):
            return Overwritten(fate="renewed", arrays=len(leaves))
        theirs = {id(array) for root in (rerun.args, rerun.model, *rerun.held) for array in self._arrays(root)}
        leaves = [array for array in leaves if id(array) not in theirs]
        if not leaves:
            return Overwritten(fate="unknown", reason="what was returned are parameters, arguments or held arrays")
        first = {id(array) for array in self._arrays(rerun.first)}
        return Overwritten(
            fate="untouched",
            arrays=len(leaves),
            size_bytes=float(sum(array.nbytes for array in leaves)),
            is_made_by_step=rerun.is_first_closed or any(id(array) not in first for array in leaves),
        )

    def places_of(self, output: Any, arguments: Any) -> frozenset[int]:
        """By identity."""
        returned = {id(array) for array in self._arrays(output)}
        return frozenset(at for at, array in enumerate(self._arrays(arguments)) if id(array) in returned)

    @contextmanager
    def refilled(self, arguments: Any, others: Any, skip: frozenset[int]) -> Iterator[int]:
        """None: arrays cannot be written."""
        yield 0

    @contextmanager
    def restored(self, arguments: Any) -> Iterator[None]:
        """Nothing to restore: arrays cannot be written."""
        yield

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step as it is."""
        return step

    def tampered(self, rerun: Rerun) -> Tampered:
        """Not possible."""
        return Tampered(reason="the arrays of JAX cannot be changed in place: give reference=")

    def _floating(self, output: Any) -> Iterator[Any]:
        jnp = self._jax.numpy
        for array in self._arrays(output):
            if not self._is_gone(array) and jnp.issubdtype(array.dtype, jnp.floating) and array.size:
                yield array

    def _is_gone(self, array: Any) -> bool:
        return isinstance(array, self._jax.core.Tracer) or bool(array.is_deleted())
