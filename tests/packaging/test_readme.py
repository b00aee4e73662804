"""What only README.md says is true: the map of the house, the environments of tox, the demo, how much it is."""

from __future__ import annotations

import re

from documentation import PACKAGE, PAGES, README, ROOT, blocks_of, section_of, text_of

from pytest_roofline.settings import parse_allow

TEXT = text_of(README)


def test_the_tox_commands_exist() -> None:
    """Each environment that is named is one of tox.ini."""
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    listed = re.search(r"^env_list = (.*)$", text, flags=re.MULTILINE)
    assert listed is not None
    expanded = re.sub(
        r"(\w+)\{([\d,]+)\}", lambda match: ", ".join(match[1] + part for part in match[2].split(",")), listed[1]
    )
    named = re.findall(r"tox run -e ([\w,]+)", TEXT)
    assert named
    assert {name for names in named for name in names.split(",")} <= set(expanded.split(", "))


def test_the_map_is_complete() -> None:
    """Every module and every room of the package stands in the map, and once."""
    (chart,) = [block.text for block in blocks_of(README) if "plugin.py" in block.text.split()]
    places = [word for line in chart.splitlines() for word in line.split() if re.fullmatch(r"\w+(\.py|/)", word)]
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    rooms = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(places) == sorted(modules | rooms)


def test_the_demo_shows_as_many_refusals_as_it_says() -> None:
    """Five tests that must not pass."""
    words = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
    match = re.search(r"runs (\w+) tests that must not pass", TEXT)
    assert match is not None
    assert len(list((ROOT / "examples" / "refused").glob("*.py"))) == words[match[1]]


def test_every_page_is_linked() -> None:
    """From here all of docs/ is found."""
    for page in PAGES:
        assert page == README or f"(docs/{page.name})" in TEXT


def test_the_checks_exist() -> None:
    """Each name that stands behind what is refused, or left undecided."""
    names = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section_of(README, "What is refused"))
    assert len(names) > 10
    assert parse_allow(names, "README.md") == set(names)
