"""Whatever somebody has of a model, as an `Architecture`: a config, a folder, a GGUF or a safetensors file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.fields import beginning
from pytest_roofline.readers.file_window import DiskWindow
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.readers.safetensors_file import has_safetensors, read_safetensors
from pytest_roofline.readers.shards import shard_names

_OTHER_KINDS = {
    (b"PK\x03\x04",): "a torch checkpoint (pickle): save it as safetensors, or name its config.json",
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"): "a pickle, which is never opened: name its config.json",
    (b"\x89HDF",): "an HDF5 file: name the model's config.json",
    (b"ggml", b"lmgg", b"ggjt", b"tjgg", b"fmgg"): "a GGML file of before GGUF: convert it with llama.cpp",
    (b"version https://git-lfs",): "a Git LFS pointer, not the file itself: run `git lfs pull`",
}


def read_model(source: Any, *, caches: Sequence[CacheLayers] | None = None) -> Architecture:
    """Read a model from what there is of it; of files only the headers.

    `source`: the path of a config.json, a ``.gguf`` or ``.safetensors`` file (any shard) or a folder that holds one of
    them; a config as a mapping, or as an object with ``to_dict()``; an `Architecture`, which comes back as it is.
    `caches`: what the layers keep per token, for files that do not tell it. Names of models are not looked up here.
    Raises `RooflineUsageError` that names file and key.
    """
    if isinstance(source, Architecture):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _read_path(_as_path(source), caches)
    if isinstance(source, Mapping):
        return read_config(source)
    if callable(to_dict := getattr(source, "to_dict", None)):
        return read_config(to_dict())
    raise RooflineUsageError(
        f"a {type(source).__name__} is no model: the path of a config.json, a GGUF or safetensors file or their "
        f"folder, a config as a mapping or with to_dict() is needed"
    )


def _as_path(source: str | os.PathLike[Any]) -> Path:
    path = os.fspath(source)
    if not isinstance(path, str) or not path or "\0" in path:
        raise RooflineUsageError(f"{path!r:.200}: the path of a file or a folder is needed")
    # A path that is there is meant as it is; ~ of a user who does not exist stays as it is, too.
    return Path(path if os.path.lexists(path) else os.path.expanduser(path))


def _read_path(path: Path, caches: Sequence[CacheLayers] | None) -> Architecture:
    if os.path.isdir(path):
        return _read_folder(path, caches)
    with DiskWindow.open(path) as window:
        start = window.read(0, 32)
    if start.startswith(b"GGUF"):
        return read_gguf(path, caches=caches)
    for beginnings, meaning in _OTHER_KINDS.items():
        if start.startswith(beginnings):
            raise RooflineUsageError(f"{path}: {meaning}")
    if path.name.endswith((".safetensors.index.json", ".gguf", ".safetensors")):
        if path.suffix == ".gguf":
            return read_gguf(path, caches=caches)
        return read_safetensors(path.parent if path.suffix == ".json" else path, caches=caches)
    if start[8:9] == b"{" and not start.startswith(b"{"):
        return read_safetensors(path, caches=caches)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return read_config(path)
    if not start:
        raise RooflineUsageError(f"{path}: an empty file")
    raise RooflineUsageError(
        f"{path}: not a model that is known here: it begins with {beginning(start[:8])}; config.json, GGUF and "
        "safetensors are"
    )


def _read_folder(folder: Path, caches: Sequence[CacheLayers] | None) -> Architecture:
    """Safetensors with their config, else the config alone, else the one GGUF file."""
    if has_safetensors(folder):
        return read_safetensors(folder, caches=caches)
    if os.path.lexists(folder / "config.json"):
        return read_config(folder)
    files = sorted(file.name for file in folder.glob("*.gguf"))
    models = sorted({shard_names(name)[0] for name in files if not name.startswith("mmproj")})
    if len(models) == 1:
        return read_gguf(folder / models[0], caches=caches)
    if models:
        raise RooflineUsageError(f"{folder}: {len(models)} GGUF files: name one of {', '.join(models[:8])}")
    raise RooflineUsageError(f"{folder}: no config.json, no safetensors and no GGUF file in this folder")
