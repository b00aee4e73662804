"""The ledger of one streamed answer: when what came, and how many tokens it was.

Pure: events come in with the moment at which they were read. Tokens are counted by the server's own ``usage`` and by
the ids or log probabilities that it sends, never by chunks: a chunk may hold many tokens (speculation, a slow reader),
a part of one (a character of several bytes), or none (a role, a keep-alive).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pytest_roofline.errors import one_line

DONE = "[DONE]"
MOST_TOKENS = 10**9
"""No answer has more; a larger figure is no count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the server says that a request took; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """Reasoning included."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one event adds. Characters are of text; `ids` and `logprobs` count tokens, None where none were sent."""

    characters: int = 0
    reasoning_characters: int = 0
    text: str = ""
    ids: int | None = None
    logprobs: int | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    error: str | None = None
    is_done: bool = False

    @property
    def has_output(self) -> bool:
        """Whether something of the answer came: text, hidden or not, or tokens without text."""
        return bool(self.characters or self.reasoning_characters or self.ids or self.logprobs)


def read_delta(data: str, name: str = "") -> Delta:
    """What the data of one event says, of a completion or of a chat; what is no such object is an error in words."""
    if data.strip() == DONE:
        return Delta(is_done=True)
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return Delta(error=f"an event that is no JSON: {one_line(data)}")
    if not isinstance(body, dict):
        return Delta(error=f"an event that is no object: {one_line(data)}")
    problem = body.get("error")
    if problem or name == "error" or body.get("object") == "error":
        said = problem if problem else body
        message = said.get("message") if isinstance(said, dict) else None
        return Delta(error=one_line(str(message or said)))
    delta = Delta(usage=_usage(body))
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return delta  # the last event of many servers has the usage alone
    return _of_choice(choices[0], delta.usage)


