"""Calls `generate` of a torch module and tells what ran: passes, first token, new ids; `generation` has the ledger.

Nothing of transformers is imported: its `generate` is called as the caller would, with one logits processor more that
changes nothing, and shows when the first token's logits are there and how long the prompt is.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch

from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.generation import GenerationRequest, Look, OtherPrompt, Run, new_ids
from pytest_roofline.models.generation_looks import PassProbe, PassTracer, SeenEnough
from pytest_roofline.models.generation_passes import PassRecorder
from pytest_roofline.protocol import Trace, TraceRequest
from pytest_roofline.witness import Rerun

CACHES = ("cache", "past_key_values")
IDS = frozenset({torch.int32, torch.int64})


class TorchGenerationWatch:
    """See `GenerationWatch`. A cache that the caller passes is copied for every run, untimed."""

    def __init__(
        self,
        request: GenerationRequest,
        drain: Callable[[], None],
        *,
        trace: Callable[[TraceRequest], Trace | None],
        overwritten: Callable[[Rerun], Overwritten],
        force: Callable[[Any], Any],
        clock: Callable[[], float],
    ) -> None:
        if not isinstance(request.model, torch.nn.Module):
            raise RooflineUsageError(
                "roofline.generate watches the passes of a torch.nn.Module, and this model is a "
                f"{type(request.model).__name__}: measure its step with roofline.decode, or the whole with "
                "roofline.audit"
            )
        inner = vars(request.model).get("_modules", {}).get("_orig_mod")
        self._notes: list[str] = []
        if inner is not None:
            self._notes.append(
                "torch.compile(model).generate runs the module as it was before compiling: set "
                "model.forward = torch.compile(model.forward), or call model.compile()"
            )
        self._model: Any = request.model if inner is None else inner
        self._arguments = dict(request.arguments)
        self._drain, self._trace, self._force, self._clock = drain, trace, force, clock
        self._overwritten = overwritten
        self._generate = self._model.generate  # before the recorder wraps it for calls from within
        self._takes_processor = _takes_processor(self._model, self._generate)
        self._recorder = PassRecorder(self._model, self._arguments.get("assistant_model"))
        self._ends, self._padding = _special_ids(self._model, self._arguments)
        self._prompt_tokens: int | None = None
        self._first_token_s: float | None = None
        self._prefill_passes = 0
        self._first_passes = 0
        self._first_tokens: int | None = None
        self._looked: PassTracer | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the caller should know of the call itself."""
        return tuple(self._notes)

    def close(self) -> None:
        """Put back what was changed."""
        self._recorder.close()

    # -- runs ---------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """One run, from drained to drained and forced."""
        return self._called(self._arguments)

    def _called(self, given: dict[str, Any]) -> Run:
        arguments = self._prepared(given)
        self._prompt_tokens = self._first_token_s = self._first_tokens = None
        self._recorder.begin()
        self._drain()
        start = self._clock()
        try:
            outputs = self._generate(**arguments)
        except TypeError as error:
            if not self._takes_processor or "logits_processor" not in str(error):
                raise
            self._takes_processor = False  # a generate of somebody else's, which takes any name and then does not
            return self._called(given)
        self._drain()
        self._force(outputs)
        end = self._clock()
        return self._ledger(given, outputs, start, end)

    def _prepared(self, given: dict[str, Any]) -> dict[str, Any]:
        arguments = dict(given)
        for name in CACHES:
            if hasattr(arguments.get(name), "get_seq_length"):
                arguments[name] = copy.deepcopy(arguments[name])  # or each run would begin where the last one ended
        if self._takes_processor:
            before = arguments.get("logits_processor")
            made = sys.modules["transformers"].LogitsProcessorList if before is None else type(before)
            arguments["logits_processor"] = made([*(before or ()), _FirstToken(self._see_selection)])
        return arguments

    def _see_selection(self, ids: torch.Tensor) -> None:
        """A token is about to be chosen, unless it is a draft's, or a guess before any pass."""
        passes = sum(not one.is_draft for one in self._recorder.passes)
        if self._recorder.is_drafting or not passes:
            return
        if self._first_token_s is not None:
            if self._first_tokens is None and passes > self._first_passes:
                self._first_tokens = int(ids.shape[-1]) - (self._prompt_tokens or 0)
            return
        self._first_passes = passes
        self._drain()
        self._first_token_s = self._clock()
        self._prompt_tokens = int(ids.shape[-1])
        self._prefill_passes = len(self._recorder.passes)

    def _ledger(self, given: dict[str, Any], outputs: Any, start: float, end: float) -> Run:
        sequences = _sequences(outputs)
        passes = tuple(self._recorder.passes)
        prefill = self._prefill_passes if self._first_token_s is not None else 0
        if prefill == 0 and passes:
            prefill = next((at + 1 for at, one in enumerate(passes) if not one.is_draft), len(passes))
        prompt = _prompt(given)
        is_seen = self._prompt_tokens is not None
        prompt_tokens = self._prompt_tokens or 0
        if not is_seen and prompt is not None:
            prompt_tokens = 1 if _is_encoder_decoder(self._model) else int(prompt.shape[1])
        rows = sequences.tolist()
        if not is_seen and len(rows[0]) <= prompt_tokens:
            prompt_tokens = 0  # only what is new was returned
        ids = new_ids(rows, prompt_tokens, ends=self._ends, padding=self._padding)
        return Run(
            start_s=start,
            first_token_s=self._first_token_s,
            end_s=end,
            prefill=passes[:prefill],
            decode=passes[prefill:],
            prompt_tokens=prompt_tokens,
            context=self._context(given, prompt_tokens),
            ids=ids,
            first_tokens=max(len(one) for one in ids) if self._first_tokens is None else self._first_tokens,
            is_ended_early=all(bool(one) and one[-1] in self._ends for one in ids),
            outputs=sequences,
        )

    def _context(self, given: dict[str, Any], prompt_tokens: int) -> float:
        """Tokens before the first decode pass: by the mask where there is one, so that padding is none."""
        if _is_encoder_decoder(self._model):
            return float(prompt_tokens)
        mask = given.get("attention_mask")
        if isinstance(mask, torch.Tensor) and mask.dim() == 2:
            return float(mask.sum(dim=1).float().mean())
        embedded = given.get("inputs_embeds")
        if isinstance(embedded, torch.Tensor) and embedded.dim() == 3:
            return float(embedded.shape[1])
        return float(prompt_tokens)

    # -- looking ------------------------------------------------------------------------------------------------

    def look(self) -> Look:
        """One untimed run with its first decode passes traced, and one of the draft's."""
        seen = self._looked = PassTracer(self._trace, self._recorder, lambda: self._is_decoding)
        with self._eagerly():
            self._recorder.around = seen.around
            try:
                run = self._called(self._arguments)
            finally:
                self._recorder.around = None
        return Look(
            run=run,
            traced=tuple(seen.decode),
            draft=seen.draft,
            device_ids=seen.device_ids,
            bytes_by_device=seen.bytes_by_device,
            surveyor=seen.surveyor,
            notes=self.notes,
        )

    @property
    def _is_decoding(self) -> bool:
        """Whether the first token is out; without a processor, whether a pass has ended."""
        if self._takes_processor:
            return self._first_token_s is not None
        return any(not one.is_draft for one in self._recorder.passes)

    @contextmanager
    def _eagerly(self) -> Iterator[None]:
        with ExitStack() as stack:
            if "torch._dynamo" in sys.modules:
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(self._recorder.looking())
            yield

    def with_other_prompt(self, shift: int, *, is_whole: bool = False) -> OtherPrompt:
        """One untimed run from another prompt; what it raises is not held against anybody."""
        given = _shifted(self._model, self._arguments, shift)
        if given is None:
            return OtherPrompt(reason="the prompt is not one of plain ids, so another one cannot be made up")
        probe = PassProbe(self._overwritten, self._recorder, self._looked, lambda: self._is_decoding)
        run = None
        try:
            with self._eagerly():
                self._recorder.around = None if is_whole else probe.around
                run = self._called(given)
        except SeenEnough:
            pass
        except Exception as error:  # broad: nobody asked for this prompt, so what it raises is its own business
            return OtherPrompt(reason=f"another prompt raised {type(error).__name__}")
        finally:
            self._recorder.around = None
            self._drain()
        return OtherPrompt(run=run) if is_whole else replace(probe.seen, run=run)


