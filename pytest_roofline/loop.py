"""The timed loop: passes of a user's step between two drains, never more of them than its state has room for.

The loop keeps only the last pass's outputs (CUDA graphs invalidate older ones, JAX donation deletes them, N logits
fill a card). Lazy frameworks are handed each pass inside the loop, since an unforced honest loop of theirs otherwise
never runs. `reset` is never timed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Backend, Forced

ROOM_WITHOUT_RESET = 64
"""Passes in all, where neither `reset` nor the room of a cache is known: overrunning one poisons a CUDA context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`passes` passes between two drains. `host_s` ends at the last submission, `closed_s` at the device's end."""

    passes: int
    first_pass: int
    """Passes since the last reset before this block."""
    host_s: float
    closed_s: float
    forced: Forced


class OutOfRoom(Exception):
    """The state has no room for the passes asked for."""


class Loop:
    """Runs a step; counts passes since the last reset and in all.

    `inputs` gives fresh arguments per block; with `rotates`, per pass.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        *,
        backend: Backend,
        drains: Sequence[Backend],
        inputs: Any = None,
        reset: Callable[[], Any] | None = None,
        passes_per_reset: int | None = None,
        is_stateless: bool = False,
        rotates: bool = False,
        may_return_nothing: bool = False,
    ) -> None:
        if not callable(step):
            raise RooflineUsageError(f"step is a {type(step).__name__}; it must be callable: step() runs one pass")
        if reset is not None and not callable(reset):
            raise RooflineUsageError(f"reset is a {type(reset).__name__}; it must be callable")
        if passes_per_reset is not None and passes_per_reset < 1:
            raise RooflineUsageError(f"passes_per_reset is {passes_per_reset}; it must be 1 or more")
        self._step = step
        self._backend = backend
        self._drains = drains
        self._inputs = _source_of_inputs(inputs)
        self._reset = reset
        self._room = passes_per_reset
        self._is_stateless = is_stateless
        self._rotates = rotates
        self._may_return_nothing = may_return_nothing
        self.since_reset = 0
        self.in_all = 0
        self.outputs: Any = None
        self.ran: list[tuple[float, float, float]] = []
        """Start, end and passes of every block that was timed, by the clock of its framework."""

    def use(self, backend: Backend) -> None:
        """Learn which framework the step turned out to use."""
        self._backend = backend

    @property
    def has_reset(self) -> bool:
        """Whether every block starts from the same state."""
        return self._reset is not None

    @property
    def room(self) -> int | None:
        """Passes that fit between two resets; None without bound."""
        if self._is_stateless:
            return None
        return ROOM_WITHOUT_RESET if self._room is None else self._room

    @property
    def room_left(self) -> int | None:
        """Passes that may still run before a reset; None without bound."""
        return None if self.room is None else max(0, self.room - self.since_reset)

    @property
    def is_room_known(self) -> bool:
        """Whether the room was stated or seen, rather than assumed."""
        return self._room is not None

    def call(self, arguments: tuple[Any, ...]) -> Any:
        """One pass, untimed, drained after it; what it returned."""
        self.count()
        try:
            output = self._step(*arguments)
        except BaseException:
            with suppress(Exception):
                self.drain()
            raise
        self.drain()
        return output

    def set_room(self, passes: int) -> None:
        """Learn the room that a trace saw; of it and what the caller stated, the smaller one holds."""
        seen = max(1, passes)
        self._room = seen if self._room is None else min(self._room, seen)

    def arguments(self) -> tuple[Any, ...]:
        """Fresh arguments for the next block: `step(*arguments)`."""
        return self._inputs()

    def reset(self) -> None:
        """Bring the state back to the start; never timed. Without a reset this does nothing."""
        if self._reset is not None:
            self._reset()
            self.since_reset = 0

    def count(self, passes: int = 1) -> None:
        """Account for passes that ran elsewhere (the traced one)."""
        self.since_reset += passes
        self.in_all += passes

    def drain(self) -> None:
        """Wait for every framework that this process uses."""
        for backend in self._drains:
            backend.drain()

    def run(self, passes: int) -> Block:
        """Time `passes` passes from drained to drained and forced.

        Raises OutOfRoom when the state has no room and cannot be reset. Whatever the step raises comes through;
        the device is drained first, so that no work of this test is charged to the next.
        """
        if self.has_reset and self.since_reset:
            self.reset()
        left = self.room_left
        if left is not None and passes > left:
            raise OutOfRoom
        first_pass = self.since_reset
        arguments = () if self._rotates else self._inputs()
        step, submit, clock = self._step, self._submit(), self._backend.clock
        source = self._inputs
        output: Any = None
        self.outputs = None
        self.count(passes)
        self.drain()
        try:
            start = clock()
            if self._rotates:
                for _ in range(passes):
                    output = step(*source())
                    if submit is not None:
                        submit(output)
            elif submit is None and not arguments:
                for _ in range(passes):
                    output = step()
            elif submit is None:
                for _ in range(passes):
                    output = step(*arguments)
            else:
                for _ in range(passes):
                    output = step(*arguments)
                    submit(output)
            stop = clock()
        except BaseException:
            # The step raised, or the user pressed Ctrl-C: leave nothing running behind, and say only that.
            with suppress(Exception):
                self.drain()
            raise
        self.drain()
        forced = self._backend.force(output)
        end = clock()
        check_output(output, may_return_nothing=self._may_return_nothing)
        self.outputs = output
        self.ran.append((start, end, float(passes)))
        return Block(passes=passes, first_pass=first_pass, host_s=stop - start, closed_s=end - start, forced=forced)

    def _submit(self) -> Callable[[Any], None] | None:
        return self._backend.submit if self._backend.is_lazy else None


def check_output(output: Any, *, may_return_nothing: bool = False) -> None:
    """Refuse what shows that the step has not run: coroutines, generators, futures, and nothing at all."""
    if output is None:
        if may_return_nothing:
            return
        raise RooflineUsageError(
            "the step returned nothing, so its work can neither be forced nor counted: return the output of the pass "
            "(logits, ids, or the static buffer that a graph writes)"
        )
    if inspect.isawaitable(output):
        if inspect.iscoroutine(output):
            output.close()  # or Python warns, at some later moment, that nobody awaited it
        raise RooflineUsageError(
            f"the step returned a {type(output).__name__} that nobody awaited, so it has not run: "
            "pass a function that runs it to the end"
        )
    if inspect.isgenerator(output) or inspect.isasyncgen(output):
        raise RooflineUsageError(
            "the step returned a generator, so it has not run: exhaust it inside the step and return what it produced"
        )
    if isinstance(output, Future):
        raise RooflineUsageError(
            "the step returned a future, so its work may not have run: return future.result() from the step"
        )


def _source_of_inputs(inputs: Any) -> Callable[[], tuple[Any, ...]]:
    """`inputs` may be a function that makes the arguments, or a sequence of argument tuples to rotate through."""
    if inputs is None:
        return tuple
    if callable(inputs):
        return lambda: _as_arguments(inputs())
    try:
        choices = list(inputs)
    except TypeError:
        raise RooflineUsageError(
            f"inputs is a {type(inputs).__name__}; give a sequence of argument tuples, or a function that makes them"
        ) from None
    if not choices:
        raise RooflineUsageError("inputs is empty; give a sequence of argument tuples, or a function that makes them")
    turn = iter(range(1 << 62))
    return lambda: _as_arguments(choices[next(turn) % len(choices)])


def _as_arguments(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
