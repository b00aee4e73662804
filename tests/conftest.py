"""Shared by all tests: the fixture that runs pytest inside a test."""

from __future__ import annotations

pytest_plugins = ["pytester"]
