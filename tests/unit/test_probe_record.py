"""The probe that the workers of a run share: read only where everything agrees, and never in anybody's way."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline import probe_record
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.device import Device
from pytest_roofline.probe import Probe, probe_device
from pytest_roofline.probe_record import ProbeRecords
from pytest_roofline.session import Session
from pytest_roofline.turnstile import Turnstile

BACKEND = FakeBackend()
DEVICE = BACKEND.devices()[0]
PROBE = probe_device(DEVICE, [BACKEND])


def records_in(folder: Path, run: str = "run-1") -> ProbeRecords:
    """The records of a run."""
    return ProbeRecords(folder=str(folder), run_id=run)


def only_file(folder: Path) -> Path:
    """The one record that lies there."""
    (path,) = folder.iterdir()
    return path


def test_another_worker_reads_the_same_figures(tmp_path: Path) -> None:
    """All of them, to the last digit; where they come from is noted, and peaks are still measured on demand."""
    records_in(tmp_path).write(PROBE, [BACKEND])
    found = records_in(tmp_path).read(DEVICE, [BACKEND])
    assert found is not None
    assert found.notes[-1] == f"measured by another worker of this run (pid {os.getpid()})"
    assert replace(found, notes=PROBE.notes) == PROBE
    assert found.peak_flops_per_s("bfloat16") > 0


class Renamed(FakeBackend):
    """A second framework that has the device too."""

    name = "other"


class Threaded(FakeBackend):
    """The same one with a thread setting."""

    def threads(self, device: Device) -> int | None:
        """Four."""
        return 4


@pytest.mark.parametrize(
    ("run", "device", "backends"),
    [
        ("run-2", DEVICE, [BACKEND]),
        ("run-1", replace(DEVICE, uuid="FAKE-7"), [BACKEND]),
        ("run-1", replace(DEVICE, driver="999.1"), [BACKEND]),
        ("run-1", replace(DEVICE, name="Other"), [BACKEND]),
        ("run-1", DEVICE, [BACKEND, Renamed()]),
        ("run-1", DEVICE, [Threaded()]),
    ],
    ids=["another run", "another device", "another driver", "another name", "more frameworks", "other threads"],
)
def test_where_anything_differs_it_is_not_read(
    tmp_path: Path, run: str, device: Device, backends: list[FakeBackend]
) -> None:
    """A rate rests on all of these, so that each of them asks for a measurement of its own."""
    records_in(tmp_path).write(PROBE, [BACKEND])
    assert records_in(tmp_path, run).read(device, backends) is None


def test_another_version_of_the_probe_measures_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of the same name and place."""
    records_in(tmp_path).write(PROBE, [BACKEND])
    monkeypatch.setattr(probe_record, "PROBE_VERSION", -1)
    assert records_in(tmp_path).read(DEVICE, [BACKEND]) is None


def test_the_version_of_a_framework_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernels came with it."""
    records_in(tmp_path).write(PROBE, [BACKEND])
    module = type(os)("fake")
    module.__version__ = "2.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "fake", module)
    assert records_in(tmp_path).read(DEVICE, [BACKEND]) is None


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damage_is_never_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Cut off anywhere, or with any byte changed: the record is gone, and nothing else happens."""
    folder = tmp_path_factory.mktemp("records")
    records_in(folder).write(PROBE, [BACKEND])
    path = only_file(folder)
    text = path.read_bytes()
    place = data.draw(st.integers(0, len(text) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(text[:place])
    else:
        byte = data.draw(st.integers(0, 255).filter(lambda value: value != text[place]))
        path.write_bytes(text[:place] + bytes([byte]) + text[place + 1 :])
    found = records_in(folder).read(DEVICE, [BACKEND])
    # White space between two values may become another one: then nothing was damaged.
    assert found is None or replace(found, notes=PROBE.notes) == PROBE


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"body": {}, "digest": ""}', "[" * 100_000, "9" * 5000])
def test_what_is_no_record_is_not_read(tmp_path: Path, text: str) -> None:
    """Somebody else's file of that name costs the record, not the run."""
    records_in(tmp_path).write(PROBE, [BACKEND])
    only_file(tmp_path).write_text(text)
    assert records_in(tmp_path).read(DEVICE, [BACKEND]) is None


@pytest.mark.parametrize("rate", [0, -1.0, True, "fast", None, 1e400])
def test_a_figure_that_is_none_is_not_believed(tmp_path: Path, rate: object) -> None:
    """Even of a record whose digest is right."""
    records_in(tmp_path).write(PROBE, [BACKEND])
    path = only_file(tmp_path)
    body = json.loads(path.read_text())["body"]
    body["probe"]["read_bytes_per_s"] = rate
    path.write_text(json.dumps({"body": body, "digest": probe_record._digest(body)}))
    assert records_in(tmp_path).read(DEVICE, [BACKEND]) is None


def test_nowhere_to_write_stops_nobody(tmp_path: Path) -> None:
    """A folder that is none, and a disk that is full: no record, no error and no draft left behind."""
    (tmp_path / "file").write_text("")
    records_in(tmp_path / "file").write(PROBE, [BACKEND])
    assert records_in(tmp_path / "file").read(DEVICE, [BACKEND]) is None


def test_a_full_disk_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record takes its name whole or not at all."""

    def full(*paths: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    records_in(tmp_path).write(PROBE, [BACKEND])
    assert list(tmp_path.iterdir()) == []


def test_old_records_go(tmp_path: Path) -> None:
    """A device keeps the last few runs' records, so that runs beside each other keep theirs."""
    for number in range(20):
        records_in(tmp_path, f"run-{number}").write(PROBE, [BACKEND])
        for path in tmp_path.iterdir():
            os.utime(path, (1e9, 1e9))  # a file system that knows no moments
        assert len(list(tmp_path.iterdir())) == min(number + 1, 8)
        assert records_in(tmp_path, f"run-{number}").read(DEVICE, [BACKEND]) is not None


@pytest.mark.parametrize("run", ["run-1", None])
def test_the_sessions_of_a_run_share_one_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str | None
) -> None:
    """The first one measures and the others read; sessions without a run in common measure each for itself."""
    measured: list[Device] = []

    def counted(device: Device, backends: list[FakeBackend], **others: Any) -> Probe:
        measured.append(device)
        return probe_device(device, backends, **others)

    monkeypatch.setattr("pytest_roofline.probe.probe_device", counted)
    for _ in range(3):
        backend = FakeBackend()
        session = Session(added_backends=[backend], turnstile=Turnstile(folder=str(tmp_path)), run_id=run)
        assert session.probe(backend.devices()[0]).read_bytes_per_s == PROBE.read_bytes_per_s
    assert len(measured) == (1 if run else 3)
