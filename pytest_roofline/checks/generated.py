"""What was seen of the ids of `generate` and of the passes behind them; evidence for `checks.amounts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Replay = Literal["by-prompt", "same-ids", "no", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The run with the fewest positions for its tokens, and what other prompts showed where those are too few.

    *by-prompt*: another prompt of the same shape runs its passes, this one does not. *same-ids*: other prompts gave
    the same ids, without passes either. *no*: they gave others. *unknown*: no other prompt could be tried.
    """

    tokens: int
    possible_tokens: int | None
    """Positions for which passes of the model computed logits; None where a pass hides them."""
    passes: int
    replay: Replay = "unknown"
    prompts: int = 0
    """Other prompts that were tried."""
    traced_passes: int = 0
    """Decode passes of the first run whose bytes were traced."""
    idle_passes: int = 0
    """Those of them that moved next to nothing beside the others, while nothing ran unseen."""
