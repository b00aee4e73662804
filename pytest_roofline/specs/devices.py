"""The library of cards: figures from vendors' documents, one source per number.

An entry of a file's ``devices`` list::

    sources:
      sheet: "NVIDIA L4 Tensor Core GPU data sheet"
    devices:
      - id: l4
        name: NVIDIA L4
        vendor: NVIDIA
        device_names: ["NVIDIA L4"]
        memory_bytes: {value: 24_000_000_000, source: sheet}
        bandwidth_bytes_per_s: {value: 300_000_000_000, source: sheet}
        dense_peak_flops_per_s:
          bfloat16: {value: 121_000_000_000_000, source: sheet}

Two cards that claim one device are an error: the loader never guesses which is meant. Cards of one vendor may share a
driver's name where their memory sizes or their rates tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.specs.document import Reader, read_document
from pytest_roofline.specs.folders import announced_folders, spec_files, specs_folder
from pytest_roofline.specs.names import spelling
from pytest_roofline.specs.slices import split_slice_name
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_flops_per_s

_TEXT_KEYS = frozenset({"id", "name", "vendor"})
_NUMBER_KEYS = frozenset(
    {
        "memory_bytes",
        "bandwidth_bytes_per_s",
        "last_level_cache_bytes",
        "link_bidirectional_bytes_per_s",
        "host_link_bytes_per_s",
        "compute_units",
    }
)
_PEAK_KEYS = frozenset({"dense_peak_flops_per_s", "sparse_peak_flops_per_s"})
_FLAG_KEYS = frozenset({"is_unified_memory", "has_memory_options"})
_DEVICE_KEYS = _TEXT_KEYS | _NUMBER_KEYS | _PEAK_KEYS | _FLAG_KEYS | {"device_names", "aliases", "mig"}
_REQUIRED_KEYS = ("id", "name", "vendor", "device_names", "memory_bytes", "bandwidth_bytes_per_s")
_DTYPES = frozenset(
    {"float64", "float32", "tf32", "bfloat16", "float16", "float8", "float4", "int8", "int4"},
)
_MOST_BYTES_PER_S = 1e15
_MOST_FLOPS_PER_S = 1e19
_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "memory_bytes": (1e8, 1e15),
        "bandwidth_bytes_per_s": (1e9, _MOST_BYTES_PER_S),
        "last_level_cache_bytes": (1e3, 1e13),
        "link_bidirectional_bytes_per_s": (1e8, _MOST_BYTES_PER_S),
        "host_link_bytes_per_s": (1e8, _MOST_BYTES_PER_S),
        "compute_units": (1, 1e8),
        **dict.fromkeys(sorted(_PEAK_KEYS), (1e8, _MOST_FLOPS_PER_S)),
    }
)
"""What lies outside is a slip of the unit: no device has had so little, and none will for long have so much."""
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

# A card prints 80 GB and has 80 GiB less what ECC and the driver keep: reported bytes are 0.95 to 1.08 times
# the printed ones on every card that was looked at. 10 % either way keeps 80 apart from 94 and 40.
_MEMORY_TOLERANCE = 0.10
# Bus width times clock is up to 3 % off the printed rate (H200: 4.92 against 4.8 TB/s).
_BANDWIDTH_TOLERANCE = 0.10
# Two cards of one name and size (RTX 4070: 504 and 480 GB/s) are told apart by a rate that is nearly one's own.
_NEAR = 0.015
_APART = 1.04


def load_devices(paths: Iterable[str | Path] = (), *, builtin: bool = True) -> tuple[Spec, ...]:
    """Every card of the package's own files and of packages that announce themselves (unless `builtin` is false),
    then those of `paths`.

    A path is a YAML file, or a folder: its ``devices`` subfolder if there is one, and itself. All files share one
    name space: a card that a user's file claims a second time is an error, not an override. Raises
    RooflineUsageError with file and key for whatever is not as it should be.
    """
    folders = [specs_folder(), *announced_folders()] if builtin else []
    specs: list[Spec] = []
    claims = Claims()
    for file in spec_files([*folders, *map(Path, paths)], "devices"):
        for spec in _load_file(file):
            claims.add(file, spec)
            specs.append(spec)
    return tuple(specs)


def match(
    name: str,
    memory_bytes: float | None = None,
    bandwidth_bytes_per_s: float | None = None,
    specs: Sequence[Spec] | None = None,
) -> Spec | None:
    """The card that a driver calls `name`, confirmed by what is known of its memory; None when in doubt.

    Names match whole, whatever their case, with or without the vendor's name in front; the suffix of a MIG
    slice is left out (then give the memory of the parent card, or none). A card whose printed size is over 10
    % away from `memory_bytes` (of a card with memory options: over 10 % below it), or whose printed rate is over 10 %
    away from `bandwidth_bytes_per_s` (bus width times clock), is another card. Of several cards that remain the one
    is meant whose rate is within 1.5 % of the given one. It never falls back to a similar one, and two are none.
    """
    wanted = _normal(name)
    found = [
        spec
        for spec in (load_devices() if specs is None else specs)
        if any(_normal(candidate) == wanted for candidate in spec.device_names)
        and (
            _agrees(memory_bytes, spec.memory_bytes, _MEMORY_TOLERANCE)
            or (spec.has_memory_options and memory_bytes is not None and memory_bytes < spec.memory_bytes)
        )
        and _agrees(bandwidth_bytes_per_s, spec.bandwidth_bytes_per_s, _BANDWIDTH_TOLERANCE)
    ]
    if len(found) > 1 and bandwidth_bytes_per_s is not None:
        found = [spec for spec in found if _agrees(bandwidth_bytes_per_s, spec.bandwidth_bytes_per_s, _NEAR)]
    return found[0] if len(found) == 1 else None


class Claims:
    """What the cards of all files have claimed so far: ids and aliases once each, and a driver's name by several cards
    only if they are of one vendor and their memory sizes or their rates tell them apart."""

    def __init__(self) -> None:
        self._ids: dict[str, Path] = {}
        self._typed: dict[str, tuple[Path, Spec]] = {}
        self._names: dict[str, list[tuple[Path, Spec]]] = {}

    def add(self, file: Path, spec: Spec) -> None:
        """One more card. Raises RooflineUsageError, and takes nothing, when another has claimed what is its own."""
        if spec.id in self._ids:
            raise RooflineUsageError(f"{file}: devices.{spec.id}: this id is taken, by {self._ids[spec.id]}")
        typed = {spelling(name) for name in (spec.id, *spec.aliases)}
        for name in sorted(typed & self._typed.keys()):
            other_file, other = self._typed[name]
            raise RooflineUsageError(
                f"{file}: devices.{spec.id}.aliases: {name!r} means {other.id!r} too ({other_file})"
            )
        names = {_normal(name) for name in spec.device_names}
        for name in sorted(names & self._names.keys()):
            for other_file, other in self._names[name]:
                vendor, others = spec.vendor or "", other.vendor or ""
                if spelling(vendor) != spelling(others):
                    raise RooflineUsageError(
                        f"{file}: devices.{spec.id}.device_names: {name!r} is claimed by {other.id!r} of "
                        f"{one_line(others, 40)} too ({other_file}): no driver calls a device of "
                        f"{one_line(vendor, 40)} so"
                    )
                if not _are_apart(spec, other):
                    raise RooflineUsageError(
                        f"{file}: devices.{spec.id}.device_names: {name!r} is claimed by {other.id!r} too "
                        f"({other_file}), and neither their memory sizes nor their rates tell them apart"
                    )
        self._ids[spec.id] = file
        self._typed.update(dict.fromkeys(typed, (file, spec)))
        for name in names:
            self._names.setdefault(name, []).append((file, spec))


def _normal(name: str) -> str:
    """One spelling of a device's name: older drivers leave the vendor out, some tools write underscores."""
    text = " ".join(split_slice_name(name.replace("_", " "))[0].split()).casefold()
    return re.sub(r"^(nvidia|amd|intel|apple)\s+", "", text)


