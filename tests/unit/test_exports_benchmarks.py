"""Files for trackers of benchmarks: pytest-benchmark's own loader, Bencher's schema, github-action-benchmark's keys."""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_documents import HOSTILE, case, document, hostile, mixed, result

from pytest_roofline.exports.action_benchmark import bigger_is_better, smaller_is_better
from pytest_roofline.exports.bencher import bencher
from pytest_roofline.exports.pytest_benchmark import pytest_benchmark, stats_of

BMF = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}
"""By https://bencher.dev/docs/reference/bencher-metric-format; stricter, for nothing else is written."""


# -- pytest-benchmark -------------------------------------------------------------------------------------------------


def loaded(text: str, folder: Path) -> list[dict[str, Any]]:
    """What pytest-benchmark's own storage reads of a file."""
    storage = pytest.importorskip("pytest_benchmark.storage.file")
    file = folder / "0001_roofline.json"
    file.write_text(text)
    warnings: list[str] = []
    logger = logging.getLogger("test")
    logger.warning = warnings.append  # type: ignore[method-assign, assignment]
    found = list(storage.FileStorage(folder, logger).load_benchmarks(str(file)))
    assert warnings == []
    return found


def test_pytest_benchmark_loads_it(tmp_path: Path) -> None:
    """Every true result is a benchmark, and its statistics are those of its samples."""
    found = loaded(pytest_benchmark(mixed()), tmp_path)
    assert [one["fullname"] for one in found] == ["t.py::test_passed", "t.py::test_failed"]
    assert found[0]["median"] == pytest.approx(0.8e-3)
    assert found[0]["rounds"] == 7
    assert found[0]["extra_info"]["roofline_fraction"] == 0.746


def test_its_own_statistics_agree() -> None:
    """Where customs do not differ (all but quartiles), its class gives the same figures."""
    stats_class = pytest.importorskip("pytest_benchmark.stats").Stats
    theirs = stats_class()
    data = [0.8e-3, 0.9e-3, 0.7e-3, 1.2e-3, 0.81e-3, 0.79e-3, 0.83e-3, 4e-3]
    for value in data:
        theirs.update(value)
    ours = stats_of(data)
    assert set(theirs.fields) <= set(ours)
    for name in ("min", "max", "mean", "stddev", "median", "rounds", "ops", "total", "stddev_outliers"):
        assert ours[name] == pytest.approx(getattr(theirs, name)), name


def test_its_compare_command_reads_two_of_them(tmp_path: Path) -> None:
    """A table with both runs, by the command that dashboards of it use; hostile names and all."""
    pytest.importorskip("pytest_benchmark")
    for number, made in enumerate((mixed(), hostile(), mixed()), 1):
        (tmp_path / f"000{number}_run.json").write_text(pytest_benchmark(made))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest_benchmark",
            "compare",
            "--csv=out.csv",
            *(f"000{number}_run.json" for number in (1, 2, 3)),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test_passed") == 2
    assert "Failed to load" not in done.stdout + done.stderr
    assert (tmp_path / "out.csv").exists()


def test_names_and_parameters_are_where_it_looks_for_them() -> None:
    """``compare --group-by=param`` needs them."""
    made = document(
        case(
            "a/t.py::Class::test_it[int4-[8]]",
            result(),
        ),
        case("a/t.py::test_plain", result()),
    )
    first, second = json.loads(pytest_benchmark(made))["benchmarks"]
    assert (first["name"], first["param"]) == ("test_it[int4-[8]]", "int4-[8]")
    assert (second["name"], second["param"]) == ("test_plain", None)


def test_commit_and_time_are_those_of_the_run() -> None:
    """Charts are drawn by them."""
    found = json.loads(pytest_benchmark(mixed()))
    assert found["commit_info"] == {"id": "c0ffee", "dirty": False, "branch": "main"}
    assert found["datetime"] == "2026-01-02T03:04:05+00:00"
    assert found["machine_info"] == {"python_version": "3.11.2", "platform": "Linux-6.1"}


