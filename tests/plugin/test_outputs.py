"""What is made of a finished run: each output gets all of it, and one that cannot be made costs no test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from inner_runs import FAKE, Run

from pytest_roofline import outputs
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.outputs import Output
from pytest_roofline.results.reading import read_results

ONE = """
def test_it(roofline, model):
    assert roofline.decode(model.step, model=model).fraction >= 0.6
"""
TWO = ONE + ONE.replace("test_it", "test_more")
SLOWER = FAKE.replace("weight_bytes=2e9)", "weight_bytes=2e9, efficiency=0.65)")
Made = Callable[[Callable[[Any], Iterable[str]]], None]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Puts a writer of the test's own in the place of what ``--roofline-compare`` asks for."""

    def make(write: Callable[[Any], Iterable[str]], section: str | None = None) -> None:
        def maker(config: pytest.Config, value: Any) -> Output:
            return Output(write=write, section=section)

        monkeypatch.setattr(outputs, "MAKERS", MappingProxyType({"compare": maker}))

    return make


def test_an_output_gets_the_document_of_the_file(run: Run, pytester: pytest.Pytester, made: Made) -> None:
    """Every test, the origin and the end, with and without a file of results."""
    got: list[Any] = []

    def write(document: Any) -> list[str]:
        got.append(document)
        return ["made of it"]

    made(write)
    result = run(TWO, "--roofline-compare=x", "--roofline-json=results.json")
    result.stdout.fnmatch_lines(["test_*", "made of it"])
    (document,) = got
    assert document == read_results(str(pytester.path / "results.json"))
    assert document["end"] == {"exit_status": 0}
    assert len(document["devices"]) == 1
    run(TWO, "--roofline-compare=x")
    assert [len(document["tests"]) for document in got] == [2, 2]
    assert got[1].keys() == got[0].keys()


