"""Rows of text: CSV, the INSERT lines of an SQL script, tables of Markdown. Each cell stays a word."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.published.document import MOST_ROWS
from pytest_roofline.published.entry import Entry

_INSERT = re.compile(r"INSERT INTO\s+\w+\s*\((?P<names>[^()]*)\)\s*VALUES\s*\((?P<values>.*)\)\s*;?\s*", re.IGNORECASE)
_QUOTED = re.compile(r"\s*'((?:[^']|'')*)'\s*(,|$)")
_LONGEST_CELL = 100_000


def csv_entries(text: str, file: str, *, first_line: int = 1, delimiter: str = ",") -> list[Entry]:
    """Rows under one line of names. Raises RooflineUsageError for a row that is longer or shorter than that line.

    Where cells are not parted by commas, numbers may have one in place of a point.
    """
    rows = _csv_rows(text, file, first_line, delimiter)
    _, names = next(rows, (first_line, []))
    names = [name.strip() for name in names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RooflineUsageError(f"{file}, line {first_line}: column {one_line(twice, 40)!r} is there twice")
    has_commas = delimiter != ","
    return [_entry(names, row, f"{file}, line {line}", has_decimal_commas=has_commas) for line, row in rows]


def delimiter_of(text: str) -> str:
    """What parts the cells by the line of names: a comma, else a semicolon or a tab."""
    names = next((line for line in text.splitlines() if line.strip()), "")
    return next((mark for mark in (",", ";", "\t") if mark in names), ",")


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


def _entry(names: list[str], cells: list[str], where: str, *, has_decimal_commas: bool = False) -> Entry:
    if len(cells) != len(names):
        raise RooflineUsageError(f"{where}: {len(cells)} values for {len(names)} columns: cut off?")
    values = dict(zip(names, cells, strict=True))
    return Entry(where=where, values=values, is_text=True, has_decimal_commas=has_decimal_commas)
