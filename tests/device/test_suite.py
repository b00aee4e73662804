"""The device checks themselves, as far as a machine without an accelerator can tell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    for name in ("run", "models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import run

    return run


def test_an_absent_device_is_a_reason_and_no_failure(
    suite: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0, one line, and a record that says why."""
    out = tmp_path / "record.json"
    assert suite.main(["--device", "tpu:7", "--json", str(out)]) == 0
    record = json.loads(out.read_text(encoding="utf-8"))
    assert record["skipped"].startswith("no tpu:7 for torch")
    assert record["skipped"] in capsys.readouterr().out


def test_a_failed_check_fails_the_command(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line for each ending, and the exit status of the worst."""

    def skip(_: object) -> object:
        raise suite.CheckSkippedError("no such thing here")

    def fail(_: object) -> object:
        raise suite.CheckFailedError("impossible")

    checks = (("fine", lambda _: ("as it should be", {"figure": 1.0})), ("left-out", skip), ("wrong", fail))
    monkeypatch.setattr(suite, "CHECKS", checks[:2])
    assert suite.main(["--device", "cpu"]) == 0
    monkeypatch.setattr(suite, "CHECKS", checks)
    assert suite.main(["--device", "cpu"]) == 1
    out = capsys.readouterr().out
    assert "passed   fine" in out
    assert "skipped  left-out" in out
    assert "failed   wrong                    impossible" in out
    assert "1 passed, 1 failed, 1 skipped" in out


def test_the_faults_of_links_are_named(suite: ModuleType) -> None:
    """Sound links have none; pageable memory that beats pinned memory, and both ways slower than one, are faults."""
    from links_and_kernels import examine_links

    from pytest_roofline.backends.fake import FakeBackend
    from pytest_roofline.links import measure_links

    def examined(**figures: float) -> list[str]:
        backend = FakeBackend(**figures)
        device = backend.devices()[0]
        line, found, faults = examine_links(device, measure_links(device, [backend]))
        assert line.startswith("to 25") and found["rates"]
        return list(faults)

    assert examined() == []
    assert examined(pageable_share=1.5) == ["pageable memory is faster than pinned memory"]
    assert examined(duplex_factor=0.5) == ["both ways at once are slower than one way"]
