"""What a device's own counter saw move through its memory while passes ran: records only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_roofline.roofline import Interval

Place = Literal["one device", "several devices", "unknown"]
"""Where the memory is that a pass touches, as a trace saw it: a counter sees one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Bytes of `passes` passes between two readings of the counter, what else of ours ran there taken off.

    `moved_bytes` holds everything that the counter leaves open: its steps, the age of a reading, its calibration.
    It counts what anybody moved, reads and writes; so there may be more than the passes moved, and never less.
    """

    passes: float
    moved_bytes: Interval
    span_s: float
    """Between the two readings, by the private clock."""
    source: str
    """Which counter, as text."""
    is_exact: bool = False
    """What ran of this process beside the passes is known: no reset, no code of the test."""
    place: Place = "unknown"

    @property
    def least_bytes_per_pass(self) -> float:
        """At least so much moved per pass, if nobody else moved any."""
        return self.moved_bytes.low / self.passes

    @property
    def most_bytes_per_pass(self) -> float:
        """No pass can have moved more than that."""
        return self.moved_bytes.high / self.passes
