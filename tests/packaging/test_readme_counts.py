"""The counts that the README prints are those of the last run of the court."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORD = json.loads((ROOT / "benchmarks" / "results" / "court.json").read_text(encoding="utf-8"))


def row(name: str) -> list[int]:
    """Every number in the row of the README's table that begins with this cell."""
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {name} |")]
    return [int(number) for number in re.findall(r"\d+", line)]


def test_the_cheats() -> None:
    """Programs, runs, caught by the right check, by another, missed."""
    corpus = RECORD["corpus"]
    keys = ("cheats", "cheat_runs", "caught_with_the_right_check", "caught_with_another", "missed")
    assert row("cheats") == [corpus[key] for key in keys]


def test_the_honest_programs() -> None:
    """Programs, runs, passed, without a verdict, accused."""
    corpus = RECORD["corpus"]
    keys = ("honest", "honest_runs", "honest_passed", "honest_without_a_verdict", "honest_accused")
    assert row("honest") == [corpus[key] for key in keys]


def test_the_honest_programs_in_bad_weather() -> None:
    """Runs, passed, without a verdict, accused."""
    weather = RECORD["weather"]
    passed, accused = weather["outcomes"].get("passed", 0), weather["accused"]
    assert row("honest, in bad weather") == [weather["runs"], passed, weather["runs"] - passed - accused, accused]


def test_the_record_adds_up() -> None:
    """Every run ended in one way."""
    corpus = RECORD["corpus"]
    assert corpus["cheat_runs"] == sum(
        corpus[key] for key in ("caught_with_the_right_check", "caught_with_another", "missed")
    )
    assert corpus["honest_runs"] == sum(
        corpus[key] for key in ("honest_passed", "honest_without_a_verdict", "honest_accused")
    )
    assert sum(RECORD["weather"]["outcomes"].values()) == RECORD["weather"]["runs"]
