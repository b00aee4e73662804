"""GenAI-Perf and AIPerf: ``profile_export_genai_perf.json|csv`` and ``profile_export_aiperf.json|csv``.

Read as genai-perf 0.0.16 (export_data/json_exporter.py, csv_exporter.py) and aiperf 0.13
(common/models/export_models.py, exporters/metrics_csv_exporter.py) write it: metrics by name, each with its `unit` and
`avg`. Tokens are those of the tokenizer that was named to the tool, which splits the text of the answers again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import LARGEST, Entry
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.servers import ServedRun
from pytest_roofline.published.tables import csv_entries

NAME = "genai-perf"
KEYS = ("output_token_throughput", "output_token_throughput_per_user", "inter_token_latency", "request_latency")
COUNT_SLACK = 1.25
"""Another tokenizer's count of the same text, or special tokens counted: no more than this."""
_METRIC = re.compile(r"(?P<name>[A-Za-z ]+?)(?: \((?P<unit>[\w/]+)\))?")
_MILLISECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "sec": 1.0}


def recognises(document: Document) -> bool:
    """Whether it has the metric of output tokens, with a unit."""
    if document.kind == "text":
        begin = document.text[:200]
        return begin.startswith("Metric,avg,") and "Token" in document.text[:4000]
    metric = document.top.get("output_token_throughput")
    return isinstance(metric, dict) and "unit" in metric


def read(document: Document) -> Iterator[Reported]:
    """The rates of the run."""
    metrics = _from_csv(document) if document.kind == "text" else document.top
    entry = Entry(where=document.file, values=metrics)
    config = metrics.get("input_config")
    requested = _concurrency(config) if isinstance(config, dict) else None
    itl = _mean(entry, "inter_token_latency", _MILLISECONDS)
    incomplete = metrics.get("is_complete") is False or metrics.get("was_cancelled") is True
    yield from ServedRun(
        tool=NAME,
        where=document.file,
        output_tokens_per_s=_mean(entry, "output_token_throughput", {"tokens/sec": 1.0}),
        output_key="output_token_throughput",
        total_tokens_per_s=_mean(entry, "total_token_throughput", {"tokens/sec": 1.0}),
        tpot_s=itl,
        tpot_key="inter_token_latency",
        seconds=_mean(entry, "benchmark_duration", _MILLISECONDS),
        prompt_tokens_sum=_mean(entry, "total_isl", {"tokens": 1.0}),
        output_tokens_sum=_mean(entry, "total_osl", {"tokens": 1.0}),
        prompt_tokens=_mean(entry, "input_sequence_length", {"tokens": 1.0, "": 1.0}),
        output_tokens=_mean(entry, "output_sequence_length", {"tokens": 1.0, "": 1.0}),
        most_at_once=requested,
        requests=_count(metrics, "request_count"),
        failed=_count(metrics, "error_request_count") or 0.0,
        model=_model(config) if isinstance(config, dict) else None,
        count_slack=COUNT_SLACK,
        words="server",
        remarks=("the run did not end as planned",) if incomplete else (),
    ).reported()


def _mean(entry: Entry, name: str, units: dict[str, float]) -> float | None:
    if not entry.has(name):
        return None
    metric = entry.part(name)
    unit = metric.text("unit") or ""
    if unit not in units:
        raise metric.fail("unit", f"{one_line(unit, 30)!r}: {' or '.join(filter(None, units))} is known")
    value = metric.positive_or_none("avg")
    return None if value is None else value * units[unit]


def _count(metrics: dict[str, Any], name: str) -> float | None:
    """So many requests; None where nobody counted them."""
    metric = metrics.get(name)
    value = metric.get("avg") if isinstance(metric, dict) else None
    return float(value) if isinstance(value, (int, float)) and 0 < value <= LARGEST else None


def _concurrency(config: dict[str, Any]) -> float | None:
    """Requests at once, where the run was driven by a number of them: one stated value, not a sweep."""
    analyzer = config.get("perf_analyzer")
    stimulus = analyzer.get("stimulus") if isinstance(analyzer, dict) else None
    phases = config.get("phases")
    driven = [
        phase
        for phase in (phases if isinstance(phases, list) else [])
        if isinstance(phase, dict) and phase.get("name") != "warmup"
    ]
    if isinstance(stimulus, dict) and "concurrency" in stimulus:
        driven = [stimulus]
    return Entry(where="", values=driven[0]).count_or_none("concurrency") if len(driven) == 1 else None


def _model(config: dict[str, Any]) -> str | None:
    """The one model that was asked for, by the name that the server knows it by."""
    found = config.get("model_names")
    if isinstance(config.get("models"), dict):
        items = config["models"].get("items")
        found = [item.get("name") for item in items if isinstance(item, dict)] if isinstance(items, list) else None
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str) else None


def _from_csv(document: Document) -> dict[str, Any]:
    """The metrics as the JSON has them; numbers may have commas. GPU telemetry behind the two tables is left alone."""
    metrics: dict[str, Any] = {}
    line = 1
    for section in re.split(r"\n[ \t\r]*\n", document.text.replace("\r\n", "\n")):
        if section.lstrip().startswith("Metric,"):
            for row in csv_entries(section, document.file, first_line=line):
                named = _METRIC.fullmatch(row.text("Metric") or "")
                value = (row.text("avg") or row.text("Value") or "").replace(",", "")
                if named is not None and value and value != "N/A":
                    number = Entry(where=row.where, values={"avg": value}, is_text=True).number("avg")
                    key = named["name"].lower().replace(" ", "_")
                    metrics[key] = {"unit": named["unit"] or "", "avg": number}
        line += section.count("\n") + 2
    return metrics
