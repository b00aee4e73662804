"""Every format by its name: who renders it, and where it goes when no file is named."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.exports import (
    action_benchmark,
    bencher,
    github_annotations,
    github_summary,
    gitlab,
    openmetrics,
    pytest_benchmark,
)

Render = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format: `file` is where it is written by default, from where pytest was started; None: see `destination`."""

    name: str
    render: Render
    file: str | None = None


FORMATS: tuple[Format, ...] = (
    Format(name=github_summary.NAME, render=github_summary.github_summary),
    Format(name=github_annotations.NAME, render=github_annotations.github_annotations),
    Format(name=gitlab.NAME, render=gitlab.gitlab_metrics, file="metrics.txt"),
    Format(name=openmetrics.NAME, render=openmetrics.openmetrics, file="roofline-openmetrics.txt"),
    Format(
        name=action_benchmark.BIGGER, render=action_benchmark.bigger_is_better, file="roofline-bigger-is-better.json"
    ),
    Format(
        name=action_benchmark.SMALLER, render=action_benchmark.smaller_is_better, file="roofline-smaller-is-better.json"
    ),
    Format(name=bencher.NAME, render=bencher.bencher, file="roofline-bencher.json"),
    Format(name=pytest_benchmark.NAME, render=pytest_benchmark.pytest_benchmark, file="roofline-pytest-benchmark.json"),
)
NAMES = tuple(one.name for one in FORMATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One format that was asked for, and the file that was named with it."""

    format: Format
    file: str | None = None


def parse_exports(text: object, where: str) -> tuple[Export, ...]:
    """``NAME`` or ``NAME=FILE``, several separated by commas. RooflineUsageError that names `where` and the formats."""
    if not isinstance(text, str):
        raise RooflineUsageError(f"{where}: {text!r:.60} is not NAME or NAME=FILE")
    found: list[Export] = []
    files: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, file = (piece.strip() for piece in part.partition("="))
        known = next((one for one in FORMATS if one.name == name), None)
        if known is None:
            raise RooflineUsageError(f"{where}: {_unknown(name)}")
        if equals and not file:
            raise RooflineUsageError(f"{where}: {name}= names no file; write {name}=FILE, or {name} alone")
        other = files.setdefault(file or known.file or name, name)
        if other != name or any(one.format.name == name and one.file == (file or None) for one in found):
            raise RooflineUsageError(f"{where}: {other} and {name} would be written to the same file; name another one")
        found.append(Export(format=known, file=file or None))
    if not found:
        raise RooflineUsageError(f"{where}: no format is named; known are {', '.join(NAMES)}")
    return tuple(found)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, NAMES, n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"{one_line(name, 60)!r} is no format of an export{meant} Known are {', '.join(NAMES)}"
