"""The file of results: whole after every test, and brought back to that where a write falls short."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.results.document import KIND, ResultsDocument, read_results

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
            "end": None,
        }
        document.add({"n": count})
    document.close({"exit_status": 0})
    document.close({"exit_status": 1})
    assert read_results(str(path))["end"] == {"exit_status": 0}
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
            document.add({"test": number, "text": "y" * 100})
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
    document.add({"n": 1})
    assert document.error is None
    document.close({})
    assert document.error == os.strerror(errno.ENOSPC)
    assert (document.written, document.waiting) == (0, 1)


def test_what_is_no_figure_is_refused(tmp_path: Path) -> None:
    """NaN is no JSON; it would make the whole file unreadable elsewhere."""
    with pytest.raises(ValueError, match="Out of range"):
        ResultsDocument(str(tmp_path / "results.json"), RUN).add({"n": float("nan")})


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_file_that_was_cut_off_gives_what_is_whole(tmp_path_factory: pytest.TempPathFactory, place: int) -> None:
    """Every complete test of it, in order; without even a head it is none of ours."""
    path = tmp_path_factory.mktemp("cut") / "results.json"
    document = ResultsDocument(str(path), RUN)
    tests = [{"node_id": f'a.py::test[{n}"\n\\]', "n": n} for n in range(5)]
    for test in tests:
        document.add(test)
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
    whole = [test for test in tests if json.dumps(test) in cut]
    assert found["tests"] == whole
    assert found["run"] == RUN


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


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    """It may mean other things by the same names."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"kind": KIND, "schema": 2, "tests": []}))
    with pytest.raises(ValueError, match="has schema 2; this version reads 1"):
        read_results(str(path))
