"""The table at the end of a run, from the records that test reports carry: lines of coloured words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.report.cells import printable, prose, wrapped
from pytest_roofline.report.table import Line, Row, table_lines, text_line
from pytest_roofline.reruns import rerun_lines
from pytest_roofline.units import format_bytes, format_fraction, format_rate, format_seconds
from pytest_roofline.verdict import ALLOWED

WIDTH = 80
_WIDEST_NOTE = 120
"""Longer lines of prose are hard to read."""
Records = Mapping[str, Mapping[str, Any]]
"""By node id: what `properties_of` put under ``roofline``."""


def header_line(mode: str, device_id: str = "", device_name: str = "", *, is_named: bool = False) -> str:
    """Which device, which mode; `is_named` where the user asked for that device."""
    if mode == "off":
        return "roofline: off, steps run once and nothing is measured"
    line = f"roofline: {one_line(device_id)} ({one_line(device_name)}), mode {mode}"
    if is_named or device_id != "cpu":
        return line
    if mode == "require":
        return f"{line}: no accelerator here, and tests that do not name the CPU are refused (--roofline-device=cpu)"
    return f"{line}: no accelerator here, measured on the CPU"


def summary_lines(records: Records, width: int = WIDTH) -> list[Line]:
    """Table, notes, attempts of rerun tests, one line per inconclusive one, how many were not judged; empty without.

    Table and notes keep to `width` cells. An inconclusive test's line is one line whatever its length: whole ids and
    reasons are what people search for.
    """
    names = _names(records)
    rows = [row for node_id, record in records.items() for row in _rows(names[node_id], record)]
    lines = [*table_lines(rows, width), *_notes(records, names, min(width, _WIDEST_NOTE))] if rows else []
    doubtful = [node_id for node_id, record in records.items() if record["verdict"] == "inconclusive"]
    lines += [text_line(printable(line)) for line in rerun_lines(records)]
    lines += [
        (("INCONCLUSIVE", "yellow"), (f" {printable(node_id)}: {prose(records[node_id]['reason'])}", ""))
        for node_id in doubtful
    ]
    if doubtful:
        lines.append(text_line(f"{len(doubtful)} of {len(records)} not judged", "yellow"))
    return lines


def header_lines(records: Records, *, is_named: bool) -> list[str]:
    """The header from what was measured: under xdist nobody collected, so nobody could show it before."""
    devices = [(record["mode"], result["device"]) for record in records.values() for result in record["results"]]
    lines = (
        # With require nobody measures on a CPU that was not named, if by a marker.
        header_line(mode, device["id"], device["name"], is_named=is_named or mode == "require")
        for mode, device in devices
    )
    return list(dict.fromkeys(lines))


# -- the table ------------------------------------------------------------------------------------------------------


def _names(records: Records) -> dict[str, str]:
    """What a test is called: without its file, unless a test of another file is called the same."""
    short = {node_id: printable(node_id.split("::", 1)[-1]) for node_id in records}
    counts = Counter(short.values())
    return {node_id: name if counts[name] == 1 else printable(node_id) for node_id, name in short.items()}


def _rows(name: str, record: Mapping[str, Any]) -> Iterator[Row]:
    results = record["results"]
    if not results:
        yield {"test": name, "verdict": record["verdict"]}
    for result, label in zip(results, _labels(results), strict=True):
        yield {"test": name if len(results) == 1 else f"{name}: {label}", **_cells(result)}


def _labels(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells the results of a test apart: of one server alone not its address, which leaves the names no room."""
    labels = [printable(result["label"]) for result in results]
    parted = [label.rpartition(", ") for label in labels if all(result.get("kind") == "stream" for result in results)]
    return [tail for _, _, tail in parted] if len({head for head, _, _ in parted}) == 1 else labels


def _cells(result: Mapping[str, Any]) -> Row:
    traffic, ceiling, allowed = result["traffic"] or {}, result["ceiling"] or {}, _allowed(result)
    rate, fraction = result["tokens_per_s"], result["fraction"]
    return {
        "device": printable(result["device"]["id"]),
        "step": _shown(result["step_s"], format_seconds),
        "tok/s": _shown(rate, format_rate),
        # What the probes around the samples allowed, which is what the fraction was taken of.
        "ceiling": _shown(rate / fraction if rate and fraction else None, format_rate),
        "B/step": _shown(traffic.get("bytes_per_pass"), format_bytes),
        "fraction": _shown(fraction, format_fraction),
        "interval": _interval(result.get("fraction_low"), result.get("fraction_high")),
        "bound": ceiling.get("bound", "-"),
        "verdict": result["standing"] + (f" ({len(allowed)} allowed)" if allowed else ""),
    }


def _interval(low: float | None, high: float | None) -> str:
    if low is None:
        return "-"
    return f"{format_fraction(low)} to {format_fraction(high)}" if high is not None else f"from {format_fraction(low)}"


def _allowed(result: Mapping[str, Any]) -> Sequence[str]:
    """Checks that would have decided; absent from the records of earlier versions."""
    names: Sequence[str] = result.get("allowed", ())
    return names


def _shown(value: float | None, text: Any) -> str:
    return "-" if value is None else text(value)


# -- notes ----------------------------------------------------------------------------------------------------------


def _notes(records: Records, names: Mapping[str, str], width: int) -> Iterator[Line]:
    """Extra bytes and notes of results; a note that several tests share is said once."""
    tests: dict[str, list[str]] = {}
    for node_id, record in records.items():
        for result in record["results"]:
            for note in (*_decisions(result), *_extra(result), *_disagreements(result), *result["notes"]):
                sharing = tests.setdefault(note, [])
                if names[node_id] not in sharing:
                    sharing.append(names[node_id])
    for note, sharing in tests.items():
        who = sharing[0] if len(sharing) == 1 else f"{sharing[0]} and {len(sharing) - 1} more"
        yield from map(text_line, wrapped(f"{who}: {prose(note)}", width, first="  ", rest="    "))


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
