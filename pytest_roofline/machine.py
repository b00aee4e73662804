"""What a model is predicted on: one device, or several alike, by their figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_roofline.errors import RooflineUsageError

# Which units a product can run in. Quantized operands: the fastest that a device has, since a kernel may unpack them;
# a device without FP8, or with slower int8, computes in 16 bits. Plain operands: their own, else the next.
_FASTEST_OF = {
    "float4": ("float4", "float8", "bfloat16", "float16", "float32"),
    "float8": ("float8", "bfloat16", "float16", "float32"),
    "int4": ("int4", "int8", "bfloat16", "float16", "float32"),
    "int8": ("int8", "bfloat16", "float16", "float32"),
}
_FIRST_OF = {
    "bfloat16": ("bfloat16", "float16", "float32"),
    "float16": ("float16", "bfloat16", "float32"),
    "float32": ("float32",),
    "float64": ("float64",),
}


def fastest_of(dtype: str) -> tuple[str, ...]:
    """The dtypes that products of operands in `dtype` may run in: of quantized ones several, else that one alone."""
    return _FASTEST_OF.get(dtype, (dtype,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One device, or `ranks` alike that hold a model together; every figure with where it comes from."""

    name: str
    bandwidth_bytes_per_s: float
    bandwidth_source: str
    peak_flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """Dense peaks by dtype."""
    peak_sources: Mapping[str, str] = field(default_factory=dict)
    given_peak_flops_per_s: float | None = None
    """One peak for whatever dtype, in place of all others."""
    memory_bytes: float | None = None
    memory_source: str | None = None
    most_memory_bytes: float | None = None
    """What the memory may hold where `memory_bytes` is rounded: a "12 GB" card has 12 GiB; None: no more than that."""
    is_unified_memory: bool = False
    ranks: int = 1
    link_bytes_per_s: float | None = None
    """Between ranks, per direction."""
    link_source: str | None = None
    link_latency_s: float = 0.0
    """Of one all-reduce."""
    spill_bytes_per_s: float | None = None
    """The path that weights outside the device's memory are read through."""
    spill_source: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth_bytes_per_s < math.inf:
            raise RooflineUsageError(
                f"{self.name}: the bandwidth is {self.bandwidth_bytes_per_s} bytes/s; a positive one is needed"
            )
        if self.ranks < 1:
            raise RooflineUsageError(f"{self.name}: {self.ranks} ranks; 1 or more are needed")

    @property
    def peak_word(self) -> str:
        """The peak of all ranks together, in words: ``peak``, or ``(2 x peak)``."""
        return "peak" if self.ranks == 1 else f"({self.ranks} x peak)"

    def peak(self, dtype: str) -> tuple[float, str, str] | None:
        """FLOP/s for products of `dtype`, its source, and the dtype that they run in; None when none is known."""
        if self.given_peak_flops_per_s is not None:
            return self.given_peak_flops_per_s, "given: --peak", dtype
        peaks = self.peak_flops_per_s
        known = [name for name in _FASTEST_OF.get(dtype) or _FIRST_OF.get(dtype, (dtype,)) if name in peaks]
        if not known:
            return None
        runs_in = max(known, key=lambda name: peaks[name]) if dtype in _FASTEST_OF else known[0]
        return peaks[runs_in], self.peak_sources.get(runs_in, self.name), runs_in

    @property
    def largest_peak_flops_per_s(self) -> float | None:
        """Of any dtype: no product is faster, whatever the kernel makes of its operands."""
        if self.given_peak_flops_per_s is not None:
            return self.given_peak_flops_per_s
        return max(self.peak_flops_per_s.values(), default=None)

    def holds(self, needed_bytes: float) -> bool:
        """Whether the memory may hold so much, the printed size read as GiB where it is printed."""
        return self.memory_bytes is not None and needed_bytes <= max(self.memory_bytes, self.most_memory_bytes or 0.0)
