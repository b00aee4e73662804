"""The place of a measurement: a device, the backend that drives it, its probe, its limit, and what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_roofline.checks.evidence import MEASURED_SLACK, Clocks, Evidence, Identity, Limit
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.machine import fastest_of
from pytest_roofline.probe import Probe
from pytest_roofline.protocol import Backend, Conditions
from pytest_roofline.result import Fraction, explain_fraction
from pytest_roofline.roofline import Ceiling, Interval, mixed_bytes_per_s
from pytest_roofline.ruler import Ruler
from pytest_roofline.settings import Settings, matches
from pytest_roofline.traffic import Traffic
from pytest_roofline.verdict import Verdict

CPU_COMPUTE_INTENSITY = 2.0
ACCELERATOR_COMPUTE_INTENSITY = 20.0
"""Below this many FLOP per byte a pass is memory-bound on any device of the kind, and no peak is measured."""

CLEAR_EXCESS = 1.05
"""A probe that a cache may have helped by more than this is no witness of what the card is."""

_USABLE_DTYPES = {
    "float64": ("float64",),
    "float32": ("float32", "tf32"),
    "bfloat16": ("bfloat16", "float16"),
    "float16": ("bfloat16", "float16"),
}
"""In which dtypes a device may multiply operands of a dtype; of narrower ones any peak is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Device, backend, probe and limit; `backends` is every backend that has the device."""

    device: Device
    backend: Backend
    backends: Sequence[Backend]
    probe: Probe
    limit: Limit

    def ruler(self, traffic: Traffic) -> Ruler:
        """The quick probe for this traffic's mix, with the thread setting of the framework under test."""
        return Ruler(
            self.device,
            self.backends,
            self.probe,
            written_share=traffic.written_share,
            threads=self.backend.threads(self.device),
        )

    def best_of_all(self) -> BestOfAll:
        """What an accusation without a sheet has to beat: every pattern, with every core the process may use."""
        return BestOfAll(self)

    def ceiling(
        self,
        traffic: Traffic,
        *,
        batch: int = 1,
        tokens_per_pass: float = 1.0,
        is_hot: bool = False,
        is_prefill: bool = False,
    ) -> Ceiling:
        """The ceiling by the session's probe. A peak is measured only where compute may bound the pass."""
        if is_hot:
            rate, source = self.probe.cache_bytes_per_s, "cache"
        else:
            rate, source = mixed_bytes_per_s(self.probe.rates, traffic.written_share), _pattern_name(traffic)
        peak = peak_source = None
        if traffic.flops_per_pass and (is_prefill or self._may_be_compute_bound(traffic)):
            peak, dtype = self._peak(traffic.dtype or "float32")
            peak_source = f"measured {dtype} matrix product"
        return Ceiling(
            traffic=traffic,
            bandwidth_bytes_per_s=rate,
            bandwidth_source=source,
            peak_flops_per_s=peak,
            peak_source=peak_source,
            batch=batch,
            tokens_per_pass=tokens_per_pass,
        )

    def _peak(self, dtype: str) -> tuple[float, str]:
        """The fastest product of these operands: quantized ones are unpacked where their own units are slower."""
        peaks: list[tuple[float, str]] = []
        refusal: RooflineUsageError | None = None
        for runs_in in fastest_of(dtype):
            try:
                peaks.append((self.probe.peak_flops_per_s(runs_in), runs_in))
            except RooflineUsageError as error:
                refusal = refusal or error
        if refusal is not None and not peaks:
            raise refusal
        return max(peaks)

    def _may_be_compute_bound(self, traffic: Traffic) -> bool:
        intensity = traffic.arithmetic_intensity
        if intensity is None:  # no bytes at all
            return True
        return intensity > (CPU_COMPUTE_INTENSITY if self.device.is_cpu else ACCELERATOR_COMPUTE_INTENSITY)

    def limit_beside(self, rulers_bytes_per_s: Sequence[float]) -> Limit:
        """The limit; where the probes beside the blocks exceed a sheet, that sheet is wrong and they count instead."""
        fastest = max(rulers_bytes_per_s, default=0.0)
        if self.limit.is_measured or fastest <= self.limit.with_slack_bytes_per_s:
            return self.limit
        return Limit(
            bytes_per_s=max(fastest, self.probe.best_bytes_per_s),
            slack=MEASURED_SLACK,
            source=f"the probes of this measurement, which exceed {self.limit.source}",
            is_measured=True,
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the probe cannot be trusted; empty when it can."""
        return () if self.probe.is_trusted else self.probe.doubts or ("it did not say why",)

    @property
    def identity(self) -> Identity | None:
        """What name, driver and probe say of the memory; None where nothing is printed, and for a CPU.

        The cores of a processor need not reach what its memory can do, so a probe of theirs is no witness.
        """
        device = self.device
        spec = device.spec or device.contradicted_spec
        sheet = spec.bandwidth_bytes_per_s if spec is not None and not device.is_overclocked else None
        driver = device.driver_bandwidth_bytes_per_s or _driver_rate(device)
        is_clear = self.probe.is_trusted and self.probe.excess <= CLEAR_EXCESS
        if device.is_cpu or (sheet is None and driver is None):
            return None
        return Identity(
            sheet_bytes_per_s=sheet,
            sheet_name=spec.name if spec is not None and sheet is not None else "",
            driver_bytes_per_s=driver,
            probe_bytes_per_s=self.probe.best_bytes_per_s if is_clear else None,
        )

    def peak_limit_flops_per_s(self, ceiling: Ceiling) -> float | None:
        """The largest dense peak of any dtype that these operands may run in: by the sheet, else measured."""
        peaks = self.device.spec.dense_peak_flops_per_s if self.device.spec is not None else {}
        if not peaks:
            return ceiling.peak_flops_per_s
        usable = _USABLE_DTYPES.get(ceiling.traffic.dtype or "", tuple(peaks))
        return max((peaks[dtype] for dtype in usable if dtype in peaks), default=max(peaks.values()))

    @property
    def is_peak_limit_measured(self) -> bool:
        """Whether that figure is only a measurement."""
        return self.device.spec is None or not self.device.spec.dense_peak_flops_per_s


class BestOfAll:
    """Quick probes of all four patterns; `measure` gives the largest."""

    def __init__(self, bench: Bench) -> None:
        self._rulers = [
            Ruler(bench.device, bench.backends, bench.probe, written_share=share, threads=None)
            for share in (0.0, 1 / 3, 1 / 2, 1.0)
        ]

    def __enter__(self) -> BestOfAll:
        return self

    def __exit__(self, *exc: object) -> None:
        for ruler in self._rulers:
            ruler.close()

    def measure(self) -> float:
        """Bytes per second of the fastest pattern, now."""
        return max(ruler.measure() for ruler in self._rulers)


class HotGauge:
    """The ruler of a kernel that is judged against the cache: the probe's own cache rate."""

    def __init__(self, probe: Probe) -> None:
        self._rate = probe.cache_bytes_per_s

    def __enter__(self) -> HotGauge:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is held."""

    def measure(self) -> float:
        """Bytes per second from cache, as the session's probe found it."""
        return self._rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What a test asks for on one device, and a note where a figure is only reported there."""

    at_least: float | None
    at_most: float | None
    note: str | None = None


def budgets_for(settings: Settings, device: Device) -> Budgets:
    """Resolve the settings' budgets for a device.

    On a CPU that neither an entry of the budget nor the device setting names, they are reported, not judged.
    """
    at_least = settings.at_least.for_device(device) if settings.at_least else None
    at_most = settings.at_most.for_device(device) if settings.at_most else None
    is_named = settings.device is not None and matches(settings.device, device)
    if settings.at_least is not None and at_least is not None and not (is_named or settings.at_least.judges(device)):
        note = f"at_least={at_least:g} is reported, not judged: this is the CPU and no entry names it"
        return Budgets(at_least=None, at_most=None, note=note)
    return Budgets(at_least=at_least, at_most=at_most)


def fraction_of(evidence: Evidence, verdict: Verdict, step_s: float | None) -> Fraction:
    """The fraction of a verdict, with the figures behind it; NaN, and undecided, where none was measured."""
    if verdict.fraction is None or verdict.bounds is None:
        return Fraction(math.nan, Interval(low=0.0, high=math.inf), lambda: "no fraction was measured")
    value, bounds, ceiling = verdict.fraction, verdict.bounds, evidence.ceiling
    unit = "calls/s" if evidence.kind == "kernel" else "tok/s"
    return Fraction(value, bounds, lambda: explain_fraction(value, ceiling, step_s, bounds, unit))


def mbu_of(device: Device, traffic: Traffic | None, step_s: float | None) -> float | None:
    """Model bandwidth utilization: of the datasheet's bandwidth; None where no sheet is known."""
    sheet = device.driver_bandwidth_bytes_per_s or (device.spec.bandwidth_bytes_per_s if device.spec else None)
    if sheet is None or traffic is None or not step_s:
        return None
    return traffic.bytes_per_pass / step_s / sheet


def _pattern_name(traffic: Traffic) -> str:
    share = traffic.written_share
    if share < 0.02:
        return "read"
    if share > 0.98:
        return "write"
    return "copy" if abs(share - 0.5) < 0.02 else "mixed"


_SETTINGS = ("application clocks setting", "sync boost")
"""Clocks that somebody set hold for the probe as well: they are no throttling."""


def clocks_of(before: Conditions, after: Conditions, device: Device) -> Clocks | None:
    """What the device admits of throttling at either end; None when it admits none.

    The clocks of an end without a reason do not count: an idle device lowers them too.
    """
    reasons: list[str] = []
    compute: list[float] = []
    memory: list[float] = []
    for end in (before, after):
        held = [reason for reason in end.throttle_reasons if reason not in _SETTINGS]
        if not held:
            continue
        reasons += held
        if end.clock_hz and end.max_clock_hz:
            compute.append(end.clock_hz / end.max_clock_hz)
        if end.memory_clock_hz and device.memory_clock_hz:
            memory.append(end.memory_clock_hz / device.memory_clock_hz)
    if not reasons:
        return None
    return Clocks(
        compute_share=min(compute, default=None),
        memory_share=min(memory, default=None),
        reasons=tuple(dict.fromkeys(reasons)),
    )


def _driver_rate(device: Device) -> float | None:
    """Bus width x clock where the backend dropped it for a larger data sheet; two transfers fall on a clock."""
    if device.mig is not None or device.is_unified_memory or not device.bus_width_bits or not device.memory_clock_hz:
        return None
    return device.bus_width_bits / 8 * device.memory_clock_hz * 2


def neighbours_share(before: Conditions, after: Conditions, elapsed_s: float, cores: int | None) -> float | None:
    """Part of the cores that other processes used in between; None where the system does not say."""
    figures = (before.machine_busy_s, after.machine_busy_s, before.process_busy_s, after.process_busy_s)
    if None in figures or not cores or elapsed_s <= 0:
        return None
    machine_before, machine_after, own_before, own_after = (figure or 0.0 for figure in figures)
    others_s = (machine_after - machine_before) - (own_after - own_before)
    return min(1.0, max(0.0, others_s / (elapsed_s * cores)))