def _agrees(reported: float | None, printed: float, tolerance: float) -> bool:
    return reported is None or abs(reported / printed - 1) <= tolerance


def _are_apart(spec: Spec, other: Spec) -> bool:
    size = spec.memory_bytes / other.memory_bytes
    rate = spec.bandwidth_bytes_per_s / other.bandwidth_bytes_per_s
    by_size = max(size, 1 / size) > (1 + _MEMORY_TOLERANCE) / (1 - _MEMORY_TOLERANCE)
    has_options = spec.has_memory_options or other.has_memory_options
    return (by_size and not has_options) or max(rate, 1 / rate) >= _APART


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
    flags = {name: reader.flag(entry.get(name, False), f"{key}.{name}") for name in sorted(_FLAG_KEYS)}
    names = reader.texts(entry["device_names"], f"{key}.device_names", least=1)
    aliases = reader.texts(entry.get("aliases", []), f"{key}.aliases")

    numbers: dict[str, float] = {}
    sources: dict[str, str] = {}
    for name in sorted(_NUMBER_KEYS & entry.keys()):
        numbers[name], sources[name] = _figure(reader, entry[name], f"{key}.{name}", name)
    peaks: dict[str, dict[str, float]] = {}
    for name in sorted(_PEAK_KEYS & entry.keys()):
        peaks[name] = {}
        for dtype, figure in reader.known(entry[name], f"{key}.{name}", _DTYPES).items():
            peaks[name][dtype], sources[f"{name}.{dtype}"] = _figure(reader, figure, f"{key}.{name}.{dtype}", name)
    slices = None
    if "mig" in entry:
        slices, sources["mig.memory_slices"] = _mig(reader, entry["mig"], f"{key}.mig")
    return Spec(
        id=texts["id"],
        name=texts["name"],
        vendor=texts["vendor"],
        device_names=names,
        aliases=aliases,
        is_unified_memory=flags["is_unified_memory"],
        has_memory_options=flags["has_memory_options"],
        memory_bytes=numbers["memory_bytes"],
        bandwidth_bytes_per_s=numbers["bandwidth_bytes_per_s"],
        last_level_cache_bytes=numbers.get("last_level_cache_bytes"),
        link_bidirectional_bytes_per_s=numbers.get("link_bidirectional_bytes_per_s"),
        host_link_bytes_per_s=numbers.get("host_link_bytes_per_s"),
        compute_units=numbers.get("compute_units"),
        mig_memory_slices=slices,
        dense_peak_flops_per_s=peaks.get("dense_peak_flops_per_s", {}),
        sparse_peak_flops_per_s=peaks.get("sparse_peak_flops_per_s", {}),
        source=sources["bandwidth_bytes_per_s"],
        sources=sources,
    )


