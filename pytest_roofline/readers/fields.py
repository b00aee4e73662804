"""One model's config as data that is asked for by key: what is missing or absurd names file and key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError, one_line

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
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What holds where a key is missing (not where it is null): the defaults of the model's own config class."""

    def with_defaults(self, defaults: Mapping[str, Any]) -> Fields:
        """The same fields over `defaults`; those given earlier go before."""
        return replace(self, defaults={**defaults, **self.defaults})

    def get(self, name: str) -> Any:
        """The raw value: what is written, else the default; None for null and for neither."""
        return self.values[name] if name in self.values else self.defaults.get(name)

    def either(self, *names: str) -> str:
        """Of several spellings of a key the first that is written, else the first that has a default."""
        given = [name for name in names if name in self.values] or [name for name in names if name in self.defaults]
        return given[0] if given else names[0]

    def key(self, name: str) -> str:
        """The full path of a key, for errors."""
        return f"{self.path}.{name}" if self.path else name

    def fail(self, name: str, problem: str) -> RooflineUsageError:
        """The error that names file and key."""
        return RooflineUsageError(f"{self.file}: {one_line(self.key(name))}: {problem}")

    def has(self, name: str) -> bool:
        """Whether the key has a value: written or by default, and not null."""
        return self.get(name) is not None

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 to 2**40; `default` where the key is missing or null, an error without one."""
        value = self.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: the bytes of a pass cannot be counted without it")
            return default
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
            raise self.fail(name, f"{shown(value)}: a whole number from 1 to 2**40 is needed")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """As `size`, and 0 is allowed."""
        value = self.get(name)
        if value is None and default == 0:
            return 0
        return 0 if value == 0 and not isinstance(value, bool) else self.size(name, default)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: true or false is needed")
            return default
        if not isinstance(value, bool):
            raise self.fail(name, f"{shown(value)}: true or false is needed")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: a text is needed")
            return default
        if not isinstance(value, str):
            raise self.fail(name, f"{shown(value)}: a text is needed")
        return value

    def items(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """A list."""
        value = self.get(name)
        if value is None:
            if default is None:
                raise self.fail(name, "missing: a list is needed")
            return default
        if not isinstance(value, (list, tuple)):
            raise self.fail(name, f"{shown(value)}: a list is needed")
        return list(value)

    def part(self, name: str) -> Fields:
        """A mapping inside this one."""
        value = self.get(name)
        if not isinstance(value, Mapping):
            raise self.fail(
                name, "missing: a mapping is needed" if value is None else f"{shown(value)}: a mapping is needed"
            )
        return Fields(file=self.file, values=value, path=self.key(name))


Family = Callable[[Fields], Architecture]
"""How one `model_type` is read. Each module of families has a dictionary ``FAMILIES`` of them."""


def shown(value: Any) -> str:
    """A value of a JSON file in a few words: a container by its size, a number too long to print by that fact."""
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return f"the text {value!r:.60}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return f"{value!r:.60}"
    except ValueError:  # an int of thousands of digits
        return "a number of very many digits"


def beginning(data: bytes) -> str:
    """The first bytes of a file for an error: as text where they are text, else as hexadecimal numbers."""
    text = data.decode("ascii", "replace")
    if all(character.isprintable() and character != "\ufffd" for character in text):
        return repr(text)
    return f"the bytes {data.hex(' ')}"
