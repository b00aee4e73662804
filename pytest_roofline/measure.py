"""Time a step against the ruler: warm up, then blocks of N and 2N passes between quick probes.

The slope ``(t_2N - t_N) / N`` is the time of a pass; what does not grow with the passes is reported apart. The
fraction is taken pair by pair with the probes on both sides, because a shared host's bandwidth moves by a factor of
two within minutes and a fraction that does not follow it is noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from pytest_roofline.checks.confronted import Alternation
from pytest_roofline.checks.evidence import Limit, Sample
from pytest_roofline.compile_logs import compiled_within
from pytest_roofline.conditions import Stretch
from pytest_roofline.loop import Block, Loop, OutOfRoom
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.protocol import Compilation
from pytest_roofline.roofline import Interval, moved_s
from pytest_roofline.samples import between, is_steady, median, outliers_remark, robust_line
from pytest_roofline.stopping import Criterion, UntilDecided
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_seconds

BLOCK_S = 0.005
"""Shortest block: long against the clock's resolution and an idle drain. A pair is no shorter than a reading."""
LENGTHENED = 1.5
"""How many times longer than the shortest one a block is on average: see `_varied`."""
DRAINS_PER_BLOCK = 50
WARM_UP_S = 0.1
"""Least warm-up; it goes on while passes still get faster."""
WARM_UP_SHARE = 0.25
"""Part of the time (and of the room) that warming up may take."""
PAIRS_WANTED = 9
PAIRS_KEPT = 16
"""Blocks are not made longer at the cost of these: so many outweigh two wild ones."""
ALTERNATIONS = 5


class Gauge(Protocol):
    """Something that measures a bandwidth now."""

    def measure(self) -> float:
        """Bytes per second."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What the loop showed."""

    samples: tuple[Sample, ...]
    step_s: float | None
    fixed_s: float | None
    fraction: float | None
    interval: Interval | None
    passes: int
    timed_out: bool
    growth_s_per_pass: float | None = None
    notes: tuple[str, ...] = ()
    last: Block | None = None


