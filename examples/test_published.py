"""Results measured elsewhere: a file that llama-bench wrote, and the same file with a better story."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE / "llama-bench.json"
"""Decode of a 1.1B model in F16 by llama.cpp, on two cores that read 28 GB/s."""


def check(file: Path) -> tuple[int, str]:
    """Status and words of ``roofline check``; nothing is measured, and no framework is loaded."""
    command = [sys.executable, "-m", "pytest_roofline", "check", "--llama-bench", str(file), "--bandwidth", "28GB/s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    return done.returncode, done.stdout


def test_what_llama_bench_wrote() -> None:
    """The model is recognised by its size; its decode reaches 60 and 58 % of what that memory allows."""
    status, said = check(FILE)
    assert status == 0, said
    assert "recognised as tinyllama-1.1b" in said
    assert said.count("passed") == 2


def test_three_times_as_fast(tmp_path: Path) -> None:
    """Rates and seconds alike, so that the file agrees with itself: no memory of 28 GB/s can do that."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    for row in rows:
        row["avg_ts"] *= 3
        row["samples_ns"] = [nanoseconds / 3 for nanoseconds in row["samples_ns"]]
    edited = tmp_path / "llama-bench.json"
    edited.write_text(json.dumps(rows), encoding="utf-8")
    status, said = check(edited)
    assert status == 1, said
    assert said.count("BOGUS") == 2
    assert "the ceiling of 13.5 tok/s (28 GB/s / 2.069 GB per pass)" in " ".join(said.split())
