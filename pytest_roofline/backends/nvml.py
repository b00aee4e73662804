"""What NVIDIA's driver says of a card, through NVML (the `pynvml` module of nvidia-ml-py).

Every question may be refused (no permission, not supported, a unified memory without a size, a MIG slice, an
old driver): a refusal costs that answer and leaves a line in the notes, never more. A driver that does not
answer at all is left alone after its deadline, and costs every field from then on.

**Bytes per second.** ``bus width / 8 * memory clock * 2``. NVML gives the clock of the memory such that two
transfers fall on each of its periods for every kind of memory it knows: HBM2 and HBM3 as well as GDDR5 to
GDDR7 (whose command clocks differ). H100 SXM: 5120 bit at 2619 MHz, 3.352 TB/s. H200: 6144 bit at 3201 MHz,
4.917 TB/s, 2.4 % above the printed 4.8. A100: 1593 MHz, 2.039 TB/s (80 GB) and 1215 MHz, 1.555 TB/s (40 GB).
RTX 4090: 384 bit at 10501 MHz, 1.008 TB/s. L4: 192 bit at 6251 MHz, 300 GB/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_roofline.backends.deadline import FIRST_DEADLINE_S, Deadline, DriverHungError
from pytest_roofline.backends.nvml_processes import others_of, titles, use_of
from pytest_roofline.conditions import Conditions
from pytest_roofline.errors import RooflineError

T = TypeVar("T")
TRANSFERS_PER_CLOCK = 2

# Values from nvml.h, where they never change; their names in pynvml did (ThrottleReason became EventReason).
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_TEMPERATURE_GPU = 0
_REASONS = (
    (0x002, "application clocks setting"),
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal slowdown (software)"),
    (0x040, "thermal slowdown (hardware)"),
    (0x080, "power brake"),
    (0x200, "board limit"),
    (0x400, "reliability"),
)

# Policies whose violations the driver counts in nanoseconds, by the same words.
_POLICIES = ((0, "power cap"), (1, "thermal slowdown"), (3, "board limit"), (5, "reliability"))
_UNCORRECTED, _SINCE_LOADED = 1, 0

# Cards are cut in eighths of their memory (quarters on some); a slice reports a little less than its share.
_MIG_SLICES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFacts:
    """One card, or a MIG slice of one: None where the driver would not say."""

    name: str | None = None
    uuid: str | None = None
    memory_bytes: float | None = None
    """Of the slice, when this is one."""
    card_memory_bytes: float | None = None
    """Of the whole card; the same as `memory_bytes` when this is no slice."""
    bus_width_bits: int | None = None
    memory_clock_hz: float | None = None
    bandwidth_bytes_per_s: float | None = None
    """Of the whole card: bus width times the highest memory clock; see the module's text."""
    is_overclocked: bool | None = None
    """Whether the memory runs above its own maximum; None when neither offset nor clock could be read."""
    has_ecc: bool | None = None
    mig: str | None = None
    mig_memory_fraction: float | None = None
    """Share of the card's memory, and so of its bandwidth, that the slice has: eighths."""
    driver: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Questions:
    """Asks NVML one question at a time, and writes down what it refused."""

    errors: tuple[type[BaseException], ...]
    notes: list[str] = field(default_factory=list)

    def ask(self, what: str, question: Callable[[], Any]) -> Any:
        """The answer; None and a note when refused. An empty `what` leaves no note."""
        try:
            return question()
        except self.errors as error:
            if what:
                self.notes.append(f"NVML: {what}: {str(error) or type(error).__name__}")
            return None


