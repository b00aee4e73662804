"""Where spec files are: in this package, in folders that a user names, in packages that announce themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.document import KINDS

ENTRY_POINT_GROUP = "pytest_roofline.specs"
"""A package announces the folder of its spec files here; the entry point's value is the name of the package."""


def specs_folder() -> Path:
    """The folder with the specs of this package: inside the wheel, else beside the package in a checkout.

    Raises RooflineUsageError when neither is there (a broken installation).
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "specs_data", package.parent / "specs"):
        if (folder / "devices").is_dir():
            return folder
    raise RooflineUsageError(
        f"no device specs beside {package}: the installation is incomplete; reinstall pytest-roofline"
    )


def announced_folders() -> list[Path]:
    """The folders of the installed packages that announce themselves, in the order of their names.

    A package is looked up, not run: only the packages around it are imported. Raises RooflineUsageError that names the
    entry point where there is no such package, or no folder of it on the disk (a single module, a zip file).
    """
    # Costs some 60 ms and reads the metadata of every installed package: only who needs it pays.
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    folders: list[Path] = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value)):
        who = f"entry point {point.name!r} of {ENTRY_POINT_GROUP} names the package {point.value!r}"
        try:
            found = find_spec(point.value)
        except Exception as error:
            # Other people's code may run here (the packages around it), and may raise anything.
            raise RooflineUsageError(f"{who}, which cannot be found: {type(error).__name__}: {error}") from error
        if found is None:
            raise RooflineUsageError(f"{who}, which is not installed: reinstall or remove what announced it")
        places = [Path(place) for place in found.submodule_search_locations or ()]
        if not places or not all(place.is_dir() for place in places):
            raise RooflineUsageError(
                f"{who}, which has no folder on the disk: spec files lie in the folder of a package"
            )
        folders.extend(places)
    return folders


def spec_files(paths: Iterable[Path], kind: str) -> Iterator[Path]:
    """The YAML files that may hold `kind` (devices, models, formats): a file as it is named, a folder's own files,
    and those in its subfolder of that name."""
    for path in paths:
        try:
            found = _spec_files_of(path, kind)
        except OSError as error:
            raise RooflineUsageError(f"{path}: cannot be read: {error}") from error
        if found is None:
            raise RooflineUsageError(f"{path}: no such spec file or folder")
        yield from found


def _spec_files_of(path: Path, kind: str) -> list[Path] | None:
    if path.is_file():
        return [path]
    if not path.is_dir():
        return None
    inner = path / kind
    folders = [path, inner] if path.name not in KINDS and inner.is_dir() else [path]
    return [file for folder in folders for file in sorted({*folder.glob("*.yaml"), *folder.glob("*.yml")})]
