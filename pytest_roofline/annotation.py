"""A benchmark that pytest-benchmark timed, before the court: its time is a claim, the probe is taken right behind it.

Nobody watched the benchmark's clock, drained its device or probed beside it. So only the limit can refuse its time, the
probes of the session and of this minute enclose the fraction, and work that is still running is a doubt, for it may be
somebody else's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_roofline.bench import Bench, budgets_for
from pytest_roofline.checks import Check
from pytest_roofline.checks.claimed import Claim
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.leftover import TOLERANCE
from pytest_roofline.condition_watch import ConditionWatch
from pytest_roofline.errors import InconclusiveMeasurement, RooflineUsageError, one_line
from pytest_roofline.judged import result_of
from pytest_roofline.protocol import Backend
from pytest_roofline.result import Result
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.samples import median
from pytest_roofline.settings import Settings
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_seconds
from pytest_roofline.verdict import Verdict, judge

PREFIX = "roofline_"
"""How every key begins that is put into a benchmark's ``extra_info``."""
FEW_ROUNDS = 5
"""With fewer, the median may be one of two calls of look-ahead."""
LOOK_AHEAD_CALLS = 2
"""Engines schedule the next call while this one runs: one or two in flight are honest."""
_IDLE_DRAINS = 10.0
_PROBES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What a benchmark's fixture kept: seconds of a call, one figure per round of `iterations` calls."""

    name: str
    seconds: tuple[float, ...]
    iterations: int

    @property
    def calls(self) -> int:
        """Calls that were timed."""
        return len(self.seconds) * self.iterations

    @property
    def claimed_s(self) -> float:
        """Seconds of a call as the benchmark claims them: the faster of mean and median; of few rounds, the mean."""
        return min(self._mean_s, self._median_s)

    @property
    def accusable_s(self) -> float:
        """What the limit may be held against: by the mean, two calls may be in flight behind the last round.

        A median of many rounds is not moved by two of them. One call or two claim what they claim.
        """
        in_flight = LOOK_AHEAD_CALLS if self.calls > LOOK_AHEAD_CALLS else 0
        mean_s = self._mean_s * self.calls / (self.calls - in_flight)
        return min(mean_s, self._median_s)

    @property
    def _mean_s(self) -> float:
        return math.fsum(self.seconds) / len(self.seconds)

    @property
    def _median_s(self) -> float:
        """Infinite where it tells nothing: of few rounds, and by a timer that moves too seldom to show most of them."""
        middle = median(self.seconds)
        return middle if len(self.seconds) >= FEW_ROUNDS and middle > 0 else math.inf


