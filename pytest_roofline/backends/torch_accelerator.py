"""The accelerators of this torch build, through the API that they share: CUDA and ROCm, XPU, MPS and the
others.

Members that are newer than torch 2.6 are looked up before they are used. What only CUDA has is in
`torch_cuda`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pytest_roofline.device import Device, Spec
from pytest_roofline.protocol import Conditions, TrafficCounter, WatchedEvents
from pytest_roofline.specs import load_devices, match

_VENDORS = {"xpu": "Intel", "mps": "Apple", "hpu": "Intel", "npu": "Huawei"}
_FREE_BYTES_UNKNOWN = float(2**30)

# What a driver or an older torch may answer to a question: each costs one field, and a note.
DRIVER_ERRORS = (
    RuntimeError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    TypeError,
    ValueError,
    OSError,
)


class Accelerator:
    """One kind of accelerator and all devices of that kind.

    Nothing here creates a context on a device but `free_memory_bytes`, `event` and `streams`, which are
    called for devices that are in use or about to be measured.
    """

    def __init__(self, kind: str, *, specs: Sequence[Spec] | None = None) -> None:
        self.kind = kind
        self.module: Any = torch.get_device_module(kind)
        self._specs = specs
        self._count: int | None = None

    @property
    def specs(self) -> Sequence[Spec]:
        """The library of cards, read once."""
        if self._specs is None:
            self._specs = load_devices()
        return self._specs

    def count(self) -> int:
        """Number of devices that are here and work."""
        if self._count is None:
            self._count = int(torch.accelerator.device_count()) if torch.accelerator.is_available() else 0
        return self._count

    # -- what this process has in use
    # ----------------------------------------------------------------------------

    def is_initialized(self) -> bool:
        """Whether this process has started to use the runtime."""
        ask = getattr(self.module, "is_initialized", None)
        if ask is not None:
            return bool(ask())
        allocated = getattr(self.module, "driver_allocated_memory", None)  # MPS has no other sign of life
        return allocated is not None and allocated() > 0

    def has_context(self, index: int) -> bool:
        """Whether this process has used the device; asked only of an initialised runtime."""
        if self.count() == 1:
            return True
        for name in ("memory_reserved", "max_memory_reserved", "memory_allocated"):
            ask = getattr(self.module, name, None)
            if ask is not None and ask(index) > 0:
                return True
        return False

    def indices_in_use(self) -> list[int]:
        """Devices on which something can be pending."""
        if not self.is_initialized():
            return []
        return [index for index in range(self.count()) if self.has_context(index)]

    def is_capturing(self) -> bool:
        """Whether the current stream records a graph, where nothing may wait."""
        ask = getattr(self.module, "is_current_stream_capturing", None)
        return ask is not None and bool(ask())

    # -- waiting
    # -------------------------------------------------------------------------------------------------

    def synchronize(self, index: int) -> None:
        """Wait for every stream of the device."""
        torch.accelerator.synchronize(index)

    def current_index(self) -> int:
        """The current device."""
        return int(torch.accelerator.current_device_index())

    def set_index(self, index: int) -> None:
        """Make a device the current one."""
        torch.accelerator.set_device_index(index)

    def streams(self, index: int) -> list[Any]:
        """The current stream of the device, and its default stream where that is another."""
        current = torch.accelerator.current_stream(index)
        default_stream = getattr(self.module, "default_stream", None)
        if default_stream is None:
            return [current]
        default = default_stream(index)
        # By number: the two are of different classes, which never call themselves equal.
        return [current] if default.stream_id == current.stream_id else [current, default]

    def event(self, index: int) -> Any:
        """A new event that keeps time."""
        return torch.Event(device=f"{self.kind}:{index}", enable_timing=True)

    def event_classes(self) -> tuple[WatchedEvents, ...]:
        """Classes of events that test code may time this kind of accelerator with; all tell milliseconds."""
        own = getattr(self.module, "Event", None) or getattr(getattr(self.module, "event", None), "Event", None)
        named = ((f"torch.{self.kind}.Event", own), ("torch.Event", getattr(torch, "Event", None)))
        return tuple(
            WatchedEvents(name, owner, "record", "elapsed_time", 1e-3)
            for name, owner in named
            if isinstance(owner, type) and hasattr(owner, "record") and hasattr(owner, "elapsed_time")
        )

    # -- facts
    # ---------------------------------------------------------------------------------------------------

    def device(self, index: int) -> Device:
        """What is known of a device; whatever cannot be read is None and a note."""
        notes: list[str] = []
        properties = self.properties(index, notes)
        name = self.name(index, properties, notes)
        memory_bytes = getattr(properties, "total_memory", None) or self._recommended_bytes()
        unified = self.kind == "mps" or _flag(properties, "is_integrated", "integrated", "has_unified_memory")
        return Device(
            name=name,
            kind=self.kind,
            index=index,
            backend="torch",
            vendor=_VENDORS.get(self.kind),
            uuid=_text(getattr(properties, "uuid", None)),
            memory_bytes=None if memory_bytes is None else float(memory_bytes),
            spec=match(name, None if memory_bytes is None else float(memory_bytes), None, self.specs),
            is_unified_memory=unified,
            compute_units=self._compute_units(properties),
            driver=_text(getattr(properties, "driver_version", None)),
            notes=tuple(notes),
        )

    def properties(self, index: int, notes: list[str]) -> Any:
        """The device's property record; None and a note where there is none."""
        return attempt(lambda: self.module.get_device_properties(index), "device properties", notes)

    def name(self, index: int, properties: Any, notes: list[str]) -> str:
        """The device's name; its id when it has none."""
        ask = getattr(self.module, "get_device_name", None)
        name = attempt(lambda: ask(index), "device name", notes) if ask is not None else None
        if self.kind == "mps":
            name = attempt(lambda: torch.backends.mps.get_name(), "device name", notes)
        return str(name or getattr(properties, "name", None) or f"{self.kind}:{index}")

    def _recommended_bytes(self) -> float | None:
        ask = getattr(self.module, "recommended_max_memory", None)
        return None if ask is None else attempt(ask, "memory size", [])

    def _compute_units(self, properties: Any) -> int | None:
        if self.kind == "mps":
            cores = attempt(lambda: int(torch.backends.mps.get_core_count()), "", [])
            return cores if isinstance(cores, int) else None
        for name in ("multi_processor_count", "gpu_subslice_count", "max_compute_units"):
            value = getattr(properties, name, None)
            if isinstance(value, int) and value > 0:
                return value
        return None

    def free_memory_bytes(self, index: int) -> float:
        """Free memory of the device, and what torch's allocator holds without using it."""
        module = self.module
        if hasattr(module, "mem_get_info"):
            free = attempt(lambda: float(module.mem_get_info(index)[0]), "", [])
            kept = attempt(lambda: float(module.memory_reserved(index) - module.memory_allocated(index)), "", [])
            if free is not None:
                return float(free + (kept or 0.0))
        if hasattr(module, "recommended_max_memory"):
            used = attempt(lambda: float(module.current_allocated_memory()), "", [])
            return max(0.0, float(module.recommended_max_memory()) - (used or 0.0))
        return _FREE_BYTES_UNKNOWN

    def conditions(self, device: Device) -> Conditions:
        """The clocks and neighbours of a device, which the shared API does not tell."""
        return Conditions()

    def traffic_counter(self, device: Device, clock: Callable[[], float]) -> TrafficCounter | None:
        """The device's own count of its memory traffic; None where it has none."""
        return None

    def repeated(self, launch: Callable[[], object], index: int, seconds: float) -> tuple[Callable[[], object], int]:
        """A launch that takes long enough to be timed, and how many times it does the work; once, where not
        known.

        `seconds` is a guess of the time that one takes.
        """
        return launch, 1


