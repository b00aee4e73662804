"""The library of cards: figures from vendors' documents, one source per number.

A spec file is YAML, one mapping::

    schema: 1
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

The loader is strict, because a wrong roof accuses honest people: an unknown key, a number without a source or
in a string, a key given twice, YAML anchors, and two cards that claim one device are errors that name file
and key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError

SCHEMA = 1
# The C parser where PyYAML has it: it is ten times as fast, and just as safe.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FILE_KEYS = frozenset({"schema", "sources", "devices"})
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


def specs_folder() -> Path:
    """The folder with the specs of this package: inside the wheel, else beside the package in a checkout.

    Raises RooflineUsageError when neither is there (a broken installation).
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "specs_data", package.parent / "specs"):
        if (folder / "devices").is_dir():
            return folder
    raise RooflineUsageError(
        f"no device specs beside {package}: the installation is incomplete; reinstall pytest-roofline"
    )


def load_devices(paths: Iterable[str | Path] = (), *, builtin: bool = True) -> tuple[Spec, ...]:
    """Every card of the package's own files (unless `builtin` is false), then those of `paths`.

    A path is a YAML file, or a folder: its ``devices`` subfolder if there is one, else itself. All files
    share one name space: a card that a user's file claims a second time is an error, not an override. Raises
    RooflineUsageError with file and key for whatever is not as it should be.
    """
    folders = [specs_folder()] if builtin else []
    specs: list[tuple[Path, Spec]] = []
    for file in _files([*folders, *map(Path, paths)]):
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


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        elif path.is_dir():
            folder = path / "devices" if (path / "devices").is_dir() else path
            yield from sorted({*folder.glob("*.yaml"), *folder.glob("*.yml")})
        else:
            raise RooflineUsageError(f"{path}: no such spec file or folder")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """One file being read, and its table of sources."""

    file: Path
    sources: dict[str, str]

    def fail(self, key: str, problem: str) -> RooflineUsageError:
        return RooflineUsageError(f"{self.file}: {key}: {problem}")

    def known(self, value: Any, key: str, keys: Iterable[str]) -> dict[str, Any]:
        """`value` as a mapping whose keys are all among `keys`."""
        if not isinstance(value, dict):
            raise self.fail(key, f"a mapping is needed here, not {_kind(value)}")
        allowed = sorted(keys)
        for name in value:
            if name not in allowed:
                raise self.fail(f"{key}.{name}", f"unknown key; known ones: {', '.join(allowed)}")
        return value

    def text(self, value: Any, key: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, f"a text is needed here, not {_kind(value)}")
        return value

    def number(self, value: Any, key: str) -> tuple[float, str]:
        """A figure and its source in words."""
        if not isinstance(value, dict):
            raise self.fail(
                key, f"write {{value: NUMBER, source: NAME}}, not {_kind(value)}: every number has a source"
            )
        entry = self.known(value, key, ("value", "source"))
        figure = entry.get("value")
        if isinstance(figure, str):
            raise self.fail(
                f"{key}.value", f"a number in a string: {figure!r} (YAML needs 1.5e+12 or 1_500_000_000_000)"
            )
        if isinstance(figure, bool) or not isinstance(figure, (int, float)):
            raise self.fail(f"{key}.value", f"a number is needed here, not {_kind(figure)}")
        if not math.isfinite(figure) or figure <= 0:
            raise self.fail(f"{key}.value", f"{figure} is not a positive, finite number")
        if "source" not in entry:
            raise self.fail(f"{key}.source", "missing: every number has a source")
        source = self.text(entry["source"], f"{key}.source")
        if source not in self.sources:
            raise self.fail(f"{key}.source", f"{source!r} is not in the sources of this file")
        return float(figure), self.sources[source]

    def device(self, value: Any, position: int) -> Spec:
        raw_id = value.get("id") if isinstance(value, dict) else None
        key = f"devices.{raw_id}" if isinstance(raw_id, str) else f"devices[{position}]"
        entry = self.known(value, key, _DEVICE_KEYS)
        for name in _REQUIRED_KEYS:
            if name not in entry:
                raise self.fail(f"{key}.{name}", "missing")
        texts = {name: self.text(entry[name], f"{key}.{name}") for name in sorted(_TEXT_KEYS)}
        if not _ID.fullmatch(texts["id"]):
            raise self.fail(f"{key}.id", f"{texts['id']!r}: lower-case words joined by hyphens are needed")
        unified = entry.get("is_unified_memory", False)
        if not isinstance(unified, bool):
            raise self.fail(f"{key}.is_unified_memory", f"true or false is needed here, not {_kind(unified)}")
        names = entry["device_names"]
        if not isinstance(names, list) or not names:
            raise self.fail(f"{key}.device_names", f"a list of at least one name is needed here, not {_kind(names)}")

        numbers: dict[str, float] = {}
        sources: dict[str, str] = {}
        for name in sorted(_NUMBER_KEYS & entry.keys()):
            numbers[name], sources[name] = self.number(entry[name], f"{key}.{name}")
        peaks: dict[str, dict[str, float]] = {}
        for name in sorted(_PEAK_KEYS & entry.keys()):
            peaks[name] = {}
            for dtype, figure in self.known(entry[name], f"{key}.{name}", _DTYPES).items():
                peaks[name][dtype], sources[f"{name}.{dtype}"] = self.number(figure, f"{key}.{name}.{dtype}")
        return Spec(
            id=texts["id"],
            name=texts["name"],
            vendor=texts["vendor"],
            device_names=tuple(self.text(item, f"{key}.device_names") for item in names),
            is_unified_memory=unified,
            memory_bytes=numbers["memory_bytes"],
            bandwidth_bytes_per_s=numbers["bandwidth_bytes_per_s"],
            last_level_cache_bytes=numbers.get("last_level_cache_bytes"),
            dense_peak_flops_per_s=peaks.get("dense_peak_flops_per_s", {}),
            sparse_peak_flops_per_s=peaks.get("sparse_peak_flops_per_s", {}),
            source=sources["bandwidth_bytes_per_s"],
            sources=sources,
        )


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.60}"


