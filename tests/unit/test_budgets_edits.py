"""Figures put into the text of a budgets file: exactly they change, and everything else stays as it was written."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_roofline.budgets.document import budgets_in
from pytest_roofline.budgets.edits import Edit, EditRefused, edited, quoted, shown

TEST = "tests/test_a.py::test_it[x-1]"
CARD = "NVIDIA H100 80GB HBM3"
WRITTEN = """\
# Ours, since 2024.
schema: 1   # one

default:
  H100*: 0.70     # the team agreed
  cpu: {at_least: 0.3, at_most: 0.9}   # and here
tests:   # below
  # decode
  "tests/test_a.py::test_it[x-1]":   # long
    NVIDIA H100 80GB HBM3:    0.60   # slow
    cpu:
      at_least: 0.25   # weak
      # a word
    # the end of it

  'tests/test_b.py::*': 0.5  # all

# the end
"""


def at(device: str = CARD, test_id: str = TEST, **figures: float) -> Edit:
    """An edit in short."""
    return Edit(test_id=test_id, device=device, figures=figures or {"at_least": 0.66})


def put(text: str, *edits: Edit) -> str:
    """The edited text."""
    return edited(text, edits, "budgets.yaml")


def lines_that_differ(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that went, and lines that came."""
    old, new = before.split("\n"), after.split("\n")
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize(
    ("edit", "gone", "come"),
    [
        (
            at(),
            ["    NVIDIA H100 80GB HBM3:    0.60   # slow"],
            ["    NVIDIA H100 80GB HBM3:    0.66   # slow"],
        ),
        (
            at(at_least=0.7, at_most=1.2),
            ["    NVIDIA H100 80GB HBM3:    0.60   # slow"],
            ["    NVIDIA H100 80GB HBM3:    {at_least: 0.7, at_most: 1.2}   # slow"],
        ),
        (at("cpu", at_least=0.3), ["      at_least: 0.25   # weak"], ["      at_least: 0.3   # weak"]),
        (at("cpu", at_most=0.9), [], ["      at_most: 0.9"]),
        (at("AMD MI300X"), [], ['    "AMD MI300X": 0.66']),
        (
            at(test_id="tests/test_b.py::*"),
            ["  'tests/test_b.py::*': 0.5  # all"],
            ['  \'tests/test_b.py::*\': {"*": 0.5, "NVIDIA H100 80GB HBM3": 0.66}  # all'],
        ),
        (at(test_id="new.py::test"), [], ['  "new.py::test":', '    "NVIDIA H100 80GB HBM3": 0.66']),
    ],
)
def test_only_the_lines_of_the_figures_change(edit: Edit, gone: list[str], come: list[str]) -> None:
    """In place where they stand, beside their neighbours where they are new; every comment stays."""
    made = put(WRITTEN, edit)
    assert lines_that_differ(WRITTEN, made) == (gone, come)
    assert re.findall("#.*", made) == re.findall("#.*", WRITTEN)


