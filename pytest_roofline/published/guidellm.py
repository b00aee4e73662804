"""GuideLLM: ``benchmarks.json``.

Read as guidellm 0.5 and 0.8.1 (benchmark/schemas/report.py, metrics.py) write it, report versions 1 and 2: each metric
is split by `successful`, `incomplete`, `errored` and `total`, each with its `mean`. Of single requests nothing is
taken. `inter_token_latency_ms` leaves the first token out; `time_per_output_token_ms` does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_roofline.errors import one_line
from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.servers import ServedRun

NAME = "guidellm"
KEYS = ("metadata", "config", "args", "benchmarks")


def recognises(document: Document) -> bool:
    """Whether its benchmarks have guidellm's metrics."""
    first = _benchmarks(document)[:1]
    return (
        bool(first) and isinstance(first[0].get("metrics"), dict) and "output_tokens_per_second" in first[0]["metrics"]
    )


def _benchmarks(document: Document) -> list[dict[str, Any]]:
    found = document.top.get("benchmarks")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def read(document: Document) -> Iterator[Reported]:
    """The rates of each benchmark: one for each rate or concurrency of a sweep."""
    for number, value in enumerate(_benchmarks(document), 1):
        entry = Entry(where=f"{document.file}, benchmark {number}", values=value)
        metrics = entry.part("metrics")
        itl_ms = _mean(metrics, "inter_token_latency_ms", "successful")
        strategy = _strategy(value)
        kind = strategy.get("type_") or strategy.get("kind")
        answered, failed = _requests(value)
        streams = Entry(where=entry.where, values=strategy).count_or_none("streams")
        yield from ServedRun(
            tool=NAME,
            where=entry.where,
            output_tokens_per_s=_mean(metrics, "output_tokens_per_second", "successful"),
            output_key="output_tokens_per_second",
            total_tokens_per_s=_mean(metrics, "tokens_per_second", "successful"),
            is_total_judged=False,
            tpot_s=None if itl_ms is None else itl_ms * 1e-3,
            tpot_key="inter_token_latency_ms",
            prompt_tokens=_mean(metrics, "prompt_token_count", "successful"),
            output_tokens=_mean(metrics, "output_token_count", "successful"),
            requests=answered,
            failed=failed,
            most_at_once=1.0 if kind == "synchronous" else streams,
            mean_at_once=_mean(metrics, "request_concurrency", "total"),
            model=_model(value),
            words="server",
            remarks=(f"strategy {one_line(str(kind), 30)}",) if kind else (),
        ).reported()


def _mean(metrics: Entry, name: str, status: str) -> float | None:
    if not metrics.has(name):
        return None
    metric = metrics.part(name)
    return metric.part(status).positive_or_none("mean") if metric.has(status) else None


def _requests(benchmark: dict[str, Any]) -> tuple[float | None, float]:
    """Requests that were answered, and those that failed; cut off at the end of the run is neither."""
    for part, key in (("metrics", "request_totals"), ("run_stats", "requests_made")):
        counts = benchmark[part].get(key) if isinstance(benchmark.get(part), dict) else None
        if isinstance(counts, dict):
            entry = Entry(where="", values=counts)
            return entry.count_or_none("successful"), entry.count_or_none("errored") or 0.0
    return None, 0.0


def _model(benchmark: dict[str, Any]) -> str | None:
    """The name that the server was asked for."""
    config = benchmark.get("config")
    backend = config.get("backend") if isinstance(config, dict) else None
    model = backend.get("model") if isinstance(backend, dict) else None
    return model if isinstance(model, str) and model else None


def _strategy(benchmark: dict[str, Any]) -> dict[str, Any]:
    for key in ("config", "args"):
        config = benchmark.get(key)
        strategy = config.get("strategy") if isinstance(config, dict) else None
        if isinstance(strategy, dict):
            return strategy
    return {}
