"""Figures put into the text of a budgets file: only the characters that have to change do.

A figure that stands there is replaced in its place, a new one gets a line (or a place in its braces) beside its
neighbours; comments, order, quotes and line ends stay. What comes out is read again, and where anything but the
intended figures differs the edit is refused, so the worst that an unforeseen way of writing YAML can do is to leave the
file as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import yaml

from pytest_roofline.budgets.document import NONE, BudgetsFile, budgets_in, node_of
from pytest_roofline.errors import RooflineUsageError, one_line

LONGEST_KEY = 1000
"""Characters of a key, as it is written. YAML takes 1,024 on a line."""
STEP = "  "
# YAML counts them as ends of lines.
_ODD_LINE_END = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


class EditRefused(RooflineUsageError):
    """The text cannot be changed so that exactly the intended figures differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """New figures for one test on one device, by "at_least" and "at_most"; `device` as its key in the file is."""

    test_id: str
    device: str
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A new pair of a mapping: on one line in braces, or as lines of its own."""

    flow: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Patch:
    """`text` in place of the characters from `start` to before `end`."""

    start: int
    end: int
    text: str


def edited(raw: str, edits: Sequence[Edit], name: str) -> str:
    """`raw` with these figures in it; it may have the line ends of Windows. EditRefused where that cannot be done."""
    before = budgets_in(_unix(raw), name)
    if _ODD_LINE_END.search(raw):
        raise EditRefused(f"{name}: cannot be changed safely: it has line ends of an odd kind: write \\n or \\r\\n")
    patches = _Surface(raw, name).patches(edits)
    made, at = "", 0
    for patch in sorted(patches, key=lambda patch: patch.start):
        made += raw[at : patch.start] + patch.text
        at = patch.end
    made += raw[at:]
    _check(before, made, edits, name)
    return made


def quoted(key: str) -> str:
    """A key in double quotes; EditRefused for one that YAML cannot hold on a line."""
    escaped = "".join(map(_escaped, key))
    if len(escaped) > LONGEST_KEY:
        raise EditRefused(f"a name of {len(escaped):,} characters; YAML takes {LONGEST_KEY:,} on a line")
    return f'"{escaped}"'


def shown(figure: float) -> str:
    """A figure as it is written: a plain decimal."""
    return f"{figure:.9f}".rstrip("0").rstrip(".")


class _Surface:
    """The text, and where in it things stand."""

    def __init__(self, raw: str, name: str) -> None:
        self.raw = raw
        self.top = node_of(_unix(raw), name)
        self.lines = raw.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        self.end_of_line = "\r\n" if self.lines[0].endswith("\r") else "\n"

    def patches(self, edits: Sequence[Edit]) -> Iterator[_Patch]:
        """What has to change; what is inserted at one place comes in the order in which it has to stand there."""
        by_test = {
            test_id: list(group)
            for test_id, group in groupby(sorted(edits, key=lambda edit: edit.test_id), lambda edit: edit.test_id)
        }
        tests = _value(self.top, "tests")
        entries = {test_id: _value(tests, test_id) for test_id in by_test}
        for test_id, entry in entries.items():
            if entry is not None:
                yield from self._entry(entry, by_test[test_id])
        new = [_test_pair(group) for test_id, group in by_test.items() if entries[test_id] is None]
        if not new:
            return
        if isinstance(tests, yaml.MappingNode):
            yield from self._added(tests, new)
            return
        flow = "tests: {" + ", ".join(pair.flow for pair in new) + "}"
        lines = ("tests:", *(STEP + line for pair in new for line in pair.lines))
        if tests is None:
            yield from self._added(self.top, [_Pair(flow, lines)])
        elif self.top.flow_style:
            yield _Patch(self._at(tests.start_mark), self._at(tests.end_mark), flow.removeprefix("tests:"))
        else:  # nothing behind "tests:", or a word for it
            yield _Patch(self._at(tests.start_mark), self._at(tests.end_mark), "")
            yield self._below(tests.start_mark.line, lines[1:])

    def _entry(self, entry: yaml.Node, edits: Sequence[Edit]) -> Iterator[_Patch]:
        """What changes in a test's entry that is there."""
        if isinstance(entry, yaml.ScalarNode):  # one figure for every device
            pairs = [f'"*": {entry.value}', *(_device_pair(edit).flow for edit in edits)]
            yield _Patch(self._at(entry.start_mark), self._at(entry.end_mark), "{" + ", ".join(pairs) + "}")
            return
        new = []
        for edit in edits:
            figures = _value(entry, edit.device)
            if figures is None:
                new.append(_device_pair(edit))
            else:
                yield from self._figures(figures, edit)
        if new:
            yield from self._added(entry, new)

    def _figures(self, node: yaml.Node, edit: Edit) -> Iterator[_Patch]:
        """What changes in the figures of one device."""
        if isinstance(node, yaml.ScalarNode):
            stays = {} if node.value == NONE else {"at_least": float(node.value)}
            yield _Patch(self._at(node.start_mark), self._at(node.end_mark), _flow({**stays, **edit.figures}))
            return
        there = {key.value: value for key, value in node.value}
        for figure, value in edit.figures.items():
            if figure in there:
                at = there[figure]
                yield _Patch(self._at(at.start_mark), self._at(at.end_mark), shown(value))
        pairs = [f"{figure}: {shown(value)}" for figure, value in edit.figures.items() if figure not in there]
        if pairs:
            yield from self._added(node, [_Pair(pair, (pair,)) for pair in pairs])

    def _added(self, mapping: Any, pairs: Sequence[_Pair]) -> Iterator[_Patch]:
        """New pairs: behind the opening brace, or below the last line of the mapping."""
        if mapping.flow_style:
            at = self._at(mapping.start_mark) + 1
            text = ", ".join(pair.flow for pair in pairs)
            yield _Patch(at, at, text + (", " if mapping.value else ""))
            return
        indent = " " * mapping.value[0][0].start_mark.column
        yield self._below(_last_line(mapping), [indent + line for pair in pairs for line in pair.lines])

    def _below(self, line: int, new: Iterable[str]) -> _Patch:
        at = self.starts[line] + len(self.lines[line].removesuffix("\r"))
        return _Patch(at, at, "".join(self.end_of_line + text for text in new))

    def _at(self, mark: yaml.Mark) -> int:
        return self.starts[mark.line] + mark.column


