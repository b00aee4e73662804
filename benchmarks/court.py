"""The whole corpus before the court, and honest programs in bad weather: how many cheats are caught, how many honest.

Every recipe of ``tests/corpus`` runs at two sizes with ten seeds on the fake device; honest ones run again under
drift, bursts, heavy tails, steps, throttling, neighbours and recorded noise. Exits 1 when a cheat that a local check
can catch was missed, or an honest program was accused. With ``--real`` honest programs also run on the CPU with torch,
JAX and MLX, where only "never bogus" counts.

Writes its record to ``benchmarks/results/court.json`` and its counts into the README's table.

    python benchmarks/court.py [--seeds 10] [--weather 1000] [--real [100]] [--jobs N]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

from corpus import RECIPES, SIZES, Recipe, Size, is_accused  # noqa: E402
from corpus.weather import in_weather, is_weatherproof  # noqa: E402

RESULTS = HERE / "results" / "court.json"
README = HERE.parent / "README.md"
REAL_RUNS = 100
BY_ID = {recipe.id: recipe for recipe in RECIPES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One program that was run once."""

    id: str
    kind: str
    seed: int
    size: str
    outcome: str
    checks: tuple[str, ...]
    is_met: bool
    message: str = ""
    weather: str = ""

    @property
    def is_missed(self) -> bool:
        """A cheat that got away."""
        return self.kind == "bogus" and self.outcome != "bogus"

    @property
    def is_accused(self) -> bool:
        """An honest program, or one that nobody can decide, that was called bogus or failed."""
        return self.kind != "bogus" and self.outcome in ("bogus", "failed", "error")


def run_recipe(task: tuple[str, int, Size]) -> Run:
    """A recipe as it is."""
    id_, seed, size = task
    recipe = BY_ID[id_]
    return _run(recipe, recipe, seed, size)


def run_in_weather(task: tuple[str, int]) -> Run:
    """An honest recipe in weather of its own; never bogus and never failed is all that is asked."""
    id_, seed = task
    weather, recipe = in_weather(BY_ID[id_], seed)
    return _run(recipe, recipe, seed, SIZES[seed % 2], weather)


def _run(recipe: Recipe, judged: Recipe, seed: int, size: Size, weather: str = "") -> Run:
    try:
        ending = judged.build(seed, size)()
    except Exception as error:  # a program that breaks is shown, not hidden
        return Run(
            id=recipe.id,
            kind=recipe.kind,
            seed=seed,
            size=size,
            outcome="error",
            checks=(),
            is_met=False,
            message=f"{type(error).__name__}: {error}",
            weather=weather,
        )
    is_met = not is_accused(ending) if weather else judged.is_met_by(ending)
    return Run(
        id=recipe.id,
        kind=recipe.kind,
        seed=seed,
        size=size,
        outcome=ending.outcome,
        checks=ending.checks,
        is_met=is_met,
        message="" if is_met else ending.message,
        weather=weather,
    )


# -- the tables -------------------------------------------------------------------------------------------------------


def show_corpus(runs: list[Run]) -> dict[str, int]:
    """Cheats caught and missed, honest programs passed and accused; every recipe that is not as it must be."""
    cheats = [run for run in runs if run.kind == "bogus"]
    unsure = [run for run in runs if run.kind == "undecidable"]
    honest = [run for run in runs if run.kind == "honest"]
    counts = {
        "recipes": len({run.id for run in runs}),
        "cheats": len({run.id for run in cheats}),
        "cheat_runs": len(cheats),
        "caught_with_the_right_check": sum(run.is_met for run in cheats),
        "caught_with_another": sum(not run.is_met and not run.is_missed for run in cheats),
        "missed": sum(run.is_missed for run in cheats),
        "undecidable": len({run.id for run in unsure}),
        "undecidable_runs": len(unsure),
        "undecidable_as_expected": sum(run.is_met for run in unsure),
        "undecidable_accused": sum(run.is_accused for run in unsure),
        "honest": len({run.id for run in honest}),
        "honest_runs": len(honest),
        "honest_passed": sum(run.outcome == "passed" for run in honest),
        "honest_without_a_verdict": sum(run.outcome == "inconclusive" for run in honest),
        "honest_accused": sum(run.is_accused for run in honest),
    }
    print(f"{counts['cheats']} cheats, {counts['cheat_runs']} runs")
    _row("caught, by the right check", counts["caught_with_the_right_check"])
    _row("caught, by another check", counts["caught_with_another"])
    _row("missed", counts["missed"])
    print(f"{counts['undecidable']} programs that nobody can decide, {counts['undecidable_runs']} runs")
    _row("no verdict, or inside the margins, as expected", counts["undecidable_as_expected"])
    _row("accused", counts["undecidable_accused"])
    print(f"{counts['honest']} honest programs, {counts['honest_runs']} runs")
    _row("passed", counts["honest_passed"])
    _row("without a verdict", counts["honest_without_a_verdict"])
    _row("accused", counts["honest_accused"])
    _show_unmet(runs)
    return counts


