"""What one pass moves: the bytes it must move, those it moves on top, and its arithmetic.

A *pass* is one trip through the weights. Two figures of bytes are kept apart (they are equal for dense models):

- `least_bytes_per_pass`: what no correct implementation can avoid. Only this one may convict a result of being
  too fast. Rows of an embedding, not its table; the `k` experts of one token, not those of a whole batch.
- `bytes_per_pass`: what this pass is expected to move; the fraction of the ceiling is taken from it.

`extra_bytes_per_pass` (a KV cache concatenated anew, a buffer read whole for a few rows) is traffic that a better
implementation would not have; it is in neither figure, and it is the most useful line of a report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pytest_roofline.errors import RooflineUsageError

DECLARED = "declared"
TRACED = "traced"
COUNTED = "counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes and FLOPs of one pass, with the word of whoever counted them.

    `kv_bytes_per_pass` is the KV cache read at `context` tokens for all `batch` sequences.
    `written_bytes_per_pass` is the compulsory part that is written (new KV rows, logits); it is included in
    `bytes_per_pass`. Write-allocate reads of a CPU cache are counted nowhere.
    """

    bytes_per_pass: float
    least_bytes_per_pass: float
    weight_bytes_per_pass: float | None = None
    kv_bytes_per_pass: float = 0.0
    kv_bytes_per_token: float | None = None
    """Per sequence and per token of context; None when not known."""
    written_bytes_per_pass: float = 0.0
    repeated_bytes_per_pass: float = 0.0
    """Bytes read again within the pass (a draft model run four times); how many of them come from memory, a cache
    decides. In no other figure."""
    spilled_bytes_per_pass: float = 0.0
    """The part of `bytes_per_pass` that lies outside of the device's memory and comes through the spill path."""
    extra_bytes_per_pass: float = 0.0
    extra: tuple[tuple[str, float], ...] = ()
    """Named parts of the extra bytes, largest first: ``("KV cache copied each step", 1.2e9)``."""
    flops_per_pass: float | None = None
    least_flops_per_pass: float | None = None
    """Head once per sequence, causal attention halved; None means `flops_per_pass`."""
    working_set_bytes: float | None = None
    """Distinct bytes that one pass touches; None means `bytes_per_pass`."""
    dtype: str | None = None
    """Name of the operands' dtype where one dominates: ``bfloat16``."""
    batch: int | None = None
    context: int | None = None
    source: str = DECLARED
    is_closed: bool = False
    """Whether a trace accounts for everything that was returned; only then may it contradict a declaration."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("bytes_per_pass", "least_bytes_per_pass", "written_bytes_per_pass", "extra_bytes_per_pass"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise RooflineUsageError(f"traffic: {name} is {value}; it must be a finite number of bytes, 0 or more")
        for name in (
            "flops_per_pass",
            "least_flops_per_pass",
            "weight_bytes_per_pass",
            "kv_bytes_per_pass",
            "kv_bytes_per_token",
            "working_set_bytes",
        ):
            value = getattr(self, name)
            if value is not None and (not math.isfinite(value) or value < 0):
                raise RooflineUsageError(f"traffic: {name} is {value}; it must be a finite number, 0 or more")
        if not 0 <= self.spilled_bytes_per_pass <= self.bytes_per_pass * (1 + 1e-9):
            raise RooflineUsageError(
                f"traffic: spilled_bytes_per_pass is {self.spilled_bytes_per_pass}; it must be a part of the "
                f"{self.bytes_per_pass:g} bytes per pass"
            )
        if self.bytes_per_pass <= 0 and not self.flops_per_pass:
            raise RooflineUsageError(
                f"traffic: {self.bytes_per_pass:g} bytes per pass: a ceiling needs a positive number of bytes "
                "(a decode step reads at least its weights)"
            )

    @property
    def footprint_bytes(self) -> float:
        """The working set: distinct bytes of a pass."""
        return self.bytes_per_pass if self.working_set_bytes is None else self.working_set_bytes

    @property
    def resident_bytes_per_pass(self) -> float:
        """The bytes of a pass that lie in the device's own memory."""
        return max(0.0, self.bytes_per_pass - self.spilled_bytes_per_pass)

    @property
    def written_share(self) -> float:
        """Share of the device's own traffic that is written, 0 to 1."""
        if self.resident_bytes_per_pass <= 0:
            return 0.0
        return min(1.0, self.written_bytes_per_pass / self.resident_bytes_per_pass)

    @property
    def arithmetic_intensity(self) -> float | None:
        """FLOP per byte of a pass; None when the FLOPs are not known."""
        if self.flops_per_pass is None or self.bytes_per_pass <= 0:
            return None
        return self.flops_per_pass / self.bytes_per_pass

    def at_context(self, context: float) -> Traffic:
        """The same pass with the KV cache at another length; unchanged where KV per token is not known."""
        if self.kv_bytes_per_token is None or self.context is None:
            return self
        grown = self.kv_bytes_per_token * (self.batch or 1) * (context - self.context)
        if grown == 0:
            return self
        return replace(
            self,
            bytes_per_pass=self.bytes_per_pass + grown,
            least_bytes_per_pass=self.least_bytes_per_pass + grown,
            kv_bytes_per_pass=self.kv_bytes_per_pass + grown,
            working_set_bytes=None if self.working_set_bytes is None else self.working_set_bytes + grown,
            context=round(context),
        )

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "bytes_per_pass": self.bytes_per_pass,
            "least_bytes_per_pass": self.least_bytes_per_pass,
            "weight_bytes_per_pass": self.weight_bytes_per_pass,
            "kv_bytes_per_pass": self.kv_bytes_per_pass,
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "written_bytes_per_pass": self.written_bytes_per_pass,
            "repeated_bytes_per_pass": self.repeated_bytes_per_pass,
            "spilled_bytes_per_pass": self.spilled_bytes_per_pass,
            "extra_bytes_per_pass": self.extra_bytes_per_pass,
            "extra": [[name, value] for name, value in self.extra],
            "flops_per_pass": self.flops_per_pass,
            "working_set_bytes": self.footprint_bytes,
            "arithmetic_intensity": self.arithmetic_intensity,
            "dtype": self.dtype,
            "batch": self.batch,
            "context": self.context,
            "source": self.source,
            "is_closed": self.is_closed,
            "notes": list(self.notes),
        }


