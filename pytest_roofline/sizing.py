"""The size knob: a second step that does more of the same work, run in turns with probes.

A step that is remembered, skipped or cut short may lie under every ceiling at one size. It takes no longer at a larger
one, and sooner or later that is more than the device can move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.bench import Bench
from pytest_roofline.checks.ceiling import ALTERNATIONS, closed_pass_s
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.sized import Sized
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.loop import Loop
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


def check_ratio(larger: LargerStep, own: Traffic) -> None:
    """RooflineUsageError where the larger step is none, before anything is timed."""
    own_bytes = own.least_bytes_per_pass
    if own_bytes <= 0:
        raise RooflineUsageError("larger= needs the bytes of the step that is judged: give traffic=, or bytes_read=")
    if larger.traffic.least_bytes_per_pass < LEAST_RATIO * own_bytes:
        raise RooflineUsageError(
            f"larger= moves at least {format_bytes(larger.traffic.least_bytes_per_pass)} per pass, the step "
            f"{format_bytes(own_bytes)}: give a step of {LEAST_RATIO:g} times the bytes or more"
        )


def sized(
    evidence: Evidence,
    larger: LargerStep,
    bench: Bench,
    *,
    own: Loop,
    backend: Backend,
    drains: Sequence[Backend],
    reset: Callable[[], Any] | None,
    max_time_s: float,
) -> Sized | str:
    """What the larger step took: five blocks of it, between best-of-all probes without a sheet; or why it was not run.

    It may have a state of its own, or that of the judged step (which it may run twice): `reset` goes before each block
    and after the last, and the room of the judged step holds for the passes of all blocks.
    """
    pass_s, limit = closed_pass_s(evidence), evidence.limit
    if evidence.traffic is None or pass_s is None or limit is None:
        return "no limit of the device is known"
    ratio = larger.traffic.least_bytes_per_pass / evidence.traffic.least_bytes_per_pass
    knee_bytes, memory = bench.probe.cache_knee_bytes, bench.device.memory_bytes
    if memory is not None and larger.traffic.footprint_bytes > memory:
        return f"it does not fit into the {format_bytes(memory)} of the device, so other memory serves it, too"
    least = max(0.0, larger.traffic.least_bytes_per_pass - knee_bytes - _elsewhere(larger.traffic, evidence))
    if not least:
        return f"caches ({format_bytes(knee_bytes)}) or other memory may hold all of its bytes: give a larger one"
    passes = evidence.samples[-1].passes
    passes = max(1, min(passes, int(_SHARE_OF_TIME * max_time_s / (ratio * pass_s)) if pass_s > 0 else passes))
    if own.room is not None:
        passes = min(passes, (own.room - 1) // ALTERNATIONS, int(own.room / ratio))
    if not passes:
        return f"passes_per_reset={own.room} is no room for five blocks of it"
    loop = Loop(
        larger.step,
        backend=backend,
        drains=drains,
        reset=reset,
        passes_per_reset=own.room,
        is_stateless=own.room is None,
        may_return_nothing=True,
    )
    own.reset()
    loop.run(1)
    if limit.is_measured:
        with bench.best_of_all() as best:
            turns = confront(loop, best, passes, least)
    else:
        turns = confront(loop, _NoGauge(), passes, least)
    own.reset()
    return Sized(
        bytes_per_pass=larger.traffic.least_bytes_per_pass,
        least_bytes_from_memory=least,
        bytes_ratio=ratio,
        turns=turns,
    )


def _elsewhere(traffic: Traffic, evidence: Evidence) -> float:
    """Bytes of the larger step that this memory need not have moved: at least the judged step's share of them."""
    own = evidence.traffic
    if own is None or own.bytes_per_pass <= 0:
        return traffic.spilled_bytes_per_pass
    size = max(traffic.bytes_per_pass, traffic.least_bytes_per_pass)
    spilled = max(traffic.spilled_bytes_per_pass, own.spilled_bytes_per_pass / own.bytes_per_pass * size)
    return spilled + sum(part for _, part in evidence.elsewhere) / own.bytes_per_pass * size


class _NoGauge:
    """With a sheet no probe is needed."""

    def measure(self) -> float:
        """No rate."""
        return 0.0