class Nvml:
    """NVML, loaded and initialised. Raises `NvmlMissingError` when it is not there.

    `library` stands in for the `pynvml` module. A device is named by its uuid, with or without the ``GPU-``
    or ``MIG-`` in front, or by its PCI bus id; never by an index, because CUDA_VISIBLE_DEVICES renumbers.
    """

    def __init__(self, library: Any = None, *, deadline: Deadline | None = None) -> None:
        self._deadline = deadline or Deadline("NVML")
        if library is None:
            try:
                import pynvml as library  # type: ignore[no-redef, unused-ignore]
            except ImportError as error:
                raise NvmlMissingError(
                    f"NVML: {error}; memory clock, throttling and neighbours stay unknown (pip install nvidia-ml-py)"
                ) from error
        self._nvml: Any = library
        # AttributeError: an older pynvml without that function. ValueError, UnicodeError: answers it cannot
        # decode.
        self._errors: tuple[type[BaseException], ...] = (library.NVMLError, AttributeError, ValueError)
        try:
            self._deadline.ask(library.nvmlInit, seconds=None if deadline else FIRST_DEADLINE_S)
        except DriverHungError as error:
            raise NvmlMissingError(str(error)) from error
        except self._errors as error:
            raise NvmlMissingError(f"NVML: not available: {str(error) or type(error).__name__}") from error

    def facts(self, uuid: str | None = None, pci_bus_id: str | None = None) -> NvmlFacts:
        """What can be known of one device; a device that NVML does not find is all None with a note."""
        try:
            return self._deadline.ask(lambda: self._facts(uuid, pci_bus_id))
        except DriverHungError as error:
            return NvmlFacts(notes=(str(error),))

    def _facts(self, uuid: str | None, pci_bus_id: str | None) -> NvmlFacts:
        questions = _Questions(self._errors)
        ask, nvml = questions.ask, self._nvml
        driver = _text(ask("driver version", nvml_call(nvml, "nvmlSystemGetDriverVersion")))
        handle = self._handle(uuid, pci_bus_id)
        if handle is None:
            questions.notes.append(f"NVML: no device {uuid or pci_bus_id or 'without uuid and bus id'}")
            return NvmlFacts(driver=driver, notes=tuple(questions.notes))
        card, is_slice = self._card(handle)
        name = _text(ask("name", nvml_call(nvml, "nvmlDeviceGetName", handle)))
        memory = _bytes(ask("memory size", nvml_call(nvml, "nvmlDeviceGetMemoryInfo", handle)))
        card_memory = memory
        fraction = None
        if is_slice:
            card_memory = _bytes(ask("memory size of the card", nvml_call(nvml, "nvmlDeviceGetMemoryInfo", card)))
            if memory and card_memory:
                # Rounded up, so that a slice is never thought slower than it is.
                fraction = min(1.0, math.ceil(memory / card_memory * _MIG_SLICES - 0.05) / _MIG_SLICES)
        width = _positive(ask("memory bus width", nvml_call(nvml, "nvmlDeviceGetMemoryBusWidth", card)))
        highest = _mhz(ask("max memory clock", nvml_call(nvml, "nvmlDeviceGetMaxClockInfo", card, _CLOCK_MEMORY)))
        current = _mhz(ask("", nvml_call(nvml, "nvmlDeviceGetClockInfo", card, _CLOCK_MEMORY)))
        offset = ask("", nvml_call(nvml, "nvmlDeviceGetMemClkVfOffset", card))
        clock = highest if highest is None or current is None else max(highest, current)
        rate = None if width is None or clock is None else width / 8 * clock * TRANSFERS_PER_CLOCK
        ecc = ask("ECC mode", nvml_call(nvml, "nvmlDeviceGetEccMode", card))
        return NvmlFacts(
            name=name,
            uuid=_text(ask("uuid", nvml_call(nvml, "nvmlDeviceGetUUID", handle))),
            memory_bytes=memory,
            card_memory_bytes=card_memory,
            bus_width_bits=None if width is None else int(width),
            memory_clock_hz=clock,
            bandwidth_bytes_per_s=rate,
            is_overclocked=_is_overclocked(highest, current, offset),
            has_ecc=None if not isinstance(ecc, (list, tuple)) else bool(ecc[0]),
            mig=_profile(name) if is_slice else None,
            mig_memory_fraction=fraction,
            driver=driver,
            notes=tuple(questions.notes),
        )

    def conditions(self, uuid: str | None = None, pci_bus_id: str | None = None) -> Conditions:
        """Clocks, power, temperature, throttling, memory errors and other processes now.

        None and () where not known: a driver that hangs or goes away costs fields, and never raises.
        """
        try:
            return self._deadline.ask(lambda: self._conditions(uuid, pci_bus_id))
        except Exception:  # whatever a driver that is going away makes of its answers
            return Conditions()

    def _conditions(self, uuid: str | None, pci_bus_id: str | None) -> Conditions:
        handle = self._handle(uuid, pci_bus_id)
        if handle is None:
            return Conditions()
        card, is_slice = self._card(handle)

        def ask(function: str, *arguments: Any) -> Any:
            return _Questions(self._errors).ask("", nvml_call(self._nvml, function, *arguments))

        temperature = ask("nvmlDeviceGetTemperature", card, _TEMPERATURE_GPU)
        reasons = ask("nvmlDeviceGetCurrentClocksEventReasons", card)
        if reasons is None:  # drivers and pynvml before 12.4 know the older name only
            reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", card)
        others = others_of(ask("nvmlDeviceGetComputeRunningProcesses", handle) or [])
        samples = ask("nvmlDeviceGetProcessUtilization", handle, 0) if others else None
        errors = ask("nvmlDeviceGetTotalEccErrors", card, _UNCORRECTED, _SINCE_LOADED)
        ecc = ask("nvmlDeviceGetEccMode", card)
        return Conditions(
            clock_hz=_mhz(ask("nvmlDeviceGetClockInfo", card, _CLOCK_SM)),
            max_clock_hz=_mhz(ask("nvmlDeviceGetMaxClockInfo", card, _CLOCK_SM)),
            memory_clock_hz=_mhz(ask("nvmlDeviceGetClockInfo", card, _CLOCK_MEMORY)),
            max_memory_clock_hz=_mhz(ask("nvmlDeviceGetMaxClockInfo", card, _CLOCK_MEMORY)),
            power_w=_watts(ask("nvmlDeviceGetPowerUsage", card)),
            power_limit_w=_watts(ask("nvmlDeviceGetPowerManagementLimit", card)),
            default_power_limit_w=_watts(ask("nvmlDeviceGetPowerManagementDefaultLimit", card)),
            temperature_c=float(temperature) if isinstance(temperature, (int, float)) else None,
            throttle_reasons=throttle_words(reasons),
            held_s=tuple(
                (word, seconds)
                for policy, word in _POLICIES
                if (seconds := _violation_s(ask("nvmlDeviceGetViolationStatus", card, policy))) is not None
            ),
            neighbours=titles(others, lambda pid: _text(ask("nvmlSystemGetProcessName", pid))),
            neighbours_use=use_of(others, samples or []),
            has_ecc=bool(ecc[0]) if isinstance(ecc, (list, tuple)) and ecc else None,
            uncorrected_errors=errors if isinstance(errors, int) else None,
            is_repair_pending=_is_repair_pending(
                ask("nvmlDeviceGetRemappedRows", card), ask("nvmlDeviceGetRetiredPagesPendingStatus", card)
            ),
            is_persistent=_truth(ask("nvmlDeviceGetPersistenceMode", card)),
            mig=_profile(_text(ask("nvmlDeviceGetName", handle))) if is_slice else None,
        )

    @property
    def library(self) -> Any:
        """The `pynvml` module, for what is not asked here."""
        return self._nvml

    def answer(self, question: Callable[[], T]) -> T | None:
        """What it answers to a question of somebody else's; None where it refuses, hangs, or is going away."""
        try:
            return self._deadline.ask(question)
        except Exception:  # whatever a driver that is going away makes of its answers
            return None

    def place(self, uuid: str | None, pci_bus_id: str | None = None) -> tuple[Any, Any] | None:
        """Handles of a device and of the whole card, the same object when it is no slice; None when not found."""
        handle = self._handle(uuid, pci_bus_id)
        return None if handle is None else (handle, self._card(handle)[0])

    def _handle(self, uuid: str | None, pci_bus_id: str | None) -> Any:
        ask = _Questions(self._errors).ask
        if uuid:
            bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
            spellings = [uuid] if uuid != bare else []
            for spelling in dict.fromkeys([*spellings, f"GPU-{bare}", f"MIG-{bare}"]):
                handle = ask("", nvml_call(self._nvml, "nvmlDeviceGetHandleByUUID", spelling))
                if handle is not None:
                    return handle
        if pci_bus_id:
            return ask("", nvml_call(self._nvml, "nvmlDeviceGetHandleByPciBusId", pci_bus_id))
        return None

    def _card(self, handle: Any) -> tuple[Any, bool]:
        """The whole card behind a handle, and whether the handle is a MIG slice of it."""
        ask = _Questions(self._errors).ask
        if not ask("", nvml_call(self._nvml, "nvmlDeviceIsMigDeviceHandle", handle)):
            return handle, False
        card = ask("", nvml_call(self._nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle))
        return (handle, True) if card is None else (card, True)


