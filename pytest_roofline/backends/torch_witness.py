"""The witness of torch: were the outputs of a pass written, do they follow its input and its weights?

Nothing is overwritten but memory that torch allocated for this process alone: no file that is mapped, no memory that
other processes share, no memory of another library. Parameters and buffers are only touched by `tampered`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

from pytest_roofline.backends.torch_outputs import Walk
from pytest_roofline.backends.torch_ownership import (
    HELD_HERE,
    belongings,
    coarsest,
    compared,
    figures_of,
    filled,
    floating,
    holds,
    integers,
    is_overwritable,
    is_torchs,
    key_of,
    keys_of,
    uses_of,
    writable,
)
from pytest_roofline.backends.torch_sight import Operand, Sight, eager
from pytest_roofline.checks.attempts import Fate, Overwritten, Tampered
from pytest_roofline.models.caches import reach
from pytest_roofline.witness import Difference, Rerun, difference_of, obstacle_between

COPIED_ELEMENTS = 2**24
"""Of a tensor with more of them every so manyth is copied and compared."""
KEPT_ASIDE_BYTES = 2**30
"""Larger outputs (a cache that is returned) are not overwritten."""
TRIES = 4


class TorchWitness:
    """One measurement's witness; remembers what a watched pass multiplied by."""

    def __init__(self) -> None:
        self._draws = random.SystemRandom()  # no program under test can foresee these
        self._operands: list[Operand] = []
        self._is_output_made = False

    # -- copies -------------------------------------------------------------------------------------------------

    def copies(self, output: Any) -> list[torch.Tensor]:
        """Copies of its plain tensors; those inside caches and other objects are state, and left out."""
        copied = []
        for tensor in compared(output):
            with torch.no_grad():
                whole = tensor.detach()
                if whole.numel() > COPIED_ELEMENTS:
                    whole = whole.reshape(-1)[:: whole.numel() // COPIED_ELEMENTS + 1]
                copied.append(whole.clone())
        return copied

    def size_bytes(self, obj: Any) -> float:
        """Bytes of its tensors, views counted as often as they show."""
        return float(sum(found.tensor.numel() * found.tensor.element_size() for found in Walk(obj)))

    def difference(self, left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> Difference:
        """Floating tensors one by one, in order; the coarsest dtype gives the epsilon."""
        floats = [[tensor for tensor in side if tensor.is_floating_point()] for side in (left, right)]
        obstacle = obstacle_between((tuple(t.shape) for t in floats[0]), (tuple(t.shape) for t in floats[1]))
        if obstacle:
            return Difference(obstacle=obstacle)
        pairs = [figures_of(one, other) for one, other in zip(*floats, strict=True) if one.numel()]
        ids = [[tensor for tensor in side if not tensor.is_floating_point()] for side in (left, right)]
        count = differing = 0
        if len(ids[0]) == len(ids[1]):
            for one, other in zip(*ids, strict=True):
                if one.numel() == other.numel() and not one.is_complex():
                    count += one.numel()
                    differing += int((one.flatten().cpu() != other.flatten().cpu()).sum())
        epsilon, dtype = coarsest([tensor for side in floats for tensor in side])
        return difference_of(pairs, dtype=dtype, epsilon=epsilon, ids=count, ids_differing=differing)

    # -- was the output written? -----------------------------------------------------------------------------------

    def overwritten(self, rerun: Rerun) -> Overwritten:
        """One pass on memory that was filled when allocated; where its outputs are not new, one on overwritten ones.

        A step that was compiled cannot be watched and timed in one: its fresh memory is not filled, and a pass of the
        eager program shows what it reads. Costs one pass for a step whose outputs are new each time.
        """
        is_compiled = reach(rerun.step, rerun.args, rerun.model).is_compiled
        blank = self._draw(0.3, 0.7)
        sight = Sight(fill=None if is_compiled else blank)
        before = keys_of(floating(rerun.latest))
        with ExitStack() as stack:
            if not is_compiled:
                stack.enter_context(eager())  # what was compiled out of sight runs as it was written
                stack.enter_context(sight)
            output = rerun.run()
        sight.forget()
        leaves = floating(output)
        if not leaves:
            return _unknown("no floating output was returned, and integers tell nothing when they are overwritten")
        fresh = [leaf for leaf in leaves if key_of(leaf) not in before]
        kept = [leaf for leaf in leaves if key_of(leaf) in before]
        blanks = [leaf for leaf in fresh if not is_compiled and holds(leaf, blank)]
        if len(blanks) < len(fresh):
            return _seen("renewed", fresh)
        if any(key_of(tensor) not in keys_of(integers(rerun.latest)) for tensor in integers(output)):
            return _unknown("only the integers of the output are made anew, and beside them floating arrays may stay")
        if blanks and not kept:
            return _seen("unwritten", blanks)
        if is_compiled:
            with eager(), sight:
                rerun.run()
            sight.forget()
        if any(key_of(leaf) in sight.written for leaf in kept):
            return _seen("renewed", kept)
        return self._overwrite(rerun, sight, kept)

    def _overwrite(self, rerun: Rerun, sight: Sight, kept: Sequence[torch.Tensor]) -> Overwritten:
        theirs = belongings(rerun)
        leaves = [leaf for leaf in kept if is_overwritable(leaf) and key_of(leaf) not in theirs]
        if not leaves:
            return _unknown("what was returned are parameters, arguments or memory that is not torch's own")
        if sum(leaf.numel() * leaf.element_size() for leaf in leaves) > KEPT_ASIDE_BYTES:
            return _unknown("what was returned is too large to be kept aside")
        is_read = any(sight.has_read(key_of(leaf) or 0) for leaf in leaves)
        is_work_seen = bool(rerun.expected_bytes) and sight.read_bytes >= 0.5 * rerun.expected_bytes
        if not rerun.is_harmless and (is_read or sight.is_blind or not rerun.is_first_closed):
            return _unknown("the step may read what it returns, and nothing undoes that: give reset=")
        if is_read and not rerun.is_stateless and leaves[0].device.type != "cpu":
            return _unknown("the step reads what it returns")
        values = [self._draw(0.3, 0.7), self._draw(-0.7, -0.3)]
        if is_read:
            values.append(math.nan)
        first = keys_of(floating(rerun.first))
        is_made = rerun.is_first_closed or any(key_of(leaf) not in first for leaf in leaves)
        for value in values:
            try:
                is_kept = _survives(rerun, leaves, value)
            except Exception as error:  # broad: the user's step may raise anything at values that it did not expect
                return _unknown(f"the step raised {type(error).__name__} when its output had been overwritten")
            if not is_kept:
                return _seen("wakes-on-nan" if math.isnan(value) else "renewed", leaves)
        if is_read:  # given to the step, and handed on: no pass need ever write it
            return _unknown("the step reads what it returns and never writes it, as an input that is passed through")
        return _seen("untouched", leaves, is_made_by_step=is_made, is_work_seen=is_work_seen)

    def _draw(self, low: float, high: float) -> float:
        return self._draws.uniform(low, high)

    # -- does it follow its input? ----------------------------------------------------------------------------------

    def places_of(self, output: Any, arguments: Any) -> frozenset[int]:
        """By storage."""
        returned = keys_of(found.tensor for found in Walk(output))
        return frozenset(at for at, tensor in enumerate(compared(arguments)) if key_of(tensor) in returned)

    @contextmanager
    def refilled(self, arguments: Any, others: Any, skip: frozenset[int]) -> Iterator[int]:
        """Each argument tensor holds the values of its counterpart; none where shapes or ownership forbid it."""
        ours, theirs = (
            [tensor for at, tensor in enumerate(compared(side)) if at not in skip] for side in (arguments, others)
        )
        fits = len(ours) == len(theirs) and all(
            is_overwritable(one)
            and one.shape == other.shape
            and one.dtype == other.dtype
            and one.device == other.device
            for one, other in zip(ours, theirs, strict=False)
        )
        keys = keys_of(ours)
        if not fits or len(keys) < len(ours) or keys & keys_of(theirs):
            yield 0
            return
        with self.restored(arguments):
            for one, other in zip(ours, theirs, strict=True):
                with writable(one):
                    one.data.copy_(other.detach())
            yield len(ours)

    @contextmanager
    def restored(self, arguments: Any) -> Iterator[None]:
        """Tensors among them that torch owns are put back if they changed."""
        ours = [found.tensor for found in Walk(arguments) if is_overwritable(found.tensor)]
        saved = [(tensor, tensor.detach().clone()) for tensor in ours]
        try:
            yield
        finally:
            for tensor, copy in reversed(saved):
                with writable(tensor):
                    tensor.data.copy_(copy)

    # -- does it follow its weights? --------------------------------------------------------------------------------

    def watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Notes the operands of products each time it is called, the last call's count."""

        @wraps(step)
        def watched(*args: Any) -> Any:
            sight = Sight(keeps_operands=True)
            with eager(), sight:
                output = step(*args)
            self._operands = sight.operands()
            keys = keys_of(floating(output))
            self._is_output_made = bool(keys & (sight.made | sight.written))
            sight.forget()
            return output

        return watched

    def tampered(self, rerun: Rerun) -> Tampered:
        """Up to four weights, the last one first; done when the output follows one of them."""
        operands = self._candidates(rerun)
        if not operands:
            return Tampered(
                reason="no floating weight was seen in memory that torch owns (mapped, shared and packed weights are "
                "left alone)"
            )
        if not self._is_output_made:
            return Tampered(reason="the first pass was not seen to compute its output")
        freezing = getattr(getattr(torch, "_inductor", None), "config", None)
        if getattr(freezing, "freezing", False):
            return Tampered(reason="compiled with frozen weights, of which the compiled step holds copies")
        rerun.start()
        output = rerun.run()
        if any(leaf.numel() > COPIED_ELEMENTS for leaf in floating(output)):
            return Tampered(reason="the output is too large to be compared whole")
        base = self.copies(output)
        tried: list[str] = []
        is_changed = False
        for operand in operands:
            tried.append("x".join(map(str, operand.tensor.shape)))
            rerun.start()
            with self._changed_row(operand):
                rerun.drain()
                now = self.copies(rerun.run())
            rerun.drain()
            difference = self.difference(now, base)
            is_changed = bool(difference.obstacle) or difference.ids_differing > 0 or not difference.is_identical
            if not difference.obstacle and not difference.elements:
                is_changed = difference.ids_differing > 0
            if is_changed:
                break
        if not is_changed and not any(tensor.is_floating_point() for tensor in base):
            return Tampered(reason="the step returns ids alone, which need not follow one row: return the logits too")
        return Tampered(weights=tuple(tried), is_changed=is_changed)

    def _candidates(self, rerun: Rerun) -> list[Operand]:
        others = keys_of(found.tensor for found in Walk(rerun.args))
        unique: dict[int, Operand] = {}
        for operand in self._operands:
            key = key_of(operand.tensor)
            if key is not None and key not in others and is_torchs(operand.tensor):
                unique[key] = operand
        self._operands.clear()
        # What nobody else holds was made in that pass by something that was not seen.
        unique = {key: one for key, one in unique.items() if uses_of(one.tensor) > HELD_HERE}
        largest = max((one.tensor.numel() for one in unique.values()), default=0)
        # Among matrices of the usual size for this model; a router or a norm decides little.
        usual = [one for one in unique.values() if one.tensor.numel() * 64 >= largest]
        if len(usual) <= TRIES:
            return usual[::-1]
        places = [round(share * (len(usual) - 1) / (TRIES - 1)) for share in range(TRIES)]
        return [usual[place] for place in reversed(places)]

    @contextmanager
    def _changed_row(self, operand: Operand) -> Iterator[None]:
        tensor = operand.tensor.data
        row = tensor.select(operand.dim, self._draws.randrange(tensor.shape[operand.dim]))
        saved = row.clone()
        try:
            with writable(operand.tensor):
                # Turned around and moved, so that no activation function and no row of zeros hides it.
                row.copy_(saved * -1.5 + (saved.float().abs().mean() + 1e-3).to(saved.dtype))
            yield
        finally:
            with writable(operand.tensor):
                row.copy_(saved)


def _survives(rerun: Rerun, leaves: Sequence[torch.Tensor], value: float) -> bool:
    """Overwrite, run a pass, look, put back: whether all of it was returned as it had been overwritten."""
    with ExitStack() as stack:
        for leaf in leaves:
            stack.enter_context(filled(leaf, value))
        rerun.drain()
        returned = keys_of(floating(rerun.run()))
        is_kept = all(key_of(leaf) in returned and holds(leaf, value) for leaf in leaves)
    rerun.drain()
    return is_kept


def _seen(
    fate: Fate, leaves: Sequence[torch.Tensor], *, is_made_by_step: bool = False, is_work_seen: bool = False
) -> Overwritten:
    return Overwritten(
        fate=fate,
        arrays=len(leaves),
        size_bytes=float(sum(leaf.numel() * leaf.element_size() for leaf in leaves)),
        is_made_by_step=is_made_by_step,
        is_work_seen=is_work_seen,
    )


def _unknown(reason: str) -> Overwritten:
    return Overwritten(fate="unknown", reason=reason)
