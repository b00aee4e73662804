"""What a model is predicted on: one device, or several alike, by their figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_roofline.errors import RooflineUsageError

# Which units a product can run in, the fastest first: a device without FP8 computes FP8 weights in 16 bits.
_RUNS_IN = {
    "float4": ("float4", "float8", "bfloat16", "float16", "float32"),
    "float8": ("float8", "bfloat16", "float16", "float32"),
    "int4": ("int4", "int8", "bfloat16", "float16", "float32"),
    "int8": ("int8", "bfloat16", "float16", "float32"),
    "bfloat16": ("bfloat16", "float16", "float32"),
    "float16": ("float16", "bfloat16", "float32"),
    "float32": ("float32",),
    "float64": ("float64",),
}


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

    def peak(self, dtype: str) -> tuple[float, str, str] | None:
        """FLOP/s for products of `dtype`, its source, and the dtype that they run in; None when none is known."""
        if self.given_peak_flops_per_s is not None:
            return self.given_peak_flops_per_s, "given: --peak", dtype
        for runs_in in _RUNS_IN.get(dtype, (dtype,)):
            value = self.peak_flops_per_s.get(runs_in)
            if value is not None:
                return value, self.peak_sources.get(runs_in, self.name), runs_in
        return None
