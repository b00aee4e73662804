"""The roof over one reported figure, in the unit of its claim, as far as what is known of it allows.

::

    decode   batch * tokens per pass / step floor                        of all sequences; tpot: of one
    prefill  batch * prompt / max(weights / bandwidth, FLOPs / peak)
    mixed    batch * (prompt + generated) / (prefill floor + passes * step floor)

Where sequences decode at once in changing numbers, the ceiling at their mean is no less than the mean of the ceilings
(it is concave in their number), so a mean may be used; where a mean is known to lie between two numbers, the ceiling
lies between two. The limit takes the least bytes, the most sequences and the shortest context that the figure allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_roofline.inventory import Inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import Prediction, predict
from pytest_roofline.published.reported import Reported, exactly
from pytest_roofline.roofline import Interval
from pytest_roofline.workload import Workload

MOST_SEQUENCES = 2**20
"""Where nobody says how many sequences there were: beyond this nothing grows any more but the cache."""
DATASHEET_SLACK = 1.05
COMPUTE_SLACK = 1.15
STATED_SLACK = 1.25
"""Nobody says whether a bandwidth from the command line is a datasheet's, or that of some pattern of access."""


_CLEARLY_MORE = 1.0001


ASSUMED_FORMAT_SLACK = 4.0
"""Where a file names a model and not the format of its weights: they may be of 4 bits where 16 are assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What the figure was measured on, as far as it is known."""

    machine: Machine
    workload: Workload
    """The model with the most bytes that it may read; what the command line says of drafts, spills and passes."""
    least: Inventory
    """The model with the least bytes that it may read; the same one where it is known exactly."""
    is_most_known: bool = True
    """Whether `workload` bounds the bytes from above: a KV cache may be missing."""
    slack: float = DATASHEET_SLACK
    """Above this many limits a figure cannot be true."""
    unsure_slack: float = DATASHEET_SLACK
    """From here up to `slack` it may be that the limit is too low."""
    remarks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What has to be given before it can be judged."""
    conflict: str | None = None
    """Why this cannot be what was measured."""
    is_format_assumed: bool = False
    """Whether the model is known and nobody states the format of its weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """Ceiling and limit in tokens/s of the claim's own unit."""

    ceiling: Interval
    """`low` is 0 where nothing bounds the ceiling from below."""
    limit_tokens_per_s: float
    is_compute_limit: bool
    prediction: Prediction
    """Behind ``ceiling.high``: of decode passes."""
    seconds: float | None = None
    """Floor of all of it together, for prefill and mixed figures."""
    missing: tuple[str, ...] = ()
    """What has to be given before it can be judged."""
    missing_for_budget: tuple[str, ...] = ()
    """What has to be given before a budget can be held against it."""


def roof_over(reported: Reported, subject: Subject) -> Roof | None:
    """The roof; None where the figure does not say enough for any (a latency of so many tokens that nobody counted)."""
    if reported.metric in ("decode", "output", "tpot"):
        return _decode_roof(reported, subject)
    needed = reported.generated_tokens if reported.metric == "latency" else reported.prompt_tokens
    return None if reported.metric == "total" or needed is None else _work_roof(reported, subject)


