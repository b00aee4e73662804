"""Bencher Metric Format: ``{benchmark: {measure: {value, lower_value, upper_value}}}``.

https://bencher.dev/docs/reference/bencher-metric-format (JSON Schema https://bencher.dev/bmf.json; names of
benchmarks have 1024 characters at most). ``latency`` is a measure of Bencher's own, in nanoseconds; the others are made
when they are first seen. Upload it with ``bencher run --adapter json --file``, and name the card as the testbed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_roofline.exports.measured import Measured, true_figures
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import median_interval

NAME = "bencher"
_NANO = 1e9


def bencher(document: Mapping[str, Any]) -> str:
    """The object; empty where nothing was measured."""
    found = {one.name: measures for one in true_figures(document) if (measures := _measures(one))}
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def _measures(one: Measured) -> dict[str, dict[str, float]]:
    measures: dict[str, dict[str, float]] = {}
    if one.fraction is not None:
        measures["fraction-of-ceiling"] = _between(one.fraction, one.fraction_low, one.fraction_high)
    if one.tokens_per_s is not None:
        name = "calls-per-second" if one.rate_unit == "calls/s" else "tokens-per-second"
        measures[name] = {"value": one.tokens_per_s}
    if one.step_s is not None:
        around = median_interval(one.samples_s) if one.samples_s else Interval(low=one.step_s, high=one.step_s)
        measures["latency"] = _between(_NANO * one.step_s, _NANO * around.low, _NANO * around.high)
    if one.ttft_s is not None:
        measures["time-to-first-token"] = {"value": _NANO * one.ttft_s}
    return measures


def _between(value: float, low: float | None, high: float | None) -> dict[str, float]:
    """A value with its bounds where it lies between them: a bound on the wrong side would be one of another figure."""
    return {
        "value": value,
        **({"lower_value": low} if low is not None and low <= value else {}),
        **({"upper_value": high} if high is not None and high >= value else {}),
    }
