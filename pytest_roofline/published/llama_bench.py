"""llama-bench of llama.cpp: JSON, JSONL, CSV, SQL and Markdown, with depth (``-d``) and mixed rows (``-pg``).

Read as build 0c1e570 writes it (tools/llama-bench). A row has `n_prompt` and `n_gen`: prompt alone is prefill,
generated alone is decode of one sequence, both are one rate over two kinds of work. `samples_ns` are the seconds of
each repetition; CSV, SQL and Markdown have their mean and deviation alone. `model_size` is all tensors, the embedding
too, which a decode pass looks up and does not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Metric, Reported, exactly
from pytest_roofline.published.tables import csv_entries, markdown_entries, sql_entries
from pytest_roofline.roofline import Interval

NAME = "llama-bench"
KEYS = ("n_prompt", "n_gen", "avg_ts", "stddev_ts", "avg_ns", "model_size", "model_type", "n_batch", "n_ubatch")
_TEST = re.compile(r"(?:pp(?P<prompt>\d{1,9}))?\+?(?:tg(?P<gen>\d{1,9}))?(?: @ d(?P<depth>\d{1,9}))?")
_RATE = re.compile(r"(?P<mean>[\d.]+) ± (?P<deviation>[\d.]+)")
_SIZE = re.compile(r"(?P<value>[\d.]+) (?P<unit>[MG]iB)")
_PARAMETERS = re.compile(r"(?P<value>[\d.]+) (?P<unit>[MBT])")
_UNITS = {"MiB": 2.0**20, "GiB": 2.0**30, "M": 1e6, "B": 1e9, "T": 1e12}
_ON_CPU = ("CPU", "BLAS")
_HEADLESS_SLACK = 1.5
_FILE_TYPES = re.compile(
    r"(?P<type>(?:I?Q|TQ)\d\w*|BF16|F16|all F32|MXFP4 MoE)(?: - (?P<size>Small|Medium|Large))?(?: mix)?"
    r"(?: - [\d.]+ bpw(?: ternary)?)?(?: \(guessed\))?$"
)
_RENAMED = {"all F32": "f32", "MXFP4 MoE": "mxfp4_moe"}


def recognises(document: Document) -> bool:
    """Whether the file is one of the five."""
    if document.kind == "text":
        begin = document.text[:4000]
        return "llama_bench" in begin or "n_prompt,n_gen" in begin or _is_markdown(begin)
    return any("n_prompt" in value and "avg_ts" in value for value in document.values[:1])


def _is_markdown(text: str) -> bool:
    return re.search(r"^\|[^\n]*\| +test \|[^\n]*t/s \|", text, re.MULTILINE) is not None


def read(document: Document) -> Iterator[Reported]:
    """One result for each row. Raises RooflineUsageError that names file, row and column."""
    if document.kind != "text":
        entries: Iterable[Entry] = (
            Entry(where=f"{document.file}, row {number}", values=value)
            for number, value in enumerate(document.values, 1)
        )
    elif "INSERT INTO" in document.text:
        entries = sql_entries(document.text, document.file)
    elif _is_markdown(document.text):
        entries = [_from_markdown(entry) for entry in markdown_entries(document.text, document.file)]
    else:
        entries = csv_entries(document.text, document.file)
    seen: dict[tuple[Any, ...], str] = {}
    for entry in entries:
        if entry.has("test_time"):
            key = tuple(map(str, entry.values.values()))
            if key in seen:
                raise RooflineUsageError(f"{entry.where}: is the row of {seen[key]} again, to the second")
            seen[key] = entry.where
        yield _reported(entry)


def _reported(entry: Entry) -> Reported:
    prompt, generated, depth = entry.count("n_prompt"), entry.count("n_gen"), entry.count("n_depth", 0)
    if not prompt and not generated:
        raise entry.fail("n_gen", "0, and so is n_prompt: nothing was run")
    metric: Metric = "mixed" if prompt and generated else "prefill" if prompt else "decode"
    tests = [f"pp{prompt}" if prompt else "", f"tg{generated}" if generated else ""]
    label = "+".join(filter(None, tests)) + (f" @ d{depth}" if depth else "")
    claimed = entry.positive("avg_ts")
    rates = _sample_rates(entry, prompt + generated)
    recomputed, tolerance = _recomputed(entry, prompt + generated, rates, claimed)
    deviation = entry.number("stddev_ts") or 0.0
    noise = Interval(low=max(0.0, claimed - abs(deviation)), high=claimed + abs(deviation))
    if rates:
        noise = Interval(low=min(rates), high=max(rates))
    model_type = entry.text("model_type")
    return Reported(
        tool=NAME,
        label=label,
        where=entry.where,
        metric=metric,
        tokens_per_s=claimed,
        noise=noise,
        recomputed_tokens_per_s=recomputed,
        recomputed_tolerance=tolerance,
        batch=exactly(1.0),
        batch_source="llama-bench runs one sequence",
        context=depth + prompt + generated / 2,
        is_context_exact=True,
        depth=float(depth),
        prompt_tokens=float(prompt) or None,
        generated_tokens=float(generated) or None,
        is_first_token_prefilled=False,
        weights=file_type_of(model_type),
        kv_formats=tuple(word for key in ("type_k", "type_v") if (word := entry.text(key))) or ("f16", "f16"),
        stored_bytes=entry.positive_or_none("model_size"),
        stored_rounding=entry.number("rounding") or 0.0,
        parameters=entry.positive_or_none("model_n_params"),
        model_type=model_type,
        device_layers=_device_layers(entry),
        # Without the head a pass reads less: in small models of large vocabularies a third.
        count_slack=_HEADLESS_SLACK if _is_set(entry, "embeddings") else 1.0,
        is_head_skipped=_is_set(entry, "embeddings"),
        unjudged=_unjudged(entry),
        words=label.replace("+", ", "),
        remarks=tuple(_remarks(entry)),
    )


def _sample_rates(entry: Entry, tokens: int) -> list[float]:
    """Tokens over seconds of each repetition: what was timed, not the rate that was printed."""
    return [tokens / (sample * 1e-9) for sample in entry.numbers("samples_ns")]


def _recomputed(entry: Entry, tokens: int, rates: list[float], claimed: float) -> tuple[float | None, float]:
    """The mean of the repetitions' rates, which `avg_ts` is; else tokens over mean seconds, which lies below that."""
    if rates:
        return sum(rates) / len(rates), 0.02
    seconds = entry.positive_or_none("avg_ns")
    if seconds is None:
        return None, 0.02
    spread = (entry.number("stddev_ts") or 0.0) / claimed
    return tokens / (seconds * 1e-9), 0.02 + 2 * spread**2


