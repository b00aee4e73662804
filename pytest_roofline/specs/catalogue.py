"""The catalogue: what there is in all spec files, and one entry of it by what people call it.

`Catalogue.raw` serves devices, models and formats alike: it parses the one entry that bears a name, strictly, together
with its file's sources. What only all files together can tell (an id given twice, two cards under one name) is said by
`devices` and `check`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.devices import Claims, read_device
from pytest_roofline.specs.document import KINDS, Reader
from pytest_roofline.specs.excerpts import all_entries, entries_with
from pytest_roofline.specs.folders import announced_folders, spec_files, specs_folder
from pytest_roofline.specs.names import Entry, bearers, no_single_entry, spelling
from pytest_roofline.specs.slices import slice_of, split_slice_name

EntryReader = Callable[[Reader, Any, int], object]
"""Reads one raw entry: the reader, the entry, its position in its list. Raises RooflineUsageError."""


class Catalogue:
    """Every spec file there is: the package's own, those of `paths`, those of packages that announce themselves.

    A path is a YAML file, or a folder: its own files and those of its subfolder ``devices``, ``models`` or
    ``formats``. With `builtin` false only `paths` are read. Files are read when they are needed, and nothing is kept.
    """

    def __init__(self, paths: Iterable[str | Path] = (), builtin: bool = True) -> None:
        paths = list(paths)
        if not all(map(os.fspath, paths)):
            raise RooflineUsageError("an empty path of specs: a spec file or a folder is needed")
        self._paths = tuple(map(Path, paths))
        self._builtin = builtin

    def device(self, name: str) -> Spec:
        """One card by its id, an alias, its full name or its driver's name; case, spaces and hyphens do not matter.

        ``NAME MIG 1g.10gb`` is a slice of it: memory, bandwidth and cache by its share of memory, peaks by its share
        of compute. Raises RooflineUsageError: with the nearest names for an unknown one, with the candidates, their
        memory and their rate for a name that means several cards.
        """
        card, profile = split_slice_name(name)
        if profile is not None:
            return slice_of(self.device(card), profile)
        reader, entry = self.raw("devices", name)
        return read_device(reader, entry, 0)

    def raw(self, kind: str, name: str) -> Entry:
        """One entry of a kind as raw data, and its reader, by id, else by alias, else by full name (of a card: or its
        driver's). Errors as in `device`."""
        found = self._find(self._own_files(kind), kind, name)
        if not found:
            found = self._find(self._announced_files(kind), kind, name)
        if len(found) == 1:
            return found[0]
        everything = list(self.entries(kind))
        # A name that is written with escapes shows only when everything is read.
        found = found or bearers(everything, name)
        if len(found) == 1:
            return found[0]
        raise no_single_entry(kind, name, found, everything)

    def entries(self, kind: str) -> Iterator[Entry]:
        """Every entry of a kind as raw data, in the order of the files."""
        for file in self._files(kind):
            yield from all_entries(file, kind)

    def ids(self, kind: str) -> list[str]:
        """The ids of a kind, in the order of the files."""
        return [reader.text(entry.get("id"), f"{kind}.id") for reader, entry in self.entries(kind)]

    def devices(self) -> tuple[Spec, ...]:
        """Every card, checked against all others. Raises RooflineUsageError for the first fault."""
        specs: list[Spec] = []
        claims = Claims()
        for position, (reader, entry) in enumerate(self.entries("devices")):
            specs.append(read_device(reader, entry, position))
            claims.add(reader.file, specs[-1])
        return tuple(specs)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """One line per entry, for a list: id and name, of a card also its memory, its rate and the rate's source."""
        if kind != "devices":
            return [
                {
                    "id": reader.text(entry.get("id"), f"{kind}.id"),
                    "name": reader.text(entry.get("name", entry.get("id")), f"{kind}.{entry.get('id')}.name"),
                }
                for reader, entry in self.entries(kind)
            ]
        return [
            {
                "id": spec.id,
                "name": spec.name,
                "memory_bytes": spec.memory_bytes,
                "bandwidth_bytes_per_s": spec.bandwidth_bytes_per_s,
                "source": spec.source,
            }
            for spec in self.devices()
        ]

    def describe(self, kind: str, name: str) -> dict[str, Any]:
        """All that one entry says: its words by key, and under `figures` each number by its key (``a.b`` inside
        ``a``) with its source in words. Builtin types only."""
        if kind == "devices":
            card, profile = split_slice_name(name)
            spec = self.device(name)
            reader, entry = self.raw(kind, card)
            words, figures = _described(reader, entry, "")
            if profile is not None:
                words["name"] = spec.name
                figures = {key: {"value": _at(spec, key), "source": text} for key, text in spec.sources.items()}
        else:
            reader, entry = self.raw(kind, name)
            words, figures = _described(reader, entry, "")
        return {"kind": kind, "file": str(reader.file), **words, "figures": figures}

    def check(self, readers: Mapping[str, EntryReader] | None = None) -> tuple[list[str], dict[str, int]]:
        """Every fault of every file, each one a text, and how many sound entries of each kind there are.

        `readers` says how an entry of a kind is read; cards are known here. Of a kind without a reader the ids, the
        aliases and the sources of numbers are checked.
        """
        known: dict[str, EntryReader] = {"devices": read_device, **(readers or {})}
        problems: list[str] = []
        counts: dict[str, int] = {}
        for kind in KINDS:
            counts[kind] = 0
            try:
                for problem in _check(list(self._files(kind)), kind, known.get(kind, _read_figures)):
                    counts[kind] += problem is None
                    problems.extend([] if problem is None else [problem])
            except RooflineUsageError as error:
                problems.append(str(error))
        return list(dict.fromkeys(problems)), counts

    def _find(self, files: Iterable[Path], kind: str, name: str) -> list[Entry]:
        return bearers([entry for file in files for entry in entries_with(file, kind, name)], name)

    def _files(self, kind: str) -> Iterator[Path]:
        yield from self._own_files(kind)
        yield from self._announced_files(kind)

    def _own_files(self, kind: str) -> Iterator[Path]:
        if kind not in KINDS:
            raise RooflineUsageError(f"{kind!r} is no kind of spec; there are {', '.join(KINDS)}")
        yield from spec_files([*([specs_folder()] if self._builtin else []), *self._paths], kind)

    def _announced_files(self, kind: str) -> Iterator[Path]:
        if self._builtin:
            yield from spec_files(announced_folders(), kind)


def validate(
    paths: Iterable[str | Path], readers: Mapping[str, EntryReader] | None = None
) -> tuple[list[str], dict[str, int]]:
    """The faults of these files together with the package's own, and the sound entries by kind: `Catalogue.check`."""
    return Catalogue(paths).check(readers)


def _check(files: Iterable[Path], kind: str, read: EntryReader) -> Iterator[str | None]:
    """As `faults_in`, of all entries of these files; for a file that cannot be read at all its fault."""
    entries: list[Entry] = []
    for file in files:
        try:
            entries.extend(list(all_entries(file, kind)))  # all of a file, or nothing
        except RooflineUsageError as error:
            yield str(error)
    yield from faults_in(entries, kind, read)


def faults_in(entries: Iterable[Entry], kind: str, read: EntryReader) -> Iterator[str | None]:
    """For each entry its fault, or None. A name that an earlier one has is a fault of the later."""
    taken: dict[str, tuple[str, Path]] = {}
    claims = Claims()
    positions: dict[Path, int] = {}
    for reader, entry in entries:
        position = positions[reader.file] = positions.get(reader.file, -1) + 1
        try:
            made = read(reader, entry, position)
            if isinstance(made, Spec):
                claims.add(reader.file, made)
            else:
                _take_names(reader, kind, entry, taken)
            yield None
        except RooflineUsageError as error:
            yield str(error)


def _take_names(reader: Reader, kind: str, entry: dict[str, Any], taken: dict[str, tuple[str, Path]]) -> None:
    entry_id = reader.text(entry.get("id"), f"{kind}.id")
    words = (entry_id, *reader.texts(entry.get("aliases", []), f"{kind}.{entry_id}.aliases"))
    for word in words:
        if spelling(word) in taken:
            other, file = taken[spelling(word)]
            raise reader.fail(f"{kind}.{entry_id}", f"the name {word!r} is taken, by {other!r} ({file})")
    taken.update(dict.fromkeys(map(spelling, words), (entry_id, reader.file)))


def _read_figures(reader: Reader, value: Any, position: int) -> object:
    """Reads an entry of which nothing more is known: each number in it has a source."""
    return _described(reader, value, "")


def _described(reader: Reader, value: dict[str, Any], path: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The words and the figures of an entry, or of a mapping in it."""
    words: dict[str, Any] = {}
    figures: dict[str, dict[str, Any]] = {}
    for name, item in value.items():
        key = f"{path}.{name}" if path else str(name)
        if isinstance(item, dict) and item.keys() == {"value", "source"}:
            figures[key] = {"value": item["value"], "source": reader.number(item, key)[1]}
        elif isinstance(item, dict):
            inner_words, inner_figures = _described(reader, item, key)
            words.update(inner_words)
            figures.update(inner_figures)
        else:
            words[key] = _plain(reader, item, key)
    return words, figures


def _plain(reader: Reader, value: Any, key: str) -> Any:
    """A word of an entry in builtin types that JSON has; dates as texts. A number that is none is an error."""
    if isinstance(value, float) and not math.isfinite(value):
        raise reader.fail(key, f"{value} is no finite number")
    if isinstance(value, list):
        return [_plain(reader, item, key) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(reader, item, f"{key}.{name}") for name, item in value.items()}
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _at(spec: Spec, key: str) -> float:
    """The figure of a card by its key: ``dense_peak_flops_per_s.bfloat16``."""
    name, _, dtype = key.partition(".")
    value = getattr(spec, name)
    return float(value[dtype] if dtype else value)
