"""The court's checks: each a pure function from evidence to one finding, or None."""

from __future__ import annotations

from collections.abc import Callable

from pytest_roofline.checks.amounts import bytes_disagree, tokens_disagree
from pytest_roofline.checks.ceiling import (
    above_ceiling,
    cache_unsure,
    compute_unsure,
    does_not_scale,
    faster_than_limit,
    open_trace_unsure,
    probe_unsure,
)
from pytest_roofline.checks.clock import claim_exceeds_closed_time, clock_disagrees, not_drained, output_not_forced
from pytest_roofline.checks.compilation import compiled_in_window, first_call_in_window, halves_disagree
from pytest_roofline.checks.data import predictable_data, untouched_memory
from pytest_roofline.checks.device_events import events_disagree
from pytest_roofline.checks.environment import throttled
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.identity import identity_unsure
from pytest_roofline.checks.ranks import rank_window
from pytest_roofline.checks.steadiness import cache_resident, device_shared, drifted, plateau_unsure, too_few_samples
from pytest_roofline.checks.work import stale_output, work_missing

Check = Callable[[Evidence], "Finding | None"]

CHECKS: tuple[Check, ...] = (
    clock_disagrees,
    events_disagree,
    not_drained,
    output_not_forced,
    claim_exceeds_closed_time,
    rank_window,
    tokens_disagree,
    bytes_disagree,
    untouched_memory,
    predictable_data,
    stale_output,
    work_missing,
    faster_than_limit,
    compute_unsure,
    does_not_scale,
    above_ceiling,
    probe_unsure,
    plateau_unsure,
    cache_unsure,
    identity_unsure,
    open_trace_unsure,
    cache_resident,
    drifted,
    device_shared,
    throttled,
    compiled_in_window,
    first_call_in_window,
    halves_disagree,
    too_few_samples,
)
"""In the order in which their findings are shown: causes first, symptoms after them."""
