"""One entry out of a spec file without parsing the others: most of a look-up's time would go there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.document import KINDS, Reader, read_document, read_text
from pytest_roofline.specs.names import Entry, spelling, squashed

_SECTION_START = re.compile(r"^(?=[^\s#-])", re.MULTILINE)
_VALUE_EDGES = re.compile(r"[\[\]{}\"',:#\n]+")


def all_entries(file: Path, kind: str) -> Iterator[Entry]:
    """Every entry of a kind in one file."""
    reader, lists = read_document(file)
    for position, entry in enumerate(lists.get(kind, [])):
        yield reader, _mapping(reader, kind, entry, position)


def entries_with(file: Path, kind: str, name: str) -> Iterator[Entry]:
    """The entries of one file that hold `name` as a value, in any of its spellings; only they are parsed.

    A value that is written with escapes is not seen here. Raises RooflineUsageError for a fault in what is parsed.
    """
    wanted, text = spelling(name), read_text(file)
    if not wanted or wanted not in squashed(text):
        return
    head, blocks = _split(text, kind)
    held = [block for block in blocks if wanted in squashed(block) and _holds(block, wanted)]
    if not held:
        return
    try:
        reader, lists = read_document(file, f"{head}\n{kind}:\n{''.join(held)}")
    except RooflineUsageError:
        # The whole file tells the fault with its true line, or it is sound and only its style is another.
        yield from all_entries(file, kind)
        return
    for position, entry in enumerate(lists[kind]):
        yield reader, _mapping(reader, kind, entry, position)


def _holds(block: str, wanted: str) -> bool:
    values = _VALUE_EDGES.split(block)
    return any(wanted in (spelling(value), spelling(value.partition("/")[2])) for value in values)


def _split(text: str, kind: str) -> tuple[str, list[str]]:
    """The text of a file without its lists, and the text of each entry of one list.

    An entry of a list in block style starts at the indentation of the first one. What else starts there, or is
    written in another style, is no document by itself.
    """
    head: list[str] = []
    blocks: list[str] = []
    for section in _SECTION_START.split(text):
        key, _, rest = section.partition(":")
        if key not in KINDS:
            head.append(section)
        elif key == kind:
            first = re.search(r"^ *-(?= )", rest, re.MULTILINE)
            blocks.extend([rest] if first is None else re.split(rf"^(?={first[0]} )", rest, flags=re.MULTILINE)[1:])
    return "".join(head), blocks


def _mapping(reader: Reader, kind: str, entry: Any, position: int) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise reader.fail(f"{kind}[{position}]", f"a mapping is needed here, not {type(entry).__name__}")
    return entry
