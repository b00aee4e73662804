"""The court's checks: each a pure function from evidence to one finding, or None."""

from __future__ import annotations

from collections.abc import Callable

from pytest_roofline.checks.amounts import bytes_disagree, ids_without_passes, spill_disagrees, tokens_disagree
from pytest_roofline.checks.ceiling import (
    above_ceiling,
    cache_unsure,
    compute_unsure,
    faster_than_limit,
    open_trace_unsure,
    places_unsure,
    probe_unsure,
)
from pytest_roofline.checks.clock import claim_exceeds_closed_time, not_drained, output_not_forced
from pytest_roofline.checks.compilation import compiled_in_window, first_call_in_window, halves_disagree
from pytest_roofline.checks.data import predictable_data, untouched_memory
from pytest_roofline.checks.device_events import events_disagree
from pytest_roofline.checks.disagreement import clock_disagrees
from pytest_roofline.checks.environment import device_shared, throttled
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.hardware import memory_counted
from pytest_roofline.checks.identity import identity_unsure
from pytest_roofline.checks.ranks import rank_window
from pytest_roofline.checks.scaling import does_not_grow, does_not_scale
from pytest_roofline.checks.steadiness import cache_resident, drifted, plateau_unsure, too_few_samples
from pytest_roofline.checks.streamed import (
    above_stated,
    answers_replayed,
    answers_too_few,
    drafts_unsure,
    held_back,
    requests_failed,
    tokens_unseen,
    usage_doubtful,
)
from pytest_roofline.checks.suspension import suspended
from pytest_roofline.checks.work import passes_idle, stale_output, work_missing

Check = Callable[[Evidence], "Finding | None"]

CHECKS: tuple[Check, ...] = (
    clock_disagrees,
    events_disagree,
    not_drained,
    output_not_forced,
    claim_exceeds_closed_time,
    rank_window,
    tokens_disagree,
    ids_without_passes,
    tokens_unseen,
    usage_doubtful,
    requests_failed,
    answers_replayed,
    bytes_disagree,
    spill_disagrees,
    untouched_memory,
    predictable_data,
    stale_output,
    work_missing,
    passes_idle,
    memory_counted,
    faster_than_limit,
    compute_unsure,
    does_not_scale,
    does_not_grow,
    drafts_unsure,
    held_back,
    above_stated,
    above_ceiling,
    places_unsure,
    probe_unsure,
    plateau_unsure,
    cache_unsure,
    identity_unsure,
    open_trace_unsure,
    cache_resident,
    suspended,
    drifted,
    device_shared,
    throttled,
    compiled_in_window,
    first_call_in_window,
    halves_disagree,
    answers_too_few,
    too_few_samples,
)
"""In the order in which their findings are shown: causes first, symptoms after them."""

EXCUSES: tuple[Check, ...] = (drifted, device_shared, throttled)
"""What only ever adds time: where its own figures explain a miss, the miss is no failure."""
