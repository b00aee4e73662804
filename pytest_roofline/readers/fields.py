"""One model's config as data that is asked for by key: what is missing, of the wrong kind or absurd names file and key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError

LARGEST = 2**40
"""No size in a config is larger: a vocabulary, a width, a number of layers or experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """A mapping of a config (the whole, or a part such as ``text_config``) and where it was read."""

    file: str
    """The file's name, or the words for what else it is."""
    values: Mapping[str, Any]
    path: str = ""
    """The key that leads here: ``text_config``."""

    def key(self, name: str) -> str:
        """The full path of a key, for errors."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, problem: str) -> RooflineUsageError:
        """The error that names file and key."""
        return RooflineUsageError(f"{self.file}: {self.key(name)}: {problem}")

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(name) is not None

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 to 2**40; `default` where the key is missing or null, an error without one."""
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: the bytes of a pass cannot be counted without it")
            return default
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
            raise self.fail(name, f"{_shown(value)}: a whole number from 1 to 2**40 is needed")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """As `size`, and 0 is allowed."""
        return (
            0
            if self.values.get(name) == 0 and not isinstance(self.values.get(name), bool)
            else self.size(name, default)
        )

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: true or false is needed")
            return default
        if not isinstance(value, bool):
            raise self.fail(name, f"{_shown(value)}: true or false is needed")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: a text is needed")
            return default
        if not isinstance(value, str):
            raise self.fail(name, f"{_shown(value)}: a text is needed")
        return value

    def items(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """A list."""
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: a list is needed")
            return default
        if not isinstance(value, (list, tuple)):
            raise self.fail(name, f"{_shown(value)}: a list is needed")
        return list(value)

    def part(self, name: str) -> Fields:
        """A mapping inside this one."""
        value = self.values.get(name)
        if not isinstance(value, Mapping):
            raise self.fail(
                name, "missing: a mapping is needed" if value is None else f"{_shown(value)}: a mapping is needed"
            )
        return Fields(file=self.file, values=value, path=self.key(name))


Family = Callable[[Fields], Architecture]
"""How one `model_type` is read. Each module of families has a dictionary ``FAMILIES`` of them."""


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.60}"
