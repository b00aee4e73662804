"""Calls `create_completion` of a llama-cpp-python `Llama` and tells what ran; `generation` has the ledger.

Each pass is a call of its `eval`, each new id comes out of its `generate`: both are listened to on this one object.
llama.cpp counts by itself what it computed, and where it counted less than `eval` was called with, its count holds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

from pytest_roofline.backends.llama_cpp import Counted, LlamaFacts
from pytest_roofline.backends.llama_draft import ABSENT, DraftWatch, batches, put_back
from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.generation import UNTRIED, GenerationRequest, Look, OtherPrompt, Pass, Run
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_seconds

COUNTERS_SLACK = 2
"""llama.cpp says 1 of each kind for none."""
_CHAT = "messages"
_KEPT = ("max_tokens", "temperature", "top_p", "min_p", "typical_p", "top_k", "repeat_penalty", "seed", "stop")
"""Arguments of a chat that a plain completion has too."""
_POISON = 0.5
_PROBED_TOKENS = 3
"""Of another prompt: enough for two decode passes, where none of them verifies a draft's."""
_PROBED_DRAFTED = 24


class LlamaGenerationWatch:
    """See `GenerationWatch`. Its counters and its cached prompt are set back before each run, untimed."""

    def __init__(
        self,
        request: GenerationRequest,
        drain: Callable[[], None],
        *,
        clock: Callable[[], float],
        device_id: str | None = None,
        draft_traffic_at: Callable[[int], Traffic] | None = None,
    ) -> None:
        self._llama = request.model
        self._arguments = dict(request.arguments)
        self._drain, self._clock, self._device_id = drain, clock, device_id
        self._facts = LlamaFacts(self._llama)
        self._eval, self._generate = self._llama.eval, self._llama.generate
        self._passes: list[Pass] = []
        self._prefill_passes = 0
        self._first_token_s: float | None = None
        self._first_tokens: int | None = None
        self._ids: list[int] = []
        self._prompt: list[int] | None = None
        self._notes: dict[str, None] = {}
        self._first_logits: bytes | None = None
        self._before_pass: Callable[[], None] | None = None
        self._after_pass: Callable[[], None] | None = None
        self._draft_traffic_at = draft_traffic_at
        self._held = ExitStack()
        self._draft = DraftWatch(self._llama, self._passes_of_draft)
        self._held.callback(self._draft.close)
        for name, value in (("eval", self._evaluated), ("generate", self._generating)):
            self._held.callback(put_back, self._llama, name, vars(self._llama).get(name, ABSENT))
            setattr(self._llama, name, value)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the caller should know of the call itself."""
        return tuple(self._notes)

    def close(self) -> None:
        """Put back what was replaced."""
        self._held.close()

    # -- listening ----------------------------------------------------------------------------------------------

    def _evaluated(self, tokens: Sequence[int]) -> Any:
        is_prefill = self._first_token_s is None
        if self._before_pass is not None and not is_prefill:
            self._before_pass()
        count = len(tokens)
        result = self._eval(tokens)
        self._passes += [Pass(rows=1, positions=size) for size in batches(self._llama, count)]
        if is_prefill:
            self._facts.synchronize()
            self._drain()
            self._first_token_s, self._prefill_passes = self._clock(), len(self._passes)
        else:
            if self._first_tokens is None:
                self._first_tokens = len(self._ids)
            if self._after_pass is not None:
                self._after_pass()
        return result

    def _passes_of_draft(self, one: Pass) -> None:
        self._passes.append(one)

    def _generating(self, tokens: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[int]:
        if self._prompt is not None:
            raise RooflineUsageError(
                "one call generates several answers (a chat handler that calls functions?), and each has a prefill of "
                "its own: measure a plain completion"
            )
        self._prompt = [int(one) for one in tokens]
        return self._listened(self._generate(tokens, *args, **kwargs))

    def _listened(self, generator: Any) -> Iterator[int]:
        sent: Any = None
        with closing(generator):
            while True:
                try:
                    token = generator.send(sent)
                except StopIteration:
                    return
                self._ids.append(int(token))
                sent = yield token

    # -- runs ---------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """One run, from drained to drained."""
        return self._called(self._arguments)[0]

    def _called(self, arguments: dict[str, Any]) -> tuple[Run, Counted | None]:
        self._passes, self._ids, self._prompt = [], [], None
        self._first_token_s = self._first_tokens = None
        self._prefill_passes = 0
        self._llama.reset()  # else the prompt of the last run would be found in the cache, and hardly be computed
        self._draft.reset()
        self._facts.synchronize()
        self._facts.reset_counters()
        self._drain()
        call = self._llama.create_chat_completion if _CHAT in arguments else self._llama.create_completion
        start = self._clock()
        answer = call(**arguments)
        self._facts.synchronize()
        self._drain()
        end = self._clock()
        counted = self._facts.counted()
        prompt = len(self._prompt or ())
        prefill = self._passes[: self._prefill_passes]
        decode = _as_counted(self._passes[self._prefill_passes :], prefill, counted)
        run = Run(
            start_s=start,
            first_token_s=self._first_token_s,
            end_s=end,
            prefill=tuple(prefill),
            decode=tuple(decode),
            prompt_tokens=prompt,
            context=float(prompt),
            ids=(tuple(self._ids),),
            first_tokens=max(1, len(self._ids) if self._first_tokens is None else self._first_tokens),
            is_ended_early=_finish_reason(answer) != "length",
            outputs=answer,
        )
        return run, counted

    # -- looking ------------------------------------------------------------------------------------------------

    def look(self) -> Look:
        """One untimed run, whose first decode pass shows its logits; the bytes of a pass are the file's."""
        self._first_logits = None
        self._after_pass = self._remember_logits
        try:
            run, counted = self._called(self._arguments)
        finally:
            self._after_pass = None
        self._note(run, counted)
        return Look(
            run=run,
            draft=self._draft_traffic(run),
            device_ids=() if self._device_id is None else (self._device_id,),
            notes=self.notes,
        )

    def _draft_traffic(self, run: Run) -> Traffic | None:
        if self._draft_traffic_at is None or not run.draft_passes:
            return None
        return self._draft_traffic_at(round(run.mean_context))

    def _remember_logits(self) -> None:
        self._after_pass = None
        found = self._facts.logits()
        self._first_logits = None if found is None else bytes(found)

    def _note(self, run: Run, counted: Counted | None) -> None:
        if counted is None:
            self._notes["llama.cpp's own counters are off (no_perf), or not known in this version"] = None
        elif run.decode_passes and counted.decode_s > 0 and not self._draft.is_there:
            # Beside a draft most passes verify several tokens, which llama.cpp counts as those of a prompt.
            self._notes[
                f"llama.cpp itself counted {counted.decoded:,} tokens decoded in {format_seconds(counted.decode_s)}; "
                f"from the first token to the end it was {format_seconds(run.decode_s)}, sampling and Python included"
            ] = None
        if self._draft.is_there and run.decode_passes:
            self._notes[self._draft.words(run, is_counted=self._draft_traffic_at is not None)] = None
        if getattr(self._llama, "cache", None) is not None:
            self._notes["a cache of prompts is set: the time to the first token is not that of a new prompt"] = None
        if getattr(self._llama, "lora_path", None):
            self._notes["the adapter (lora_path) is read too, and is not counted"] = None

    def with_other_prompt(self, shift: int, *, is_whole: bool = False) -> OtherPrompt:
        """One untimed run from other ids; what it raises is not held against anybody."""
        prompt, vocabulary = self._prompt, self._facts.vocabulary
        if not prompt or vocabulary <= shift:
            return OtherPrompt(reason="the ids of the prompt were not seen, so another one cannot be made up")
        # The first one may be the beginning of every sequence.
        other = [*prompt[:1], *((one + shift) % vocabulary for one in prompt[1:])]
        if other == prompt:
            other = [(one + shift) % vocabulary for one in prompt]
        given = {name: self._arguments[name] for name in _KEPT if name in self._arguments}
        if _CHAT not in self._arguments:
            given = {key: value for key, value in self._arguments.items() if key != "prompt"}
        probe = _LogitsProbe(self._facts, self._first_logits)
        if not is_whole:
            self._before_pass, self._after_pass = probe.before_pass, probe.after_pass
            given["max_tokens"] = _PROBED_DRAFTED if self._draft.is_there else _PROBED_TOKENS
        try:
            run, _ = self._called({**given, "prompt": other})
        except Exception as error:  # broad: nobody asked for this prompt, so what it raises is its own business
            return OtherPrompt(reason=f"another prompt raised {type(error).__name__}")
        finally:
            self._before_pass = self._after_pass = None
            self._prompt = prompt
        return OtherPrompt(run=run) if is_whole else probe.seen


