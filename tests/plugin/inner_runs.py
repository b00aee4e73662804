"""Runs of pytest with the plugin and a fake accelerator of 1 TB/s, on a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ("-p", "pytest_roofline.plugin", "-p", "no:cacheprovider")
FAKE = """
import pytest
from pytest_roofline.backends.fake import FakeBackend, FakeModel

BACKEND = FakeBackend()

def pytest_roofline_backends(config):
    return [BACKEND]

@pytest.fixture
def model():
    "Reaches 80 % of the ceiling."
    return FakeModel(BACKEND, weight_bytes=2e9)

@pytest.fixture
def small():
    "Between 27 % and 80 %: most of it may come from the cache of 40 MB."
    return FakeModel(BACKEND, weight_bytes=60e6)
"""

Run = Callable[..., pytest.RunResult]


def record_of(pytester: pytest.Pytester, test: str) -> dict[str, Any]:
    """The record of one test in ``junit.xml``."""
    return json.loads(properties_of(pytester, test)["roofline"])


def properties_of(pytester: pytest.Pytester, test: str) -> dict[str, str]:
    """The properties of one test in ``junit.xml``."""
    (found,) = all_properties_of(pytester, test)
    return found


def all_properties_of(pytester: pytest.Pytester, test: str) -> list[dict[str, str]]:
    """The same of a test that was run several times."""
    from xml.etree import ElementTree

    tree = ElementTree.parse(pytester.path / "junit.xml")
    cases = [case for case in tree.iter("testcase") if case.get("name") == test]
    return [{found.attrib["name"]: found.attrib["value"] for found in case.iter("property")} for case in cases]
