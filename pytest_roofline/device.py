"""What a device is: the facts that a backend could find out about it, each one optional but its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One card as its vendor's document describes it. Dense peaks only, FLOP/s by dtype name."""

    id: str = ""
    """Short name to type: ``h100-sxm``; empty for a spec made on the spot."""
    name: str
    vendor: str | None = None
    device_names: tuple[str, ...] = ()
    """What drivers call this card, each one whole: a name matches entirely or not at all."""
    aliases: tuple[str, ...] = ()
    """Short names that people type: ``4090``."""
    is_unified_memory: bool = False
    memory_bytes: float
    has_memory_options: bool = False
    """Whether it is sold with less memory too: then `memory_bytes` is the most it has."""
    bandwidth_bytes_per_s: float
    dense_peak_flops_per_s: dict[str, float] = field(default_factory=dict)
    sparse_peak_flops_per_s: dict[str, float] = field(default_factory=dict)
    """Peaks with structured sparsity; never used as a roof, kept so that nobody enters them as dense."""
    last_level_cache_bytes: float | None = None
    link_bidirectional_bytes_per_s: float | None = None
    """NVLink, Infinity Fabric or what else joins cards: all links of one card, both directions together, as printed."""
    host_link_bytes_per_s: float | None = None
    """PCIe to the host, one direction."""
    compute_units: float | None = None
    """Streaming multiprocessors, compute units, Xe cores or GPU cores; a fraction of them for a MIG slice."""
    mig_memory_slices: int | None = None
    """Into how many slices MIG cuts the memory, 8 or 4; None for a card without MIG."""
    source: str
    """Where the bandwidth comes from, in words."""
    sources: dict[str, str] = field(default_factory=dict)
    """The source of every number, by its key: ``dense_peak_flops_per_s.bfloat16``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that measures: a GPU, a slice of one, or the CPU of this process.

    `None` means "not known", never zero. `last_level_cache_bytes` is what the driver or the kernel *reports*;
    the cache knee that decides anything is measured by the probe. `driver_bandwidth_bytes_per_s` is bus width
    times memory clock as the driver gives them, hence the datasheet rate of this very card.
    """

    name: str
    kind: str
    """The framework's device type: ``cpu``, ``cuda``, ``xpu``, ``mps``, ``fake`` ..."""
    index: int = 0
    backend: str
    """Name of the backend that drives it: ``cpu``, ``torch``, ``jax``, ``fake``."""
    vendor: str | None = None
    uuid: str | None = None
    memory_bytes: float | None = None
    spec: Spec | None = None
    contradicted_spec: Spec | None = None
    """The sheet of its name where the driver says that the card is a faster one: no figure of it is used."""
    is_unified_memory: bool | None = None
    mig: str | None = None
    last_level_cache_bytes: float | None = None
    bus_width_bits: int | None = None
    memory_clock_hz: float | None = None
    driver_bandwidth_bytes_per_s: float | None = None
    is_overclocked: bool | None = None
    compute_units: int | None = None
    """Streaming multiprocessors or compute units of a GPU; cores this process may use on a CPU."""
    driver: str | None = None
    has_ecc: bool | None = None
    notes: tuple[str, ...] = ()
    """What could not be read, and why: each line cost one field, never the run."""

    @property
    def id(self) -> str:
        """The name a user types: ``cpu``, ``cuda:0``."""
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def key(self) -> str:
        """What the device is locked and remembered by: its uuid where it has one."""
        return self.uuid or f"{self.id}-{self.name}"

    @property
    def is_cpu(self) -> bool:
        """Whether this is the processor of this process, which measures but is no accelerator."""
        return self.kind == "cpu"

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "id": self.id,
            "name": self.name,
            "backend": self.backend,
            "vendor": self.vendor,
            "uuid": self.uuid,
            "memory_bytes": self.memory_bytes,
            "spec": self.spec.name if self.spec else None,
            "is_unified_memory": self.is_unified_memory,
            "mig": self.mig,
            "last_level_cache_bytes": self.last_level_cache_bytes,
            "driver_bandwidth_bytes_per_s": self.driver_bandwidth_bytes_per_s,
            "compute_units": self.compute_units,
            "driver": self.driver,
            "notes": list(self.notes),
        }


Pattern = Literal["read", "copy", "write", "triad"]
PATTERNS: tuple[Pattern, ...] = ("read", "copy", "write", "triad")
