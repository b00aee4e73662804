"""The published error rates: the program that makes them, in little; its arithmetic; what docs say of its record."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks" / "results" / "error_rates.json"


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    """The benchmark, as a module beside its own."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("error_rates")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def recorder(program: Any) -> Any:
    """The recorder of noise."""
    return sys.modules["record_noise"]


def test_a_hundred_runs_hold_the_bars(program: Any) -> None:
    """Every weather, every kind of run: no wrong verdict, nothing bogus; in still air all of them are decided."""
    each = 4
    runs = [program.run(task) for task in program.tasks_of(each * len(program.names_of_weather()))]
    record = program.record_of(runs, {})
    assert record["runs"] == 3 * each * len(record["by_weather"])
    for name, part in record["by_weather"].items():
        for key in ("fails_5_percent_above", "passes_10_percent_below", "bogus"):
            assert part[key]["hits"] == 0, (name, key)
        assert part["median_bias"] == pytest.approx(1.0, abs=0.03), name
    still = record["by_weather"]["still air"]
    assert still["decided_above"]["hits"] == still["decided_below"]["hits"] == each
    assert still["median_time_s"] < 1.0


def test_a_bar_that_is_missed_is_named(program: Any) -> None:
    """In words, with the figures: a wrong verdict, a bogus one, a slow decision; and nothing where all is well."""

    def ended(side: str, outcome: str, count: int) -> list[Any]:
        one = program.Run(
            side=side, weather="still air", outcome=outcome, checks=(), samples=9, elapsed_s=0.5, bias=1.0
        )
        return [one] * count

    good = ended("above", "passed", 1000) + ended("below", "failed", 1000)
    others = [
        program.replace(one, weather=name)
        for one in ended("above", "passed", 1) + ended("below", "failed", 1)
        for name in program.names_of_weather()
        if name != "still air"
    ]
    rival = {"step_s": 1.0, "read_s": 1.0, "is_true_inside": 1.0, "is_off_by_5_percent": 0.0}
    assert program.missed(program.record_of(good + others, {"still air": [rival]})) == []
    bad = good + others + ended("above", "failed", 10) + ended("unbudgeted", "bogus", 1)
    rival = {**rival, "step_s": 0.1, "read_s": 0.1}
    assert program.missed(program.record_of(bad, {"still air": [rival]})) == [
        "all: fails_5_percent_above 10 of 1018, the bar is 0.5%",
        "all: 1 honest runs bogus of 2027",
        "still air: fails_5_percent_above 10 of 1010, the bar is 0.5%",
        "still air: 1 honest runs bogus of 2011",
        "time to a decision is 2.5 of pytest-benchmark's, the bar is 0.5",
    ]


def test_the_bound_is_that_of_clopper_and_pearson(program: Any) -> None:
    """None of 100: 1 - 0.05^(1/100); one of ten: 39.4 % by the tables; all of them: 1."""
    assert program.upper_bound(0, 100) == pytest.approx(1 - 0.05**0.01)
    assert program.upper_bound(1, 10) == pytest.approx(0.3942, abs=1e-4)
    assert program.upper_bound(3, 3) == 1.0


# -- what is recorded


def test_slowness_conserves_the_work(recorder: Any) -> None:
    """Products of 1, 1 and 4 ms: a millisecond inside of the long one does a quarter of the work."""
    moments = [0, 1_000_000, 2_000_000, 6_000_000, 7_000_000]
    assert recorder.slowness(moments) == pytest.approx([1.0, 1.0, 4.0, 4.0, 4.0, 4.0])


def test_factors_are_packed_to_two_per_cent(recorder: Any) -> None:
    """And come back within 1.1 %; beyond a factor of 170 they are cut off."""
    factors = [0.8, 1.0, 1.5, 7.3, 42.0, 150.0]
    assert recorder.unpack(recorder.pack(factors)) == pytest.approx(factors, rel=0.011)
    assert recorder.unpack(recorder.pack([1e6])) == pytest.approx([177.3], rel=0.01)


def test_the_traces_are_small_and_say_what_they_are(recorder: Any) -> None:
    """At most 200 kB in all, at millisecond resolution, minutes of them."""
    files = sorted((ROOT / "benchmarks" / "traces").glob("*.json"))
    assert sum(path.stat().st_size for path in files) < 200_000
    lengths = []
    for path in files:
        record = json.loads(path.read_text(encoding="utf-8"))
        assert record["of"]
        assert record["period_s"] == 1e-3
        lengths.append(len(recorder.unpack(record["factors"])) * record["period_s"])
    assert len(files) >= 3
    assert sum(lengths) > 120


# -- what is published


def percent(part: dict[str, Any]) -> str:
    """A rate, as the page prints it."""
    return f"{part['hits']} of {part['of']:,}"


def test_the_explanation_says_what_was_measured(program: Any) -> None:
    """Every figure of its table is the record's, and the record holds the bars."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert program.missed(record) == []
    assert record["all"]["bogus"]["of"] >= 10_000
    page = " ".join((ROOT / "docs" / "explanation.md").read_text(encoding="utf-8").split())
    whole, rival = record["all"], record["pytest_benchmark"]["all"]
    right = whole["decided_above"]["hits"] + whole["decided_below"]["hits"]
    of = whole["decided_above"]["of"] + whole["decided_below"]["of"]
    for row in (
        f"| 5 % above the budget, failed | {percent(whole['fails_5_percent_above'])} |",
        f"| 10 % below it, passed | {percent(whole['passes_10_percent_below'])} |",
        f"| honest, called bogus | {percent(whole['bogus'])} |",
        f"| decided within 10 s | {right / of:.0%} |",
        f"| median time | {whole['median_time_s']:.2f} s |",
        f"| pytest-benchmark's default, step and read | {rival['median_step_and_read_s']:.2f} s |",
    ):
        assert row in page, row
