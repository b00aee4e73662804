"""How a file of text writes its numbers: with a decimal point or with a decimal comma, and in one way throughout.

``1.024`` is a thousand in one country and about one in another, and no cell says for itself which is meant. What does
are the others: ``150,5`` has a decimal comma. Where they disagree, or none of them says, a number that may be a
thousand is refused: nobody guesses a factor of a thousand. Separators of thousands are refused with the number as it
has to be written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_roofline.errors import one_line
from pytest_roofline.published.entry import Entry

Form = Literal["point", "comma", "point or thousand", "comma or thousand", "thousands"]
_POINT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# A leading zero has nobody's thousands behind it.
_MAYBE_THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2}(?P<mark>[.,])\d{3}", re.ASCII)
_THOUSANDS = (
    re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d*", re.ASCII),
    re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d*", re.ASCII),
    re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3}){2,}", re.ASCII),
    re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3}){2,}", re.ASCII),
    re.compile("[+-]?\\d{1,3}(?:[ '\u00a0\u2009\u2019\u202f]\\d{3})+(?:[.,]\\d*)?", re.ASCII),
)
_MARKS = {"point": ".", "comma": ","}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """A number as it is written, and where."""

    row: Entry
    column: str
    text: str
    form: Form

    @property
    def place(self) -> str:
        """``'150,5' (line 2)``."""
        return f"{one_line(repr(self.text), 40)} ({self.row.where.rpartition(', ')[2]})"


def with_points(
    rows: Sequence[Entry], columns: Collection[str], whole: Collection[str], *, is_point: bool
) -> list[Entry]:
    """The same rows with the numbers of these columns written with decimal points.

    `whole`: those of the columns that count something, where a fraction is rare. `is_point`: a number that may be a
    thousand is a fraction where no number of the file says otherwise, as where commas part the cells. Raises
    RooflineUsageError, with row and column, for separators of thousands, for a second way of writing, and for whatever
    may be a thousand or a fraction. What is no number stays as it is.
    """
    cells = [
        _Cell(row=row, column=column, text=text, form=form)
        for row in rows
        for column in columns
        if isinstance(value := row.values.get(column), str) and (form := _form(text := value.strip())) is not None
    ]
    for cell in cells:
        if cell.form == "thousands":
            raise _refused(cell, f"thousands separators are not read: write {_joined(cell.text)}")
    point = next((cell for cell in cells if cell.form == "point"), None)
    comma = next((cell for cell in cells if cell.form == "comma"), None)
    if point is not None and comma is not None:
        later, other = (point, comma) if cells.index(point) > cells.index(comma) else (comma, point)
        raise _refused(
            later,
            f"a decimal {later.form}, and {other.place} has a decimal {other.form}: write all numbers of the file in "
            "one way",
        )
    _refuse_unsure(cells, point or comma, whole, is_point=is_point)
    return [
        replace(row, values={key: _pointed(value) if key in columns else value for key, value in row.values.items()})
        for row in rows
    ]


def _refuse_unsure(cells: Sequence[_Cell], sure: _Cell | None, whole: Collection[str], *, is_point: bool) -> None:
    """Raises RooflineUsageError for the first number that may be a thousand; `sure`: one whose mark is no doubt."""
    fractional = {cell.column for cell in cells if cell.form in _MARKS}
    for cell in cells:
        mark = cell.form.removesuffix(" or thousand")
        if mark == cell.form:
            continue
        decimal = sure.form if sure is not None else "point" if is_point else None
        if decimal == mark and (cell.column not in whole or cell.column in fractional):
            continue
        digits = re.sub("[.,]", "", cell.text)
        fraction = re.sub("[.,]", _MARKS[decimal or mark], cell.text) + "0"
        why = "" if sure is None else f" {sure.place} has a decimal {sure.form}:"
        raise _refused(cell, f"a thousand or a fraction?{why} write {digits} or {fraction}")


def _refused(cell: _Cell, problem: str) -> Exception:
    return cell.row.fail(cell.column, f"{one_line(repr(cell.text), 40)}: {problem}")


def _form(text: str) -> Form | None:
    """What the number says of the decimal mark; None for whole numbers, and for what is no number."""
    if any(pattern.fullmatch(text) for pattern in _THOUSANDS):
        return "thousands"
    unsure = _MAYBE_THOUSAND.fullmatch(text)
    if unsure is not None:
        return "point or thousand" if unsure["mark"] == "." else "comma or thousand"
    return "point" if _POINT.fullmatch(text) else "comma" if _COMMA.fullmatch(text) else None


def _joined(text: str) -> str:
    """A number without separators of thousands: what stands once at the end and is another mark is the decimal one."""
    marks = re.findall(r"[^\d+-]", text, re.ASCII)
    decimal = marks[-1] if marks[-1] in ".," and marks.count(marks[-1]) == 1 else ""
    head, _, tail = text.rpartition(decimal) if decimal else (text, "", "")
    return re.sub(r"[^\d+-]", "", head) + (decimal + tail if decimal else "")


def _pointed(value: object) -> object:
    """A number with a decimal comma as one with a point; anything else as it is."""
    return value.strip().replace(",", ".") if isinstance(value, str) and _COMMA.fullmatch(value.strip()) else value
