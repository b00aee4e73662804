"""vLLM: what ``vllm bench serve --save-result``, ``bench latency`` and ``bench throughput --output-json`` write.

Read as vllm/benchmarks/serve.py (at 009e6d4), latency.py (at 00cae07) and the older benchmarks/benchmark_serving.py and
benchmark_throughput.py write it; before 2025 there was no total of prompts and output. `latency` tells neither batch
nor lengths, `throughput` counts prompts and tells no batch: those come from the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.servers import ServedRun

NAME = "vllm"
KEYS = ("total_token_throughput", "output_throughput", "request_throughput", "mean_tpot_ms", "model_id", "num_prompts")
_SERVE = ("total_token_throughput", "request_throughput")
_OLDER_SERVE = ("tokenizer_id", "request_throughput", "input_throughput", "output_throughput")
_LATENCY = ("avg_latency", "latencies")
_THROUGHPUT = ("elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second")
_MILLI = 1e-3


_LAYOUTS = (_SERVE, _OLDER_SERVE, _LATENCY, _THROUGHPUT)


def recognises(document: Document) -> bool:
    """Whether the file has the keys of one of the three; under some of them others keep objects (AIPerf)."""
    return any(_has(value, keys) for value in document.values[:1] for keys in _LAYOUTS)


def _has(value: dict[str, Any], keys: tuple[str, ...]) -> bool:
    return all(key in value and not isinstance(value[key], dict) for key in keys)


def read(document: Document) -> Iterator[Reported]:
    """The rates of each run in the file (``--append-result`` writes several)."""
    for number, value in enumerate(document.values, 1):
        where = document.file if document.kind == "json" else f"{document.file}, row {number}"
        entry = Entry(where=where, values=value)
        if _has(value, _SERVE) or _has(value, _OLDER_SERVE):
            yield from _serve(entry)
        elif _has(value, _LATENCY):
            yield _latency(entry)
        elif _has(value, _THROUGHPUT):
            yield from _throughput(entry)
        else:
            raise entry.fail("total_token_throughput", "missing: neither bench serve, latency nor throughput")


def _serve(entry: Entry) -> Iterator[Reported]:
    failed = entry.count("failed", 0)
    if not entry.has("failed") and entry.has("completed"):  # older versions count only what was sent and answered
        failed = max(0, entry.count("num_prompts", 0) - entry.count("completed"))
    if entry.has("completed") and not entry.count("completed"):
        raise entry.fail("completed", f"0: no request was answered{f', {failed} failed' if failed else ''}")
    tpot_ms = entry.positive_or_none("mean_tpot_ms")
    accepted = entry.positive_or_none("spec_decode_acceptance_length")
    yield from ServedRun(
        tool=NAME,
        where=entry.where,
        output_tokens_per_s=entry.positive("output_throughput"),
        total_tokens_per_s=entry.positive_or_none("total_token_throughput"),
        tpot_s=None if tpot_ms is None else tpot_ms * _MILLI,
        seconds=entry.positive_or_none("duration"),
        prompt_tokens_sum=entry.positive_or_none("total_input_tokens"),
        output_tokens_sum=entry.positive_or_none("total_output_tokens"),
        requests=entry.positive_or_none("completed"),
        failed=failed,
        most_at_once=entry.positive_or_none("max_concurrency") or entry.positive_or_none("max_concurrent_requests"),
        tokens_per_pass=accepted,
        model=entry.text("model_id"),
        words="vLLM server" + (", speculative" if accepted else ""),
    ).reported()


def _latency(entry: Entry) -> Reported:
    return Reported(
        tool=NAME,
        label="avg_latency",
        where=entry.where,
        metric="latency",
        seconds=entry.positive("avg_latency"),
        words="vLLM latency",
    )


def _throughput(entry: Entry) -> Iterator[Reported]:
    yield from ServedRun(
        tool=NAME,
        where=entry.where,
        total_tokens_per_s=entry.positive("tokens_per_second"),
        total_key="tokens_per_second",
        seconds=entry.positive("elapsed_time"),
        requests=entry.positive_or_none("num_requests"),
        words="vLLM offline throughput",
    ).reported()
