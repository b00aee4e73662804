"""What the witnesses of JAX and MLX have in common: frameworks whose arrays stand for values, not for memory.

Which handles share memory is not shown there, and nothing that was given to a step can be written under its hands. So
arrays are told apart by identity, arguments are never refilled, and no weight is tampered with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_roofline.backends.array_figures import HostArray, difference
from pytest_roofline.checks.attempts import Overwritten, Tampered
from pytest_roofline.witness import Difference, Rerun

COPIES_BYTES = 2**27
"""Copies that are made of one output."""


class ArrayWitness(ABC):
    """`arrays` walks through an object and gives every array of the framework in it."""

    why_no_tamper = ""

    def __init__(self, arrays: Callable[[Any], Iterator[Any]]) -> None:
        self._arrays = arrays

    # -- of each framework --

    @abstractmethod
    def _is_readable(self, array: Any) -> bool:
        """Whether it has a value that can be brought to this host."""

    @abstractmethod
    def _is_floating(self, array: Any) -> bool:
        """Whether its values are of a floating dtype."""

    @abstractmethod
    def _on_host(self, array: Any) -> HostArray:
        """A copy that no later pass can change."""

    def _run(self, rerun: Rerun) -> Any:
        """One pass, run to its end."""
        return rerun.run()

    @abstractmethod
    def _judge_old(self, rerun: Rerun, leaves: list[Any]) -> Overwritten:
        """A pass returned these arrays of the pass before, which it was not given: was their value made anew?"""

    # -- in common --

    def copies(self, output: Any) -> list[HostArray]:
        """Copies on the host, of arrays that have a value here, up to 128 MiB."""
        left, copied = COPIES_BYTES, []
        for array in self._arrays(output):
            if not self._is_readable(array):
                continue
            left -= array.nbytes
            if left < 0:
                break
            copied.append(self._on_host(array))
        return copied

    def size_bytes(self, obj: Any) -> float:
        """Bytes of its arrays."""
        return float(sum(array.nbytes for array in self._arrays(obj)))

    def difference(self, left: list[HostArray], right: list[HostArray]) -> Difference:
        """See `array_figures.difference`."""
        return difference(left, right)

    def overwritten(self, rerun: Rerun) -> Overwritten:
        """One pass: are its floating arrays those of the pass before? Only then is there anything to look into."""
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
        return self._judge_old(rerun, leaves)

    def places_of(self, output: Any, arguments: Any) -> frozenset[int]:
        """By identity."""
        returned = {id(array) for array in self._arrays(output)}
        return frozenset(at for at, array in enumerate(self._arrays(arguments)) if id(array) in returned)

    @contextmanager
    def refilled(self, arguments: Any, others: Any, skip: frozenset[int]) -> Iterator[int]:
        """None: arrays cannot be written, or which other handles share their memory is not known."""
        yield 0

    @contextmanager
    def restored(self, arguments: Any) -> Iterator[None]:
        """Nothing to restore: a pass that changes its arguments makes new memory for them."""
        yield

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step as it is."""
        return step

    def tampered(self, rerun: Rerun) -> Tampered:
        """Not possible."""
        return Tampered(reason=self.why_no_tamper)

    def _floating(self, output: Any) -> Iterator[Any]:
        return (array for array in self._arrays(output) if self._is_floating(array) and array.size)
