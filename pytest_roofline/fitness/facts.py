"""What was found out about a runner, and what a complaint about it is. Plain records: nothing here is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_roofline.conditions import Conditions, Stretch
from pytest_roofline.device import Device
from pytest_roofline.samples import median

Grade = Literal["blocks judging", "widens intervals", "worth knowing"]
GRADES: tuple[Grade, ...] = ("blocks judging", "widens intervals", "worth knowing")
"""The gravest first. Only the first one makes a runner unfit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing that is wrong with a runner: how grave, in words with figures, and what to do about it."""

    name: str
    grade: Grade
    message: str
    remedy: str
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "name": self.name,
            "grade": self.grade,
            "message": self.message,
            "remedy": self.remedy,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortProbes:
    """Short probes of the read bandwidth, one after the other over some seconds."""

    rates_bytes_per_s: tuple[float, ...]
    elapsed_s: float

    @property
    def usual_bytes_per_s(self) -> float:
        """The median."""
        return median(list(self.rates_bytes_per_s))

    @property
    def range_bytes_per_s(self) -> tuple[float, float]:
        """Between which rates nine tenths of the probes lie: one odd probe in twenty is left out on either side."""
        rates = sorted(self.rates_bytes_per_s)
        cut = len(rates) // 20
        return rates[cut], rates[-1 - cut]

    @property
    def spread(self) -> float:
        """The upper end of that range by the lower one; 1 is a machine that holds still."""
        low, high = self.range_bytes_per_s
        return high / low if low > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerFacts:
    """Everything that was found out; None and () where it was not, or not looked for."""

    wanted: str | None = None
    """The device that was asked for."""
    problem: str | None = None
    """Why there is no such device."""
    device: Device | None = None
    conditions: Conditions = field(default_factory=Conditions)
    held: Stretch | None = None
    """What held while the probes ran."""
    short_probes: ShortProbes | None = None
    best_bytes_per_s: float | None = None
    sheet_bytes_per_s: float | None = None
    """The bandwidth that is printed for this device."""
    cache_bytes: float | None = None
    """The measured knee of the cache, else the last-level cache as reported."""
    is_knee_measured: bool = False
    probe_problem: str | None = None
    """Why the probe gave no figure."""
    probe_doubts: tuple[str, ...] = ()
    free_memory_bytes: float | None = None
    step_threads: int | None = None
    """How many threads a framework will use: as it says, as the environment says, else one per core of the affinity."""
    threads_source: str = ""
    huge_pages: str | None = None
    is_virtual: bool | None = None
    is_container: bool = False
    has_nvidia_driver: bool = False
    """Whether the kernel has NVIDIA's driver: a container can be without the libraries that go with it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that slow a step down or watch it; others are not kept."""
    is_debug_python: bool = False
    is_debug_torch: bool | None = None
    is_watching_gradients: bool = False
    """Whether torch's anomaly detection is on in this process."""
    is_quick: bool = False

    @property
    def is_cpu(self) -> bool:
        """Whether the device is the processor."""
        return self.device is not None and self.device.is_cpu

    @property
    def is_nvidia(self) -> bool:
        """Whether ``nvidia-smi`` is the tool for this device."""
        return self.device is not None and self.device.vendor == "NVIDIA" and self.device.kind == "cuda"

    @property
    def card(self) -> str:
        """The device as ``nvidia-smi -i`` takes it."""
        if self.device is None:
            return "0"
        return self.device.uuid or str(self.device.index)