def offloaded(traffic: Traffic, share: float) -> Traffic:
    """The same pass with this share (0 to 1) of its weights outside of the device's memory.

    Where the weights are not known apart, everything but KV cache and writes is taken for them.
    """
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise RooflineUsageError(f"offload is {share!r}; a share of the weights from 0 to 1 is needed")
    weights = traffic.weight_bytes_per_pass
    if weights is None:
        weights = max(0.0, traffic.bytes_per_pass - traffic.kv_bytes_per_pass - traffic.written_bytes_per_pass)
    return replace(traffic, spilled_bytes_per_pass=share * weights)


BLIND_RATIO = 20
"""A trace that saw under a twentieth of what was declared was most likely blind: another thread or library."""


def is_blind(traced: Traffic, declared: Traffic) -> bool:
    """Whether a trace saw next to nothing of what was declared: then it neither confirms nor contradicts it."""
    return declared.bytes_per_pass > BLIND_RATIO * moved_bytes(traced)


def moved_bytes(traced: Traffic) -> float:
    """Everything that a traced pass moved, compulsory or not."""
    seen = max(traced.bytes_per_pass, traced.least_bytes_per_pass)
    return seen + traced.extra_bytes_per_pass + traced.repeated_bytes_per_pass


def declared_traffic(
    bytes_read: float,
    bytes_written: float = 0.0,
    *,
    flops: float | None = None,
    dtype: str | None = None,
    batch: int | None = None,
    context: int | None = None,
) -> Traffic:
    """Take the caller's word: `bytes_read` and `bytes_written` per pass. Zero, negative and NaN are errors."""
    for name, value in (("bytes_read", bytes_read), ("bytes_written", bytes_written)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise RooflineUsageError(f"{name} is {value!r}; it must be a finite number of bytes per pass, 0 or more")
    total = float(bytes_read) + float(bytes_written)
    return Traffic(
        bytes_per_pass=total,
        least_bytes_per_pass=total,
        written_bytes_per_pass=float(bytes_written),
        flops_per_pass=None if not flops else float(flops),
        dtype=dtype,
        batch=batch,
        context=context,
        source=DECLARED,
    )