class _FirstToken:
    """A logits processor that changes nothing."""

    def __init__(self, see: Callable[[torch.Tensor], None]) -> None:
        self._see = see

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._see(input_ids)
        return scores

    def __deepcopy__(self, memo: dict[int, Any]) -> _FirstToken:
        return self  # whoever copies the processors of a call still reports to this call


def _takes_processor(model: Any, generate: Callable[..., Any]) -> bool:
    """Whether this is transformers' generate, or one that hands on whatever it is given to it."""
    mixin = getattr(sys.modules.get("transformers"), "GenerationMixin", None)
    if mixin is None or not any(isinstance(one, mixin) for one in model.modules()):
        return False
    try:
        parameters = inspect.signature(generate).parameters
    except (TypeError, ValueError):
        return False
    return "logits_processor" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def _is_encoder_decoder(model: Any) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _special_ids(model: Any, arguments: dict[str, Any]) -> tuple[frozenset[int], int | None]:
    """The ids that end a sequence, and the one that pads it: of the call, of its config, of the model's config."""
    configs = (arguments.get("generation_config"), getattr(model, "generation_config", None))

    def found(name: str) -> list[int]:
        for value in (arguments.get(name), *(getattr(config, name, None) for config in configs)):
            if value is not None:
                listed = value.flatten().tolist() if isinstance(value, torch.Tensor) else value
                return [int(one) for one in (listed if isinstance(listed, (list, tuple, set)) else [listed])]
        return []

    ends, padding = found("eos_token_id"), found("pad_token_id")
    if not padding and ends:
        padding = ends[:1]  # as transformers does
    return frozenset(ends), padding[0] if padding else None