class Measurement:
    """One measurement: owns the loop's schedule, not its judgement.

    `keep_back` passes are left over where the state cannot be reset: a confrontation may need them.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        traffic: Traffic,
        ruler: Gauge,
        clock: Callable[[], float],
        deadline_s: float,
        context: float,
        compute_s: float = 0.0,
        spill_s: float = 0.0,
        is_overlapped: bool = False,
        criterion: Criterion | None = None,
        keep_back: int = 0,
        compilations: Callable[[], Sequence[Compilation]] = tuple,
        conditions: Callable[[], Stretch | None] = lambda: None,
        onlooker: Onlooker = NOBODY,
    ) -> None:
        self._loop = loop
        self._keep_back = keep_back
        self._compilations = compilations
        self._conditions = conditions
        self._onlooker = onlooker
        self._start_s = clock()
        self._traffic = traffic
        self._ruler = ruler
        self._clock = clock
        self._deadline_s = deadline_s
        self._context = context
        self._compute_s = compute_s
        self._spill_s = spill_s
        self._is_overlapped = is_overlapped
        self._criterion: Criterion = criterion or UntilDecided()
        self._notes: list[str] = []
        self._passes = 0
        self._idle_drain_s = 0.0
        self._random = Random(0)
        self._last: Block | None = None

    def run(self) -> Timing:
        """Warm up, then sample until the criterion is satisfied, the time is over or the state has no more room."""
        self._idle_drain_s = self._time_idle_drain()
        pass_s = self._warm_up()
        samples: list[Sample] = []
        timed_out = pass_s is None and self._clock() >= self._deadline_s
        if pass_s is not None:
            begun = self._clock()
            before = self._ruler.measure()
            passes = self._block_passes(pass_s, self._clock() - begun)
            pair_s = 3 * passes * pass_s * (LENGTHENED if passes > 1 else 1.0)
            self._conditions()  # from here on: warming up is another matter
            while True:
                # A pair that would end after the deadline is not begun; the first one may exceed it by one pass.
                begun = self._clock()
                if begun + pair_s > self._deadline_s + (0.0 if samples else pass_s):
                    timed_out = True
                    self._note_time(pass_s, samples)
                    break
                try:
                    short, long, context = self._pair(self._varied(passes), is_long_first=len(samples) % 2 == 1)
                    bounds = [(begun, self._clock())]
                    held = self._conditions()  # beside the blocks, before an idle device raises its clocks
                except OutOfRoom:
                    self._note_room()
                    break
                after = self._ruler.measure()
                compiled = compiled_within(self._compilations(), bounds)
                sample = self._sample(short, long, context, before, after)
                samples.append(replace(sample, compiled=compiled, conditions=held))
                self._criterion.add(samples[-1].fraction)
                before = after
                if self._criterion.is_finished():
                    break
                self._tell(f"sample {len(samples)}", samples)
                longer = self._longer(passes, samples)
                # What the last pair really took: with its resets, its probe, and a device that slowed down.
                pair_s = (self._clock() - begun) * max(1.0, longer / short.passes)
                passes = longer
        return self._timing(samples, timed_out=timed_out)

    def _time_idle_drain(self) -> float:
        """What draining an idle device costs: the median of a few."""
        times = []
        self._loop.drain()
        for _ in range(5):
            start = self._clock()
            self._loop.drain()
            times.append(self._clock() - start)
        return median(times)

    def _warm_up(self) -> float | None:
        """Run passes by time until the trend is gone; seconds per pass at the end, None when there was no time."""
        start = self._clock()
        budget_s = max(0.0, (self._deadline_s - start) * WARM_UP_SHARE)
        room = self._loop.room_left
        quota = math.inf if room is None or self._loop.has_reset else max(1, math.floor(room * WARM_UP_SHARE))
        times: list[float] = []
        passes, done = 1, 0
        while done + passes <= quota:
            self._tell("warming up")
            if self._clock() >= self._deadline_s:
                break
            try:
                block = self._loop.run(passes)
            except OutOfRoom:
                break
            self._last = block
            done += passes
            times.append(block.closed_s / passes)
            elapsed = self._clock() - start
            if elapsed >= budget_s or (elapsed >= WARM_UP_S and is_steady(times)):
                break
            if block.closed_s < BLOCK_S / 2:
                most = math.inf if room is None else max(1, room // 2)
                passes = int(min(passes * 2, most, max(1, quota - done)))
        return times[-1] if times else None

    def _block_passes(self, pass_s: float, reading_s: float) -> int:
        """How many passes a short block has: long enough to time, short enough for several pairs.

        A pair takes no less than a reading of the ruler: what is measured should not be the smaller part of the time.
        """
        block_s = max(BLOCK_S, DRAINS_PER_BLOCK * self._idle_drain_s, reading_s / 3)
        wanted = math.ceil(block_s / max(pass_s, 1e-9))
        left_s = self._deadline_s - self._clock()
        affordable = math.floor(left_s / (3 * LENGTHENED * PAIRS_WANTED * max(pass_s, 1e-9)))
        passes = min(wanted, max(1, affordable))
        room = self._loop.room if self._loop.has_reset else self._loop.room_left
        if room is not None:
            share = room // 2 if self._loop.has_reset else (room - self._keep_back) // (3 * PAIRS_WANTED)
            passes = min(passes, share)
        return max(1, passes)

    def _varied(self, passes: int) -> int:
        """So many passes up to twice as many, at random, as far as the room goes.

        A neighbour that comes back at a fixed interval would else meet the same part of every pair, and every sample
        would be wrong in the same way.
        """
        if not self._loop.has_reset and self._loop.room is not None:
            return passes  # as few as can be, and none to spare
        room = self._loop.room
        most = 2 * passes if room is None else min(2 * passes, room // 2)
        return self._random.randint(passes, max(passes, most)) if passes > 1 else passes

    def _longer(self, passes: int, samples: list[Sample]) -> int:
        """Lengthen the blocks while the fixed cost outweighs what is measured, as far as room and time allow.

        By the middle one of the last three pairs: one that a neighbour hit says nothing of the fixed cost, and blocks
        that grow because of it leave no time for the many pairs that outweigh it.
        """
        recent = samples[-3:]
        fixed_s = median([max(0.0, one.fixed_s) for one in recent])
        step_s = median([one.step_s if one.step_s > 0 else one.closed_step_s for one in recent])
        is_outweighed = fixed_s > median([one.passes for one in recent]) * step_s
        if len(recent) < 3 or not is_outweighed or not (self._loop.has_reset or self._loop.room is None):
            return passes
        room = self._loop.room
        most = math.inf if room is None else room // 2
        left_s = self._deadline_s - self._clock()
        affordable = (left_s / PAIRS_KEPT - 2 * fixed_s) / (3 * max(step_s, 1e-9))
        return int(max(passes, min(passes * 2, most, affordable)))

    def _pair(self, passes: int, *, is_long_first: bool) -> tuple[Block, Block, float]:
        """Run a short and a long block, in alternating order so that a drift cancels; and the slope's context.

        With time per pass growing linearly with the context, the slope of the two blocks is the time of a pass at
        ``1.5 N`` after the reset; without one, at ``i + 3.5 N`` or ``i - 0.5 N`` for the two orders.
        """
        left = self._loop.room_left
        if left is not None and not self._loop.has_reset and left - self._keep_back < 3 * passes:
            raise OutOfRoom
        if is_long_first:
            long = self._loop.run(2 * passes)
            short = self._loop.run(passes)
            offset = long.first_pass - 0.5 * passes
        else:
            short = self._loop.run(passes)
            long = self._loop.run(2 * passes)
            offset = short.first_pass + 3.5 * passes
        if self._loop.has_reset:
            offset = 1.5 * passes
        self._passes += 3 * passes
        self._last = short if is_long_first else long
        return short, long, self._context + offset

    def floor_s(self, ruler_bytes_per_s: float, context: float) -> float:
        """The shortest a pass can take at this bandwidth and context."""
        memory_s = self._traffic.at_context(context).resident_bytes_per_pass / ruler_bytes_per_s
        return max(moved_s(memory_s, self._spill_s, is_overlapped=self._is_overlapped), self._compute_s)

    def _sample(self, short: Block, long: Block, context: float, before: float, after: float) -> Sample:
        passes = short.passes
        step_s = (long.closed_s - short.closed_s) / passes
        floor_s = self.floor_s(between(before, after), context)
        return Sample(
            passes=passes,
            step_s=step_s,
            fixed_s=short.closed_s - passes * step_s,
            closed_step_s=long.closed_s / long.passes,
            ruler_before_bytes_per_s=before,
            ruler_after_bytes_per_s=after,
            fraction=floor_s / step_s if step_s > 0 else math.inf,
            context=context,
        )

    def _tell(self, stage: str, samples: Sequence[Sample] = ()) -> None:
        """Let an onlooker know, between two blocks."""
        self._onlooker.tell(
            stage,
            fractions=[sample.fraction for sample in samples],
            elapsed_s=self._clock() - self._start_s,
            limit_s=self._deadline_s - self._start_s,
        )

    def _note_time(self, pass_s: float, samples: list[Sample]) -> None:
        if not samples:
            self._notes.append(
                f"a pass takes about {format_seconds(pass_s)}: one of N and 2N passes do not fit into the time allowed"
            )

    def _note_room(self) -> None:
        room = self._loop.room
        self._notes.append(
            f"stopped after {self._loop.in_all} passes: the state has room for {room}"
            + ("" if self._loop.has_reset else "; give reset= (and passes_per_reset=) to measure longer")
        )

    def _note_outliers(self, fractions: list[float]) -> None:
        remark = outliers_remark(fractions)
        if remark is not None:
            self._notes.append(remark)

    def _timing(self, samples: list[Sample], *, timed_out: bool) -> Timing:
        if not samples:
            return Timing(
                samples=(),
                step_s=None,
                fixed_s=None,
                fraction=None,
                interval=None,
                passes=self._passes,
                timed_out=timed_out,
                notes=tuple(self._notes),
                last=self._last,
            )
        step_s, growth = self._step_time(samples)
        fractions = [sample.fraction for sample in samples]
        self._note_outliers(fractions)
        return Timing(
            samples=tuple(samples),
            step_s=step_s,
            fixed_s=median([sample.fixed_s for sample in samples]),
            fraction=median(fractions),
            interval=self._criterion.decide().interval,
            passes=self._passes,
            timed_out=timed_out,
            growth_s_per_pass=growth,
            notes=tuple(self._notes),
            last=self._last,
        )

    def _step_time(self, samples: list[Sample]) -> tuple[float, float | None]:
        """The time of a pass: the median slope; without a reset, the intercept at the context stated.

        The line is drawn through times at one bandwidth, the median of the probes': a machine that slows down is no
        context that grows. A growth smaller than the scatter around its own line is no growth, and one that would halve
        the fastest time that was seen is not believed.
        """
        slopes = [sample.step_s for sample in samples]
        contexts = [sample.context or 0.0 for sample in samples]
        if self._loop.has_reset or len(set(contexts)) < 4:
            return median(slopes), None
        usual = median([sample.ruler_bytes_per_s for sample in samples])
        points = [
            (one.context - self._context, one.step_s * one.ruler_bytes_per_s / usual)
            for one in samples
            if one.context is not None and one.step_s > 0
        ]
        growth, intercept = robust_line(points) if len({x for x, _ in points}) > 1 else (0.0, 0.0)
        scatter = median([abs(y - (intercept + growth * x)) for x, y in points]) if points else 0.0
        least = min((y for _, y in points), default=0.0) / 2
        if growth <= 0 or growth * (max(contexts) - min(contexts)) <= 2 * scatter or intercept <= least:
            return median(slopes), None
        return intercept, growth


def confront(loop: Loop, best: Gauge, passes: int, bytes_from_memory: float) -> tuple[Alternation, ...]:
    """Without a sheet, before anyone is accused: five turns of best-of-all probe, block, best-of-all probe."""
    turns = []
    before = best.measure()
    for _ in range(ALTERNATIONS):
        try:
            block = loop.run(passes)
        except OutOfRoom:
            break
        after = best.measure()
        turns.append(
            Alternation(
                probe_before_bytes_per_s=before,
                block_bytes_per_s=bytes_from_memory * block.passes / block.closed_s if block.closed_s > 0 else math.inf,
                probe_after_bytes_per_s=after,
            )
        )
        before = after
    return tuple(turns)


def is_suspicious(limit: Limit | None, bytes_from_memory: float, samples: tuple[Sample, ...]) -> bool:
    """Whether a measured limit was exceeded, so that a confrontation is due."""
    if limit is None or not limit.is_measured or not samples:
        return False
    return bytes_from_memory / median([s.closed_step_s for s in samples]) > limit.with_slack_bytes_per_s
