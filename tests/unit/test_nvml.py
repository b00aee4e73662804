"""NVML through a stand-in for pynvml: right figures, and one lost field per refusal."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_roofline.backends.nvml import Nvml, NvmlMissingError, throttle_words
from pytest_roofline.backends.nvml_processes import others_of

GIB = 2**30


class NVMLError(Exception):
    """As in pynvml."""


class Library:
    """A stand-in for the pynvml module: one card with a uuid, and what the driver answers about it.

    An answer that is an exception is raised; a function without an answer does not exist.
    """

    NVMLError = NVMLError

    def __init__(self, **answers: Any) -> None:
        self.known = {"GPU-1234": "card"}
        self.answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlSystemGetDriverVersion": "550.90.07",
            "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetUUID": "GPU-1234",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80 * GIB),
            "nvmlDeviceGetMemoryBusWidth": 5120,
            "nvmlDeviceGetMaxClockInfo": {1: 1980, 2: 2619},
            "nvmlDeviceGetClockInfo": {1: 1755, 2: 2619},
            "nvmlDeviceGetMemClkVfOffset": 0,
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceIsMigDeviceHandle": 0,
            "nvmlDeviceGetPowerUsage": 345_000,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlSystemGetProcessName": "/usr/bin/python3",
        }
        self.answers.update(answers)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        """Find a card by uuid."""
        if uuid not in self.known:
            raise NVMLError("Not Found")
        return self.known[uuid]

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> Any:
        """Find a card by bus id."""
        return self.nvmlDeviceGetHandleByUUID(bus_id)

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)
        answer = self.answers[name]

        def function(*arguments: Any) -> Any:
            value = answer(*arguments) if callable(answer) else answer
            if isinstance(value, Exception):
                raise value
            if isinstance(value, dict):
                value = value[arguments[1]]
            if isinstance(value, Exception):
                raise value
            return value

        return function


@pytest.mark.parametrize(
    ("width_bits", "clock_mhz", "bytes_per_s"),
    [
        (5120, 2619, 3.352e12),  # H100 SXM
        (6144, 3201, 4.917e12),  # H200
        (5120, 1593, 2.039e12),  # A100 80 GB
        (5120, 1215, 1.555e12),  # A100 40 GB
        (384, 10501, 1.008e12),  # RTX 4090
        (192, 6251, 300e9),  # L4
        (8192, 3996, 8.184e12),  # B200
    ],
)
def test_bus_width_and_clock_give_the_data_sheets_rate(width_bits: int, clock_mhz: int, bytes_per_s: float) -> None:
    """Two transfers per clock of NVML, whatever the kind of memory."""
    library = Library(
        nvmlDeviceGetMemoryBusWidth=width_bits,
        nvmlDeviceGetMaxClockInfo={2: clock_mhz},
        nvmlDeviceGetClockInfo={2: clock_mhz // 2},
    )
    facts = Nvml(library).facts("GPU-1234")
    assert facts.bandwidth_bytes_per_s == pytest.approx(bytes_per_s, rel=1e-3)


def test_all_that_a_willing_driver_tells() -> None:
    """Every field is filled and there is nothing to note."""
    facts = Nvml(Library()).facts("1234")
    assert (facts.uuid, facts.driver, facts.has_ecc, facts.is_overclocked) == (
        "GPU-1234",
        "550.90.07",
        True,
        False,
    )
    assert facts.memory_bytes == facts.card_memory_bytes == 80 * GIB
    assert facts.notes == ()


REFUSALS = [
    ("nvmlSystemGetDriverVersion", "driver"),
    ("nvmlDeviceGetName", "name"),
    ("nvmlDeviceGetUUID", "uuid"),
    ("nvmlDeviceGetMemoryInfo", "memory_bytes"),
    ("nvmlDeviceGetMemoryBusWidth", "bus_width_bits"),
    ("nvmlDeviceGetMaxClockInfo", "bandwidth_bytes_per_s"),
    ("nvmlDeviceGetEccMode", "has_ecc"),
]


@pytest.mark.parametrize("refusal", [NVMLError("Insufficient Permissions"), ValueError("[N/A]")])
@pytest.mark.parametrize(("function", "field"), REFUSALS)
def test_a_refusal_costs_one_field(function: str, field: str, refusal: Exception) -> None:
    """No permission, not supported, undecodable: the field is None, a note says why, the rest stands."""
    library = Library(**{function: refusal})
    if function == "nvmlDeviceGetMaxClockInfo":
        library.answers["nvmlDeviceGetClockInfo"] = refusal
    facts = Nvml(library).facts("GPU-1234")
    assert getattr(facts, field) is None
    assert any(str(refusal) in note for note in facts.notes)
    # A width or a clock takes the rate along.
    assert sum(getattr(facts, name) is None for _, name in REFUSALS) <= 2


@pytest.mark.parametrize("value", [0, "[N/A]", None, float("nan")])
def test_an_answer_without_meaning_is_no_answer(value: Any) -> None:
    """Unified memory has no size, a virtual card no width: what comes back then is not taken for a figure."""
    library = Library(nvmlDeviceGetMemoryInfo=SimpleNamespace(total=value), nvmlDeviceGetMemoryBusWidth=value)
    facts = Nvml(library).facts("GPU-1234")
    assert facts.memory_bytes is None
    assert facts.bandwidth_bytes_per_s is None


def test_an_old_pynvml_without_a_function_costs_that_field() -> None:
    """Functions are looked up when they are needed."""
    library = Library()
    del library.answers["nvmlDeviceGetMemoryBusWidth"]
    facts = Nvml(library).facts("GPU-1234")
    assert facts.bus_width_bits is None
    assert facts.memory_clock_hz == 2619e6


def test_bytes_of_an_old_pynvml_are_text() -> None:
    """Names used to come as bytes."""
    assert Nvml(Library(nvmlDeviceGetName=b"Tesla T4")).facts("GPU-1234").name == "Tesla T4"


@pytest.mark.parametrize(
    ("offset", "current_mhz", "expected"),
    [
        (0, 2619, False),
        (500, 2619, True),
        (0, 2800, True),
        (NVMLError("no"), 2619, None),
        (NVMLError("no"), 2800, True),
    ],
)
def test_an_overclocked_memory_is_seen(offset: Any, current_mhz: int, expected: bool | None) -> None:
    """By its offset or by a clock above the highest one; unknown where the driver hides the offset."""
    library = Library(nvmlDeviceGetMemClkVfOffset=offset, nvmlDeviceGetClockInfo={2: current_mhz})
    facts = Nvml(library).facts("GPU-1234")
    assert facts.is_overclocked is expected
    assert facts.memory_clock_hz == max(2619, current_mhz) * 1e6


@pytest.mark.parametrize(
    ("slice_gib", "card_gib", "share"),
    [
        (9.5, 80, 1 / 8),
        (19.5, 80, 2 / 8),
        (39.25, 80, 4 / 8),
        (10.75, 94, 1 / 8),
        (5.8, 24, 2 / 8),
        (79.9, 80, 1.0),
    ],
)
def test_a_mig_slice_has_its_share(slice_gib: float, card_gib: float, share: float) -> None:
    """Memory is that of the slice, width and clock those of the card, and the share comes in eighths."""
    sizes = {"slice": slice_gib, "card": card_gib}
    library = Library(
        nvmlDeviceIsMigDeviceHandle=lambda handle: int(handle == "slice"),
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle="card",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=sizes[handle] * GIB),
        nvmlDeviceGetMemoryBusWidth=lambda handle: 5120 if handle == "card" else NVMLError("Not Supported"),
        nvmlDeviceGetName="NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    )
    library.known["MIG-77"] = "slice"
    facts = Nvml(library).facts("77")
    assert facts.mig == "1g.10gb"
    assert facts.memory_bytes == slice_gib * GIB
    assert facts.card_memory_bytes == card_gib * GIB
    assert facts.mig_memory_fraction == share
    assert facts.bus_width_bits == 5120


def test_a_device_is_found_by_its_bus_id_when_the_uuid_is_strange() -> None:
    """Virtual cards have uuids that NVML does not know."""
    library = Library()
    library.known["00000000:1B:00.0"] = "card"
    assert Nvml(library).facts("other", "00000000:1B:00.0").bus_width_bits == 5120


def test_an_unknown_device_is_a_note() -> None:
    """Nothing but the driver is known, and nothing raises."""
    facts = Nvml(Library()).facts("other")
    assert facts.driver == "550.90.07"
    assert facts.bus_width_bits is None
    assert facts.notes == ("NVML: no device other",)
    assert Nvml(Library()).conditions("other").clock_hz is None


def test_no_driver_is_one_error_with_its_reason() -> None:
    """The caller makes a note of it."""
    with pytest.raises(NvmlMissingError, match="Driver Not Loaded"):
        Nvml(Library(nvmlInit=NVMLError("Driver Not Loaded")))


def test_conditions_in_units_and_words() -> None:
    """Megahertz, milliwatts and bit masks are left behind."""
    now = Nvml(Library()).conditions("GPU-1234")
    assert (now.clock_hz, now.max_clock_hz, now.memory_clock_hz) == (1755e6, 1980e6, 2619e6)
    assert (now.power_w, now.temperature_c) == (345.0, 61.0)
    assert now.throttle_reasons == ("power cap",)
    assert now.neighbours == ()


def test_the_older_name_of_the_throttle_reasons() -> None:
    """Drivers before the renaming answer the older question."""
    library = Library(nvmlDeviceGetCurrentClocksThrottleReasons=0x48)
    del library.answers["nvmlDeviceGetCurrentClocksEventReasons"]
    reasons = Nvml(library).conditions("GPU-1234").throttle_reasons
    assert reasons == ("hardware slowdown", "thermal slowdown (hardware)")


@pytest.mark.parametrize("mask", [0, 1, 0x100, None])
def test_idleness_is_no_throttling(mask: Any) -> None:
    """An idle card and a display setting hold nothing down."""
    assert throttle_words(mask) == ()


def process(pid: int, used: Any = 2**30) -> SimpleNamespace:
    """A process on the card."""
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def test_neighbours_leave_this_process_out() -> None:
    """Only the others are listed, by name and memory where these can be read."""
    library = Library(nvmlDeviceGetComputeRunningProcesses=[process(os.getpid()), process(1), process(2**22 + 9, None)])
    neighbours = Nvml(library).conditions("GPU-1234").neighbours
    assert neighbours[0] == "process 1 (python3), 1.07 GB"
    assert neighbours[1].startswith(f"process {2**22 + 9}")
    assert len(neighbours) == 2


def test_in_a_container_one_unknown_process_is_this_one() -> None:
    """The driver gives host ids there: one that nobody here knows is taken for our own."""
    hidden = [process(2**22 + 7), process(2**22 + 8)]
    library = Library(nvmlDeviceGetComputeRunningProcesses=hidden)
    assert len(Nvml(library).conditions("GPU-1234").neighbours) == 1
    library = Library(nvmlDeviceGetComputeRunningProcesses=hidden[:1], nvmlSystemGetProcessName=NVMLError("no"))
    assert Nvml(library).conditions("GPU-1234").neighbours == ()


def test_power_limits_errors_persistence_and_counters() -> None:
    """Milliwatts and nanoseconds are left behind; a counter of all ones is none."""
    library = Library(
        nvmlDeviceGetPowerManagementLimit=350_000,
        nvmlDeviceGetPowerManagementDefaultLimit=700_000,
        nvmlDeviceGetPersistenceMode=0,
        nvmlDeviceGetTotalEccErrors=2,
        nvmlDeviceGetRemappedRows=(0, 1, 1, 0),
        nvmlDeviceGetViolationStatus={
            0: SimpleNamespace(violationTime=1_500_000_000),
            1: SimpleNamespace(violationTime=0),
            3: SimpleNamespace(violationTime=2**64 - 1),
            5: NVMLError("Not Supported"),
        },
    )
    now = Nvml(library).conditions("GPU-1234")
    assert (now.power_limit_w, now.default_power_limit_w, now.max_memory_clock_hz) == (350.0, 700.0, 2619e6)
    assert (now.is_persistent, now.has_ecc, now.uncorrected_errors, now.is_repair_pending) == (False, True, 2, True)
    assert now.held_s == (("power cap", 1.5), ("thermal slowdown", 0.0))
    assert now.mig is None


@pytest.mark.parametrize(
    ("rows", "pages", "is_pending"),
    [
        ((0, 0, 0, 0), NVMLError("no"), False),
        (NVMLError("no"), 1, True),
        (NVMLError("no"), NVMLError("no"), None),
        ((0, 0, 0, 0), 1, True),
    ],
)
def test_a_repair_of_memory_that_waits(rows: Any, pages: Any, is_pending: bool | None) -> None:
    """Newer cards remap rows, older ones retire pages; unknown where neither is told."""
    library = Library(nvmlDeviceGetRemappedRows=rows, nvmlDeviceGetRetiredPagesPendingStatus=pages)
    assert Nvml(library).conditions("GPU-1234").is_repair_pending is is_pending


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetPowerManagementLimit",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetViolationStatus",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetEccMode",
    ],
)
@pytest.mark.parametrize("refusal", [NVMLError("Unknown Error"), ValueError("[N/A]")])
def test_a_refusal_costs_a_reading_its_field(function: str, refusal: Exception) -> None:
    """An error midway: the other figures are there."""
    now = Nvml(Library(**{function: refusal})).conditions("GPU-1234")
    assert (now.power_w, now.memory_clock_hz) == (345.0, 2619e6)


def use(pid: int, share: int, at_us: int = 9_000_000) -> SimpleNamespace:
    """A sample of one process's use of the card."""
    return SimpleNamespace(pid=pid, smUtil=share, timeStamp=at_us)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([use(1, 40), use(os.getpid(), 50)], 0.4),
        ([use(1, 90, 8_000_000), use(1, 30)], 0.3),  # the newest of each
        ([use(1, 90, 1_000_000), use(os.getpid(), 50)], 0.0),  # of another time
        ([use(1, 101)], 0.0),  # no figure
        ([use(1, 80), use(2, 80)], 0.8),  # the second one is not on the card any more
        ([], None),
        (NVMLError("Not Supported"), None),
    ],
)
def test_the_use_of_others_is_that_of_the_others(samples: Any, expected: float | None) -> None:
    """By the driver's samples of the last seconds; unknown where it has none."""
    library = Library(
        nvmlDeviceGetComputeRunningProcesses=[process(os.getpid()), process(1)],
        nvmlDeviceGetProcessUtilization=samples,
    )
    assert Nvml(library).conditions("GPU-1234").neighbours_use == expected


