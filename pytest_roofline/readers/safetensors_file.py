"""A checkpoint of safetensors files as an `Architecture`: structure by config.json, bytes by the files' headers.

Sharded checkpoints are read together, by ``*.safetensors.index.json`` or by the shards' names. Without a config.json
the weights alone can be told, and what the layers keep per token has to be declared.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pytest_roofline.architecture import Architecture, CacheLayers, Use, Weight
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.file_window import DiskWindow
from pytest_roofline.readers.json_file import parse_json_object
from pytest_roofline.readers.safetensors_header import (
    SafetensorsEntry,
    SafetensorsHeader,
    read_safetensors_header,
)
from pytest_roofline.readers.shards import MOST_SHARDS, all_there, shard_names
from pytest_roofline.readers.stored_tensors import module_of, place
from pytest_roofline.readers.tensor_paths import pattern_of
from pytest_roofline.units import format_bytes

LARGEST_INDEX_BYTES = 100_000_000
INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
_TABLE = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|embeddings?)$")
_HEAD = re.compile(r"(^|\.)(lm_head|output|embed_out)$")
_PLAIN = {"F32": ("float32", "fp32"), "F16": ("float16", "fp16"), "BF16": ("bfloat16", "bf16")}
"""The dtype, and its name in the library of formats."""


def read_safetensors(path: str | Path, *, caches: Sequence[CacheLayers] | None = None) -> Architecture:
    """Read the headers of a checkpoint: a folder, or one file of it; naming one shard reads them all.

    `caches`: what the layers keep per token, where there is no config.json to say it (with one, in its place). Errors
    are `RooflineUsageError` and name file and key.
    """
    source = Path(path)
    headers = []
    for file in safetensors_files(source):
        with DiskWindow.open(file) as window:
            headers.append(read_safetensors_header(window))
    folder = source if os.path.isdir(source) else source.parent
    config = folder / "config.json"
    described = read_config(config) if os.path.exists(config) else None
    return safetensors_architecture(headers, described, str(source), caches=caches)


def safetensors_files(path: Path) -> list[Path]:
    """The files of a checkpoint, by its folder or by one of them. Missing shards are an error that names them."""
    if os.path.isdir(path):
        folder, names = path, _names_in(path)
    else:
        folder, names = path.parent, shard_names(path.name)
    return all_there(path, folder, names)


def names_by_index(data: bytes, file: str) -> list[str]:
    """The files that an index names, each once, in order. A name that leads out of the folder is an error."""
    places = parse_json_object(data, file).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise RooflineUsageError(f"{file}: weight_map: a mapping of tensors to files is needed")
    names = set()
    for tensor, name in places.items():
        if not isinstance(name, str) or not re.fullmatch(r"[\w.+-][\w.+ -]{0,250}\.safetensors", name):
            raise RooflineUsageError(
                f"{file}: weight_map.{one_line(tensor)}: {name!r:.100}; the name of a file beside it is needed"
            )
        names.add(name)
    if len(names) > MOST_SHARDS:
        raise RooflineUsageError(
            f"{file}: weight_map: {len(names):,} files; more than {MOST_SHARDS:,} are not believed"
        )
    return sorted(names)


def has_safetensors(folder: Path) -> bool:
    """Whether a folder holds a checkpoint of this kind, whole or not."""
    return os.path.exists(folder / INDEX) or any(folder.glob("*.safetensors"))


def _names_in(folder: Path) -> list[str]:
    index = folder / INDEX
    if os.path.exists(index):
        with DiskWindow.open(index) as window:
            if window.size_bytes > LARGEST_INDEX_BYTES:
                raise RooflineUsageError(f"{index}: {format_bytes(window.size_bytes)}: no index is so large")
            return names_by_index(window.read(0, window.size_bytes), str(index))
    names = sorted(file.name for file in folder.glob("*.safetensors"))
    if WHOLE in names:
        return [WHOLE]
    sets = {tuple(shard_names(name)) for name in names}
    # Publishers put the same weights beside it under a layout of their own (consolidated.safetensors).
    preferred = {each for each in sets if each[0].startswith("model")} or sets
    if len(preferred) != 1:
        problem = "several checkpoints" if preferred else "no safetensors file"
        raise RooflineUsageError(f"{folder}: {problem}{': name one of ' if names else ''}{', '.join(names[:8])}")
    return list(preferred.pop())


def safetensors_architecture(
    headers: Sequence[SafetensorsHeader],
    described: Architecture | None,
    source: str,
    *,
    caches: Sequence[CacheLayers] | None = None,
) -> Architecture:
    """The model of all headers together; `described` by its config.json, where there is one."""
    seen: dict[str, str] = {}
    for header in headers:
        for tensor in header.tensors:
            if tensor.name in seen:
                raise RooflineUsageError(f"{header.file}: {one_line(tensor.name)}: stands in {seen[tensor.name]} too")
            seen[tensor.name] = header.file
    tensors = [tensor for header in headers for tensor in header.tensors]
    if not tensors:
        raise RooflineUsageError(f"{source}: no tensors: an empty checkpoint")
    where = headers[0].file if len(headers) == 1 else f"{headers[0].file} and {len(headers) - 1} more shards"
    if described is None:
        return _without_config(tensors, source, where, caches)
    placed = place(described, tensors, source)
    return dataclasses.replace(
        placed, caches=placed.caches if caches is None else tuple(caches), source=f"{placed.source}, {where}"
    )


def _without_config(
    tensors: Sequence[SafetensorsEntry], source: str, where: str, caches: Sequence[CacheLayers] | None
) -> Architecture:
    """Plain weights by their names and shapes; anything that names do not tell is an error that asks for a config."""
    size_bytes = sum(tensor.size_bytes for tensor in tensors)
    if caches is None:
        raise RooflineUsageError(
            f"{source}: no config.json beside it: {len(tensors):,} tensors of {format_bytes(size_bytes)} can be told, "
            f"what the layers keep per token cannot. Put config.json there, or declare that: caches=[CacheLayers(...)] "
            f"or --kv-per-token BYTES"
        )
    modules = {module_of(tensor.name)[0] for tensor in tensors}
    tied = not any(_HEAD.search(module) for module in modules)
    alike: dict[tuple[str, tuple[int, ...], str], list[SafetensorsEntry]] = defaultdict(list)
    for tensor in tensors:
        if tensor.dtype not in _PLAIN or "expert" in tensor.name:
            what = "an expert" if "expert" in tensor.name else f"stored as {tensor.dtype}"
            raise RooflineUsageError(
                f"{source}: {one_line(tensor.name)}: {what}: how a pass reads it stands in config.json, and there "
                f"is none"
            )
        if tensor.size_bytes:
            alike[pattern_of(module_of(tensor.name)[0])[0], tensor.shape or (1,), tensor.dtype].append(tensor)
    weights = []
    for (pattern, shape, dtype), group in alike.items():
        is_table = _TABLE.search(pattern) is not None and len(shape) == 2
        use: Use = ("matrix" if tied else "lookup") if is_table else "matrix" if len(shape) > 1 else "vector"
        part = "embedding" if is_table else "head" if _HEAD.search(pattern) else "norm" if use == "vector" else "other"
        layers = sorted({layer for tensor in group if (layer := pattern_of(tensor.name)[1]) is not None})
        weights.append(
            Weight(
                name=pattern,
                part=part,
                shape=shape,
                use=use,
                layers=tuple(layers) if len(layers) == len(group) else tuple(range(len(group))),
                stored_bytes=sum(tensor.size_bytes for tensor in group),
                stored_format=_PLAIN[dtype][1],
            )
        )
    tables = [weight for weight in weights if weight.part == "embedding"]
    sizes = {dtype: sum(tensor.size_bytes for tensor in tensors if tensor.dtype == dtype) for dtype in _PLAIN}
    return Architecture(
        name=Path(source).stem,
        weights=tuple(weights),
        caches=tuple(caches),
        dtype=_PLAIN[max(sizes, key=lambda dtype: sizes[dtype])][0],
        layers=len({layer for weight in weights for layer in weight.layers}),
        hidden=tables[0].shape[1] if tables else 0,
        source=where,
        notes=("no config.json: weights by their names and shapes, caches as declared",),
    )
