"""The timed runs of a generation: between quick probes, each a sample of its decode passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from pytest_roofline.checks.evidence import Sample
from pytest_roofline.compile_logs import compiled_within
from pytest_roofline.conditions import Stretch
from pytest_roofline.generation import GenerationWatch, Look, Run
from pytest_roofline.generation_traffic import traffic_of_runs
from pytest_roofline.loop import Block, OutOfRoom
from pytest_roofline.measure import Gauge
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.protocol import Compilation, Forced
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import between, median
from pytest_roofline.stopping import Criterion
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_seconds

WARM_UPS = 3
"""The look is traced and eager, so at least one run warms up what the timed ones use; more while they get faster."""
STEADY = 0.9
WARM_UP_SHARE = 0.25
MOST_WITHOUT_A_PASS = 20
"""Runs that may end with their first token before it is clear that they do."""
FEW = 6
"""Fewer samples have no interval of their median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What the runs showed."""

    runs: tuple[Run, ...]
    samples: tuple[Sample, ...]
    """One for each run that had decode passes."""
    interval: Interval | None
    timed_out: bool
    last_s: float
    """What the last run took, with its probe."""

    @property
    def decoding(self) -> tuple[Run, ...]:
        """The runs with decode passes."""
        return tuple(run for run in self.runs if run.step_s)

    @property
    def words(self) -> tuple[str, ...]:
        """What the runs were, in words."""
        decoding = self.decoding
        passes, drafts = sum(run.decode_passes for run in decoding), sum(run.draft_passes for run in decoding)
        lines = []
        if passes:
            per_run = median([float(run.decode_passes) for run in decoding])
            lines.append(
                f"{len(decoding)} runs of {per_run:g} decode passes from a context of {decoding[-1].context:g} tokens "
                "on; the prefill is not among them"
            )
        elif self.runs:
            lines.append("no decode pass of the model was seen in a timed run")
        else:
            lines.append("no run was timed: the one before them took longer than the time that is allowed")
        if drafts:
            yielded = mean(run.decode_tokens / len(run.ids) / run.decode_passes for run in decoding)
            lines.append(
                f"{drafts / passes:.3g} passes of the draft and {yielded:.3g} tokens for each pass of the model; the "
                "draft's reads are added to its bytes"
            )
        if len(self.runs) > len(decoding) > 0:
            lines.append(
                f"{len(self.runs) - len(decoding)} of {len(self.runs)} runs ended with their first token and show no "
                "decode pass"
            )
        if self.timed_out and (decoding or not self.runs) and len(self.samples) < FEW:
            lines.append(
                f"a run takes about {format_seconds(self.last_s)}: ask for fewer tokens (max_new_tokens=, "
                "max_tokens=), or allow more time (--roofline-max-time)"
            )
        return tuple(lines)


class RunsMeasurement:
    """Owns the schedule of the runs, not their judgement. `traffic` is that of a decode pass without its draft."""

    def __init__(
        self,
        watch: GenerationWatch,
        look: Look,
        *,
        traffic: Traffic,
        ruler: Gauge,
        clock: Callable[[], float],
        max_time_s: float,
        look_s: float,
        compute_s: float,
        knee_bytes: float,
        criterion: Criterion,
        compilations: Callable[[], Sequence[Compilation]],
        conditions: Callable[[], Stretch | None],
        onlooker: Onlooker = NOBODY,
    ) -> None:
        self._watch = watch
        self._look = look
        self._traffic = traffic
        self._ruler = ruler
        self._clock = clock
        self._max_time_s = max_time_s
        self._look_s = look_s
        self._compute_s = compute_s
        self._knee_bytes = knee_bytes
        self._criterion = criterion
        self._compilations = compilations
        self._conditions = conditions
        self._onlooker = onlooker

    def measure(self) -> Runs:
        """Warm up, then run until the criterion is satisfied or the time is over; one run may exceed it."""
        deadline_s = self._clock() + self._max_time_s
        last_s = self._warm_up(deadline_s)
        runs: list[Run] = []
        samples: list[Sample] = []
        timed_out = False
        before = self._ruler.measure()
        self._conditions()  # from here on: warming up is another matter
        while not (samples and self._criterion.is_finished()) and len(runs) <= len(samples) + MOST_WITHOUT_A_PASS:
            begun = self._clock()
            if begun + last_s > deadline_s and (runs or self._look_s > self._max_time_s):
                timed_out = True
                break
            self._tell(f"run {len(runs) + 1}", deadline_s, samples)
            run = self._watch.run()
            held = self._conditions()
            after = self._ruler.measure()
            runs.append(run)
            if run.step_s:
                one = self._sample(run, run.step_s, before, after)
                inside = compiled_within(self._compilations(), [(run.end_s - run.decode_s, run.end_s)])
                samples.append(replace(one, compiled=inside, conditions=held))
                self._criterion.add(one.fraction)
            before = after
            last_s = self._clock() - begun
        return Runs(
            runs=tuple(runs),
            samples=tuple(samples),
            interval=self._criterion.decide().interval,
            timed_out=timed_out,
            last_s=last_s,
        )

    def _tell(self, stage: str, deadline_s: float, samples: Sequence[Sample] = ()) -> None:
        """Let an onlooker know, between two runs."""
        elapsed_s = self._clock() - deadline_s + self._max_time_s
        fractions = [sample.fraction for sample in samples]
        self._onlooker.tell(stage, fractions=fractions, elapsed_s=elapsed_s, limit_s=self._max_time_s)

    def _warm_up(self, deadline_s: float) -> float:
        """Untimed runs; what the last one took. None where the look says that time is short."""
        last_s = self._look_s
        if last_s > self._max_time_s / 2:
            return last_s
        began = self._clock()
        for _ in range(WARM_UPS):
            self._tell("warming up", deadline_s)
            start, compiled = self._clock(), len(self._compilations())
            self._watch.run()
            took_s = self._clock() - start
            is_steady = took_s > STEADY * last_s and len(self._compilations()) == compiled
            last_s = took_s
            if is_steady or start + took_s - began > WARM_UP_SHARE * self._max_time_s:
                break
            if self._clock() + took_s > deadline_s:
                break
        return last_s

    def _sample(self, run: Run, step_s: float, before: float, after: float) -> Sample:
        traffic = traffic_of_runs(self._traffic, self._look.draft, [run], self._knee_bytes)
        floor_s = max(traffic.bytes_per_pass / between(before, after), self._compute_s)
        return Sample(
            passes=run.decode_passes,
            step_s=step_s,
            fixed_s=run.ttft_s or 0.0,
            closed_step_s=step_s,
            ruler_before_bytes_per_s=before,
            ruler_after_bytes_per_s=after,
            fraction=floor_s / step_s if step_s > 0 else math.inf,
            context=run.mean_context,
        )


@dataclass(frozen=True, slots=True)
class RunsAsBlocks:
    """Runs in the shape of a loop's blocks, for a confrontation: a run has as many passes as it has."""

    watch: GenerationWatch

    def run(self, passes: int) -> Block:
        """One run's decode passes; OutOfRoom when it has none."""
        run = self.watch.run()
        if not run.decode_passes:
            raise OutOfRoom
        return Block(
            passes=run.decode_passes, first_pass=0, host_s=run.decode_s, closed_s=run.decode_s, forced=Forced()
        )