def _of_choice(choice: dict[str, Any], usage: Usage | None) -> Delta:
    held: Any = choice.get("delta")
    held = held if isinstance(held, dict) else {}
    shown = _text(choice.get("text")) or _text(held.get("content")) or _text(held.get("refusal"))
    hidden = _text(held.get("reasoning_content")) or _text(held.get("reasoning"))
    calls = held.get("tool_calls")
    called = json.dumps(calls) if calls else ""
    reason = choice.get("finish_reason")
    ids = _length(choice.get("token_ids"))
    return Delta(
        characters=len(shown) + len(called),
        reasoning_characters=len(hidden),
        text=shown + called,
        ids=_length(choice.get("tokens")) if ids is None else ids,
        logprobs=_logprobs(choice.get("logprobs")),
        finish_reason=one_line(reason, 40) if isinstance(reason, str) else None,
        usage=usage,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _length(value: Any) -> int | None:
    if not isinstance(value, list):
        return None
    return len(value) if all(isinstance(one, int) and not isinstance(one, bool) for one in value) else None


def _logprobs(value: Any) -> int | None:
    """Tokens with a log probability: ``content`` of a chat, ``tokens`` of a completion."""
    if not isinstance(value, dict):
        return None
    lists = [value[key] for key in ("content", "tokens") if isinstance(value.get(key), list)]
    return max((len(one) for one in lists), default=None)


def _usage(body: dict[str, Any]) -> Usage | None:
    found = body.get("usage")
    if not isinstance(found, dict):
        return None

    def figure(holder: Any, *names: str) -> int | None:
        for name in names:
            value = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
                return value
        return None

    return Usage(
        prompt_tokens=figure(found, "prompt_tokens", "input_tokens"),
        completion_tokens=figure(found, "completion_tokens", "output_tokens"),
        reasoning_tokens=figure(found.get("completion_tokens_details"), "reasoning_tokens"),
        cached_tokens=figure(found.get("prompt_tokens_details"), "cached_tokens"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One event with output: when it was read, and the tokens in it (None: not known)."""

    at_s: float
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its answer, closed by the last event received. Times are of one private clock."""

    prompt: str
    start_s: float
    """The moment before the request was sent."""
    end_s: float
    """When the last event with output was read, or the request failed."""
    arrivals: tuple[Arrival, ...] = ()
    useful_s: float | None = None
    """When the first text came that is no reasoning."""
    usage: Usage = field(default_factory=Usage)
    ids: int | None = None
    """Ids that were sent; None unless every event with output had them."""
    logprobs: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    text: str = ""
    is_reasoning_shown: bool = False
    """Whether reasoning came as text of its own."""
    asked_tokens: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Whether it came to its end without an error."""
        return self.error is None and bool(self.arrivals)

    @property
    def first_s(self) -> float | None:
        """When the first output was read."""
        return self.arrivals[0].at_s if self.arrivals else None

    @property
    def ttft_s(self) -> float | None:
        """From sending to the first output, hidden reasoning included."""
        return None if self.first_s is None else self.first_s - self.start_s

    @property
    def time_to_useful_s(self) -> float | None:
        """From sending to the first text that is no reasoning; None where there was none."""
        return None if self.useful_s is None else self.useful_s - self.start_s

    @property
    def closed_s(self) -> float:
        """From sending to the last output."""
        return self.end_s - self.start_s

    @property
    def seen_tokens(self) -> int | None:
        """Tokens by ids, else by log probabilities; None where the server sent neither with every output."""
        return self.ids if self.ids is not None else self.logprobs

    @property
    def hidden_tokens(self) -> int:
        """Reasoning that the usage counts and that was not streamed: nobody can have seen its ids."""
        return 0 if self.is_reasoning_shown else self.usage.reasoning_tokens or 0

    @property
    def tokens(self) -> int | None:
        """Tokens that the server claims: by its usage, else by ids or log probabilities; None where nobody counts."""
        return self.usage.completion_tokens if self.usage.completion_tokens is not None else self.seen_tokens

    @property
    def possible_tokens(self) -> int | None:
        """Tokens that were seen, and those that cannot be: hidden reasoning, and the end of the text."""
        seen = self.seen_tokens
        return None if seen is None else seen + self.hidden_tokens + (self.finish_reason != "length")

    @property
    def tpot_s(self) -> float | None:
        """Time per output token: (last - first) / (tokens - 1). None for fewer than two tokens or events.

        Tokens that came together with the first one are not in that time: with known counts they are taken off.
        """
        tokens, first = self.tokens, self.first_s
        if tokens is None or first is None or len(self.arrivals) < 2:
            return None
        with_first = max(1, self.arrivals[0].tokens or 1)
        if with_first <= self.hidden_tokens:
            with_first += self.hidden_tokens  # they came before it, and are not in this time either
        later = tokens - with_first
        return (self.end_s - first) / later if later > 0 else None

    @property
    def gaps_s(self) -> tuple[float, ...]:
        """Times between events with output: per chunk, which is per token only where chunks hold one each."""
        times = [arrival.at_s for arrival in self.arrivals]
        return tuple(later - earlier for earlier, later in pairwise(times))

    @property
    def tokens_per_chunk(self) -> float | None:
        """Mean tokens of an event with output; None where nobody counts."""
        return self.tokens / len(self.arrivals) if self.tokens is not None and self.arrivals else None


class Intake:
    """Takes the events of one answer as they come, and closes them into an `Exchange`."""

    def __init__(self, *, prompt: str, start_s: float, asked_tokens: int | None = None) -> None:
        self._prompt = prompt
        self._start_s = start_s
        self._asked_tokens = asked_tokens
        self._arrivals: list[Arrival] = []
        self._useful_s: float | None = None
        self._ids = self._logprobs = 0
        self._has_ids = self._has_logprobs = True
        self._usages: list[Usage] = []
        self._finish_reason: str | None = None
        self._text: list[str] = []
        self._remarks: dict[str, None] = {}
        self._error: str | None = None
        self._late = 0
        self._is_reasoning_shown = False
        self._counted = 0
        self.is_done = False

    @property
    def has_failed(self) -> bool:
        """Whether an event said that there is no more to come but an error."""
        return self._error is not None

    def take(self, delta: Delta, at_s: float) -> None:
        """One event, read at this moment."""
        if delta.is_done:
            self.is_done = True
            return
        if delta.error is not None:
            self._error = delta.error
            return
        tokens = delta.ids if delta.ids is not None else delta.logprobs
        if delta.usage is not None:
            so_far = delta.usage.completion_tokens
            if tokens is None and so_far is not None and delta.has_output:
                tokens = max(0, so_far - self._counted)  # usage with every chunk, a running sum
            self._counted = so_far if so_far is not None else self._counted
            self._usages.append(delta.usage)
        if delta.has_output:
            if self._finish_reason is not None:
                self._late += 1
            self._arrivals.append(Arrival(at_s=at_s, tokens=tokens))
            self._has_ids &= delta.ids is not None
            self._has_logprobs &= delta.logprobs is not None
            self._text.append(delta.text)
            self._is_reasoning_shown |= delta.reasoning_characters > 0
            if delta.characters and self._useful_s is None:
                self._useful_s = at_s
        self._ids += delta.ids or 0
        self._logprobs += delta.logprobs or 0
        self._finish_reason = delta.finish_reason or self._finish_reason

    def close(self, end_s: float, error: str | None = None) -> Exchange:
        """The answer is over, or failed with this error. An answer without an end of its own was cut."""
        error = self._error or error
        if error is None and not self.is_done and self._finish_reason is None:
            error = "the answer broke off: no finish_reason, and no [DONE]"
        if error is None and not self._arrivals:
            error = "an answer without any output"
        if error is None and not self.is_done:
            self._remarks["answers end without [DONE]"] = None
        if self._late:
            self._remarks["output came after finish_reason"] = None
        return Exchange(
            prompt=self._prompt,
            start_s=self._start_s,
            end_s=self._arrivals[-1].at_s if self._arrivals and error is None else end_s,
            arrivals=tuple(self._arrivals),
            useful_s=self._useful_s,
            usage=self._usage(),
            ids=self._ids if self._has_ids and self._arrivals else None,
            logprobs=self._logprobs if self._has_logprobs and self._arrivals else None,
            finish_reason=self._finish_reason,
            error=None if error is None else one_line(error),
            text="".join(self._text),
            is_reasoning_shown=self._is_reasoning_shown,
            asked_tokens=self._asked_tokens,
            remarks=tuple(self._remarks),
        )

    def _usage(self) -> Usage:
        """The last one of each figure: several are a running sum, and are not added up. Where it falls, the largest."""
        counts = [one.completion_tokens for one in self._usages if one.completion_tokens is not None]
        if any(later < earlier for earlier, later in pairwise(counts)):
            self._remarks["usage falls within an answer: its largest figure is taken"] = None
            completion: int | None = max(counts)
        else:
            completion = counts[-1] if counts else None

        def last(name: str) -> Any:
            return next((value for one in reversed(self._usages) if (value := getattr(one, name)) is not None), None)

        return Usage(
            prompt_tokens=last("prompt_tokens"),
            completion_tokens=completion,
            reasoning_tokens=last("reasoning_tokens"),
            cached_tokens=last("cached_tokens"),
        )


def percentile(values: list[float], share: float) -> float | None:
    """The smallest value that at least this share of all values does not exceed (nearest rank); None of no values.

    Always a value that was measured. Of 4 values p95 and p99 are the largest.
    """
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
