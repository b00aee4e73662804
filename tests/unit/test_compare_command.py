"""``roofline compare``: its exit status, its JSON, and what it says to files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import document_with, kept_test, result_of

from pytest_roofline.cli import main


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Results of a run, and of others whose step takes twice or half the time."""
    paths = {}
    for name, step_s in (("base", 2e-3), ("slow", 4e-3), ("quick", 1e-3)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(document_with(kept_test(result_of([step_s] * 12)))), encoding="utf-8")
        paths[name] = str(path)
    return paths


@pytest.mark.parametrize(
    ("new", "status", "answer"), [("base", 0, "same"), ("slow", 1, "slower"), ("quick", 0, "faster")]
)
def test_the_exit_status_speaks_of_slower_tests(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], new: str, status: int, answer: str
) -> None:
    """1 where one became slower beyond noise and threshold, else 0."""
    assert main(["compare", files["base"], files[new]]) == status
    assert f"1 compared (1 {answer}), 0 not" in capsys.readouterr().out


def test_a_threshold_of_ones_own(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Half as fast is allowed to whoever allows it; a threshold that is none is wrong use."""
    assert main(["compare", files["base"], files["slow"], "--threshold", "0.6"]) == 0
    assert main(["compare", files["base"], files["slow"], "--threshold", "0.4"]) == 1
    capsys.readouterr()
    for wrong in ("-1", "5", "1", "much", "nan"):
        assert main_of(["compare", files["base"], files["slow"], "--threshold", wrong]) == 2
        assert "--threshold" in capsys.readouterr().err


def main_of(arguments: list[str]) -> int:
    """The exit status, however it comes."""
    try:
        return main(arguments)
    except SystemExit as error:
        return int(error.code or 0)


def test_json(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """One object with both runs, every row with its figures, and what was not compared."""
    assert main(["compare", files["base"], files["slow"], "--json"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(found) == [
        *(
            "schema",
            "old",
            "new",
            "threshold",
            "nothing_compared",
            "changes",
            "not_compared",
            "only_old",
            "only_new",
            "differences",
        ),
    ]
    assert (found["schema"], found["old"]["file"], found["new"]["run"]["version"]) == (1, files["base"], "0.1.0")
    assert (found["nothing_compared"], found["old"]["cut_off"], found["new"]["cut_off"]) == (None, None, None)
    (row,) = found["changes"]
    assert row == {
        "node_id": "test_it.py::test_decode",
        "label": "",
        "kind": "decode",
        "device": "Fake Accelerator",
        "answer": "slower",
        "speed_ratio": 0.5,
        "speed_ratio_at_same_bandwidth": 0.5,
        "speed_ratio_low": 0.5,
        "speed_ratio_high": 0.5,
        "reason": "",
        "remarks": [],
        "old": side(500.0, 2e-3),
        "new": side(250.0, 4e-3),
        "is_regression": True,
    }


def side(tokens_per_s: float, seconds: float) -> dict[str, Any]:
    """One run's figures."""
    return {
        "seconds_per_token": seconds,
        "tokens_per_s": tokens_per_s,
        "fraction": 0.8,
        "samples": 12,
        "ruler_bytes_per_s": pytest.approx(1e12),
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "is no results file of pytest-roofline"),
        ("{}", "is no results file of pytest-roofline"),
        ("[" * 100_000, "is no results file of pytest-roofline"),
        ('{"kind": "pytest-roofline results", "schema": 7}', "has schema 7; this version reads 1: it was written by"),
        ('{"kind": "pytest-roofline results", "schema": true}', "has schema True; this version reads 1"),
        ('{"kind": "pytest-roofline results", "schema": 1, "tests": []}', "is damaged: the document has no 'run'"),
    ],
    ids=["absent", "empty", "other", "deep", "later", "flag", "damaged"],
)
@pytest.mark.parametrize("is_new", [False, True])
def test_files_that_are_none(
    files: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    reason: str,
    is_new: bool,
) -> None:
    """Wrong use, in one line that names the file and which of the two it is."""
    path = tmp_path / "wrong.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    pair = [files["base"], str(path)]
    assert main(["compare", *(pair if is_new else pair[::-1])]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith(f"roofline compare: {'NEW' if is_new else 'OLD'}.json: ")
    assert str(path) in line
    assert reason in line


def test_a_file_that_is_no_text(files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture, an archive."""
    path = tmp_path / "results.json"
    path.write_bytes(b"\x89PNG\xff\xfe")
    assert main(["compare", str(path), files["base"]]) == 2
    assert "is no results file of pytest-roofline: it is no text" in capsys.readouterr().err


def test_a_folder_is_no_file(files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The operating system's own words."""
    assert main(["compare", str(tmp_path), files["base"]]) == 2
    assert "cannot be read: Is a directory" in capsys.readouterr().err


def test_two_files_are_needed(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line says which is missing."""
    assert main_of(["compare", files["base"]]) == 2
    assert "NEW.json" in capsys.readouterr().err


def test_nothing_compared_is_not_green(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No test in both runs, or no row that is a figure: exit status 1, and why."""
    path = tmp_path / "other.json"
    for test, reason in (
        (kept_test(result_of(), node_id="a.py::test_renamed"), "no test is in both runs"),
        (kept_test(result_of(standing="bogus")), "the only row was refused"),
    ):
        path.write_text(json.dumps(document_with(test)), encoding="utf-8")
        assert main(["compare", files["base"], str(path)]) == 1
        assert capsys.readouterr().out.splitlines()[-1] == f"nothing was compared: {reason}"
        assert main(["compare", files["base"], str(path), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["nothing_compared"] == f"nothing was compared: {reason}"


def test_a_file_that_was_cut_off_is_said(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left of it is compared, and a line says that it is not all; nothing left is wrong use."""
    path = tmp_path / "killed.json"
    path.write_text(json.dumps(document_with(kept_test(result_of([2e-3] * 12)), end=None)), encoding="utf-8")
    cut = "cut off: 1 test is in it, the run's end is not"
    assert main(["compare", files["base"], str(path)]) == 0
    assert f"  {path}: {cut}" in capsys.readouterr().out.splitlines()
    assert main(["compare", str(path), files["base"], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["old"]["cut_off"], found["new"]["cut_off"]) == (cut, None)
    path.write_text(json.dumps(document_with(end=None)), encoding="utf-8")
    for pair, where in (((files["base"], str(path)), "NEW.json"), ((str(path), files["base"]), "OLD.json")):
        assert main(["compare", *pair]) == 2
        said = f"roofline compare: {where}: {str(path)!r}: cut off: 0 tests are in it, the run's end is not"
        assert capsys.readouterr().err.splitlines() == [said]


def test_a_report_says_what_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line of a killed run's file is half of one; the report has the rest, and says so."""
    path, out = tmp_path / "killed.json", tmp_path / "bencher.json"
    head = json.dumps(document_with())[:-1].partition('"tests"')[0].rstrip()
    path.write_text(f'{head}\n"tests": [\n{json.dumps(kept_test(result_of()))},\n{{"node_', encoding="utf-8")
    cut = "cut off: 1 test is in it, the run's end is not"
    assert main(["report", str(path), "--export", f"bencher={out}"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{path}: {cut}"
    assert main(["report", str(path), "--export", f"bencher={out}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cut_off"] == cut
    path.write_text(json.dumps(document_with(kept_test(result_of()))), encoding="utf-8")
    assert main(["report", str(path), "--export", f"bencher={out}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cut_off"] is None
