"""A model of the Hugging Face hub as an `Architecture`, by its config.json and the headers of its files alone."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.checkpoint import read_model
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.gguf_file import gguf_architecture
from pytest_roofline.readers.gguf_header import read_gguf_header
from pytest_roofline.readers.hub_files import HubFiles, HubWindow, NotOnHub, import_hub
from pytest_roofline.readers.json_file import parse_json_object
from pytest_roofline.readers.safetensors_file import (
    INDEX,
    LARGEST_INDEX_BYTES,
    WHOLE,
    names_by_index,
    safetensors_architecture,
)
from pytest_roofline.readers.safetensors_header import SafetensorsHeader, read_safetensors_header
from pytest_roofline.readers.shards import is_first_shard, shard_names

LARGEST_CONFIG_BYTES = 2**24
FIRST_BYTES = 2**15
"""Asked for of each file before its header's length is known; most headers of shards fit."""
GGUF_FIRST_BYTES = 2**17
GGUF_CHUNK_BYTES = 2**20
"""A GGUF header holds the vocabulary, some megabytes, and says its length nowhere."""
_NAME = re.compile(r"(?P<repository>[\w-][\w.-]*(/[\w-][\w.-]*)?)(:(?P<file>[\w-][\w./ +-]*))?", re.ASCII)


def read_hub(name: str, revision: str | None = None, *, caches: Sequence[CacheLayers] | None = None) -> Architecture:
    """Read ``org/name``, or one file of it as ``org/name:file.gguf``; weights are never fetched.

    `revision`: a branch, a tag or a commit; None: ``main``. `caches`: what the layers keep per token, for files that do
    not tell it. With ``HF_HUB_OFFLINE=1`` only the local cache is read. A repository of GGUF files alone is an error
    that lists them. Every error is a `RooflineUsageError` that names the address and what to do; `MissingDependency`
    without ``httpx`` or ``huggingface_hub``.
    """
    match = _NAME.fullmatch(name)
    if match is None or ".." in name:
        raise RooflineUsageError(f"{name!r:.200} is no name of a model on the hub: org/name, or org/name:file.gguf, is")
    if revision is not None and (not re.fullmatch(r"[\w./-]{1,250}", revision) or ".." in revision):
        raise RooflineUsageError(f"{revision!r:.200} is no revision: a branch, a tag or a commit is needed")
    repository, file = match["repository"], match["file"]
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return _read_cached(repository, file, revision, caches)
    with HubFiles(repository, revision) as files:
        if file is not None and file.endswith(".gguf"):
            read = _read_gguf(files, file, caches)
        else:
            read = _read_checkpoint(files, file, caches)
    return dataclasses.replace(read, name=repository)


def _read_gguf(files: HubFiles, file: str, caches: Sequence[CacheLayers] | None) -> Architecture:
    folder, _, last = file.rpartition("/")
    names = [f"{folder}/{name}" if folder else name for name in shard_names(last)]
    windows = (HubWindow(files, each, first_bytes=GGUF_FIRST_BYTES, chunk_bytes=GGUF_CHUNK_BYTES) for each in names)
    return gguf_architecture([read_gguf_header(window) for window in windows], caches=caches)


def _read_checkpoint(files: HubFiles, file: str | None, caches: Sequence[CacheLayers] | None) -> Architecture:
    described = _read_described(files)
    headers = _read_headers(files, file or INDEX)
    if not headers and file is None:
        headers = _read_headers(files, WHOLE)
    if headers:
        return safetensors_architecture(headers, described, files.url(file or WHOLE), caches=caches)
    if described is not None and file is None:
        note = "no safetensors in the repository: sizes by config.json"
        return dataclasses.replace(described, notes=(*described.notes, note))
    raise _nothing_to_read(files, file)


def _read_described(files: HubFiles) -> Architecture | None:
    """What config.json says; None where there is none."""
    try:
        data = files.whole("config.json", LARGEST_CONFIG_BYTES)
    except NotOnHub:
        return None
    url = files.url("config.json")
    # The reader of configs names them by this key in its errors.
    described = read_config({**parse_json_object(data, url), "_name_or_path": url}, name=files.repository)
    return dataclasses.replace(described, source=url)


def _read_headers(files: HubFiles, file: str) -> list[SafetensorsHeader]:
    """The headers of all shards, by an index or by one shard; an empty list where there is no such file."""
    try:
        if file == INDEX:
            names = names_by_index(files.whole(file, LARGEST_INDEX_BYTES), files.url(file))
        else:
            names = shard_names(file)
            files.part(names[0], 0, 8)
    except NotOnHub:
        return []
    return [
        read_safetensors_header(HubWindow(files, name, first_bytes=FIRST_BYTES, chunk_bytes=FIRST_BYTES))
        for name in names
    ]


def _nothing_to_read(files: HubFiles, file: str | None) -> RooflineUsageError:
    """The error that says which files could be named."""
    names = files.names()
    models = [
        name
        for name in names
        if name.endswith(".gguf") and "mmproj" not in name and is_first_shard(name.rpartition("/")[2])
    ]
    where = f"{files.endpoint}/{files.repository}"
    if models:
        what = f"no file {file}" if file else "no config.json and no safetensors"
        return RooflineUsageError(
            f"{where}: {what}, but {len(models)} GGUF file{'s' if len(models) > 1 else ''}: name one, as in "
            f"{files.repository}:{models[0]}\nThere are: {', '.join(models[:40])}"
        )
    return RooflineUsageError(
        f"{where}: {'no file ' + file if file else 'no config.json, no safetensors and no GGUF file'}; there are "
        f"{len(names)} files: {', '.join(names[:10]) or 'none'}"
    )


def _read_cached(
    repository: str, file: str | None, revision: str | None, caches: Sequence[CacheLayers] | None
) -> Architecture:
    """From the local cache of ``huggingface_hub``, without a connection."""
    huggingface_hub = import_hub(repository)
    try:
        found = huggingface_hub.try_to_load_from_cache(repository, file or "config.json", revision=revision)
    except ValueError as error:
        raise RooflineUsageError(f"{repository!r:.200} is no name of a model on the hub: {error!s:.200}") from None
    if not isinstance(found, str):
        raise RooflineUsageError(
            f"{repository}: {file or 'config.json'} is not in the local cache, and HF_HUB_OFFLINE is set: unset it, or "
            f"fetch the file first (hf download {repository} {file or 'config.json'})"
        )
    path = Path(found)
    has_weights = any(path.parent.glob("*.safetensors"))  # an index may be there alone
    read = read_model(path if file or not has_weights else path.parent, caches=caches)
    return dataclasses.replace(read, name=repository)
