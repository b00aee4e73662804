"""Judge inference code against the roofline of the machine it runs on, and refuse impossible speed-ups.

The fixtures `roofline`, `roofline_probe` and `roofline_device` come with the pytest plugin. The names here are for
annotations, `pytest.raises` and measuring outside pytest; each is imported when it is first asked for, because pytest
imports this package in every run of every project of an environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_roofline.checks.evidence import Finding
    from pytest_roofline.device import Device
    from pytest_roofline.errors import (
        AboveBand,
        BelowCeiling,
        BogusMeasurement,
        DeviceUnavailable,
        InconclusiveMeasurement,
        MeasurementError,
        MissingDependency,
        RooflineError,
        RooflineUsageError,
    )
    from pytest_roofline.instrument import Instrument
    from pytest_roofline.probe import Probe
    from pytest_roofline.result import Result
    from pytest_roofline.roofline import Ceiling
    from pytest_roofline.traffic import Traffic
    from pytest_roofline.verdict import Verdict

    __version__: str

__all__ = [
    "__version__",
    "AboveBand",
    "BelowCeiling",
    "BogusMeasurement",
    "Ceiling",
    "Device",
    "DeviceUnavailable",
    "Finding",
    "InconclusiveMeasurement",
    "Instrument",
    "MeasurementError",
    "MissingDependency",
    "Probe",
    "Result",
    "RooflineError",
    "RooflineUsageError",
    "Traffic",
    "Verdict",
]

_ROOMS = {
    "AboveBand": "errors",
    "BelowCeiling": "errors",
    "BogusMeasurement": "errors",
    "Ceiling": "roofline",
    "Device": "device",
    "DeviceUnavailable": "errors",
    "Finding": "checks.evidence",
    "InconclusiveMeasurement": "errors",
    "Instrument": "instrument",
    "MeasurementError": "errors",
    "MissingDependency": "errors",
    "Probe": "probe",
    "Result": "result",
    "RooflineError": "errors",
    "RooflineUsageError": "errors",
    "Traffic": "traffic",
    "Verdict": "verdict",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """The installed version; ``0+unknown`` when the package is used from a folder that was never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pytest-roofline")
    except PackageNotFoundError:
        return "0+unknown"
