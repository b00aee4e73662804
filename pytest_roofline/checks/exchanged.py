"""What the court is told of a server's answers: counts, and what they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One prompt asked twice: the second answer was the same text, in a tenth of the time or less."""

    tokens: int
    fresh_s: float
    repeated_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The answered and the failed requests of one measurement, of each user or in aggregate."""

    is_aggregate: bool
    answered: int
    slack: float | None = None
    """By how much all together may exceed the stated ceiling before it is in doubt; None where none was stated."""
    asked_by: str | None = None
    """The argument of the call that gave the budget; None where marker or options did, or nobody."""
    failed: int = 0
    failures: tuple[str, ...] = ()
    """In words, each once."""
    chunks: int = 0
    tokens: int | None = None
    """By usage, else by what was counted; None where nobody counts."""
    possible_by_logprobs: int | None = None
    """Tokens with a log probability and those that have none; None where there are ids, or neither."""
    most_tokens_by_text: int | None = None
    """Tokens that the text can hold, a byte each; None where ids or log probabilities count, or nobody does."""
    contradicted: int = 0
    """Answers whose usage has more tokens of prompt and completion than in total."""
    draft_ratio: float | None = None
    """By how much a request exceeds what one token per pass allows, where nobody said how many a pass yields."""
    paced_share: float = 0.0
    """Part of that request's time in pauses that are long enough for a pass."""
    are_drafts_said: bool = False
    """Whether the server itself says that it drafts."""
    is_held_back: bool = False
    """Whether the output came all together, so that no pace can be seen in it."""
    replay: Replay | None = None
    are_prompts_fresh: bool = True
