"""Specs as text: lists in columns, one entry with every figure and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.units import format_bytes, format_bytes_per_s, format_flops_per_s


def list_lines(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """The entries of each kind, id first; of a device its memory and rate too."""
    for kind, entries in rows.items():
        yield f"{kind} ({len(entries)})"
        width = max((len(str(entry["id"])) for entry in entries), default=0)
        for entry in entries:
            figures = ""
            if "memory_bytes" in entry:
                figures = f"{format_bytes(entry['memory_bytes']):>8}  "
                figures += f"{format_bytes_per_s(entry['bandwidth_bytes_per_s']):>9}  "
            yield f"  {entry['id']:<{width}}  {figures}{entry['name']}"


def entry_lines(described: Mapping[str, Any]) -> Iterator[str]:
    """One entry: its words, then each figure with its source."""
    for key, value in described.items():
        if key != "figures":
            yield f"{key:<12} {', '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"
    for key, figure in described["figures"].items():
        yield f"{key}: {_shown(key, figure['value'])} ({figure['source']})"


def _shown(key: str, value: float) -> str:
    if key.endswith("bytes_per_s"):
        return format_bytes_per_s(value)
    if "flops_per_s" in key:
        return format_flops_per_s(value)
    if key.endswith("bytes"):
        return format_bytes(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
