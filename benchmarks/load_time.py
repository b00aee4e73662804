"""What the plugin costs every run of every project: ``pytest --collect-only`` of an empty file, with and without it.

Wall-clock times of whole runs cannot tell 5 ms on a shared machine: two identical runs differ by three times that. So
processor time (user and system) of child processes is compared, and what bare pytest needs anyway is left out of it:
this process imports pytest and runs it once, then forks a child for every run, which loads its plugins anew and calls
``pytest.main``. ``--whole`` starts a fresh interpreter for each run instead, which is ten times as noisy. What our own
modules take of it, ``python -X importtime`` says. ::

    pip install . pytest-benchmark pytest-codspeed
    python benchmarks/load_time.py [--seconds 120] [--whole]

Runs take turns: bare pytest (every installed plugin blocked with ``-p no:NAME``), bare again (what that "adds" is the
noise), and one run for each plugin with that one alone let in. Byte code is compiled before, as it is for an installed
package. What a plugin adds is the median of the differences within a turn.

Blocked or not, pytest lists the files of every installed package that has a plugin (and from Python 3.12 on looks for
each of them on the disk); that is measured apart.

It is looked at after 25, 50, 100, 200 and 400 turns, with a 99 % interval each time, so that all looks together are
wrong in at most 5 % of the cases; the first look at which our interval leaves 5 ms on one side decides. Exit 0 when the
plugin is under 5 ms, 1 when it is over, 2 when this machine could not tell in time. Needs fork, so not Windows.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest

ALLOWED_MS = 5.0
LOOKS = (25, 50, 100, 200, 400)
CONFIDENCE = 0.99
OURS = "pytest-roofline"
OTHERS = ("pytest-benchmark", "pytest-codspeed")
BARE, AGAIN = "bare pytest", "bare again"
COLLECT = ("--collect-only", "-q", "-p", "no:cacheprovider", "test_empty.py")
NO_TESTS_COLLECTED = 5
IMPORT_TIMES = 5
LISTINGS = 20


def installed_plugins() -> dict[str, list[str]]:
    """Names under which the plugins of each installed distribution are registered."""
    found: dict[str, list[str]] = {}
    for distribution in metadata.distributions():
        names = [entry.name for entry in distribution.entry_points if entry.group == "pytest11"]
        if names:
            found[distribution.metadata["Name"].lower().replace("_", "-")] = names
    return found


def arguments_for(plugins: Mapping[str, Sequence[str]], let_in: str | None) -> list[str]:
    """Arguments of pytest that block every plugin but those of one distribution."""
    blocked = [name for distribution, names in plugins.items() if distribution != let_in for name in names]
    return [*COLLECT, *(argument for name in blocked for argument in ("-p", f"no:{name}"))]


def processor_ms() -> float:
    """Milliseconds of processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def run_forked(arguments: Sequence[str]) -> float:
    """Processor milliseconds of one run in a child that has pytest already."""
    before = processor_ms()
    child = os.fork()
    if child == 0:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        status = 255
        try:
            status = int(pytest.main(list(arguments)))
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != NO_TESTS_COLLECTED:
        raise SystemExit(f"pytest {' '.join(arguments)} ended with {status}")
    return processor_ms() - before


def run_whole(arguments: Sequence[str]) -> float:
    """Processor milliseconds of one run in a fresh interpreter."""
    before = processor_ms()
    interpret("-m", "pytest", *arguments, status=NO_TESTS_COLLECTED)
    return processor_ms() - before


