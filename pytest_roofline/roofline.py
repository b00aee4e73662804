"""The roofline: a pass takes at least as long as its slowest resource.

::

    step floor   = max(bytes / bandwidth, FLOPs / peak)                      seconds per pass
                   bytes outside of the device's memory come through the spill path: its time is added (layers one
                   after another), or overlaps that of the memory
    ceiling      = tokens per pass x batch / step floor                      tokens per second
    ridge point  = peak / bandwidth                                          FLOP per byte

(S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.) Pure arithmetic: no device, no framework,
no clock. Two bandwidths are never mixed up: the *ruler* (measured today, gives the fraction) and the *limit* (the
largest credible figure, the only one that may call a result impossible).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.traffic import Traffic

Bound = Literal["memory", "compute", "link", "capacity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bandwidth by access pattern, bytes/s. A copy of n bytes counts 2n, a triad 3n."""

    read_bytes_per_s: float
    copy_bytes_per_s: float
    write_bytes_per_s: float
    triad_bytes_per_s: float

    @property
    def best_bytes_per_s(self) -> float:
        """The largest of the four: no single pattern is an upper bound."""
        return max(self.read_bytes_per_s, self.copy_bytes_per_s, self.write_bytes_per_s, self.triad_bytes_per_s)


def moved_s(memory_s: float, spill_s: float, *, is_overlapped: bool) -> float:
    """Seconds to move what lies in memory and what comes through the spill path: in turn, or at the same time."""
    return max(memory_s, spill_s) if is_overlapped else memory_s + spill_s


def mixed_bytes_per_s(rates: Rates, written_share: float) -> float:
    """The ruler for traffic of which `written_share` (0 to 1) is written.

    Bytes-weighted time: seconds per byte are interpolated linearly between the patterns, whose written shares
    are 0 (read), 1/3 (triad), 1/2 (copy) and 1 (write).
    """
    if not 0.0 <= written_share <= 1.0:
        raise RooflineUsageError(f"written share is {written_share}; it must lie between 0 and 1")
    anchors = (
        (0.0, 1 / rates.read_bytes_per_s),
        (1 / 3, 1 / rates.triad_bytes_per_s),
        (1 / 2, 1 / rates.copy_bytes_per_s),
        (1.0, 1 / rates.write_bytes_per_s),
    )
    for (low, low_cost), (high, high_cost) in pairwise(anchors):
        if written_share <= high:
            weight = (written_share - low) / (high - low)
            return 1 / (low_cost + weight * (high_cost - low_cost))
    return rates.write_bytes_per_s  # pragma: no cover - the last anchor is 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A closed interval; `low` <= `high`."""

    low: float
    high: float

    def clears(self, budget: float) -> bool | None:
        """True: all of it reaches the budget; False: none of it does; None: the budget lies inside."""
        if self.low >= budget:
            return True
        return False if self.high < budget else None


