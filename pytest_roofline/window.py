"""Which stretch of an audit does a claim speak of? Pure: reads and a claim in, a window out.

The rules (a) to (e) of the clock watch: two reads are the window whatever is claimed; of several, the pair whose
returned difference equals the claimed seconds; none fits, the window is not known; no read seen, the claim is all
there is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pytest_roofline.checks.claimed import ClockRead, EventInterval
from pytest_roofline.samples import median

MATCH = 0.01
"""A returned difference equals the claimed seconds within 1 %."""
EXACT = 1e-4
"""Figures that were computed from each other, and perhaps rounded: so near, none of hundreds is by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Two reads of one clock, the later one being the stop."""

    start: ClockRead
    stop: ClockRead

    @property
    def returned_s(self) -> float | None:
        """What the test can have computed from the two."""
        if self.start.value_s is None or self.stop.value_s is None:
            return None
        return self.stop.value_s - self.start.value_s

    @property
    def private_low_s(self) -> float:
        """The shortest the span can have been on the private clock."""
        return max(0.0, self.stop.private_low_s - self.start.private_high_s)

    @property
    def private_high_s(self) -> float:
        """The longest it can have been."""
        return self.stop.private_high_s - self.start.private_low_s

    @property
    def measured_s(self) -> float:
        """The private length nearest to what the test was given: a preempted read is nobody's fault."""
        if self.returned_s is None:
            return self.private_high_s
        return min(max(self.returned_s, self.private_low_s), self.private_high_s)

    @property
    def leftover_s(self) -> float:
        """How long the work submitted before the stop still needed."""
        return self.stop.leftover_s

    @property
    def cpu_s(self) -> float | None:
        """What the processor spent on this process meanwhile, where the two are of a clock that counts such time."""
        return None if self.start.cpu_s is None or self.stop.cpu_s is None else self.stop.cpu_s - self.start.cpu_s


def find_span(reads: Sequence[ClockRead], seconds: float | None) -> Span | None:
    """The pair of reads that a claim of `seconds` speaks of; None when there is none, or no telling."""
    return only_span(reads) or matching_span(reads, seconds)


def only_span(reads: Sequence[ClockRead]) -> Span | None:
    """The window of a test that read one clock twice and nothing else, whatever it claims."""
    return Span(start=reads[0], stop=reads[1]) if len(reads) == 2 and reads[0].clock == reads[1].clock else None


def matching_span(reads: Sequence[ClockRead], seconds: float | None) -> Span | None:
    """The pair of reads whose returned difference is `seconds`, within 1 %."""
    if seconds is None:
        return None
    best: Span | None = None
    best_error = MATCH
    for clock in dict.fromkeys(read.clock for read in reads):
        own = [read for read in reads if read.clock == clock]
        span, error = _closest(own, seconds) if seconds > 0 else _still(own, seconds)
        # On a tie the later pair: a test that measures twice claims what it measured last.
        if span is not None and (error < best_error or (best is None and error <= MATCH)):
            best, best_error = span, error
    return best


def _still(reads: Sequence[ClockRead], seconds: float) -> tuple[Span | None, float]:
    """The last neighbours between which the clock stood still, or ran backwards by so much."""
    for start, stop in reversed(list(pairwise(reads))):
        span = Span(start=start, stop=stop)
        if span.returned_s is not None and abs(span.returned_s - seconds) <= MATCH * abs(seconds):
            return span, 0.0
    return None, MATCH


def _closest(reads: Sequence[ClockRead], seconds: float) -> tuple[Span | None, float]:
    """The pair of one clock's reads whose difference is nearest to `seconds`, and how far off it is, relatively."""
    timed = sorted((read for read in reads if read.value_s is not None), key=lambda read: read.value_s or 0.0)
    values = [read.value_s or 0.0 for read in timed]
    best: Span | None = None
    best_error = MATCH
    for index, start in enumerate(timed):
        wanted = values[index] + seconds
        position = bisect_left(values, wanted, lo=index + 1)
        for candidate in (position - 1, position):
            if not index < candidate < len(timed) or timed[candidate].private_high_s < start.private_low_s:
                continue  # a clock that was set back orders its readings wrongly
            error = abs(values[candidate] - wanted) / seconds if seconds > 0 else float("inf")
            if error <= best_error:
                best, best_error = Span(start=start, stop=timed[candidate]), error
    return best, best_error


