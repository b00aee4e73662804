"""What the tool costs: to load, per call, until a decision, and in a session of 1,000 tests, beside other tools.

Everything is compared with what ran beside it in the same minute, pytest-benchmark, pytest-codspeed or a bare loop, and
it is the ratio that is kept: absolute times on a shared machine move by a factor of two. ::

    python -m venv cost && cost/bin/pip install . pytest-benchmark pytest-codspeed
    cost/bin/python benchmarks/cost.py [--quick] [--update]

Exits 1 when a ratio is over the committed one of ``results/cost.json`` by more than 20 % and its interval (of the
median, over turns that are measured side by side) leaves the committed one out; and whatever was committed, when a
session is not linear in its tests or its summary takes a second. ``--update`` commits what was measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cost_runs import CALLS, CONFTEST, DECISIONS, HERE, OTHER_SESSION, SESSION, run

from pytest_roofline.samples import median_interval

RESULTS = HERE / "results" / "cost.json"
ALLOWED = 1.20
SUMMARY_BAR_S = 1.0
LINEAR_BAR = 1.25
"""The second 500 tests of a session over the first 500; of the tests' own work, 1 is linear and 2 is quadratic."""
SIZES = (250, 500, 1000)
OURS = "pytest-roofline"


class Ratios:
    """What was compared, turn by turn."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[str, float]] = {}
        self.figures: dict[str, Any] = {}

    def add(self, name: str, values: Sequence[float]) -> None:
        """A ratio with the interval of its median."""
        interval = median_interval(values)
        middle = statistics.median(values)
        self.by_name[name] = {"median": middle, "low": interval.low, "high": interval.high, "turns": len(values)}
        print(f"  {name:<62}{middle:>9.3g}   {interval.low:.3g} to {interval.high:.3g}", flush=True)


def load(ratios: Ratios, folder: Path, seconds: float) -> None:
    """What each plugin adds to a run of pytest that has no test: see `load_time.py`."""
    path = folder / "load.json"
    command = [sys.executable, str(HERE / "load_time.py"), f"--seconds={seconds}", f"--json={path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not path.exists():
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    added_ms = json.loads(path.read_text(encoding="utf-8"))
    ours = added_ms.pop(OURS)
    ratios.figures["load_ms"] = statistics.median(ours)
    for name in ("pytest-benchmark", "pytest-codspeed"):
        if name in added_ms:
            # Of halves, not of turns: what a plugin adds in one turn may be noise alone, and no divisor.
            ratios.add(f"load: {OURS} / {name}", ratios_of_groups(ours, added_ms[name]))


def ratios_of_groups(ours: Sequence[float], theirs: Sequence[float], groups: int = 7) -> list[float]:
    """The ratio of the medians of every seventh turn."""
    return [statistics.median(ours[at::groups]) / statistics.median(theirs[at::groups]) for at in range(groups)]


def calls(ratios: Ratios, folder: Path, turns: int) -> None:
    """Seconds per call of a step that does nothing, and per read of a clock."""
    rows = run(folder, CALLS.replace("TURNS", str(turns)), "benchmark", more=("--roofline-device=cpu",))
    for name in rows[0]:
        ratios.figures[f"{name}_ns"] = 1e9 * statistics.median(row[name] for row in rows)
    for ours, theirs in (
        ("roofline.decode", "pytest-benchmark"),
        ("roofline.decode", "bare loop"),
        ("audit.watch", "bare loop"),
        ("read in an audit", "bare read"),
    ):
        ratios.add(f"a call: {ours} / {theirs}", [row[ours] / row[theirs] for row in rows])


def decisions(ratios: Ratios, folder: Path, turns: int) -> None:
    """Seconds until a budget is decided, and until the other tool's default is done with the same step."""
    for other, fixture, plugins, more in (
        ("pytest-benchmark", "benchmark", ("benchmark",), ()),
        ("pytest-codspeed", "codspeed_benchmark", ("codspeed",), ("--codspeed", "--codspeed-mode=walltime")),
    ):
        source = DECISIONS.replace("TURNS", str(turns)).replace("BENCHMARK", fixture).replace("OTHER", other)
        # The budget is of the option: far below what the step reaches (2 to 10 % of any memory), so that nothing but
        # the tool takes time.
        asked = ("--roofline-device=cpu", "--roofline-at-least=0.01", "--roofline-inconclusive=pass")
        rows = run(folder, source, *plugins, more=(*asked, *more))
        ratios.figures[f"decision_s beside {other}"] = statistics.median(row["roofline.decode"] for row in rows)
        ratios.figures[f"{other}_s"] = statistics.median(row[other] for row in rows)
        ratios.figures[f"verdicts beside {other}"] = sorted({row["verdict"] for row in rows})
        ratios.add(f"a decision: roofline.decode / {other}", [row["roofline.decode"] / row[other] for row in rows])


