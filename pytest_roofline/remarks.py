"""What has to be said beside a prediction: what it rests on, what it leaves out, and what would fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.inventory import Inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import Prediction, needed_bytes
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_rate, format_seconds
from pytest_roofline.workload import Workload

NO_CONTEXT = "no context is given (it is 0): the KV cache is left out; add --context"
_MOST_DEVICES = 4096
_LONGEST_CONTEXT = 2**24
_CLEARLY_MORE = 1.001
"""A limit that is no more than rounding above the ceiling is the ceiling."""


def explained(prediction: Prediction, smaller: Iterable[Inventory] = ()) -> Prediction:
    """The same prediction with its notes. `smaller`: the model in other formats, tried when it does not fit."""
    notes = [
        *prediction.workload.inventory.notes,
        *_of_counting(prediction),
        *_of_cache(prediction.workload),
        *_of_compute(prediction),
        *_of_tokens(prediction),
        *_of_ranks(prediction),
        *_of_spill(prediction),
        *_of_capacity(prediction, smaller),
    ]
    return replace(prediction, notes=tuple(dict.fromkeys([*prediction.notes, *notes])))


def _of_counting(prediction: Prediction) -> Iterator[str]:
    workload = prediction.workload
    inventory = workload.inventory
    if inventory.is_rule:
        yield (
            "this is the rule of thumb, params x bytes: every parameter counts as read; the name, config or file of a "
            "model instead of --params gives the exact count"
        )
    elif inventory.lookup_bytes:
        yield (
            f"by the rule of thumb params x bytes: {format_rate(prediction.rule_tokens_per_s)} tok/s; exact: "
            f"{format_rate(prediction.ceiling_tokens_per_s)} tok/s ({format_bytes(inventory.lookup_bytes)} of tables "
            "are looked up by row, not read whole)"
        )
    else:
        yield "params x bytes and the exact count agree: no table of this model is merely looked up"
    tokens = workload.batch * workload.positions
    if inventory.is_mixture and tokens > 1:
        routed = "all of it taken as routed, " if inventory.is_rule else ""
        least = inventory.least_weight_bytes_per_pass() / prediction.machine.ranks
        yield (
            f"{format_bytes(prediction.weight_bytes_per_pass)} of weights per pass are the expectation for "
            f"{tokens:g} tokens that route uniformly ({routed}tokens that are alike read less); the least is "
            f"{format_bytes(least)} of weights, the experts of one token"
        )
    if prediction.limit_tokens_per_s > prediction.ceiling_tokens_per_s * _CLEARLY_MORE:
        reasons = [f"{format_bytes(prediction.least_bytes_per_pass)} per pass{_per_device(prediction)} at least"]
        if prediction.step_bound == "compute":
            reasons.append("at the largest peak of any dtype")
        if prediction.machine.ranks > 1:
            reasons.append("all of it divided by the ranks, and no collectives")
        yield (
            f"only above {format_rate(prediction.limit_tokens_per_s)} tok/s is a rate impossible: {', '.join(reasons)}"
        )
    if inventory.max_context is not None and workload.kept_context > inventory.max_context:
        yield f"{workload.kept_context:,} tokens are beyond the {inventory.max_context:,} that this model was made for"


def _of_cache(workload: Workload) -> Iterator[str]:
    inventory = workload.inventory
    if inventory.is_rule and not inventory.caches:
        yield (
            "no KV cache is counted: a number of parameters does not say how large one is; give --kv-per-token, such "
            "as 128KiB, and --context"
        )
    elif workload.batch > 1 and not workload.kept_context and any(c.elements_per_token for c in inventory.caches):
        yield NO_CONTEXT


def _of_compute(prediction: Prediction) -> Iterator[str]:
    wanted = prediction.workload.inventory.compute_dtype
    if prediction.peak_flops_per_s is None:
        yield f"no peak for {wanted} is known of {prediction.machine.name}: compute bounds nothing here; give --peak"
    elif prediction.peak_dtype != wanted:
        what = "is faster in it than in" if wanted in prediction.machine.peak_flops_per_s else "has no peak for"
        yield f"products run in {prediction.peak_dtype}: {prediction.machine.name} {what} {wanted}"
    prompt = prediction.workload.prompt
    if prompt is not None and prediction.ttft_floor_s is not None and prediction.prefill_floor_s is not None:
        yield (
            f"TTFT of one prompt of {prompt:,} tokens: {format_seconds(prediction.ttft_floor_s)} is the rule of thumb "
            f"2 x params x tokens / {prediction.machine.peak_word}, which counts tables and the head for every token "
            f"and no attention; the floor counted exactly is {format_seconds(prediction.prefill_floor_s)} (head once, "
            "causal attention halved, weights read once)"
        )
    elif prompt is not None:
        yield "no TTFT floor without a peak; give --peak"


def _of_tokens(prediction: Prediction) -> Iterator[str]:
    workload = prediction.workload
    draft = workload.draft
    if draft is not None:
        yield (
            f"{draft.inventory.model} drafts {draft.tokens} token{'s' * (draft.tokens > 1)} before each pass: "
            f"{format_bytes(prediction.draft_bytes_per_pass)} more are read; {workload.tokens_per_pass:g} of "
            f"{draft.tokens + 1} tokens per pass are taken as accepted"
        )
    elif workload.tokens_per_pass > 1:
        yield f"{workload.tokens_per_pass:g} tokens per pass, and the reads of whatever drafts them are not counted"


def _of_ranks(prediction: Prediction) -> Iterator[str]:
    machine, inventory = prediction.machine, prediction.workload.inventory
    if machine.ranks == 1:
        return
    yield f"bytes, FLOPs and memory of a pass are those of one of {machine.ranks} devices (tensor parallel)"
    yield from _of_kv_heads(inventory.caches, machine.ranks)
    if not inventory.reductions:
        yield "layers and width are not known: collectives are not counted"
    elif machine.link_bytes_per_s is None:
        yield f"no link between devices is known of {machine.name}: bytes of collectives take no time; give --link"
    else:
        yield (
            f"{inventory.reductions} all-reduces of 16-bit hidden states per pass: "
            f"{format_bytes(prediction.link_bytes_per_pass)} per device at "
            f"{format_bytes_per_s(machine.link_bytes_per_s)} ({machine.link_source})"
        )
    if prediction.step_floor_s == prediction.link_s:
        yield f"the slowest link is the one between devices: {format_seconds(prediction.link_s)} of each pass"
    if inventory.reductions:
        latency = machine.link_latency_s
        yield (
            f"{format_seconds(latency)} of latency per all-reduce"
            if latency
            else "no latency per all-reduce is counted; give --link-latency, such as 10us"
        )


def _of_kv_heads(caches: Iterable[CacheLayers], ranks: int) -> Iterator[str]:
    """Of caches that grow or are copied; a recurrent state divides by the ranks, and nothing has to be said."""
    growing = [cache for cache in caches if cache.elements_per_token]
    whole = [cache.name for cache in growing if cache.kv_heads == 1]
    for cache in growing:
        if cache.kv_heads is None:
            yield (
                "how many KV heads there are is not known: the KV cache is divided by the ranks; with fewer heads than "
                "ranks, ranks hold copies and read more"
            )
        elif cache.kv_heads == 1 and cache.name == whole[0]:
            names = " and ".join(whole)
            yield (
                f"{names}: what is cached serves all heads: every rank keeps and reads all of it (plain tensor "
                "parallel; data-parallel attention and decode context parallelism divide it, and the limit does)"
            )
        elif cache.kv_heads > 1 and cache.kv_heads % ranks:
            held = f"{-(-cache.kv_heads // ranks)} of them"
            yield f"{cache.name}: {cache.kv_heads} KV heads on {ranks} ranks: the fullest keeps and reads {held}"


def _of_spill(prediction: Prediction) -> Iterator[str]:
    machine, workload = prediction.machine, prediction.workload
    if not workload.offload or machine.spill_bytes_per_s is None:
        return
    scheme = (
        "at the same time as the rest (overlapped: the slower path counts)"
        if workload.is_overlapped
        else "after the rest (layers one after another: the times add up; --overlap takes the slower path alone)"
    )
    yield (
        f"{format_bytes(prediction.spill_bytes_per_pass)} per pass come through the spill path at "
        f"{format_bytes_per_s(machine.spill_bytes_per_s)} ({machine.spill_source}), {scheme}"
    )
    if prediction.step_bound == "link" and prediction.step_floor_s != prediction.link_s:
        yield f"the slowest link is the spill path: {format_seconds(prediction.spill_s)} of each pass"


def _per_device(prediction: Prediction) -> str:
    return " and device" if prediction.machine.ranks > 1 else ""


def _on_each(prediction: Prediction) -> str:
    return " on each device" if prediction.machine.ranks > 1 else ""


# -- what fits ------------------------------------------------------------------------------------------------------


def _of_capacity(prediction: Prediction, smaller: Iterable[Inventory]) -> Iterator[str]:
    machine = prediction.machine
    if machine.memory_bytes is None:
        yield "the size of the memory is not known: whether this fits is not said; give --memory"
        return
    yield "memory needed is weights and caches alone: activations and the runtime come on top"
    yield from _of_prediction_layers(prediction.workload)
    if machine.is_unified_memory:
        yield f"the {format_bytes(machine.memory_bytes)} are shared with the system (unified memory)"
    if prediction.fits:
        if not prediction.fits_as_printed:
            gb = f"{machine.memory_bytes / 1e9:g}"
            yield f"fits only because the {gb} GB of a card are {gb} GiB; nothing is left for activations"
        return
    yield (
        f"does not fit: {format_bytes(prediction.memory_needed_bytes)} needed{_on_each(prediction)}, "
        f"{format_bytes(machine.memory_bytes)} there ({machine.memory_source})"
    )
    if _fits_divided(machine, prediction.workload):
        divided = format_bytes(needed_bytes(machine, prediction.workload, is_divided=True))
        yield f"with data-parallel attention, which divides the cache, {divided} are needed on each device: fits"
    yield from _what_would_fit(prediction, machine.memory_bytes, smaller)


def _of_prediction_layers(workload: Workload) -> Iterator[str]:
    layers_bytes = workload.inventory.prediction_bytes
    if not layers_bytes:
        return
    if workload.draft is not None and workload.draft.is_own:
        yield f"{format_bytes(layers_bytes)} of multi-token-prediction layers are part of the memory needed: they draft"
    else:
        yield (
            f"{format_bytes(layers_bytes)} of multi-token-prediction layers are left out of the weights and the memory "
            "needed: engines load them only to draft (--draft mtp)"
        )


def _what_would_fit(prediction: Prediction, memory_bytes: float, smaller: Iterable[Inventory]) -> Iterator[str]:
    machine, workload = prediction.machine, prediction.workload
    if not _fits(machine, replace(workload, batch=1, context=0, prompt=None)):
        yield "the weights alone do not fit, at any batch and context"
    else:
        context = largest_context(machine, workload)
        if context is not None:
            yield f"would fit: a context of up to {context:,} tokens at batch {workload.batch:,}"
        batch = largest_batch(machine, workload)
        if batch >= 1:
            yield f"would fit: a batch of up to {batch:,} at {workload.kept_context:,} tokens"
    devices = fewest_devices(machine, workload)
    if devices is not None:
        yield f"would fit: {devices} such devices (tensor parallel), {format_bytes(memory_bytes)} each"
    divided = None if _fits_divided(machine, workload) else fewest_devices(machine, workload, is_divided=True)
    if divided is not None and (devices is None or divided < devices):
        yield f"would fit: {divided} such devices with data-parallel attention, which divides the cache"
    fitting = [other.weights for other in smaller if _fits(machine, replace(workload, inventory=other))]
    if fitting:
        yield f"would fit: weights in {' or '.join(fitting)}"


def largest_context(machine: Machine, workload: Workload) -> int | None:
    """The most tokens of context that fit at this batch; None when not even an empty cache does."""
    return _largest(
        lambda context: _fits(machine, replace(workload, context=context, prompt=None)), 0, _LONGEST_CONTEXT
    )


def largest_batch(machine: Machine, workload: Workload) -> int:
    """The most sequences that fit at this context; 0 when not even one does."""
    return _largest(lambda batch: _fits(machine, replace(workload, batch=batch)), 1, 2**20) or 0


def fewest_devices(machine: Machine, workload: Workload, *, is_divided: bool = False) -> int | None:
    """The fewest devices, each holding its part, that all of it fits on; None: no number does.

    Only numbers that engines take: heads divide by them evenly, or are copied so many times as a power of two says.
    `is_divided` as for `needed_bytes`.
    """
    for ranks in range(machine.ranks + 1, _MOST_DEVICES + 1):
        if not _divides(ranks, workload.inventory.caches):
            continue
        more = replace(machine, ranks=ranks)
        if more.holds(needed_bytes(more, workload, is_divided=is_divided)):
            return ranks
    return None


def _divides(ranks: int, caches: Iterable[CacheLayers]) -> bool:
    """Whether so many ranks share the heads evenly; heads that are not known, or one for all: a power of two."""
    known = [cache.kv_heads or 1 for cache in caches if cache.elements_per_token] or [1]
    return all(not heads % ranks or (not ranks % heads and (ranks // heads).bit_count() == 1) for heads in known)


def _fits(machine: Machine, workload: Workload) -> bool:
    return machine.holds(needed_bytes(machine, workload))


def _fits_divided(machine: Machine, workload: Workload) -> bool:
    """Whether ranks that divide the whole cache have room for it."""
    return machine.ranks > 1 and machine.holds(needed_bytes(machine, workload, is_divided=True))


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest whole number that fits; what is too much stays too much."""
    if not fits(low):
        return None
    while low < high:
        middle = low + math.ceil((high - low) / 2)
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
