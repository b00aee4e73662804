"""The ledger of `model.generate()`: its passes, its new ids, its first token.

One run has a *prefill* (every pass up to the first new token) and *decode passes* (every pass of the model after it).
Passes of a draft model are kept apart. A pass computes logits for each position that it is given, so no run can yield
more new tokens than its passes had positions: speculative decoding verifies several in one pass, and is no exception.
Pure arithmetic: no framework, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.residency import Surveyor
from pytest_roofline.traffic import Traffic

PROMPTS = ("input_ids", "inputs", "inputs_embeds", "input_features", "input_values", "pixel_values")
"""Names under which `generate` takes what it starts from."""


UNTRIED = Overwritten(fate="unknown", reason="no second decode pass ran")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """What the caller asked for: ``model.generate(**arguments)``."""

    model: Any
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One trip through the weights of the model, or of its draft."""

    rows: int | None
    """Sequences computed, beams and finished ones among them; None where the arguments do not show it."""
    positions: int | None
    """Positions of each that logits were computed for."""
    is_draft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of `generate`, from drained to drained and forced; moments in seconds of the tool's clock."""

    start_s: float
    first_token_s: float | None
    """When the logits of the first new token had been computed; None where nothing showed it."""
    end_s: float
    prefill: tuple[Pass, ...]
    decode: tuple[Pass, ...]
    """After the first token, drafts among them."""
    prompt_tokens: int
    """Columns of the returned sequences that are prompt."""
    context: float
    """Tokens that attention looks at before the first decode pass: the mean over sequences, padding left out."""
    ids: tuple[tuple[int, ...], ...]
    """New ids of each returned sequence, up to its first end-of-sequence (which a pass computed, so it counts)."""
    first_tokens: int = 1
    """New tokens of each sequence that the prefill yielded: more than one where it verified guesses as well."""
    is_ended_early: bool = False
    """Every sequence ended itself."""
    outputs: Any = field(default=None, compare=False)

    @property
    def tokens(self) -> int:
        """New tokens of all returned sequences."""
        return sum(len(one) for one in self.ids)

    @property
    def decode_tokens(self) -> int:
        """Those that decode passes yielded; all of them where the first is not told apart."""
        return sum(max(0, len(one) - self._not_timed) for one in self.ids)

    @property
    def decode_passes(self) -> int:
        """Passes of the model itself after the first token; all of them where the first token is not told apart."""
        return sum(not one.is_draft for one in self._timed)

    @property
    def draft_passes(self) -> int:
        """Passes of a draft meanwhile."""
        return sum(one.is_draft for one in self._timed)

    @property
    def _not_timed(self) -> int:
        return 0 if self.first_token_s is None else self.first_tokens

    @property
    def _timed(self) -> tuple[Pass, ...]:
        return (*self.prefill, *self.decode) if self.first_token_s is None else self.decode

    @property
    def decode_s(self) -> float:
        """From the first token's logits to the end."""
        return self.end_s - (self.start_s if self.first_token_s is None else self.first_token_s)

    @property
    def ttft_s(self) -> float | None:
        """From the call to the first new token's logits."""
        return None if self.first_token_s is None else self.first_token_s - self.start_s

    @property
    def step_s(self) -> float | None:
        """Time of a decode pass, TPOT where each yields one token; None without any."""
        return self.decode_s / self.decode_passes if self.decode_passes else None

    @property
    def growth_per_pass(self) -> float:
        """By how many tokens a sequence grows in a decode pass: 1, or more where several are verified at once."""
        longest = max((len(one) for one in self.ids), default=0) - self._not_timed
        return max(1.0, longest / self.decode_passes) if self.decode_passes else 1.0

    @property
    def positions_per_pass(self) -> int:
        """Positions that a decode pass of the model computes, by the mean; 1 where passes hide them."""
        sizes = [one.positions or 1 for one in self._timed if not one.is_draft]
        return max(1, round(sum(sizes) / len(sizes))) if sizes else 1

    @property
    def mean_context(self) -> float:
        """Context of the decode passes, their mean.

        Before the first it is the prompt, and what the prefill yielded but for the token that the pass is given.
        """
        return self.context + max(0, self._not_timed - 1) + self.growth_per_pass * max(0, self.decode_passes - 1) / 2

    @property
    def possible_tokens(self) -> int | None:
        """The most new tokens that the passes seen can have yielded; None where a pass hides its positions."""
        prefill = [one for one in self.prefill if not one.is_draft]
        decode = [one for one in self.decode if not one.is_draft]
        possible = 0
        for one in decode:
            if one.rows is None or one.positions is None:
                return None
            possible += one.rows * one.positions
        if prefill:
            if any(one.rows is None or one.positions is None for one in prefill):
                return None
            # Of the prompt only the last position yields a token; positions beyond it are guesses that are verified.
            rows = max(one.rows or 0 for one in prefill)
            beyond = sum(one.positions or 0 for one in prefill) - self.prompt_tokens
            possible += rows * max(1, beyond + 1)
        return possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One untimed run: what its passes moved, and what they returned."""

    run: Run
    traced: tuple[tuple[int, Traffic], ...] = ()
    """Decode passes by their number, from 1, and their traffic."""
    draft: Traffic | None = None
    """Traffic of one pass of the draft."""
    device_ids: tuple[str, ...] = ()
    bytes_by_device: tuple[tuple[str, float], ...] = ()
    """Where what a pass had to read lay before it."""
    surveyor: Surveyor | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPrompt:
    """The same call with another prompt of the same shape, untimed; stopped after its first decode passes, or whole."""

    run: Run | None = None
    """None where it was stopped."""
    elements: int = 0
    """Logits of the first decode pass that were compared."""
    is_identical: bool = False
    """All of them, bit for bit, and not merely one number everywhere."""
    reason: str = ""
    """Why nothing was compared."""
    overwritten: Overwritten = UNTRIED
    """What became of the logits of a pass that were overwritten before the next one."""


class GenerationWatch(Protocol):
    """Calls `generate` and watches its passes; everything that it changed is put back when it is closed.

    A backend may have a method ``watch_generation(request, drain) -> GenerationWatch``; it is no part of `Backend`.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """What the caller should know of the call itself."""
        ...

    def look(self) -> Look:
        """One untimed run with passes traced."""
        ...

    def run(self) -> Run:
        """One run, from drained to drained and forced."""
        ...

    def with_other_prompt(self, shift: int, *, is_whole: bool = False) -> OtherPrompt:
        """One untimed run from another prompt; never raises."""
        ...

    def close(self) -> None:
        """Put back what was changed; does nothing the second time."""
        ...


