"""What only CUDA (and, where it has the same API, ROCm) can tell or do. Tested with stand-ins."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from pytest_roofline.backends.gpm import open_gpm
from pytest_roofline.backends.nvml import TRANSFERS_PER_CLOCK, Nvml, NvmlFacts, NvmlMissingError
from pytest_roofline.backends.torch_accelerator import DRIVER_ERRORS, Accelerator, attempt
from pytest_roofline.device import Device, Spec
from pytest_roofline.protocol import Conditions, TrafficCounter
from pytest_roofline.specs import match
from pytest_roofline.units import format_bytes_per_s

# A launch costs some 5 us. A point shorter than 20 launches shows the launches and not the memory, so it is
# repeated inside one graph until it lasts well over that.
_SHORT_S = 100e-6
_LONG_ENOUGH_S = 300e-6
_MAX_REPEATS = 256

# Parts whose memory is the host's: their clocks and bus widths, as CUDA gives them, make no bandwidth.
_UNIFIED_NAMES = ("gb10", "orin", "xavier", "thor", "tegra")


class CudaAccelerator(Accelerator):
    """NVIDIA through CUDA and NVML; AMD through the same calls of a ROCm build, which has no NVML.

    `nvml` stands in for the driver's library; by default it is loaded on first use.
    """

    def __init__(self, *, specs: Sequence[Spec] | None = None, nvml: Nvml | None = None) -> None:
        super().__init__("cuda", specs=specs)
        self._nvml = nvml
        self._nvml_problem: str | None = None
        self._side_streams: dict[int, Any] = {}

    def has_context(self, index: int) -> bool:
        """Whether this process has a primary context on the device: asking does not create one."""
        ask = getattr(torch._C, "_cuda_hasPrimaryContext", None)
        if ask is not None:
            return bool(ask(index))
        return any(getattr(self.module, name)(index) > 0 for name in ("memory_reserved", "max_memory_reserved"))

    def device(self, index: int) -> Device:
        """What CUDA and NVML know of a device, and the card that they mean."""
        notes: list[str] = []
        properties = self.properties(index, notes)
        name = self.name(index, properties, notes)
        if torch.version.hip is not None:
            # Clock and width of a ROCm device multiply to half the rate on some parts: no bandwidth from
            # them.
            return replace(
                super().device(index),
                vendor="AMD",
                last_level_cache_bytes=_positive(properties, "L2_cache_size"),
            )
        nvml = self._load_nvml(notes)
        facts = NvmlFacts() if nvml is None else nvml.facts(_uuid(properties), _bus_id(properties))
        notes.extend(facts.notes)
        is_slice = facts.mig is not None or " MIG " in name
        memory_bytes = _positive(properties, "total_memory") or facts.memory_bytes
        is_unified = bool(getattr(properties, "is_integrated", 0)) or _is_unified_name(name)
        memory = _memory_rate(facts, properties, is_unified, notes)
        spec, rate, contradicted = self._card(name, facts, memory_bytes, memory.bytes_per_s, is_slice, notes)
        if is_slice:
            spec, rate = _sliced(spec, rate, facts, notes)
        uuid = facts.uuid or _uuid(properties)
        return Device(
            name=name,
            kind=self.kind,
            index=index,
            backend="torch",
            vendor="NVIDIA",
            uuid=uuid,
            memory_bytes=memory_bytes,
            spec=spec,
            contradicted_spec=None if is_slice else contradicted,
            is_unified_memory=is_unified,
            mig=(facts.mig or "unknown profile") if is_slice else None,
            last_level_cache_bytes=_positive(properties, "L2_cache_size"),
            bus_width_bits=memory.bus_width_bits,
            memory_clock_hz=memory.clock_hz,
            driver_bandwidth_bytes_per_s=rate,
            is_overclocked=facts.is_overclocked,
            compute_units=getattr(properties, "multi_processor_count", None),
            driver=facts.driver,
            has_ecc=facts.has_ecc,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _card(
        self,
        name: str,
        facts: NvmlFacts,
        memory_bytes: float | None,
        rate: float | None,
        is_slice: bool,
        notes: list[str],
    ) -> tuple[Spec | None, float | None, Spec | None]:
        """The card's spec, the driver's rate unless the spec shows that it cannot be right, and else the wrong spec."""
        size = facts.card_memory_bytes if is_slice else memory_bytes
        spec = match(name, size, rate, self.specs)
        if spec is not None or rate is None:
            return spec, rate, None
        by_name = match(name, size, None, self.specs)
        if by_name is None:
            return None, rate, None
        printed = format_bytes_per_s(by_name.bandwidth_bytes_per_s)
        notes.append(f"the driver's clock and bus width give {format_bytes_per_s(rate)}, the data sheet says {printed}")
        # The larger one stays: a limit that is too low accuses honest measurements.
        return (by_name, None, None) if rate < by_name.bandwidth_bytes_per_s else (None, rate, by_name)

    def conditions(self, device: Device) -> Conditions:
        """Through NVML; all unknown where that is missing, and on ROCm."""
        nvml = None if torch.version.hip is not None else self._load_nvml([])
        if nvml is None:
            return Conditions()
        bus_id = _bus_id(self.properties(device.index, [])) if device.uuid is None else None
        return nvml.conditions(device.uuid, bus_id)

    def traffic_counter(self, device: Device, clock: Callable[[], float]) -> TrafficCounter | None:
        """NVML's, on Hopper and later."""
        nvml = None if torch.version.hip is not None else self._load_nvml([])
        if nvml is None:
            return None
        bus_id = _bus_id(self.properties(device.index, [])) if device.uuid is None else None
        return open_gpm(nvml, device.uuid, bus_id, peak_bytes_per_s=device.driver_bandwidth_bytes_per_s, clock=clock)

    def _side_stream(self, index: int) -> Any:
        """The one stream for captures: libraries keep a workspace of some megabytes for every stream they
        see."""
        if index not in self._side_streams:
            self._side_streams[index] = torch.cuda.Stream(index)
        return self._side_streams[index]

    def _load_nvml(self, notes: list[str]) -> Nvml | None:
        if self._nvml is None and self._nvml_problem is None:
            try:
                self._nvml = Nvml()
            except NvmlMissingError as error:
                self._nvml_problem = str(error)
        if self._nvml_problem is not None:
            notes.append(self._nvml_problem)
        return self._nvml

    def repeated(self, launch: Callable[[], object], index: int, seconds: float) -> tuple[Callable[[], object], int]:
        """Many launches as one graph, when one would be too short to time; else the launch as it is."""
        if seconds >= _SHORT_S:
            return launch, 1
        times = min(_MAX_REPEATS, max(2, math.ceil(_LONG_ENOUGH_S / max(seconds, 1e-9))))
        return _Repeated(launch, times, index, self._side_stream), times


