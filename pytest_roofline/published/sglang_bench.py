"""SGLang: the JSON lines of ``bench_serving --output-file`` and of ``bench_one_batch --result-filename``.

Read as python/sglang/bench_serving.py and bench_one_batch.py of 2025 write it. `concurrency` of bench_serving is the
sum of all latencies over the duration: the mean number in flight; of 2024 it has neither that nor the time per token,
and the mean follows from the mean latency. A decode latency of bench_one_batch is one pass of the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported, exactly
from pytest_roofline.published.servers import ServedRun

NAME = "sglang"
KEYS = ("total_output_tokens_retokenized", "accept_length", "median_decode_throughput", "prefill_latency", "run_name")
_SERVING = ("total_output_tokens_retokenized", "output_throughput")
_ONE_BATCH = ("batch_size", "input_len", "output_len", "prefill_latency")


def recognises(document: Document) -> bool:
    """Whether the first line has the keys of one of the two."""
    return any(all(key in value for key in keys) for value in document.values[:1] for keys in (_SERVING, _ONE_BATCH))


def read(document: Document) -> Iterator[Reported]:
    """The rates of each line."""
    for number, value in enumerate(document.values, 1):
        entry = Entry(where=f"{document.file}, row {number}", values=value)
        if all(key in value for key in _SERVING):
            yield from _serving(entry)
        elif all(key in value for key in _ONE_BATCH):
            yield from _one_batch(entry)
        else:
            raise entry.fail("output_throughput", "missing: neither bench_serving nor bench_one_batch")


def _serving(entry: Entry) -> Iterator[Reported]:
    tpot_ms = entry.positive_or_none("mean_tpot_ms")
    accepted = entry.positive_or_none("accept_length")
    if entry.has("completed") and not entry.count("completed"):
        raise entry.fail("completed", "0: no request was answered")
    yield from ServedRun(
        tool=NAME,
        where=entry.where,
        output_tokens_per_s=entry.positive("output_throughput"),
        total_tokens_per_s=entry.positive_or_none("total_throughput"),
        total_key="total_throughput",
        tpot_s=None if tpot_ms is None else tpot_ms * 1e-3,
        seconds=entry.positive_or_none("duration"),
        prompt_tokens_sum=entry.positive_or_none("total_input_tokens"),
        output_tokens_sum=entry.positive_or_none("total_output_tokens"),
        requests=entry.positive_or_none("completed"),
        most_at_once=entry.positive_or_none("max_concurrency"),
        mean_at_once=entry.positive_or_none("concurrency") or _in_flight(entry),
        tokens_per_pass=accepted,
        words="SGLang server" + (", speculative" if accepted and accepted > 1 else ""),
    ).reported()


def _in_flight(entry: Entry) -> float | None:
    """Requests in flight, on average: the sum of all latencies over the duration."""
    latency_ms, completed = entry.positive_or_none("mean_e2e_latency_ms"), entry.positive_or_none("completed")
    seconds = entry.positive_or_none("duration")
    if latency_ms is None or completed is None or seconds is None:
        return None
    return completed * latency_ms * 1e-3 / seconds


def _one_batch(entry: Entry) -> Iterator[Reported]:
    batch, prompt, output = (entry.positive(key) for key in ("batch_size", "input_len", "output_len"))
    seconds = entry.positive_or_none("median_decode_latency")
    claimed = entry.positive_or_none("median_decode_throughput")
    if claimed is not None:
        yield Reported(
            tool=NAME,
            label=f"median_decode_throughput, batch {batch:g}",
            where=entry.where,
            metric="decode",
            tokens_per_s=claimed,
            recomputed_tokens_per_s=None if seconds is None else batch / seconds,
            batch=exactly(batch),
            batch_source="one batch",
            context=prompt + output / 2,
            is_context_exact=True,
            prompt_tokens=prompt,
            generated_tokens=output,
            words="SGLang",
        )
    yield Reported(
        tool=NAME,
        label=f"prefill_throughput, batch {batch:g}",
        where=entry.where,
        metric="prefill",
        tokens_per_s=entry.positive("prefill_throughput"),
        batch=exactly(batch),
        batch_source="one batch",
        context=prompt,
        is_context_exact=True,
        prompt_tokens=prompt,
        words="SGLang prefill",
    )
