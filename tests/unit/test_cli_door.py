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


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("--version", {"importlib.metadata"}),
        ("predict --params 8B --device h100-sxm --json", set()),
        ("predict llama-3.1-8b --weights q4_k_m --device h100-sxm", set()),
        ("curve llama-3.1-8b --device h100-sxm", set()),
        ("specs list", {"importlib.metadata"}),
        ("specs show h100-sxm", set()),
        ("specs validate", {"importlib.metadata"}),
    ],
)
def test_a_command_loads_only_what_it_needs(command: str, needed: set[str]) -> None:
    """No framework, no pytest, no rich; packages that announce specs are looked for where every spec is read."""
    program = (
        "import json, sys\n"
        "from pytest_roofline.cli import main\n"
        f"status = main({command.split()!r})\n"
        f"print(json.dumps([status, *(name for name in {HEAVY!r} if name in sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    status, *loaded = json.loads(done.stdout.splitlines()[-1])
    assert status == 0, done.stdout
    assert set(loaded) <= needed


def test_nobody_reads_on() -> None:
    """``roofline specs list | head``: no traceback, nothing on stderr."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "pytest_roofline", "specs", "list", "formats"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="another shell there")
def test_a_closed_stdout() -> None:
    """``roofline specs list >&-``: a line, no traceback, and not the status of a command that was heard."""
    command = f'"{sys.executable}" -m pytest_roofline specs list formats >&-'
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (2, "roofline: stdout is closed\n")


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
        (["predict", "a", "b"], "roofline: unknown argument 'b'; one MODEL is taken, and a device is named by"),
        (["doctor", "b"], "roofline: unknown argument 'b'; known are"),
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


def test_an_interrupted_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is status 130, without a traceback."""

    def interrupted(parsed: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["specs", "list"]) == 130
    assert capsys.readouterr() == ("", "roofline: interrupted\n")


def test_a_file_that_is_not_there_is_not_validated(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use, not a fault of a spec; nor is an empty name the folder one stands in."""
    for name in ("nosuch.yaml", ""):
        assert cli.main(["specs", "validate", name]) == 2
        assert capsys.readouterr() == ("", f"roofline specs: specs validate: {name!r}: no such spec file or folder\n")


@pytest.mark.parametrize(
    "option", ["--batch=1,0,0", "--batch=1_0000", "--context=,5", "--offload=0_1", "--offload=\u0661", "--offload=1e"]
)
def test_figures_that_nobody_writes_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Separators stand between thousands, and digits are those of ASCII."""
    assert cli.main(["predict", "--params", "8B", "--bandwidth", "1TB/s", option]) == 2
    assert option.partition("=")[0] in capsys.readouterr().err


def test_thousands_may_be_separated(capsys: pytest.CaptureFixture[str]) -> None:
    """By commas or underscores."""
    for text in ("1,000", "1_000"):
        assert cli.main(["predict", "--params", "8B", "--bandwidth", "1TB/s", "--batch", text, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["batch"] == 1000


def test_a_link_to_itself_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not called missing."""
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["predict", "./loop", "--bandwidth", "1TB/s"]) == 2
    assert "loop: a symbolic link that leads nowhere" in capsys.readouterr().err
