"""What the answers of a server amount to together: latencies, rates per user and in aggregate, and how many at once.

Pure arithmetic over the ledgers of requests.

::

    TTFT        first output - sending                         of each request
    TPOT        (last - first) / (tokens - 1)                  of each request; the rate per user is its inverse
    aggregate   tokens of all answered requests / (last output - first sending)
    at once     time of all requests together / time in which there was at least one

A percentile is the smallest measured value that so many of them do not exceed (nearest rank).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.roofline import Interval
from pytest_roofline.samples import median, median_interval
from pytest_roofline.streaming import ONE_EACH, Exchange, percentile

SHARES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))


def overlap(spans: Sequence[tuple[float, float]]) -> float:
    """How many of these spans lay over each other, by the mean over the time in which there was any; 0 for none."""
    together = sum(stop - start for start, stop in spans)
    covered_s, until = 0.0, float("-inf")
    for start, stop in sorted(spans):
        covered_s += max(0.0, stop - max(start, until))
        until = max(until, stop)
    return together / covered_s if covered_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFigures:
    """All requests of one measurement. Failed ones are counted, and in no other figure."""

    exchanges: tuple[Exchange, ...]
    asked_at_once: int
    """Requests that the client kept under way."""
    least_token_s: float = 0.0
    """What a token takes at least, where that is known: output that follows sooner had been waiting on the way."""

    @property
    def answered(self) -> tuple[Exchange, ...]:
        """Those that came to their end."""
        return tuple(one for one in self.exchanges if one.is_answered)

    @property
    def failed(self) -> tuple[Exchange, ...]:
        """Those that did not."""
        return tuple(one for one in self.exchanges if not one.is_answered)

    @property
    def window_s(self) -> float:
        """From the first sending to the last output of an answered request."""
        answered = self.answered
        return max(one.end_s for one in answered) - min(one.start_s for one in answered) if answered else 0.0

    @property
    def tokens(self) -> int | None:
        """Output tokens of all answered requests, reasoning included; None where one of them has no count."""
        counts = [one.tokens for one in self.answered]
        return None if None in counts or not counts else sum(count for count in counts if count is not None)

    @property
    def possible_tokens(self) -> int | None:
        """What was seen of them as ids or log probabilities, and may be unseen; None where a request sent neither."""
        counts = [one.possible_tokens for one in self.answered]
        return None if None in counts or not counts else sum(count for count in counts if count is not None)

    @property
    def are_ids_seen(self) -> bool:
        """Whether that count is of ids, rather than of log probabilities."""
        return all(one.ids is not None for one in self.answered)

    @property
    def tokens_per_s(self) -> float | None:
        """In aggregate; None without a count of tokens."""
        return self.tokens / self.window_s if self.tokens and self.window_s > 0 else None

    @property
    def tpots_s(self) -> list[float]:
        """Of every answered request that has one."""
        found = (one.tpot_behind(self.least_token_s) for one in self.answered)
        return [tpot for tpot in found if tpot is not None and tpot > 0]

    @property
    def tpot_s(self) -> float | None:
        """The median request's."""
        return median(self.tpots_s) if self.tpots_s else None

    @property
    def tpot_interval_s(self) -> Interval | None:
        """Holds the median of requests with 95 % (order statistics); of under six requests it is all of them.

        Its upper end is that of the fewest tokens that can have come in that time.
        """
        found = (one.slowest_tpot(self.least_token_s) for one in self.answered)
        slowest = [tpot for tpot in found if tpot is not None and tpot > 0]
        if not self.tpots_s or not slowest:
            return None
        return Interval(low=median_interval(self.tpots_s).low, high=median_interval(slowest).high)

    @property
    def ttft_s(self) -> float | None:
        """The median request's."""
        return percentile([one.ttft_s for one in self.answered if one.ttft_s is not None], 0.5)

    @property
    def at_once(self) -> float:
        """Requests under way, as the client saw it."""
        return overlap([(one.start_s, one.end_s) for one in self.answered])

    @property
    def decoding_at_once(self) -> float:
        """Requests that were given output, from their first to their last."""
        return overlap([(one.first_s, one.end_s) for one in self.answered if one.first_s is not None])

    @property
    def context(self) -> float:
        """Tokens in a sequence's cache, by the mean over its answer: the prompt, and half of the output."""
        lengths = [one.context_tokens for one in self.answered]
        return sum(lengths) / len(lengths) if lengths else 0.0

    @property
    def tokens_per_chunk(self) -> float | None:
        """Mean tokens of an event with output."""
        chunks = sum(len(one.arrivals) for one in self.answered)
        return self.tokens / chunks if self.tokens and chunks else None

    @property
    def ended_early(self) -> int:
        """Answers that came to an end of their own before the tokens that were asked for."""
        return sum(
            one.asked_tokens is not None and one.tokens is not None and one.tokens < one.asked_tokens
            for one in self.answered
        )

    @property
    def cached_share(self) -> float | None:
        """Part of all prompt tokens that the server took from a prefix cache; None where it does not say."""
        told = [one.usage for one in self.answered if one.usage.cached_tokens is not None and one.usage.prompt_tokens]
        prompt = sum(usage.prompt_tokens or 0 for usage in told)
        return sum(usage.cached_tokens or 0 for usage in told) / prompt if prompt else None

    @property
    def most_tokens_by_text(self) -> int | None:
        """Tokens that all text can hold; None where a request has ids or log probabilities, or no count of bytes."""
        most = [one.most_tokens_by_text for one in self.answered]
        return None if None in most or not most else sum(count for count in most if count is not None)

    @property
    def drafted(self) -> tuple[int, int]:
        """Tokens that drafts proposed and those that were accepted, where the server says so; 0 where it does not."""
        usages = [one.usage for one in self.answered]
        return sum(one.drafted_tokens or 0 for one in usages), sum(one.accepted_tokens or 0 for one in usages)

    @property
    def said_tokens_per_pass(self) -> float | None:
        """Tokens of a decode pass by what the server says of its drafts; the first token is the prompt's."""
        tokens, answered = self.tokens, len(self.answered)
        drafted, accepted = self.drafted
        passes = 0 if tokens is None else tokens - answered - accepted
        return (tokens - answered) / passes if tokens is not None and drafted and passes > 0 else None

    def fastest(self, least_tokens: int) -> Exchange | None:
        """The request with the most tokens per closed second, of those with so many tokens; None where there is none.

        The time is closed: from sending, so that output which was held back and came at once is not too fast.
        """
        counted = [one for one in self.answered if (one.tokens or 0) >= least_tokens and one.closed_s > 0]
        return max(counted, key=lambda one: (one.tokens or 0) / one.closed_s, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        answered = self.answered
        reasons: dict[str, int] = {}
        for one in answered:
            reasons[one.finish_reason or "none"] = reasons.get(one.finish_reason or "none", 0) + 1
        chunks = self.tokens_per_chunk
        gaps = _percentiles([gap for one in answered for gap in one.gaps_s])
        return {
            "requests": len(self.exchanges),
            "failed": len(self.failed),
            "failures": list(dict.fromkeys(one.error or "no output" for one in self.failed))[:8],
            "finish_reasons": reasons,
            "ended_early": self.ended_early,
            "asked_at_once": self.asked_at_once,
            "at_once": self.at_once,
            "decoding_at_once": self.decoding_at_once,
            "window_s": self.window_s,
            "tokens": self.tokens,
            "reasoning_tokens": sum(one.usage.reasoning_tokens or 0 for one in answered),
            "hidden_reasoning_tokens": sum(one.hidden_tokens for one in answered),
            "prompt_tokens": sum(one.usage.prompt_tokens or 0 for one in answered),
            "cached_prompt_share": self.cached_share,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_user": 1 / self.tpot_s if self.tpot_s else None,
            "tokens_per_chunk": chunks,
            "ttft_s": _percentiles([one.ttft_s for one in answered]),
            "time_to_useful_answer_s": _percentiles([one.time_to_useful_s for one in answered]),
            "tpot_s": _percentiles([one.tpot_behind(self.least_token_s) for one in answered]),
            "inter_chunk_s": gaps,
            "itl_s": gaps if chunks is not None and abs(chunks - 1) <= ONE_EACH else None,
            "exchanges": [_exchange_record(one, self.least_token_s) for one in self.exchanges],
        }


def _exchange_record(one: Exchange, least_token_s: float) -> dict[str, Any]:
    """One request, raw; no text of it."""
    return {
        "start_s": one.start_s,
        "ttft_s": one.ttft_s,
        "tpot_s": one.tpot_behind(least_token_s),
        "closed_s": one.closed_s,
        "tokens": one.tokens,
        "events": len(one.arrivals),
        "finish_reason": one.finish_reason,
        "error": one.error,
    }


def _percentiles(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return {name: percentile(known, share) for name, share in SHARES}
