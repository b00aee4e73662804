"""The picture of a roofline: labelled, with its points, the same file each time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_roofline.cli import main

CURVE = ("curve", "--params", "8B", "--bandwidth", "3.35TB/s", "--peak", "989TFLOP/s", "--to", "1024", "--points", "3")


@pytest.fixture(autouse=True)
def _drawn() -> None:
    """Pictures need the extra ``report``."""
    pytest.importorskip("matplotlib")


def test_what_a_picture_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Axes with units, both roofs with their figures, a label for each point; the text says where the file is."""
    file = tmp_path / "roof.svg"
    assert main([*CURVE, "--picture", str(file)]) == 0
    assert capsys.readouterr().out.endswith(f"picture: {file}\n")
    text = file.read_text(encoding="utf-8")
    for words in (
        "arithmetic intensity (FLOP/byte)",
        "attainable rate (FLOP/s)",
        "8B parameters (bf16) on a device of 3.35 TB/s",
        "memory 3.35 TB/s",
        "bfloat16 989 TFLOP/s, ridge 295 FLOP/byte",
        "batch 1: 209 tok/s",
        "batch 32: 6,700 tok/s",
        "batch 1,024: 61,812 tok/s",
    ):
        assert words in text


def test_the_peaks_of_a_named_device(tmp_path: Path) -> None:
    """Every dense peak that its spec has, those of one height together."""
    file = tmp_path / "roof.svg"
    assert main(["curve", "llama-3.1-8b", "--device", "h100-sxm", "--over", "context", "--picture", str(file)]) == 0
    text = file.read_text(encoding="utf-8")
    assert "bfloat16, float16 989 TFLOP/s" in text
    assert "context 1,024: 221 tok/s" in text


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".SVG", b"<?xml")])
def test_the_same_input_gives_the_same_file(suffix: str, start: bytes, tmp_path: Path) -> None:
    """Byte for byte, whatever the user's own style says."""
    import matplotlib

    files = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    assert main([*CURVE, "--picture", str(files[0])]) == 0
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True}):
        assert main([*CURVE, "--picture", str(files[1])]) == 0
    contents = [file.read_bytes() for file in files]
    assert contents[0] == contents[1]
    assert contents[0].startswith(start)


def test_no_peak_no_roof(tmp_path: Path) -> None:
    """Then the slope stands alone."""
    file = tmp_path / "roof.svg"
    assert main(["curve", "--params", "8B", "--bandwidth", "1TB/s", "--picture", str(file)]) == 0
    assert "ridge" not in file.read_text(encoding="utf-8")


def test_labels_do_not_cover_each_other(tmp_path: Path) -> None:
    """Of many points only those are labelled that stand apart."""
    file = tmp_path / "roof.svg"
    assert main([*CURVE[:-2], "--points", "500", "--picture", str(file)]) == 0
    assert 10 < file.read_text(encoding="utf-8").count("tok/s<") < 60


def test_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the command that installs it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*CURVE, "--picture", str(tmp_path / "roof.png")]) == 2
    assert capsys.readouterr().err == (
        "roofline curve: a picture needs matplotlib, which is not installed: pip install 'pytest-roofline[report]'\n"
    )


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names it."""
    file = tmp_path / "nowhere" / "roof.png"
    assert main([*CURVE, "--picture", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"roofline curve: --picture: {file}: cannot be written: ")