def _decode_roof(reported: Reported, subject: Subject) -> Roof:
    batch = reported.batch
    fewest = 1 if batch is None else max(1, math.floor(batch.low))
    most = MOST_SEQUENCES if batch is None else max(1, math.ceil(batch.high))
    context = subject.workload.context if reported.context is None else round(reported.context)
    # One sequence alone is fastest; all together are fastest when they are many.
    for_best, for_worst = (fewest, most) if reported.is_per_user else (most, fewest)
    best = _predicted(subject, subject.least, for_best, context)
    worst = _predicted(subject, subject.workload.inventory, for_worst, context)
    for_limit = max(1, for_best // 2) if reported.is_per_user and fewest != most else for_best
    limit = _predicted(subject, subject.least, for_limit, _least_context(reported, context))
    missing, for_budget = list(subject.missing), []
    if batch is None:
        missing.append("--batch: how many sequences decoded at once")
    if reported.context is None and not subject.workload.context and subject.least.caches:
        for_budget.append("--context: how long the sequences were")
    low = _rate(worst, reported)
    if not subject.is_most_known or (reported.is_per_user and batch is None):
        low = 0.0
    elif reported.metric == "output":
        prefill_s = _prefill_seconds(reported, subject)
        if prefill_s is None:
            for_budget.append("--prompt and --generated, and a --peak: the time of prefill is in this rate")
            low = 0.0
        else:
            # Behind each of its tokens a request has so much of a prefill, which others wait for.
            low = 1.0 / (1.0 / low + prefill_s / (reported.generated_tokens or 1.0))
    return Roof(
        ceiling=Interval(low=low, high=_rate(best, reported)),
        limit_tokens_per_s=limit.limit_tokens_per_s / (limit.workload.batch if reported.is_per_user else 1),
        is_compute_limit=limit.limit_step_floor_s
        > _CLEARLY_MORE * limit.least_bytes_per_pass / subject.machine.bandwidth_bytes_per_s,
        prediction=worst if batch is None and not reported.is_per_user else best,
        missing=tuple(missing),
        missing_for_budget=tuple(for_budget),
    )


def _rate(prediction: Prediction, reported: Reported) -> float:
    return prediction.ceiling_tokens_per_s_per_user if reported.is_per_user else prediction.ceiling_tokens_per_s


def _prefill_seconds(reported: Reported, subject: Subject) -> float | None:
    """Floor of one request's prefill, if nothing of it is cached; None where lengths or the peak are not known."""
    peak = subject.machine.peak(subject.least.compute_dtype)
    if reported.prompt_tokens is None or reported.generated_tokens is None or peak is None:
        return None
    inventory = subject.workload.inventory
    flops_s = inventory.prefill_flops(max(1, round(reported.prompt_tokens))) / subject.machine.ranks / peak[0]
    read_s = inventory.dense_bytes / subject.machine.ranks / subject.machine.bandwidth_bytes_per_s
    return max(flops_s, read_s)


def _least_context(reported: Reported, context: int) -> int:
    """What no pass's context lies below; of a mean over requests of different lengths, half of their prompts."""
    if reported.context is None:
        return context
    if reported.is_context_exact:
        return round(reported.depth + (reported.prompt_tokens or 0.0)) if reported.prompt_tokens else _start(reported)
    return round((reported.prompt_tokens or 0.0) / 2)


def _start(reported: Reported) -> int:
    return max(0, round((reported.context or 0.0) - (reported.generated_tokens or 0.0) / 2))


def _predicted(subject: Subject, inventory: Inventory, batch: int, context: int) -> Prediction:
    workload = replace(subject.workload, inventory=inventory, batch=batch, context=context)
    return predict(subject.machine, workload)


def _work_roof(reported: Reported, subject: Subject) -> Roof:
    """Prefill alone, or prefill and decode after it; passes alone for a call whose prompt nobody knows."""
    machine = subject.machine
    batch = max(1, math.ceil((reported.batch or exactly(1.0)).high))
    prompt = reported.prompt_tokens or 0.0
    generated = 0.0 if reported.metric == "prefill" else reported.generated_tokens or 0.0
    passes = max(0.0, generated - (1.0 if prompt and reported.is_first_token_prefilled else 0.0))
    context = round(reported.depth + prompt + generated / 2)
    if not prompt and reported.context is not None:
        context = round(reported.context)
    counted = generated if reported.metric == "latency" else prompt + generated
    decode = _predicted(subject, subject.least, batch, context)
    peak = machine.peak(subject.least.compute_dtype)
    largest = machine.largest_peak_flops_per_s
    read_s = least_s = prefill_s = 0.0
    if prompt:
        flops = batch * _prefill_flops(subject.least, max(1, round(prompt)), round(reported.depth)) / machine.ranks
        read_s = subject.least.least_weight_bytes_per_pass() / machine.ranks / machine.bandwidth_bytes_per_s
        prefill_s = max(read_s, flops / peak[0] if peak else 0.0)
        least_s = max(read_s, flops / largest if largest else 0.0)
    per_pass = subject.workload.tokens_per_pass
    seconds = prefill_s + passes * decode.step_floor_s / per_pass
    high = batch * counted / seconds
    is_prefill_known = peak is not None if prompt else False
    missing, for_budget = list(subject.missing), []
    if prompt and peak is None:
        missing.append("--peak RATE (the device's dense peak), or a --device that has one: compute bounds prefill")
    if not prompt:
        for_budget.append("--prompt: the time of prefill may be in it")
    if reported.batch is None:
        for_budget.append("--batch: how many sequences ran at once")
    is_low_known = subject.is_most_known and is_prefill_known and reported.batch is not None
    return Roof(
        ceiling=Interval(low=high * _least_share(subject, decode, context) if is_low_known else 0.0, high=high),
        limit_tokens_per_s=batch * counted / (least_s + passes * decode.limit_step_floor_s / per_pass),
        is_compute_limit=least_s > read_s,
        prediction=decode,
        seconds=seconds,
        missing=tuple(missing),
        missing_for_budget=tuple(for_budget),
    )


def _least_share(subject: Subject, decode: Prediction, context: int) -> float:
    """How far the ceiling may lie lower, where the bytes are known between two figures."""
    most = _predicted(subject, subject.workload.inventory, decode.workload.batch, context)
    return min(1.0, decode.step_floor_s / most.step_floor_s)


def _prefill_flops(inventory: Inventory, prompt: int, depth: int) -> float:
    """Of one prompt behind `depth` tokens that are in the cache already; the head for its last token alone."""
    if not depth:
        return inventory.prefill_flops(prompt)
    return inventory.prefill_flops(depth + prompt) - inventory.prefill_flops(depth) + inventory.head_flops
