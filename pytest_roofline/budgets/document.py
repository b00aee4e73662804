"""The file of budgets: fractions of the ceiling by test and device, read strictly.

::

    schema: 1
    default: 0.55                   # for tests and devices that nothing below speaks for; this, where it is left out
    tests:
      "tests/test_decode.py::*":
        H100*: 0.70                 # at least
        cpu: {at_least: 0.3, at_most: 0.9}
      "tests/test_decode.py::test_small": none

Test patterns are those of `patterns`, device patterns those of the marker. For each figure, at_least and at_most, the
most specific pattern of a test that has one for the device speaks; in it the device's whole name, then the longest
device pattern; then `default`. A plain number is at_least on every device. ``none`` asks for nothing, and ends the
search. `at_least` is above 0 and up to 1, `at_most` up to 1.5: a ruler and a test may differ by that much.

Unknown keys, a number in a string, a figure out of these bounds, a key that stands twice, and two patterns that tie for
a test are errors that name file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_roofline.budgets.patterns import PatternIndex, rank
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.settings import Budget
from pytest_roofline.specs.plain_data import Genre, decoded, line_of, parsed, read_bytes

SCHEMA = 1
DEFAULT_AT_LEAST = 0.55
FIGURES: Mapping[str, float] = {"at_least": 1.0, "at_most": 1.5}
"""What an entry may ask for, each with its largest figure."""
KEYS = ("schema", "default", "tests")
NONE = "none"
_GENRE = Genre(name="budgets file", why_no_anchors='a pattern that begins with * stands in quotes, as in "*": 0.7')
_DECIMAL = re.compile(r"\d+(\.\d*)?|\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEntry:
    """What is asked of the devices that a pattern fits."""

    pattern: str
    figures: Mapping[str, float | None]
    """By "at_least" and "at_most", where they are named; None where ``none`` exempts."""
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestEntry:
    """What is asked of the tests that a pattern fits."""

    __test__ = False  # pytest would take it for a class of tests

    pattern: str
    devices: tuple[DeviceEntry, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsFile:
    """One file of budgets."""

    name: str
    """How messages call it."""
    default: tuple[DeviceEntry, ...]
    tests: tuple[TestEntry, ...]
    index: PatternIndex = field(compare=False, repr=False)

    def fitting(self, test_id: str) -> list[TestEntry]:
        """The entries that fit a test, the most specific first."""
        return [self.tests[at] for at in self.index.fitting(test_id)]

    def budget_for(self, test_id: str, figure: str) -> Budget | None:
        """All that the file says of "at_least" or "at_most" of one test, by device; None where it says nothing."""
        fitting = self.fitting(test_id)
        ranks = [rank(entry.pattern, test_id) for entry in fitting]
        # Patterns of one rank are one tier: the device decides between them, and where it does not they tie.
        groups = [(ranks.index(at), entry.pattern, entry.devices) for at, entry in zip(ranks, fitting, strict=True)]
        groups.append((len(ranks), "default", self.default))
        found = [(tier, name, entry) for tier, name, devices in groups for entry in devices if figure in entry.figures]
        if not found:
            return None
        return Budget(
            by_pattern=tuple((entry.pattern, entry.figures[figure]) for _, _, entry in found),
            places=tuple(self._place(name, entry) for _, name, entry in found),
            tiers=tuple(tier for tier, _, _ in found),
        )

    def flat(self) -> dict[tuple[str, str, str], float | None]:
        """Every figure by test pattern ("" for the default), device pattern and name: what an edit is checked by."""
        groups = [("", self.default), *((entry.pattern, entry.devices) for entry in self.tests)]
        return {
            (test, entry.pattern, figure): value
            for test, devices in groups
            for entry in devices
            for figure, value in entry.figures.items()
        }

    def _place(self, test: str, entry: DeviceEntry) -> str:
        if entry.line is None:
            return f"{self.name} (its default, {DEFAULT_AT_LEAST:g}, where the file names none)"
        return f"{self.name}:{entry.line} ({one_line(test)}, {one_line(entry.pattern)})"


def is_default_place(place: str) -> bool:
    """Whether this place of a figure is a file's `default`, written or not."""
    return "(default, " in place or "(its default, " in place


def read_budgets(path: str, name: str | None = None) -> BudgetsFile:
    """The budgets in a file, which messages call `name`. RooflineUsageError with file, line and key."""
    return budgets_in(decoded(Path(name or path), read_bytes(Path(path), _GENRE, name)), name or path)


def budgets_in(text: str, name: str) -> BudgetsFile:
    """The budgets in a text, with the line ends of Unix."""
    found = parsed(Path(name), text, _GENRE, lambda node, _: _Reader(name).file(node))
    if not isinstance(found, BudgetsFile):
        raise RooflineUsageError(f"{name}: is empty: a budgets file begins with 'schema: {SCHEMA}'")
    return found


def node_of(text: str, name: str) -> yaml.MappingNode:
    """The top of a text that `budgets_in` has read, with the places of everything in it."""
    node: yaml.MappingNode = parsed(Path(name), text, _GENRE, lambda node, _: node)
    return node


