"""The table at the end, from records alone."""

from __future__ import annotations

from typing import Any

from pytest_roofline.report.terminal import WIDTH, header_line, header_lines, summary_lines


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
    assert summary_lines({}) == []


def test_a_row_has_its_figures_in_units() -> None:
    """Rounding happens here: three digits, decimal prefixes, per cent."""
    heading, row = summary_lines({"test_a.py::test_it": record(result())})
    assert heading.split() == ["test", "device", "step", "tok/s", "B/step", "fraction", "bound", "verdict"]
    assert row.split() == ["test_it", "cuda:0", "10.2", "ms", "98.3", "2.47", "GB", "41", "%", "memory", "passed"]


def test_what_is_not_known_is_a_dash() -> None:
    """An audit without traffic has no fraction and no bytes."""
    bare = result(step_s=None, tokens_per_s=None, fraction=None, traffic=None, ceiling=None)
    assert summary_lines({"test_it": record(bare)})[1].split() == ["test_it", "cuda:0", *"-----", "passed"]


def test_several_results_of_a_test_have_a_row_each() -> None:
    """Told apart by their labels."""
    lines = summary_lines({"test_it": record(result(label="a"), result(label="b"))})
    assert [line.split()[:2] for line in lines[1:]] == [["test_it:", "a"], ["test_it:", "b"]]


def test_names_of_any_length_fit() -> None:
    """A name too long for its column has a line to itself, one too long for the page is cut."""
    lines = summary_lines(
        {
            "test_a.py::test_decodes_with_static_cache[bf16]": record(result(standing="bogus (caught)")),
            f"test_a.py::test_{'x' * 200}": record(result(standing="inconclusive")),
        }
    )
    assert max(map(len, lines)) <= WIDTH
    assert lines[1] == "test_decodes_with_static_cache[bf16]"
    assert lines[2].strip().startswith("cuda:0")
    assert lines[3].endswith("...")


def test_shared_notes_are_said_once_and_extra_bytes_first() -> None:
    """A note of several tests names the first and how many more."""
    extra = {"bytes_per_pass": 2e9, "extra": [["KV cache copied each step", 1.2e9]]}
    records = {f"test_{name}": record(result(notes=["batch is not known"], traffic=extra)) for name in "abc"}
    assert summary_lines(records)[4:] == [
        "  test_a and 2 more: KV cache copied each step: 1.20 GB more per step",
        "  test_a and 2 more: batch is not known",
    ]


def test_bytes_that_were_declared_wrongly_are_said_of_a_test_that_passed() -> None:
    """The first line of that note; other notes stay with the result."""
    findings = [
        {"check": "bytes-disagree", "severity": "note", "message": "1 GB declared, 2 GB read\n  more"},
        {"check": "drifted", "severity": "note", "message": "the bandwidth moved"},
    ]
    lines = summary_lines({"test_it": record(result(findings=findings))})
    assert lines[2:] == ["  test_it: 1 GB declared, 2 GB read"]


def test_inconclusive_tests_have_a_line_each_and_are_counted() -> None:
    """With their whole node id and reason; the count comes last."""
    records = {
        "test_a.py::test_one": record(result()),
        "test_a.py::test_two": record(verdict="inconclusive", reason="no claim"),
    }
    assert summary_lines(records)[-2:] == ["INCONCLUSIVE test_a.py::test_two: no claim", "1 of 2 not judged"]


def test_headers() -> None:
    """Device and mode; without an accelerator that is said, unless the CPU was asked for."""
    assert header_line("off") == "roofline: off, steps run once and nothing is measured"
    assert header_line("auto", "cuda:0", "H200") == "roofline: cuda:0 (H200), mode auto"
    assert header_line("auto", "cpu", "Zen") == (
        "roofline: cpu (Zen), mode auto: no accelerator here, measured on the CPU"
    )
    assert header_line("require", "cpu", "Zen", is_named=True) == "roofline: cpu (Zen), mode require"
    records = {"test_a": record(result(), result()), "test_b": record(result())}
    assert header_lines(records, is_named=False) == ["roofline: cuda:0 (H200), mode auto"]
