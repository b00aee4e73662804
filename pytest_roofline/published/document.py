"""A file of somebody else's, read without trust: text of bounded size, and what JSON or lines of JSON it holds."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.json_file import parse_json

LARGEST_BYTES = 64 * 1024 * 1024
"""Larger files hold every request's own tokens; tools write a summary beside them."""
MOST_ROWS = 10_000
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file holds. `values` are the objects of JSON: one, those of a list, or one of each line."""

    file: str
    text: str
    kind: Literal["json", "list", "lines", "text"]
    values: tuple[dict[str, Any], ...] = ()

    @property
    def top(self) -> dict[str, Any]:
        """The one object of a JSON file; empty for anything else."""
        return self.values[0] if self.kind == "json" else {}

    def fail(self, problem: str) -> RooflineUsageError:
        """The error that names the file."""
        return RooflineUsageError(f"{self.file}: {problem}")


def read_document(path: str) -> Document:
    """The file at `path`. Raises RooflineUsageError that names it (and the line) for whatever cannot be read."""
    text = _text(path)
    begin = text.lstrip()[:1]
    if begin not in ("{", "["):
        if not begin:
            raise RooflineUsageError(f"{path}: is empty")
        return Document(file=path, text=text, kind="text")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if begin == "{" and len(lines) > 1 and all(line.lstrip().startswith("{") for _, line in lines):
        _refuse_many(path, len(lines))
        return Document(file=path, text=text, kind="lines", values=tuple(_line(path, *line) for line in lines))
    value = parse_json(text.encode("utf-8", "surrogatepass"), path, has_nonfinite=True)
    if isinstance(value, dict):
        return Document(file=path, text=text, kind="json", values=(value,))
    if not isinstance(value, list) or not value:
        raise RooflineUsageError(f"{path}: holds an empty list: no result is in it")
    _refuse_many(path, len(value))
    for position, item in enumerate(value, 1):
        if not isinstance(item, dict):
            raise RooflineUsageError(f"{path}, row {position}: {item!r:.40} is no JSON object")
    return Document(file=path, text=text, kind="list", values=tuple(value))


def _line(path: str, number: int, line: str) -> dict[str, Any]:
    value = parse_json(line.encode("utf-8", "surrogatepass"), f"{path}, line {number}", has_nonfinite=True)
    if not isinstance(value, dict):
        raise RooflineUsageError(f"{path}, line {number}: {value!r:.40} is no JSON object")
    return value


def _refuse_many(path: str, rows: int) -> None:
    if rows > MOST_ROWS:
        raise RooflineUsageError(f"{path}: {rows:,} rows; {MOST_ROWS:,} are read at most")


def _text(path: str) -> str:
    file = Path(path)
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RooflineUsageError(f"{path}: is no file")
        if status.st_size > LARGEST_BYTES:
            raise RooflineUsageError(
                f"{path}: {status.st_size:,} bytes; results of over {LARGEST_BYTES:,} are not read: take the tool's "
                "summary, without single requests"
            )
        data = file.read_bytes()[: LARGEST_BYTES + 1]
    except RooflineUsageError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # ValueError: a null byte in the name
        raise RooflineUsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    encoding = "utf-16" if data[:2] in _UTF16 else "utf-8-sig"  # what shells of Windows redirect into files
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise RooflineUsageError(f"{path}: is not UTF-8 text (byte {error.start:,}){_other_text(data)}") from None
    if "\0" in text:
        raise RooflineUsageError(f"{path}: is no text: it holds a null character")
    return text


def _other_text(data: bytes) -> str:
    """What to do with text in the encoding that Excel and Windows take by default; nothing for what is no text."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    if not all(letter.isprintable() or letter.isspace() for letter in text):
        return ""
    return (
        ": it may be Windows-1252, which Excel takes for 'CSV'; save it as 'CSV UTF-8', or convert it: "
        "iconv -f WINDOWS-1252 -t UTF-8"
    )
