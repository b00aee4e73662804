"""The table at the end, from records alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_roofline.report.cells import width_of
from pytest_roofline.report.terminal import WIDTH, header_line, header_lines, summary_lines


def lines_of(records: Mapping[str, Mapping[str, Any]], width: int = WIDTH) -> list[str]:
    """The summary without its colours."""
    return ["".join(text for text, _ in line) for line in summary_lines(records, width)]


def record(*results: dict[str, Any], verdict: str = "passed", reason: str = "") -> dict[str, Any]:
    """A test's record with these results."""
    return {"schema": 1, "mode": "auto", "verdict": verdict, "reason": reason, "results": list(results)}


def result(**changes: Any) -> dict[str, Any]:
    """A result of 98.3 tokens per second."""
    return {
        "label": "step",
        "device": {"id": "cuda:0", "name": "H200"},
        "step_s": 0.01017,
        "tokens_per_s": 98.3,
        "fraction": 0.41,
        "traffic": {"bytes_per_pass": 2.47e9, "extra": []},
        "ceiling": {"bound": "memory"},
        "standing": "passed",
        "findings": [],
        "notes": [],
        **changes,
    }


def test_nothing_was_measured_nothing_is_said() -> None:
    """No record, no line."""
    assert lines_of({}) == []


def test_a_row_has_its_figures_in_units() -> None:
    """Rounding happens here: three digits, decimal prefixes, per cent."""
    heading, row = lines_of({"test_a.py::test_it": record(result())})
    assert heading.split() == ["test", "device", "step", "tok/s", "ceiling", "B/step", "fraction", "bound", "verdict"]
    figures = ["10.2", "ms", "98.3", "240", "2.47", "GB", "41", "%"]
    assert row.split() == ["test_it", "cuda:0", *figures, "memory", "passed"]


def test_what_is_not_known_is_a_dash() -> None:
    """An audit without traffic has no fraction and no bytes."""
    bare = result(step_s=None, tokens_per_s=None, fraction=None, traffic=None, ceiling=None)
    assert lines_of({"test_it": record(bare)})[1].split() == ["test_it", "cuda:0", *"-----", "passed"]


def test_several_results_of_a_test_have_a_row_each() -> None:
    """Told apart by their labels."""
    lines = lines_of({"test_it": record(result(label="a"), result(label="b"))})
    assert [line.split()[:2] for line in lines[1:]] == [["test_it:", "a"], ["test_it:", "b"]]


def test_the_results_of_one_server_are_told_apart_by_whose_they_are() -> None:
    """Its address would leave no room for the test's name; of two servers it is what tells them apart."""
    one, other = (
        [result(label=f"http://{host}:8000/v1, {whose}", kind="stream") for whose in ("per user", "in aggregate")]
        for host in ("localhost", "elsewhere")
    )
    names = [line.split("  ")[0] for line in lines_of({"test_chat": record(*one)}, 120)[1:3]]
    assert names == ["test_chat: per user", "test_chat: in aggregate"]
    lines = lines_of({"test_chat": record(*one, *other)}, 200)
    assert lines[1].startswith("test_chat: http://localhost:8000/v1, per user ")


def test_names_of_any_length_fit() -> None:
    """Long names lose their middle, not their parameters, and columns go before names cannot be told apart."""
    records = {
        "test_a.py::test_decodes_with_static_cache[bf16]": record(result(standing="bogus (caught)")),
        f"test_a.py::test_{'x' * 200}": record(result(standing="inconclusive")),
    }
    heading, *rows = lines_of(records)
    assert max(map(len, (heading, *rows))) <= WIDTH
    assert heading.split() == ["test", "step", "tok/s", "B/step", "fraction", "bound", "verdict"]
    assert rows[0].split("  ")[0].startswith("test_de...")
    assert rows[0].split("  ")[0].endswith("e[bf16]")
    assert rows[1].split("  ")[0].startswith("test_xx...")