def timed_by(benchmark: Any) -> Timed:
    """What pytest-benchmark's fixture measured. RooflineUsageError where it is none, or has not run yet.

    InconclusiveMeasurement where the plugin was told not to measure, as it tells itself under pytest-xdist.
    """
    info = getattr(benchmark, "extra_info", None)
    if not isinstance(info, MutableMapping) or not hasattr(benchmark, "stats"):
        raise RooflineUsageError(
            f"roofline.annotate needs the benchmark fixture of pytest-benchmark, which keeps its times; got a "
            f"{type(benchmark).__name__}"
        )
    if getattr(benchmark, "disabled", False):
        raise InconclusiveMeasurement(
            "pytest-benchmark measured nothing: --benchmark-disable, or pytest-xdist, under which it disables itself; "
            "run with -n 0"
        )
    name = one_line(str(getattr(benchmark, "name", "benchmark")))
    kept = getattr(benchmark.stats, "stats", None)
    seconds = tuple(float(value) for value in getattr(kept, "data", ()))
    if not seconds:
        raise RooflineUsageError(
            f"roofline.annotate: {name} has not run yet; call benchmark(step) first, and annotate right after it"
        )
    return Timed(name=name, seconds=seconds, iterations=int(getattr(benchmark.stats, "iterations", 1) or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a call of the benchmarked function does."""

    traffic: Traffic
    batch: int = 1
    tokens_per_pass: float = 1.0
    passes_per_call: float = 1.0


def judge_benchmark(
    timed: Timed,
    question: Question,
    *,
    bench: Bench,
    drains: Callable[[], Sequence[Backend]],
    settings: Settings,
    checks: Sequence[Check],
) -> Result:
    """Drain what is still running, probe, and let the court decide. The device is the caller's meanwhile.

    Not counted: what the benchmark did not wait for before this call, conditions and neighbours while it ran.
    """
    clock = bench.backend.clock
    begun_s = clock()
    for backend in drains():
        backend.prepare()  # what a first drain compiles is no work of the benchmark
    leftover_s, idle_s = _drained(drains, clock)
    traffic = question.traffic
    pass_s = timed.claimed_s / question.passes_per_call
    accusable_s = timed.accusable_s / question.passes_per_call
    with ConditionWatch(bench.backend, bench.device) as watch, bench.ruler(traffic) as ruler:
        rates = [ruler.measure() for _ in range(_PROBES)]
    held = watch.stretch()
    ceiling = bench.ceiling(traffic, batch=question.batch, tokens_per_pass=question.tokens_per_pass)
    interval = _interval(ceiling, pass_s, rates)
    budgets = budgets_for(settings, bench.device)
    limit = bench.limit_beside(rates)
    if limit.is_measured:
        faster = max(rates) / ceiling.bandwidth_bytes_per_s
        limit = replace(limit, bytes_per_s=limit.bytes_per_s * max(1.0, faster))
    passes = timed.calls * question.passes_per_call
    tokens = passes * question.batch * question.tokens_per_pass
    evidence = Evidence(
        kind="audit",
        label=timed.name,
        ceiling=ceiling,
        traffic=traffic,
        declared=traffic,
        limit=limit,
        knee_bytes=bench.probe.cache_knee_bytes,
        fraction=interval,
        at_least=budgets.at_least,
        at_most=budgets.at_most,
        claim=Claim(tokens=tokens, seconds=accusable_s * passes, is_tokens_seen=False),
        batch=question.batch,
        tokens_per_pass=question.tokens_per_pass,
        allow=settings.allow,
    )
    evidence = bench.with_witnesses(evidence, held)
    call_s = timed.claimed_s
    own = partial(left_running, call_s=call_s, calls=timed.calls, leftover_s=leftover_s, idle_s=idle_s)
    fraction = (interval.low + interval.high) / 2 if interval is not None else None
    verdict = judge(evidence, fraction, (*checks, own))
    return _result(timed, question, evidence, verdict, bench, pass_s, budgets.note, clock() - begun_s)


def _result(
    timed: Timed,
    question: Question,
    evidence: Evidence,
    verdict: Verdict,
    bench: Bench,
    pass_s: float,
    note: str | None,
    elapsed_s: float,
) -> Result:
    return result_of(
        evidence,
        verdict,
        bench.device,
        pass_s,
        kind="benchmark",
        passes=round(timed.calls * question.passes_per_call),
        elapsed_s=elapsed_s,
        notes=(note,) if note else (),
        not_checked=(
            "whether the benchmark's clock stopped after the device: roofline.audit watches it",
            "whether the work was done: roofline.decode and kernel look",
        ),
    )


def _drained(drains: Callable[[], Sequence[Backend]], clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds until everything was idle, and what that takes when everything is."""
    times = []
    for _ in range(4):
        start = clock()
        for backend in drains():
            backend.drain()
        times.append(clock() - start)
    return times[0], max(times[1:])


def _interval(ceiling: Ceiling, pass_s: float, rates: Sequence[float]) -> Interval | None:
    """By the session's probe, which came before, and by those behind: in between, somewhere, the benchmark ran."""
    if pass_s <= 0:
        return None
    fractions = [ceiling.floor_s(rate) / pass_s for rate in (ceiling.bandwidth_bytes_per_s, *rates)]
    return Interval(low=min(fractions), high=max(fractions))


# -- a check of its own -----------------------------------------------------------------------------------------------


def left_running(evidence: Evidence, *, call_s: float, calls: int, leftover_s: float, idle_s: float) -> Finding | None:
    """Work was still running behind the benchmark. A doubt alone: what was submitted after it runs there too."""
    if call_s <= 0 or leftover_s <= _IDLE_DRAINS * idle_s:
        return None
    left = leftover_s / call_s
    if left <= LOOK_AHEAD_CALLS or left <= TOLERANCE * calls:
        return None
    return Finding(
        check="not-drained",
        severity="inconclusive",
        message=(
            f"{format_seconds(leftover_s)} of work were still running behind {evidence.label}, {left:.1f} calls at its "
            f"own {format_seconds(call_s)}: its clock may have stopped before the device did"
        ),
        figures={"leftover_s": leftover_s, "idle_drain_s": idle_s, "leftover_calls": left, "calls": calls},
        remedy=(
            "drain the device in the benchmarked function (torch.accelerator.synchronize(), "
            "jax.block_until_ready(out)), and annotate right after the benchmark"
        ),
    )


# -- what it leaves behind --------------------------------------------------------------------------------------------


def extra_info_of(result: Result) -> dict[str, Any]:
    """What goes into the benchmark's ``extra_info``: figures only where they are true, else the verdict and why."""
    if not result.fraction.is_measured:
        return _named({"verdict": "not measured"})
    outcome = result.verdict.outcome
    info: dict[str, Any] = {"verdict": outcome, "device": f"{result.device.id} ({result.device.name})"}
    if outcome not in ("passed", "failed"):
        reasons = [f"{one.message.splitlines()[0]} [{one.check}]" for one in result.verdict.of(outcome)]
        return _named(info | {"reason": reasons[0] if reasons else "the evidence does not carry a verdict"})
    bounds, ceiling, traffic = result.fraction.bounds, result.ceiling, result.traffic
    info |= {
        "fraction": float(result.fraction),
        "fraction_low": bounds.low,
        "fraction_high": bounds.high,
        "bytes_per_s": result.bytes_per_s,
        "mbu": result.mbu,
    }
    if traffic is not None:
        info["bytes_per_pass"] = traffic.bytes_per_pass
    if ceiling is not None:
        info |= {
            "ceiling_bytes_per_s": ceiling.bandwidth_bytes_per_s,
            "ceiling_pass_s": ceiling.step_s,
            "bound": ceiling.bound,
        }
    return _named(info)


def _named(info: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{PREFIX}{name}": value
        for name, value in info.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }


def put(info: MutableMapping[str, Any], result: Result) -> None:
    """Put the figures of a result into a benchmark's ``extra_info``, in the place of those of an earlier one."""
    for name in [name for name in info if str(name).startswith(PREFIX)]:
        del info[name]
    info.update(extra_info_of(result))
