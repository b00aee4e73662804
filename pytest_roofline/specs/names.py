"""What entries are called: one spelling of a name, which entries bear it, and what to say when that is not one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.document import Reader
from pytest_roofline.units import format_bytes, format_bytes_per_s

Entry = tuple[Reader, dict[str, Any]]
"""The raw data of one entry, and the reader that knows its file and that file's sources."""

_SEPARATORS = str.maketrans("", "", " \t_-")
_VENDOR = re.compile(r"^(?=\S)((nvidia|amd|intel|apple)[\s_]+)?(geforce[\s_]+)?")
_TRADEMARK = re.compile(r"\((?:r|tm)\)", re.IGNORECASE)
_WORD_EDGES = re.compile(r"[\s_-]+")
_MOST_CANDIDATES = 12
_LONGEST_NAME = 100


def squashed(text: str) -> str:
    """Text without case, spaces, underscores and hyphens, and without the signs of trademarks."""
    return _TRADEMARK.sub("", text).casefold().translate(_SEPARATORS)


def spelling(name: str) -> str:
    """One spelling of a name: ``RTX-4090``, ``rtx 4090`` and ``NVIDIA GeForce RTX 4090`` are the same."""
    plain = _TRADEMARK.sub("", name).strip().casefold()
    return squashed(_VENDOR.sub("", plain).removesuffix(" graphics"))


def bearers(entries: Sequence[Entry], name: str) -> list[Entry]:
    """The entries that a name means; several where it is not clear.

    Ids and aliases are for one entry each: two that claim the same one are both found, whoever wrote them. A full name
    or a driver's name may be that of several cards, and goes along with an id or alias of the same spelling, unless
    the id is written out (``rtx-4070`` is one card, ``RTX 4070`` two). Where nobody bears the name, an alias as on the
    hub (``org/name``) may be meant without its organisation.
    """
    wanted, written = spelling(name), name.strip().casefold()
    claims = [pair for pair in entries if any(wanted in _spellings(pair[1], key) for key in ("id", "aliases"))]
    if len(claims) > 1 or (claims and claims[0][1].get("id") == written):
        return claims
    every = [pair for pair in entries if any(wanted in _spellings(pair[1], key) for key in ("name", "device_names"))]
    found = [*claims, *(pair for pair in every if not any(pair is claim for claim in claims))]
    return found or [pair for pair in entries if wanted and wanted in _without_organisations(pair[1])]


def no_single_entry(kind: str, name: str, found: Sequence[Entry], everything: Sequence[Entry]) -> RooflineUsageError:
    """The error for a name that several entries bear, or none: the candidates, else the nearest names."""
    one, shown = kind.removesuffix("s"), f"{name!r:.{_LONGEST_NAME}}"
    begun = found or [pair for pair in everything if _begins(str(pair[1].get("id", "")), name)]
    if len(begun) > 1:
        words = "; ".join(_candidate(entry) for _, entry in begun[:_MOST_CANDIDATES])
        more = f"; and {len(begun) - _MOST_CANDIDATES} more" if len(begun) > _MOST_CANDIDATES else ""
        return RooflineUsageError(f"{shown} means several {kind}: {words}{more}; give one of these ids")
    spelled: dict[str, str] = {}
    for _, entry in everything:
        for key in ("id", "aliases", "name", "device_names"):
            for spelled_name in _spellings(entry, key):
                spelled.setdefault(spelled_name, str(entry.get("id")))
        for spelled_name in _without_organisations(entry):
            spelled.setdefault(spelled_name, str(entry.get("id")))
    import difflib  # 10 ms that only a mistake pays

    near = difflib.get_close_matches(spelling(name)[:_LONGEST_NAME], spelled, n=6, cutoff=0.5)
    ids = list(dict.fromkeys([*(str(entry.get("id")) for _, entry in begun), *(spelled[value] for value in near)]))
    nearest = f"; nearest: {', '.join(ids[:4])}" if ids else ""
    return RooflineUsageError(f"no {one} is called {shown}{nearest}; `roofline specs list` shows all of them")


def _spellings(entry: dict[str, Any], key: str) -> set[str]:
    value = entry.get(key)
    return {spelling(item) for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)}


def _without_organisations(entry: dict[str, Any]) -> set[str]:
    aliases = entry.get("aliases")
    words = [item for item in aliases if isinstance(item, str)] if isinstance(aliases, list) else []
    return {spelling(word.partition("/")[2]) for word in words if "/" in word}


def _begins(entry_id: str, name: str) -> bool:
    """Whether an id begins with the words of a name, its first word aside or not: h100-sxm with ``h100``, mi300x with
    ``mi300``, a100-80-pcie with ``A100 80GB``, rtx-4060-ti-16 with ``4060 Ti``."""
    words = [re.sub(r"^(\d+)gb$", r"\1", word) for word in _WORD_EDGES.split(_VENDOR.sub("", name.strip().casefold()))]
    parts = entry_id.split("-")
    return bool(words[0]) and any(_are_first(words, parts[start:]) for start in (0, 1))


def _are_first(words: Sequence[str], parts: Sequence[str]) -> bool:
    *whole, last = words
    if len(parts) < len(words) or list(parts[: len(whole)]) != whole:
        return False
    rest = parts[len(whole)].removeprefix(last)
    return parts[len(whole)].startswith(last) and not rest[:1].isdigit()


def _candidate(entry: dict[str, Any]) -> str:
    """An entry's id, and of a card what tells it from its namesakes."""
    figures = [
        form(float(figure["value"]))
        for key, form in (("memory_bytes", format_bytes), ("bandwidth_bytes_per_s", format_bytes_per_s))
        if isinstance(figure := entry.get(key), dict)
        and isinstance(figure.get("value"), (int, float))
        and abs(figure["value"]) < 1e30
    ]
    return f"{entry.get('id')} ({', '.join(figures)})" if figures else str(entry.get("id"))
