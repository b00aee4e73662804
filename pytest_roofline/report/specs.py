"""Specs as text: lists in columns, one entry with every figure and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_flops_per_s

_LONGEST_TEXT = 2000


def list_lines(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """The entries of each kind, id first; of a device its memory and rate too."""
    for kind, entries in rows.items():
        yield f"{kind} ({len(entries)})"
        width = max((len(one_line(str(entry["id"]))) for entry in entries), default=0)
        for entry in entries:
            figures = ""
            if "memory_bytes" in entry:
                figures = f"{format_bytes(entry['memory_bytes']):>8}  "
                figures += f"{format_bytes_per_s(entry['bandwidth_bytes_per_s']):>9}  "
            yield f"  {one_line(str(entry['id'])):<{width}}  {figures}{one_line(str(entry['name']))}"


def entry_lines(described: Mapping[str, Any]) -> Iterator[str]:
    """One entry: its words, then each figure with its source; what a model's publisher says beside the exact count."""
    for key, value in described.items():
        if key not in ("figures", "published"):
            text = ("; " if key == "overheads" else ", ").join(map(_item, value)) if _is_list(value) else str(value)
            yield f"{one_line(key):<12} {one_line(text, _LONGEST_TEXT)}"
    for key, figure in described["figures"].items():
        said = f"; published as {described['published']}" if key == "parameters" and "published" in described else ""
        yield one_line(f"{key}: {_shown(key, figure['value'])} ({figure['source']}){said}", _LONGEST_TEXT)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _item(value: object) -> str:
    """One item of a list in words: of an overhead ``20 bits per group of 128``, of other mappings ``key value``."""
    if not isinstance(value, Mapping):
        return str(value)
    plain = {key: item.get("value", item) if isinstance(item, Mapping) else item for key, item in value.items()}
    if "bits" in plain and "per" in plain:
        elements = f" of {plain['elements']}" if "elements" in plain else ""
        return f"{plain['bits']} bits per {plain['per']}{elements}"
    return ", ".join(f"{key} {item}" for key, item in plain.items())


def _shown(key: str, value: float) -> str:
    if key.endswith("bytes_per_s"):
        return format_bytes_per_s(value)
    if "flops_per_s" in key:
        return format_flops_per_s(value)
    if key.endswith("bytes"):
        return format_bytes(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