def spans_of_samples(reads: Sequence[ClockRead], samples_s: Sequence[float]) -> tuple[Span, ...] | None:
    """For a claim made of single timings: the consecutive reads behind each; None when they cannot be found.

    Samples and reads are matched in order, so a sample that no read can explain leaves the rest unmatched; where that
    fails, by length alone, for samples may have been sorted and the slowest left out. They are reads of one clock;
    those of others lie between them unheeded.
    """
    by_clock = [
        [read for read in reads if read.clock == clock] for clock in dict.fromkeys(read.clock for read in reads)
    ]
    for match in (_in_order, _in_any_order):
        for own in by_clock:
            spans = match(own, samples_s)
            if spans is not None:
                return spans
    return None


def _in_order(reads: Sequence[ClockRead], samples_s: Sequence[float]) -> tuple[Span, ...] | None:
    spans: list[Span] = []
    position = 0
    for sample in samples_s:
        found = None
        for index in range(position, len(reads) - 1):
            candidate = Span(start=reads[index], stop=reads[index + 1])
            returned = candidate.returned_s
            if returned is not None and abs(returned - sample) <= MATCH * abs(sample) + 1e-9:
                # `t0 = now(); ...; t1 = now()` per sample, or one read shared between neighbours.
                found, position = candidate, index + 1
                break
        if found is None:
            return None
        spans.append(found)
    return tuple(spans)


def _in_any_order(reads: Sequence[ClockRead], samples_s: Sequence[float]) -> tuple[Span, ...] | None:
    """Neighbouring reads as long as each sample, no two samples by the same two reads, in the order of the reads."""
    neighbours = [Span(start=start, stop=stop) for start, stop in pairwise(reads)]
    for tolerance in (EXACT, MATCH):
        left = sorted((span.returned_s, at) for at, span in enumerate(neighbours) if span.returned_s is not None)
        taken: list[int] = []
        position = 0
        for sample in sorted(samples_s):
            slack = tolerance * abs(sample) + 1e-9
            while position < len(left) and left[position][0] < sample - slack:
                position += 1
            if position == len(left) or left[position][0] > sample + slack:
                break
            taken.append(left[position][1])
            position += 1
        else:
            return tuple(neighbours[at] for at in sorted(taken))
    return None