class NvmlMissingError(RooflineError):
    """No pynvml, no driver, or a driver that refuses: the message is a note for the device."""


def nvml_call(library: Any, function: str, *arguments: Any) -> Callable[[], Any]:
    """A question that looks the function up when it is asked: an older pynvml may not have it."""
    return lambda: getattr(library, function)(*arguments)


def throttle_words(reasons: Any) -> tuple[str, ...]:
    """NVML's bit mask of what holds the clocks down, in words; idleness and display settings are left out."""
    if not isinstance(reasons, int):
        return ()
    return tuple(word for bit, word in _REASONS if reasons & bit)


def _is_overclocked(highest_hz: float | None, current_hz: float | None, offset_mhz: Any) -> bool | None:
    if highest_hz is not None and current_hz is not None and current_hz > highest_hz * 1.005:
        return True
    if isinstance(offset_mhz, int):
        return offset_mhz > 0
    return None


def _profile(name: str | None) -> str:
    """``1g.10gb`` from ``NVIDIA A100-SXM4-80GB MIG 1g.10gb``."""
    _, found, profile = (name or "").rpartition("MIG ")
    return profile.strip() if found and profile.strip() else "unknown profile"


def _violation_s(status: Any) -> float | None:
    """Seconds of a violation counter; the driver counts nanoseconds, and answers all ones for what it lacks."""
    nanoseconds = getattr(status, "violationTime", None)
    if not isinstance(nanoseconds, int) or not 0 <= nanoseconds < 2**63:
        return None
    return nanoseconds / 1e9


def _is_repair_pending(rows: Any, pages: Any) -> bool | None:
    """Newer cards remap rows (corrected, uncorrected, pending, failed), older ones retire pages."""
    known = [bool(rows[2])] if isinstance(rows, (list, tuple)) and len(rows) > 2 else []
    known += [] if _truth(pages) is None else [bool(pages)]
    return any(known) if known else None


def _truth(value: Any) -> bool | None:
    return bool(value) if isinstance(value, int) else None


def _watts(milliwatts: Any) -> float | None:
    number = _positive(milliwatts)
    return None if number is None else number / 1e3


def _text(value: Any) -> str | None:
    """Text of an answer; older versions of pynvml give bytes."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) and value else None


def _positive(value: Any) -> float | None:
    """A figure that means something: drivers answer 0 or a string for what they do not know."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        return None
    return float(value)


def _mhz(value: Any) -> float | None:
    number = _positive(value)
    return None if number is None else number * 1e6


def _bytes(value: Any) -> float | None:
    return _positive(getattr(value, "total", None))
