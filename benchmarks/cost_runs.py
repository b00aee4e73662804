"""What `cost.py` runs pytest on, and how: each in a process of its own, with the plugins that are named and no other.

A run writes its figures to ``figures.jsonl`` in its folder, one object a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIGURES = "figures.jsonl"

# -- a call ---------------------------------------------------------------------------------------------------------

# Everything that is compared is measured in each test, one after the other: a slow second is a slow one for all.
CALLS = f"""
import sys
import time
import pytest
from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.loop import Loop
sys.path.insert(0, {str(HERE)!r})
from loop_overhead import PASSES, bare, measured, step, watched
from conftest import write

READS = 2_000

def read():
    "Seconds per read of a clock, by the difference of the first and the last one."
    start = time.perf_counter()
    for _ in range(READS):
        stop = time.perf_counter()
    return (stop - start) / READS, stop - start

@pytest.mark.parametrize("turn", range(TURNS))
def test_calls(benchmark, roofline, turn):
    loop = Loop(step, backend=CpuBackend(), drains=(), is_stateless=True)
    figures = {{"bare loop": bare(), "roofline.decode": measured(loop), "audit.watch": watched()}}
    figures["bare read"], _ = read()
    benchmark.pedantic(step, rounds=1, iterations=PASSES)
    figures["pytest-benchmark"] = benchmark.stats.stats.mean
    with roofline.audit() as audit:
        figures["read in an audit"], seconds = read()
        audit.claim(tokens=1, seconds=seconds)
    write(figures)
"""

# -- a decision -----------------------------------------------------------------------------------------------------

# The step reads 64 MiB in C code; the budget is far below what that reaches, as a budget of a test is.
DECISIONS = """
import time
import pytest
from conftest import write

MEMORY = bytes(bytearray(range(256)) * (2**26 // 256))

def step():
    return float(MEMORY.count(b"no byte sequence of it"))

@pytest.mark.parametrize("turn", range(TURNS))
def test_decision(BENCHMARK, roofline, roofline_probe, turn):
    begin = time.perf_counter()
    result = roofline.decode(step, traffic=float(len(MEMORY)), device="cpu")
    middle = time.perf_counter()
    BENCHMARK(step)
    write({"roofline.decode": middle - begin, "OTHER": time.perf_counter() - middle, "verdict": result.verdict.outcome})
"""

# -- a session ------------------------------------------------------------------------------------------------------

SESSION = """
import pytest
from pytest_roofline.backends.fake import FakeModel
from conftest import BACKEND

@pytest.mark.parametrize("number", range(TESTS))
def test_many(roofline, number):
    model = FakeModel(BACKEND, weight_bytes=2e9)
    assert roofline.decode(model.step, model=model).fraction >= 0.6
"""
OTHER_SESSION = """
import pytest

@pytest.mark.parametrize("number", range(TESTS))
def test_many(benchmark, number):
    benchmark.pedantic(sum, args=(range(1000),), rounds=30, iterations=5)
"""
PLAIN_CONFTEST = f"""
import json

def write(figures):
    with open({FIGURES!r}, "a") as file:
        file.write(json.dumps(figures) + "\\n")
"""
CONFTEST = (
    PLAIN_CONFTEST
    + """
import resource
import time
import pytest
from pytest_roofline.backends.fake import FakeBackend

BACKEND = FakeBackend()
TIMES = {}

@pytest.hookimpl(optionalhook=True)
def pytest_roofline_backends(config):
    return [BACKEND]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    begin = time.process_time()
    answers = yield
    TIMES["summary_s"] = time.process_time() - begin
    return answers

def pytest_collection_finish():
    TIMES["collected_s"] = time.process_time()

def pytest_unconfigure(config):
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    write({**TIMES, "processor_s": time.process_time(), "memory_bytes": memory_bytes})
"""
)


def run(
    folder: Path, source: str, *plugins: str, conftest: str = PLAIN_CONFTEST, more: tuple[str, ...] = ()
) -> list[Any]:
    """Run pytest on a source with these plugins; the figures that it wrote. Ends everything where a test fails."""
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    (folder / "test_it.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / FIGURES).unlink(missing_ok=True)
    loaded = [word for plugin in ("pytest_roofline.plugin", *plugins) for word in ("-p", plugin)]
    lock = f"--roofline-lock-folder={folder}"  # nobody else's measurements are waited for
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *loaded, lock, *more]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in (folder / FIGURES).read_text(encoding="utf-8").splitlines()]
