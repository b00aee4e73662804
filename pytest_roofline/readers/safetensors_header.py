"""The header of a safetensors file: names, dtypes, shapes and sizes, without reading a weight.

Eight bytes of length, then JSON of at most 100 MB, then the data without a hole: the format of the ``safetensors``
package, whose ``safe_open`` is not used: it maps the file, so that it can read neither a header that a server sends nor
say which tensor a truncated file misses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.readers.file_window import FileWindow
from pytest_roofline.readers.json_file import parse_json_object

LARGEST_HEADER_BYTES = 100_000_000
"""The format's own limit."""
LARGEST_WIDE_HEADER_BYTES = 2**23
"""Of one that is not ASCII: a single character may make every other take four bytes in memory."""
MOST_DIMENSIONS = 32

_BITS = {
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8},
    **{"F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8},
    **{"F16": 16, "BF16": 16, "I16": 16, "U16": 16, "F32": 32, "I32": 32, "U32": 32},
    **{"F64": 64, "I64": 64, "U64": 64, "C64": 64},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsEntry:
    """One tensor as the header lists it."""

    name: str
    dtype: str
    """The format's word: ``BF16``, ``F8_E4M3``, ``I32``."""
    shape: tuple[int, ...]
    size_bytes: int

    @property
    def elements(self) -> int:
        """Stored elements: of a packed tensor fewer than it has weights."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsHeader:
    """What the header of one file says."""

    file: str
    tensors: tuple[SafetensorsEntry, ...]


def read_safetensors_header(window: FileWindow) -> SafetensorsHeader:
    """Read the header that a window opens on.

    A length beyond the file or beyond 100 MB, text that is no JSON, a name given twice, data that overlap, leave a hole
    or end elsewhere than the file: `RooflineUsageError` that names the file and the key.
    """
    file = window.name
    if window.size_bytes < 8:
        raise RooflineUsageError(f"{file}: {window.size_bytes} bytes: too short for a safetensors file")
    length = int.from_bytes(window.read(0, 8), "little")
    if length > LARGEST_HEADER_BYTES:
        raise RooflineUsageError(
            f"{file}: header length: {length:,} bytes; safetensors allow {LARGEST_HEADER_BYTES:,}: no such file"
        )
    if 8 + length > window.size_bytes:
        raise RooflineUsageError(
            f"{file}: header length: reaches to byte {8 + length:,}, the file has {window.size_bytes:,}: truncated"
        )
    entries = []
    data = window.read(8, length)
    if length > LARGEST_WIDE_HEADER_BYTES and not data.isascii():
        raise RooflineUsageError(
            f"{file}: header length: {length:,} bytes; over {LARGEST_WIDE_HEADER_BYTES:,} only ASCII is read"
        )
    for name, value in parse_json_object(data, file).items():
        if name != "__metadata__":
            entries.append(_read_entry(file, name, value))
    _check_places(file, entries, window.size_bytes - 8 - length)
    return SafetensorsHeader(file=file, tensors=tuple(entry for entry, _, _ in entries))


def _read_entry(file: str, name: str, value: Any) -> tuple[SafetensorsEntry, int, int]:
    shown = f"{file}: {one_line(name)}"
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise RooflineUsageError(f"{shown}: dtype, shape and data_offsets are needed, not {value!r:.100}")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    bits = _BITS.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        raise RooflineUsageError(f"{shown}: dtype: {dtype!r:.60} is not known; {', '.join(_BITS)} are")
    for key, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
            raise RooflineUsageError(f"{shown}: {key}: {numbers!r:.100}; whole numbers from 0 are needed")
    if len(shape) > MOST_DIMENSIONS:
        raise RooflineUsageError(f"{shown}: shape: {len(shape)} dimensions; at most {MOST_DIMENSIONS} are believed")
    if len(offsets) != 2:
        raise RooflineUsageError(f"{shown}: data_offsets: {offsets!r:.100}; a begin and an end are needed")
    size_bits = math.prod(shape) * bits
    if size_bits % 8 or offsets[1] - offsets[0] != size_bits // 8:
        raise RooflineUsageError(
            f"{shown}: data_offsets: {offsets[1] - offsets[0]:,} bytes, where {dtype} of {shape!r:.100} takes "
            + (f"{size_bits // 8:,}" if size_bits < 2**66 else "more than any file holds")
        )
    entry = SafetensorsEntry(name=name, dtype=dtype, shape=tuple(shape), size_bytes=size_bits // 8)
    return entry, offsets[0], offsets[1]


def _check_places(file: str, entries: list[tuple[SafetensorsEntry, int, int]], data_bytes: int) -> None:
    """The data of all tensors follow each other without a hole and end with the file, as the format demands."""
    reached = 0
    for entry, begin, end in sorted(entries, key=lambda each: each[1:]):
        if begin != reached:
            problem = "overlaps the tensor before it" if begin < reached else "leaves a hole before it"
            raise RooflineUsageError(
                f"{file}: {one_line(entry.name)}: data_offsets: begins at {begin:,} of the data and {problem}"
            )
        if end > data_bytes:
            raise RooflineUsageError(
                f"{file}: {one_line(entry.name)}: ends at byte {end:,} of the data, the file has {data_bytes:,}: "
                "truncated"
            )
        reached = end
    if reached < data_bytes:
        raise RooflineUsageError(f"{file}: {data_bytes - reached:,} bytes behind the last tensor: a damaged file")
