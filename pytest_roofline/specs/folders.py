"""Where spec files are: in this package, in folders that a user names, in packages that announce themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.document import KINDS


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


def spec_files(paths: Iterable[Path], kind: str) -> Iterator[Path]:
    """The YAML files that may hold `kind` (devices, models, formats): a file as it is named, a folder's own files,
    and those in its subfolder of that name."""
    for path in paths:
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted({*path.glob("*.yaml"), *path.glob("*.yml")})
            folder = path / kind
            if path.name not in KINDS and folder.is_dir():
                yield from sorted({*folder.glob("*.yaml"), *folder.glob("*.yml")})
        else:
            raise RooflineUsageError(f"{path}: no such spec file or folder")