def raw_bytes(path: str, name: str) -> bytes:
    """What is in the file; RooflineUsageError where it is none, or none that can be read."""
    return read_bytes(Path(path), _GENRE, name)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns nodes into entries; every error names file, line and key."""

    name: str

    def fail(self, node: yaml.Node, key: str, problem: str) -> RooflineUsageError:
        return RooflineUsageError(f"{self.name}:{line_of(node.start_mark)}: {one_line(key)}: {problem}")

    def file(self, node: yaml.Node) -> BudgetsFile:
        found: dict[str, yaml.Node] = {}
        for key, value in self.pairs(node, "file", "with schema, default and tests"):
            if key.value not in KEYS:
                raise self.fail(key, key.value, f"unknown key; known ones: {', '.join(KEYS)}")
            found[key.value] = value
        schema = found.get("schema")
        if schema is None:
            raise self.fail(node, "schema", f"missing; this version reads schema: {SCHEMA}")
        if schema.tag != "tag:yaml.org,2002:int" or schema.value != str(SCHEMA):
            raise self.fail(schema, "schema", f"{_said(schema)} is not known; this version reads {SCHEMA}")
        default: tuple[DeviceEntry, ...] = (DeviceEntry(pattern="*", figures={"at_least": DEFAULT_AT_LEAST}),)
        if "default" in found:
            default = self.default(found["default"])
        tests = self.tests(found["tests"]) if "tests" in found else ()
        index = PatternIndex([entry.pattern for entry in tests])
        return BudgetsFile(name=self.name, default=default, tests=tests, index=index)

    def default(self, node: yaml.Node) -> tuple[DeviceEntry, ...]:
        if isinstance(node, yaml.ScalarNode) and _is_none(node):
            return ()
        return self.devices(node, "default", node)

    def tests(self, node: yaml.Node) -> tuple[TestEntry, ...]:
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            return ()
        entries = []
        for key, value in self.pairs(node, "tests", "from test patterns to figures"):
            if not key.value:
                raise self.fail(key, "tests", 'an empty test pattern; examples: "tests/test_decode.py::*", "*"')
            where = f"tests.{key.value}"
            line = int(line_of(key.start_mark))
            entries.append(TestEntry(pattern=key.value, devices=self.devices(value, where, key), line=line))
        return tuple(entries)

    def devices(self, node: yaml.Node, where: str, owner: yaml.Node) -> tuple[DeviceEntry, ...]:
        if isinstance(node, yaml.ScalarNode):
            figures: dict[str, float | None] = (
                dict.fromkeys(FIGURES) if _is_none(node) else {"at_least": self.figure(node, where, "at_least")}
            )
            return (DeviceEntry(pattern="*", figures=figures, line=int(line_of(owner.start_mark))),)
        entries: list[DeviceEntry] = []
        for key, value in self.pairs(node, where, "from device patterns to figures"):
            if key.value in FIGURES:
                raise self.fail(key, f"{where}.{key.value}", 'of which device? For all of them write "*": {...} here')
            if not key.value:
                raise self.fail(key, where, 'an empty device pattern; examples: "H200*", "cuda:0", cpu, "*"')
            if any(entry.pattern.lower() == key.value.lower() for entry in entries):
                raise self.fail(key, f"{where}.{key.value}", "given twice (device names have no case)")
            line = int(line_of(key.start_mark))
            figures = dict(self.figures(value, f"{where}.{key.value}"))
            entries.append(DeviceEntry(pattern=key.value, figures=figures, line=line))
        if not entries:
            raise self.fail(node, where, "an empty mapping budgets nothing; give a figure, or none")
        return tuple(entries)

    def figures(self, node: yaml.Node, where: str) -> dict[str, float | None]:
        if isinstance(node, yaml.ScalarNode):
            return dict.fromkeys(FIGURES) if _is_none(node) else {"at_least": self.figure(node, where, "at_least")}
        found: dict[str, float | None] = {}
        for key, value in self.pairs(node, where, "with at_least, at_most"):
            if key.value not in FIGURES:
                raise self.fail(key, f"{where}.{key.value}", f"unknown key; known ones: {', '.join(FIGURES)}")
            here = f"{where}.{key.value}"
            is_exempt = isinstance(value, yaml.ScalarNode) and _is_none(value)
            found[key.value] = None if is_exempt else self.figure(value, here, key.value)
        if not found:
            raise self.fail(node, where, "an empty mapping budgets nothing; give at_least, at_most or both")
        low, high = found.get("at_least"), found.get("at_most")
        if low is not None and high is not None and low > high:
            raise self.fail(node, where, f"at_least={low:g} is above at_most={high:g}, so nothing can pass")
        return found

    def figure(self, node: yaml.Node, where: str, name: str) -> float:
        largest = FIGURES[name]
        if not isinstance(node, yaml.ScalarNode):
            raise self.fail(node, where, f"a number is needed here, not {_said(node)}")
        if node.tag == "tag:yaml.org,2002:str":
            said = f"a number in a string: {_said(node)}" if any(map(str.isdigit, node.value)) else _said(node)
            raise self.fail(node, where, f"{said}; write a plain number as 0.7, or {NONE}")
        if _DECIMAL.fullmatch(node.value) is None:
            raise self.fail(node, where, f"{_said(node)} is no plain number; write one as 0.7, or {NONE}")
        value = float(node.value)
        if not 0 < value <= largest:
            raise self.fail(
                node, where, f"{_said(node)} is no fraction of the ceiling; {name} is above 0 and up to {largest:g}"
            )
        return value

    def pairs(self, node: yaml.Node, where: str, what: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, where, f"a mapping {what} is needed here, not {_said(node)}")
        pairs: list[tuple[Any, yaml.Node]] = node.value
        return pairs


def _is_none(node: yaml.ScalarNode) -> bool:
    return bool(node.value == NONE and not node.style)


def _said(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    return "nothing" if node.tag == "tag:yaml.org,2002:null" and not node.value else one_line(repr(node.value), 60)