def test_new_entries_stand_behind_the_last_one_of_their_kind() -> None:
    """Devices in the entry of their test, tests after the last one, in front of the comment that ends the file."""
    made = put(WRITTEN, at("AMD MI300X"), at(test_id="b.py::b"), at("cpu", "b.py::b", at_least=0.1, at_most=0.2))
    assert (
        made.index('"AMD MI300X": 0.66')
        < made.index("test_b.py::*")
        < made.index("b.py::b")
        < made.index("# the end\n")
    )
    assert made.index("# a word") > made.index('"AMD MI300X"')  # the last line that says something is above it
    assert '  "b.py::b":\n    "NVIDIA H100 80GB HBM3": 0.66\n    "cpu": {at_least: 0.1, at_most: 0.2}\n' in made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("schema: 1", 'schema: 1\ntests:\n  "t::a":\n    "cpu": 0.5'),
        ("schema: 1\n", 'schema: 1\ntests:\n  "t::a":\n    "cpu": 0.5\n'),
        ("schema: 1\r\n# x\r\n", 'schema: 1\r\ntests:\r\n  "t::a":\r\n    "cpu": 0.5\r\n# x\r\n'),
        ("schema: 1\ntests:  # none yet\n", 'schema: 1\ntests:  # none yet\n  "t::a":\n    "cpu": 0.5\n'),
        ("schema: 1\ntests: ~  # none\n", 'schema: 1\ntests:   # none\n  "t::a":\n    "cpu": 0.5\n'),
        ("tests:\nschema: 1\n", 'tests:\n  "t::a":\n    "cpu": 0.5\nschema: 1\n'),
        ("schema: 1\ntests: {}\n", 'schema: 1\ntests: {"t::a": {"cpu": 0.5}}\n'),
        ("{schema: 1}", '{tests: {"t::a": {"cpu": 0.5}}, schema: 1}'),
        ("{schema: 1, tests: }", '{schema: 1, tests:  {"t::a": {"cpu": 0.5}}}'),
        ("schema: 1\ntests: {b: 0.1,}\n", 'schema: 1\ntests: {"t::a": {"cpu": 0.5}, b: 0.1,}\n'),
        ("schema: 1\ntests:\n    t::a: {gpu: .6}\n", 'schema: 1\ntests:\n    t::a: {"cpu": 0.5, gpu: .6}\n'),
        (
            "schema: 1\ntests: {t::a: {cpu: {at_most: 1}}}",
            "schema: 1\ntests: {t::a: {cpu: {at_least: 0.5, at_most: 1}}}",
        ),
        ("---\nschema: 1\n...\n", '---\nschema: 1\ntests:\n  "t::a":\n    "cpu": 0.5\n...\n'),
        ("schema: 1\ntests:\n        b: 1", 'schema: 1\ntests:\n        b: 1\n        "t::a":\n          "cpu": 0.5'),
    ],
)
def test_every_way_of_writing(text: str, made: str) -> None:
    """Blocks, braces, nothing yet, other line ends, no line end, marks of a document."""
    assert put(text, at("cpu", "t::a", at_least=0.5)) == made


@pytest.mark.parametrize(
    "text",
    [
        "schema: 1\rtests:\r  b: 0.5\r",  # a line end that nobody writes any more
        "schema: 1\ntests:\n  ? b\n  : ? cpu\n    : 0.5\n",
        "schema: 1\ntests:\n  b: 0.5 # \x85# one\n",
        '? schema\n: 1\n? tests\n: {"t::a": 0.4}\n',
    ],
)
def test_odd_ways_of_writing_are_edited_rightly_or_not_at_all(text: str) -> None:
    """The text that comes out is read again before anybody gets it."""
    before = budgets_in(text, "b.yaml").flat()
    try:
        made = put(text, at("cpu", "t::a", at_least=0.5))
    except EditRefused:
        assert any(mark in text for mark in "?\r\x85")
        return
    assert budgets_in(made, "b.yaml").flat() == {**before, ("t::a", "cpu", "at_least"): 0.5}


def test_what_would_change_another_figure_is_refused() -> None:
    """A figure in place of a word that exempts takes its at_most away: that was not asked for."""
    with pytest.raises(
        EditRefused, match=r"budgets\.yaml: cannot be changed safely: t::a\.cpu\.at_most would be nothing"
    ):
        put("schema: 1\ntests: {t::a: {cpu: none}}", at("cpu", "t::a", at_least=0.5))
    with pytest.raises(EditRefused, match=r"cannot be changed safely: .*at_least=0\.9 is above at_most=0\.8"):
        put("schema: 1\ntests: {t::a: {cpu: {at_most: 0.8}}}", at("cpu", "t::a", at_least=0.9))


@pytest.mark.parametrize(("key", "message"), [("x" * 1001, "a name of 1,003|1,001"), ("\ud800", "half of a character")])
def test_names_that_yaml_cannot_hold_are_refused(key: str, message: str) -> None:
    """Over a thousand characters on a line, and halves of characters."""
    with pytest.raises(EditRefused, match=message):
        quoted(key)


@settings(max_examples=60, deadline=None)
@given(key=st.text(max_size=60).filter(lambda key: not any(0xD800 <= ord(one) <= 0xDFFF for one in key)))
def test_every_name_comes_back(key: str) -> None:
    """Quotes, backslashes, brackets, colons, colours, line ends, other scripts."""
    assume(key)
    text = put("schema: 1\n", at("cpu", key, at_least=0.5))
    assert text.isprintable() or text.replace("\n", "").isprintable()
    assert budgets_in(text, "b.yaml").tests[0].pattern == key


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-8, 1.5))
def test_figures_are_written_as_plain_decimals(figure: float) -> None:
    """No exponent, which YAML takes for a text, and as good as the same value."""
    text = shown(figure)
    assert re.fullmatch(r"\d+(\.\d+)?", text)
    assert float(text) == pytest.approx(figure, abs=1e-9)