class _Repeated:
    """Does the work `times` times: by one graph, captured on the first call; by a loop where that fails.

    Captured late, because of all kernels that are offered only a few are ever launched.
    """

    def __init__(self, launch: Callable[[], object], times: int, index: int, side_stream: Callable[[int], Any]) -> None:
        self._side_stream = side_stream
        self._launch = launch
        self._times = times
        self._index = index
        self._run: Callable[[], object] | None = None

    def __call__(self) -> None:
        if self._run is None:
            try:
                self._run = _graph(self._launch, self._times, self._index, self._side_stream(self._index))
            except DRIVER_ERRORS:
                self._run = self._loop
        self._run()

    def _loop(self) -> None:
        for _ in range(self._times):
            self._launch()


def _graph(launch: Callable[[], object], times: int, index: int, stream: Any) -> Callable[[], object]:
    """Capture `times` launches; a replay runs on the current stream of the device.

    Not ``torch.cuda.graph``, whose entry collects garbage and empties the cache: that takes tens of
    milliseconds beside a loaded model, for each of some hundred points of a probe.
    """
    with torch.cuda.device(index):
        stream.wait_stream(torch.cuda.current_stream(index))
        graph = torch.cuda.CUDAGraph()
        was_collecting = gc.isenabled()
        gc.disable()  # a tensor freed by the collector in the middle of a capture would spoil it
        try:
            with torch.cuda.stream(stream):
                launch()  # libraries set up their workspace outside the capture
                stream.synchronize()
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    for _ in range(times):
                        launch()
                finally:
                    graph.capture_end()
        finally:
            if was_collecting:
                gc.enable()
        torch.cuda.current_stream(index).wait_stream(stream)
    return partial(_replay, graph, launch, index)


