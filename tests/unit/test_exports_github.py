"""GitHub's annotations, parsed as its runner parses them, and the summary, parsed as Markdown."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_documents import HOSTILE, bogus, case, document, doubtful, hostile, mixed, result

from pytest_roofline.exports.github_annotations import github_annotations
from pytest_roofline.exports.github_summary import ROOM_BYTES, github_summary
from pytest_roofline.exports.measured import shortened

UNESCAPED = (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))


def command(line: str) -> tuple[str, dict[str, str], str]:
    """Name, properties and data of a workflow command: ``::name key=value,key=value::data``."""
    assert line.startswith("::")
    head, data = line[2:].split("::", 1)
    name, _, listed = head.partition(" ")
    properties = dict(part.split("=", 1) for part in listed.split(",") if part)
    assert not re.search(r"[\x00-\x1f\x7f]", line)
    return name, {key: unescaped(value) for key, value in properties.items()}, unescaped(data)


def unescaped(text: str) -> str:
    """What the runner makes of an escaped text."""
    for written, character in UNESCAPED:
        text = text.replace(written, character)
    return text


# -- annotations ------------------------------------------------------------------------------------------------------


def test_each_test_that_did_not_pass_is_annotated_at_its_line() -> None:
    """Bogus and failed ones are errors, doubts are warnings; the message is the first line with its figures."""
    found = [command(line) for line in github_annotations(mixed()).splitlines()]
    assert [(name, properties["title"]) for name, properties, _ in found] == [
        ("error", "BOGUS: test_bogus"),
        ("error", "failed: test_failed"),
        ("error", "crashed: test_crashed"),
        ("warning", "INCONCLUSIVE: test_doubt"),
    ]
    assert all((properties["file"], properties["line"]) == ("t.py", "12") for _, properties, _ in found)
    assert [data for _, _, data in found] == [
        "41.0 TB/s from memory, but this device cannot exceed 3.35 TB/s (12x) [faster-than-limit]",
        "BelowCeiling: 41 % of the probed read ceiling (98 of 238 tok/s), the test asks for 60 %",
        "worker 'gw0' crashed",
        "a pass touches 60.0 MB",
    ]


def test_a_failure_without_a_message_is_told_from_its_figures() -> None:
    """Documents of earlier versions hold no message."""
    missed = result(verdict="failed", standing="failed", fraction=0.41)
    ((_, _, data),) = [command(line) for line in github_annotations(document(case("a", missed))).splitlines()]
    assert data == "41 % of the ceiling at 1,250 tok/s, at least 60 % is asked for"


def test_a_caught_bogus_result_is_a_notice() -> None:
    """It is the test's own business, and no error."""
    line = github_annotations(document(case("a", bogus(standing="bogus (caught)"))))
    assert command(line.rstrip("\n"))[0] == "notice"


def test_a_run_that_passed_is_not_annotated() -> None:
    """Nothing is printed."""
    assert github_annotations(document(case("a", result()))) == ""


def test_of_too_many_the_tenth_says_how_many_follow() -> None:
    """GitHub drops the eleventh without a word; the gravest come first."""
    tests = [case(f"t.py::test_{number}", doubtful()) for number in range(25)]
    lines = github_annotations(document(*tests, case("t.py::test_bogus", bogus()))).splitlines()
    assert command(lines[0])[1]["title"] == "BOGUS: test_bogus"
    warnings = [command(line) for line in lines if line.startswith("::warning")]
    assert len(warnings) == 10
    assert warnings[-1][2] == "16 more tests are worth one, GitHub shows 10 of a kind in a step"


