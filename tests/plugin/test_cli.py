"""The command ``roofline``: version, probe, exit status, nearest names."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from pytest_roofline import cli
from pytest_roofline.backends import Backends
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.device import Device


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
        (("xyzzy",), "roofline: no command 'xyzzy'; known are predict, curve, probe, specs"),
        ((), "roofline: which command? known are predict, curve, probe, specs; roofline --help says more"),
        (("probe", "--jsn"), "roofline: unknown argument '--jsn'; did you mean --json?"),
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
    assert capsys.readouterr().err.startswith("roofline probe: ")


def test_python_m_is_the_same() -> None:
    """``python -m pytest_roofline`` runs the command."""
    command = [sys.executable, "-m", "pytest_roofline", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("roofline ")
