"""One object or row of a tool's file, asked for by key: what is missing or absurd names file, row and key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line

LARGEST = 1e18
"""No rate, count, size or time in a file is larger."""
SMALLEST = 1e-18
"""Nor is one smaller: it is what is left of a zero."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A mapping and where it stands. `is_text`: its numbers are words, as in CSV and SQL."""

    where: str
    values: Mapping[str, Any]
    is_text: bool = False

    def fail(self, key: str, problem: str) -> RooflineUsageError:
        """The error that names file, row and key."""
        return RooflineUsageError(f"{self.where}: {one_line(key, 80)}: {problem}")

    def has(self, key: str) -> bool:
        """Whether there is a value: present, not null, not an empty word."""
        return self.values.get(key) not in (None, "")

    def part(self, key: str) -> Entry:
        """The object under a key. Raises RooflineUsageError where it is none."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.fail(key, f"{_shown(value)}: a JSON object is needed")
        return Entry(where=f"{self.where}, {one_line(key, 40)}", values=value, is_text=self.is_text)

    def text(self, key: str) -> str | None:
        """A word, stripped; None where there is none."""
        value = self.values.get(key)
        return value.strip() or None if isinstance(value, str) else None

    def number(self, key: str) -> float | None:
        """A finite number; None where there is no value."""
        if not self.has(key):
            return None
        return self._number(key, self.values[key])

    def positive(self, key: str) -> float:
        """A positive number. Raises RooflineUsageError where it is missing or anything else."""
        value = self.number(key)
        if value is None:
            raise self.fail(key, "missing: no figure to judge without it")
        if not value > 0:
            raise self.fail(key, f"{value:g}: a positive number is needed")
        return value

    def count_or_none(self, key: str) -> int | None:
        """A whole number from 1; None for whatever else is there: what nobody stated."""
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if 0 < value <= LARGEST else None

    def positive_or_none(self, key: str) -> float | None:
        """A positive number; None where there is no value, or zero for one that was not measured."""
        value = self.number(key)
        if value is None or value == 0:
            return None
        return self.positive(key)

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number from 0."""
        value = self.number(key)
        if value is None:
            if default is None:
                raise self.fail(key, "missing: a whole number from 0 is needed")
            return default
        if value < 0 or value != int(value):
            raise self.fail(key, f"{value:g}: a whole number from 0 is needed")
        return int(value)

    def numbers(self, key: str) -> list[float]:
        """A list of positive numbers; empty where there is none."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fail(key, f"{_shown(value)}: a list of numbers is needed")
        found = [self._number(key, item) for item in value]
        if any(item <= 0 for item in found):
            raise self.fail(key, f"{min(found):g}: positive numbers are needed")
        return found

    def _number(self, key: str, value: Any) -> float:
        if self.is_text and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(key, f"{_shown(value)}: a number is needed")
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise self.fail(key, f"{float(value):g}: a finite number of at most {LARGEST:g} is needed")
        return float(value) if abs(value) >= SMALLEST else 0.0


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return one_line(repr(value), 40)