@pytest.mark.parametrize("node_id", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_id_is_one_command(node_id: str) -> None:
    """No id ends the command, begins another one, or brings a property of its own."""
    made = document(case(node_id, bogus(), message=f"{node_id} %0A,:"))
    (line,) = github_annotations(made).split("\n")[:-1]
    name, properties, _ = command(line)
    assert name == "error"
    assert list(properties) == ["file", "line", "title"]
    assert properties["file"] == node_id.split("::", 1)[0]


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_id_survives_the_way_there_and_back(text: str) -> None:
    """The title that GitHub shows is the printable id, whatever it is."""
    lines = github_annotations(document(case(f"t.py::{text}", bogus()))).split("\n")
    assert len(lines) == 2
    assert command(lines[0])[1]["title"] == f"BOGUS: {shortened(text, 120)}"


# -- summary ----------------------------------------------------------------------------------------------------------


def tokens_of(text: str) -> list[Any]:
    """The summary as Markdown with tables, inline tokens beside the blocks."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    return [
        token for block in markdown.parse(text) for token in (block, *(block.children or ())) if token.type != "inline"
    ]


def rows_of(text: str) -> list[list[str]]:
    """Cells of the table's body as text."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    page = markdown.render(text)
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [row.partition("</tr>")[0] for row in body.split("<tr>")[1:]]
    return [
        [html.unescape(re.sub(r"</?(code|strong)>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in rows
    ]


def test_the_summary_has_the_table_and_a_picture() -> None:
    """Counts, device with its ceiling, a chart of true fractions, and a row per result, the gravest first."""
    text = github_summary(mixed())
    assert text.startswith("### Roofline: 1 **BOGUS**, 1 **INCONCLUSIVE**, 1 failed, 1 passed, 1 not measured, 1 cr")
    rows = rows_of(text)
    assert [row[0].split("::")[-1] for row in rows] == [
        *("test_bogus", "test_doubt", "test_failed", "test_passed", "test_off"),
    ]
    assert rows[0][2:] == ["", "", "", "", "", "BOGUS"]
    assert rows[3][2:] == ["800 us", "1,250 tok/s", "2.00 GB", "███████░░░ 75 % of 60 %", "memory", "passed"]
    chart = text.partition("```mermaid\n")[2].partition("```")[0]
    assert "bar [41.0, 74.6]" in chart
    assert "line [60.0, 60.0]" in chart


def test_reasons_stand_below_the_table() -> None:
    """Of what was refused or not judged, and of a test that has no result at all, each once."""
    text = html.unescape(github_summary(mixed()))
    assert text.count("41.0 TB/s from memory, but this device cannot exceed 3.35 TB/s (12x)") == 1
    assert text.count("a pass touches 60.0 MB") == 1
    assert text.count("worker 'gw0' crashed") == 1


def test_the_chart_keeps_to_its_grammar() -> None:
    """Hostile ids are words in quotes there: nothing that the grammar reads, and short."""
    chart = github_summary(hostile()).partition("```mermaid\n")[2].partition("```")[0]
    labels = re.search(r"x-axis \[(.*)\]\n", chart)
    assert labels is not None
    assert all(re.fullmatch(r'"[0-9]+\. [A-Za-z0-9_. -]{0,40}"', label) for label in labels[1].split(", "))
    assert len(labels[1].split(", ")) == len(HOSTILE)


def test_a_fraction_above_all_of_the_ceiling_fits_the_axis() -> None:
    """Reads of a cache, allowed by the test: 1.4 of the ceiling is no bar without an end."""
    assert "0 --> 140" in github_summary(document(case("a", result(fraction=1.4, at_least=None))))


def test_without_a_figure_there_is_no_chart() -> None:
    """A run that measured nothing true has no picture."""
    assert "mermaid" not in github_summary(document(case("a", bogus())))
    assert github_summary(document()) == "### Roofline: nothing was measured\n\n"


def test_hostile_ids_stay_text_in_the_table() -> None:
    """No Markdown, no HTML but the code tags, no cell too many; what is read is the printable id."""
    text = github_summary(hostile())
    inline = {token.content for token in tokens_of(text) if token.type == "html_inline"}
    assert inline == {"<code>", "</code>"}
    assert not any(token.type in ("html_block", "link_open", "em_open", "image") for token in tokens_of(text))
    assert [row[0] for row in rows_of(text)] == [shortened(node_id) for node_id in HOSTILE]


@pytest.mark.parametrize("count", [3000, 20_000])
def test_a_summary_keeps_to_its_room(count: int) -> None:
    """Over 1 MiB GitHub would show nothing: rows that do not fit are left out, the gravest stay, and it is said."""
    tests = [case(f"tests/test_{number}.py::test_it[{'x' * 90}]", result()) for number in range(count)]
    doubts = [case(f"tests/test_{number}.py::test_doubt[{'y' * 90}]", doubtful()) for number in range(count)]
    text = github_summary(document(*tests, *doubts, case("t.py::test_bogus", bogus())))
    assert len(text.encode()) <= ROOM_BYTES - 500
    rows = rows_of(text)
    assert rows[0][-1] == "BOGUS"
    said = re.search(r"\n(\d+) more rows do not fit", text)
    assert said is not None
    assert int(said[1]) + len(rows) == 2 * count + 1


@pytest.mark.parametrize("room", [0, 1000, 1500, 2500, 4000, 8000])
def test_little_room_is_enough_for_a_whole_text(room: int) -> None:
    """Beside what other tools wrote: never more than is left, and never a table without its head."""
    text = github_summary(mixed(), room)
    assert len(text.encode()) <= max(room, 0)
    assert "| --- |" not in text or "| test |" in text