def _unjudged(entry: Entry) -> str | None:
    """What puts tensors into another memory, one by one."""
    if _is_set(entry, "no_kv_offload"):
        return "the KV cache is in the host's memory (no_kv_offload)"
    experts = entry.number("n_cpu_moe") or 0
    overrides = entry.text("tensor_buft_overrides") or "none"
    if experts > 0:
        return f"the experts of {experts:g} layers stay in the host's memory (n_cpu_moe)"
    if overrides.lower() != "none":
        return f"tensors are placed by hand (tensor_buft_overrides {one_line(overrides, 40)!r})"
    return None


def _is_set(entry: Entry, key: str) -> bool:
    """A flag, which is true or false in JSON and 1 or 0 elsewhere."""
    return entry.values.get(key) in (True, "1", "true")


def _device_layers(entry: Entry) -> float | None:
    """``-ngl``; None where there is nothing but the processor, or all layers were asked for (-1)."""
    backend = entry.text("backends") or entry.text("backend") or ""
    layers = entry.number("n_gpu_layers" if entry.has("n_gpu_layers") else "ngl")
    is_on_cpu = all(part.strip() in _ON_CPU for part in backend.split(","))
    return None if not backend or is_on_cpu or layers is None or layers < 0 else layers


def _remarks(entry: Entry) -> Iterator[str]:
    devices = [name for name in (entry.text("gpu_info") or "").split(",") if name.strip()]
    if len(devices) > 1:
        mode = entry.text("split_mode") or "layer"
        yield (
            f"{len(devices)} devices, split by {one_line(mode, 20)}: "
            + ("one works at a time" if mode == "layer" else f"give --tp {len(devices)}")
        )
    backend = entry.text("backends") or entry.text("backend")
    if backend:
        yield f"backend {one_line(backend, 40)}"


def file_type_of(model_type: str | None) -> str | None:
    """The file type behind llama.cpp's words: ``llama 8B Q4_K - Medium`` is ``q4_k_m``; None for unknown ones."""
    found = None if model_type is None else _FILE_TYPES.search(model_type)
    if found is None:
        return None
    name = _RENAMED.get(found["type"], found["type"].lower())
    return f"{name}_{found['size'][0].lower()}" if found["size"] else name


def _from_markdown(entry: Entry) -> Entry:
    """The columns under the names of the other outputs; sizes are rounded to two digits behind the point."""
    test = _TEST.fullmatch(entry.text("test") or "")
    if test is None or not (test["prompt"] or test["gen"]):
        raise entry.fail("test", f"{one_line(str(entry.values.get('test')), 40)!r} is no pp512, tg128 or pp512+tg128")
    rate = _RATE.fullmatch(entry.text("t/s") or "")
    if rate is None:
        raise entry.fail("t/s", f"{one_line(str(entry.values.get('t/s')), 40)!r} is no rate such as 9.17 ± 0.08")
    values = {
        **entry.values,
        "n_prompt": test["prompt"] or "0",
        "n_gen": test["gen"] or "0",
        "n_depth": test["depth"] or "0",
        "avg_ts": rate["mean"],
        "stddev_ts": rate["deviation"],
        "model_type": entry.text("model"),
    }
    size = _SIZE.fullmatch(entry.text("size") or "")
    if size is not None and (value := _decimal(size["value"])):
        values |= {"model_size": str(value * _UNITS[size["unit"]]), "rounding": str(0.005 / value)}
    parameters = _PARAMETERS.fullmatch(entry.text("params") or "")
    if parameters is not None and (value := _decimal(parameters["value"])):
        values["model_n_params"] = str(value * _UNITS[parameters["unit"]])
    return Entry(where=entry.where, values=values, is_text=True)


def _decimal(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
