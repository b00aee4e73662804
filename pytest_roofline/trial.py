"""One measurement of a step, from its bytes to its verdict: what decode, prefill and kernel have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pytest_roofline.amounts import Amounts, find_amounts, generated_ids
from pytest_roofline.bench import Bench, HotGauge, budgets_for, spill_remark
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.bounds import allowances
from pytest_roofline.checks.ceiling import closed_pass_s, memory_bytes
from pytest_roofline.checks.counted import Counted
from pytest_roofline.checks.evidence import Evidence, Kind
from pytest_roofline.checks.hardware import can_be_counted, is_clearly_fewer, is_rather_few
from pytest_roofline.checks.sized import Sized
from pytest_roofline.compile_logs import CompileLogs
from pytest_roofline.condition_watch import ConditionWatch
from pytest_roofline.counting import Meanwhile, count_passes, place_of
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.eviction import SeparateLoop, cold_loop, rotated_bytes
from pytest_roofline.judged import result_of
from pytest_roofline.ledger import tokens_of_a_pass
from pytest_roofline.loop import Loop
from pytest_roofline.measure import ALTERNATIONS, Measurement, Timing, confront, is_suspicious
from pytest_roofline.protocol import Backend
from pytest_roofline.result import Result
from pytest_roofline.ruler import Ruler
from pytest_roofline.settings import Settings
from pytest_roofline.sizing import LargerStep, check_ratio, sized
from pytest_roofline.stopping import criterion_named
from pytest_roofline.units import format_bytes
from pytest_roofline.verdict import judge
from pytest_roofline.workproof import Proof, Question, WorkProof, completed, passes_kept, witness_of

KNEES_OF_A_COLD_KERNEL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the caller asked for."""

    kind: Kind
    step: Callable[..., Any]
    label: str
    model: Any = None
    declared: Any = None
    batch: int | None = None
    context: int | None = None
    tokens_per_pass: float | Callable[[Any], float] = 1
    reset: Callable[[], Any] | None = None
    passes_per_reset: int | None = None
    inputs: Any = None
    is_stateless: bool = False
    is_hot: bool = False
    reference: Any = None
    tamper: bool = False
    larger: LargerStep | None = None
    offload: float | None = None
    """Share of the weights outside of the device's memory; None: by what the trace saw."""
    is_overlapped: bool = False
    max_time_s: float = 10.0
    stopping: str | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether calls, not tokens, are measured."""
        return self.kind == "kernel"


class Trial:
    """Runs one job. `bench_of` is asked once the framework and the device of the pass are known."""

    def __init__(
        self,
        job: Job,
        *,
        settings: Settings,
        backend: Backend,
        backends: Sequence[Backend],
        drains: Sequence[Backend],
        checks: Sequence[Check] = CHECKS,
    ) -> None:
        if job.reference is not None and not callable(job.reference):
            kind = type(job.reference).__name__
            raise RooflineUsageError(f"reference is a {kind}; it must be callable, with the arguments of the step")
        self._job = job
        self._settings = settings
        self._backend = backend
        self._backends = backends
        self._checks = checks
        self._drains = drains
        self._start = 0.0
        self._pass_s = 0.0
        self._watcher = witness_of(backend) if job.tamper else None
        self.loop = Loop(
            job.step,
            backend=backend,
            drains=drains,
            inputs=job.inputs,
            reset=job.reset,
            passes_per_reset=job.passes_per_reset,
            is_stateless=job.is_stateless,
            rotates=job.is_kernel and not job.is_hot and rotated_bytes(job.inputs, 1.0) is not None,
            may_return_nothing=job.is_kernel,
        )

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Leave the device drained, however this ends: a timeout may strike in the first pass or in the probe."""
        with suppress(Exception) if kind is not None else nullcontext():  # what went wrong first is what counts
            self.loop.drain()  # the device is the next test's now

    def look(self) -> Amounts:
        """Run the step once, untimed: its bytes, its outputs, its framework and its device."""
        job = self._job
        for backend in self._backends:  # whose pass it is shows only when it has run
            backend.prepare()
        self._start = self._backend.clock()
        amounts = find_amounts(
            self.loop,
            job.step if self._watcher is None else self._watcher.watched(job.step),
            backends=self._backends,
            backend=self._backend,
            model=job.model,
            declared=job.declared,
            batch=job.batch,
            context=job.context,
            may_return_nothing=job.is_kernel,
        )
        if amounts.backend is not self._backend:
            self._watcher = None  # it is of another framework
        self._backend = amounts.backend
        self.loop.use(amounts.backend)
        self._pass_s = self._backend.clock() - self._start
        return amounts

    def judge(self, amounts: Amounts, bench: Bench) -> Result:
        """Time the loop against the bench's ruler and call the court."""
        job = self._job
        tokens_per_pass = tokens_of_a_pass(job.tokens_per_pass, amounts.outputs)
        budgets = budgets_for(self._settings, bench.device)
        notes = [*amounts.notes, *([budgets.note] if budgets.note else [])]
        loop: Any = self.loop
        placed, elsewhere = bench.placed(amounts.traffic, job.offload, amounts.elsewhere)
        amounts = replace(amounts, traffic=placed)
        traffic, knee = placed, bench.probe.cache_knee_bytes
        if job.larger is not None:
            check_ratio(job.larger, placed)
        if job.is_kernel and not job.is_hot:
            traffic, loop, knee, note = self._cool(amounts, bench)
            notes += [note] if note else []
        elif self.loop.has_reset and (job.kind == "prefill" or self.loop.room == 1):
            # Blocks of several passes do not fit between two resets: each pass is timed by itself.
            loop = SeparateLoop(self.loop, lambda: None)
        ceiling = bench.ceiling(
            traffic,
            batch=amounts.batch,
            tokens_per_pass=tokens_per_pass,
            is_hot=job.is_hot,
            is_prefill=job.kind == "prefill",
            is_overlapped=job.is_overlapped,
        )
        remark = spill_remark(ceiling)
        notes += [remark] if remark else []
        clock = bench.backend.clock
        begun_s = clock()
        meanwhile = Meanwhile(bench.counter if loop is self.loop and not job.is_hot else None)
        with (
            ConditionWatch(bench.backend, bench.device) as watch,
            CompileLogs([self._backend]) as compiled,
            HotGauge(bench.probe) if job.is_hot else bench.ruler(traffic) as gauge,
        ):
            timing = Measurement(
                loop,
                traffic=traffic,
                ruler=gauge,
                clock=clock,
                # The pass that was looked at is the one that may exceed the time; if it did, no other is begun.
                deadline_s=clock() + (job.max_time_s if self._pass_s <= job.max_time_s else 0.0),
                context=float(amounts.context),
                compute_s=ceiling.compute_s,
                spill_s=ceiling.spill_s,
                is_overlapped=ceiling.is_overlapped,
                criterion=criterion_named(
                    job.stopping or self._settings.stopping,
                    budgets.at_least,
                    budgets.at_most,
                    allowances(traffic, ceiling, knee, bench.probe.excess, is_hot=job.is_hot),
                ),
                keep_back=(ALTERNATIONS if bench.limit.is_measured else 0) + self._kept,
                compilations=compiled.entries,
                conditions=meanwhile.around(watch.since_last),
                onlooker=bench.onlooker,
            ).run()
            meanwhile.end()
        ran = tuple(self.loop.ran)
        held = watch.stretch()
        if callable(job.tokens_per_pass) and self.loop.outputs is not None:
            tokens_per_pass = tokens_of_a_pass(job.tokens_per_pass, self.loop.outputs)
            ceiling = replace(ceiling, tokens_per_pass=tokens_per_pass)
            if timing.last is not None:  # the ids of that very output: drafts are accepted anew in every pass
                amounts = replace(amounts, ids_per_pass=generated_ids(timing.last.forced))
        has_ids = amounts.ids_per_pass is not None and not job.is_kernel
        evidence = Evidence(
            kind=job.kind,
            label=job.label,
            ceiling=ceiling,
            traffic=traffic,
            declared=amounts.declared,
            traced=amounts.traced,
            limit=bench.limit_beside([sample.ruler_after_bytes_per_s for sample in timing.samples]),
            knee_bytes=knee,
            samples=timing.samples,
            fraction=timing.interval,
            at_least=budgets.at_least,
            at_most=budgets.at_most,
            is_cache_hot=job.is_hot,
            elsewhere=elsewhere,
            timed_out=timing.timed_out,
            tokens_claimed=tokens_per_pass * amounts.batch if has_ids and job.kind == "decode" else None,
            ids_seen=amounts.ids_per_pass if has_ids else None,
            batch=amounts.batch,
            tokens_per_pass=tokens_per_pass,
            survey=None if amounts.surveyor is None else amounts.surveyor.survey(),
            allow=self._settings.allow,
        )
        evidence = self._confronted(bench.with_witnesses(evidence, held), loop, bench, timing)
        size = self._sized(evidence, bench)
        if isinstance(size, str):
            notes.append(f"larger= was not held against the limit: {size}")
        else:
            evidence = replace(evidence, sized=size)
        place = place_of(bench.device, amounts.device_ids)
        beside = gauge.readings if isinstance(gauge, Ruler) else []
        counted = meanwhile.counted(ran, beside, is_exact=not self.loop.has_reset, place=place)
        evidence = replace(evidence, counted=self._counted(evidence, bench, counted, begun_s))
        proof = self._proof(amounts, timing)
        return self._result(replace(evidence, work=proof.work), bench, timing, notes, amounts, proof, watch.to_dict())

    def _cool(self, amounts: Amounts, bench: Bench) -> tuple[Any, Any, float, str | None]:
        """Keep a kernel's caches cold: past four knees nothing is needed, inputs may rotate, else evict."""
        traffic, knee = amounts.traffic, bench.probe.cache_knee_bytes
        footprint, needed = traffic.footprint_bytes, KNEES_OF_A_COLD_KERNEL * knee
        rotated = rotated_bytes(self._job.inputs, footprint)
        if rotated is not None and rotated >= needed:
            note = f"{format_bytes(rotated)} of inputs are rotated, over {KNEES_OF_A_COLD_KERNEL} cache knees"
            # The caches serve a whole turn, so a call may have its share of them and no more.
            return traffic, self.loop, knee * footprint / rotated, note
        if footprint >= needed:
            return traffic, self.loop, knee, None
        note = (
            f"a call touches {format_bytes(footprint)}, under {KNEES_OF_A_COLD_KERNEL} cache knees "
            f"({format_bytes(needed)}): the caches are evicted between calls, outside the timed span; launch and drain "
            "of each call are inside"
        )
        # What is read comes from memory then; what is written may still lie in cache when the clock stops.
        written = min(knee, traffic.written_bytes_per_pass)
        return traffic, cold_loop(self.loop, bench.device, bench.backends, needed), written, note

    @property
    def _kept(self) -> int:
        return passes_kept(self.loop, has_reference=self._job.reference is not None)

    def _confronted(self, evidence: Evidence, loop: Any, bench: Bench, timing: Timing) -> Evidence:
        """Before anyone is accused without a sheet: best-of-all probes and blocks, five times in turn."""
        needed = memory_bytes(evidence)
        if needed is None or not is_suspicious(evidence.limit, needed, timing.samples):
            return evidence
        passes = timing.samples[-1].passes
        if loop.room_left is not None and not loop.has_reset:
            passes = max(1, min(passes, (loop.room_left - self._kept) // ALTERNATIONS))
        bench.onlooker.tell("faster than the probe: both again, in turns")
        with bench.best_of_all() as best:
            return replace(evidence, confrontation=confront(loop, best, passes, needed))

    def _sized(self, evidence: Evidence, bench: Bench) -> Sized | str | None:
        """What the larger step takes, where the caller gave one and there is something to hold it against."""
        if self._job.larger is None:
            return None
        if not evidence.samples or evidence.is_cache_hot:
            return "a hot cache has no limit" if evidence.is_cache_hot else "nothing was timed"
        bench.onlooker.tell("the larger step")
        return sized(
            evidence,
            self._job.larger,
            bench,
            own=self.loop,
            backend=self._backend,
            drains=self._drains,
            reset=self._job.reset,
            max_time_s=self._job.max_time_s,
        )

    def _counted(self, evidence: Evidence, bench: Bench, counted: Counted | None, begun_s: float) -> Counted | None:
        """What the device counted beside the blocks; passes by themselves, before that speaks against anyone."""
        counter, pass_s = bench.counter, closed_pass_s(evidence)
        has_spill = evidence.ceiling is not None and evidence.ceiling.spill_s > 0  # what comes over the link is counted
        if counter is None or counted is None or pass_s is None or has_spill or not can_be_counted(evidence):
            return None
        if not is_rather_few(evidence, counted):
            return counted
        bench.onlooker.tell("fewer bytes counted than a pass needs: some more for the counter alone")
        count = partial(
            count_passes,
            self.loop,
            counter,
            pass_s=pass_s,
            place=counted.place,
            clock=bench.backend.clock,
            keep_back=self._kept,
        )
        alone = count(until_s=begun_s + self._job.max_time_s)
        if alone is None or not is_clearly_fewer(evidence, alone):
            return alone
        # Once more, and is the counter itself still alive?
        again = count(until_s=math.inf)
        if again is None or not counter.still_holds():
            return None
        return max(alone, again, key=lambda one: one.most_bytes_per_pass)

    def _proof(self, amounts: Amounts, timing: Timing) -> Proof:
        """A few more passes, untimed, that show whether the output comes from them."""
        job = self._job
        question = Question(
            step=job.step,
            model=job.model,
            has_inputs=job.inputs is not None,
            reference=job.reference,
            tamper=job.tamper,
            is_decode=job.kind == "decode",
            is_stateless=job.is_stateless,
            max_time_s=job.max_time_s,
        )
        # Passes of a prefill, and of a state with room for one, were each timed behind a reset.
        has_depth = job.kind == "decode" and self.loop.room != 1
        deepest = max((2 * sample.passes for sample in timing.samples), default=0) if has_depth else 0
        pass_s = timing.step_s or self._pass_s
        proof = WorkProof(question, self.loop, amounts.backend, amounts, pass_s=pass_s, deepest=deepest)
        return proof.look(self._watcher)

    def _result(
        self,
        evidence: Evidence,
        bench: Bench,
        timing: Timing,
        notes: Sequence[str],
        amounts: Amounts,
        proof: Proof,
        conditions: dict[str, Any],
    ) -> Result:
        verdict = judge(evidence, timing.fraction, self._checks)
        step_s = timing.step_s if timing.step_s is not None and timing.step_s > 0 else None
        return result_of(
            evidence,
            verdict,
            bench.device,
            step_s,
            fixed_s=timing.fixed_s,
            samples=timing.samples,
            passes=timing.passes,
            ttft_s=step_s if evidence.kind == "prefill" else None,
            elapsed_s=bench.backend.clock() - self._start,
            notes=(*notes, *timing.notes),
            not_checked=completed(amounts, proof),
            conditions=conditions,
            outputs=self.loop.outputs,
        )
