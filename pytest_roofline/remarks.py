"""What has to be said beside a prediction: what it rests on, what it leaves out, and what would fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pytest_roofline.inventory import Inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import Prediction, needed_bytes
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_rate, format_seconds
from pytest_roofline.workload import Workload

_MOST_DEVICES = 4096
_LONGEST_CONTEXT = 2**24


def explained(prediction: Prediction, smaller: Iterable[Inventory] = ()) -> Prediction:
    """The same prediction with its notes. `smaller`: the model in other formats, tried when it does not fit."""
    notes = [
        *prediction.workload.inventory.notes,
        *_of_counting(prediction),
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
        yield (
            f"{format_bytes(prediction.weight_bytes_per_pass)} of weights per pass are the expectation for "
            f"{tokens:g} tokens that route uniformly ({routed}tokens that are alike read less); the least is "
            f"{format_bytes(prediction.least_bytes_per_pass)} per pass, and only above "
            f"{format_rate(prediction.limit_tokens_per_s)} tok/s is a rate impossible"
        )
    if inventory.max_context is not None and workload.kept_context > inventory.max_context:
        yield f"{workload.kept_context:,} tokens are beyond the {inventory.max_context:,} that this model was made for"


def _of_compute(prediction: Prediction) -> Iterator[str]:
    wanted = prediction.workload.inventory.compute_dtype
    if prediction.peak_flops_per_s is None:
        yield f"no peak for {wanted} is known of {prediction.machine.name}: compute bounds nothing here; give --peak"
    elif prediction.peak_dtype != wanted:
        yield f"products run in {prediction.peak_dtype}: {prediction.machine.name} has no peak for {wanted}"
    prompt = prediction.workload.prompt
    if prompt is not None and prediction.ttft_floor_s is not None and prediction.prefill_floor_s is not None:
        yield (
            f"TTFT floor {format_seconds(prediction.ttft_floor_s)} is the rule 2 x params x tokens / peak for one "
            f"prompt of {prompt:,} tokens; exact: {format_seconds(prediction.prefill_floor_s)} (head once, causal "
            "attention halved, weights read once)"
        )
    elif prompt is not None:
        yield "no TTFT floor without a peak; give --peak"


def _of_tokens(prediction: Prediction) -> Iterator[str]:
    workload = prediction.workload
    draft = workload.draft
    if draft is not None:
        yield (
            f"{draft.inventory.model} drafts {draft.tokens} tokens before each pass: "
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
    if inventory.shared().caches:
        yield "the latent of MLA serves all heads: every rank keeps and reads all of it"
    else:
        yield "the KV cache is divided by the ranks: with fewer KV heads than ranks, ranks hold copies and read more"
    if not inventory.layers:
        yield "layers and width are not known: collectives are not counted"
    elif machine.link_bytes_per_s is None:
        yield f"no link between devices is known of {machine.name}: bytes of collectives take no time; give --link"
    else:
        yield (
            f"{2 * inventory.layers} all-reduces of 16-bit hidden states per pass: "
            f"{format_bytes(prediction.link_bytes_per_pass)} per device at "
            f"{format_bytes_per_s(machine.link_bytes_per_s)} ({machine.link_source})"
        )
    if prediction.step_floor_s == prediction.link_s:
        yield f"the slowest link is the one between devices: {format_seconds(prediction.link_s)} of each pass"
    if inventory.layers:
        latency = machine.link_latency_s
        yield (
            f"{format_seconds(latency)} of latency per all-reduce"
            if latency
            else "no latency per all-reduce is counted; give --link-latency, such as 10us"
        )


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
    if prediction.step_bound == "link":
        yield f"the slowest link is the spill path: {format_seconds(prediction.spill_s)} of each pass"


# -- what fits ------------------------------------------------------------------------------------------------------


def _of_capacity(prediction: Prediction, smaller: Iterable[Inventory]) -> Iterator[str]:
    machine = prediction.machine
    if machine.memory_bytes is None:
        yield "the size of the memory is not known: whether this fits is not said; give --memory"
        return
    yield "memory needed is weights and caches alone: activations and the runtime come on top"
    if machine.is_unified_memory:
        yield f"the {format_bytes(machine.memory_bytes)} are shared with the system (unified memory)"
    if prediction.fits:
        return
    yield (
        f"does not fit: {format_bytes(prediction.memory_needed_bytes)} needed, "
        f"{format_bytes(machine.memory_bytes)} there ({machine.memory_source})"
    )
    yield from _what_would_fit(prediction, machine.memory_bytes, smaller)


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


def fewest_devices(machine: Machine, workload: Workload) -> int | None:
    """The fewest devices, each holding its part, that all of it fits on; None: no number does."""
    for ranks in range(machine.ranks + 1, _MOST_DEVICES + 1):
        if _fits(replace(machine, ranks=ranks), workload):
            return ranks
    return None


def _fits(machine: Machine, workload: Workload) -> bool:
    return machine.memory_bytes is not None and needed_bytes(machine, workload) <= machine.memory_bytes


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
