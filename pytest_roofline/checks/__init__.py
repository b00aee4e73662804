"""The court's checks: each a pure function from evidence to one finding, or None."""

from __future__ import annotations

from collections.abc import Callable

from pytest_roofline.checks.amounts import bytes_disagree, tokens_disagree
from pytest_roofline.checks.ceiling import (
    cache_unsure,
    compute_unsure,
    does_not_scale,
    faster_than_limit,
    open_trace_unsure,
    probe_unsure,
)
from pytest_roofline.checks.clock import claim_exceeds_closed_time, clock_disagrees, not_drained
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.steadiness import cache_resident, device_shared, drifted, plateau_unsure, too_few_samples

Check = Callable[[Evidence], "Finding | None"]

CHECKS: tuple[Check, ...] = (
    clock_disagrees,
    not_drained,
    claim_exceeds_closed_time,
    tokens_disagree,
    bytes_disagree,
    faster_than_limit,
    compute_unsure,
    does_not_scale,
    probe_unsure,
    plateau_unsure,
    cache_unsure,
    open_trace_unsure,
    cache_resident,
    drifted,
    device_shared,
    too_few_samples,
)
"""In the order in which their findings are shown: causes first, symptoms after them."""
