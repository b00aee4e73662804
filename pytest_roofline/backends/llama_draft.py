"""The draft of a llama-cpp-python `Llama`: what it proposes, and the passes of a model of its own.

The package asks ``draft_model(ids)`` before a pass, and the pass verifies what it is given. `LlamaPromptLookupDecoding`
looks the ids up in the text before and reads no weights. One that holds a `Llama` runs passes of that: they are
listened to like those of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pytest_roofline.generation import Pass, Run, is_llama

LOOKS_UP = ("llama_cpp.llama_speculative", "LlamaPromptLookupDecoding")


def drafting_llama(llama: Any) -> Any:
    """The one `Llama` that its draft holds; None where it holds none, or several."""
    draft = getattr(llama, "draft_model", None)
    held = [one for one in vars(draft).values() if is_llama(one)] if hasattr(draft, "__dict__") else []
    return held[0] if len(held) == 1 and held[0] is not llama else None


class DraftWatch:
    """Listens to the draft of one `Llama`, where it has one, until it is closed."""

    def __init__(self, llama: Any, take: Callable[[Pass], None]) -> None:
        self._llama, self._take = llama, take
        self._draft: Any = getattr(llama, "draft_model", None)
        self._engine = drafting_llama(llama)
        self._held = ExitStack()
        self.proposed = 0
        """Tokens, since it was reset."""
        if self._draft is None:
            return
        llama.draft_model = self._proposing
        self._held.callback(setattr, llama, "draft_model", self._draft)
        if self._engine is not None:
            self._evaluate = self._engine.eval
            self._held.callback(put_back, self._engine, "eval", vars(self._engine).get("eval", ABSENT))
            self._engine.eval = self._evaluated

    @property
    def is_there(self) -> bool:
        """Whether there is a draft at all."""
        return self._draft is not None

    def reset(self) -> None:
        """Before a run: a model of its own forgets what it has cached, as the other one does."""
        self.proposed = 0
        if self._engine is not None:
            self._engine.reset()

    def close(self) -> None:
        """Put back what was replaced."""
        self._held.close()

    def words(self, run: Run, *, is_counted: bool) -> str:
        """What it did in this run; `is_counted`: the bytes of its passes are known."""
        kind = type(self._draft)
        name = kind.__name__
        # A pass yields one token of its own, whatever it was given to verify.
        accepted = max(0, run.decode_tokens - run.decode_passes)
        if (kind.__module__, name) == LOOKS_UP:
            reads = "looked up in the text before, so nothing is read for them"
        elif is_counted and run.draft_passes:
            reads = f"in {run.draft_passes} passes of its own, which are added"
        else:
            reads = "what was read for them is not known and not counted, so the fraction is too low"
        return (
            f"{name} proposed {self.proposed} tokens and {accepted} were accepted, {run.decode_tokens} in "
            f"{run.decode_passes} passes of the model, over {run.positions_per_pass} positions by the mean, whose "
            f"arithmetic is not in the ceiling; {reads}"
        )

    def _proposing(self, ids: Any, /, **given: Any) -> Any:
        proposal = self._draft(ids, **given)
        self.proposed += len(proposal)
        return proposal

    def _evaluated(self, tokens: Sequence[int]) -> Any:
        result = self._evaluate(tokens)
        for size in batches(self._engine, len(tokens)):
            self._take(Pass(rows=1, positions=size, is_draft=True))
        return result


def batches(llama: Any, count: int) -> list[int]:
    """So many tokens, as `eval` computes them: no more than `n_batch` in one pass."""
    whole = max(1, int(getattr(llama, "n_batch", count) or count))
    return [min(whole, count - at) for at in range(0, count, whole)]


ABSENT = object()


def put_back(owner: Any, name: str, before: Any) -> None:
    """An attribute as it was: gone where it was none of the object's own."""
    if before is ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)