def _replay(graph: Any, launch: Callable[[], object], index: int) -> None:
    """Run the graph; `launch` keeps the buffers alive."""
    with torch.cuda.device(index):
        graph.replay()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """What the driver says of the memory's bus; the rate is that of the whole card."""

    bus_width_bits: int | None = None
    clock_hz: float | None = None
    bytes_per_s: float | None = None


def _memory_rate(facts: NvmlFacts, properties: Any, is_unified: bool, notes: list[str]) -> _Memory:
    """From NVML, else from CUDA's own properties; no rate for memory that is shared with the host."""
    width = facts.bus_width_bits or _positive(properties, "memory_bus_width")
    clock_hz = facts.memory_clock_hz
    if clock_hz is None:
        clock_khz = _positive(properties, "memory_clock_rate")
        clock_hz = None if clock_khz is None else clock_khz * 1e3
    rate = None if width is None or clock_hz is None else width / 8 * clock_hz * TRANSFERS_PER_CLOCK
    if is_unified and rate is not None:
        notes.append("memory is shared with the host: the driver's bus width and clock give no bandwidth")
        rate = None
    return _Memory(bus_width_bits=None if width is None else int(width), clock_hz=clock_hz, bytes_per_s=rate)


def _sliced(
    spec: Spec | None, rate: float | None, facts: NvmlFacts, notes: list[str]
) -> tuple[Spec | None, float | None]:
    """Spec and rate of a MIG slice: bandwidth and cache follow the share of the memory."""
    share = facts.mig_memory_fraction
    if share is None:
        notes.append("a MIG slice whose share of the card is not known: no data sheet and no driver bandwidth")
        return None, None
    if spec is not None:
        notes.append("peak FLOP/s are those of the whole card: the slice has a part of them")
        cache = spec.last_level_cache_bytes
        spec = replace(
            spec,
            name=f"{spec.name}, MIG {facts.mig}",
            memory_bytes=spec.memory_bytes * share,
            bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s * share,
            last_level_cache_bytes=None if cache is None else cache * share,
            source=f"{spec.source}; {share:g} of the card's memory",
        )
    return spec, None if rate is None else rate * share


def _is_unified_name(name: str) -> bool:
    return any(part in name.casefold().split() for part in _UNIFIED_NAMES)


def _uuid(properties: Any) -> str | None:
    uuid = getattr(properties, "uuid", None)
    if uuid is None or not str(uuid):
        return None
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _bus_id(properties: Any) -> str | None:
    """``00000000:1B:00.0``, as NVML spells it; None where torch does not tell."""
    bus = getattr(properties, "pci_bus_id", None)
    device = getattr(properties, "pci_device_id", None)
    if not isinstance(bus, int) or not isinstance(device, int):
        return None
    domain = getattr(properties, "pci_domain_id", 0)
    return f"{domain:08X}:{bus:02X}:{device:02X}.0"


def _positive(properties: Any, name: str) -> float | None:
    value = attempt(lambda: getattr(properties, name, None), "", [])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        return None
    return float(value)
