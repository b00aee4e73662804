"""Checkpoints in several files: ``model-00001-of-00003.gguf`` and its like, GGUF and safetensors alike."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from pytest_roofline.errors import RooflineUsageError

MOST_SHARDS = 10_000
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<end>\.gguf|\.safetensors)")


def shard_names(name: str) -> list[str]:
    """The names of all shards, by the name of one; the name alone where it is none."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return [name]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count or count > MOST_SHARDS:
        raise RooflineUsageError(f"{name}: shard {int(match['number'])} of {count}: no such shard can be")
    return [f"{match['stem']}-{number:05d}-of-{count:05d}{match['end']}" for number in range(1, count + 1)]


def is_first_shard(name: str) -> bool:
    """Whether a file may be named for its model: the first of its shards, or no shard. ``x-00009-of-00003`` is none."""
    match = _SHARD.fullmatch(name)
    return match is None or (int(match["number"]) == 1 and 1 <= int(match["count"]) <= MOST_SHARDS)


def all_there(source: Path, folder: Path, names: Sequence[str]) -> list[Path]:
    """The paths of all shards; an error that names those that are missing, and `source`, by which they were found."""
    missing = [name for name in names if not os.path.exists(folder / name)]
    if missing and len(names) > 1:
        raise RooflineUsageError(
            f"{source}: {len(missing)} of {len(names)} shards are missing: {', '.join(missing[:5])}"
            + (" ..." if len(missing) > 5 else "")
        )
    return [folder / name for name in names]
