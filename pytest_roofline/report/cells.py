"""Text on a terminal: what is printed of a stranger's name, how many cells it takes, and how it is made to fit.

A character of a Chinese name takes two cells and a combining mark none, so nothing here counts characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

from pytest_roofline.errors import one_line

GAP = "..."
_HEAD_SHARE = 0.4
"""Of a shortened name more of its end is kept: parameters stand there, and tell the tests of a family apart."""
_LONGEST_ESCAPE = 10  # \U0010ffff
_MOST_PER_CELL = 4
"""Characters of a name that are looked at for each cell it may take; a thousand marks on one letter are a joke."""


def printable(text: str) -> str:
    """The whole text on one line, with everything that moves a cursor or forges a line written as an escape."""
    return one_line(text, _LONGEST_ESCAPE * len(text))


def prose(text: str) -> str:
    """The same of a text of several lines: they become one."""
    return " ".join(map(printable, text.split()))


def width_of(text: str) -> int:
    """How many cells a printable text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int, *, is_right: bool = False) -> str:
    """The text with spaces up to `width` cells; longer ones stay as they are."""
    spaces = " " * max(0, width - width_of(text))
    return f"{spaces}{text}" if is_right else f"{text}{spaces}"


def shortened(text: str, width: int, head_share: float = _HEAD_SHARE) -> str:
    """A printable text in at most `width` cells: where it has to be cut, its middle goes."""
    if _fits(text, width):
        return text
    if width <= len(GAP):
        return GAP[: max(0, width)]
    room = width - len(GAP)
    head = round(room * head_share)
    return f"{_begin(text, head)}{GAP}{_end(text, room - head)}"


def told_apart(names: Sequence[str], width: int) -> dict[str, str]:
    """Each of the names in at most `width` cells, no two of them alike as far as that many cells allow.

    Names that look the same without their middle are cut at another place; where no place tells all of them apart,
    they are numbered.
    """
    wanted = list(dict.fromkeys(names))
    short = {name: shortened(name, width) for name in wanted}
    for alike in _groups(short):
        for cut in _other_cuts(alike, width):
            others = {text for name, text in short.items() if name not in cut}
            if len(set(cut.values())) == len(cut) and others.isdisjoint(cut.values()):
                short.update(cut)
                break
        else:
            taken = {text for name, text in short.items() if name not in alike}
            numbers = count(1)
            for name in alike:
                while (numbered := _numbered(name, next(numbers), width)) in taken:
                    pass
                short[name] = numbered
    return short


def wrapped(text: str, width: int, *, first: str = "", rest: str = "") -> Iterator[str]:
    """Lines of at most `width` cells, broken at spaces; a word that is longer than a line is broken where it ends."""
    line, has_words = first, False
    for word in text.split():
        if has_words and not _fits(f"{line} {word}", width):
            yield line
            line, has_words = rest, False
        piece = word
        while piece and not has_words and not _fits(f"{line}{piece}", width):
            begin = _begin(piece, max(2, width - width_of(line)))
            yield f"{line}{begin}"
            line, piece = rest, piece[len(begin) :]
        if piece:
            line, has_words = f"{line}{' ' if has_words else ''}{piece}", True
    if has_words:
        yield line


def _fits(text: str, width: int) -> bool:
    """Within so many cells, and not made of marks that take none."""
    return len(text) <= _MOST_PER_CELL * width and width_of(text) <= width


def _numbered(name: str, number: int, width: int) -> str:
    mark = f"#{number}"
    return f"{shortened(name, width - len(mark))}{mark}"


def _groups(short: dict[str, str]) -> list[list[str]]:
    """Names that were shortened to the same text."""
    counts = Counter(short.values())
    groups: dict[str, list[str]] = {}
    for name, text in short.items():
        if counts[text] > 1:
            groups.setdefault(text, []).append(name)
    return list(groups.values())


def _other_cuts(names: Sequence[str], width: int) -> Iterator[dict[str, str]]:
    """The names cut at every other place, those near the usual one first."""
    room = max(1, width - len(GAP))
    for head in sorted(range(room + 1), key=lambda head: abs(head - _HEAD_SHARE * room)):
        yield {name: shortened(name, width, head / room) for name in names}


def _begin(text: str, width: int) -> str:
    """As much of the beginning as `width` cells hold; marks stay with their letter."""
    if text.isascii():
        return text[: max(0, width)]
    end = cells = 0
    for character in text[: _MOST_PER_CELL * max(0, width)]:
        cells += width_of(character)
        if cells > width:
            break
        end += 1
    while width_of(text[:end]) > width:  # a mark may also widen what it follows
        end -= 1
    return text[:end]


def _end(text: str, width: int) -> str:
    """As much of the end as `width` cells hold, from a letter on: a mark without its letter would sit on another."""
    if text.isascii():
        return text[max(0, len(text) - max(0, width)) :]
    start, cells = len(text), 0
    for character in reversed(text[-_MOST_PER_CELL * max(1, width) :]):
        cells += width_of(character)
        if cells > width:
            break
        start -= 1
    while start < len(text) and (width_of(text[start]) == 0 or width_of(text[start:]) > width):
        start += 1
    return text[start:]
