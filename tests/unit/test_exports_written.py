"""Exports: what is taken from a run, which formats there are, and where they are written."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_documents import HOSTILE, bogus, case, document, hostile, mixed, result

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.exports.destination import write_exports
from pytest_roofline.exports.github_annotations import github_annotations
from pytest_roofline.exports.measured import measured_in, shortened, true_figures, verdicts_in
from pytest_roofline.exports.registry import FORMATS, NAMES, parse_exports

BOGUS_FIGURES = ("12.3", "98765", "98,765", "1.23e-05", "12300", "0.0123")
DOUBTFUL_FIGURES = ("0.777", "77.7", "78 %")


def written(asked: str, made: dict[str, Any], folder: Path, environment: dict[str, str] | None = None) -> list[str]:
    """The lines that writing these exports says."""
    exports = parse_exports(asked, "test")
    return list(write_exports(made, exports, folder=str(folder), environment=environment or {}))


# -- what is taken ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_only_true_figures_are_exported(known: Any) -> None:
    """What passed or missed its budget is there; no figure of a bogus or undecided result is, in any format."""
    text = known.render(mixed())
    assert not any(figure in text for figure in (*BOGUS_FIGURES, *DOUBTFUL_FIGURES))
    if known.name != "github-annotations":
        assert any(figure in text for figure in ("0.746", "74.6", "75 %", "8e-04", "0.0008", "0.8"))


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
@pytest.mark.parametrize(
    "made",
    [document(), {}, {"tests": None}, {"tests": [{}, None, {"results": [None, {}]}]}, document(case("a", bogus()))],
    ids=["empty", "nothing", "null", "holes", "only-bogus"],
)
def test_a_run_without_true_figures_is_no_error(known: Any, made: dict[str, Any]) -> None:
    """An empty run, a document of somebody else's and one of bogus results alone give a valid text."""
    text = known.render(made)
    assert known.name not in ("bencher", "pytest-benchmark") or not json.loads(text).get("benchmarks")
    assert not any(figure in text for figure in BOGUS_FIGURES)


def test_off_mode_exports_no_figure() -> None:
    """With --roofline=off there are tests and no figures, and the counts say so."""
    made = document(case("a", result(standing="not measured", verdict="passed", fraction=None)))
    assert true_figures(made) == ()
    assert verdicts_in(made)["not measured"] == 1


def test_verdicts_are_counted_gravest_first() -> None:
    """Each test counts once, a crashed worker too, and a word that this version does not know comes last."""
    counted = verdicts_in(document(*mixed()["tests"], case("x", result(), verdict="later")))
    assert counted == {
        **{"bogus": 1, "inconclusive": 1, "failed": 1, "bogus (caught)": 0, "passed": 1},
        **{"not measured": 1, "crashed": 1, "later": 1},
    }


def test_names_are_unique_printable_and_their_own() -> None:
    """Hostile ids, ids that differ behind the ten thousandth character, and repeated ones each have their own name."""
    names = [one.name for one in measured_in(hostile())]
    assert len(set(names)) == len(HOSTILE)
    assert all(name.isprintable() and len(name) <= 400 for name in names)
    again = document(case("a", result()), case("a", result()), case("a (2)", result()))
    assert [one.name for one in measured_in(again)] == ["a", "a (2)", "a (2) (2)"]


def test_several_results_of_a_test_are_told_apart_by_their_labels() -> None:
    """One result bears the id alone, so that history goes on when a label changes."""
    made = document(case("a", result(label="one"), result(label="two")), case("b", result(label="one")))
    assert [one.name for one in measured_in(made)] == ["a: one", "a: two", "b"]


@given(st.text(max_size=600), st.integers(12, 500))
@settings(max_examples=60, deadline=None)
def test_a_shortened_name_is_printable_and_no_longer(text: str, longest: int) -> None:
    """Whatever the text, the name fits and stays itself."""
    name = shortened(text, longest)
    assert name.isprintable()
    assert len(name) <= longest
    assert name == shortened(text, longest)
    name.encode("utf-8")


# -- which formats ----------------------------------------------------------------------------------------------------


def test_formats_are_parsed_with_their_files() -> None:
    """Several, separated by commas, each with a file or without; spaces do not matter."""
    found = parse_exports(" bencher=out/b.json , github-summary,openmetrics= m.txt", "test")
    assert [(one.format.name, one.file) for one in found] == [
        ("bencher", "out/b.json"),
        ("github-summary", None),
        ("openmetrics", "m.txt"),
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("benchr", "--x: 'benchr' is no format of an export; did you mean bencher? Known are github-summary, "),
        ("json", "--x: 'json' is no format of an export. Known are github-summary, "),
        ("bencher=", "--x: bencher= names no file; write bencher=FILE, or bencher alone"),
        (" , ", "--x: no format is named; known are github-summary, "),
        ("bencher=a,openmetrics=a", "--x: bencher and openmetrics would be written to the same file; name another one"),
        ("bencher,bencher", "--x: bencher and bencher would be written to the same file; name another one"),
        (3, "--x: 3 is not NAME or NAME=FILE"),
    ],
)
def test_a_wrong_format_is_a_usage_error_that_names_the_known_ones(asked: Any, said: str) -> None:
    """The message says where, what, and the nearest name."""
    with pytest.raises(RooflineUsageError) as caught:
        parse_exports(asked, "--x")
    assert str(caught.value).startswith(said)