def test_nobody_else_uses_nothing() -> None:
    """Known, not unknown: the list was empty."""
    assert Nvml(Library()).conditions("GPU-1234").neighbours_use == 0.0


def test_our_own_children_are_no_neighbours(tmp_path: Path) -> None:
    """Nor are theirs; a name with brackets and spaces is no trap, and a process that is gone is somebody else's."""
    for pid, parent in ((500, os.getpid()), (501, 500), (502, 1), (503, 777)):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (a) b (c) S {parent} 1 1\n")
    (tmp_path / "proc/504").mkdir()
    (tmp_path / "proc/504/stat").write_text("junk")
    others = others_of([process(os.getpid()), *map(process, (500, 501, 502, 503, 504))], tmp_path)
    assert [one.pid for one in others] == [502, 503, 504]


def test_a_place_is_a_device_and_its_card() -> None:
    """The same handle twice for a whole card, two for a slice, None for what is not found."""
    nvml = Nvml(Library())
    assert nvml.place("GPU-1234") == ("card", "card")
    assert nvml.place("GPU-9") is None
    library = Library(
        nvmlDeviceIsMigDeviceHandle=lambda handle: int(handle == "slice"),
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle="card",
    )
    library.known["MIG-77"] = "slice"
    assert Nvml(library).place("77") == ("slice", "card")
    assert Nvml(library).library is library
    assert Nvml(library).answer(lambda: 42) == 42
    assert Nvml(library).answer(lambda: 1 / 0) is None
