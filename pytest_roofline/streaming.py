"""The ledger of one streamed answer: when what came, and how many tokens it was.

Pure: events come in with the moment at which they were read. Tokens are counted by the server's own ``usage`` and by
the ids or log probabilities that it sends, never by chunks: a chunk may hold many tokens (speculation, a slow reader),
a part of one (a character of several bytes), or none (a role, a keep-alive).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.stream_events import Delta, Usage

ONE_EACH = 0.05
"""Where the mean is so close to one, chunks hold one token each, and a time between chunks is one between tokens."""
TEMPLATE_TOKENS = 1024
"""What a server may put around a prompt (a template, instructions of its own) without being doubted."""


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
    text_bytes: int | None = None
    """Of all text that was sent, reasoning included; None where nobody counted them."""
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
        said = self.usage.output_tokens
        return self.seen_tokens if said is None else said

    @property
    def possible_tokens(self) -> int | None:
        """Tokens that were seen, and those that cannot be: hidden reasoning, and the end of the text."""
        seen = self.seen_tokens
        return None if seen is None else seen + self.hidden_tokens + (self.finish_reason != "length")

    @property
    def most_tokens_by_text(self) -> int | None:
        """Tokens that its text can hold, a byte each, and those that nobody shows; None where ids or the like count."""
        if self.text_bytes is None or self.seen_tokens is not None:
            return None
        return self.text_bytes + self.hidden_tokens

    @property
    def context_tokens(self) -> float:
        """Tokens of the prompt and half of the answer: no prompt has more tokens than bytes, and what is put around."""
        most = len(self.prompt.encode("utf-8", "replace")) + TEMPLATE_TOKENS
        return min(self.usage.prompt_tokens or 0, most) + (self.tokens or 0) / 2

    @property
    def is_prompt_doubtful(self) -> bool:
        """Whether the server counts more tokens of the prompt than it can have."""
        return (self.usage.prompt_tokens or 0) > len(self.prompt.encode("utf-8", "replace")) + TEMPLATE_TOKENS

    @property
    def tpot_s(self) -> float | None:
        """Time per output token: (last - first) / (tokens - 1). None for fewer than two tokens or events."""
        return self.tpot_behind()

    def tpot_behind(self, least_token_s: float = 0.0) -> float | None:
        """The same behind the output that had been waiting when the first was read.

        Tokens that came together with the first one are not in that time, so they are taken off; and so are those right
        behind it that followed each other sooner than they can be made. Where that is all of them, it explains nothing,
        and only what came at one moment is taken off.
        """
        found = self._behind(least_token_s)
        return None if found is None else found[0] / found[1]

    def slowest_tpot(self, least_token_s: float = 0.0) -> float | None:
        """The same with the fewest tokens that can have come in that time.

        Where nobody says how many tokens an event holds, and there are more of them than events, some may have come
        unseen before the first (a parser that hides reasoning): no more than were possible until then.
        """
        found, first_s = self._behind(least_token_s), self.ttft_s
        if found is None or first_s is None:
            return None
        seconds, later, events = found
        is_said = all(arrival.tokens is not None for arrival in self.arrivals)
        if is_said or later <= events * (1 + ONE_EACH) + 1:
            return seconds / later
        unseen = first_s / least_token_s if least_token_s > 0 else float("inf")
        return seconds / max(min(later, events), later - unseen)

    def _behind(self, least_token_s: float) -> tuple[float, int, int] | None:
        """Seconds, tokens and events behind what had been waiting; None without any."""
        tokens, times = self.tokens, [arrival.at_s for arrival in self.arrivals]
        if tokens is None or len(times) < 2:
            return None
        waiting = self._waiting(times, least_token_s)
        if waiting == len(times):
            waiting = self._waiting(times, 0.0)
        later, events = tokens - self._tokens_until(waiting), len(times) - waiting
        return (self.end_s - times[waiting - 1], later, events) if later > 0 and events else None

    @staticmethod
    def _waiting(times: list[float], least_token_s: float) -> int:
        """Leading events that followed each other at once, or sooner than in this time."""
        gaps = (later - earlier for earlier, later in pairwise(times))
        return 1 + next((at for at, gap in enumerate(gaps) if gap > 0 and gap >= least_token_s), len(times) - 1)

    def _tokens_until(self, events: int) -> int:
        """Tokens of the first events, and those that came before them unseen."""
        counts = [arrival.tokens for arrival in self.arrivals[:events]]
        shown = max(1, sum(1 if count is None else count for count in counts))
        is_hidden_among = self.seen_tokens is None and (counts[0] or 0) > self.hidden_tokens
        return shown if is_hidden_among else shown + self.hidden_tokens

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
        self._text_bytes = 0
        self._counts_beside: list[int] = []
        self.is_done = False
        self.has_begun = False
        """Whether anything of a response came, be it its status alone."""

    @property
    def has_failed(self) -> bool:
        """Whether an event said that there is no more to come but an error."""
        return self._error is not None

    def remark(self, text: str) -> None:
        """Something to say of the answer beside its figures."""
        self._remarks[text] = None

    def take(self, delta: Delta, at_s: float) -> None:
        """One event, read at this moment. What comes behind [DONE] reaches no client, and is not counted."""
        if self.is_done:
            if delta.has_output:
                self._remarks["output came after [DONE]: no client reads it, and it is not counted"] = None
            return
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
            self._text_bytes += delta.text_bytes
            if delta.usage is not None and delta.usage.completion_tokens is not None:
                self._counts_beside.append(delta.usage.completion_tokens)
            self._is_reasoning_shown |= delta.reasoning_characters > 0
            if delta.characters and self._useful_s is None:
                self._useful_s = at_s
        self._ids += delta.ids or 0
        self._logprobs += delta.logprobs or 0
        self._finish_reason = delta.finish_reason or self._finish_reason

    def close(self, end_s: float, error: str | None = None) -> Exchange:
        """The answer is over, or failed with this error. An answer without an end of its own was cut."""
        error = self._error or error
        if self._error is None and error is not None and self._arrivals and self._finish_reason is not None:
            self._remarks["connections broke after finish_reason"] = None
            error = None
        if error is None and not self.is_done and self._finish_reason is None:
            error = "the answer broke off: no finish_reason, and no [DONE]"
        if error is None and not self._arrivals:
            counted = self._usage().output_tokens
            error = "an answer without any output" + (
                f", of which usage counts {counted} tokens: reasoning that is not shown may have used them up"
                if counted
                else ""
            )
        if error is None and not self.is_done:
            self._remarks["answers end without [DONE]"] = None
        if self._late:
            self._remarks["output came after finish_reason"] = None
        usage = self._usage()
        seen = self._ids if self._has_ids and self._arrivals else None
        if seen is not None and usage.completion_tokens is not None and seen > usage.completion_tokens + 1:
            self._remarks["more ids came than usage counts: the smaller figure is taken"] = None
        return Exchange(
            prompt=self._prompt,
            start_s=self._start_s,
            end_s=self._arrivals[-1].at_s if self._arrivals and error is None else end_s,
            arrivals=tuple(self._arrivals),
            useful_s=self._useful_s,
            usage=usage,
            ids=seen,
            logprobs=self._logprobs if self._has_logprobs and self._arrivals else None,
            finish_reason=self._finish_reason,
            error=None if error is None else one_line(error),
            text="".join(self._text),
            text_bytes=self._text_bytes,
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
        beside = self._counts_beside
        if len(beside) > 2 and len(beside) == len(self._arrivals) and len(set(beside)) == 1 and beside[0] < len(beside):
            self._remarks["usage is the same in every event, of that event alone it seems: it counts nothing"] = None
            completion = None

        def last(name: str) -> Any:
            return next((value for one in reversed(self._usages) if (value := getattr(one, name)) is not None), None)

        # A total is that of its own moment: the one of an earlier usage does not hold all of the completion.
        with_it = next((one for one in reversed(self._usages) if one.completion_tokens == completion), None)
        return Usage(
            prompt_tokens=last("prompt_tokens"),
            completion_tokens=completion,
            total_tokens=None if with_it is None else with_it.total_tokens,
            **{name: last(name) for name in ("reasoning_tokens", "cached_tokens")},
            **{name: last(name) for name in ("drafted_tokens", "accepted_tokens")},
        )


def percentile(values: list[float], share: float) -> float | None:
    """The smallest value that at least this share of all values does not exceed (nearest rank); None of no values.

    Always a value that was measured. Of 4 values p95 and p99 are the largest.
    """
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
