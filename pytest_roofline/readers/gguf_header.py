"""The header of a GGUF file: metadata and where each tensor lies, without reading a weight or keeping a vocabulary.

Layout by the GGUF specification, versions 1 to 3, either byte order. Of the metadata only what describes the model is
kept (``general.*``, ``split.*``, the architecture's own keys); the tokenizer's arrays, 100,000 strings and more, are
stepped over. The ``gguf`` package is not used here: its reader makes an array object of each of those strings, and
takes seconds and hundreds of megabytes for what this one does in a tenth of a second.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.readers.fields import beginning
from pytest_roofline.readers.file_window import FileWindow

LARGEST_HEADER_BYTES = 2**26
"""Headers are below 32 MB today; nothing is read beyond this, whatever a file claims."""
MOST_TENSORS = 2**18
MOST_KEYS = 2**16
MOST_STRINGS = 2**22
"""In all arrays together: the largest vocabulary of today has 0.8 million tokens and merges."""
LONGEST_NAME_BYTES = 512
"""Of a key or a tensor. GGML allows tensors 64; the format allows keys 65,535, and files have some dozens."""
LONGEST_KEPT = 2**16
"""Bytes of a text and entries of an array that are kept; longer ones are stepped over."""
MOST_KEPT = 2**22
"""In all of them together; what describes a model takes some thousand."""
LARGEST_ELEMENTS = 2**63 - 1

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_SKIPPED = ("tokenizer.",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """One tensor as the header lists it."""

    name: str
    shape: tuple[int, ...]
    """Rows first, as everybody else writes it: the file's own order is the reverse."""
    type: int
    """The number of the GGML type."""
    offset: int
    """From `GgufHeader.data_start`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What the header says."""

    file: str
    size_bytes: int
    version: int
    values: dict[str, Any]
    """Metadata that is kept; an array is a tuple."""
    tensors: tuple[TensorEntry, ...]
    alignment: int
    data_start: int

    def fail(self, key: str, problem: str) -> RooflineUsageError:
        """The error that names file and key."""
        return RooflineUsageError(f"{self.file}: {one_line(key)}: {problem}")


@dataclass(slots=True)
class _Cursor:
    """Walks forward through a window, holding one chunk."""

    window: FileWindow
    order: str = "<"
    narrow: bool = False
    """Version 1 counts in 32 bits."""
    position: int = 0
    strings: int = 0
    kept: int = 0
    held: bytes = b""
    held_from: int = 0
    structs: dict[str, struct.Struct] = field(default_factory=dict)

    def fail(self, key: str, problem: str) -> RooflineUsageError:
        return RooflineUsageError(f"{self.window.name}: {one_line(key)}: {problem}")

    def need(self, size_bytes: int, key: str) -> int:
        """Hold the next bytes; answers where they begin in `held`."""
        start = self.position - self.held_from
        if start >= 0 and start + size_bytes <= len(self.held):
            return start
        self.step(size_bytes, key)
        self.position -= size_bytes
        wanted = max(size_bytes, min(self.window.chunk_bytes, self.window.size_bytes - self.position))
        self.held, self.held_from = self.window.read(self.position, wanted), self.position
        if len(self.held) < size_bytes:
            raise self.fail(key, f"the file ended at byte {self.position + len(self.held):,} while it was read")
        return 0

    def step(self, size_bytes: int, key: str) -> None:
        """Go on without looking; past the end of the file or of what a header may be is an error."""
        end = self.position + size_bytes
        if end > self.window.size_bytes:
            raise self.fail(
                key,
                f"reaches to byte {end:,} of the header, the file has {self.window.size_bytes:,}: truncated or damaged",
            )
        if end > LARGEST_HEADER_BYTES:
            raise self.fail(key, f"a header of over {LARGEST_HEADER_BYTES:,} bytes is not believed")
        self.position = end

    def number(self, code: str, key: str) -> Any:
        packed = self.structs.get(code)
        if packed is None:
            packed = self.structs[code] = struct.Struct(self.order + code)
        start = self.need(packed.size, key)
        self.position += packed.size
        return packed.unpack_from(self.held, start)[0]

    def count(self, key: str) -> int:
        value: int = self.number("I" if self.narrow else "Q", key)
        return value

    def text(self, key: str, longest: int) -> str:
        length = self.count(key)
        if length > longest:
            raise self.fail(key, f"a text of {length:,} bytes; at most {longest:,} are allowed here")
        start = self.need(length, key)
        self.position += length
        try:
            return self.held[start : start + length].decode()
        except UnicodeDecodeError:
            raise self.fail(key, f"bytes that are no UTF-8 text before byte {self.position:,}") from None

    def step_over_strings(self, count: int, key: str) -> None:
        """Walk from length to length; the texts themselves are never made."""
        self.strings += count
        if self.strings > MOST_STRINGS:
            raise self.fail(key, f"{self.strings:,} texts; more than {MOST_STRINGS:,} are not believed")
        unpack, size = struct.Struct(self.order + ("I" if self.narrow else "Q")).unpack_from, 4 if self.narrow else 8
        while count:
            at = self.need(size, key)
            held, last = self.held, len(self.held) - size
            while count and at <= last:
                at += size + unpack(held, at)[0]
                count -= 1
            self.step(self.held_from + at - self.position, key)

    def value(self, key: str, kept: bool) -> Any:
        """The value of a key; None where it is stepped over."""
        kind = self.number("I", key)
        if kind == _ARRAY:
            return self.array(key, kept)
        if kind == _STRING:
            start = self.position
            length = self.count(key)
            if not self.keeps(kept, length):
                self.step(length, key)
                return None
            self.position = start
            return self.text(key, LONGEST_KEPT)
        if kind not in _SCALARS:
            raise self.fail(key, f"value of type {kind}; 0 to 12 are known")
        number = self.number(_SCALARS[kind], key)
        return bool(number) if kind == _BOOL else number

    def array(self, key: str, kept: bool) -> Any:
        kind, count = self.number("I", key), self.count(key)
        if kind == _STRING:
            self.step_over_strings(count, key)
            return None
        if kind not in _SCALARS:
            raise self.fail(key, f"an array of values of type {kind}; numbers and texts are known")
        if not self.keeps(kept, count):
            self.step(count * struct.calcsize("=" + _SCALARS[kind]), key)
            return None
        packed = struct.Struct(f"{self.order}{count}{_SCALARS[kind]}")
        start = self.need(packed.size, key)
        self.position += packed.size
        numbers = packed.unpack_from(self.held, start)
        return tuple(map(bool, numbers)) if kind == _BOOL else numbers

    def keeps(self, kept: bool, entries: int) -> bool:
        """Whether so many bytes or entries of a value that describes the model are kept."""
        self.kept += entries if kept and entries <= LONGEST_KEPT else 0
        return kept and entries <= LONGEST_KEPT and self.kept <= MOST_KEPT


