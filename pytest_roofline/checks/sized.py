"""What a second step of more bytes took, beside the one that is judged."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.checks.confronted import Alternation


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """Blocks of the larger step, each between two probes where the limit is a measured one."""

    bytes_per_pass: float
    """The least that a pass of the larger step has to move."""
    least_bytes_from_memory: float
    """The part of it that no cache can have served."""
    bytes_ratio: float
    """Of its bytes to those of the step that is judged."""
    turns: tuple[Alternation, ...]
    """`block_bytes_per_s` counts `least_bytes_from_memory`."""

    @property
    def passes_s(self) -> tuple[float, ...]:
        """Closed time of one pass in each turn; 0 where a block took no time at all."""
        return tuple(self.least_bytes_from_memory / turn.block_bytes_per_s for turn in self.turns)
