"""The custom formats of github-action-benchmark: a list of ``name``, ``unit``, ``value``, ``range`` and ``extra``.

https://github.com/benchmark-action/github-action-benchmark (``tool: customBiggerIsBetter`` and
``customSmallerIsBetter``). The action reads one file for each direction, and draws a chart per name and unit, so units
never change with the size of a figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_roofline.exports.measured import Measured, true_figures
from pytest_roofline.samples import median_interval
from pytest_roofline.units import format_bytes, format_bytes_per_s

BIGGER = "github-action-benchmark"
SMALLER = "github-action-benchmark-smaller"


def bigger_is_better(document: Mapping[str, Any]) -> str:
    """Fraction of the ceiling in per cent, and tokens or calls per second."""
    entries = []
    for one in true_figures(document):
        if one.fraction is not None:
            entries.append(_entry(one, "fraction", "% of the ceiling", 100 * one.fraction, _fraction_range(one)))
        if one.tokens_per_s is not None:
            entries.append(_entry(one, "rate", one.rate_unit, one.tokens_per_s, ""))
    return _written(entries)


def smaller_is_better(document: Mapping[str, Any]) -> str:
    """Milliseconds of a pass, and to the first token where that was measured."""
    entries = []
    for one in true_figures(document):
        if one.step_s is not None:
            entries.append(_entry(one, "pass", "ms", 1e3 * one.step_s, _step_range(one)))
        if one.ttft_s is not None:
            entries.append(_entry(one, "first token", "ms", 1e3 * one.ttft_s, ""))
    return _written(entries)


def _entry(one: Measured, what: str, unit: str, value: float, around: str) -> dict[str, Any]:
    entry = {"name": f"{one.name} - {what}", "unit": unit, "value": value, "extra": _extra(one)}
    return entry | ({"range": around} if around else {})


def _fraction_range(one: Measured) -> str:
    if one.fraction_low is None or one.fraction_high is None:
        return ""
    return f"{100 * one.fraction_low:.1f} to {100 * one.fraction_high:.1f}"


def _step_range(one: Measured) -> str:
    if len(one.samples_s) < 2:
        return ""
    interval = median_interval(one.samples_s)
    return f"{1e3 * interval.low:.4g} to {1e3 * interval.high:.4g}"


def _extra(one: Measured) -> str:
    """Lines of a tooltip: which device, and what bounds the pass."""
    lines = [f"device: {one.device} ({one.device_name})", f"verdict: {one.standing}"]
    if one.bytes_per_pass is not None:
        lines.append(f"per pass: {format_bytes(one.bytes_per_pass)}")
    if one.bandwidth_bytes_per_s is not None:
        lines.append(f"ceiling: {format_bytes_per_s(one.bandwidth_bytes_per_s)}, {one.bound}")
    if one.allowed:
        lines.append(f"allowed: {', '.join(one.allowed)}")
    return "\n".join(lines)


def _written(entries: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(list(entries), indent=1, allow_nan=False) + "\n"
