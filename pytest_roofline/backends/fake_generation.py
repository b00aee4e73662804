"""A model on a fake device that generates, with a draft where it has one; and the watch of its passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_roofline.backends.fake_host import FakeHost
from pytest_roofline.backends.fake_model import FakeModel
from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.generation import GenerationRequest, Look, OtherPrompt, Pass, Run, new_ids
from pytest_roofline.protocol import Trace, TraceRequest
from pytest_roofline.traffic import Traffic

END = 2


class FakeGenerator(FakeModel):
    """A `FakeModel` with `generate`, as models of transformers have it. ::

        model = FakeGenerator(FakeBackend(), weight_bytes=2e9, kv_bytes_per_token=100e3)
        rows = model.generate(input_ids=[[5, 6, 7]], max_new_tokens=16)     # prompt and new ids, on the host

    The prefill is one pass, and each decode pass is a `step()` whose ids are read to the host. With `draft`, a
    decode pass verifies `guesses` tokens that the draft yielded in as many passes, and accepts them all. Each
    sequence ends after `ends_after` new tokens, where that is given. With `remembers` the ids of the first call are
    returned by every other one: a cheat.
    """

    def __init__(
        self,
        backend: FakeHost,
        weight_bytes: float,
        *,
        draft: FakeModel | None = None,
        guesses: int = 3,
        ends_after: int | None = None,
        remembers: bool = False,
        **figures: Any,
    ) -> None:
        super().__init__(backend, weight_bytes, **figures)
        self.draft = draft
        self.guesses = guesses if draft is not None else 0
        self.ends_after = ends_after
        self.remembers = remembers
        self._remembered: list[list[int]] | None = None
        self.around: Callable[[Callable[[], Any], Pass], Any] = lambda step, _: step()
        """Runs a pass; a watch puts its own here."""

    def generate(self, *, input_ids: Sequence[Sequence[int]], max_new_tokens: int = 16) -> list[list[int]]:
        """Prompt and new ids of every sequence."""
        if self.remembers and self._remembered is not None:
            return self._remembered
        self.reset()
        self.batch, self.context = len(input_ids), 0
        rows = [list(one) for one in input_ids]
        prompt = len(rows[0])
        most = max_new_tokens if self.ends_after is None else min(self.ends_after, max_new_tokens)
        chosen = self.around(self.step, Pass(rows=len(rows), positions=prompt))
        self.context = prompt
        while True:
            yielded = 1 + (self.guesses if len(rows[0]) > prompt else 0)
            for number in range(min(yielded, most - (len(rows[0]) - prompt))):
                for row, one in zip(rows, chosen.item(), strict=True):
                    row.append(3 + (one + number + row[0]) % 1000)
            if len(rows[0]) - prompt >= most:
                break
            if self.draft is not None:
                self.draft.context = self.context
                for _ in range(self.guesses):
                    self.around(self.draft.step, Pass(rows=len(rows), positions=1, is_draft=True))
            chosen = self.around(self.step, Pass(rows=len(rows), positions=1 + self.guesses))
            self.context += self.guesses
        if self.ends_after is not None and self.ends_after <= max_new_tokens:
            for row in rows:
                row[-1] = END
        self._remembered = rows
        return rows


class FakeGenerationWatch:
    """See `GenerationWatch`; the model tells its passes by itself."""

    notes: tuple[str, ...] = ()

    def __init__(
        self,
        request: GenerationRequest,
        drain: Callable[[], None],
        *,
        trace: Callable[[TraceRequest], Trace | None],
        clock: Callable[[], float],
    ) -> None:
        self._model: FakeGenerator = request.model
        self._arguments = dict(request.arguments)
        self._drain, self._trace, self._clock = drain, trace, clock
        self._before = self._model.around
        self._model.around = self._around
        self._passes: list[Pass] = []
        self._first_token_s: float | None = None
        self._is_looking = False
        self._traced: list[tuple[int, Traffic]] = []
        self._draft: Traffic | None = None
        self._surveyor: Any = None

    def close(self) -> None:
        """Give the model its passes back."""
        self._model.around = self._before

    def _around(self, step: Callable[[], Any], what: Pass) -> Any:
        is_prefill = not self._passes
        if self._is_looking and not is_prefill and (self._draft is None if what.is_draft else len(self._traced) < 3):
            trace = self._trace(TraceRequest(step=step, model=self._model.draft if what.is_draft else self._model))
            output = trace.outputs if trace is not None else step()
            if trace is not None and what.is_draft:
                self._draft = trace.traffic
            elif trace is not None:
                self._traced.append((len(self._traced) + 1, trace.traffic))
                self._surveyor = self._surveyor or trace.surveyor
        else:
            output = step()
        if is_prefill:
            self._drain()
            self._first_token_s = self._clock()
        self._passes.append(what)
        return output

    def run(self) -> Run:
        """One run, from drained to drained."""
        return self._called(self._arguments)

    def _called(self, arguments: dict[str, Any]) -> Run:
        self._passes, self._first_token_s = [], None
        self._drain()
        start = self._clock()
        rows = self._model.generate(**arguments)
        self._drain()
        end = self._clock()
        prompt = len(arguments["input_ids"][0])
        ids = new_ids(rows, prompt, ends=frozenset({END}), padding=None)
        return Run(
            start_s=start,
            first_token_s=self._first_token_s,
            end_s=end,
            prefill=tuple(self._passes[:1]),
            decode=tuple(self._passes[1:]),
            prompt_tokens=prompt,
            context=float(prompt),
            ids=ids,
            is_ended_early=all(one[-1] == END for one in ids),
            outputs=rows,
        )

    def look(self) -> Look:
        """One run with its first decode passes traced."""
        self._is_looking = True
        try:
            run = self.run()
        finally:
            self._is_looking = False
        device = f"fake:{self._model.device_index}"
        return Look(
            run=run, traced=tuple(self._traced), draft=self._draft, device_ids=(device,), surveyor=self._surveyor
        )

    def with_other_prompt(self, shift: int, *, is_whole: bool = False) -> OtherPrompt:
        """One run from other ids; a fake has no logits to compare."""
        other = [[one + shift for one in row] for row in self._arguments["input_ids"]]
        run = self._called({**self._arguments, "input_ids": other})
        why = "a fake device computes no logits"
        return OtherPrompt(run=run, reason=why, overwritten=Overwritten(fate="unknown", reason=why))
