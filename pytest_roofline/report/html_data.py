"""What the page of a run shows, out of the document of its results.

Documents come from other versions, other machines, and runs that were cut off; so nothing is taken for granted here. A
key that is missing, or holds something else than it should, is left out, and the page says what it does not know.
Figures stay as they are, in SI base units: the page rounds. Only long series are thinned and long texts cut, to keep
the page small; the file of results has all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.reruns import last_attempts

_SERIES = (
    *("passes", "step_s", "fixed_s", "closed_step_s", "ruler_before_bytes_per_s", "ruler_after_bytes_per_s"),
    *("fraction", "context"),
)
_SHARES = ("compute_clock_share", "memory_clock_share", "held_share", "neighbours_share", "steal_share")
"""Conditions that stand in a column beside the samples, where they were read."""
_NUMBERS = (
    *("fraction", "fraction_low", "fraction_high", "at_least", "at_most", "mbu", "step_s", "fixed_s", "tokens_per_s"),
    *("tokens_per_s_per_user", "bytes_per_s", "ttft_s", "passes", "elapsed_s"),
)
_RECORDS = ("ceiling", "traffic", "limit", "claim", "window", "compiled", "conditions", "stream")
_LISTS = ("allowed", "notes", "not_checked", "comparisons", "confrontation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How much of a document goes into its page: samples per result, and characters per text."""

    samples: int
    characters: int


def page_data(document: Mapping[str, Any], detail: Detail) -> dict[str, Any]:
    """The data of the page: builtin types, no nulls inside of records, no NaN."""
    devices = _Devices()
    probes = list(_probes(document, devices))
    rows = [row for test in last_attempts(_mappings(document.get("tests"))) for row in _rows(test, devices)]
    data = {
        "run": _mapping(document.get("run")),
        "libraries": _mapping(document.get("libraries")),
        "end": document.get("end") if isinstance(document.get("end"), Mapping) else None,
        "devices": devices.records,
        "probes": probes,
        "rows": rows,
    }
    found: dict[str, Any] = _cut(data, detail)
    if _is_longer(rows, detail):
        found["thinned"] = detail.samples
    return found


# -- tests ----------------------------------------------------------------------------------------------------------


def _rows(test: Mapping[str, Any], devices: _Devices) -> Iterator[dict[str, Any]]:
    """One row for each result of a test, and one for a test without any."""
    ended = _text(test.get("verdict")) or ("failed" if test.get("outcome") == "failed" else "not measured")
    attempts = [
        {name: _text(one.get(name)) for name in ("verdict", "message")} for one in _mappings(test.get("attempts"))
    ]
    about = {
        "test": _text(test.get("node_id")),
        "test_verdict": ended,
        "attempts": attempts,
        **{name: _text(test.get(name)) for name in ("outcome", "worker", "mode", "reason", "message", "file")},
        **_numbers(test, ("duration_s", "line")),
    }
    results = list(_mappings(test.get("results")))
    for index, result in enumerate(results):
        records = {name: _mapping(result.get(name)) for name in _RECORDS}
        yield {
            **about,
            "verdict": _text(result.get("standing")) or _text(result.get("verdict")) or ended,
            "of": [index + 1, len(results)],
            "device": devices.number_of(result.get("device")),
            **{name: _text(result.get(name)) for name in ("kind", "label")},
            **_numbers(result, _NUMBERS),
            **{name: record for name, record in records.items() if record},
            **{name: list(_sequence(result.get(name))) for name in _LISTS},
            "findings": list(_mappings(result.get("findings"))),
            "samples": _columns(list(_mappings(result.get("samples")))),
        }
    if not results:
        yield {**about, "verdict": ended, "of": [0, 0], "findings": [], "samples": {}}


def _columns(samples: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Samples by column, those columns alone that hold something; six digits are more than any clock gives."""
    columns: dict[str, list[Any]] = {name: [_short(sample.get(name)) for sample in samples] for name in _SERIES}
    states = [_mapping(sample.get("conditions")) for sample in samples]
    columns.update({name: [_short(state.get(name)) for state in states] for name in _SHARES})
    columns["throttled"] = [", ".join(map(str, _sequence(state.get("throttled")))) or None for state in states]
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _short(value: Any) -> Any:
    if not _is_number(value):
        return None
    return float(f"{value:.6g}") if isinstance(value, float) else value


# -- devices and probes ---------------------------------------------------------------------------------------------


class _Devices:
    """Every device once, in the order in which they are spoken of."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, ...], int] = {}

    def number_of(self, device: Any) -> int | None:
        """The number of a device in the list, which it joins where it is new."""
        if not isinstance(device, Mapping):
            return None
        key = tuple(_text(device.get(name)) for name in ("id", "name", "uuid"))
        if key not in self._numbers:
            self._numbers[key] = len(self.records)
            self.records.append(dict(device))
        return self._numbers[key]


def _probes(document: Mapping[str, Any], devices: _Devices) -> Iterator[dict[str, Any]]:
    """Every probe of the run, with the number of its device, and the sheet and limit that its results were held to."""
    for measured in _mappings(document.get("devices")):
        number = devices.number_of(measured.get("device"))
        probe = _mapping(measured.get("probe"))
        if number is None or not probe:
            continue
        yield {
            **probe,
            "device": number,
            "sweep": list(_sweep(probe.get("sweep"))),
            **{name: _mapping(probe.get(name)) for name in ("kernels", "peak_flops_per_s")},
            **{name: list(_sequence(probe.get(name))) for name in ("doubts", "notes")},
            **{name: _mapping(measured.get(name)) for name in ("sheet", "limit")},
        }


def _sweep(points: Any) -> Iterator[list[Any]]:
    """Size, pattern and rate of each point."""
    for point in _sequence(points):
        if isinstance(point, (list, tuple)) and len(point) >= 3 and all(map(_is_positive, (point[0], point[2]))):
            yield [point[0], _text(point[1]), point[2]]


# -- what is not taken for granted ----------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _numbers(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: record[name] for name in names if _is_number(record.get(name))}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in _sequence(value) if isinstance(one, Mapping))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


# -- keeping it small -----------------------------------------------------------------------------------------------


def _is_longer(rows: Sequence[Mapping[str, Any]], detail: Detail) -> bool:
    return any(len(column) > detail.samples for row in rows for column in row["samples"].values())


def _cut(value: Any, detail: Detail) -> Any:
    """Without nulls in mappings, NaN as null, texts cut and series thinned evenly; the last sample stays."""
    if isinstance(value, str):
        return value if len(value) <= detail.characters else f"{value[: detail.characters]} ..."
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        cut = {str(key)[: detail.characters]: _cut(item, detail) for key, item in value.items()}
        if isinstance(cut.get("samples"), dict):
            cut["samples"] = {name: _thinned(column, detail.samples) for name, column in cut["samples"].items()}
        return {key: item for key, item in cut.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_cut(item, detail) for item in value]
    return _cut(str(value), detail)


def _thinned(column: Any, most: int) -> Any:
    if not isinstance(column, list) or len(column) <= most:
        return column
    if most < 2:
        return []
    return [column[round(index * (len(column) - 1) / (most - 1))] for index in range(most)]
