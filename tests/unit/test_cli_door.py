"""The door of the command: what it imports, how it complains, and what happens when nobody reads on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_roofline import cli

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "pytest", "rich", "numpy", "matplotlib", "transformers", "jax", "difflib", "importlib.metadata")


def test_a_prediction_loads_only_what_it_needs() -> None:
    """No framework, no pytest, no rich: neither would be used."""
    program = (
        "import json, sys\n"
        "from pytest_roofline.cli import main\n"
        "main(['predict', '--params', '8B', '--device', 'h100-sxm', '--json'])\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    prediction, loaded = map(json.loads, done.stdout.splitlines())
    assert prediction["device"] == "NVIDIA H100 SXM 80 GB"
    assert set(loaded) <= {"difflib"}


def test_nobody_reads_on() -> None:
    """``roofline specs list | head``: no traceback, nothing on stderr."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "pytest_roofline", "specs", "list", "formats"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With one line for each."""
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n    {name} " in out for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And ``--json`` among its options."""
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predit"], "roofline: no command 'predit'; did you mean predict"),
        (["curve", "--pointss=3"], "roofline: unknown argument '--pointss=3'; did you mean --points"),
        (["predict", "a", "b"], "roofline: unknown argument 'b'; known are"),
        (["specs"], "roofline specs: the following arguments are required: action, NAME"),
        (["specs", "lst"], "roofline specs: argument action: invalid choice: 'lst'"),
    ],
)
def test_complaints(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, with the nearest names."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1


def test_negative_values_reach_their_option(capsys: pytest.CaptureFixture[str]) -> None:
    """The complaint is about the figure, not about an unknown option."""
    assert cli.main(["predict", "--params", "8B", "--bandwidth", "1TB/s", "--memory", "-inf"]) == 2
    assert "--memory: '-inf' is not a number of bytes" in capsys.readouterr().err