HEADINGS = {
    30: "test fraction verdict",
    40: "test fraction verdict",
    50: "test tok/s fraction verdict",
    60: "test step tok/s fraction verdict",
    80: "test device step tok/s B/step fraction bound verdict",
    100: "test device step tok/s B/step fraction bound verdict",
    120: "test device step tok/s ceiling B/step fraction bound verdict",
    140: "test device step tok/s ceiling B/step fraction interval bound verdict",
}


@pytest.mark.parametrize("width", HEADINGS)
def test_the_table_grows_with_the_width(width: int) -> None:
    """Columns in a stated order: what a name has to be shortened for is left out first; no figure is ever cut."""
    bounds = {"fraction_low": 0.39, "fraction_high": 0.43}
    records = {
        f"test_a.py::test_decodes_with_static_cache[{dtype}-2048]": record(result(**bounds))
        for dtype in ("float16", "bfloat16")
    }
    heading, *rows = lines_of(records, width)
    assert heading.split() == HEADINGS[width].split()
    assert all(width_of(row) <= width for row in (heading, *rows))
    assert all("  41 %  " in row for row in rows)
    assert len({row.split("  ")[0] for row in rows}) == 2
    if "ceiling" in heading:
        assert all(row.startswith("test_decodes_with_static_cache[") and "  240  " in row for row in rows)
    if "interval" in heading:
        assert all("39 % to 43 %" in row for row in rows)


def test_an_interval_without_upper_end_shows_its_lower_one() -> None:
    """As where a long block took no longer than a short one; without both there is a dash."""
    bounds = [{"fraction_low": 0.31, "fraction_high": None}, {"fraction_low": None, "fraction_high": None}]
    _, *rows = lines_of({f"test_{n}": record(result(**one)) for n, one in enumerate(bounds)}, 200)
    assert "  from 31 %  " in rows[0]
    assert "  -  " in rows[1]


def test_a_device_that_all_rows_share_is_left_out_before_what_tells_them_apart() -> None:
    """The header names it; of two devices the column stays while there is room for the least."""
    other = result(device={"id": "cpu", "name": "Zen"})
    names = [f"test_a.py::test_decodes_with_static_cache[{number}]" for number in range(2)]
    alike = lines_of({names[0]: record(result()), names[1]: record(result())}, 70)
    mixed = lines_of({names[0]: record(result()), names[1]: record(other)}, 70)
    assert alike[0].split() == ["test", "step", "tok/s", "B/step", "fraction", "verdict"]
    assert mixed[0].split() == ["test", "device", "step", "tok/s", "fraction", "verdict"]


def test_a_name_that_no_column_has_room_for_has_a_line_to_itself() -> None:
    """Figures are not cut, whatever the width: the name goes above them."""
    lines = lines_of({"test_a.py::test_decodes[bf16]": record(result(standing="bogus (caught)"))}, 30)
    assert lines == ["test  fraction  verdict", "test_decodes[bf16]", "          41 %  bogus (caught)"]


def test_tests_of_two_files_are_told_apart() -> None:
    """A name that two files have is printed with its file."""
    lines = lines_of({"test_a.py::test_it": record(result()), "test_b.py::test_it": record(result())})
    assert [line.split()[0] for line in lines[1:]] == ["test_a.py::test_it", "test_b.py::test_it"]


def test_words_of_verdicts_have_colours() -> None:
    """Green, yellow and red, and nothing else has one."""
    words = {"passed": "green", "failed": "red", "bogus": "red", "bogus (caught)": "yellow", "inconclusive": "yellow"}
    for word, colour in words.items():
        for allowed in ((), ("drifted",)):
            line = summary_lines({"test_it": record(result(standing=word, allowed=allowed))})[1]
            assert line[-1] == (f"{word} (1 allowed)" if allowed else word, colour)
            assert line[0][1] == ""
    assert all(colour == "" for _, colour in summary_lines({"test_it": record(result(standing="not measured"))})[1])
    doubtful = summary_lines({"test_it": record(verdict="inconclusive", reason="no claim")})
    assert doubtful[-2] == (("INCONCLUSIVE", "yellow"), (" test_it: no claim", ""))
    assert doubtful[-1] == (("1 of 1 not judged", "yellow"),)