WatchGeneration = Callable[[GenerationRequest, Callable[[], None]], GenerationWatch]


def generation_request(model: Any, inputs: Any, kwargs: Mapping[str, Any]) -> GenerationRequest:
    """Check what can be checked before anything runs; RooflineUsageError for what cannot be measured."""
    name = type(model).__name__
    if is_llama(model):
        return _llama_request(model, inputs, kwargs)
    if not callable(getattr(model, "generate", None)):
        raise RooflineUsageError(
            f"roofline.generate needs a model with a generate method, and a {name} has none: give a transformers "
            "model, or measure a step of yours with roofline.decode"
        )
    arguments = dict(kwargs)
    if isinstance(inputs, Mapping):
        given = dict(inputs)
        twice = sorted(set(given) & set(arguments))
        if twice:
            raise RooflineUsageError(f"{', '.join(twice)} is given twice: in the inputs and as an argument")
        arguments.update(given)
    elif isinstance(inputs, (str, bytes)) or (isinstance(inputs, (list, tuple)) and not hasattr(inputs, "shape")):
        raise RooflineUsageError(
            f"inputs is a {type(inputs).__name__}; give what the tokenizer returns with return_tensors= "
            "(a tensor of ids, or a mapping with input_ids and attention_mask)"
        )
    elif inputs is not None:
        if "inputs" in arguments or "input_ids" in arguments:
            raise RooflineUsageError("the prompt is given twice: as inputs and as an argument")
        arguments["inputs"] = inputs
    if all(arguments.get(one) is None for one in PROMPTS):
        raise RooflineUsageError(
            "roofline.generate needs a prompt: inputs= (ids, or what the tokenizer returns); nothing to start from is "
            "given"
        )
    most = _setting(arguments, "max_new_tokens")
    if isinstance(most, int) and most <= 1:
        raise no_decode_pass(f"max_new_tokens is {most}")
    beams = _setting(arguments, "num_beams")
    if arguments.get("streamer") is not None and isinstance(beams, int) and beams > 1:
        raise RooflineUsageError(
            f"a streamer cannot follow beam search (num_beams is {beams}): drop streamer=, or set num_beams=1"
        )
    return GenerationRequest(model=model, arguments=arguments)


