"""Shared by all tests: the fixture that runs pytest inside a test, and the switch that lets nothing be skipped unseen.

Tests of what is optional skip where its package is not installed. With ``ROOFLINE_TESTS_NEED_ALL=1`` they fail there
instead, but for packages that are not made for this system.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import pytest

pytest_plugins = ["pytester"]

# Packages with wheels of one system only, and that system.
ELSEWHERE = {"mlx": "linux"}
skip_without = pytest.importorskip


def need(modname: str, *details: Any, **more: Any) -> Any:
    """In place of `pytest.importorskip`: the module, or a failure that names what has to be installed."""
    if sys.platform != ELSEWHERE.get(modname.partition(".")[0], sys.platform):
        return skip_without(modname, *details, **more)
    try:
        importlib.import_module(modname)
    except ImportError as error:
        pytest.fail(f"{modname} is needed (ROOFLINE_TESTS_NEED_ALL is set): {error}", pytrace=False)
    return skip_without(modname, *details, **more)


if os.environ.get("ROOFLINE_TESTS_NEED_ALL", "0") not in ("", "0"):
    pytest.importorskip = need
