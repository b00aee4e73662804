"""YAML that people wrote, as nodes with their places: plain mappings, lists and scalars, and nothing clever.

Anchors, aliases, merges and tags are refused, and so is a key that stands twice. What no person writes (a megabyte, a
hundred thousand values, a mapping in a mapping thirty times over) is refused before it is built, so that a hostile
file costs little. Every error names the file.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pytest_roofline.errors import RooflineUsageError

LARGEST_BYTES = 2**20
"""No file of data that people write is larger; what is, is not one."""
_MOST_VALUES = 100_000
_DEEPEST = 30
# Also keeps a whole number short enough to be printed: Python refuses to from 4,300 digits on.
_LONGEST_VALUE = 2_000
# YAML 1.1 reads 010 as eight and 1:30 as ninety: whoever writes that means something else.
_MISREAD = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")
# The C parser where PyYAML has it: it is ten times as fast, and just as safe.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Genre:
    """What kind of file this is, in the words of its errors."""

    name: str
    why_no_anchors: str
    is_decimal: bool = False
    """Whether what YAML 1.1 reads as a number of another base is refused here; else by who reads the file."""


def read_bytes(file: Path, genre: Genre, name: str | None = None) -> bytes:
    """What is in one file, which errors call `name`. A folder, a device or a file of over a megabyte is an error."""
    name = name or str(file)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise RooflineUsageError(f"{name}: is not a file: a {genre.name} is a YAML file")
        with file.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise RooflineUsageError(f"{name}: cannot be read: {error}") from error
    if len(content) > LARGEST_BYTES:
        raise RooflineUsageError(f"{name}: no {genre.name} is over {LARGEST_BYTES:,} bytes, and this one is")
    return content


def decoded(file: Path, content: bytes) -> str:
    """The text, without a byte order mark and with the line ends of Unix; what is not UTF-8 is an error."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise RooflineUsageError(f"{file}: cannot be read: {error}") from error


def parsed(file: Path, text: str, genre: Genre, build: Callable[[yaml.Node, Any], Any]) -> Any:
    """What `build(node, loader)` makes of the one document in a text; None where there is none."""
    try:
        _check_events(file, text, genre)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_keys(file, node, "")
            return build(node, loader)
        finally:
            loader.dispose()
    except RooflineUsageError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        hint = f" ({genre.why_no_anchors})" if "while scanning an alias" in str(error) else ""
        raise RooflineUsageError(f"{file}: is not valid YAML: {error}{hint}") from error


def line_of(mark: Any) -> int | str:
    """The line of a mark, the first being 1; "?" where the parser kept none."""
    return "?" if mark is None else int(mark.line) + 1


def _check_events(file: Path, text: str, genre: Genre) -> None:
    """What is refused before anything is built from it."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        problem = ""
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            problem = f"YAML anchors and aliases are not allowed: {genre.why_no_anchors}"
        elif getattr(event, "tag", None) is not None:
            problem = f"YAML tags are not allowed: a {genre.name} is plain data"
        elif depth > _DEEPEST:
            problem = f"nested deeper than {_DEEPEST} levels: no {genre.name} is"
        elif count > _MOST_VALUES:
            problem = f"more than {_MOST_VALUES:,} values: no {genre.name} has so many"
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > _LONGEST_VALUE:
            problem = f"a value of {len(event.value):,} characters: none is over {_LONGEST_VALUE:,}"
        elif genre.is_decimal and isinstance(event, yaml.ScalarEvent) and _is_misread(event):
            problem = f"{event.value}: YAML reads a number of base 8 or 60 here: write it in decimal, or in quotes"
        if problem:
            raise RooflineUsageError(f"{file}: line {line_of(event.start_mark)}: {problem}")


def _is_misread(event: yaml.ScalarEvent) -> bool:
    is_plain: bool = event.implicit[0]
    return is_plain and _MISREAD.fullmatch(event.value) is not None


def _check_keys(file: Path, node: yaml.Node, path: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _check_keys(file, item, f"{path}[{position}]")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = line_of(key.start_mark)
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                where = path or "file"
                raise RooflineUsageError(f"{file}: {where}: line {line}: a key is a word, not a collection or <<")
            name = str(key.value)
            here = f"{path}.{name}" if path else name
            if name in seen:
                raise RooflineUsageError(f"{file}: {here}: given twice (line {line})")
            seen.add(name)
            _check_keys(file, value, here)
