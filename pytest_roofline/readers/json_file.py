"""JSON of somebody else's, read without trust: bounded size, depth and number of parts, no key twice, no NaN."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, NoReturn

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.readers.fields import shown
from pytest_roofline.readers.file_window import leads_nowhere

LARGEST_BYTES = 16 * 1024 * 1024
"""No config is larger; the largest known have some hundred kilobytes."""
MOST_MARKS = 2**21
"""Commas, braces and brackets of one JSON text, which bound what it takes in memory: some 250,000 tensors."""
LONGEST_DIGITS = 30
"""Whole numbers with more digits become floats: no size has them, and very long ones take quadratic time."""


def read_json_object(file: Path, *, largest_bytes: int = LARGEST_BYTES) -> dict[str, Any]:
    """The object that a JSON file holds. Errors name the file, and the key where there is one.

    Raises RooflineUsageError for what cannot be read (a missing file, a loop of links, a pipe), is too large, is no
    UTF-8 or JSON, is nested too deep, has a key twice or NaN, or is no object.
    """
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RooflineUsageError(f"{file}: is no file")
        if status.st_size > largest_bytes:
            raise RooflineUsageError(
                f"{file}: {status.st_size:,} bytes: a config of over {largest_bytes:,} is not read"
            )
        data = file.read_bytes()[: largest_bytes + 1]
    except RooflineUsageError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links in Python before 3.13; a null byte
        if isinstance(error, OSError) and leads_nowhere(file, error):
            raise RooflineUsageError(f"{file}: a symbolic link that leads nowhere") from error
        raise RooflineUsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse_json_object(data, str(file))


def parse_json_object(data: bytes, file: str) -> dict[str, Any]:
    """The object in these bytes; `file` is what errors call it."""
    value = parse_json(data, file)
    if not isinstance(value, dict):
        raise RooflineUsageError(f"{file}: holds {shown(value)}: a JSON object is needed")
    return value


def parse_json(data: bytes, file: str, *, has_nonfinite: bool = False) -> Any:
    """Whatever these bytes hold. `has_nonfinite`: NaN and Infinity, which Python writes, are left to who uses them."""
    marks = sum(data.count(mark) for mark in (b",", b"{", b"["))
    if marks > MOST_MARKS:
        raise RooflineUsageError(f"{file}: JSON of {marks:,} parts; more than {MOST_MARKS:,} are not believed")

    def refuse(word: str) -> NoReturn:
        raise RooflineUsageError(f"{file}: holds {word}, which is no number")

    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=lambda pairs: _once(pairs, file),
            parse_constant=float if has_nonfinite else refuse,
            parse_int=_whole,
        )
    except RooflineUsageError:
        raise
    except UnicodeDecodeError as error:
        raise RooflineUsageError(f"{file}: is not UTF-8 text (byte {error.start:,})") from None
    except RecursionError:
        raise RooflineUsageError(f"{file}: is nested too deep") from None
    except json.JSONDecodeError as error:
        raise RooflineUsageError(f"{file}: is not valid JSON: line {error.lineno}: {error.msg}") from None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_DIGITS else float(digits)


def _once(pairs: list[tuple[str, Any]], file: str) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise RooflineUsageError(f"{file}: {one_line(name, 60)}: given twice")
            seen.add(name)
    return made
