"""What a pass of a generation moves: the mean of the passes that were traced, and the passes of a draft beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from pytest_roofline.generation import Look, Run
from pytest_roofline.traffic import Traffic, moved_bytes

IDLE_SHARE = 0.01
"""Of what a pass has to move: one that moved less did no work that it could be timed by."""


_UNSEEN = ("cannot be seen", "not known", "reads are known", "written behind")
"""In what a trace says where something ran that it cannot look into: a replayed graph, a kernel, an extension."""


def idle_passes(look: Look) -> int:
    """Traced decode passes that moved next to nothing beside the one that moved most, while nothing ran unseen."""
    most = max((moved_bytes(one) for _, one in look.traced), default=0.0)
    return sum(moved_bytes(one) < IDLE_SHARE * most and not _has_unseen(one) for _, one in look.traced)


def _has_unseen(traced: Traffic) -> bool:
    return not traced.is_closed and any(word in note for note in traced.notes for word in _UNSEEN)


def traffic_of_passes(look: Look) -> Traffic | None:
    """The mean of the traced decode passes, at the mean of their contexts; None where none was traced."""
    if not look.traced:
        return None
    traffics = [one for _, one in look.traced]
    first = traffics[0]
    grown = look.run.growth_per_pass * mean(number - 1 for number, _ in look.traced)
    return replace(
        first,
        bytes_per_pass=mean(one.bytes_per_pass for one in traffics),
        least_bytes_per_pass=mean(one.least_bytes_per_pass for one in traffics),
        weight_bytes_per_pass=_mean([one.weight_bytes_per_pass for one in traffics]),
        kv_bytes_per_pass=mean(one.kv_bytes_per_pass for one in traffics),
        kv_bytes_per_token=_mean([one.kv_bytes_per_token for one in traffics]),
        written_bytes_per_pass=mean(one.written_bytes_per_pass for one in traffics),
        repeated_bytes_per_pass=mean(one.repeated_bytes_per_pass for one in traffics),
        extra_bytes_per_pass=mean(one.extra_bytes_per_pass for one in traffics),
        flops_per_pass=_mean([one.flops_per_pass for one in traffics]),
        least_flops_per_pass=_mean([one.least_flops_per_pass for one in traffics]),
        working_set_bytes=_mean([one.working_set_bytes for one in traffics]),
        context=round(look.run.context + grown),
        is_closed=all(one.is_closed for one in traffics),
        notes=tuple(dict.fromkeys(note for one in traffics for note in one.notes)),
    )


def _mean(figures: Sequence[float | None]) -> float | None:
    """None where one is not known."""
    known = [one for one in figures if one is not None]
    return mean(known) if len(known) == len(figures) else None


def traffic_of_runs(traffic: Traffic, draft: Traffic | None, runs: Sequence[Run], knee_bytes: float) -> Traffic:
    """A pass of these runs: at the mean of the contexts of all passes, with the draft's passes that belong to it."""
    passes = sum(run.decode_passes for run in runs)
    if not passes:
        return traffic
    context = sum(run.mean_context * run.decode_passes for run in runs) / passes
    drafts = sum(run.draft_passes for run in runs) / passes
    return with_draft(traffic.at_context(context), draft, drafts, knee_bytes)


def with_draft(traffic: Traffic, draft: Traffic | None, drafts_per_pass: float, knee_bytes: float) -> Traffic:
    """A pass with the passes of the draft that belong to it: the draft's own reads are added.

    The first of them reads the draft from memory. Each further one may find up to the cache knee of it in the caches:
    only what is beyond is expected from memory. The least bytes hold it once.
    """
    if draft is None or drafts_per_pass <= 0:
        return traffic
    once, further = min(1.0, drafts_per_pass), max(0.0, drafts_per_pass - 1)
    beyond = max(0.0, draft.bytes_per_pass - knee_bytes) / draft.bytes_per_pass if draft.bytes_per_pass else 0.0
    times = once + further * beyond

    def added(ours: float | None, theirs: float | None, by: float) -> float | None:
        return None if ours is None else ours + by * (theirs or 0.0)

    return replace(
        traffic,
        bytes_per_pass=traffic.bytes_per_pass + times * draft.bytes_per_pass,
        least_bytes_per_pass=traffic.least_bytes_per_pass + once * draft.least_bytes_per_pass,
        weight_bytes_per_pass=added(traffic.weight_bytes_per_pass, draft.weight_bytes_per_pass, times),
        kv_bytes_per_pass=traffic.kv_bytes_per_pass + times * draft.kv_bytes_per_pass,
        kv_bytes_per_token=added(traffic.kv_bytes_per_token, draft.kv_bytes_per_token, times),
        written_bytes_per_pass=traffic.written_bytes_per_pass + times * draft.written_bytes_per_pass,
        repeated_bytes_per_pass=traffic.repeated_bytes_per_pass + further * draft.bytes_per_pass,
        flops_per_pass=added(traffic.flops_per_pass, draft.flops_per_pass, drafts_per_pass),
        least_flops_per_pass=added(traffic.least_flops_per_pass, draft.least_flops_per_pass, once),
        working_set_bytes=traffic.footprint_bytes + once * draft.footprint_bytes,
        is_closed=traffic.is_closed and draft.is_closed,
        notes=tuple(dict.fromkeys((*traffic.notes, *draft.notes))),
    )
