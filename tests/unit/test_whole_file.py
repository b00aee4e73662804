"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_roofline.whole_file import obstacle_of, write_whole


def test_it_makes_folders_and_leaves_no_draft(tmp_path: Path) -> None:
    """The file alone is there, with the later content."""
    path = tmp_path / "a" / "b" / "page.html"
    write_whole(str(path), b"one")
    write_whole(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["page.html"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What it points to is replaced."""
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the path that was asked for, and no draft stays."""

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device", source)

    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(str(path), b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such device there")
def test_what_is_no_file_is_written_into() -> None:
    """Nothing may take the place of a terminal or a pipe."""
    write_whole("/dev/null", b"gone")
    assert not os.path.isfile("/dev/null")
    assert obstacle_of("/dev/null") == ""


@pytest.mark.parametrize(
    ("name", "obstacle"),
    [("file", ""), ("none/yet/file", ""), ("folder", "Is a directory"), ("file/below", "Not a directory")],
)
def test_an_obstacle_is_known_beforehand(tmp_path: Path, name: str, obstacle: str) -> None:
    """In the system's words; nothing is made while looking."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert obstacle_of(str(tmp_path / name)) == obstacle
    assert sorted(tmp_path.rglob("*")) == before
