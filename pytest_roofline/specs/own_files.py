"""A user's own spec files, looked over before anything is looked up in them.

A look-up parses the one entry that bears a name, so a fault elsewhere would wait until somebody needs it. Own files
are few and small: they are read whole, and held against those of the package's entries that bear a name of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.catalogue import Catalogue, EntryReader, faults_in
from pytest_roofline.specs.devices import read_device
from pytest_roofline.specs.document import KINDS
from pytest_roofline.specs.excerpts import all_entries, entries_with
from pytest_roofline.specs.folders import spec_files, specs_folder
from pytest_roofline.specs.formats import read_format
from pytest_roofline.specs.models import read_model
from pytest_roofline.specs.names import Entry

READERS: Mapping[str, EntryReader] = MappingProxyType(
    {"devices": read_device, "models": read_model, "formats": read_format}
)
"""How an entry of each kind is read."""

_NAMES = ("id", "aliases", "device_names")


def checked_catalogue(paths: Iterable[str | Path]) -> Catalogue:
    """The package's specs and those of `paths`, which are sound.

    Raises RooflineUsageError, naming file and key, for the first fault of theirs: a path that is not there or holds no
    spec file, an entry that is not as it should be, a name that another entry has already. Not looked at: packages
    that announce themselves.
    """
    paths = tuple(paths)
    catalogue = Catalogue(paths)
    for path in paths:
        check_is_specs(path)
    for kind in KINDS if paths else ():
        own = [entry for file in spec_files(map(Path, paths), kind) for entry in all_entries(file, kind)]
        for problem in faults_in(chain(_namesakes(own, kind), own), kind, READERS[kind]):
            if problem is not None:
                raise RooflineUsageError(problem)
    return catalogue


def check_is_specs(path: str | Path) -> None:
    """Raises RooflineUsageError where no file or folder is there, or no spec file in it, and for the package's own."""
    own, given = specs_folder().resolve(), Path(path).resolve()
    if given == own or own in given.parents:
        raise RooflineUsageError(
            f"{str(path)!r}: these specs come with the package and are read anyway: leave the path out"
        )
    if not any(True for kind in KINDS for _ in spec_files([Path(path)], kind)):
        raise RooflineUsageError(
            f"{str(path)!r}: no spec file was found there; looked for *.yaml and *.yml in it and in its folders "
            f"{', '.join(KINDS)}"
        )


def _namesakes(own: Iterable[Entry], kind: str) -> Iterator[Entry]:
    """The package's entries that hold a name of an own one, each once."""
    names = dict.fromkeys(name for _, entry in own for key in _NAMES for name in _texts(entry.get(key)))
    seen: set[object] = set()
    for file in spec_files([specs_folder()], kind) if names else ():
        for name in names:
            for reader, entry in entries_with(file, kind, name):
                if entry.get("id") not in seen:
                    seen.add(entry.get("id"))
                    yield reader, entry


def _texts(value: object) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
