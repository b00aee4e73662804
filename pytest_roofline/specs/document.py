"""One spec file as plain data: strict, because a wrong roof accuses honest people.

A spec file is YAML, one mapping: ``schema: 1``, ``sources`` (short names of documents), and one or more of the lists
``devices``, ``models`` and ``formats``. An unknown key, a number without a source or in a string, a key given twice,
YAML anchors and tags are errors that name file and key. What no person writes (a megabyte, a hundred thousand values,
a mapping in a mapping thirty times over) is refused before it is built, so that a hostile file costs little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.plain_data import Genre, decoded, parsed, read_bytes

SCHEMA = 1
KINDS = ("devices", "models", "formats")
_GENRE = Genre(name="spec file", why_no_anchors="each number stands beside its own source", is_decimal=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One file being read, and its table of sources."""

    file: Path
    sources: dict[str, str]

    def fail(self, key: str, problem: str) -> RooflineUsageError:
        """The error that names file and key."""
        return RooflineUsageError(f"{self.file}: {key}: {problem}")

    def known(self, value: Any, key: str, keys: Iterable[str]) -> dict[str, Any]:
        """`value` as a mapping whose keys are all among `keys`."""
        if not isinstance(value, dict):
            raise self.fail(key, f"a mapping is needed here, not {kind_of(value)}")
        allowed = sorted(keys)
        for name in value:
            if name not in allowed:
                raise self.fail(f"{key}.{name}", f"unknown key; known ones: {', '.join(allowed)}")
        return value

    def text(self, value: Any, key: str) -> str:
        """`value` as a text that is not empty."""
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, f"a text is needed here, not {kind_of(value)}")
        return value

    def texts(self, value: Any, key: str, *, least: int = 0) -> tuple[str, ...]:
        """`value` as a list of texts, at least so many."""
        if not isinstance(value, list) or len(value) < least:
            wanted = "a list of texts" if least == 0 else "a list of at least one name"
            raise self.fail(key, f"{wanted} is needed here, not {kind_of(value)}")
        return tuple(self.text(item, key) for item in value)

    def flag(self, value: Any, key: str) -> bool:
        """`value` as true or false."""
        if not isinstance(value, bool):
            raise self.fail(key, f"true or false is needed here, not {kind_of(value)}")
        return value

    def source(self, value: Any, key: str) -> str:
        """The document that a short name stands for."""
        name = self.text(value, key)
        if name not in self.sources:
            raise self.fail(key, f"{name!r} is not in the sources of this file")
        return self.sources[name]

    def number(self, value: Any, key: str) -> tuple[float, str]:
        """A positive figure and its source in words."""
        if not isinstance(value, dict):
            raise self.fail(
                key, f"write {{value: NUMBER, source: NAME}}, not {kind_of(value)}: every number has a source"
            )
        entry = self.known(value, key, ("value", "source"))
        figure = entry.get("value")
        if isinstance(figure, str):
            raise self.fail(
                f"{key}.value", f"a number in a string: {figure!r} (YAML needs 1.5e+12 or 1_500_000_000_000)"
            )
        if isinstance(figure, bool) or not isinstance(figure, (int, float)):
            raise self.fail(f"{key}.value", f"a number is needed here, not {kind_of(figure)}")
        if not 0 < figure < math.inf or figure > 1e300:
            raise self.fail(f"{key}.value", f"{figure!r:.60} is not a positive, finite number")
        if "source" not in entry:
            raise self.fail(f"{key}.source", "missing: every number has a source")
        return float(figure), self.source(entry["source"], f"{key}.source")


def read_document(file: Path, text: str | None = None) -> tuple[Reader, dict[str, list[Any]]]:
    """The lists of one file, each entry as raw data, and the reader that knows the file's sources.

    `text` is the file's text where somebody has read it already, or a part of it that is a document by itself.
    """
    reader = Reader(file=file, sources={})
    document = reader.known(
        _parse(file, read_text(file) if text is None else text), "file", {"schema", "sources", *KINDS}
    )
    for name in ("schema", "sources"):
        if name not in document:
            raise reader.fail(name, "missing")
    if document["schema"] != SCHEMA or isinstance(document["schema"], bool):
        raise reader.fail("schema", f"{document['schema']!r} is not known; this version reads {SCHEMA}")
    raw_sources = document["sources"]
    if not isinstance(raw_sources, dict) or not raw_sources:
        raise reader.fail(
            "sources", f"a mapping of short names to documents is needed here, not {kind_of(raw_sources)}"
        )
    for name, words in raw_sources.items():
        reader.sources[reader.text(name, "sources")] = reader.text(words, f"sources.{name}")
    lists = {kind: document[kind] for kind in KINDS if kind in document}
    if not lists:
        raise reader.fail(" or ".join(KINDS), "missing: a spec file holds at least one of these lists")
    for kind, entries in lists.items():
        if not isinstance(entries, list) or not entries:
            raise reader.fail(kind, f"a list of {kind} is needed here, not {kind_of(entries)}")
    return reader, lists


def kind_of(value: Any) -> str:
    """What somebody wrote instead, in a few words."""
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.60}"


def read_text(file: Path) -> str:
    """The text of one spec file. A folder, a device, a file of over a megabyte or one that is not UTF-8 is an error."""
    return decoded(file, read_bytes(file, _GENRE))


def _parse(file: Path, text: str) -> Any:
    """One YAML document of plain mappings, lists and scalars; no anchors, no tags, no key twice."""
    return parsed(file, text, _GENRE, lambda node, loader: loader.construct_document(node))