@pytest.mark.parametrize(("mode", "code"), [("auto", 0), ("require", 1)])
@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device", "out.html"), "out.html: No space left on device"),
        (OSError("gone"), "gone"),
        (RooflineUsageError("wrong"), "wrong"),
        (KeyError("a key"), "KeyError: 'a key'"),
    ],
)
def test_one_that_cannot_be_made_is_a_red_line(
    run: Run, pytester: pytest.Pytester, made: Made, error: Exception, line: str, mode: str, code: int
) -> None:
    """What it said before stands, the results are written; where all is required the run is red, as its file says."""

    def write(document: Any) -> Iterable[str]:
        yield "begun"
        raise error

    made(write)
    result = run(ONE, "--roofline-compare=x", "--roofline-json=results.json", f"--roofline={mode}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["begun", f"ERROR: --roofline-compare: {line}"])
    assert result.ret == code
    assert read_results(str(pytester.path / "results.json"))["end"] == {"exit_status": code}


def test_an_output_that_makes_no_sense_ends_the_run_before_it_begins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its maker refuses: wrong use, and nothing is measured."""

    def maker(config: pytest.Config, value: Any) -> Output:
        raise RooflineUsageError(f"--roofline-compare: {value}")

    monkeypatch.setattr(outputs, "MAKERS", MappingProxyType({"compare": maker}))
    result = run(ONE, "--roofline-compare=nonsense")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --roofline-compare: nonsense"])


# -- compare --------------------------------------------------------------------------------------------------------


def test_what_changed_since_another_run(run: Run, pytester: pytest.Pytester) -> None:
    """A section below the table; a slower test does not fail by it."""
    run(ONE, "--roofline-json=old.json").assert_outcomes(passed=1)
    result = run(TWO, "--roofline-compare=old.json", conftest=SLOWER)
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "=* roofline =*",
            "=* roofline compare =*",
            "compared with old.json",
            "test_it * 0.8?x * slower",
            "ONLY IN THE NEW RUN *::test_more",
            "1 compared (1 slower), 0 not",
            "1 slower by more than 5 %, beyond what noise explains",
        ]
    )


def test_the_file_of_the_run_before_may_be_written_over(run: Run, pytester: pytest.Pytester) -> None:
    """The same name for both: what it held is read first."""
    arguments = ("--roofline-json=results.json", "--roofline-compare=results.json")
    run(ONE, arguments[0])
    former = read_results(str(pytester.path / "results.json"))
    run(ONE, *arguments).stdout.fnmatch_lines(["compared with results.json", "1 compared (1 same), 0 not"])
    assert read_results(str(pytester.path / "results.json")) != former


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "'*old.json' cannot be read: No such file or directory"),
        ("", "*old.json is no results file of pytest-roofline"),
        (
            json.dumps({"kind": "pytest-roofline results", "schema": 9}),
            "*old.json has schema 9; this version *",
        ),
    ],
)
def test_a_file_that_cannot_be_compared_with_is_a_usage_error(
    run: Run, pytester: pytest.Pytester, content: str | None, reason: str
) -> None:
    """Before anything is measured; the file of results is left alone."""
    (pytester.path / "results.json").write_text("former")
    if content is not None:
        (pytester.path / "old.json").write_text(content)
    result = run(ONE, "--roofline-compare=old.json", "--roofline-json=results.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --roofline-compare: {reason}"])
    assert (pytester.path / "results.json").read_text() == "former"


def test_a_listing_of_tests_compares_nothing(run: Run) -> None:
    """As it writes no file."""
    result = run(ONE, "--roofline-compare=nowhere.json", "--collect-only")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("* roofline compare *")


def test_workers_compare_nothing_themselves(run: Run, pytester: pytest.Pytester) -> None:
    """The controller does, once, with the tests of all."""
    pytest.importorskip("xdist")
    run(TWO, "--roofline-json=old.json")
    result = run(TWO, "-p", "xdist.plugin", "-n2", "--roofline-compare=old.json", fresh=True)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["compared with old.json", "2 compared (2 same), 0 not"])


@pytest.mark.parametrize(
    ("mode", "code", "word"), [("auto", 0, "WARNING: "), ("require", 1, "ERROR: --roofline-compare: ")]
)
def test_nothing_that_could_be_compared_is_said(run: Run, mode: str, code: int, word: str) -> None:
    """A renamed test: nothing became slower, for nothing was looked at. Where all is required the run is red."""
    run(ONE, "--roofline-json=old.json")
    result = run(ONE.replace("test_it", "test_renamed"), "--roofline-compare=old.json", f"--roofline={mode}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["0 compared, 0 not", f"{word}nothing was compared: no test is in both runs"])
    assert result.ret == code


def test_a_run_before_that_was_cut_off_is_said(run: Run, pytester: pytest.Pytester) -> None:
    """Its tests that are there are compared."""
    run(ONE, "--roofline-json=old.json")
    path = pytester.path / "old.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "end": None}))
    result = run(ONE, "--roofline-compare=old.json")
    result.stdout.fnmatch_lines(
        [
            "compared with old.json",
            "  old.json: cut off: 1 test is in it, the run's end is not",
            "1 compared (1 same), 0 not",
        ]
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--roofline-html=file/page.html"], "--roofline-html: 'file/page.html' cannot be written: Not a directory"),
        (
            ["--roofline-export=bencher=file/b.json"],
            "--roofline-export: 'file/b.json' cannot be written: Not a directory",
        ),
        (["--roofline-export=bencher=folder"], "--roofline-export: 'folder' cannot be written: Is a directory"),
        (
            ["--roofline-budgets=file/new/b.yaml", "--roofline-update-budgets=tighten"],
            "--roofline-update-budgets: 'file/new/b.yaml' cannot be written: Not a directory",
        ),
    ],
)
def test_what_cannot_be_written_is_said_before_the_run(
    run: Run, pytester: pytest.Pytester, options: list[str], said: str
) -> None:
    """A usage error, not a run whose results have no place; nothing is made by asking."""
    if "html" in options[0]:
        pytest.importorskip("plotly")
    (pytester.path / "file").write_text("")
    (pytester.path / "folder").mkdir()
    result = run(ONE, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_said(tmp_path: Path) -> None:
    """The ones below it would have to be made there."""
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(RooflineUsageError, match="cannot be written: Permission denied"):
        outputs.check_target(str(tmp_path / "closed" / "new" / "page.html"), "--roofline-html")


def test_a_target_that_can_be_made_is_not_made(tmp_path: Path) -> None:
    """Folders that are not there, a file that is, and what takes bytes without being one."""
    present = tmp_path / "present"
    present.write_text("kept")
    for target in (tmp_path / "new" / "deep" / "page.html", present, Path(os.devnull)):
        outputs.check_target(str(target), "--roofline-html")
    assert [path.name for path in tmp_path.iterdir()] == ["present"]
    assert present.read_text() == "kept"
