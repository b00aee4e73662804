"""One JSON file of somebody else's, read without trust: bounded size and depth, no key twice, no NaN."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from pytest_roofline.errors import RooflineUsageError

LARGEST_BYTES = 16 * 1024 * 1024
"""No config is larger; the largest known have some hundred kilobytes."""

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
        text = file.read_bytes()[: largest_bytes + 1].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RooflineUsageError(f"{file}: is not UTF-8 text (byte {error.start:,})") from error
    except RooflineUsageError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links in Python before 3.13; a null byte
        raise RooflineUsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise RooflineUsageError(f"{file}: {key:.60}: given twice")
            found[key] = value
        return found

    def refuse(word: str) -> float:
        raise RooflineUsageError(f"{file}: holds {word}, which is no number")

    def whole(digits: str) -> int | float:
        return int(digits) if len(digits) <= LONGEST_DIGITS else float(digits)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse, parse_int=whole)
    except RecursionError as error:
        raise RooflineUsageError(f"{file}: is nested too deep") from error
    except json.JSONDecodeError as error:
        raise RooflineUsageError(f"{file}: is not valid JSON: line {error.lineno}: {error.msg}") from error
    if not isinstance(value, dict):
        raise RooflineUsageError(f"{file}: holds a {type(value).__name__}: a JSON object is needed")
    return value