def _load_file(file: Path) -> list[Spec]:
    reader = _Reader(file=file, sources={})
    document = reader.known(_parse(file), "file", _FILE_KEYS)
    for name in sorted(_FILE_KEYS):
        if name not in document:
            raise reader.fail(name, "missing")
    if document["schema"] != SCHEMA or isinstance(document["schema"], bool):
        raise reader.fail("schema", f"{document['schema']!r} is not known; this version reads {SCHEMA}")
    raw_sources = document["sources"]
    if not isinstance(raw_sources, dict) or not raw_sources:
        raise reader.fail("sources", f"a mapping of short names to documents is needed here, not {_kind(raw_sources)}")
    for name, words in raw_sources.items():
        reader.sources[reader.text(name, "sources")] = reader.text(words, f"sources.{name}")
    if not isinstance(document["devices"], list) or not document["devices"]:
        raise reader.fail("devices", f"a list of devices is needed here, not {_kind(document['devices'])}")
    return [reader.device(value, position) for position, value in enumerate(document["devices"])]


def _parse(file: Path) -> Any:
    """One YAML document of plain mappings, lists and scalars; no anchors, no tags, no key twice."""
    try:
        text = file.read_text(encoding="utf-8")
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise RooflineUsageError(
                    f"{file}: line {_line(event.start_mark)}: YAML anchors and aliases are not allowed: "
                    "each number stands beside its own source"
                )
        node = yaml.compose(text, Loader=_LOADER)
        if node is not None:
            _check_keys(file, node, "")
        return yaml.load(text, Loader=_LOADER)
    except (OSError, UnicodeDecodeError) as error:
        raise RooflineUsageError(f"{file}: cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, RooflineUsageError):
            raise
        raise RooflineUsageError(f"{file}: is not valid YAML: {error}") from error


def _line(mark: Any) -> int | str:
    return "?" if mark is None else int(mark.line) + 1


def _check_keys(file: Path, node: yaml.Node, path: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _check_keys(file, item, f"{path}[{position}]")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            here = f"{path}.{name}" if path else name
            if name in seen:
                raise RooflineUsageError(f"{file}: {here}: given twice (line {_line(key.start_mark)})")
            seen.add(name)
            _check_keys(file, value, here)
