"""The command ``roofline``: version, probe, exit status, nearest names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline import cli
from pytest_roofline.backends import Backends
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.device import Device
from pytest_roofline.turnstile import Turnstile


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """A fake accelerator is all that this machine has."""
    fake = FakeBackend(read_bytes_per_s=2e12)
    monkeypatch.setattr(Backends, "loaded", lambda self: (fake,))
    return fake


def status_of(*arguments: str) -> int:
    """The exit status, however the command ends."""
    try:
        return cli.main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """One line."""
    assert status_of("--version") == 0
    assert capsys.readouterr().out.startswith("roofline ")


def test_probe_prints_a_table(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    """Device, four patterns, the best, the knee."""
    assert status_of("probe") == 0
    out = capsys.readouterr().out
    assert "fake:0 (Fake Accelerator)" in out
    assert "read          2.00 TB/s   fake:read (tuned)" in out
    for word in ("copy", "write", "triad", "best", "cache knee", "trusted"):
        assert f"\n{word} " in out


def test_probe_prints_the_links_when_asked(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    """Each path with its rate, its direction and the kind of memory; as JSON beside the other figures."""
    assert status_of("probe", "--links") == 0
    out = capsys.readouterr().out
    for line in ("host to fake:0, pinned", "fake:0 to host, pageable", "host and fake:0 at once, pinned"):
        assert re.search(rf"^link +\d\S* [GMT]B/s   {line}$", out, re.MULTILINE), out
    assert status_of("probe", "--links", "--json") == 0
    rates = json.loads(capsys.readouterr().out)["links"]["rates"]
    assert {"source": "host", "target": "fake:0"}.items() <= rates[0].items()


def test_probe_as_json(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    """One object with a schema, plain numbers in SI units."""
    assert status_of("probe", "--device=fake:0", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["device"]["id"] == "fake:0"
    assert found["read_bytes_per_s"] == pytest.approx(2e12, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prob",), "roofline: no command 'prob'; did you mean probe?"),
        (("xyzzy",), f"roofline: no command 'xyzzy'; known are {', '.join(cli.COMMANDS)}"),
        ((), f"roofline: which command? known are {', '.join(cli.COMMANDS)}; roofline --help says more"),
        (("probe", "--jsn"), "roofline: unknown argument '--jsn'; did you mean --json or --links?"),
        (("--versoin",), "roofline: unknown argument '--versoin'; did you mean --version?"),
        (("probe", "--device"), "roofline probe: argument --device: expected one argument"),
    ],
)
def test_wrong_use_exits_with_2_and_the_nearest_name(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr, nothing on stdout."""
    assert status_of(*arguments) == 2
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == (f"{message}\n", "")


def test_an_absent_device_is_wrong_use(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists the devices that are here."""
    assert status_of("probe", "--device", "cuda:7") == 2
    assert "no device here matches 'cuda:7'; here are: fake:0" in capsys.readouterr().err


def test_a_probe_that_cannot_be_made_exits_with_1(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No memory for its buffers is nobody's wrong use."""

    def full(device: Device, pattern: str, working_set_bytes: float) -> Any:
        raise MemoryError("0 bytes are free")

    monkeypatch.setattr(backend, "kernels", full)
    assert status_of("probe") == 1
    assert capsys.readouterr().err.startswith("roofline probe: fake:0 has too little free memory to be probed: ")


@pytest.mark.parametrize("command", ["probe", "doctor"])
def test_a_command_waits_for_whoever_measures_and_says_so(
    command: str,
    backend: FakeBackend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the folder that the environment names to tests too; the line goes beside the answer, and a bound is kept."""
    monkeypatch.setattr(FakeBackend, "is_private", False)
    monkeypatch.setenv("PYTEST_ROOFLINE_LOCK_FOLDER", str(tmp_path))
    monkeypatch.setenv("PYTEST_ROOFLINE_LOCK_WAIT", "0.01")
    with Turnstile(folder=str(tmp_path)).hold(backend.devices()[0]):
        assert status_of(command) == 1
    shown = capsys.readouterr()
    assert "roofline: waiting for fake:0 (Fake Accelerator), up to 10.0 ms: pid " in shown.err
    assert "fake:0 was not free within 10.0 ms: pid " in " ".join((shown.err + shown.out).split())
    assert "waiting for fake:0" not in shown.out
    monkeypatch.setenv("PYTEST_ROOFLINE_LOCK_WAIT", "soon")
    assert status_of(command) == 2
    assert "PYTEST_ROOFLINE_LOCK_WAIT: 'soon' is no positive number of seconds" in capsys.readouterr().err


def test_python_m_is_the_same() -> None:
    """``python -m pytest_roofline`` runs the command."""
    command = [sys.executable, "-m", "pytest_roofline", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("roofline ")