def _figure(reader: Reader, value: Any, key: str, name: str) -> tuple[float, str]:
    """A figure that a device may have, and its source."""
    figure, source = reader.number(value, key)
    least, most = _BOUNDS[name]
    if least <= figure <= most:
        return figure, source
    shown, unit = (
        (format_flops_per_s, "FLOP/s")
        if name in _PEAK_KEYS
        else (format_bytes_per_s, "bytes per second")
        if name.endswith("_bytes_per_s")
        else (format_bytes, "bytes")
        if name.endswith("_bytes")
        else ("{:,g}".format, "a count")
    )
    raise reader.fail(
        f"{key}.value",
        f"{shown(figure)} is outside of what devices have, {shown(least)} to {shown(most)}; the unit is {unit}",
    )


def _mig(reader: Reader, value: Any, key: str) -> tuple[int, str]:
    """Into how many slices MIG cuts the memory, and the source of that."""
    entry = reader.known(value, key, ("memory_slices",))
    slices, source = reader.number(entry.get("memory_slices"), f"{key}.memory_slices")
    if slices not in (4, 8):
        raise reader.fail(f"{key}.memory_slices.value", f"{slices:g}: MIG cuts memory into 8 slices, or into 4")
    return int(slices), source


def _load_file(file: Path) -> list[Spec]:
    reader, lists = read_document(file)
    return [read_device(reader, value, position) for position, value in enumerate(lists.get("devices", []))]
