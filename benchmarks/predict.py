"""How long a prediction takes: ``roofline predict`` as a whole process, and 10,000 predictions in one.

The command and ``python -c pass`` take turns, so that a slow minute of the machine hits both. ::

    python benchmarks/predict.py [--turns 15]

Prints medians; where the clock shows much more than the CPU time, others were using the machine. Exit 0 when the
process answers within 150 ms by the clock and the loop within a second, else 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ALLOWED_PROCESS_MS = 150.0
ALLOWED_LOOP_S = 1.0
PREDICTIONS = 10_000
MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3")
DEVICE = "h100-sxm"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Found beside this file, installed or not.
from pytest_roofline.predict import Given, inventory_in, machine_of, architecture_of  # noqa: E402, I001
from pytest_roofline.prediction import predict  # noqa: E402
from pytest_roofline.specs.catalogue import Catalogue  # noqa: E402
from pytest_roofline.workload import Workload  # noqa: E402


def process_ms(arguments: list[str], cache: str) -> tuple[float, float]:
    """Milliseconds of one Python process, by the clock and of CPU time; compiled once as an installed package is."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = cache
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, check=True)
    elapsed_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * elapsed_s, 1e3 * cpu_s


def loop_s(model: str) -> float:
    """Seconds of 10,000 predictions of one model, over batch and context, each with all its figures."""
    catalogue = Catalogue()
    machine = machine_of(DEVICE, Given(), catalogue)
    inventory = inventory_in(architecture_of(model, catalogue), None, None, catalogue)
    start = time.perf_counter()
    total = 0.0
    for number in range(PREDICTIONS):
        workload = Workload(inventory=inventory, batch=1 + number % 256, context=number, prompt=1 + number)
        total += predict(machine, workload).ceiling_tokens_per_s
    elapsed_s = time.perf_counter() - start
    assert total > 0
    return elapsed_s


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=15, help="Processes of each (default: 15)")
    turns = parser.parse_args().turns
    commands = {"python -c pass": ["-c", "pass"]}
    for model in MODELS:
        words = ["predict", model, "--device", DEVICE]
        commands[f"roofline {' '.join(words)}"] = ["-m", "pytest_roofline", *words]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache:
        for arguments in commands.values():
            process_ms(arguments, cache)  # compiles what is not compiled yet
        for _ in range(turns):
            for name, arguments in commands.items():
                times[name].append(process_ms(arguments, cache))
    slowest_ms = 0.0
    for name, own in times.items():
        median_ms, cpu_ms = (statistics.median(column) for column in zip(*own, strict=True))
        slowest_ms = max(slowest_ms, median_ms)
        print(f"{name:<52}{median_ms:>8.0f} ms   (best {min(own)[0]:.0f}; {cpu_ms:.0f} ms of CPU time)")
    slowest_s = 0.0
    for model in MODELS:
        elapsed_s = loop_s(model)
        slowest_s = max(slowest_s, elapsed_s)
        print(f"{PREDICTIONS:,} predictions of {model:<31}{elapsed_s:>8.3f} s")
    is_fine = slowest_ms <= ALLOWED_PROCESS_MS and slowest_s <= ALLOWED_LOOP_S
    print(
        f"{'fine' if is_fine else 'TOO SLOW'}: {slowest_ms:.0f} ms of {ALLOWED_PROCESS_MS:g} allowed, "
        f"{slowest_s:.2f} s of {ALLOWED_LOOP_S:g} allowed"
    )
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
