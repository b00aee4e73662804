"""Entries of a budgets file that no test fits: said only where all tests were seen that could."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.budgets.coverage import coverage_lines
from pytest_roofline.budgets.document import budgets_in

FILE = """\
schema: 1
tests:
  "tests/test_a.py::*": 0.5
  "tests/test_a.py::test_old": 0.5
  "tests/test_gone.py::*": 0.5
  "tests/gpu/*": 0.5
  "*::test_new": 0.5
"""
IDS = ["tests/test_a.py::test_it", "tests/test_b.py::test_new"]


def unused(root: Path, **how: object) -> list[int]:
    """The lines of the file whose entries are called unused."""
    lines = coverage_lines(budgets_in(FILE, "b.yaml"), IDS, root=str(root), **how)  # type: ignore[arg-type]
    return [int(line.split(":")[1]) for line in lines if ": unused" in line]


def test_what_no_test_fits_is_unused(tmp_path: Path) -> None:
    """Each on its line, with the number of tests that were looked at."""
    assert unused(tmp_path) == [4, 5, 6]
    line = coverage_lines(budgets_in(FILE, "b.yaml"), IDS, root=str(tmp_path))[0]
    assert line == "b.yaml:4: unused: none of the 2 tests that were collected fits tests/test_a.py::test_old"


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ({"part": "pytest-xdist"}, []),
        ({"roots": ["tests"]}, [4, 5, 6]),
        ({"roots": ["tests/test_a.py"]}, [4]),
        ({"roots": ["tests/gpu"]}, [6]),
        ({"roots": ["test"]}, []),
        ({"roots": []}, []),  # single tests
        ({"uncollected": ["tests/test_gone.py"]}, [4]),  # could not be imported: patterns might have fitted there
        ({"uncollected": ["tests/test_a.py::TestAll"]}, [5]),
    ],
)
def test_a_part_of_the_suite_convicts_only_what_lies_in_it(
    tmp_path: Path, how: dict[str, object], lines: list[int]
) -> None:
    """The rest is counted in one line that says so."""
    assert unused(tmp_path, **how) == lines
    last = coverage_lines(budgets_in(FILE, "b.yaml"), IDS, root=str(tmp_path), **how)[-1]  # type: ignore[arg-type]
    assert (
        last.startswith(f"b.yaml: {3 - len(lines)} of its entries fit no test here, but only a part") or len(lines) == 3
    )


def test_a_file_that_is_there_and_shows_no_test_convicts_nothing(tmp_path: Path) -> None:
    """Something passed over it: a conftest.py, perhaps, on a runner without a GPU."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_gone.py").touch()
    assert unused(tmp_path) == [4, 6]


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    """Ten lines, and how many more."""
    text = "schema: 1\ntests:\n" + "".join(f"  t.py::t{number}: 0.5\n" for number in range(13))
    lines = coverage_lines(budgets_in(text, "b.yaml"), IDS, root=str(tmp_path))
    assert len(lines) == 11
    assert lines[-1] == "b.yaml:13: unused, and 3 more"
