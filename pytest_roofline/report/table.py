"""The table of a run: which columns a terminal has room for, and its rows as lines of coloured words.

The names of tests get what the figures leave over. While that is too little, columns are left out, the least important
one first, in this order: the interval, the ceiling, the device where all rows have the same one (the header names it),
what bounds a pass, its bytes, its time, the device, and the tokens per second. Test, fraction and verdict always stay.
The interval and the ceiling are shown only where no name has to be shortened for them. A figure is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from pytest_roofline.report.cells import padded, shortened, told_apart, width_of

Span = tuple[str, str]
"""A text and its colour; an empty one for none."""
Line = tuple[Span, ...]
HEADINGS = ("test", "device", "step", "tok/s", "ceiling", "B/step", "fraction", "interval", "bound", "verdict")
COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "bogus": "red",
        "bogus (caught)": "yellow",
        "failed": "red",
        "inconclusive": "yellow",
        "passed": "green",
    }
)
"""By the word of a verdict."""
_WORDS = ("test", "device", "bound", "verdict")
_DROPPED = ("interval", "ceiling", "same device", "bound", "B/step", "step", "device", "tok/s")
_LUXURIES = 2
"""So many of those dropped first are shown only where no name is shortened for them."""
_ENOUGH = 20
"""Cells in which most names can be told apart."""
_TOO_FEW = 8
"""With fewer than so many a name is worth a line of its own."""
_BETWEEN = 2

Row = Mapping[str, str]
"""A cell by heading; one that is missing stays empty."""


def text_line(text: str, colour: str = "") -> Line:
    """A line of one colour."""
    return ((text, colour),)


def table_lines(rows: Sequence[Row], width: int) -> Iterator[Line]:
    """A heading and the rows in at most `width` cells, unless test, fraction and verdict alone need more."""
    widths = {heading: max(width_of(row.get(heading, "")) for row in (_heading(), *rows)) for heading in HEADINGS}
    shown = _shown(rows, widths, width)
    room = min(widths["test"], _room(shown, widths, width))
    has_own_line = room < min(widths["test"], _TOO_FEW)
    room = max(len("test"), room)
    short = {} if has_own_line else told_apart([row["test"] for row in rows], room)
    for row in (_heading(), *rows):
        name = row["test"]
        if width_of(name) > room and has_own_line:
            yield text_line(shortened(name, width))
            name = ""
        yield _line({**row, "test": short.get(name, name)}, shown, {**widths, "test": room})


def _heading() -> Row:
    return {heading: heading for heading in HEADINGS}


def _shown(rows: Sequence[Row], widths: Mapping[str, int], width: int) -> list[str]:
    """The columns that there is room for, in their order."""
    empty = [heading for heading in _DROPPED[:_LUXURIES] if all(row.get(heading, "-") == "-" for row in rows)]
    shown = [heading for heading in HEADINGS if heading not in empty]
    for number, dropped in enumerate(_DROPPED):
        enough = widths["test"] if number < _LUXURIES else min(widths["test"], max(_ENOUGH, width // 4))
        if _room(shown, widths, width) >= enough:
            break
        if dropped == "same device":
            if len({row["device"] for row in rows if row.get("device")}) > 1:
                continue
            dropped = "device"
        shown = [heading for heading in shown if heading != dropped]
    return shown


def _room(shown: Sequence[str], widths: Mapping[str, int], width: int) -> int:
    return width - sum(widths[heading] + _BETWEEN for heading in shown if heading != "test")


def _line(row: Row, shown: Sequence[str], widths: Mapping[str, int]) -> Line:
    """Words are left-aligned, figures right-aligned; the word of a verdict has its colour."""
    cells = [padded(row.get(name, ""), widths[name], is_right=name not in _WORDS) for name in shown]
    text = (" " * _BETWEEN).join(cells).rstrip()
    word = row.get("verdict", "").partition(" (allowed")[0]
    colour = next((COLOURS[known] for known in sorted(COLOURS, key=len, reverse=True) if word.startswith(known)), "")
    if not colour:
        return text_line(text)
    return (text.removesuffix(row["verdict"]), ""), (row["verdict"], colour)
