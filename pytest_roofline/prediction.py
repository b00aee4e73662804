"""How fast a model can decode on a device, by arithmetic alone.

::

    step floor = max(bytes / bandwidth, FLOPs / peak, link bytes / link bandwidth + calls * latency)     seconds
    ceiling    = batch * tokens per pass / step floor                                                    tokens/s
    TTFT floor = 2 * active parameters * prompt tokens / peak             the rule; beside it stands the exact one

(S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.) Weights outside of the device's memory come
through the spill path: its time is added to that of the memory (layers one after another) or overlaps it. With tensor
parallel ranks the bytes and FLOPs of a pass are those of *one* device: they divide by the ranks, but for KV heads,
of which the fullest rank holds ``ceil(heads / ranks)``. A ring all-reduce of
n bytes sends ``2 * (ranks - 1) / ranks * n`` per device. No files and no names here: the module `predict` turns
those into records.

The *limit* is what no correct implementation can exceed: the least bytes (`Inventory.at_least`), all of them divided by
the ranks (data-parallel attention and decode context parallelism divide even a latent that serves all heads), the
largest dense peak of any dtype, and no collectives, since other ways to share the work need fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.inventory import Inventory
from pytest_roofline.machine import Machine
from pytest_roofline.roofline import moved_s
from pytest_roofline.workload import Draft, Workload

if TYPE_CHECKING:
    from pytest_roofline.roofline import Bound

EXPECTED_SHARES = (0.60, 0.85)
"""Well-made engines reach this share of the datasheet ceiling."""
EXCHANGED_BYTES = 2
"""Ranks exchange hidden states in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The floor of a pass and what follows from it. Bytes and FLOPs of a pass are those of one device."""

    machine: Machine
    workload: Workload
    weight_bytes_per_pass: float
    kv_bytes_per_pass: float
    draft_bytes_per_pass: float
    spill_bytes_per_pass: float
    """The part of `weight_bytes_per_pass` that comes through the spill path."""
    link_bytes_per_pass: float
    least_bytes_per_pass: float
    """What no correct implementation can avoid, whatever the ranks share: see `Inventory.at_least`."""
    rule_weight_bytes_per_pass: float
    """By the rule of thumb, active parameters x bytes: looked-up tables counted as read."""
    flops_per_pass: float
    memory_s: float
    spill_s: float
    compute_s: float
    link_s: float
    step_floor_s: float
    limit_step_floor_s: float
    """With `least_bytes_per_pass`, the largest peak of any dtype, and no collectives."""
    rule_step_floor_s: float
    peak_flops_per_s: float | None
    peak_source: str | None
    peak_dtype: str | None
    memory_needed_bytes: float
    fits: bool | None
    """None: the size of the memory is not known. A printed size counts as GiB here: see `fits_as_printed`."""
    step_bound: Bound
    """What sets the floor, whether the model fits or not."""
    ttft_floor_s: float | None
    """The rule: 2 x active parameters x prompt tokens / peak; one prompt alone."""
    prefill_flops: float | None
    prefill_floor_s: float | None
    """Exact: the larger of `prefill_flops` / peak and reading the weights once, of a mixture one token's experts."""
    notes: tuple[str, ...] = ()

    @property
    def bytes_per_pass(self) -> float:
        """Weights, KV and the draft's reads."""
        return self.weight_bytes_per_pass + self.kv_bytes_per_pass + self.draft_bytes_per_pass

    @property
    def fits_as_printed(self) -> bool | None:
        """Whether it fits the size that the vendor prints, taken as GB."""
        memory_bytes = self.machine.memory_bytes
        return None if memory_bytes is None else self.memory_needed_bytes <= memory_bytes

    @property
    def bound(self) -> Bound:
        """``capacity`` when the model does not fit, else what sets the floor."""
        return "capacity" if self.fits is False else self.step_bound

    @property
    def tokens(self) -> float:
        """Tokens of all sequences that one pass yields."""
        return self.workload.batch * self.workload.tokens_per_pass

    @property
    def ceiling_tokens_per_s(self) -> float:
        """Of the whole batch."""
        return self.tokens / self.step_floor_s

    @property
    def ceiling_tokens_per_s_per_user(self) -> float:
        """Of one sequence."""
        return self.workload.tokens_per_pass / self.step_floor_s

    @property
    def limit_tokens_per_s(self) -> float:
        """Of the whole batch, with the least bytes: only above this is a measured rate impossible."""
        return self.tokens / self.limit_step_floor_s

    @property
    def rule_tokens_per_s(self) -> float:
        """Of the whole batch, by the rule of thumb."""
        return self.tokens / self.rule_step_floor_s

    @property
    def expected_tokens_per_s(self) -> tuple[float, float]:
        """Low and high: 60 to 85 % of the ceiling."""
        low, high = EXPECTED_SHARES
        return low * self.ceiling_tokens_per_s, high * self.ceiling_tokens_per_s

    @property
    def ridge_point(self) -> float | None:
        """FLOP per byte at which compute and memory take the same time."""
        return None if self.peak_flops_per_s is None else self.peak_flops_per_s / self.machine.bandwidth_bytes_per_s

    @property
    def arithmetic_intensity(self) -> float:
        """FLOP per byte of a pass."""
        return self.flops_per_pass / self.bytes_per_pass

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``roofline predict``: builtin types only, no NaN or infinity."""
        machine, workload = self.machine, self.workload
        inventory = workload.inventory
        return {
            "schema": 1,
            "device": machine.name,
            "model": inventory.model,
            "weights": inventory.weights,
            "kv": inventory.kv,
            "batch": workload.batch,
            "context": workload.context,
            "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s,
            "bandwidth_source": machine.bandwidth_source,
            "weight_bytes_total": inventory.total_bytes,
            "weight_bytes_per_pass": self.weight_bytes_per_pass,
            "kv_bytes_per_token": inventory.kv_bytes_per_token,
            "kv_bytes_per_pass": self.kv_bytes_per_pass,
            "bytes_per_pass": self.bytes_per_pass,
            "flops_per_pass": self.flops_per_pass,
            "arithmetic_intensity": self.arithmetic_intensity,
            "ridge_point": self.ridge_point,
            "bound": self.bound,
            "memory_needed_bytes": self.memory_needed_bytes,
            "fits": self.fits,
            "tokens_per_pass": workload.tokens_per_pass,
            "ceiling_tokens_per_s": self.ceiling_tokens_per_s,
            "ceiling_tokens_per_s_per_user": self.ceiling_tokens_per_s_per_user,
            "expected_tokens_per_s": list(self.expected_tokens_per_s),
            "ttft_floor_s": self.ttft_floor_s,
            "notes": list(self.notes),
            "model_source": inventory.source,
            "parameters": inventory.parameters,
            "active_parameters": inventory.active_parameters,
            "peak_flops_per_s": self.peak_flops_per_s,
            "peak_source": self.peak_source,
            "peak_dtype": self.peak_dtype,
            "memory_bytes": machine.memory_bytes,
            "memory_source": machine.memory_source,
            "is_unified_memory": machine.is_unified_memory,
            "step_bound": self.step_bound,
            "step_floor_s": self.step_floor_s,
            "memory_s": self.memory_s,
            "compute_s": self.compute_s,
            "least_bytes_per_pass": self.least_bytes_per_pass,
            "limit_tokens_per_s": self.limit_tokens_per_s,
            "rule_weight_bytes_per_pass": self.rule_weight_bytes_per_pass,
            "rule_tokens_per_s": self.rule_tokens_per_s,
            "draft_bytes_per_pass": self.draft_bytes_per_pass,
            "offload": workload.offload,
            "is_overlapped": workload.is_overlapped,
            "spill_bytes_per_pass": self.spill_bytes_per_pass,
            "spill_bytes_per_s": machine.spill_bytes_per_s,
            "spill_source": machine.spill_source,
            "spill_s": self.spill_s,
            "ranks": machine.ranks,
            "link_bytes_per_pass": self.link_bytes_per_pass,
            "link_bytes_per_s": machine.link_bytes_per_s,
            "link_source": machine.link_source,
            "link_latency_s": machine.link_latency_s,
            "link_s": self.link_s,
            "prompt": workload.prompt,
            "prefill_flops": self.prefill_flops,
            "prefill_floor_s": self.prefill_floor_s,
        }


def predict(machine: Machine, workload: Workload) -> Prediction:
    """The division, with everything that goes into it. Raises RooflineUsageError where a needed figure is missing."""
    inventory, draft, ranks = workload.inventory, workload.draft, machine.ranks
    if workload.offload and machine.spill_bytes_per_s is None:
        raise RooflineUsageError(
            f"{workload.offload:.0%} of the weights lie outside of the memory of {machine.name}, and the rate of the "
            "path to them is not known; give --spill-bandwidth, such as 64GB/s"
        )
    tokens = workload.batch * workload.positions
    flops = inventory.flops_per_pass(tokens, workload.context)
    draft_bytes = 0.0
    if draft is not None:
        draft_bytes = _draft_bytes(workload, draft, ranks)
        flops += _draft_flops(workload, draft)
    weights = inventory.weight_bytes_per_pass(tokens)
    kv = workload.batch * inventory.kv_bytes_read(workload.context, ranks)
    flops /= ranks
    others = kv + draft_bytes
    peak = machine.peak(inventory.compute_dtype)
    compute_s = 0.0 if peak is None else flops / peak[0]
    link_bytes, link_s = _collectives(machine, inventory, tokens)
    memory_s, spill_s, step_s, bound = _step(machine, workload, weights / ranks, others, compute_s, link_s)
    least, limit_s = _limit(machine, workload)
    rule = weights + inventory.lookup_bytes
    rule_s = step_s
    if inventory.lookup_bytes:
        rule_s = _step(machine, workload, rule / ranks, others, compute_s, link_s)[2]
    needed = needed_bytes(machine, workload)
    ttft_s = prefill_flops = prefill_s = None
    if workload.prompt is not None:
        prefill_flops = inventory.prefill_flops(workload.prompt) / ranks
        read = inventory.least_weight_bytes_per_pass() / ranks
        if peak is not None:
            ttft_s = 2.0 * inventory.active_parameters * workload.prompt / (peak[0] * ranks)
            prefill_s = _step(machine, workload, read, 0.0, prefill_flops / peak[0], 0.0)[2]
    return Prediction(
        machine=machine,
        workload=workload,
        weight_bytes_per_pass=weights / ranks,
        kv_bytes_per_pass=kv,
        draft_bytes_per_pass=draft_bytes,
        spill_bytes_per_pass=weights / ranks * workload.offload,
        link_bytes_per_pass=link_bytes,
        least_bytes_per_pass=least,
        rule_weight_bytes_per_pass=rule / ranks,
        flops_per_pass=flops,
        memory_s=memory_s,
        spill_s=spill_s,
        compute_s=compute_s,
        link_s=link_s,
        step_floor_s=step_s,
        limit_step_floor_s=limit_s,
        rule_step_floor_s=rule_s,
        peak_flops_per_s=None if peak is None else peak[0],
        peak_source=None if peak is None else peak[1],
        peak_dtype=None if peak is None else peak[2],
        memory_needed_bytes=needed,
        fits=None if machine.memory_bytes is None else machine.holds(needed),
        step_bound=bound,
        ttft_floor_s=ttft_s,
        prefill_flops=prefill_flops,
        prefill_floor_s=prefill_s,
    )


def _limit(machine: Machine, workload: Workload) -> tuple[float, float]:
    """The least bytes of a pass and the seconds that they take, of one of the ranks that divide everything."""
    least, draft, ranks = workload.inventory.at_least(), workload.draft, machine.ranks
    weights = least.weight_bytes_per_pass(1.0)
    others = workload.batch * least.kv_bytes_read(workload.context)
    flops = least.flops_per_pass(workload.batch * workload.positions, workload.context)
    if draft is not None:
        drafting = replace(draft, inventory=draft.inventory.at_least())
        others += _draft_bytes(workload, drafting, 1)
        flops += _draft_flops(workload, drafting)
    peak = machine.largest_peak_flops_per_s
    compute_s = flops / ranks / peak if peak is not None else 0.0
    step_s = _step(machine, workload, weights / ranks, others / ranks, compute_s, 0.0)[2]
    return (weights + others) / ranks, step_s


def _draft_bytes(workload: Workload, draft: Draft, ranks: int) -> float:
    """Of one rank: the draft is run once for each proposed token, one after the other."""
    own, batch = draft.inventory, float(workload.batch)
    read = own.weight_bytes_per_pass(batch) / ranks + batch * own.kv_bytes_read(workload.context, ranks)
    return draft.tokens * read


def _draft_flops(workload: Workload, draft: Draft) -> float:
    """Of all ranks together."""
    return draft.tokens * draft.inventory.flops_per_pass(float(workload.batch), workload.context)


def _collectives(machine: Machine, inventory: Inventory, tokens: float) -> tuple[float, float]:
    """Bytes that one rank sends, and the seconds that takes: 0 where link, layers or width are not known."""
    calls = inventory.reductions
    if machine.ranks == 1 or not calls:
        return 0.0, 0.0
    ring = 2.0 * (machine.ranks - 1) / machine.ranks
    link_bytes = calls * ring * tokens * inventory.hidden * EXCHANGED_BYTES
    link_s = link_bytes / machine.link_bytes_per_s if machine.link_bytes_per_s else 0.0
    return link_bytes, link_s + calls * machine.link_latency_s


def _step(
    machine: Machine, workload: Workload, weights: float, others: float, compute_s: float, link_s: float
) -> tuple[float, float, float, Bound]:
    """Seconds from memory, seconds through the spill path, the floor, and what sets it."""
    share = workload.offload
    memory_s = (weights * (1.0 - share) + others) / machine.bandwidth_bytes_per_s
    spill_s = weights * share / machine.spill_bytes_per_s if share and machine.spill_bytes_per_s else 0.0
    both_s = moved_s(memory_s, spill_s, is_overlapped=workload.is_overlapped)
    step_s = max(both_s, compute_s, link_s)
    if link_s > max(both_s, compute_s):
        return memory_s, spill_s, step_s, "link"
    if compute_s > both_s:
        return memory_s, spill_s, step_s, "compute"
    return memory_s, spill_s, step_s, "link" if spill_s > memory_s else "memory"


def needed_bytes(machine: Machine, workload: Workload, *, is_divided: bool = False) -> float:
    """Memory of one device: its part of all weights but spilled ones, and the caches; no activations, no runtime.

    Layers for multi-token prediction count when they draft: engines do not load them otherwise. `is_divided`: the ranks
    divide all caches among them, by sequences or by tokens, and not by heads.
    """
    inventory, draft, ranks = workload.inventory, workload.draft, machine.ranks
    context, holders = workload.kept_context, 1 if is_divided else machine.ranks
    weights = inventory.total_bytes * (1.0 - workload.offload)
    kept = inventory.kv_bytes_kept(context, holders)
    if draft is not None:
        weights += inventory.prediction_bytes if draft.is_own else draft.inventory.total_bytes
        kept += draft.inventory.kv_bytes_kept(context, holders)
    return weights / ranks + workload.batch * (kept / ranks if is_divided else kept)
