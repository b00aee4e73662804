"""The library of cards: figures from vendors' documents, one source per number.

An entry of a file's ``devices`` list::

    sources:
      sheet: "NVIDIA L4 Tensor Core GPU data sheet"
    devices:
        name: NVIDIA L4
        vendor: NVIDIA
        device_names: ["NVIDIA L4"]
        memory_bytes: {value: 24_000_000_000, source: sheet}
        bandwidth_bytes_per_s: {value: 300_000_000_000, source: sheet}
        dense_peak_flops_per_s:
          bfloat16: {value: 121_000_000_000_000, source: sheet}


Two cards that claim one device are an error: the loader never guesses which is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.document import Reader, read_document
from pytest_roofline.specs.folders import spec_files, specs_folder

_TEXT_KEYS = frozenset({"id", "name", "vendor"})
_NUMBER_KEYS = frozenset({"memory_bytes", "bandwidth_bytes_per_s", "last_level_cache_bytes"})
_PEAK_KEYS = frozenset({"dense_peak_flops_per_s", "sparse_peak_flops_per_s"})
_DEVICE_KEYS = _TEXT_KEYS | _NUMBER_KEYS | _PEAK_KEYS | {"device_names", "is_unified_memory"}
_REQUIRED_KEYS = ("id", "name", "vendor", "device_names", "memory_bytes", "bandwidth_bytes_per_s")
_DTYPES = frozenset(
    {"float64", "float32", "tf32", "bfloat16", "float16", "float8", "float4", "int8", "int4"},
)
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MIG_SUFFIX = re.compile(r"\s+MIG\s+\S+$", re.IGNORECASE)

# A card prints 80 GB and has 80 GiB less what ECC and the driver keep: reported bytes are 0.95 to 1.08 times
# the printed ones on every card that was looked at. 10 % either way keeps 80 apart from 94 and 40.
_MEMORY_TOLERANCE = 0.10
# Bus width times clock is up to 3 % off the printed rate (H200: 4.92 against 4.8 TB/s).
_BANDWIDTH_TOLERANCE = 0.10


def load_devices(paths: Iterable[str | Path] = (), *, builtin: bool = True) -> tuple[Spec, ...]:
    """Every card of the package's own files (unless `builtin` is false), then those of `paths`.

    A path is a YAML file, or a folder: its ``devices`` subfolder if there is one, else itself. All files
    share one name space: a card that a user's file claims a second time is an error, not an override. Raises
    RooflineUsageError with file and key for whatever is not as it should be.
    """
    folders = [specs_folder()] if builtin else []
    specs: list[tuple[Path, Spec]] = []
    for file in spec_files([*folders, *map(Path, paths)], "devices"):
        specs.extend((file, spec) for spec in _load_file(file))
    _check_claims(specs)
    return tuple(spec for _, spec in specs)


def match(
    name: str,
    memory_bytes: float | None = None,
    bandwidth_bytes_per_s: float | None = None,
    specs: Sequence[Spec] | None = None,
) -> Spec | None:
    """The card that a driver calls `name`, confirmed by what is known of its memory; None when in doubt.

    Names match whole, whatever their case, with or without the vendor's name in front; the suffix of a MIG
    slice is left out (then give the memory of the parent card, or none). A card whose printed size is over 10
    % away from `memory_bytes`, or whose printed rate is over 10 % away from `bandwidth_bytes_per_s` (bus
    width times clock), is another card. It never falls back to a similar one, and two candidates are none.
    """
    wanted = _normal(name)
    found = [
        spec
        for spec in (load_devices() if specs is None else specs)
        if any(_normal(candidate) == wanted for candidate in spec.device_names)
        and _agrees(memory_bytes, spec.memory_bytes, _MEMORY_TOLERANCE)
        and _agrees(bandwidth_bytes_per_s, spec.bandwidth_bytes_per_s, _BANDWIDTH_TOLERANCE)
    ]
    return found[0] if len(found) == 1 else None


def _normal(name: str) -> str:
    """One spelling of a device's name: older drivers leave the vendor out, some tools write underscores."""
    text = _MIG_SUFFIX.sub("", " ".join(name.replace("_", " ").split())).casefold()
    return re.sub(r"^(nvidia|amd|intel|apple)\s+", "", text)


