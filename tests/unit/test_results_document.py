"""The file of results: whole after every test, and brought back to that where a write falls short."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_runs import document_with, kept_test

from pytest_roofline.results.document import KIND, ResultsDocument, document_of, line_of
from pytest_roofline.results.reading import read_results

RUN = {"version": "1"}


def kept_in(path: Path) -> list[object]:
    """Its tests, read as any program would."""
    return list(json.loads(path.read_text())["tests"])


def test_it_is_whole_after_every_test(tmp_path: Path) -> None:
    """Any JSON parser reads it at any moment; the end is null until there is one."""
    path = tmp_path / "new" / "results.json"
    document = ResultsDocument(str(path), RUN)
    for count in range(4):
        found = json.loads(path.read_text())
        assert found == {
            "schema": 1,
            "kind": KIND,
            "run": RUN,
            "tests": [{"n": number} for number in range(count)],
            "libraries": {},
            "devices": [],
            "end": None,
        }
        document.add(line_of({"n": count}))
    document.close({"exit_status": 0})
    document.close({"exit_status": 1})
    assert json.loads(path.read_text())["end"] == {"exit_status": 0}
    assert len(kept_in(path)) == 4


def test_a_former_file_makes_place(tmp_path: Path) -> None:
    """Nothing of a longer file from before stays behind."""
    path = tmp_path / "results.json"
    path.write_text("x" * 10_000)
    ResultsDocument(str(path), RUN)
    assert kept_in(path) == []


def test_a_place_where_no_file_can_be_is_an_error(tmp_path: Path) -> None:
    """At once, not after an hour of measuring."""
    with pytest.raises(OSError, match=r"directory"):
        ResultsDocument(str(tmp_path), RUN)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_disk_that_is_full_now_and_then_costs_nothing(
    tmp_path_factory: pytest.TempPathFactory, rooms: list[int]
) -> None:
    """However much of a write gets through: the file stays whole, and what is missing comes with the next write."""
    path = tmp_path_factory.mktemp("full") / "results.json"
    with pytest.MonkeyPatch.context() as patch:
        document = ResultsDocument(str(path), RUN)
        real = os.write
        for number, room in enumerate(rooms):
            left = [room]

            def write(file: int, text: bytes, left: list[int] = left) -> int:
                if left[0] == 0:
                    left[0] = 10**6  # what is written back lies where the file was before, and finds its place
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                done = real(file, text[: left[0]])
                left[0] -= done
                return done

            patch.setattr(os, "write", write)
            document.tell({"name": "z" * (number % 3 * 70)}, [])
            document.add(line_of({"test": number, "text": "y" * 100}))
            assert document.written + document.waiting == number + 1
            assert kept_in(path) == [{"test": n, "text": "y" * 100} for n in range(document.written)]
        patch.setattr(os, "write", real)
        document.close({"exit_status": 0})
    assert document.waiting == 0
    assert document.error is None
    assert len(kept_in(path)) == len(rooms)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_device_that_takes_nothing_is_said(tmp_path: Path) -> None:
    """What is no plain file gets everything at the end; the reason why it did not is kept."""
    document = ResultsDocument("/dev/full", RUN)
    document.add(line_of({"n": 1}))
    assert document.error is None
    document.close({})
    assert document.error == os.strerror(errno.ENOSPC)
    assert (document.written, document.waiting) == (0, 1)


def test_what_is_no_figure_is_refused() -> None:
    """NaN is no JSON; it would make the whole file unreadable elsewhere."""
    with pytest.raises(ValueError, match="Out of range"):
        line_of({"n": float("nan")})


@given(st.lists(st.integers(0, 400), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_closing_lines_that_become_shorter_leave_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int]
) -> None:
    """What is known of the origin goes over what was known before, and the file is whole at any moment."""
    path = tmp_path_factory.mktemp("told") / "results.json"
    document = ResultsDocument(str(path), RUN)
    for number, length in enumerate(lengths):
        document.tell({"torch": "1" * length}, [{"probe": length}] * (length % 3))
        document.add(line_of({"n": number}))
        found = json.loads(path.read_text())
        assert found["libraries"] == {"torch": "1" * length}
        assert len(found["devices"]) == length % 3
    document.tell({}, [])
    document.close({"exit_status": 0})
    lines = [line_of({"n": number}) for number in range(len(lengths))]
    expected = document_of(RUN, lines, {"libraries": {}, "devices": []}, {"exit_status": 0})
    assert json.loads(path.read_text()) == expected


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_file_that_was_cut_off_gives_what_is_whole(tmp_path_factory: pytest.TempPathFactory, place: int) -> None:
    """Every complete test of it, in order, and whole closing lines; without even a head it is none of ours."""
    path = tmp_path_factory.mktemp("cut") / "results.json"
    whole = document_with(*(kept_test(node_id=f'a.py::test[{n}"\n\\]') for n in range(5)))
    document = ResultsDocument(str(path), whole["run"])
    document.tell({"torch": "2.13.0"}, [])
    for test in whole["tests"]:
        document.add(line_of(test))
    document.close({"exit_status": 0})
    text = path.read_text()
    cut = text[: place % len(text)]
    path.write_text(cut)
    head = text.index(",\n")
    if len(cut) < head:
        with pytest.raises(ValueError, match="no results file"):
            read_results(str(path))
        return
    found = read_results(str(path))
    assert found["tests"] == [test for test in whole["tests"] if json.dumps(test) in cut]
    assert found["run"] == whole["run"]
    assert found["libraries"] == ({"torch": "2.13.0"} if '"libraries": {"torch": "2.13.0"}' in cut else {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "no results file"), ("[1]", "no results file"), ('{"kind": "other"}', "no results file")],
)
def test_other_files_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    """A file of something else is an error that says so."""
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason):
        read_results(str(path))
