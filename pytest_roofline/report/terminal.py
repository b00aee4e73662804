"""The table at the end of a run, from the records that test reports carry. Plain text, 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.reruns import rerun_lines
from pytest_roofline.units import format_bytes, format_fraction, format_rate, format_seconds
from pytest_roofline.verdict import ALLOWED

WIDTH = 80
HEADINGS = ("test", "device", "step", "tok/s", "B/step", "fraction", "bound", "verdict")
Records = Mapping[str, Mapping[str, Any]]
"""By node id: what `properties_of` put under ``roofline``."""


def header_line(mode: str, device_id: str = "", device_name: str = "", *, is_named: bool = False) -> str:
    """Which device, which mode; `is_named` where the user asked for that device."""
    if mode == "off":
        return "roofline: off, steps run once and nothing is measured"
    line = f"roofline: {device_id} ({device_name}), mode {mode}"
    return line if is_named or device_id != "cpu" else f"{line}: no accelerator here, measured on the CPU"


def summary_lines(records: Records) -> list[str]:
    """Table, notes, attempts of rerun tests, one line per inconclusive one, how many were not judged; empty without."""
    rows = [row for node_id, record in records.items() for row in _rows(node_id, record)]
    lines = [*_table(rows), *_notes(records)] if rows else []
    doubtful = [node_id for node_id, record in records.items() if record["verdict"] == "inconclusive"]
    lines += rerun_lines(records)
    lines += [f"INCONCLUSIVE {node_id}: {records[node_id]['reason']}" for node_id in doubtful]
    if doubtful:
        lines.append(f"{len(doubtful)} of {len(records)} not judged")
    return lines


def header_lines(records: Records, *, is_named: bool) -> list[str]:
    """The header from what was measured: under xdist nobody collected, so nobody could show it before."""
    devices = [(record["mode"], result["device"]) for record in records.values() for result in record["results"]]
    lines = (header_line(mode, device["id"], device["name"], is_named=is_named) for mode, device in devices)
    return list(dict.fromkeys(lines))


# -- the table ------------------------------------------------------------------------------------------------------


def _rows(node_id: str, record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    results = record["results"]
    name = _name(node_id)
    if not results:
        yield (name, *[""] * (len(HEADINGS) - 2), record["verdict"])
    for result in results:
        label = name if len(results) == 1 else f"{name}: {result['label']}"
        yield (label, *_cells(result))


def _cells(result: Mapping[str, Any]) -> tuple[str, ...]:
    traffic, ceiling, allowed = result["traffic"] or {}, result["ceiling"] or {}, _allowed(result)
    return (
        result["device"]["id"],
        _shown(result["step_s"], format_seconds),
        _shown(result["tokens_per_s"], format_rate),
        _shown(traffic.get("bytes_per_pass"), format_bytes),
        _shown(result["fraction"], format_fraction),
        ceiling.get("bound", "-"),
        result["standing"] + (f" ({len(allowed)} allowed)" if allowed else ""),
    )


def _allowed(result: Mapping[str, Any]) -> Sequence[str]:
    """Checks that would have decided; absent from the records of earlier versions."""
    names: Sequence[str] = result.get("allowed", ())
    return names


def _shown(value: float | None, text: Any) -> str:
    return "-" if value is None else text(value)


def _name(node_id: str) -> str:
    return node_id.split("::", 1)[-1]


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Figures in columns; a test whose name is too long for its column has a line to itself."""
    widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(len(HEADINGS))]
    room = max(len(HEADINGS[0]), WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1))
    widths[0] = min(widths[0], room)
    for row in (HEADINGS, *rows):
        name = row[0]
        if len(name) > widths[0]:
            yield _cut(name)
            name = ""
        # Words are left-aligned, figures right-aligned.
        cells = [
            cell.ljust(width) if column in (0, 1, 6, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip((name, *row[1:]), widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


# -- notes ----------------------------------------------------------------------------------------------------------


def _notes(records: Records) -> Iterator[str]:
    """Extra bytes and notes of results; a note that several tests share is said once."""
    tests: dict[str, list[str]] = {}
    for node_id, record in records.items():
        for result in record["results"]:
            for note in (*_decisions(result), *_extra(result), *_disagreements(result), *result["notes"]):
                names = tests.setdefault(note, [])
                if _name(node_id) not in names:
                    names.append(_name(node_id))
    for note, names in tests.items():
        who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        yield from textwrap.wrap(f"{who}: {note}", WIDTH, initial_indent="  ", subsequent_indent="    ")


def _disagreements(result: Mapping[str, Any]) -> Iterator[str]:
    """Bytes that were declared otherwise than seen: a figure that nobody asked about, and that makes others wrong."""
    for finding in result["findings"]:
        if finding["check"] == "bytes-disagree" and finding["severity"] == "note":
            yield finding["message"].splitlines()[0]


def _decisions(result: Mapping[str, Any]) -> Iterator[str]:
    """What would have decided this result, had its test not allowed it."""
    names = _allowed(result)
    for finding in result["findings"]:
        if finding["check"] in names and finding["message"].endswith(ALLOWED):
            message = finding["message"].removesuffix(ALLOWED).splitlines()[0]
            yield f"{finding['check']} allowed: {message}"


def _extra(result: Mapping[str, Any]) -> Iterator[str]:
    traffic = result["traffic"] or {}
    for name, extra_bytes in traffic.get("extra", ()):
        yield f"{name}: {format_bytes(extra_bytes)} more per step"
