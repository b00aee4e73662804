"""Drivers that hang: the question is given up after its deadline, and no other is put."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from test_nvml import Library, NVMLError

from pytest_roofline.backends.deadline import Deadline, DriverHungError
from pytest_roofline.backends.nvml import Nvml, NvmlMissingError
from pytest_roofline.conditions import Conditions


@pytest.fixture
def stuck() -> Any:
    """A question that is answered when the test ends, and not before."""
    end = threading.Event()
    yield end.wait
    end.set()


def test_an_answer_passes_through() -> None:
    """And so does what the question raises; no thread is left."""
    deadline = Deadline("driver")
    assert deadline.ask(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        deadline.ask(lambda: 1 / 0)
    assert not deadline.is_hung
    assert not [one for one in threading.enumerate() if one.name == "roofline-driver"]


def test_a_hung_driver_is_asked_once(stuck: Any) -> None:
    """The second question is refused at once, and says why."""
    asked = []
    deadline = Deadline("driver", seconds=0.01)
    with pytest.raises(DriverHungError, match=r"driver did not answer within 0\.01 s and is not asked again"):
        deadline.ask(stuck)
    with pytest.raises(DriverHungError, match="did not answer earlier"):
        deadline.ask(lambda: asked.append(1))
    assert asked == []


def test_nvml_that_hangs_at_its_start_is_missing(stuck: Any) -> None:
    """The device is measured without what it would have told."""
    with pytest.raises(NvmlMissingError, match="NVML did not answer"):
        Nvml(Library(nvmlInit=lambda: stuck()), deadline=Deadline("NVML", seconds=0.01))


@pytest.mark.parametrize("function", ["nvmlDeviceGetName", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo"])
def test_nvml_that_hangs_midway_costs_its_fields(stuck: Any, function: str) -> None:
    """No error: facts with a note, conditions with nothing, and the driver is left alone from then on."""
    deadline = Deadline("NVML", seconds=0.5)
    nvml = Nvml(Library(**{function: lambda *_: stuck()}), deadline=deadline)
    facts, now = nvml.facts("GPU-1234"), nvml.conditions("GPU-1234")
    assert deadline.is_hung
    assert now == Conditions()
    assert nvml.conditions("GPU-1234") == Conditions()
    assert any("did not answer" in note for note in nvml.facts("GPU-1234").notes)
    assert facts.name in (None, "NVIDIA H100 80GB HBM3")


@pytest.mark.parametrize("error", [NVMLError("GPU is lost"), OSError("library was unloaded"), RuntimeError("no")])
def test_nvml_that_disappears_costs_the_reading(error: Exception) -> None:
    """Whatever it raises then, known errors or not: nothing is known, and nothing raises."""
    library = Library()
    nvml = Nvml(library)
    assert nvml.conditions("GPU-1234").power_w == 345.0
    library.known.clear()
    library.answers.update(dict.fromkeys(library.answers, error))
    library.nvmlDeviceGetHandleByUUID = lambda uuid: (_ for _ in ()).throw(error)  # type: ignore[method-assign]
    assert nvml.conditions("GPU-1234") == Conditions()