def test_the_help_of_the_option_names_every_format() -> None:
    """Names stand in the help text by hand, for nothing may be loaded to print it."""
    from pytest_roofline.options import OPTIONS

    (option,) = [option for option in OPTIONS if option.name == "export"]
    assert all(name in option.help for name in NAMES)


# -- where they go ----------------------------------------------------------------------------------------------------


def test_files_go_to_the_folder_where_pytest_was_started(tmp_path: Path) -> None:
    """By default each format has a name of its own; folders are made, and a line says where and what is not in it."""
    lines = written("bencher,openmetrics=deep/er/m.txt", mixed(), tmp_path)
    left_out = "(without figures: 1 bogus, 1 inconclusive)"
    assert lines == [
        f"bencher: 2 results in {tmp_path / 'roofline-bencher.json'} {left_out}",
        f"openmetrics: 2 results in {tmp_path / 'deep/er/m.txt'} {left_out}",
    ]
    assert json.loads((tmp_path / "roofline-bencher.json").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "roofline-bencher.json"]


def test_default_files_are_all_different() -> None:
    """All formats can be asked for at once."""
    assert len(parse_exports(",".join(NAMES), "test")) == len(FORMATS)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A longer one that was there leaves nothing behind, and neither does the way there."""
    (tmp_path / "b.json").write_text("x" * 100_000)
    written("bencher=b.json", mixed(), tmp_path)
    json.loads((tmp_path / "b.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]
    assert stat.S_IMODE((tmp_path / "b.json").stat().st_mode) & 0o444


def test_one_file_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    """The rest is written and said before the error is raised."""
    (tmp_path / "file").write_text("in the way")
    exports = parse_exports("bencher=file/b.json,github-annotations,openmetrics=m.txt", "test")
    said = []
    lines = write_exports(mixed(), exports, folder=str(tmp_path), environment={})
    with pytest.raises(OSError, match="file"):
        for line in lines:
            said.append(line)  # noqa: PERF402 - what came before the error is the point
    assert any(line.startswith("::error ") for line in said)
    assert (tmp_path / "m.txt").exists()


def test_what_is_no_plain_file_is_written_to(tmp_path: Path) -> None:
    """/dev/null stays what it is."""
    written(f"bencher={os.devnull}", mixed(), tmp_path)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_github_s_summary_is_appended_to(tmp_path: Path) -> None:
    """What other tools of the step have written stays, and the room that they took is not taken twice."""
    summary = tmp_path / "summary.md"
    summary.write_text("### Others\n")
    (line,) = written("github-summary", mixed(), tmp_path, {"GITHUB_STEP_SUMMARY": str(summary)})
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("### Others\n### Roofline: ")
    assert line.startswith(f"github-summary: 2 results in {summary}")
    summary.write_text("x" * (1024 * 1024 - 500))
    (line,) = written("github-summary", mixed(), tmp_path, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert line == "github-summary: not written, the summary of this step has no room left"
    assert summary.stat().st_size == 1024 * 1024 - 500


def test_github_s_summary_elsewhere_is_no_error(tmp_path: Path) -> None:
    """An option in the ini file must not break a run at home: a line says what is missing; a named file is written."""
    (line,) = written("github-summary", mixed(), tmp_path)
    assert line == (
        "github-summary: not written, GITHUB_STEP_SUMMARY is not set here; name a file: github-summary=FILE"
    )
    written("github-summary=s.md", mixed(), tmp_path)
    assert (tmp_path / "s.md").read_text(encoding="utf-8").startswith("### Roofline: ")


@pytest.mark.parametrize(
    ("root", "file"), [("repo", "t.py"), ("repo/python", "python/t.py"), ("", "t.py"), ("elsewhere", "t.py")]
)
def test_annotations_name_files_as_the_repository_does(tmp_path: Path, root: str, file: str) -> None:
    """Where pytest's root is a folder of the repository its paths are put below that; elsewhere they stay."""
    exports = parse_exports("github-annotations", "test")
    environment = {"GITHUB_WORKSPACE": str(tmp_path / "repo")}
    where = str(tmp_path / root) if root else ""
    lines = list(write_exports(mixed(), exports, folder=str(tmp_path), environment=environment, root=where))
    assert f"file={file},line=12," in lines[0]


def test_an_attempt_that_was_run_again_is_no_test_of_its_own() -> None:
    """It stands in the file of results; figures, counts and annotations are those of the last attempt."""
    missed = result(verdict="failed", standing="failed", fraction=0.41)
    made = document(
        case("t.py::test_again", missed, outcome="rerun", message="BelowCeiling: 41 %"),
        case("t.py::test_again", result()),
    )
    (figure,) = true_figures(made)
    assert (figure.name, figure.standing) == ("t.py::test_again", "passed")
    assert verdicts_in(made)["passed"] == 1
    assert verdicts_in(made)["failed"] == 0
    assert github_annotations(made) == ""
