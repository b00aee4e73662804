"""Who can tell whether a pass did its work: copies, compares and overwrites the arrays of one framework.

A backend that has a witness offers it by `witness()`; others lack the method, and what a witness would have checked is
listed as not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytest_roofline.checks.attempts import Overwritten, Tampered


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """One more pass of a step that has been measured: how to run it, and what is known of it."""

    run: Callable[[], Any]
    """Runs one pass, untimed, counts it and drains; what it returned."""
    start: Callable[[], object]
    """Brings the state back to the start where the step has a reset; else does nothing."""
    drain: Callable[[], object]
    step: Callable[..., Any]
    args: tuple[Any, ...] = ()
    model: Any = None
    held: Sequence[Any] = ()
    """What the step visibly holds."""
    first: Any = None
    """What the pass returned that was looked at before anything was timed."""
    latest: Any = None
    """What the pass before this one returned."""
    is_first_closed: bool = False
    """The look at that first pass accounts for everything that it returned."""
    expected_bytes: float = 0.0
    """What a pass reads and writes."""
    is_harmless: bool = False
    """Whatever a pass leaves behind is undone by a reset, or there is nothing that a pass could leave."""
    is_stateless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """Two arrays of the same shape, held against each other; sums and maxima over their finite elements."""

    elements: int
    is_identical: bool
    """Bit for bit, and NaN like NaN."""
    is_constant: bool
    """All elements of the second are the same."""
    error_squares: float = 0.0
    squares: float = 0.0
    largest_error: float = 0.0
    has_stray_infinity: bool = False
    """One of them is NaN or infinite where the other is not."""
    is_choice_same: bool = True
    """The largest element of each last row is at the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far the outputs of two passes are apart. Floating arrays give the errors, integers are only counted."""

    elements: int = 0
    is_identical: bool = False
    """Every floating array, bit for bit; False without one."""
    is_constant: bool = False
    rms_error: float = 0.0
    """Relative to the root mean square of the second."""
    largest_error: float = 0.0
    """Likewise."""
    is_choice_same: bool = True
    epsilon: float = 0.0
    dtype: str = ""
    """Of the coarsest array; `epsilon` is its machine epsilon."""
    ids: int = 0
    ids_differing: int = 0
    obstacle: str = ""
    """Why they cannot be compared; empty when they can."""


def difference_of(
    pairs: Sequence[PairFigures], *, dtype: str, epsilon: float, ids: int = 0, ids_differing: int = 0
) -> Difference:
    """Sum the figures of the pairs of floating arrays."""
    elements = sum(pair.elements for pair in pairs)
    scale = math.sqrt(sum(pair.squares for pair in pairs) / elements) if elements else 0.0
    rms = math.sqrt(sum(pair.error_squares for pair in pairs) / elements) if elements else 0.0
    largest = max((pair.largest_error for pair in pairs), default=0.0)
    if any(pair.has_stray_infinity for pair in pairs):
        rms = largest = math.inf
    return Difference(
        elements=elements,
        is_identical=bool(elements) and all(pair.is_identical for pair in pairs),
        is_constant=all(pair.is_constant for pair in pairs),
        rms_error=_relative(rms, scale),
        largest_error=_relative(largest, scale),
        is_choice_same=all(pair.is_choice_same for pair in pairs),
        epsilon=epsilon,
        dtype=dtype,
        ids=ids,
        ids_differing=ids_differing,
    )


def _relative(error: float, scale: float) -> float:
    if error == 0.0:
        return 0.0
    return error / scale if scale > 0 else math.inf


def obstacle_between(left: Iterable[tuple[int, ...]], right: Iterable[tuple[int, ...]]) -> str:
    """Why arrays of these shapes cannot be compared one by one; empty when they can (ones among the sizes apart)."""
    lefts, rights = (
        [tuple(size for size in shape if size != 1) for shape in side] for side in (tuple(left), tuple(right))
    )
    if lefts == rights:
        return ""
    return f"one side returned floating arrays of {_shapes(lefts)}, the other of {_shapes(rights)}"


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    if not shapes:
        return "no shape at all"
    return ", ".join("x".join(map(str, shape)) or "1 element" for shape in shapes[:4])


class Witness(Protocol):
    """What one framework can be asked about the work of a pass."""

    def copies(self, output: Any) -> list[Any]:
        """Copies of the arrays in an output (or in arguments), which no later pass can change; of large ones a sample,
        always of the same elements."""
        ...

    def size_bytes(self, obj: Any) -> float:
        """Bytes of every array in it."""
        ...

    def difference(self, left: list[Any], right: list[Any]) -> Difference:
        """How far two copies are apart; errors are relative to the second."""
        ...

    def overwritten(self, rerun: Rerun) -> Overwritten:
        """Run a pass and see whether its output was written: memory that it hands out again is overwritten before.

        Nothing is overwritten that the step may depend on: parameters, buffers, arguments, memory of others. What was
        is put back, whatever happens.
        """
        ...

    def places_of(self, output: Any, arguments: Any) -> frozenset[int]:
        """Which arrays of the arguments, counted as `copies` gives them, share their memory with an output."""
        ...

    def refilled(self, arguments: Any, others: Any, skip: frozenset[int]) -> AbstractContextManager[int]:
        """While it lasts, the arguments hold the values of others at their own addresses, but for those to skip.

        How many arrays were refilled; 0 where that is not possible, and then none was.
        """
        ...

    def restored(self, arguments: Any) -> AbstractContextManager[None]:
        """At its end the arguments hold what they held at its begin."""
        ...

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step, noting which weights a pass multiplies by: `tampered` needs it to have run once."""
        ...

    def tampered(self, rerun: Rerun) -> Tampered:
        """Change a row of a weight that the watched pass multiplied by, run a pass, put the row back bit for bit."""
        ...


@runtime_checkable
class WitnessBackend(Protocol):
    """A backend whose framework has a witness."""

    def witness(self) -> Witness:
        """A fresh one; it may remember what it saw."""
        ...