def closed_samples_s(spans: Sequence[Span]) -> tuple[float, ...]:
    """Each sample closed by the device: from its start to when the work submitted before its stop was done.

    Work of an earlier sample that was still running is not charged twice: a sample begins no earlier than the one
    before it was finished, nor than what had been submitted before it, by whomever.
    """
    closed = []
    finished = float("-inf")
    for span in spans:
        start = max(span.start.private_high_s, span.start.finished_s or 0.0, finished)
        end = span.stop.private_high_s + span.leftover_s if span.leftover_s else span.stop.private_low_s
        closed.append(max(0.0, end - start))
        finished = max(finished, end)
    return tuple(closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Event intervals that a claim rests on: their sum or their median, so many times."""

    intervals: tuple[EventInterval, ...]
    is_median: bool = False
    times: float = 1.0
    unit: float = 1.0
    """By which factor the claim mistook the unit: 1000 for microseconds claimed as milliseconds."""

    @property
    def is_whole(self) -> bool:
        """Whether the intervals simply add up to the claim."""
        return not self.is_median and self.times == 1.0

    @property
    def value_s(self) -> float:
        """The time that the events gave."""
        return self._of([interval.value_s for interval in self.intervals])

    @property
    def closed_s(self) -> float | None:
        """The least that the work took, on every queue; None where it is not known."""
        closed = closed_intervals_s(self.intervals)
        return None if closed is None else self._of(closed)

    @property
    def host_s(self) -> float:
        """Host time between the records."""
        return self._of([interval.host_s or 0.0 for interval in self.intervals])

    @property
    def latest_s(self) -> float | None:
        """The most that it can have taken."""
        longest = [interval.latest_s for interval in self.intervals if interval.latest_s is not None]
        return None if len(longest) < len(self.intervals) else self._of(longest)

    def _of(self, values: Sequence[float]) -> float:
        return (median(values) if self.is_median else sum(values)) * self.times


UNITS = (1.0, 1e3, 1e6, 1e9)
"""Factors by which a claim is too short that takes milli-, micro- or nanoseconds for longer ones."""


MOST_OF_THEM = 2 / 3
"""Of the intervals that were read, a sum leaves out no more than the others: warm-ups."""


def find_timed(intervals: Sequence[EventInterval], seconds: float | None, passes: float) -> Timed | None:
    """The event intervals that a claim of `seconds` for so many passes was made from; None when there is no telling.

    One interval, the sum of the last ones (the first may be warm-ups), or the median, mean or any single one of them
    as the time of a pass.
    """
    if seconds is None or not intervals:
        return None
    for unit in UNITS if seconds > 0 else (1.0,):
        found = _find_timed(tuple(intervals), seconds * unit, passes)
        if found is not None:
            return replace(found, unit=unit)
    return None


def _find_timed(every: tuple[EventInterval, ...], wanted_s: float, passes: float) -> Timed | None:
    for interval in reversed(every):
        if _equal(interval.value_s, wanted_s):
            return Timed(intervals=(interval,))
    count = len(every)
    total = 0.0
    for first in range(count - 1, -1, -1):
        total += every[first].value_s
        if count - first < MOST_OF_THEM * count:
            continue  # half of the laps for all of the tokens is a wrong divisor
        if _equal(total, wanted_s):
            return Timed(intervals=every[first:])
        if _equal(total / (count - first) * passes, wanted_s):
            return Timed(intervals=every[first:], times=passes / (count - first))
    for times in dict.fromkeys((float(count), passes)):
        middle = Timed(intervals=every, is_median=True, times=times)
        if _equal(middle.value_s, wanted_s):
            return middle
        for interval in every:
            if _equal(interval.value_s * times, wanted_s):
                return Timed(intervals=(interval,), times=times)
    return None


def intervals_of_samples(intervals: Sequence[EventInterval], samples_s: Sequence[float]) -> Timed | None:
    """For a claim made of single timings: the event intervals behind each, in order; None when they cannot be found."""
    found: list[EventInterval] = []
    position = 0
    for sample in samples_s:
        while position < len(intervals) and not _equal(intervals[position].value_s, sample):
            position += 1
        if position == len(intervals):
            return None
        found.append(intervals[position])
        position += 1
    return Timed(intervals=tuple(found), is_median=True, times=float(len(found)))


def laps_of(reads: Sequence[ClockRead], seconds: float | None) -> tuple[Span, ...] | None:
    """For a claim that is the sum of laps: the pairs of neighbouring reads that make it; None when they do not.

    A read before the laps and one behind them may be log lines. All laps begin at one line of code and end at another
    one; where they do not, the sum has to be exact, or any of many reads would add up to something near.
    """
    if seconds is None or seconds <= 0:
        return None
    for clock in dict.fromkeys(read.clock for read in reads):
        every = [read for read in reads if read.clock == clock]
        for own in (every, every[1:-1], every[1:], every[:-1]):
            laps = tuple(Span(start=start, stop=stop) for start, stop in zip(own[0::2], own[1::2], strict=False))
            times = [lap.returned_s for lap in laps if lap.returned_s is not None]
            if len(own) % 2 or len(laps) < 2 or len(times) < len(laps):
                continue
            starts, stops = {lap.start.where for lap in laps}, {lap.stop.where for lap in laps}
            is_one_loop = len(starts) == len(stops) == 1 and starts != stops
            if _equal(sum(times), seconds, MATCH if is_one_loop else EXACT):
                return laps
    return None


def closed_intervals_s(intervals: Sequence[EventInterval]) -> tuple[float, ...] | None:
    """Each interval closed by the device; work of an earlier one is not charged to the next. None where not known."""
    closed = []
    finished = float("-inf")
    for interval in intervals:
        if interval.began_s is None or interval.ended_s is None:
            return None
        closed.append(max(0.0, interval.ended_s - max(interval.began_s, finished)))
        finished = max(finished, interval.ended_s)
    return tuple(closed)


def is_nearer(timed: Timed, span: Span, seconds: float | None) -> bool:
    """Whether events are exactly what was claimed, and two reads only nearly."""
    if seconds is None or span.returned_s is None or timed.unit != 1.0 or not timed.is_whole:
        return False
    return _equal(timed.value_s, seconds, EXACT) and not _equal(span.returned_s, seconds, EXACT)


def _equal(value_s: float, wanted_s: float, tolerance: float = MATCH) -> bool:
    return abs(value_s - wanted_s) <= tolerance * abs(wanted_s)
