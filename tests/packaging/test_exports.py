"""The names of the package, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import pytest_roofline

EXPORTS = [
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


def test_exports_are_these_and_sorted() -> None:
    """The list is right, and in order without regard to case."""
    assert pytest_roofline.__all__ == EXPORTS
    assert sorted(EXPORTS, key=str.lower) == EXPORTS
    assert set(EXPORTS) <= set(dir(pytest_roofline))


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_is_there(name: str) -> None:
    """Each name leads to an object of that name."""
    value = getattr(pytest_roofline, name)
    assert getattr(value, "__name__", name) == name


def test_names_for_type_checkers_are_the_names_at_run_time() -> None:
    """What TYPE_CHECKING imports is what `__getattr__` finds, from the same rooms."""
    tree = ast.parse(Path(pytest_roofline.__file__).read_text(encoding="utf-8"))
    stated = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_roofline.")
        for alias in node.names
    }
    assert sorted(stated) == sorted(set(EXPORTS) - {"__version__"})
    for name, module in stated.items():
        assert getattr(importlib.import_module(str(module)), name) is getattr(pytest_roofline, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Roofline'"):
        _ = pytest_roofline.Roofline  # type: ignore[attr-defined]