def _agrees(reported: float | None, printed: float, tolerance: float) -> bool:
    return reported is None or abs(reported / printed - 1) <= tolerance


def _check_claims(specs: Sequence[tuple[Path, Spec]]) -> None:
    """Two cards may share a driver's name only if their memory tells them apart."""
    for position, (file, spec) in enumerate(specs):
        names = {_normal(name) for name in spec.device_names}
        for other_file, other in specs[:position]:
            if spec.id == other.id:
                raise RooflineUsageError(f"{file}: devices.{spec.id}: this id is taken, by {other_file}")
            shared = names & {_normal(name) for name in other.device_names}
            ratio = spec.memory_bytes / other.memory_bytes
            apart = max(ratio, 1 / ratio) > (1 + _MEMORY_TOLERANCE) / (1 - _MEMORY_TOLERANCE)
            if shared and not apart:
                raise RooflineUsageError(
                    f"{file}: devices.{spec.id}.device_names: {sorted(shared)[0]!r} is claimed by "
                    f"{other.id!r} too ({other_file}), and their memory sizes do not tell them apart"
                )


def read_device(reader: Reader, value: Any, position: int) -> Spec:
    """One entry of a `devices` list."""
    raw_id = value.get("id") if isinstance(value, dict) else None
    key = f"devices.{raw_id}" if isinstance(raw_id, str) else f"devices[{position}]"
    entry = reader.known(value, key, _DEVICE_KEYS)
    for name in _REQUIRED_KEYS:
        if name not in entry:
            raise reader.fail(f"{key}.{name}", "missing")
    texts = {name: reader.text(entry[name], f"{key}.{name}") for name in sorted(_TEXT_KEYS)}
    if not _ID.fullmatch(texts["id"]):
        raise reader.fail(f"{key}.id", f"{texts['id']!r}: lower-case words joined by hyphens are needed")
    unified = reader.flag(entry.get("is_unified_memory", False), f"{key}.is_unified_memory")
    names = reader.texts(entry["device_names"], f"{key}.device_names", least=1)

    numbers: dict[str, float] = {}
    sources: dict[str, str] = {}
    for name in sorted(_NUMBER_KEYS & entry.keys()):
        numbers[name], sources[name] = reader.number(entry[name], f"{key}.{name}")
    peaks: dict[str, dict[str, float]] = {}
    for name in sorted(_PEAK_KEYS & entry.keys()):
        peaks[name] = {}
        for dtype, figure in reader.known(entry[name], f"{key}.{name}", _DTYPES).items():
            peaks[name][dtype], sources[f"{name}.{dtype}"] = reader.number(figure, f"{key}.{name}.{dtype}")
    return Spec(
        id=texts["id"],
        name=texts["name"],
        vendor=texts["vendor"],
        device_names=names,
        is_unified_memory=unified,
        memory_bytes=numbers["memory_bytes"],
        bandwidth_bytes_per_s=numbers["bandwidth_bytes_per_s"],
        last_level_cache_bytes=numbers.get("last_level_cache_bytes"),
        dense_peak_flops_per_s=peaks.get("dense_peak_flops_per_s", {}),
        sparse_peak_flops_per_s=peaks.get("sparse_peak_flops_per_s", {}),
        source=sources["bandwidth_bytes_per_s"],
        sources=sources,
    )


def _load_file(file: Path) -> list[Spec]:
    reader, lists = read_document(file)
    return [read_device(reader, value, position) for position, value in enumerate(lists.get("devices", []))]
