"""What a model is asked for: so many sequences, so far along, so many tokens per pass."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.inventory import Inventory

MOST_TOKENS_PER_PASS = 10_000
"""Of one sequence; trees of drafts have some dozens of branches of some tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A smaller model, or the model's own MTP layers, that proposes `tokens` tokens before each pass."""

    inventory: Inventory
    tokens: int
    is_own: bool = False
    """Whether its weights are part of the model's checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked of a model: so many sequences, so far along, so many tokens per pass."""

    inventory: Inventory
    batch: int = 1
    context: int = 0
    """Tokens already in the KV cache of each sequence."""
    prompt: int | None = None
    tokens_per_pass: float = 1.0
    """Accepted per sequence and pass: over 1 with speculative decoding."""
    draft: Draft | None = None
    offload: float = 0.0
    """Share of the weights that does not lie in the device's memory."""
    is_overlapped: bool = False
    """Whether spilled and local weights are read at the same time; else one after the other."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise RooflineUsageError(f"batch is {self.batch}; it must be 1 or more")
        if self.context < 0:
            raise RooflineUsageError(f"context is {self.context}; it must be 0 or more")
        if self.prompt is not None and self.prompt < 1:
            raise RooflineUsageError(f"prompt is {self.prompt}; it must be 1 or more tokens")
        if not 1 <= self.tokens_per_pass <= MOST_TOKENS_PER_PASS:
            raise RooflineUsageError(
                f"tokens_per_pass is {self.tokens_per_pass:g}: a pass yields a token of the model's own at least, and "
                f"{MOST_TOKENS_PER_PASS:,} are the most that are believed"
            )
        if not 0 <= self.offload <= 1:
            raise RooflineUsageError(f"offload is {self.offload}; a share of the weights from 0 to 1 is needed")
        if self.draft is not None and self.draft.tokens < 1:
            raise RooflineUsageError(f"{self.draft.tokens} draft tokens; 1 or more are needed")
        if self.draft is not None and self.tokens_per_pass > self.draft.tokens + 1:
            raise RooflineUsageError(
                f"tokens_per_pass is {self.tokens_per_pass:g}: {self.draft.tokens} drafted tokens and one of the "
                f"model's own make at most {self.draft.tokens + 1}"
            )

    @property
    def positions(self) -> float:
        """Tokens of one sequence that go through the weights in one pass: those to be verified, accepted or not."""
        return self.draft.tokens + 1.0 if self.draft is not None else max(1.0, self.tokens_per_pass)

    @property
    def kept_context(self) -> int:
        """Tokens that the cache must have room for: the prompt is part of the context."""
        return max(self.context, self.prompt or 0)