def show_weather(runs: list[Run]) -> dict[str, Any]:
    """Honest programs by weather and outcome."""
    accused = [run for run in runs if run.is_accused]
    print(f"{len(runs)} honest runs in bad weather, {len(accused)} accused")
    for name in sorted({run.weather for run in runs}):
        outcomes = Counter(run.outcome for run in runs if run.weather == name)
        print(f"  {name:14} " + ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())))
    _show_unmet(runs)
    return {"runs": len(runs), "accused": len(accused), "outcomes": dict(Counter(run.outcome for run in runs))}


def _show_unmet(runs: Iterable[Run]) -> None:
    unmet: dict[str, list[Run]] = {}
    for run in runs:
        if not run.is_met:
            unmet.setdefault(run.id, []).append(run)
    for id_, those in unmet.items():
        first = those[0]
        ended = ", ".join(sorted({f"{run.outcome} ({', '.join(run.checks[:2])})" for run in those}))
        print(f"  ! {id_} x{len(those)}: {BY_ID[id_].title if id_ in BY_ID else id_}")
        print(f"      {first.kind}, ended {ended}; seed {first.seed}, {first.size} {first.weather}")
        print(f"      {first.message.splitlines()[0][:200] if first.message else ''}")


def _row(text: str, count: int) -> None:
    print(f"  {text:48}{count:8}")


def readme_rows(record: dict[str, Any]) -> list[str]:
    """The rows of the README's table, one per side, by what became of every run."""
    corpus, weather = record["corpus"], record["weather"]
    right, other, missed = (corpus[key] for key in ("caught_with_the_right_check", "caught_with_another", "missed"))
    passed, none, accused = (corpus[key] for key in ("honest_passed", "honest_without_a_verdict", "honest_accused"))
    kept = sum(count for outcome, count in weather["outcomes"].items() if outcome == "passed")
    return [
        f"| cheats | {corpus['cheats']} | {corpus['cheat_runs']} | {right} caught by the right check, {other} by "
        f"another, {missed} missed |",
        f"| honest | {corpus['honest']} | {corpus['honest_runs']} | {passed} passed, {none} without a verdict, "
        f"{accused} accused |",
        f"| honest, in bad weather | - | {weather['runs']} | {kept} passed, "
        f"{weather['runs'] - kept - weather['accused']} without a verdict, {weather['accused']} accused |",
    ]


def write_readme(record: dict[str, Any]) -> None:
    """Put the rows where the README has those of the run before."""
    rows = {row.split("|")[1]: row for row in readme_rows(record)}
    lines = README.read_text(encoding="utf-8").split("\n")
    kept = [rows.get(line.split("|")[1], line) if line.startswith("| ") else line for line in lines]
    README.write_text("\n".join(kept), encoding="utf-8")


# -- the session ------------------------------------------------------------------------------------------------------


def _real(runs: int) -> dict[str, Any]:
    from court_real import run_honest_programs

    counts: dict[str, Any] = run_honest_programs(runs)
    print(f"{counts['runs']} honest runs on real frameworks, {counts['accused']} accused")
    for name, outcomes in counts["frameworks"].items():
        print(f"  {name:14} " + ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())))
    for text in counts["messages"]:
        print(f"  ! {text}")
    return counts


def main() -> int:
    """Run, print, write the record."""
    parser = argparse.ArgumentParser(description="The corpus before the court.")
    parser.add_argument("--seeds", type=int, default=10, help="of each recipe and size")
    parser.add_argument("--weather", type=int, default=1000, help="honest runs with noise")
    parser.add_argument("--real", type=int, nargs="?", const=REAL_RUNS, default=0, help="honest runs on real CPUs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="recipes whose id holds this; writes no record")
    options = parser.parse_args()
    start = time.perf_counter()
    chosen = [recipe for recipe in RECIPES if options.only in recipe.id]
    tasks = [(recipe.id, seed, size) for recipe in chosen for size in SIZES for seed in range(options.seeds)]
    proof = [recipe for recipe in chosen if is_weatherproof(recipe)]
    storms = [(proof[number % len(proof)].id, number) for number in range(options.weather if proof else 0)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        corpus = show_corpus(pool.map(run_recipe, tasks, chunksize=8))
        weather = show_weather(pool.map(run_in_weather, storms, chunksize=8))
    real = _real(options.real) if options.real else None
    is_missed = corpus["missed"] > 0
    accused = corpus["honest_accused"] + corpus["undecidable_accused"] + weather["accused"]
    accused += real["accused"] if real else 0
    caught = corpus["cheat_runs"] - corpus["missed"]
    honest = corpus["honest_runs"] + weather["runs"] + (real["runs"] if real else 0)
    print(f"\ncheats caught: {caught} of {corpus['cheat_runs']}; honest programs accused: {accused} of {honest}")
    print(f"bar (none missed, none accused): {'MISSED' if is_missed or accused else 'held'}")
    if not options.only:
        RESULTS.parent.mkdir(exist_ok=True)
        record = {
            "schema": 1,
            "seeds": options.seeds,
            "elapsed_s": round(time.perf_counter() - start, 1),
            "corpus": corpus,
            "weather": weather,
            "real": real,
            "cheats_caught": [caught, corpus["cheat_runs"]],
            "honest_accused": [accused, honest],
        }
        RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        write_readme(record)
        print("\n".join(["", "README.md:", *readme_rows(record)]))
    return 1 if is_missed or accused else 0


if __name__ == "__main__":
    sys.exit(main())
