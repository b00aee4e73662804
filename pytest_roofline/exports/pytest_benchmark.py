"""pytest-benchmark's JSON, so that its `compare`, and dashboards made for it, read these figures too.

The layout is that of ``--benchmark-json`` (https://pytest-benchmark.readthedocs.io): a benchmark's ``stats`` are
seconds of one call, here of one pass, and each sample is a round. Statistics follow their names: the mean is a mean,
and ``ops`` its inverse. The fraction and what it was taken from are in ``extra_info``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_roofline.exports.measured import Measured, shortened, true_figures

NAME = "pytest-benchmark"
_TUKEY = 1.5
"""How many interquartile ranges from the quartiles an outlier lies."""


def pytest_benchmark(document: Mapping[str, Any]) -> str:
    """The document; its list of benchmarks is empty where nothing was measured."""
    run = document.get("run")
    run = run if isinstance(run, Mapping) else {}
    benchmarks = [_benchmark(one) for one in true_figures(document) if one.step_s is not None and one.step_s > 0]
    return (
        json.dumps(
            {
                "machine_info": _machine(run),
                "commit_info": _commit(run),
                "benchmarks": benchmarks,
                "datetime": str(run.get("started_at") or ""),
                "version": f"pytest-roofline {run.get('version') or 'unknown'}",
            },
            indent=1,
            allow_nan=False,
        )
        + "\n"
    )


def _benchmark(one: Measured) -> dict[str, Any]:
    test = one.name.rsplit("::", 1)[-1] or one.name
    begin, bracket, rest = test.partition("[")
    figures = {
        "roofline_verdict": one.standing,
        "roofline_fraction": one.fraction,
        "roofline_ceiling_tokens_per_s": one.ceiling_tokens_per_s,
        "roofline_bytes_per_pass": one.bytes_per_pass,
        "roofline_bytes_per_s": one.bytes_per_s,
        "roofline_device": f"{one.device} ({one.device_name})",
        "tokens": one.tokens_per_pass if one.rate_unit == "tok/s" else None,
        "batch": one.batch if one.rate_unit == "tok/s" else None,
    }
    return {
        "group": None,
        "name": test,
        "fullname": one.name,
        "params": None,
        "param": rest.rpartition("]")[0] if bracket and begin and "]" in rest else None,
        "extra_info": {key: value for key, value in figures.items() if value is not None},
        "options": {"disable_gc": False, "timer": "pytest-roofline", "warmup": True},
        "stats": stats_of(one.samples_s if _are_times(one) else (one.step_s or 0.0,)),
    }


def _are_times(one: Measured) -> bool:
    """Whether every sample is a time: the slope between two noisy blocks may be none."""
    return bool(one.samples_s) and min(one.samples_s) > 0


def stats_of(data: Sequence[float]) -> dict[str, Any]:
    """The statistics that the layout has, of at least one time in seconds.

    Quartiles are by linear interpolation between order statistics, which is one of several customs.
    """
    ordered = sorted(data)
    mean = statistics.fmean(ordered)
    stddev = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    middle = statistics.median(ordered)
    q1, _, q3 = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else (middle,) * 3
    fences = q1 - _TUKEY * (q3 - q1), q3 + _TUKEY * (q3 - q1)
    inside = [value for value in ordered if fences[0] <= value <= fences[1]] or ordered
    far = sum(abs(value - mean) > stddev for value in ordered)
    outliers = len(ordered) - len(inside)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(ordered),
        "median": middle,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": outliers,
        "stddev_outliers": far,
        "outliers": f"{far};{outliers}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": 1 / mean,
        "total": sum(ordered),
        "data": list(data),
        "iterations": 1,
    }


def _machine(run: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the machine, under the names that the layout has for it."""
    known = {"python_version": run.get("python"), "platform": run.get("platform")}
    return {name: shortened(str(value), 200) for name, value in known.items() if value}


def _commit(run: Mapping[str, Any]) -> dict[str, Any]:
    commit = run.get("commit")
    commit = commit if isinstance(commit, Mapping) else {}
    return {"id": commit.get("id"), "dirty": bool(commit.get("is_dirty")), "branch": commit.get("branch")}
