"""Which stretch of an audit does a claim speak of? Pure: reads and a claim in, a window out.

The rules (a) to (e) of the clock watch: two reads are the window whatever is claimed; of several, the pair whose
returned difference equals the claimed seconds; none fits, the window is not known; no read seen, the claim is all
there is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_roofline.checks.evidence import ClockRead
from pytest_roofline.samples import median

MATCH = 0.01
"""A returned difference equals the claimed seconds within 1 %."""


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


def find_span(reads: Sequence[ClockRead], seconds: float | None) -> Span | None:
    """The pair of reads that a claim of `seconds` speaks of; None when there is none, or no telling."""
    if len(reads) == 2 and reads[0].clock == reads[1].clock:
        return Span(start=reads[0], stop=reads[1])
    if seconds is None:
        return None
    best: Span | None = None
    best_error = MATCH
    for clock in dict.fromkeys(read.clock for read in reads):
        span, error = _closest([read for read in reads if read.clock == clock], seconds)
        # On a tie the later pair: a test that measures twice claims what it measured last.
        if span is not None and (error < best_error or (best is None and error <= MATCH)):
            best, best_error = span, error
    return best


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

    Samples and reads are matched in order, so a sample that no read can explain leaves the rest unmatched. They are
    reads of one clock; those of others lie between them unheeded.
    """
    for clock in dict.fromkeys(read.clock for read in reads):
        spans = _in_order([read for read in reads if read.clock == clock], samples_s)
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


def closed_samples_s(spans: Sequence[Span]) -> tuple[float, ...]:
    """Each sample closed by the device: from its start to when the work submitted before its stop was done.

    Work of an earlier sample that was still running is not charged twice: a sample begins no earlier than the one
    before it was finished.
    """
    closed = []
    finished = float("-inf")
    for span in spans:
        start = max(span.start.private_high_s, finished)
        end = span.stop.private_high_s + span.leftover_s if span.leftover_s else span.stop.private_low_s
        closed.append(max(0.0, end - start))
        finished = max(finished, end)
    return tuple(closed)


def typical(values: Sequence[float]) -> float:
    """The median: what a claim of several samples is taken to mean."""
    return median(values)