def test_slopes_that_are_no_times_are_not_rounds() -> None:
    """Between two noisy blocks a slope may be negative: then the pass's time stands alone."""
    made = document(case("a", result(samples=[{"step_s": -1e-3}, {"step_s": 2e-3}])))
    stats = json.loads(pytest_benchmark(made))["benchmarks"][0]["stats"]
    assert stats["data"] == [0.8e-3]
    assert stats["stddev"] == 0.0


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_statistics_of_any_times_are_in_order(data: list[float]) -> None:
    """From the least over the quartiles to the most, and finite."""
    stats = stats_of(data)
    for names in (("min", "q1", "median", "q3", "max"), ("min", "ld15iqr", "hd15iqr", "max")):
        order = [stats[name] for name in names]
        assert all(low <= high * (1 + 1e-12) for low, high in pairwise(order)), names
    assert stats["mean"] == pytest.approx(statistics.fmean(data))
    json.dumps(stats, allow_nan=False)


# -- Bencher ----------------------------------------------------------------------------------------------------------


def test_bencher_s_schema_holds() -> None:
    """Benchmarks by name, each with measures, of hostile names too; names of 1024 characters at most."""
    jsonschema = pytest.importorskip("jsonschema")
    for made in (mixed(), hostile(), document()):
        found = json.loads(bencher(made))
        jsonschema.validate(found, BMF)
        assert all(0 < len(name) <= 1024 for name in found)


def test_bencher_has_a_latency_in_nanoseconds() -> None:
    """Its own measure's unit, with the interval of the median; rates and fractions are measures of ours."""
    measures = json.loads(bencher(mixed()))["t.py::test_passed"]
    assert measures["latency"]["value"] == pytest.approx(800_000)
    assert measures["latency"]["lower_value"] <= 800_000 <= measures["latency"]["upper_value"]
    assert measures["fraction-of-ceiling"] == {"value": 0.746, "lower_value": 0.73, "upper_value": 0.76}
    assert measures["tokens-per-second"] == {"value": 1250.0}


def test_a_bound_on_the_wrong_side_is_left_out() -> None:
    """A kernel's median may lie outside of its slopes' interval; Bencher would draw nonsense."""
    made = document(case("a", result(step_s=1e-2, kind="kernel", fraction_low=0.9)))
    measures = json.loads(bencher(made))["a"]
    assert "upper_value" not in measures["latency"]
    assert "lower_value" not in measures["fraction-of-ceiling"]
    assert measures["calls-per-second"] == {"value": 1250.0}


# -- github-action-benchmark ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", [bigger_is_better, smaller_is_better])
@pytest.mark.parametrize("made", [mixed(), hostile(), document()], ids=["mixed", "hostile", "empty"])
def test_entries_have_the_keys_that_the_action_reads(render: Any, made: dict[str, Any]) -> None:
    """Name, unit and value each; range and extra as text; names are keys of its charts, so none comes twice."""
    entries = json.loads(render(made))
    for entry in entries:
        assert set(entry) <= {"name", "unit", "value", "range", "extra"}
        assert isinstance(entry["value"], float)
        assert all(isinstance(entry[key], str) for key in set(entry) - {"value"})
    assert len({entry["name"] for entry in entries}) == len(entries)
    assert len(entries) in (0, 2, 4, len(HOSTILE), 2 * len(HOSTILE))


def test_each_direction_has_its_figures() -> None:
    """Fractions and rates are better when bigger, times when smaller; units do not change with the size."""
    bigger = {entry["name"]: entry for entry in json.loads(bigger_is_better(mixed()))}
    smaller = {entry["name"]: entry for entry in json.loads(smaller_is_better(mixed()))}
    fraction = bigger["t.py::test_passed - fraction"]
    assert (fraction["value"], fraction["unit"], fraction["range"]) == (74.6, "% of the ceiling", "73.0 to 76.0")
    assert bigger["t.py::test_passed - rate"]["unit"] == "tok/s"
    step = smaller["t.py::test_passed - pass"]
    assert (step["value"], step["unit"], step["range"]) == (0.8, "ms", "0.776 to 0.824")
    assert "device: cuda:0 " in step["extra"]
    prefill = json.loads(smaller_is_better(document(case("a", result(kind="prefill", ttft_s=0.25)))))
    assert [(entry["name"], entry["value"]) for entry in prefill] == [("a - pass", 0.8), ("a - first token", 250.0)]
