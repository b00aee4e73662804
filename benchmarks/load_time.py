"""What the plugin costs every run of every project: ``pytest --collect-only`` of an empty file, with and without it.

Bare pytest, pytest with this plugin, and pytest with pytest-benchmark (where it is installed) take turns, so that a
slow minute of the machine hits all of them. Bare pytest runs twice a turn: what the second "adds" is nothing but the
noise of this machine, which on a busy one is larger than what is to be measured. ::

    python benchmarks/load_time.py [--turns 25]

Prints medians, and what each adds: the median of the differences within a turn, with its 95 % interval. Exit 0 when all
of our interval is within 5 ms, 1 when none of it is, and 2 when this machine could not tell.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ALLOWED_MS = 5.0
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Found beside this file, installed or not.
from pytest_roofline.samples import median_interval  # noqa: E402


def run(folder: str, plugin: str | None) -> float:
    """Milliseconds of one ``pytest --collect-only`` in a fresh process."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "test_empty.py"]
    if plugin is not None:
        command += ["-p", plugin]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # Compiled once, as an installed package is, and outside of everybody's folders.
        "PYTHONPYCACHEPREFIX": os.path.join(folder, "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    }
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    elapsed_ms = 1e3 * (time.perf_counter() - start)
    if done.returncode != 5:  # pytest's word for "no tests collected"
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return elapsed_ms


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=25, help="Runs of each (default: 25)")
    turns = parser.parse_args().turns
    plugins: dict[str, str | None] = {"bare pytest": None, "bare again": None}
    plugins["pytest-roofline"] = "pytest_roofline.plugin"
    if importlib.util.find_spec("pytest_benchmark") is not None:
        plugins["pytest-benchmark"] = "pytest_benchmark.plugin"
    times: dict[str, list[float]] = {name: [] for name in plugins}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").touch()
        Path(folder, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        for plugin in plugins.values():
            run(folder, plugin)  # compiles what is not compiled yet
        for turn in range(turns):
            # Every other turn runs backwards, so that no one always follows the same neighbour.
            for name in list(plugins)[:: 1 if turn % 2 == 0 else -1]:
                times[name].append(run(folder, plugins[name]))
    bare = times.pop("bare pytest")
    print(f"{'':<18}{'median':>11}{'adds':>11}   95 % interval")
    print(f"{'bare pytest':<18}{statistics.median(bare):>8.1f} ms")
    added = {}
    for name, own in times.items():
        differences = [one - base for one, base in zip(own, bare, strict=True)]
        added[name] = interval = median_interval(differences)
        middle = statistics.median(differences)
        between = f"{interval.low:+.1f} to {interval.high:+.1f}"
        print(f"{name:<18}{statistics.median(own):>8.1f} ms{middle:>+8.1f} ms   {between}")
    ours = added["pytest-roofline"]
    if ours.high <= ALLOWED_MS:
        print(f"fine: pytest-roofline adds at most {ours.high:.1f} ms, {ALLOWED_MS:g} are allowed")
        return 0
    if ours.low > ALLOWED_MS:
        print(f"TOO SLOW: pytest-roofline adds at least {ours.low:.1f} ms, {ALLOWED_MS:g} are allowed")
        return 1
    print(f"undecided: {ALLOWED_MS:g} ms lie inside the interval; take more turns, or a quieter machine")
    return 2


if __name__ == "__main__":
    sys.exit(main())
