"""One measurement of `model.generate()`: runs between quick probes, each a sample, brought before the court."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from pytest_roofline.amounts import bytes_elsewhere
from pytest_roofline.bench import Bench, budgets_for
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.attempts import FreshInput, Work
from pytest_roofline.checks.bounds import allowances
from pytest_roofline.checks.ceiling import memory_bytes
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.generated import Generated, Replay
from pytest_roofline.compile_logs import CompileLogs
from pytest_roofline.condition_watch import ConditionWatch
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.generation import (
    GenerationRequest,
    GenerationWatch,
    Look,
    Run,
    WatchGeneration,
    is_llama,
    no_decode_pass,
)
from pytest_roofline.generation_runs import RunsAsBlocks, RunsMeasurement
from pytest_roofline.generation_traffic import IDLE_SHARE, idle_passes, traffic_of_passes, traffic_of_runs
from pytest_roofline.judged import result_of
from pytest_roofline.measure import confront, is_suspicious
from pytest_roofline.placement import Placement
from pytest_roofline.protocol import Backend
from pytest_roofline.result import Result, unmeasured_result
from pytest_roofline.roofline import Ceiling
from pytest_roofline.samples import median
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.stopping import criterion_named
from pytest_roofline.traffic import Traffic, moved_bytes
from pytest_roofline.verdict import judge

OTHER_PROMPTS = 3
HEAD_SHARE = 0.5
"""Of the output table, that a pass moved."""
COUNTED_PASSES = "the bytes of a pass were counted from the parameters: no trace of a decode pass saw them read"


def run_generation(
    request: GenerationRequest,
    *,
    session: Session,
    placement: Placement,
    settings: Settings,
    bench_of: Callable[[Device, Backend], Bench],
    device: str | None,
    label: str | None,
    max_time_s: float,
    stopping: str | None,
    checks: Sequence[Check] = CHECKS,
) -> Result:
    """Find the device of the model, have it to ourselves, and measure the call there."""
    engine = None
    if is_llama(request.model):
        from pytest_roofline.llama_engine import llama_engine

        engine = llama_engine(request, session=session, settings=settings, wanted=device)
        chosen, backend = engine.device, engine.backend
    else:
        chosen, backend = placement.place(device, request.model)
    make: WatchGeneration | None = engine.make if engine else getattr(backend, "watch_generation", None)
    if make is None:
        raise RooflineUsageError(
            f"roofline.generate cannot watch the passes of a {type(request.model).__name__} ({backend.name}): measure "
            "its step with roofline.decode, or the whole with roofline.audit"
        )
    drains = session.backends.in_use(backend)

    def drain() -> None:
        for one in drains:
            one.drain()

    def leave() -> None:
        """The device is the next test's as soon as the lock is given back; what went wrong first is what counts."""
        with suppress(Exception):
            drain()

    name = label or f"{type(request.model).__name__}.generate"
    watch = make(request, drain)
    try:
        if settings.mode == "off":
            return unmeasured_result("generate", name, chosen, watch.run().outputs)
        trial = GenerationTrial(
            watch,
            model=request.model,
            label=name,
            settings=settings,
            backend=backend,
            max_time_s=max_time_s,
            stopping=stopping,
            traffic_at=engine.traffic_at if engine else None,
            checks=checks,
        )
        with ExitStack() as held:
            held.enter_context(session.lock(chosen))
            held.callback(leave)
            session.onlooker.tell("the first run, untimed")
            look = trial.look()
            touched = placement.device_of_pass(
                chosen, look.device_ids[0] if look.device_ids else None, device or settings.device
            )
            if touched.key != chosen.key:
                held.close()  # never two devices at once: whoever wants both in turn would wait for each other
                held.enter_context(session.lock(touched))
                held.callback(leave)
            return trial.judge(look, bench_of(touched, backend))
    finally:
        watch.close()


