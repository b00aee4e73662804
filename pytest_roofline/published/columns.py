"""Any CSV: which column is what, and in which unit, is said on the command line.

``--columns tokens-per-s=tps,batch=bs,tpot=itl:ms``: names of figures, each with the column that holds it and, where it
is not the base unit, its unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.numerals import with_points
from pytest_roofline.published.reported import Reported, exactly
from pytest_roofline.published.tables import csv_entries, delimiter_of

NAME = "csv"
KEYS = ()
_RATES: Mapping[str, float] = MappingProxyType({"": 1.0, "tok/s": 1.0, "tokens/s": 1.0, "tok/min": 1 / 60})
_TIMES: Mapping[str, float] = MappingProxyType({"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
_COUNTS: Mapping[str, float] = MappingProxyType({"": 1.0})
FIGURES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "tokens-per-s": _RATES,
        "tpot": _TIMES,
        "batch": _COUNTS,
        "context": _COUNTS,
        "prompt": _COUNTS,
        "generated": _COUNTS,
        "tokens-per-pass": _COUNTS,
        "label": _COUNTS,
    }
)
"""Names of figures, and their units as factors to the base unit."""
_WHOLE = ("context", "prompt", "generated")
"""Figures that count tokens: a mean may have a fraction."""


def recognises(document: Document) -> bool:
    """Never: columns have to be named."""
    return False


def read(document: Document, columns: str | None) -> Iterator[Reported]:
    """One result for each row and each of its two rates."""
    chosen = _chosen(columns)
    if document.kind != "text":
        raise document.fail("is JSON, no CSV")
    delimiter = delimiter_of(document.text, {column for column, _ in chosen.values()})
    rows = csv_entries(document.text, document.file, delimiter=delimiter)
    for column, _ in chosen.values():
        for row in rows[:1]:
            if column not in row.values:
                raise RooflineUsageError(
                    f"{document.file}: no column {one_line(column, 40)!r}; there are "
                    + one_line(", ".join(map(repr, row.values)), 200)
                )
    numbers = dict.fromkeys(column for name, (column, _) in chosen.items() if name != "label")
    whole = {chosen[name][0] for name in _WHOLE if name in chosen}
    for number, row in enumerate(with_points(rows, numbers, whole, is_point=delimiter == ","), 1):
        yield from _row(row, chosen, number)


def _row(row: Entry, chosen: Mapping[str, tuple[str, float]], number: int) -> Iterator[Reported]:
    values = {
        name: value * scale
        for name, (column, scale) in chosen.items()
        if name != "label" and (value := row.number(column)) is not None
    }
    for name, value in values.items():
        if value < 0 or (value == 0 and name != "context"):
            raise row.fail(chosen[name][0], f"{value:g}: a positive number is needed")
    label = row.text(chosen["label"][0]) if "label" in chosen else None
    found = 0
    for name in ("tokens-per-s", "tpot"):
        if name not in values:
            continue
        found += 1
        batch, context = values.get("batch"), values.get("context")
        prompt, generated = values.get("prompt"), values.get("generated")
        if context is None and prompt is not None and generated is not None:
            context = prompt + generated / 2
        yield Reported(
            tool=NAME,
            label=one_line(label or f"row {number}", 40)
            + (" tpot" if name == "tpot" and "tokens-per-s" in values else ""),
            where=row.where,
            metric="tpot" if name == "tpot" else "decode" if prompt is None else "output",
            tokens_per_s=values[name] if name == "tokens-per-s" else 1.0 / values[name],
            batch=None if batch is None else exactly(batch),
            batch_source=f"column {one_line(chosen['batch'][0], 30)}" if batch is not None else "",
            context=context,
            prompt_tokens=prompt,
            generated_tokens=generated,
            tokens_per_pass=values.get("tokens-per-pass"),
            words=one_line(label or "", 60),
        )
    if not found:
        raise RooflineUsageError(f"{row.where}: neither a rate nor a time per token")


def _chosen(columns: str | None) -> dict[str, tuple[str, float]]:
    example = "such as --columns tokens-per-s=tps,batch=bs,tpot=itl:ms"
    if not columns:
        raise RooflineUsageError(f"--csv needs its columns named, {example}")
    chosen = {}
    for part in columns.split(","):
        name, equals, column = part.strip().partition("=")
        if name not in FIGURES or not equals or not column:
            raise RooflineUsageError(f"--columns: {part[:60]!r}: one of {', '.join(FIGURES)} = a column, {example}")
        column, _, unit = column.rpartition(":") if ":" in column else (column, "", "")
        units = FIGURES[name]
        if unit not in units:
            known = ", ".join(filter(None, units)) or "none"
            raise RooflineUsageError(f"--columns: {part[:60]!r}: no unit {unit!r} of {name}; known: {known}")
        chosen[name] = (column, units[unit])
    if not {"tokens-per-s", "tpot"} & set(chosen):
        raise RooflineUsageError(f"--columns: neither tokens-per-s nor tpot is named, {example}")
    return chosen