def read_gguf_header(window: FileWindow) -> GgufHeader:
    """Read the header that a window opens on.

    A wrong magic number, an unknown version, a text or array beyond the end of the file, a name given twice, an
    alignment that is no power of two: `RooflineUsageError` that names the file and the key.
    """
    cursor = _Cursor(window)
    if window.size_bytes == 0:
        raise RooflineUsageError(f"{window.name}: an empty file")
    start = cursor.need(min(4, window.size_bytes), "magic")
    if (magic := cursor.held[start : start + 4]) != b"GGUF":
        raise RooflineUsageError(f"{window.name}: no GGUF file: it begins with {beginning(magic)}, not 'GGUF'")
    cursor.position = 4
    version = cursor.number("I", "version")
    if version and version & 0xFFFF == 0:  # written in the other byte order
        version, cursor.order = int.from_bytes(version.to_bytes(4, "little"), "big"), ">"
        cursor.structs.clear()
    if version not in (1, 2, 3):
        raise cursor.fail("version", f"{version}; 1 to 3 are known")
    cursor.narrow = version == 1
    tensors, keys = cursor.count("tensor_count"), cursor.count("metadata_kv_count")
    if tensors > MOST_TENSORS:
        raise cursor.fail("tensor_count", f"{tensors:,} tensors; more than {MOST_TENSORS:,} are not believed")
    if keys > MOST_KEYS:
        raise cursor.fail("metadata_kv_count", f"{keys:,} keys; more than {MOST_KEYS:,} are not believed")
    values = _read_values(cursor, keys)
    entries = tuple(_read_entry(cursor, index, tensors) for index in range(tensors))
    for name, times in Counter(entry.name for entry in entries).items():
        if times > 1:
            raise cursor.fail(name, f"{times} tensors have this name")
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 2**20 or alignment & (alignment - 1):
        raise cursor.fail("general.alignment", f"{alignment!r:.40}; a power of two up to 2**20 is needed")
    return GgufHeader(
        file=window.name,
        size_bytes=window.size_bytes,
        version=version,
        values=values,
        tensors=entries,
        alignment=alignment,
        data_start=math.ceil(cursor.position / alignment) * alignment,
    )


def _read_values(cursor: _Cursor, keys: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for index in range(keys):
        key = cursor.text(f"key {index + 1} of {keys}", LONGEST_NAME_BYTES)
        if key in values:
            raise cursor.fail(key, "this key is given twice")
        values[key] = cursor.value(key, kept=not key.startswith(_SKIPPED))
    return {key: value for key, value in values.items() if value is not None}


def _read_entry(cursor: _Cursor, index: int, tensors: int) -> TensorEntry:
    which = f"tensor {index + 1} of {tensors}"
    name = cursor.text(which, LONGEST_NAME_BYTES)
    if not name:
        raise cursor.fail(which, "a tensor without a name")
    dimensions = cursor.number("I", name)
    if dimensions > 4:
        raise cursor.fail(name, f"{dimensions} dimensions; at most 4 are known")
    shape = tuple(cursor.count(name) for _ in range(dimensions))[::-1] or (1,)
    if min(shape) < 1 or math.prod(shape) > LARGEST_ELEMENTS:
        raise cursor.fail(name, f"shape {shape}: sizes from 1, and at most 2**63 elements, are needed")
    kind, offset = cursor.number("I", name), cursor.number("Q", name)
    return TensorEntry(name=name, shape=shape, type=kind, offset=offset)
