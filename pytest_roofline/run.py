"""What a whole run says of itself: where it measures, its table at the end, and whether it measured anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.item import session_of
from pytest_roofline.options import resolve, settings_of
from pytest_roofline.outcome import UNMEASURED
from pytest_roofline.report.terminal import header_line, header_lines, summary_lines


def header_of(config: pytest.Config) -> str:
    """The line before the first test: where will be measured."""
    settings = settings_of(config)
    if settings.mode == "off":
        return header_line("off")
    try:
        device = session_of(config).find_device(settings.device)
    except (pytest.UsageError, RooflineUsageError) as error:
        return f"roofline: {error}"  # the tests themselves fail by it, each at its own place
    return header_line(settings.mode, device.id, device.name, is_named=settings.device is not None)


def summary_of(config: pytest.Config, texts: Mapping[str, str], *, with_header: bool) -> list[str]:
    """The table, the inconclusive tests, and how many were not judged; `texts` are the records by node id."""
    records = _records(texts)
    is_named = resolve(config, "device") is not None
    header = header_lines(records, is_named=is_named) if with_header else []
    return [*header, *summary_lines(records)]


def has_measured(texts: Mapping[str, str]) -> bool:
    """Whether any test measured anything."""
    results = [result for record in _records(texts).values() for result in record["results"]]
    return any(result["standing"] != UNMEASURED for result in results)


def _records(texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {node_id: json.loads(text) for node_id, text in texts.items()}