def cache_interval(fraction: float, working_set_bytes: float, knee_bytes: float) -> Interval:
    """Where the true DRAM fraction lies when the caches hold at most `knee_bytes` of a pass.

    Of a working set W at most the knee K can have come from cache, so at least ``W - K`` bytes came from memory
    and the true fraction is between ``f * (1 - K / W)`` and ``f``.
    """
    if working_set_bytes <= 0:
        return Interval(low=0.0, high=fraction)
    from_memory = max(0.0, 1.0 - knee_bytes / working_set_bytes)
    return Interval(low=fraction * from_memory if from_memory else 0.0, high=fraction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most tokens per second that a pass of this traffic can reach, and why.

    `bandwidth_source` and `peak_source` say where the two rates come from. `peak_flops_per_s` is None when no peak
    was measured or known: then only memory bounds the pass, which for batch 1 decode it does.
    """

    traffic: Traffic
    bandwidth_bytes_per_s: float
    bandwidth_source: str
    peak_flops_per_s: float | None = None
    peak_source: str | None = None
    batch: int = 1
    tokens_per_pass: float = 1.0
    spill_bytes_per_s: float | None = None
    """The path that the spilled bytes of the traffic come through; None: they count as the device's own."""
    spill_source: str | None = None
    is_overlapped: bool = False
    """Whether spilled and local bytes are read at the same time; else one after the other."""

    def __post_init__(self) -> None:
        if not self.bandwidth_bytes_per_s > 0:
            raise RooflineUsageError(f"a ceiling needs a positive bandwidth, not {self.bandwidth_bytes_per_s} bytes/s")
        if self.batch < 1:
            raise RooflineUsageError(f"batch is {self.batch}; it must be 1 or more")
        if not self.tokens_per_pass > 0:
            raise RooflineUsageError(f"tokens_per_pass is {self.tokens_per_pass}; it must be positive")
        if self.peak_flops_per_s is not None and not self.peak_flops_per_s > 0:
            raise RooflineUsageError(f"a ceiling needs a positive peak or none, not {self.peak_flops_per_s} FLOP/s")
        if self.spill_bytes_per_s is not None and not self.spill_bytes_per_s > 0:
            raise RooflineUsageError(f"a spill path needs a positive rate, not {self.spill_bytes_per_s} bytes/s")
        if not self.step_s > 0 and math.isfinite(self.bandwidth_bytes_per_s):
            raise RooflineUsageError(
                f"{self.traffic.bytes_per_pass:g} bytes per pass and no peak for its arithmetic: nothing bounds this "
                "pass; give the bytes that it moves, or a peak"
            )

    @property
    def memory_s(self) -> float:
        """Seconds to move the bytes of a pass that lie in the device's memory."""
        traffic = self.traffic
        own = traffic.bytes_per_pass if self.spill_bytes_per_s is None else traffic.resident_bytes_per_pass
        return own / self.bandwidth_bytes_per_s

    @property
    def spill_s(self) -> float:
        """Seconds to move what lies elsewhere through the spill path; 0 where nothing does."""
        return self.traffic.spilled_bytes_per_pass / self.spill_bytes_per_s if self.spill_bytes_per_s else 0.0

    @property
    def moved_s(self) -> float:
        """Seconds to move all of it, in turn or at the same time."""
        return moved_s(self.memory_s, self.spill_s, is_overlapped=self.is_overlapped)

    @property
    def compute_s(self) -> float:
        """Seconds to do the arithmetic of a pass; 0 when either figure is unknown."""
        if self.peak_flops_per_s is None or self.traffic.flops_per_pass is None:
            return 0.0
        return self.traffic.flops_per_pass / self.peak_flops_per_s

    @property
    def step_s(self) -> float:
        """The floor of a pass, in seconds."""
        return max(self.moved_s, self.compute_s)

    def floor_s(self, bandwidth_bytes_per_s: float) -> float:
        """The floor of a pass where the device's memory moves so much at this very minute."""
        memory_s = self.memory_s * self.bandwidth_bytes_per_s / bandwidth_bytes_per_s
        return max(moved_s(memory_s, self.spill_s, is_overlapped=self.is_overlapped), self.compute_s)

    @property
    def bound(self) -> Bound:
        """Which resource sets the floor."""
        if self.compute_s > self.moved_s:
            return "compute"
        return "link" if self.spill_s > self.memory_s else "memory"

    @property
    def ridge_point(self) -> float | None:
        """FLOP per byte at which the two floors meet; None when no peak is known."""
        return None if self.peak_flops_per_s is None else self.peak_flops_per_s / self.bandwidth_bytes_per_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of the whole batch; infinite where nothing bounds it (nothing was measured)."""
        return self.batch * self.tokens_per_pass / self.step_s if self.step_s > 0 else math.inf

    @property
    def tokens_per_s_per_user(self) -> float:
        """Tokens per second of one sequence."""
        return self.tokens_per_s / self.batch

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only, with the key names of ``roofline predict --json``."""
        return {
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s,
            "bandwidth_source": self.bandwidth_source,
            "peak_flops_per_s": self.peak_flops_per_s,
            "batch": self.batch,
            "tokens_per_pass": self.tokens_per_pass,
            "bytes_per_pass": self.traffic.bytes_per_pass,
            "flops_per_pass": self.traffic.flops_per_pass,
            "arithmetic_intensity": self.traffic.arithmetic_intensity,
            "ridge_point": self.ridge_point,
            "bound": self.bound,
            "spill_bytes_per_pass": self.traffic.spilled_bytes_per_pass if self.spill_bytes_per_s else 0.0,
            "spill_bytes_per_s": self.spill_bytes_per_s,
            "spill_source": self.spill_source,
            "spill_s": self.spill_s,
            "is_overlapped": self.is_overlapped,
            "step_floor_s": self.step_s,
            "ceiling_tokens_per_s": self.tokens_per_s,
            "ceiling_tokens_per_s_per_user": self.tokens_per_s_per_user,
        }