# -- random files ---------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["a.py::t", "a.py::t[1-x]", "a.py::*", "b c", "é", "cpu", "H100*", "it's", 'say "x"', "#no", "-"]
)
FIGURE = st.integers(1, 100).map(lambda hundredths: hundredths / 100)
COMMENT = st.sampled_from(["", "  # why", " # 0.5: {cpu}"])
GAP = st.sampled_from(["", "", "\n", "# alone\n", "      # far in\n"])


@st.composite
def a_file(draw: st.DrawFn) -> str:
    """A budgets file as a person may have written it: blocks and braces, comments and gaps anywhere."""

    def figures(indent: str) -> str:
        kind = draw(st.sampled_from(["number", "none", "flow", "block"]))
        low = draw(FIGURE)
        if kind == "number":
            return f" {draw(st.sampled_from(['', '  ']))}{low:.2f}{draw(COMMENT)}\n"
        if kind == "none":
            return f" none{draw(COMMENT)}\n"
        names = draw(st.sampled_from([["at_least"], ["at_most"], ["at_most", "at_least"]]))
        values = {"at_least": f"{low:.2f}", "at_most": "1.2"}
        if kind == "flow":
            return " {" + ", ".join(f"{name}: {values[name]}" for name in names) + "}" + draw(COMMENT) + "\n"
        return "\n" + "".join(f"{indent}  {name}: {values[name]}{draw(COMMENT)}\n{draw(GAP)}" for name in names)

    def devices(indent: str) -> str:
        if draw(st.booleans()):
            return figures("").replace("{", '{"*": {').replace("}", "}}") if draw(st.booleans()) else " 0.5\n"
        keys = draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.lower))
        return (
            draw(COMMENT)
            + "\n"
            + "".join(f"{indent}  {quoted(key)}:{figures(indent + '  ')}{draw(GAP)}" for key in keys)
        )

    text = draw(GAP) + f"schema: 1{draw(COMMENT)}\n{draw(GAP)}"
    if draw(st.booleans()):
        text += f"default:{devices('')}{draw(GAP)}"
    keys = draw(st.lists(NAMES, max_size=4, unique=True))
    if keys:
        indent = draw(st.sampled_from(["  ", "    "]))
        text += f"tests:{draw(COMMENT)}\n" + "".join(
            f"{indent}{quoted(key)}:{devices(indent)}{draw(GAP)}" for key in keys
        )
    if draw(st.booleans()):
        text = text.rstrip("\n")
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def is_readable(text: str) -> bool:
    """Whether the generator made a budgets file of it: a comment between braces and the like does not."""
    try:
        budgets_in(text.replace("\r\n", "\n"), "b.yaml")
    except ValueError:
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(
    text=a_file().filter(is_readable),
    edits=st.lists(
        st.tuples(NAMES, NAMES, st.sampled_from([("at_least",), ("at_least", "at_most")]), FIGURE),
        min_size=1,
        max_size=4,
        unique_by=lambda edit: (edit[0], edit[1].lower()),
    ),
)
def test_exactly_the_intended_figures_change(text: str, edits: list[tuple[str, str, tuple[str, ...], float]]) -> None:
    """Or nothing at all: comments, order and other figures stay, and the same edits once more change nothing."""
    wanted = [
        Edit(test_id=test, device=device, figures={name: figure if name == "at_least" else 1.3 for name in names})
        for test, device, names, figure in edits
    ]
    before = budgets_in(text.replace("\r\n", "\n"), "b.yaml").flat()
    try:
        made = edited(text, wanted, "b.yaml")
    except EditRefused:
        # Only a word that exempts stands in the way, or an upper figure, or a name of the other case.
        assert "none" in text or "at_most" in text or any(one.lower() != one for one in text)
        return
    after = budgets_in(made.replace("\r\n", "\n"), "b.yaml").flat()
    assert after == before | {
        (edit.test_id, edit.device, name): value for edit in wanted for name, value in edit.figures.items()
    }
    assert sorted(re.findall(r"# (?:why|alone|far in)", made)) == sorted(re.findall(r"# (?:why|alone|far in)", text))
    assert [key for key in after if key in before] == list(before)
    assert edited(made, wanted, "b.yaml") == made
    assert ("\r\n" in made) == ("\r\n" in text) or "\n" not in text
    assert made.count("\r") in (0, made.count("\n"))
