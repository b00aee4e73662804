"""The place of a measurement: a device, the backend that drives it, its probe, its limit, and what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_roofline.calibration import Calibrated
from pytest_roofline.checks.ceiling import PEAK_SLACK, closed_pass_s, is_above_peak
from pytest_roofline.checks.evidence import MEASURED_SLACK, Clocks, Evidence, Identity, Limit
from pytest_roofline.conditions import Stretch
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.machine import fastest_of
from pytest_roofline.probe import Probe
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.protocol import Backend
from pytest_roofline.result import Fraction, explain_fraction
from pytest_roofline.roofline import Ceiling, Interval, mixed_bytes_per_s
from pytest_roofline.ruler import Ruler
from pytest_roofline.settings import Budget, Settings, matches
from pytest_roofline.traffic import Traffic, offloaded
from pytest_roofline.units import format_bytes, format_bytes_per_s
from pytest_roofline.verdict import Verdict

CPU_COMPUTE_INTENSITY = 2.0
ACCELERATOR_COMPUTE_INTENSITY = 20.0
"""Below this many FLOP per byte a pass is memory-bound on any device of the kind, and no peak is measured."""

CLEAR_EXCESS = 1.05
"""A probe that a cache may have helped by more than this is no witness of what the card is."""

_PEAKS_AGAIN = 5
"""As often as memory and blocks alternate before memory accuses anyone."""
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
    counter: Calibrated | None = None
    """The device's own count of its memory traffic, where it has one that can be relied on."""
    onlooker: Onlooker = NOBODY
    """Who is told how far a measurement is."""

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
        is_overlapped: bool = False,
    ) -> Ceiling:
        """The ceiling by the session's probe. A peak is measured only where compute may bound the pass.

        Where a part of the bytes is spilled, the link to the host is measured too: RooflineUsageError where there is
        none.
        """
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
            spill_bytes_per_s=self.probe.link_bytes_per_s if traffic.spilled_bytes_per_pass else None,
            spill_source="measured from the host to the device" if traffic.spilled_bytes_per_pass else None,
            is_overlapped=is_overlapped,
        )

    def apart(self, elsewhere: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
        """What does not lie in this device's memory: one that it shares with the host is no other place."""
        return tuple((name, size) for name, size in elsewhere if not (self.device.is_unified_memory and name == "cpu"))

    def placed(
        self, traffic: Traffic, offload: float | None, elsewhere: Sequence[tuple[str, float]]
    ) -> tuple[Traffic, tuple[tuple[str, float], ...]]:
        """The traffic with what comes over the link, and the parts for which this device has no path to judge by.

        `offload` is what the caller says, `elsewhere` what a trace saw on other devices.
        """
        if offload is not None:
            return offloaded(traffic, offload), ()
        others = self.apart(elsewhere)
        local = replace(traffic, spilled_bytes_per_pass=0.0) if elsewhere else traffic
        if not others or self.device.is_cpu or any(name != "cpu" for name, _ in others):
            return local, others
        spilled = min(sum(size for _, size in others), traffic.bytes_per_pass)
        spread = replace(traffic, spilled_bytes_per_pass=spilled)
        try:
            return self.ceiling(spread).traffic, ()
        except RooflineUsageError:  # nobody measures the link
            return local, others

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
        """The largest dense peak of any dtype that these operands may run in: by the sheet, or measured if larger.

        A sheet need not know how high a card clocks, nor that it issues two instructions at once.
        """
        return max((peak for peak in (self._printed_peak(ceiling), ceiling.peak_flops_per_s) if peak), default=None)

    def is_peak_limit_measured(self, ceiling: Ceiling) -> bool:
        """Whether that figure is only a measurement: no sheet has one, or it is exceeded by what nobody denies."""
        printed = self._printed_peak(ceiling)
        return printed is None or (ceiling.peak_flops_per_s or 0.0) > PEAK_SLACK * printed

    def with_witnesses(self, evidence: Evidence, held: Stretch) -> Evidence:
        """The evidence with what the probe, the sheet and the device itself say beside it, `held` while it was made."""
        ceiling = evidence.ceiling
        evidence = replace(
            with_conditions(evidence, held, self.device),
            peak_limit_flops_per_s=self.peak_limit_flops_per_s(ceiling) if ceiling is not None else None,
            is_peak_limit_measured=self.is_peak_limit_measured(ceiling) if ceiling is not None else True,
            probe_doubts=self.doubts,
            probe_excess=self.probe.excess,
            identity=self.identity,
        )
        return self._with_peak_again(evidence)

    def _with_peak_again(self, evidence: Evidence) -> Evidence:
        """Before arithmetic accuses anyone the matrix product is measured again, and the fastest one holds.

        A neighbour may have held it down in the only second in which it was measured.
        """
        ceiling, pass_s = evidence.ceiling, closed_pass_s(evidence)
        if ceiling is None or ceiling.peak_flops_per_s is None or not pass_s:
            return evidence
        for _ in range(_PEAKS_AGAIN):
            if not is_above_peak(evidence, pass_s):
                break
            self.probe.measure_peaks_again()
            peak, dtype = self._peak(ceiling.traffic.dtype or "float32")
            ceiling = replace(ceiling, peak_flops_per_s=peak, peak_source=f"measured {dtype} matrix product")
            evidence = replace(
                evidence,
                ceiling=ceiling,
                peak_limit_flops_per_s=self.peak_limit_flops_per_s(ceiling),
                is_peak_limit_measured=self.is_peak_limit_measured(ceiling),
            )
        return evidence

    def _printed_peak(self, ceiling: Ceiling) -> float | None:
        peaks = self.device.spec.dense_peak_flops_per_s if self.device.spec is not None else {}
        if not peaks:
            return None
        usable = _USABLE_DTYPES.get(ceiling.traffic.dtype or "", tuple(peaks))
        return max((peaks[dtype] for dtype in usable if dtype in peaks), default=max(peaks.values()))


def with_conditions(evidence: Evidence, held: Stretch, device: Device) -> Evidence:
    """The evidence with how the device was meanwhile, and who used it besides."""
    return replace(
        evidence,
        neighbours_share=held.neighbours_share,
        steal_share=held.steal_share,
        neighbours=held.neighbours,
        cores=device.compute_units if device.is_cpu else None,
        clocks=Clocks.of(held),
    )


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

    On a CPU that neither an entry of the budget nor the device setting names, they are reported, not judged; nor is an
    `at_least` judged of which no entry fits the device, and a note says so.
    """
    at_least = settings.at_least.for_device(device) if settings.at_least else None
    at_most = settings.at_most.for_device(device) if settings.at_most else None
    is_named = settings.device is not None and matches(settings.device, device)
    if settings.at_least is not None and at_least is not None and not (is_named or settings.at_least.judges(device)):
        note = f"at_least={at_least:g} is reported, not judged: this is the CPU and no entry names it"
        return Budgets(at_least=None, at_most=None, note=note)
    if settings.at_least is not None and settings.at_least.bar_for(device) is None:
        asked = _shown(settings.at_least)
        note = f"at_least={asked} is reported, not judged: no entry fits {device.id} ({device.name})"
        is_judged = settings.at_most is not None and (is_named or settings.at_most.judges(device))
        return Budgets(at_least=None, at_most=at_most if is_judged else None, note=note)
    if at_least is not None and at_most is not None and at_least > at_most:
        places = [
            f"{name}={figure:g} ({bar.place if bar is not None else ''})"
            for name, figure, bar in (
                ("at_least", at_least, settings.at_least.bar_for(device) if settings.at_least else None),
                ("at_most", at_most, settings.at_most.bar_for(device) if settings.at_most else None),
            )
        ]
        raise RooflineUsageError(f"{places[0]} is above {places[1]} on {device.name}, so nothing can pass")
    return Budgets(at_least=at_least, at_most=at_most)


def _shown(budget: Budget) -> str:
    """Its entries as a marker has them, the first three of them."""
    entries = [f"{pattern}: {'none' if figure is None else f'{figure:g}'}" for pattern, figure in budget.by_pattern]
    more = ", ..." if len(entries) > 3 else ""
    return f"{{{', '.join(entries[:3])}{more}}}"


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
    return traffic.resident_bytes_per_pass / step_s / sheet


def spill_remark(ceiling: Ceiling) -> str | None:
    """What comes through the spill path, how fast, and whether the two paths add up; None where nothing does."""
    if not ceiling.spill_bytes_per_s:
        return None
    scheme = (
        "at the same time as the rest (overlapped: the slower path counts)"
        if ceiling.is_overlapped
        else "after the rest (layers one after another: the times add up; overlap=True takes the slower path alone)"
    )
    return (
        f"{format_bytes(ceiling.traffic.spilled_bytes_per_pass)} per pass come through the spill path at "
        f"{format_bytes_per_s(ceiling.spill_bytes_per_s)} ({ceiling.spill_source}), {scheme}"
    )


def _pattern_name(traffic: Traffic) -> str:
    share = traffic.written_share
    if share < 0.02:
        return "read"
    if share > 0.98:
        return "write"
    return "copy" if abs(share - 0.5) < 0.02 else "mixed"


def _driver_rate(device: Device) -> float | None:
    """Bus width x clock where the backend dropped it for a larger data sheet; two transfers fall on a clock."""
    if device.mig is not None or device.is_unified_memory or not device.bus_width_bits or not device.memory_clock_hz:
        return None
    return device.bus_width_bits / 8 * device.memory_clock_hz * 2