def is_llama(model: Any) -> bool:
    """Whether this is a `Llama` of llama-cpp-python, or of a class made from it."""
    return any(one.__name__ == "Llama" and one.__module__.split(".")[0] == "llama_cpp" for one in type(model).__mro__)


def _llama_request(model: Any, inputs: Any, kwargs: Mapping[str, Any]) -> GenerationRequest:
    """The arguments of its `create_completion`, or of `create_chat_completion` where there are messages."""
    arguments = dict(kwargs)
    if arguments.get("stream"):
        raise RooflineUsageError("a streamed completion is not run by the call that returns it: drop stream=")
    if inputs is not None:
        is_chat = isinstance(inputs, (list, tuple)) and bool(inputs) and isinstance(inputs[0], Mapping)
        name = "messages" if is_chat else "prompt"
        if name in arguments:
            raise RooflineUsageError(f"the prompt is given twice: as inputs and as {name}=")
        arguments[name] = list(inputs) if isinstance(inputs, (list, tuple)) else inputs
    given = [arguments[name] for name in ("prompt", "messages") if arguments.get(name) is not None]
    if len(given) != 1 or not isinstance(given[0], (str, list)) or not given[0]:
        raise RooflineUsageError(
            "roofline.generate of a Llama needs a prompt (a text, or a list of ids) or the messages of a chat (a list "
            "of mappings with role and content)"
        )
    most = arguments.get("max_tokens")
    if isinstance(most, int) and most == 1:
        raise no_decode_pass(f"max_tokens is {most}")
    return GenerationRequest(model=model, arguments=arguments)


def no_decode_pass(found: str) -> RooflineUsageError:
    """The error of a call that only prefills."""
    return RooflineUsageError(
        f"{found}: the prefill yields the first token, so no decode pass runs and there is nothing to hold against the "
        "memory roofline; ask for more tokens, or measure the prompt with roofline.prefill"
    )


def _setting(arguments: Mapping[str, Any], name: str) -> Any:
    given = arguments.get(name)
    return given if given is not None else getattr(arguments.get("generation_config"), name, None)


def new_ids(
    rows: Sequence[Sequence[int]], prompt_tokens: int, *, ends: frozenset[int], padding: int | None
) -> tuple[tuple[int, ...], ...]:
    """The ids of each sequence behind the prompt, up to and with its first end; padding behind it left out.

    A sequence may also end without such an id (a stop string): then it is padded to the length of the others. If
    every sequence ended in padding it would be none, for the last one to end stands at the end of its row.
    """
    found = []
    for row in rows:
        new = tuple(row[prompt_tokens:])
        at = next((index for index, one in enumerate(new) if one in ends), None)
        found.append(new if at is None else new[: at + 1])
    if padding is None or len(found) < 2:
        return tuple(found)
    widest = max(len(row) for row in rows) - prompt_tokens
    stripped = [_stripped(one, padding) if one and one[-1] not in ends else one for one in found]
    return tuple(stripped) if max(len(one) for one in stripped) == widest else tuple(found)


def _stripped(ids: tuple[int, ...], padding: int) -> tuple[int, ...]:
    end = len(ids)
    while end and ids[end - 1] == padding:
        end -= 1
    return ids[:end]
