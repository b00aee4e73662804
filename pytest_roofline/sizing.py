"""The size knob: a second step that does more of the same work, run in turns with probes.

A step that is remembered, skipped or cut short may lie under every ceiling at one size. It takes no longer at a larger
one, and sooner or later that is more than the device can move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_roofline.bench import Bench
from pytest_roofline.checks.ceiling import ALTERNATIONS, closed_pass_s, memory_bytes
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.sized import Sized
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.loop import ROOM_WITHOUT_RESET, Loop
from pytest_roofline.measure import confront
from pytest_roofline.protocol import Backend
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_bytes

LEAST_RATIO = 1.5
_SHARE_OF_TIME = 0.1
"""Of the longest measurement, for each of the turns, by the time that the bytes say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargerStep:
    """A step and its traffic, as `larger=` gives them."""

    step: Callable[..., Any]
    traffic: Traffic


def larger_step(value: Any, traffic_of: Callable[[Any], Traffic]) -> LargerStep | None:
    """`larger=` as a record: a pair of a callable and whatever `traffic=` takes; None without one."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not callable(value[0]):
        raise RooflineUsageError(
            "larger= takes a pair: a step of more work, and its traffic (a Traffic, a config, or bytes per pass), not "
            f"{value!r}"
        )
    return LargerStep(step=value[0], traffic=traffic_of(value[1]))


def sized(
    evidence: Evidence,
    larger: LargerStep,
    bench: Bench,
    *,
    backend: Backend,
    drains: Sequence[Backend],
    is_stateless: bool,
    max_time_s: float,
) -> Evidence:
    """The evidence with what the larger step took: five blocks of it, between best-of-all probes without a sheet."""
    own = evidence.traffic.least_bytes_per_pass if evidence.traffic is not None else 0.0
    ratio = larger.traffic.least_bytes_per_pass / own if own > 0 else 0.0
    if ratio < LEAST_RATIO:
        raise RooflineUsageError(
            f"larger= moves at least {format_bytes(larger.traffic.least_bytes_per_pass)} per pass, the step "
            f"{format_bytes(own)}: give a step of {LEAST_RATIO:g} times the bytes or more"
        )
    needed, pass_s, limit = memory_bytes(evidence), closed_pass_s(evidence), evidence.limit
    if needed is None or pass_s is None or limit is None:
        return evidence
    least = max(0.0, larger.traffic.least_bytes_per_pass - evidence.knee_bytes - larger.traffic.spilled_bytes_per_pass)
    if not least:
        return evidence  # its bytes fit into the caches: nothing that it takes is impossible
    passes = evidence.samples[-1].passes
    passes = max(1, min(passes, int(_SHARE_OF_TIME * max_time_s / (ratio * pass_s)) if pass_s > 0 else passes))
    if not is_stateless:
        passes = min(passes, (ROOM_WITHOUT_RESET - 1) // ALTERNATIONS)
    loop = Loop(larger.step, backend=backend, drains=drains, is_stateless=is_stateless, may_return_nothing=True)
    loop.run(1)
    if limit.is_measured:
        with bench.best_of_all() as best:
            turns = confront(loop, best, passes, least)
    else:
        turns = confront(loop, _NoGauge(), passes, least)
    found = Sized(
        bytes_per_pass=larger.traffic.least_bytes_per_pass,
        least_bytes_from_memory=least,
        bytes_ratio=ratio,
        turns=turns,
    )
    return replace(evidence, sized=found)


class _NoGauge:
    """With a sheet no probe is needed."""

    def measure(self) -> float:
        """No rate."""
        return 0.0
