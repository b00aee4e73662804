"""Did the passes do their work? A few more after the measurement, untimed, show what their output rests on.

By default the memory of an output is overwritten before a further pass, which then has to write it. Fresh `inputs`, a
`reference` and `tamper` prove more, where the caller asks for them. A pass runs only where there is room for it:
overrunning a cache poisons a device. What could not be tried is said, never held against anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.amounts import Amounts, held_objects
from pytest_roofline.checks.attempts import Compared, FreshInput, Overwritten, Tampered, Work
from pytest_roofline.loop import Loop, OutOfRoom
from pytest_roofline.protocol import Backend
from pytest_roofline.units import format_seconds
from pytest_roofline.witness import Difference, Rerun, Witness, WitnessBackend

PASSES_OF_A_LOOK = 5
"""Room that the default needs at most; where outputs are new each time it runs one pass."""
ROOM_WORTH_KEEPING = 100
"""With less of it the measurement needs every pass."""
REFERENCE_PASSES = 3
"""In a row: a step that skips its work every other time shows within two."""
TIME_SHARE = 0.25
"""Part of the measurement's time that the default may take."""
LEAST_ELEMENTS = 16
"""Fewer may agree by chance."""
KEPT_ASIDE_BYTES = 2**28
"""Arguments that a pass may change are kept aside up to this size."""
TOO_LARGE = "the arguments are too large to be kept aside"
NO_REFERENCE = "the outputs were not compared with a reference"
"""As the amounts of a pass say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the caller wants to be shown, beside the default."""

    step: Callable[..., Any]
    model: Any = None
    has_inputs: bool = False
    reference: Callable[..., Any] | None = None
    tamper: bool = False
    is_decode: bool = True
    is_stateless: bool = False
    max_time_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was tried, and what was not checked."""

    work: Work | None = None
    not_checked: tuple[str, ...] = ()


class WorkProof:
    """Runs the passes. `pass_s` is what one takes, None where that is not known.

    `deepest` is how many passes after a reset have been timed: what stops working at some pass is looked at there.
    """

    def __init__(
        self,
        question: Question,
        loop: Loop,
        backend: Backend,
        amounts: Amounts,
        *,
        pass_s: float | None,
        deepest: int = 0,
    ) -> None:
        self._question = question
        self._loop = loop
        self._amounts = amounts
        self._pass_s = pass_s
        self._deepest = deepest
        self._witness = witness_of(backend)
        self._is_harmless = question.is_stateless or loop.has_reset
        self._missing: list[str] = []

    def look(self, watcher: Witness | None = None) -> Proof:
        """Try what can be tried; `watcher` is the witness that watched the first pass, where there was one.

        Exceptions of the step come through, and whatever was changed has been put back by then.
        """
        question, witness = self._question, watcher or self._witness
        if witness is None:
            self._miss("whether a pass writes its output: its framework offers no way to see that")
            return Proof(not_checked=tuple(self._missing))
        kept = self._loop.outputs
        try:
            overwritten = self._overwritten(witness)
            fresh = self._fresh_input(witness) if question.has_inputs else None
            compared = self._compared(witness, question.reference) if question.reference is not None else None
            tampered = self._tampered(witness) if question.tamper else None
        finally:
            self._loop.outputs = kept
        if not question.has_inputs and question.is_decode:
            self._miss("whether the output follows its input: give inputs=")
        if not question.tamper and question.is_decode:
            self._miss("whether the output follows the weights: give tamper=True")
        if self._loop.has_reset and self._loop.since_reset:
            self._loop.reset()
        work = Work(overwritten=overwritten, fresh_input=fresh, compared=compared, tampered=tampered)
        return Proof(work=work, not_checked=tuple(self._missing))

    # -- the default --------------------------------------------------------------------------------------------

    def _overwritten(self, witness: Witness) -> Overwritten | None:
        what = "whether a pass writes its output"
        if self._loop.outputs is None:
            self._miss(f"{what}: the step returns nothing")
            return None
        if not self._has_room(PASSES_OF_A_LOOK):
            self._miss(f"{what}: no room for further passes (give reset= or passes_per_reset=)")
            return None
        allowed_s = TIME_SHARE * self._question.max_time_s
        if self._pass_s is not None and self._pass_s > allowed_s:
            self._miss(f"{what}: a pass takes {format_seconds(self._pass_s)}, and {format_seconds(allowed_s)} are left")
            return None
        arguments = self._loop.arguments()
        try:
            latest = self._deepened(arguments, allowed_s)
            if self._question.has_inputs:  # the block before had others
                latest = self._pass(arguments)
            seen = witness.overwritten(self._rerun(arguments, latest))
        except Exception as error:  # broad: nobody asked for this pass, so what it raises is not held against the test
            seen = Overwritten(fate="unknown", reason=f"a further pass raised {type(error).__name__}")
        if seen.fate == "unknown":
            self._miss(f"{what}: {seen.reason}")
        return seen

    def _deepened(self, arguments: tuple[Any, ...], allowed_s: float) -> Any:
        """The latest output, as many passes after the reset as the longest block had, where time allows it."""
        missing = self._deepest - self._loop.since_reset
        is_cheap = self._pass_s is not None and missing * self._pass_s <= allowed_s
        if self._loop.has_reset and is_cheap:
            for _ in range(missing):
                self._loop.outputs = self._pass(arguments)
        return self._loop.outputs

    # -- by request ---------------------------------------------------------------------------------------------

    def _fresh_input(self, witness: Witness) -> FreshInput | None:
        """Another input's values where the first one's were; where that cannot be, another input."""
        what = "whether the output follows its input"
        if not self._is_harmless:
            self._miss(f"{what}: there is no reset, so two passes do not begin in the same state")
            return None
        if not self._has_room(1):
            self._miss(f"{what}: no room for further passes")
            return None
        ours = self._loop.arguments()
        if witness.size_bytes(ours) > KEPT_ASIDE_BYTES:
            return self._not_followed(TOO_LARGE)
        before = witness.copies(ours)
        with witness.restored(ours):
            self._start()
            output = self._pass(ours)
            first = witness.copies(output)
            after = witness.copies(ours)
            # Arguments that the pass writes are outputs, and need not follow anything.
            written = {at for at, pair in enumerate(zip(after, before, strict=True)) if _differ(witness, *pair)}
            skip = frozenset(written) | witness.places_of(output, ours)
            is_argument = bool(witness.places_of(output, ours))
        others = self._other_input(witness, before, skip)
        if others is None:
            return self._not_followed("inputs gives the same values each time, or no arrays")
        with witness.refilled(ours, others, skip) as replaced:
            if replaced:
                self._start()
                second = witness.copies(self._pass(ours))
        if not replaced:
            if is_argument:
                return self._not_followed("the output is one of the arguments")
            with witness.restored(others):
                self._start()
                second = witness.copies(self._pass(others))
        difference = witness.difference(second, first)
        if difference.obstacle or difference.elements < LEAST_ELEMENTS:
            return self._not_followed(difference.obstacle or "too few floating elements were returned")
        return FreshInput(
            elements=difference.elements,
            is_identical=difference.is_identical and not difference.is_constant,
            is_same_address=replaced > 0,
        )

    def _not_followed(self, reason: str) -> FreshInput:
        self._miss(f"whether the output follows its input: {reason}")
        return FreshInput(reason=reason)

    def _other_input(self, witness: Witness, before: list[Any], skip: frozenset[int]) -> tuple[Any, ...] | None:
        """Arguments of which every array that the pass reads has other values."""
        for _ in range(3):
            others = self._loop.arguments()
            if witness.size_bytes(others) > KEPT_ASIDE_BYTES:
                return None
            copies = witness.copies(others)
            places = [at for at in range(len(before)) if at not in skip]
            is_other = bool(places) and len(copies) == len(before)
            if is_other and all(_differ(witness, copies[at], before[at]) for at in places):
                return others
        return None

    def _compared(self, witness: Witness, reference: Callable[..., Any]) -> Compared:
        """Up to three passes of each in a row, from the same state where there is a reset."""
        passes = REFERENCE_PASSES
        if self._loop.room_left is not None:
            # Behind a reset each of the two has all of the room; else they share what is left.
            room = (self._loop.room or 1) if self._loop.has_reset else self._loop.room_left // 2
            passes = max(1, min(passes, room))
        if not self._has_room(2 * passes, is_asked=True):
            return self._not_compared("no room for further passes (give reset= or passes_per_reset=)")
        arguments = self._loop.arguments()
        if witness.size_bytes(arguments) > KEPT_ASIDE_BYTES:
            return self._not_compared(TOO_LARGE)
        with witness.restored(arguments):
            self._start()
            found = [self._outputs_of(witness, self._pass(arguments), arguments) for _ in range(passes)]
        with witness.restored(arguments):
            self._start()
            wanted = []
            for _ in range(passes):
                output = reference(*arguments)
                self._loop.count()  # it moves the same state
                self._loop.drain()
                wanted.append(self._outputs_of(witness, output, arguments))
        differences = [witness.difference(one, other) for one, other in zip(found, wanted, strict=True)]
        return self._worst(differences)

    def _worst(self, differences: Sequence[Difference]) -> Compared:
        obstacle = next((one.obstacle for one in differences if one.obstacle), "")
        if obstacle:
            return self._not_compared(obstacle)
        if not any(one.elements or one.ids for one in differences):
            return self._not_compared("neither side returned arrays")
        # The first that is off: the ones after it may only follow from it.
        off = next((at for at, one in enumerate(differences) if one.rms_error > tolerance_of(one)), None)
        worst = off if off is not None else max(range(len(differences)), key=lambda at: differences[at].largest_error)
        ids_worst = max(range(len(differences)), key=lambda at: differences[at].ids_differing)
        one = differences[worst]
        if not one.elements:
            worst, one = ids_worst, differences[ids_worst]
        return Compared(
            passes=len(differences),
            worst_pass=worst + 1,
            elements=one.elements,
            rms_error=one.rms_error,
            largest_error=one.largest_error,
            tolerance=tolerance_of(one),
            dtype=one.dtype,
            ids=one.ids,
            ids_differing=one.ids_differing,
            is_same_state=self._is_harmless,
            is_path_same=all(before.is_choice_same and not before.ids_differing for before in differences[:worst]),
        )

    def _not_compared(self, reason: str) -> Compared:
        self._miss(f"{NO_REFERENCE}: {reason}")
        return Compared(reason=reason)

    def _tampered(self, witness: Witness) -> Tampered:
        if not self._is_harmless:
            seen = Tampered(reason="there is no reset, so two passes do not begin in the same state")
        elif not self._has_room(1):
            seen = Tampered(reason="no room for further passes")
        else:
            arguments = self._loop.arguments()
            rerun = self._rerun(arguments, self._loop.outputs)
            if witness.size_bytes(arguments) > KEPT_ASIDE_BYTES:
                seen = Tampered(reason=TOO_LARGE)
            else:
                with witness.restored(arguments):
                    seen = witness.tampered(rerun)
        if seen.reason:
            self._miss(f"whether the output follows the weights: {seen.reason}")
        return seen

    # -- passes -------------------------------------------------------------------------------------------------

    def _rerun(self, arguments: tuple[Any, ...], latest: Any) -> Rerun:
        traced = self._amounts.traced
        return Rerun(
            run=lambda: self._pass(arguments),
            start=self._start,
            drain=self._loop.drain,
            step=self._question.step,
            args=arguments,
            model=self._question.model,
            held=tuple(held_objects(self._question.step)),
            first=self._amounts.outputs,
            latest=latest,
            is_first_closed=traced is not None and traced.is_closed,
            expected_bytes=self._amounts.traffic.bytes_per_pass,
            is_harmless=self._is_harmless,
            is_stateless=self._question.is_stateless,
        )

    def _pass(self, arguments: tuple[Any, ...]) -> Any:
        """One pass within the room: where that is used up, after a reset."""
        if self._loop.room_left == 0:
            if not self._loop.has_reset:
                raise OutOfRoom
            self._loop.reset()
        return self._loop.call(arguments)

    def _start(self) -> None:
        if self._loop.has_reset:
            self._loop.reset()

    def _has_room(self, passes: int, *, is_asked: bool = False) -> bool:
        """Whether so many may run: unasked, a state that cannot be reset is left alone unless its room is known."""
        if self._loop.has_reset or self._loop.room_left is None:
            return True
        return (is_asked or self._loop.is_room_known) and self._loop.room_left >= passes

    @staticmethod
    def _outputs_of(witness: Witness, output: Any, arguments: tuple[Any, ...]) -> Any:
        """What a pass returned; of one that returns nothing, its arguments, which it may have written."""
        return witness.copies(arguments if output is None else output)

    def _miss(self, line: str) -> None:
        if line not in self._missing:
            self._missing.append(line)


def _differ(witness: Witness, left: Any, right: Any) -> bool:
    difference = witness.difference([left], [right])
    return not difference.obstacle and (
        difference.ids_differing > 0 or (difference.elements > 0 and not difference.is_identical)
    )


def tolerance_of(difference: Difference) -> float:
    """Half of the digits of the dtype: what another order of summation may cost through a deep model, and no more."""
    return math.sqrt(difference.epsilon)


def passes_kept(loop: Loop, *, has_reference: bool) -> int:
    """Passes that a measurement leaves over: of many a few for the default look, and those that were asked for."""
    if loop.has_reset or loop.room is None:
        return 0
    is_looked_at = loop.is_room_known and loop.room >= ROOM_WORTH_KEEPING
    asked = min(2 * REFERENCE_PASSES, loop.room // 4) if has_reference else 0
    return (PASSES_OF_A_LOOK if is_looked_at else 0) + asked


def witness_of(backend: Backend) -> Witness | None:
    """The witness of a backend that has one."""
    return backend.witness() if isinstance(backend, WitnessBackend) else None


def completed(amounts: Amounts, proof: Proof) -> tuple[str, ...]:
    """What a result does not rest on, with what the proof left open."""
    work = proof.work
    is_compared = work is not None and work.compared is not None
    lines = [line for line in amounts.not_checked if not (is_compared and line == NO_REFERENCE)]
    return (*lines, *proof.not_checked)