HOSTILE = "\x1b[31m\x1b]0;owned\x07\r\nFAKE passed\x00\u202e\u2028\x9b2J"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_names_and_notes_move_no_cursor(width: int) -> None:
    """Whatever a name, a label, a reason or a note holds: only what can be printed is, and no line is forged."""
    hostile = result(
        label=HOSTILE,
        notes=[HOSTILE],
        device={"id": HOSTILE, "name": HOSTILE},
        traffic={"bytes_per_pass": 2e9, "extra": [[HOSTILE, 1e9]]},
    )
    attempts = [{"verdict": "failed", "message": HOSTILE, "results": []}]
    one = {**record(hostile, hostile, verdict="inconclusive", reason=HOSTILE), "attempts": attempts}
    lines = [*lines_of({f"test_{HOSTILE}.py::test_{HOSTILE}": one}, width), *header_lines({"t": one}, is_named=True)]
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("FAKE") for line in lines)


@pytest.mark.parametrize(
    "name", ["test_解码速度解码速度解码速度解码速度解码速度", "test_" + "e\u0301" * 40, "test_👩🏽" * 9]
)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_wide_and_combining_characters_are_measured_in_cells(name: str, width: int) -> None:
    """Columns stay below each other: two cells for a Chinese character, none for a mark."""
    lines = lines_of({f"a.py::{name}": record(result()), "a.py::test_b": record(result(notes=[name * 3]))}, width)
    heading, first, second = lines[:3]
    assert all(width_of(line) <= width for line in lines)
    assert width_of(first) == width_of(second)
    assert width_of(heading.partition("verdict")[0]) == width_of(first.partition("passed")[0])


def test_shared_notes_are_said_once_and_extra_bytes_first() -> None:
    """A note of several tests names the first and how many more."""
    extra = {"bytes_per_pass": 2e9, "extra": [["KV cache copied each step", 1.2e9]]}
    records = {f"test_{name}": record(result(notes=["batch is not known"], traffic=extra)) for name in "abc"}
    assert lines_of(records)[4:] == [
        "  test_a and 2 more: KV cache copied each step: 1.20 GB more per step",
        "  test_a and 2 more: batch is not known",
    ]


def test_bytes_that_were_declared_wrongly_are_said_of_a_test_that_passed() -> None:
    """The first line of that note; other notes stay with the result."""
    findings = [
        {"check": "bytes-disagree", "severity": "note", "message": "1 GB declared, 2 GB read\n  more"},
        {"check": "drifted", "severity": "note", "message": "the bandwidth moved"},
    ]
    lines = lines_of({"test_it": record(result(findings=findings))})
    assert lines[2:] == ["  test_it: 1 GB declared, 2 GB read"]


def test_inconclusive_tests_have_a_line_each_and_are_counted() -> None:
    """With their whole node id and reason; the count comes last."""
    records = {
        "test_a.py::test_one": record(result()),
        "test_a.py::test_two": record(verdict="inconclusive", reason="no claim"),
    }
    assert lines_of(records)[-2:] == ["INCONCLUSIVE test_a.py::test_two: no claim", "1 of 2 not judged"]


def test_headers() -> None:
    """Device and mode; without an accelerator that is said, unless the CPU was asked for."""
    assert header_line("off") == "roofline: off, steps run once and nothing is measured"
    assert header_line("auto", "cuda:0", "H200") == "roofline: cuda:0 (H200), mode auto"
    assert header_line("auto", "cpu", "Zen") == (
        "roofline: cpu (Zen), mode auto: no accelerator here, measured on the CPU"
    )
    assert header_line("require", "cpu", "Zen", is_named=True) == "roofline: cpu (Zen), mode require"
    assert header_line("require", "cpu", "Zen") == (
        "roofline: cpu (Zen), mode require: no accelerator here, and tests that do not name the CPU are refused "
        "(--roofline-device=cpu)"
    )
    records = {"test_a": record(result(), result()), "test_b": record(result())}
    assert header_lines(records, is_named=False) == ["roofline: cuda:0 (H200), mode auto"]
