"""``roofline specs validate``: what it says where there is nothing to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.cli import main


def test_a_folder_without_specs_is_not_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it was looked at: wrong use, as a folder that is not there."""
    monkeypatch.chdir(tmp_path)
    assert main(["specs", "validate", "."]) == 2
    assert capsys.readouterr().err.startswith("roofline specs: specs validate: '.': no spec file was found there")
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "mine.yaml").write_text("schema: 1\ndevices: []\n", encoding="utf-8")
    assert main(["specs", "validate", "."]) in (0, 1)
