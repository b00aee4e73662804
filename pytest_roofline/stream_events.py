"""What one event of a streamed answer says: text, tokens, an end, or what the whole request took.

Pure. OpenAI's layout of completions and chats, and the places where servers that follow it keep the same things:
reasoning under two names, parts of a content in a list, usage beside a choice, llama.cpp's own ``timings``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import one_line

DONE = "[DONE]"
MOST_TOKENS = 10**9
"""No answer has more; a larger figure is no count."""
_ANSWERS = ("", "message", "error", "data", "completion")
"""Names of events that carry an answer: what has another one and is no JSON keeps the connection alive."""
_BROKEN_ENDS = ("error", "abort", "aborted", "cancelled", "canceled")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the server says that a request took; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """Reasoning included by most servers, see `output_tokens`."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt."""
    total_tokens: int | None = None
    drafted_tokens: int | None = None
    """Proposed by a draft, where the server says so."""
    accepted_tokens: int | None = None
    """Of those."""

    @property
    def output_tokens(self) -> int | None:
        """Everything generated: some servers count reasoning beside the completion, and their total shows it.

        Without a total, reasoning that is more than the completion cannot be in it.
        """
        count, reasoning = self.completion_tokens, self.reasoning_tokens or 0
        if count is None or not reasoning:
            return count
        if not self.total_tokens:
            return count + reasoning if reasoning > count else count
        return count + reasoning if self.total_tokens - (self.prompt_tokens or 0) == count + reasoning else count

    @property
    def is_contradicted(self) -> bool:
        """Whether prompt and completion are more than the total: then one of them was counted in the other."""
        parts = (self.prompt_tokens, self.completion_tokens, self.total_tokens)
        if None in parts:
            return False
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0) > (self.total_tokens or 0) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one event adds. Characters are of text; `ids` and `logprobs` count tokens, None where none were sent."""

    characters: int = 0
    reasoning_characters: int = 0
    text: str = ""
    text_bytes: int = 0
    """Of all text in UTF-8, reasoning included."""
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
    if not data.strip():
        return Delta()
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return Delta() if name not in _ANSWERS else Delta(error=f"an event that is no JSON: {one_line(data)}")
    if not isinstance(body, dict):
        return Delta() if name not in _ANSWERS else Delta(error=f"an event that is no object: {one_line(data)}")
    problem = body.get("error")
    if problem or name == "error" or body.get("object") == "error":
        said = problem if problem else body
        message = said.get("message") if isinstance(said, dict) else None
        return Delta(error=one_line(str(message or said)))
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    usage = _usage(body, choice or {})
    # The last event of many servers has the usage alone.
    return Delta(usage=usage) if choice is None else _of_choice(choice, usage)


def _of_choice(choice: dict[str, Any], usage: Usage | None) -> Delta:
    held: Any = choice.get("delta", choice.get("message"))
    held = held if isinstance(held, dict) else {}
    said, thought = _parts(held.get("content"))
    shown = _parts(choice.get("text"))[0] or said or _parts(held.get("refusal"))[0]
    hidden = next((text for name in _THOUGHTS if (text := _parts(held.get(name))[0])), thought)
    calls = [held[name] for name in ("tool_calls", "function_call") if held.get(name)]
    called = "".join(json.dumps(call) for call in calls)
    reason = choice.get("finish_reason")
    reason = reason.get("type") if isinstance(reason, dict) else reason
    ended = one_line(reason, 40) if isinstance(reason, str) else None
    ids = _length(choice.get("token_ids"))
    return Delta(
        characters=len(shown) + len(called),
        reasoning_characters=len(hidden),
        text=shown + called,
        text_bytes=sum(len(text.encode("utf-8", "replace")) for text in (shown, called, hidden)),
        ids=_length(choice.get("tokens")) if ids is None else ids,
        logprobs=_logprobs(choice.get("logprobs")),
        finish_reason=ended,
        usage=usage,
        error=f"the server gave the answer up: finish_reason {ended}" if ended in _BROKEN_ENDS else None,
    )


def _parts(value: Any) -> tuple[str, str]:
    """Text, and reasoning, of a text or of a list of parts."""
    if isinstance(value, str):
        return value, ""
    shown, hidden = [], []
    for part in value if isinstance(value, list) else ():
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            shown.append(part["text"])
        elif "thinking" in part:
            hidden.append("".join(_flat(part["thinking"])))
    return "".join(shown), "".join(hidden)


def _flat(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value if isinstance(value, list) else ()
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


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


def _usage(body: dict[str, Any], choice: dict[str, Any]) -> Usage | None:
    found = next((one for one in (body.get("usage"), choice.get("usage")) if isinstance(one, dict)), None)
    timings = body.get("timings")
    timings = timings if isinstance(timings, dict) else {}
    if found is None and not timings:
        return None
    completion = _count(found, "completion_tokens", "output_tokens")
    cached = _count(_inside(found, "prompt_tokens_details"), "cached_tokens")
    return Usage(
        prompt_tokens=_count(found, "prompt_tokens", "input_tokens"),
        completion_tokens=_count(timings, "predicted_n") if completion is None else completion,
        reasoning_tokens=_count(_inside(found, "completion_tokens_details"), "reasoning_tokens"),
        cached_tokens=_count(timings, "cache_n") if cached is None else cached,
        total_tokens=_count(found, "total_tokens"),
        drafted_tokens=_count(timings, "draft_n"),
        accepted_tokens=_count(timings, "draft_n_accepted"),
    )


def _inside(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else None


def _count(holder: Any, *names: str) -> int | None:
    """A whole number of tokens under one of these names; some gateways write it as 16.0."""
    for name in names:
        value = _inside(holder, name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
            return value
    return None