def find_accelerator(specs: Sequence[Spec] | None = None) -> Accelerator | None:
    """The kind of accelerator that this torch was built for, in use or not; None for a CPU build."""
    current = attempt(torch.accelerator.current_accelerator, "", [])  # torch 2.6 raises instead of None
    if current is None or current.type == "cpu":
        return None
    if current.type == "cuda":
        from pytest_roofline.backends.torch_cuda import CudaAccelerator

        return CudaAccelerator(specs=specs)
    return Accelerator(current.type, specs=specs)


def count_quietly(accelerator: Accelerator, notes: list[str]) -> int:
    """Number of working devices; a broken driver, which torch tells as a warning, is a note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        number = attempt(accelerator.count, f"{accelerator.kind} devices", notes)
    notes.extend(f"{accelerator.kind}: {str(warning.message).splitlines()[0]:.200}" for warning in caught)
    return number or 0


def first_line(error: BaseException) -> str:
    """What a driver says, without the pages of advice that follow."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def attempt(question: Callable[[], Any], what: str, notes: list[str]) -> Any:
    """The answer; None when the driver refuses, with a note that says what it was about."""
    try:
        return question()
    except DRIVER_ERRORS as error:
        if what:
            reason = first_line(error)
            notes.append(f"torch: {what}: {reason:.200}")
        return None


def _flag(properties: Any, *names: str) -> bool | None:
    for name in names:
        value = getattr(properties, name, None)
        if isinstance(value, (bool, int)):
            return bool(value)
    return None


def _text(value: Any) -> str | None:
    return None if value is None or not str(value) else str(value)
