"""Blocks and probes in turns, before anyone is accused without a sheet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternation:
    """One turn of a confrontation: the best of all probes before and after a block, and the block's own rate.

    `block_bytes_per_s` counts only the least bytes that must have come from memory, over closed time.
    """

    probe_before_bytes_per_s: float
    block_bytes_per_s: float
    probe_after_bytes_per_s: float

    def exceeds(self, slack: float) -> bool:
        """Whether the block beats both neighbouring probes by the slack."""
        return self.block_bytes_per_s > slack * max(self.probe_before_bytes_per_s, self.probe_after_bytes_per_s)
