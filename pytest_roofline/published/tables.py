"""Rows of text: CSV, the INSERT lines of an SQL script, tables of Markdown. Each cell stays a word."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from itertools import islice

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.published.document import MOST_ROWS
from pytest_roofline.published.entry import Entry

_INSERT = re.compile(r"INSERT INTO\s+\w+\s*\((?P<names>[^()]*)\)\s*VALUES\s*\((?P<values>.*)\)\s*;?\s*", re.IGNORECASE)
_QUOTED = re.compile(r"\s*'((?:[^']|'')*)'\s*(,|$)")
_LONGEST_CELL = 100_000
_DELIMITERS = (",", ";", "\t")
_LINES_THAT_TELL = 50


def csv_entries(text: str, file: str, *, first_line: int = 1, delimiter: str = ",") -> list[Entry]:
    """Rows under one line of names. Raises RooflineUsageError for a row that is longer or shorter than that line."""
    rows = _csv_rows(text, file, first_line, delimiter)
    _, names = next(rows, (first_line, []))
    names = [name.strip() for name in names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RooflineUsageError(f"{file}, line {first_line}: column {one_line(twice, 40)!r} is there twice")
    return [_entry(names, row, f"{file}, line {line}") for line, row in rows]


def delimiter_of(text: str, columns: Collection[str] = ()) -> str:
    """What parts the cells: the mark by which the line of names has these columns, by which the lines after it have
    as many cells, by which there are most of them. A comma may be a part of a name or of a number."""
    lines = list(islice((line for line in text.splitlines() if line.strip()), _LINES_THAT_TELL))
    if not lines:
        return ","

    def evidence(mark: str) -> tuple[bool, bool, int, int, bool]:
        names, *rows = (_cells(line, mark) for line in lines)
        has_several = len(names) > 1
        alike = sum(len(row) == len(names) for row in rows)
        return set(columns) <= set(names), has_several, alike, len(names), (mark != ",") == has_several

    return max(_DELIMITERS, key=evidence)


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of one line; what cannot be parted is one cell."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return [line]


def _csv_rows(text: str, file: str, first_line: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(), strict=True, delimiter=delimiter)
    count = 0
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            count += 1
            if count > MOST_ROWS:
                raise RooflineUsageError(f"{file}: more than {MOST_ROWS:,} rows are not read")
            yield first_line + reader.line_num - 1, row
    except csv.Error as error:
        raise RooflineUsageError(f"{file}, line {first_line + reader.line_num - 1}: {error}") from None


def sql_entries(text: str, file: str) -> list[Entry]:
    """One row for each ``INSERT INTO name (columns) VALUES ('...', ...);`` on a line of its own."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().upper().startswith("INSERT"):
            continue
        where = f"{file}, line {number}"
        statement = _INSERT.fullmatch(line.strip()) if len(line) <= _LONGEST_CELL else None
        if statement is None:
            raise RooflineUsageError(f"{where}: is no whole INSERT with columns and values")
        names = [name.strip() for name in statement["names"].split(",")]
        found.append(_entry(names, _quoted(statement["values"], where), where))
        if len(found) > MOST_ROWS:
            raise RooflineUsageError(f"{file}: more than {MOST_ROWS:,} rows are not read")
    return found


def _quoted(text: str, where: str) -> list[str]:
    cells: list[str] = []
    place = 0
    while place < len(text):
        found = _QUOTED.match(text, place)
        if found is None:
            raise RooflineUsageError(f"{where}: value {len(cells) + 1} is no word in single quotes")
        cells.append(found[1].replace("''", "'"))
        place = found.end()
    return cells


def markdown_entries(text: str, file: str) -> list[Entry]:
    """Rows of all tables: a line of names, one of dashes, then rows."""
    found: list[Entry] = []
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip().startswith("|"):
            names = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not names:
            names = cells
        elif not all(set(cell) <= set(":- ") for cell in cells):
            found.append(_entry(names, cells, f"{file}, line {number}"))
        if len(found) > MOST_ROWS:
            raise RooflineUsageError(f"{file}: more than {MOST_ROWS:,} rows are not read")
    return found


def _entry(names: list[str], cells: list[str], where: str) -> Entry:
    if len(cells) != len(names):
        raise RooflineUsageError(f"{where}: {len(cells)} values for {len(names)} columns: cut off?")
    return Entry(where=where, values=dict(zip(names, cells, strict=True)), is_text=True)