def sessions(ratios: Ratios, folder: Path, turns: int) -> list[str]:
    """Sessions of 250, 500 and 1,000 tests on the fake device; what is wrong with them."""
    per_test: list[float] = []
    growth: list[float] = []
    summaries: list[float] = []
    memory: list[float] = []
    other_memory: list[float] = []
    for _ in range(turns):
        ours = {size: run(folder, SESSION.replace("TESTS", str(size)), conftest=CONFTEST)[-1] for size in SIZES}
        small, middle, large = (ours[size]["processor_s"] - ours[size]["collected_s"] for size in SIZES)
        theirs = [
            run(folder, OTHER_SESSION.replace("TESTS", str(size)), "benchmark", conftest=CONFTEST)[-1]
            for size in (SIZES[0], SIZES[-1])
        ]
        other_small, other_large = (figures["processor_s"] - figures["collected_s"] for figures in theirs)
        per_test.append((large - small) / (other_large - other_small))
        # By differences the probe, which is the same in all of them, cancels.
        growth.append((large - middle) / (SIZES[2] - SIZES[1]) / ((middle - small) / (SIZES[1] - SIZES[0])))
        summaries.append(ours[SIZES[-1]]["summary_s"])
        memory.append((ours[SIZES[-1]]["memory_bytes"] - ours[SIZES[0]]["memory_bytes"]) / (SIZES[-1] - SIZES[0]))
        other_memory.append((theirs[1]["memory_bytes"] - theirs[0]["memory_bytes"]) / (SIZES[-1] - SIZES[0]))
        ratios.figures["session_test_ms"] = 1e3 * (large - small) / (SIZES[-1] - SIZES[0])
        ratios.figures["other_session_test_ms"] = 1e3 * (other_large - other_small) / (SIZES[-1] - SIZES[0])
    ratios.figures |= {"summary_s": min(summaries), "session_growth": min(growth), "bytes_per_test": min(memory)}
    ratios.add("a session: a test of ours / one of pytest-benchmark", per_test)
    ratios.add(
        "a session: memory of such a test / one of pytest-benchmark",
        [own / other for own, other in zip(memory, other_memory, strict=True)],
    )
    print(
        f"  {'a session of 1,000: the last 500 / the 250 before, per test':<62}{min(growth):>9.3g}   (bar {LINEAR_BAR})"
    )
    print(f"  {'a session of 1,000: the summary':<62}{min(summaries):>9.3g} s (bar {SUMMARY_BAR_S:g} s)")
    print(f"  {'a session of 1,000: memory per test':<62}{min(memory) / 1e3:>9.3g} kB")
    wrong = []
    # Noise only adds: the best of the turns is what the code costs.
    if min(growth) > LINEAR_BAR:
        wrong.append(f"a session is not linear: its last 500 tests cost {min(growth):.2f}x of those before")
    if min(summaries) > SUMMARY_BAR_S:
        wrong.append(f"the summary of 1,000 tests takes {min(summaries):.2f} s")
    return wrong


def regressions(found: dict[str, dict[str, float]], committed: dict[str, dict[str, float]]) -> list[str]:
    """What got dearer than is allowed, with the figures."""
    wrong = []
    for name, was in committed.items():
        now = found.get(name)
        if now is None:
            wrong.append(f"{name}: not measured now; install what it is compared with")
        elif now["median"] > ALLOWED * was["median"] and now["low"] > was["median"]:
            by = now["median"] / was["median"] - 1
            wrong.append(f"{name}: {now['median']:.3g}, {was['median']:.3g} is committed (+{by:.0%})")
    return wrong


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help=f"Write {RESULTS.name} instead of comparing with it")
    parser.add_argument("--quick", action="store_true", help="A third of the turns")
    options = parser.parse_args()
    share = 3 if options.quick else 1
    ratios = Ratios()
    print(f"Python {platform.python_version()}; medians of ratios, with their 95 % interval")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load(ratios, folder, 120 / share)
        calls(ratios, folder, 30 // share)
        decisions(ratios, folder, 9 // share)
        wrong = sessions(ratios, folder, 3 // share)
    if options.update:
        text = {"schema": 1, "python": platform.python_version(), "ratios": ratios.by_name, "figures": ratios.figures}
        RESULTS.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
    else:
        wrong += regressions(ratios.by_name, json.loads(RESULTS.read_text(encoding="utf-8"))["ratios"])
    for line in wrong:
        print(f"WORSE: {line}")
    print("nothing got dearer" if not wrong else f"{len(wrong)} of the figures are worse than allowed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