class GenerationTrial:
    """Measures one call; the caller has the device to itself meanwhile, and closes the watch."""

    def __init__(
        self,
        watch: GenerationWatch,
        *,
        model: Any,
        label: str,
        settings: Settings,
        backend: Backend,
        max_time_s: float,
        stopping: str | None,
        traffic_at: Callable[[int, int], Traffic] | None = None,
        checks: Sequence[Check] = CHECKS,
    ) -> None:
        self._watch = watch
        self._traffic_at = traffic_at
        self._model = model
        self._label = label
        self._settings = settings
        self._backend = backend
        self._max_time_s = max_time_s
        self._stopping = stopping
        self._checks = checks
        self._start = 0.0
        self._look_s = 0.0

    def look(self) -> Look:
        """One untimed run; a call that never decodes is wrong use."""
        self._backend.prepare()
        self._start = self._backend.clock()
        look = self._watch.look()
        self._look_s = self._backend.clock() - self._start
        run = look.run
        if not run.decode_passes and run.tokens and not run.is_ended_early and not _is_short_of_passes(run):
            raise no_decode_pass(f"generate returned {run.tokens} new ids from its prefill alone")
        return look

    def judge(self, look: Look, bench: Bench) -> Result:
        """Time runs against the bench's ruler and call the court."""
        budgets = budgets_for(self._settings, bench.device)
        base, is_traced = self._amounts(look)
        knee = bench.probe.cache_knee_bytes
        ceiling = self._ceiling(base, look, [look.run], bench)
        with (
            ConditionWatch(bench.backend, bench.device) as watch,
            CompileLogs([self._backend]) as compiled,
            bench.ruler(base) as ruler,
        ):
            seen = RunsMeasurement(
                self._watch,
                look,
                traffic=base,
                ruler=ruler,
                clock=bench.backend.clock,
                max_time_s=self._max_time_s,
                look_s=self._look_s,
                compute_s=ceiling.compute_s,
                knee_bytes=knee,
                criterion=criterion_named(
                    self._stopping or self._settings.stopping,
                    budgets.at_least,
                    budgets.at_most,
                    allowances(base, ceiling, knee, bench.probe.excess),
                ),
                compilations=compiled.entries,
                conditions=watch.since_last,
                onlooker=bench.onlooker,
            ).measure()
        samples, runs = seen.samples, seen.runs
        timed = seen.decoding or (look.run,)
        traffic = traffic_of_runs(base, look.draft, timed, knee)
        ceiling = self._ceiling(traffic, look, timed, bench)
        conditions = watch.stretch()
        evidence = Evidence(
            kind="generate",
            label=self._label,
            ceiling=ceiling,
            traffic=traffic,
            traced=traffic if is_traced else None,
            limit=bench.limit_beside([sample.ruler_after_bytes_per_s for sample in samples]),
            knee_bytes=knee,
            elsewhere=bench.apart(bytes_elsewhere(look.bytes_by_device, look.device_ids)),
            samples=samples,
            fraction=seen.interval,
            at_least=budgets.at_least,
            at_most=budgets.at_most,
            timed_out=seen.timed_out,
            batch=ceiling.batch,
            tokens_per_pass=ceiling.tokens_per_pass,
            survey=None if look.surveyor is None else look.surveyor.survey(),
            generated=self._generated(look, runs),
            allow=self._settings.allow,
        )
        evidence = bench.with_witnesses(evidence, conditions)
        needed = memory_bytes(evidence)
        if needed is not None and is_suspicious(evidence.limit, needed, evidence.samples):
            with bench.best_of_all() as best:
                loop: Any = RunsAsBlocks(self._watch)
                evidence = replace(evidence, confrontation=confront(loop, best, 1, needed))
        work, not_checked = self._work()
        evidence = replace(evidence, work=work)
        notes = [*look.notes, *traffic.notes, *seen.words, *([budgets.note] if budgets.note else [])]
        return self._result(evidence, bench, runs, notes, not_checked, watch.to_dict())

    # -- amounts ------------------------------------------------------------------------------------------------

    def _amounts(self, look: Look) -> tuple[Traffic, bool]:
        """What a pass moves, and whether that was traced, rather than counted from the parameters.

        A trace that saw less than the output table, which every pass multiplies by, was blind, or there was no work.
        The fraction is of all parameters then. The least bytes are none, for nobody knows where the work was done,
        unless the trace accounts for every output and saw next to nothing read: then at least that table was owed.
        An engine that nobody can trace is told by its own file, and by its own counts that the passes ran.
        """
        if self._traffic_at is not None:
            return self._traffic_at(round(look.run.mean_context), look.run.positions_per_pass), False
        traced = traffic_of_passes(look)
        count = getattr(self._backend, "count_model", None)
        head = getattr(self._model, "get_output_embeddings", lambda: None)()
        head_bytes: float = 0.0 if count is None or head is None else count(head).least_bytes_per_pass
        if traced is not None and moved_bytes(traced) >= HEAD_SHARE * head_bytes:
            return traced, True
        if count is None:
            raise RooflineUsageError("no pass of this model was seen, so the bytes of a pass are not known")
        counted: Traffic = count(self._model, batch=len(look.run.ids), context=round(look.run.context))
        is_idle = traced is not None and traced.is_closed and moved_bytes(traced) < IDLE_SHARE * head_bytes
        least = head_bytes if is_idle else 0.0
        return replace(counted, least_bytes_per_pass=least, notes=(*counted.notes, COUNTED_PASSES)), False

    @staticmethod
    def _ceiling(traffic: Traffic, look: Look, runs: Sequence[Run], bench: Bench) -> Ceiling:
        sequences = max(1, len(look.run.ids))
        passes = sum(run.decode_passes for run in runs)
        tokens = sum(run.decode_tokens for run in runs)
        per_pass = tokens / (passes * sequences) if passes and tokens else 1.0
        return bench.ceiling(traffic, batch=sequences, tokens_per_pass=per_pass)

    # -- runs ---------------------------------------------------------------------------------------------------

    def _work(self) -> tuple[Work, list[str]]:
        """Whether passes write what they return, and follow the prompt; and what was not checked."""
        other = self._watch.with_other_prompt(1)
        missing = ["the outputs were not compared with a reference"]
        if other.reason:
            missing.append(f"whether the passes follow the prompt: {other.reason}")
        if other.overwritten.fate == "unknown":
            missing.append(f"whether a pass writes its output: {other.overwritten.reason}")
        fresh = FreshInput(elements=other.elements, is_identical=other.is_identical, reason=other.reason)
        return Work(overwritten=other.overwritten, fresh_input=fresh), missing

    def _generated(self, look: Look, runs: Sequence[Run]) -> Generated | None:
        """The run whose passes explain least of its ids; where they do not explain them, what other prompts show."""
        worst = max([look.run, *runs], key=lambda run: run.tokens - (run.possible_tokens or 0))
        if worst.possible_tokens is None:
            return None
        replay: Replay = "unknown"
        tried = 0
        if _is_short_of_passes(worst):
            for shift in range(1, OTHER_PROMPTS + 1):
                other = self._watch.with_other_prompt(shift, is_whole=True).run
                if other is None:
                    break
                tried += 1
                if not _is_short_of_passes(other):
                    replay = "by-prompt"
                    break
                replay = "same-ids" if other.ids == worst.ids and replay != "no" else "no"
        passes = sum(not one.is_draft for one in (*worst.prefill, *worst.decode))
        return Generated(
            tokens=worst.tokens,
            possible_tokens=worst.possible_tokens,
            passes=passes,
            replay=replay,
            prompts=tried,
            traced_passes=len(look.traced),
            idle_passes=idle_passes(look),
        )

    # -- the result ---------------------------------------------------------------------------------------------

    def _result(
        self,
        evidence: Evidence,
        bench: Bench,
        runs: Sequence[Run],
        notes: Sequence[str],
        not_checked: Sequence[str],
        conditions: dict[str, Any],
    ) -> Result:
        samples = evidence.samples
        fraction = median([sample.fraction for sample in samples]) if samples else None
        verdict = judge(evidence, fraction, self._checks)
        step_s = median([sample.step_s for sample in samples]) if samples else None
        waits = [run.ttft_s for run in runs if run.ttft_s is not None]
        return result_of(
            evidence,
            verdict,
            bench.device,
            step_s,
            samples=samples,
            passes=sum(run.decode_passes for run in runs),
            ttft_s=median(waits) if waits else None,
            elapsed_s=bench.backend.clock() - self._start,
            notes=tuple(dict.fromkeys(notes)),
            not_checked=tuple(not_checked),
            conditions=conditions,
            outputs=runs[-1].outputs if runs else None,
        )


def _is_short_of_passes(run: Run) -> bool:
    return run.possible_tokens is not None and run.tokens > run.possible_tokens