class _LogitsProbe:
    """Compares the logits of the first decode pass with the other prompt's, and overwrites them before the next."""

    def __init__(self, facts: LlamaFacts, earlier: bytes | None) -> None:
        self._facts = facts
        self._earlier = earlier
        self._is_overwritten = False
        self.seen = OtherPrompt(reason="another prompt ran no decode pass")

    def before_pass(self) -> None:
        """Overwrite what the pass before has left, once there is one."""
        logits = self._facts.logits() if self.seen.elements and not self._is_overwritten else None
        if logits is not None:
            logits[:] = [_POISON] * len(logits)
            self._is_overwritten = True

    def after_pass(self) -> None:
        """Compare, or see whether what was overwritten has been written again."""
        logits = self._facts.logits()
        if logits is None or self._earlier is None:
            self.seen = OtherPrompt(reason="this version of llama-cpp-python does not show its logits")
        elif not self.seen.elements:
            now = bytes(logits)
            is_one_number = now == now[:4] * len(logits)
            self.seen = OtherPrompt(
                elements=len(logits), is_identical=now == self._earlier and not is_one_number, overwritten=UNTRIED
            )
        elif self._is_overwritten and self.seen.overwritten is UNTRIED:
            is_left = all(one == _POISON for one in logits)
            overwritten = Overwritten(
                fate="untouched" if is_left else "renewed",
                arrays=1,
                size_bytes=float(ctypes.sizeof(logits)),
                is_made_by_step=True,
            )
            self.seen = replace(self.seen, overwritten=overwritten)


def _as_counted(decode: list[Pass], prefill: list[Pass], counted: Counted | None) -> list[Pass]:
    """The decode passes that llama.cpp's own count bears out: all, or fewer where `eval` computed less than it says."""
    if counted is None:
        return decode
    called = sum(one.positions or 0 for one in (*prefill, *decode) if not one.is_draft)
    missing = called - counted.tokens
    if missing <= COUNTERS_SLACK:
        return decode
    kept = list(decode)
    while kept and missing > 0:
        last = kept.pop()
        missing -= 0 if last.is_draft else last.positions or 0
    return kept


def _finish_reason(answer: Any) -> str | None:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    return choices[0].get("finish_reason") if choices else None