def _test_pair(edits: Sequence[Edit]) -> _Pair:
    key, devices = quoted(edits[0].test_id), [_device_pair(edit).flow for edit in edits]
    return _Pair(f"{key}: {{{', '.join(devices)}}}", (f"{key}:", *(STEP + device for device in devices)))


def _device_pair(edit: Edit) -> _Pair:
    pair = f"{quoted(edit.device)}: {_flow(edit.figures)}"
    return _Pair(pair, (pair,))


def _flow(figures: Mapping[str, float]) -> str:
    """The figures of one device: a number where it is at_least alone."""
    if set(figures) == {"at_least"}:
        return shown(figures["at_least"])
    return "{" + ", ".join(f"{name}: {shown(figure)}" for name, figure in sorted(figures.items())) + "}"


def _value(mapping: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(mapping, yaml.MappingNode):
        return None
    return next((value for name, value in mapping.value if name.value == key), None)


def _last_line(node: yaml.Node) -> int:
    """The last line that holds something of a node; a block's own end mark lies where the next thing begins."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        return max(_last_line(part) for part in node.value[-1])
    line: int = node.end_mark.line
    return line


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise EditRefused(f"a name with half of a character ({code:#x}) cannot be written in YAML")
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unix(raw: str) -> str:
    return raw.replace("\r\n", "\n")


def _check(before: BudgetsFile, made: str, edits: Iterable[Edit], name: str) -> None:
    """Read what was made: these figures and no others differ."""
    wanted = before.flat()
    for edit in edits:
        wanted.update({(edit.test_id, edit.device, figure): value for figure, value in edit.figures.items()})
    try:
        found = budgets_in(_unix(made), name).flat()
    except RooflineUsageError as error:
        raise EditRefused(f"{name}: cannot be changed safely: {error}") from error
    odd = [key for key in {**wanted, **found} if found.get(key, "nothing") != wanted.get(key, "nothing")]
    if odd:
        where = ".".join(one_line(part) for part in odd[0] if part)
        would, should = found.get(odd[0], "nothing"), wanted.get(odd[0], "nothing")
        raise EditRefused(f"{name}: cannot be changed safely: {where} would be {would} instead of {should}")
