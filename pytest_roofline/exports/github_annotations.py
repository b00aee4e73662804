"""Annotations of GitHub Actions: workflow commands that put a message at the test's line.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands (``::error file=,line=::message``).
A command is one line: data escapes per cent, carriage return and line feed, properties colon and comma besides, as
``command.ts`` of actions/toolkit does. GitHub shows ten of each kind in a step and drops the rest without a word, so
the gravest come first, and the tenth says how many follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.exports.measured import measured_in, shortened, tests_of, verdict_of

NAME = "github-annotations"
SHOWN = 10
"""Annotations of one kind in one step, by https://github.com/actions/toolkit/blob/main/docs/problem-matchers.md."""
LEVELS: Mapping[str, str] = {
    "bogus": "error",
    "failed": "error",
    "crashed": "error",
    "inconclusive": "warning",
    "bogus (caught)": "notice",
}
"""What each verdict is worth; the others are worth no annotation."""
_LONGEST = 1000


def github_annotations(document: Mapping[str, Any], folder: str = "") -> str:
    """A line for each test that did not pass; empty where all did.

    `folder` is where pytest's root lies in the repository: GitHub's paths begin at the repository.
    """
    reasons = _reasons(document)
    tests = [test for test in tests_of(document) if verdict_of(test) in LEVELS]
    lines: dict[str, list[str]] = {level: [] for level in dict.fromkeys(LEVELS.values())}
    for verdict in LEVELS:
        for test in tests:
            if verdict_of(test) == verdict:
                lines[LEVELS[verdict]].append(_command(test, verdict, reasons, folder))
    return "".join(f"{line}\n" for level, found in lines.items() for line in _cut(level, found))


def _cut(level: str, lines: list[str]) -> list[str]:
    if len(lines) <= SHOWN:
        return lines
    more = len(lines) - SHOWN + 1
    rest = f"::{level} title=pytest-roofline::{more} more tests are worth one, GitHub shows {SHOWN} of a kind in a step"
    return [*lines[: SHOWN - 1], rest]


def _command(test: Mapping[str, Any], verdict: str, reasons: Mapping[str, str], folder: str) -> str:
    node_id = str(test.get("node_id", ""))
    file, line = test.get("file") or node_id.split("::", 1)[0], test.get("line")
    place = {"file": one_line(f"{folder.rstrip('/')}/{file}" if folder else str(file), _LONGEST)}
    if isinstance(line, int) and line > 0:
        place["line"] = str(line)
    word = verdict.upper() if verdict in ("bogus", "inconclusive") else verdict
    title = f"{word}: {shortened(node_id.split('::', 1)[-1], 120)}"
    # The report's own message has what a plain assert says, too.
    told = (test.get("reason"), test.get("message"), reasons.get(node_id), word)
    said = next(line for line in (str(text or "").split("\n", 1)[0] for text in told) if line)
    properties = ",".join(f"{name}={_property(value)}" for name, value in {**place, "title": title}.items())
    return f"::{LEVELS[verdict]} {properties}::{_data(one_line(said, _LONGEST))}"


def _reasons(document: Mapping[str, Any]) -> dict[str, str]:
    """What the results of each test say of it, the gravest first."""
    found: dict[str, dict[str, str]] = {}
    for one in measured_in(document):
        if one.reason:
            found.setdefault(one.node_id, {}).setdefault(one.standing, one.reason)
    order = list(LEVELS)
    return {
        node_id: min(said.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))[1]
        for node_id, said in found.items()
    }


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
