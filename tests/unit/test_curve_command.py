"""``roofline curve``: over batch or context, as a table and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_roofline.cli import main

RULE = (
    "--params",
    "70B",
    "--weights",
    "int4",
    "--kv-per-token",
    "320KiB",
    "--bandwidth",
    "3.35TB/s",
    "--memory",
    "80GB",
)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """What ``roofline curve`` prints."""

    def run(*arguments: str) -> str:
        assert main(["curve", *arguments]) == 0
        return capsys.readouterr().out

    return run


def test_a_table_over_context(said: Any) -> None:
    """One line per point, figures right-aligned, what does not fit marked."""
    lines = said(*RULE, "--over", "context", "--from", "2000", "--to", "200000", "--points", "3").splitlines()
    assert lines[:5] == [
        "70B parameters on a device of 3.35 TB/s, weights int4, KV cache bf16",
        "batch  context  tok/s  per user  bytes/pass  FLOP/byte   bound  fits",
        "    1    2,000   94.0      94.0     35.7 GB       3.93  memory   yes",
        "    1   20,000   80.6      80.6     41.6 GB       3.37  memory   yes",
        "    1  200,000   33.3      33.3      101 GB       1.39  memory    no",
    ]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ((), [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        (("--to", "8", "--points", "4"), [1, 2, 4, 8]),
        (("--from", "7", "--to", "7"), [7]),
        (("--points", "1"), [1]),
        (("--to", "3", "--points", "9"), [1, 2, 3]),
        (("--from", "300"), [300]),
        (("--over", "context"), [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]),
        (("--over", "context", "--from", "0", "--to", "100", "--points", "5"), [0, 25, 50, 75, 100]),
        (("--over", "context", "--to", "10", "--points", "2"), [10]),
    ],
)
def test_which_values(arguments: tuple[str, ...], values: list[int], said: Any) -> None:
    """By a constant factor from first to last, by a constant step from 0, each once."""
    found = json.loads(said(*RULE, *arguments, "--json"))
    assert [point[found["over"]] for point in found["points"]] == values


def test_each_point_is_what_predict_says(said: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON repeats its keys, and what all points share stands once."""
    found = json.loads(said(*RULE, "--context", "1000", "--json"))
    assert main(["predict", *RULE, "--context", "1000", "--batch", "32", "--json"]) == 0
    single = json.loads(capsys.readouterr().out)
    (point,) = [point for point in found["points"] if point["batch"] == 32]
    assert point == {key: single[key] for key in point}
    assert found["schema"] == 1
    shared = found.keys() & single.keys() - {"notes"}
    assert {key: found[key] for key in shared} == {key: single[key] for key in shared}
    assert any("does not fit" in note for note in found["notes"])


def test_notes_are_about_all_rows_or_name_theirs(said: Any) -> None:
    """What the first and the last row have in common comes first; the others begin with the last one's."""
    notes = json.loads(said("llama-3.1-8b", "--device", "h100-sxm", "--to", "8", "--json"))["notes"]
    assert "no context is given (it is 0): the KV cache is left out; add --context" in notes
    assert "memory needed is weights and caches alone: activations and the runtime come on top" in notes
    (rates,) = [note for note in notes if "rule of thumb" in note]
    assert rates.startswith("at batch 8: by the rule of thumb params x bytes: 1,669 tok/s")
    given = json.loads(said("llama-3.1-8b", "--device", "h100-sxm", "--context", "10", "--json"))["notes"]
    assert not any("no context" in note for note in given)


def test_without_a_size_of_the_cache_that_is_said(said: Any) -> None:
    """A number of parameters alone."""
    assert "no KV cache is counted: a number of parameters does not say" in said(
        "--params", "8B", "--bandwidth", "1TB/s"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "0"), "--from: '0' is no whole number from 1, such as 1"),
        (("--to", "x"), "--to: 'x' is no whole number from 1, such as 1"),
        (("--from", "9", "--to", "8"), "--from 9 is beyond --to 8"),
        (("--points", "0"), "--points: '0' is no whole number from 1, such as 1"),
        (("--points", "1001"), "--points: 1,001; 1,000 are drawn at most"),
        (("--picture", "roof.pdf"), "--picture: 'roof.pdf' is neither a .png nor a .svg file"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anything is predicted or drawn."""
    assert main(["curve", *RULE, *arguments]) == 2
    assert capsys.readouterr() == ("", f"roofline curve: {message}\n")


def test_an_unknown_axis(capsys: pytest.CaptureFixture[str]) -> None:
    """There are two."""
    with pytest.raises(SystemExit, match="2"):
        main(["curve", *RULE, "--over", "time"])
    assert "--over: invalid choice: 'time'" in capsys.readouterr().err
