"""NVML's GPM samples through a stand-in for pynvml: bytes from percentages, and no word about any refusal."""

from __future__ import annotations

import gc
import itertools
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_roofline.backends.deadline import Deadline
from pytest_roofline.backends.gpm import GpmCounter, open_gpm
from pytest_roofline.backends.nvml import Nvml

PEAK = 4.8e12


class NVMLError(Exception):
    """As in pynvml."""


class Library:
    """A stand-in for the pynvml module with one Hopper card, or a MIG slice of it.

    `refused` names functions that raise; `missing` those that this version does not have.
    """

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *, percent: Any = 50.0, is_supported: int = 1, code: int = 0, is_slice: bool = False) -> None:
        self.percent = percent
        self.is_supported = is_supported
        self.code = code
        self.is_slice = is_slice
        self.refused: set[str] = set()
        self.missing: set[str] = set()
        self.calls: list[tuple[Any, ...]] = []
        self.freed: list[Any] = []
        self._buffers = itertools.count(1)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("nvml", "c_nvml")):
            if name in self.missing:
                raise AttributeError(name)
            if name in self.refused:
                raise NVMLError(f"{name}: Insufficient Permissions")
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:
        """Nothing to do."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        """One device."""
        if uuid not in ("GPU-1", "MIG-1"):
            raise NVMLError("Not Found")
        return "slice" if self.is_slice else "card"

    def nvmlDeviceIsMigDeviceHandle(self, handle: Any) -> int:
        """Whether it is the slice."""
        return int(handle == "slice")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> Any:
        """Its card."""
        return "card"

    def nvmlDeviceGetGpuInstanceId(self, handle: Any) -> int:
        """Of the slice."""
        return 7

    def nvmlGpmQueryDeviceSupport(self, device: Any) -> Any:
        """Asked of cards only."""
        assert device == "card"
        return SimpleNamespace(isSupportedDevice=self.is_supported)

    def nvmlGpmSampleAlloc(self) -> Any:
        """A buffer."""
        return f"buffer {next(self._buffers)}"

    def nvmlGpmSampleFree(self, buffer: Any) -> None:
        """Given back."""
        self.freed.append(buffer)

    def nvmlGpmSampleGet(self, device: Any, buffer: Any) -> Any:
        """A sample of the card."""
        self.calls.append((device, buffer))
        return buffer

    def nvmlGpmMigSampleGet(self, device: Any, instance: int, buffer: Any) -> Any:
        """A sample of a slice."""
        self.calls.append((device, instance, buffer))
        return buffer

    def c_nvmlGpmMetricsGet_t(self) -> Any:
        """The question."""
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, nvmlReturn=99, value=0.0) for _ in range(2)])

    def nvmlGpmMetricsGet(self, question: Any) -> Any:
        """The answer, if the question is well formed."""
        assert (question.version, question.numMetrics, question.metrics[0].metricId) == (1, 1, 10)
        assert question.sample1 != question.sample2
        question.metrics[0].nvmlReturn, question.metrics[0].value = self.code, self.percent
        return question


def counter(library: Library, uuid: str = "GPU-1", peak: float | None = PEAK) -> GpmCounter | None:
    """The counter of the one device, on a clock that advances a microsecond per reading; settling takes no time."""
    ticks = itertools.count()
    return open_gpm(
        Nvml(library), uuid, None, peak_bytes_per_s=peak, clock=lambda: next(ticks) * 1e-6, sleep=lambda _: None
    )


def test_a_percentage_of_the_peak_is_a_rate() -> None:
    """Half of 4.8 TB/s, between two samples whose moments are known to a reading of the clock."""
    library = Library(percent=50.0)
    gpm = counter(library)
    assert gpm is not None
    gpm.settle()
    first, second = gpm.read(), gpm.read()
    assert first is not None
    assert second is not None
    assert gpm.bytes_per_s(first, second) == pytest.approx(2.4e12)
    assert (first.before_s, first.after_s) == (0.0, 1e-6)
    assert second.before_s > first.after_s
    assert library.calls == [("card", "buffer 1"), ("card", "buffer 2")]
    assert gpm.refresh_s == pytest.approx(0.1)


def test_it_waits_longer_than_a_sample_may_be_old() -> None:
    """The driver renews its samples ten times a second."""
    slept: list[float] = []
    gpm = open_gpm(Nvml(Library()), "GPU-1", None, peak_bytes_per_s=PEAK, clock=lambda: 0.0, sleep=slept.append)
    assert gpm is not None
    gpm.settle()
    assert slept[0] > gpm.refresh_s


def test_a_slice_is_sampled_by_its_instance() -> None:
    """The samples of a MIG slice are asked of the card, with the number of the instance."""
    library = Library(is_slice=True)
    gpm = counter(library, "MIG-1")
    assert gpm is not None
    assert gpm.read() is not None
    assert library.calls == [("card", 7, "buffer 1")]


def test_buffers_are_given_back_with_their_readings() -> None:
    """Also when the sample was refused."""
    library = Library()
    gpm = counter(library)
    assert gpm is not None
    reading = gpm.read()
    assert reading is not None
    assert library.freed == []
    del reading
    gc.collect()
    assert library.freed == ["buffer 1"]
    library.refused.add("nvmlGpmSampleGet")
    assert gpm.read() is None
    gc.collect()
    assert library.freed == ["buffer 1", "buffer 2"]


@pytest.mark.parametrize("function", ["nvmlGpmQueryDeviceSupport", "nvmlDeviceGetGpuInstanceId"])
@pytest.mark.parametrize("kind", ["refused", "missing"])
def test_no_counter_where_driver_or_pynvml_have_none(function: str, kind: str) -> None:
    """An older pynvml, an older driver, a card before Hopper, a device that is not found, no known peak."""
    library = Library(is_slice=True)
    getattr(library, kind).add(function)
    assert counter(library, "MIG-1") is None
    assert counter(Library(is_supported=0)) is None
    assert counter(Library(), "GPU-2") is None
    assert counter(Library(), peak=None) is None


@pytest.mark.parametrize("function", ["nvmlGpmSampleAlloc", "nvmlGpmSampleGet"])
def test_a_refused_reading_is_none(function: str) -> None:
    """Permission that is lost midway costs the reading and raises nothing."""
    library = Library()
    gpm = counter(library)
    assert gpm is not None
    library.refused.add(function)
    assert gpm.read() is None
    library.refused.clear()
    assert gpm.read() is not None


@pytest.mark.parametrize(
    "answer", [{"code": 3}, {"percent": float("nan")}, {"percent": -1.0}, {"percent": float("inf")}, {"percent": "?"}]
)
def test_an_answer_without_meaning_is_none(answer: dict[str, Any]) -> None:
    """The metric has a code of its own, and may hold anything."""
    gpm = counter(Library(**answer))
    assert gpm is not None
    first, second = gpm.read(), gpm.read()
    assert first is not None
    assert second is not None
    assert gpm.bytes_per_s(first, second) is None


def test_a_refused_answer_is_none() -> None:
    """Samples too close to each other, or a driver that has gone."""
    library = Library()
    gpm = counter(library)
    assert gpm is not None
    first, second = gpm.read(), gpm.read()
    assert first is not None
    assert second is not None
    library.refused.add("nvmlGpmMetricsGet")
    assert gpm.bytes_per_s(first, second) is None


@pytest.mark.parametrize("function", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_a_driver_that_hangs_is_no_counter_and_no_reading(function: str) -> None:
    """It is given up after its deadline, and not asked again."""
    end, library, deadline = threading.Event(), Library(), Deadline("NVML", seconds=30)
    nvml = Nvml(library, deadline=deadline)

    def opened() -> GpmCounter | None:
        return open_gpm(nvml, "GPU-1", None, peak_bytes_per_s=PEAK, clock=lambda: 0.0, sleep=lambda _: None)

    gpm = opened()
    assert gpm is not None
    first, second = gpm.read(), gpm.read()
    assert first is not None
    assert second is not None
    setattr(library, function, lambda *_: end.wait())
    deadline._seconds = 0.05
    if function == "nvmlGpmQueryDeviceSupport":
        assert opened() is None
    elif function == "nvmlGpmSampleGet":
        assert gpm.read() is None
    else:
        assert gpm.bytes_per_s(first, second) is None
    assert deadline.is_hung
    assert (opened(), gpm.read(), gpm.bytes_per_s(first, second)) == (None, None, None)
    end.set()


def test_a_driver_that_goes_away_costs_the_reading() -> None:
    """Whatever it raises then."""
    library = Library()
    gpm = counter(library)
    assert gpm is not None
    library.nvmlGpmSampleGet = lambda *_: (_ for _ in ()).throw(OSError("unloaded"))  # type: ignore[method-assign]
    assert gpm.read() is None


def test_the_real_structure_takes_the_question() -> None:
    """pynvml's own structures have the fields that are written and read here."""
    pynvml = pytest.importorskip("pynvml")
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version, question.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
    question.sample1 = question.sample2 = pynvml.c_nvmlGpmSample_t()
    question.metrics[0].metricId = 10
    assert pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL == 10
    assert pynvml.NVML_SUCCESS == 0
    assert (question.metrics[0].nvmlReturn, question.metrics[0].value) == (0, 0.0)
    assert {name for name, _ in pynvml.c_nvmlGpmSupport_t._fields_} == {"version", "isSupportedDevice"}
