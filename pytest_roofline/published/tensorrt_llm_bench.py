"""TensorRT-LLM: the report of ``trtllm-bench throughput|latency --report_json``.

Read as tensorrt_llm/bench/dataclasses/reporting.py (at 0249976) writes it: `world_info`, `request_info` and
`performance`; `streaming_metrics` where tokens were streamed. `avg_num_concurrent_requests` is a mean over the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.servers import ServedRun

NAME = "tensorrt-llm"
KEYS = ("engine", "world_info", "request_info", "performance", "dataset")
_ALGORITHMS = {"FP8": "fp8", "NVFP4": "nvfp4"}
_ALL = ("world_info", "request_info", "performance")


def recognises(document: Document) -> bool:
    """Whether the file has the three parts that are read."""
    return all(isinstance(document.top.get(key), dict) for key in _ALL)


def read(document: Document) -> Iterator[Reported]:
    """The rates of the run."""
    entry = Entry(where=document.file, values=document.top)
    world, requests, performance = (entry.part(key) for key in _ALL)
    engine = entry.part("engine") if isinstance(document.top.get("engine"), dict) else None
    streaming = entry.part("streaming_metrics") if entry.has("streaming_metrics") else None
    tpot_ms = None if streaming is None else streaming.positive_or_none("avg_tpot_ms")
    total_ms = performance.positive_or_none("total_latency_ms")
    count, prompt, output = (
        requests.positive_or_none(key) for key in ("num_requests", "avg_input_length", "avg_output_length")
    )
    tp, pp = world.count("tp_size", 1), world.count("pp_size", 1)
    remarks = [f"{pp} pipeline stages: a pass goes through one after the other"] if pp > 1 else []
    algorithm = None if engine is None else engine.text("quantization")
    yield from ServedRun(
        tool=NAME,
        where=document.file,
        output_tokens_per_s=performance.positive("system_output_throughput_tok_s"),
        output_key="system_output_throughput_tok_s",
        total_tokens_per_s=performance.positive_or_none("system_total_throughput_tok_s"),
        total_key="system_total_throughput_tok_s",
        tpot_s=None if tpot_ms is None else tpot_ms * 1e-3,
        tpot_key="avg_tpot_ms",
        seconds=None if total_ms is None else total_ms * 1e-3,
        output_tokens_sum=None if count is None or output is None else count * output,
        requests=count,
        prompt_tokens=prompt,
        output_tokens=output,
        most_at_once=world.positive_or_none("max_batch_size"),
        mean_at_once=requests.positive_or_none("avg_num_concurrent_requests"),
        tokens_per_pass=_accepted(entry),
        model=None if engine is None else engine.text("model"),
        weights=_ALGORITHMS.get(algorithm or ""),
        kv_formats=_cached(engine),
        ranks=max(1, tp) * max(1, pp),
        words="TensorRT-LLM offline throughput",
        remarks=tuple(remarks),
    ).reported()


def _cached(engine: Entry | None) -> tuple[str, ...]:
    """The format of the KV cache where the engine names one of its own; else it is in the model's."""
    algorithm = _ALGORITHMS.get((engine.text("kv_cache_dtype") or "") if engine is not None else "")
    return () if algorithm is None else (algorithm,)


def _accepted(entry: Entry) -> float | None:
    """Tokens of a pass, where a draft was used: the mean length of what was accepted, the model's own included."""
    if not entry.has("decoding_stats"):
        return None
    stats = entry.part("decoding_stats")
    if not stats.has("acceptance_length_percentiles"):
        return None
    return stats.part("acceptance_length_percentiles").positive_or_none("average")