def _sequences(outputs: Any) -> torch.Tensor:
    """The ids that `generate` returned, one row per sequence."""
    found = getattr(outputs, "sequences", outputs)
    if not isinstance(found, torch.Tensor) or found.dtype not in IDS or found.dim() != 2 or not found.numel():
        kind = f"{found.dtype} tensor of {found.dim()} dimensions" if isinstance(found, torch.Tensor) else ""
        raise RooflineUsageError(
            f"generate returned a {kind or type(outputs).__name__}, and tokens are counted from ids: a tensor of "
            "integers of shape (sequences, tokens), or an output with .sequences"
        )
    return found


def _prompt(arguments: dict[str, Any]) -> torch.Tensor | None:
    """The ids of the prompt, where it is one of ids."""
    for name in ("input_ids", "inputs"):
        tensor = arguments.get(name)
        if isinstance(tensor, torch.Tensor) and tensor.dim() == 2 and tensor.dtype in IDS:
            return tensor
    return None


def _shifted(model: Any, arguments: dict[str, Any], shift: int) -> dict[str, Any] | None:
    """The same call with other ids where the prompt is no padding; None where it consists of more than ids."""
    prompt = _prompt(arguments)
    others = ("inputs_embeds", "pixel_values", "input_features", "encoder_outputs", *CACHES)
    if prompt is None or any(arguments.get(name) is not None for name in others):
        return None
    table = getattr(model, "get_input_embeddings", lambda: None)()
    count = getattr(table, "num_embeddings", None)
    if not isinstance(count, int) or count <= shift:
        return None
    mask = arguments.get("attention_mask")
    other = (prompt + shift) % count
    if isinstance(mask, torch.Tensor) and mask.shape == prompt.shape:
        other = torch.where(mask.bool(), other, prompt)
    changed = {key: value for key, value in arguments.items() if key != "streamer"}
    return {**changed, "inputs" if arguments.get("inputs") is not None else "input_ids": other}
