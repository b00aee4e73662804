"""Where the figures of a run come from: commit, libraries, devices with their probes; and what a report says first."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_up_runs import DEVICE

from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.results.origin import commit_of, device_record, libraries_in, merged, message_of, place_of
from pytest_roofline.session import Session


def told(rate: float = 1e12, **device: Any) -> dict[str, Any]:
    """What a process tells of a device that it has probed."""
    probe = {
        "read_bytes_per_s": rate,
        "sweep": [[1e6, "read", rate]],
        "peak_flops_per_s": {},
        "link_bytes_per_s": None,
        "links": None,
        "notes": [],
    }
    return {"device": {**DEVICE, **device}, "sheet": None, "limit": {}, "probe": probe}


def test_a_device_with_its_probe_and_limit() -> None:
    """The whole sweep, the knee, the sheet that was matched and what its figures may not exceed."""
    backend = FakeBackend()
    session = Session(added_backends=[backend])
    device = session.find_device("fake")
    probe = session.probe(device)
    found = device_record(probe, session.limit(device))
    assert found["device"] == device.to_dict()
    assert len(found["probe"]["sweep"]) == len(probe.sweep)
    assert found["probe"]["cache_knee_bytes"] == probe.cache_knee_bytes
    assert found["limit"]["bytes_per_s"] == session.limit(device).bytes_per_s
    assert found["sheet"] is None


def test_workers_of_one_probe_share_its_entry() -> None:
    """And what any of them has measured on demand joins it."""
    first = told()
    first["probe"]["peak_flops_per_s"] = {"bfloat16": 1e15}
    second = told()
    second["probe"].update(notes=["measured by another worker"], link_bytes_per_s=5e10)
    (entry,) = merged(merged([], first, "gw0"), second, "gw1")
    assert entry["workers"] == ["gw0", "gw1"]
    assert entry["probe"]["peak_flops_per_s"] == {"bfloat16": 1e15}
    assert entry["probe"]["link_bytes_per_s"] == 5e10
    assert entry["probe"]["notes"] == []
    (again,) = merged([entry], first, "gw0")
    assert again == entry


@pytest.mark.parametrize("worker", [None, "gw0"])
def test_a_process_for_every_test_leaves_one_entry(worker: str | None) -> None:
    """Each of them has made a probe of its own; the last one stays."""
    devices: list[dict[str, Any]] = []
    for rate in (1e12, 1.1e12, 0.9e12):
        devices = merged(devices, told(rate), worker)
    (entry,) = devices
    assert entry["probe"]["read_bytes_per_s"] == 0.9e12
    assert entry["workers"] == ([] if worker is None else [worker])


def test_other_devices_have_entries_of_their_own() -> None:
    """By id, name and uuid; so has another probe of the same device by another worker."""
    devices = merged([], told(), "gw0")
    devices = merged(devices, told(uuid="FAKE-1", id="fake:1"), "gw0")
    devices = merged(devices, told(1.2e12), "gw1")
    assert [(one["device"]["id"], one["workers"]) for one in devices] == [
        ("fake:0", ["gw0"]),
        ("fake:1", ["gw0"]),
        ("fake:0", ["gw1"]),
    ]


def test_libraries_that_are_loaded() -> None:
    """Those that may change a figure, by the names of their packages; nothing is imported to ask it."""
    modules = {
        "torch": SimpleNamespace(__version__="2.13.0", version=SimpleNamespace(cuda="12.8", hip=None)),
        "mlx.core": SimpleNamespace(__version__="0.30"),
        "jax": None,
        "numpy": SimpleNamespace(),
        "requests": SimpleNamespace(__version__="2"),
    }
    assert libraries_in(modules) == {"torch": "2.13.0", "torch.cuda": "12.8", "mlx": "0.30"}
    assert libraries_in({}) == {}


@pytest.mark.parametrize(
    "failure",
    [FileNotFoundError("git"), PermissionError("git"), subprocess.TimeoutExpired("git", 5), ValueError("a NUL")],
)
def test_a_git_that_fails_costs_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    """Absent, hanging, or refusing: no commit, and no error."""

    def fail(*arguments: Any, **more: Any) -> None:
        raise failure

    monkeypatch.setattr(subprocess, "run", fail)
    assert commit_of(str(tmp_path), {}) is None
    assert commit_of(str(tmp_path), {"CI_COMMIT_SHA": " abc "}) == {
        "id": "abc",
        "branch": None,
        "is_dirty": None,
        "source": "CI_COMMIT_SHA",
    }


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (0, "# branch.oid abc\n# branch.head main\n", ("abc", "main", False)),
        (0, "# branch.oid abc\n# branch.head (detached)\n1 .M N... a.py\n", ("abc", None, True)),
        (0, "# branch.oid (initial)\n# branch.head main\n", None),
        (128, "", None),
        (0, "", None),
        (0, "an older git says something else\n", None),
    ],
)
def test_what_git_says(
    monkeypatch: pytest.MonkeyPatch, code: int, text: str, expected: tuple[str, str | None, bool] | None
) -> None:
    """Commit, branch and changes in one process; a repository without a commit has none."""
    done = subprocess.CompletedProcess("git", code, stdout=text.encode() + b"\xff" * (code == 128))
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **more: done)
    found = commit_of(".", {})
    assert (found and (found["id"], found["branch"], found["is_dirty"])) == expected


def test_what_a_report_says_first() -> None:
    """The message of a failure, the reason of a skip, a worker's death; at a length that a file can hold."""
    crash = SimpleNamespace(reprcrash=SimpleNamespace(message="BelowCeiling: 41 %\n  found: much"))
    assert message_of(crash) == "BelowCeiling: 41 %\n  found: much"
    assert message_of(("a.py", 3, "Skipped: inconclusive: noise")) == "Skipped: inconclusive: noise"
    assert message_of("worker 'gw0' crashed") == "worker 'gw0' crashed"
    assert message_of(None) == ""
    assert len(message_of("x" * 100_000)) < 5_000


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (("tests/a.py", 2, "test_it"), ("tests/a.py", 3)),
        (("a.py", None, "a.py"), ("a.py", None)),
        (("a.py", -1, "a.py"), ("a.py", None)),
        (None, (None, None)),
        (("", 0, ""), (None, 1)),
    ],
)
def test_where_a_test_is(location: Any, expected: tuple[str | None, int | None]) -> None:
    """Lines are counted from 1 on, as people and CI systems do."""
    assert place_of(location) == expected