def interpret(*arguments: str, status: int) -> str:
    """Run Python with these arguments; what it printed on stderr."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(sys.pycache_prefix)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != status:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stderr


def import_times() -> dict[str, int]:
    """Microseconds that each module of ours takes by itself to import: the least of a few runs."""
    # Not through pytest: what that imports by name is missing in the figures that Python prints.
    imports = "import pytest, pytest_roofline.plugin"
    least: dict[str, int] = {}
    for _ in range(IMPORT_TIMES):
        for line in interpret("-X", "importtime", "-c", imports, status=0).splitlines():
            own, _, rest = line.removeprefix("import time:").partition("|")
            name = rest.rpartition("|")[2].strip()
            if name.split(".")[0] == "pytest_roofline":
                least[name] = min(int(own), least.get(name, int(own)))
    return least


def listing_ms(distribution: str) -> tuple[float, int]:
    """The least milliseconds in which the files of a distribution are listed, as pytest does it, and how many they are.

    pytest reads this list of every installed package that has a plugin, whether it is let in or not.
    """
    least, count = math.inf, 0
    for _ in range(LISTINGS):
        found = metadata.distribution(distribution)
        start = time.process_time()
        count = len([str(file) for file in found.files or ()])
        least = min(least, 1e3 * (time.process_time() - start))
    return least, count


def forget(package: str) -> None:
    """Make the next import of a package, which a child will do, the first one."""
    folder = str(Path(str(sys.modules[package].__file__)).parent)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]
    for path in [path for path in sys.path_importer_cache if path.startswith(folder)]:
        del sys.path_importer_cache[path]


def take_turns(
    runs: Mapping[str, Callable[[], float]], median_interval: Callable[..., Any], deadline_s: float
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run until a look decides, or until the time is up: times by name, and the interval of what each adds."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    added: dict[str, Any] = {}
    for look in LOOKS:
        while len(times[BARE]) < look and (len(times[BARE]) < LOOKS[0] or time.monotonic() < deadline_s):
            # Every other turn runs backwards, so that no one always follows the same neighbour.
            for name in list(runs)[:: 1 if len(times[BARE]) % 2 else -1]:
                times[name].append(runs[name]())
        added = {name: median_interval(differences(times, name), CONFIDENCE) for name in runs}
        if not added[OURS].low <= ALLOWED_MS <= added[OURS].high or time.monotonic() >= deadline_s:
            break
    return times, added


def differences(times: Mapping[str, Sequence[float]], name: str) -> list[float]:
    """What a run took more than the bare one of the same turn."""
    return [own - bare for own, bare in zip(times[name], times[BARE], strict=True)]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="Longest time to go on for (default: 120)")
    parser.add_argument("--whole", action="store_true", help="A fresh interpreter for each run")
    parser.add_argument("--json", metavar="FILE", help="Write what each plugin adds, turn by turn, in milliseconds")
    options = parser.parse_args()
    plugins = installed_plugins()
    if OURS not in plugins:
        parser.error(f"{OURS} is not installed beside {sys.executable}: pip install . first")
    median_interval = import_module("pytest_roofline.samples").median_interval
    print(f"{Path(str(sys.modules['pytest_roofline'].__file__)).parent}, pytest {pytest.__version__}")
    forget("pytest_roofline")
    names: dict[str, str | None] = {BARE: None, AGAIN: None, OURS: OURS}
    names |= {name: name for name in OTHERS if name in plugins}

    def runner(let_in: str | None) -> Callable[[], float]:
        arguments = arguments_for(plugins, let_in)
        return (lambda: run_whole(arguments)) if options.whole else (lambda: run_forked(arguments))

    runs = {name: runner(let_in) for name, let_in in names.items()}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").touch()
        Path(folder, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        os.chdir(folder)
        # Compiled once, as an installed package is, and outside of everybody's folders.
        sys.dont_write_bytecode, sys.pycache_prefix = False, os.path.join(folder, "cache")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        with redirect_stdout(io.StringIO()):
            pytest.main(arguments_for(plugins, None))  # so that whatever bare pytest imports late is here
        for run in runs.values():
            run()
        gc.collect()
        gc.freeze()  # a full collection of what is here already is nobody's cost
        times, added = take_turns(runs, median_interval, time.monotonic() + options.seconds)
        own = import_times()
        os.chdir("/")
    if options.json:
        added_ms = {name: differences(times, name) for name in times if name != BARE}
        Path(options.json).write_text(json.dumps(added_ms), encoding="utf-8")
    print(f"processor time, {len(times[BARE])} turns, {'whole' if options.whole else 'forked'} runs")
    print(f"{'':<18}{'median':>11}{'adds':>12}   {CONFIDENCE:.0%} interval")
    for name, values in times.items():
        print(f"{name:<18}{statistics.median(values):>8.1f} ms", end="")
        if name == BARE:
            print()
            continue
        middle, interval = statistics.median(differences(times, name)), added[name]
        print(f"{middle:>+9.2f} ms   {interval.low:+.2f} to {interval.high:+.2f}")
    ours = statistics.median(differences(times, OURS))
    for name in [name for name in OTHERS if name in times]:
        print(f"{OURS} adds {ours / statistics.median(differences(times, name)):.2f} of what {name} does")
    print(f"\nour own modules, as python -X importtime has them ({sum(own.values()) / 1e3:.2f} ms):")
    for name, least_us in sorted(own.items(), key=lambda item: -item[1]):
        print(f"  {least_us / 1e3:>6.2f} ms  {name}")
    print(
        "\nnot in these figures, and paid for a plugin that is blocked as well: pytest lists the files of its package"
    )
    for name in [OURS, *(name for name in OTHERS if name in plugins)]:
        least, count = listing_ms(name)
        print(f"  {least:>6.2f} ms  {name} ({count} files)")
    return judge(added[OURS])


def judge(interval: Any) -> int:
    """Say on which side of the bar the interval lies; the exit status."""
    figures = f"{interval.low:.2f} to {interval.high:.2f} ms are added"
    if interval.high < ALLOWED_MS:
        print(f"\ndecided: under {ALLOWED_MS:g} ms ({figures})")
        return 0
    if interval.low > ALLOWED_MS:
        print(f"\ndecided: over {ALLOWED_MS:g} ms ({figures})")
        return 1
    print(f"\nundecided: {ALLOWED_MS:g} ms lie inside the interval ({figures}); allow more time, or quiet the machine")
    return 2


if __name__ == "__main__":
    sys.exit(main())
