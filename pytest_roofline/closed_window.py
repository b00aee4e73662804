"""The stretch of time that a claim speaks of, closed: what an audit saw of one claim, and the window made of it.

Pure: the reads of clocks and events, the claim as it was closed, and the passes that were watched come in. Which reads
a claim speaks of is decided by `window`; here they are held against what was left over, and against the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_roofline.checks.claimed import ClockRead, EventInterval, Window
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.ledger import Claimed, Stated
from pytest_roofline.pass_times import PassTimes
from pytest_roofline.samples import median
from pytest_roofline.window import (
    MATCH,
    Span,
    Timed,
    closed_samples_s,
    find_span,
    find_timed,
    intervals_of_samples,
    is_nearer,
    laps_of,
    matching_span,
    only_span,
    spans_of_samples,
)

Bounds = Sequence[tuple[float, float]]
SAME = 0.02
"""Two figures of one claim agree within 2 %."""
LEAST_PASS_S = 1e-6
"""No host calls a step in less, let alone launches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A window, the seconds that the claim amounts to, and the stretches of the private clock that it covers."""

    window: Window | None
    claimed_s: float
    is_unknown: bool = False
    bounds: tuple[tuple[float, float], ...] = ()
    likely: Window | None = None
    """The only stretch that was timed, where nothing ties the claim to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an audit saw of one claim."""

    claimed: Claimed
    reads: tuple[ClockRead, ...]
    events: tuple[EventInterval, ...] = ()
    stated: tuple[Stated, ...] = ()
    passes: PassTimes = field(default_factory=PassTimes)
    is_watching_passes: bool = False
    batch: int = 1
    tokens_per_pass: float = 1.0

    def passes_of(self, tokens: float) -> float:
        """Passes that so many tokens took: of ranks that made their own, those of one."""
        ranks = 1 if self.claimed.do_ranks_share_tokens else max(1, len(self.claimed.ranks))
        return tokens / (self.batch * self.tokens_per_pass * ranks)

    def passes_meant(self) -> int:
        """Watched passes of the window, as far as it is known without the claim; else all of them."""
        bounds: Bounds = [(stated.start_s, stated.stop_s) for stated in self.stated]
        samples = self.claimed.samples_s
        if not bounds and samples:
            spans = spans_of_samples(self.reads, samples)
            timed = intervals_of_samples(self.events, samples) if spans is None else None
            bounds = _of_spans(spans or ()) or _of_events(timed.intervals if timed else ())
        elif not bounds:
            span = matching_span(self.reads, self.claimed.seconds)
            timed = find_timed(self.events, self.claimed.seconds, 1.0) if span is None else None
            laps = laps_of(self.reads, self.claimed.seconds) if span is None else None
            bounds = _of_spans([span] if span else laps or ()) or _of_events(timed.intervals if timed else ())
            bounds = bounds or _of_spans([only] if (only := only_span(self.reads)) else [])
        return self.passes.within(bounds) or len(self.passes.starts_s)

    def find(self, tokens: float, notes: list[str]) -> Found:
        """The window of the claim, the seconds that its rate amounts to, and whether the window stayed unknown."""
        claimed = self.claimed
        by_rate_s = tokens / claimed.tokens_per_s if claimed.tokens_per_s is not None else None
        stated_s = claimed.seconds if claimed.seconds is not None else by_rate_s
        claimed_s = by_rate_s if by_rate_s is not None else claimed.seconds
        if self.stated:
            return self._stated_window(tokens, claimed_s)
        if claimed.samples_s:
            return self._sampled_window(tokens, notes)
        if claimed.ranks and claimed_s is not None:
            return self._ranks_window(stated_s, claimed_s, notes)
        span = matching_span(self.reads, stated_s)
        timed = find_timed(self.events, stated_s, self.passes_of(tokens))
        if span is not None and timed is not None and is_nearer(timed, span, stated_s):
            span = None  # reads that are about so far apart, and events that are it
        if span is None:
            if timed is not None and claimed_s is not None:
                return self._event_window(tokens, claimed_s, timed, notes)
            laps = laps_of(self.reads, stated_s)
            if laps is not None and claimed_s is not None:
                return self._lapped_window(tokens, claimed_s, laps)
            is_elsewhere = bool(self.events) or self.is_watching_passes
            span = None if is_elsewhere and stated_s is not None else find_span(self.reads, stated_s)
        if span is not None:
            window = self._read_window(tokens, span)
            if claimed_s is not None and self._may_lie_behind(span, stated_s, tokens):
                return Found(window=None, claimed_s=claimed_s, is_unknown=True, likely=window)
            # Who states the window and no time leaves the time to the tool: that is the closed one.
            return Found(
                window=window,
                claimed_s=window.closed_s if claimed_s is None else claimed_s,
                bounds=_of_spans([span]),
            )
        if claimed_s is None:
            raise RooflineUsageError(
                "audit.claim was given neither seconds nor a rate, and its window is not known: pass seconds= or "
                "tokens_per_s=, or put the timed part into `with audit.window():`"
            )
        return self._unseen_window(tokens, claimed_s, notes)

    def _read_window(self, tokens: float, span: Span) -> Window:
        return self._make_window(
            tokens,
            window_s=span.measured_s,
            leftover_s=self._leftover_of(span.stop.leftover_s),
            bounds=_of_spans([span]),
            source="watched clock",
            returned_s=span.returned_s,
            private_bounds=(span.private_low_s, span.private_high_s),
            where=span.stop.where,
            clock=span.stop.clock,
            cpu_s=span.cpu_s,
        )

    def _ranks_window(self, stated_s: float | None, claimed_s: float, notes: list[str]) -> Found:
        """Of ranks, only this process was watched: its window, where two reads are a rank's, or the claim itself.

        What else was read around them (the start of the processes, the wait for a barrier) is no window. In a rank's
        own window there were its own passes, however many the others made in theirs.
        """
        timed = [(rank.stop_s - rank.start_s, rank.tokens) for rank in self.claimed.ranks]
        for seconds in [claimed_s if stated_s is None else stated_s, *(length_s for length_s, _ in timed)]:
            span = matching_span(self.reads, seconds)
            if span is None:
                continue
            # Which of the ranks of this length it was, nobody says; where none was so long, it was any of them.
            made = [count for length_s, count in timed if abs(length_s - seconds) <= MATCH * seconds]
            made = made or [count for _, count in timed]
            every = 1 if self.claimed.do_ranks_share_tokens else len(timed)
            window = self._read_window(every * sum(made) / len(made), span)
            return Found(window=window, claimed_s=claimed_s, bounds=_of_spans([span]))
        notes.append("the windows of the ranks are as they were stated: none of them was timed in this process")
        return Found(window=None, claimed_s=claimed_s)

    def _may_lie_behind(self, span: Span, seconds: float | None, tokens: float) -> bool:
        """Whether a claim that is not this pair may be of a stretch behind it, timed by a clock that nobody sees.

        The pair is then a log line's, for all that is known. There has to be room for the whole stretch between the
        end of the pair's work and the claim, and for the passes in it.
        """
        if seconds is None or (returned_s := span.returned_s) is None:
            return False
        if abs(returned_s - seconds) <= MATCH * abs(seconds) or seconds < LEAST_PASS_S * self.passes_of(tokens):
            return False
        done_s = max(span.stop.private_high_s, span.stop.finished_s or 0.0)
        return seconds * (1 - MATCH) <= self.claimed.entry_s - done_s

    def _stated_window(self, tokens: float, claimed_s: float | None) -> Found:
        leftover_s = sum(stated.finished_s - stated.stop_s for stated in self.stated)
        unforced_s = sum(stated.finished_s - stated.drained_s for stated in self.stated)
        forcing_s = self._forcing_s()
        bounds = tuple((stated.start_s, stated.stop_s) for stated in self.stated)
        window = self._make_window(
            tokens,
            window_s=sum(stated.stop_s - stated.start_s for stated in self.stated),
            leftover_s=leftover_s + forcing_s,
            unforced_s=(unforced_s if unforced_s > self.claimed.idle_s else 0.0) + forcing_s,
            bounds=bounds,
            source="audit.window()",
            stops=len(self.stated),
            held_up_s=sum(stated.held_up_s for stated in self.stated),
        )
        return Found(window=window, claimed_s=window.closed_s if claimed_s is None else claimed_s, bounds=bounds)

    def _unseen_window(self, tokens: float, claimed_s: float, notes: list[str]) -> Found:
        """Nothing that was read explains the claim: what the watched passes took, and what was left over, bound it."""
        claimed = self.claimed
        passes = self.passes_of(tokens)
        count = math.ceil(passes - SAME * passes)
        # With two reads around something else, the claim is of one stretch; else passes may be timed one by one.
        is_one_stretch = only_span(self.reads) is not None and not self.events
        seen = self.passes
        least_s = seen.contiguous_s(count, claimed.forced_s) if is_one_stretch else seen.separate_s(count)
        if least_s is not None and claimed_s < least_s:
            window = Window(
                window_s=least_s,
                leftover_s=0.0,
                idle_drain_s=claimed.idle_drain_s,
                passes=float(count),
                are_passes_watched=True,
                source=f"the least that {count} of {len(seen.starts_s)} watched passes took",
            )
            return Found(window=window, claimed_s=claimed_s)
        is_explained = is_one_stretch and least_s is not None
        if (len(self.reads) > 1 or self.events) and not is_explained:
            return Found(window=None, claimed_s=claimed_s, is_unknown=True, likely=self._only_events(tokens))
        notes.append(
            "the clock reads are of something else: judged by the claimed seconds, the watched passes, and the limit"
            if len(self.reads) > 1
            else "no clock read was seen: judged by the claimed seconds, what was left over, and the limit"
        )
        leftover = self._leftover_of(max(0.0, (claimed.done_s or claimed.drained_s) - claimed.entry_s))
        if len(self.reads) > 1 or leftover <= 10 * claimed.idle_drain_s:
            return Found(window=None, claimed_s=claimed_s)
        window = self._make_window(
            tokens,
            window_s=claimed_s,
            leftover_s=leftover,
            unforced_s=self._forcing_s(),
            bounds=[],
            source="the claim itself, for no clock read was seen",
        )
        return Found(window=window, claimed_s=claimed_s)

    def _only_events(self, tokens: float) -> Window | None:
        """What the work between two device events took, where the test read the time between no others."""
        lone = (
            self.events[0] if len({(one.submitted_low_s, one.submitted_high_s) for one in self.events}) == 1 else None
        )
        if lone is None or lone.closed_s is None:
            return None
        return self._make_window(
            tokens,
            window_s=lone.closed_s,
            leftover_s=0.0,
            bounds=_of_events([lone]),
            source=f"{lone.name}, the only device events that were read",
            returned_s=lone.value_s,
            where=lone.where,
            clock=lone.name,
            host_s=lone.host_s,
        )

    def _event_window(self, tokens: float, claimed_s: float, timed: Timed, notes: list[str]) -> Found:
        """Timed by device events, which are held against the markers behind what was submitted before each."""
        closed_s, last = timed.closed_s, timed.intervals[-1]
        notes.append(f"timed by device events ({last.name}), not by a clock of the host")
        if closed_s is None:
            notes.append("the events were recorded where nobody saw it: judged by the claimed seconds and the limit")
            return Found(window=None, claimed_s=claimed_s)
        bounds = _of_events(timed.intervals)
        given_s = timed.value_s / timed.unit
        within_s = min(closed_s, max(0.0, given_s))
        window = self._make_window(
            tokens,
            window_s=within_s,
            leftover_s=closed_s - within_s + self._leftover_of(0.0),
            beside_s=closed_s - within_s,
            bounds=bounds if timed.is_whole else [],
            source="device events",
            returned_s=given_s,
            private_bounds=(closed_s, max(closed_s, timed.latest_s or closed_s)),
            where=last.where,
            clock=last.name,
            host_s=timed.host_s,
        )
        return Found(window=window, claimed_s=claimed_s, bounds=bounds)

    def _sampled_window(self, tokens: float, notes: list[str]) -> Found:
        """A claim that is the median of single timings: each is closed by itself, and the medians are compared."""
        samples, rate = self.claimed.samples_s, self.claimed.tokens_per_s
        # The claim is of one typical sample, scaled to all tokens.
        claimed_s = tokens / rate if rate is not None else median(samples) * len(samples)
        spans = spans_of_samples(self.reads, samples)
        if spans is None:
            timed = intervals_of_samples(self.events, samples)
            if timed is not None:
                return self._event_window(tokens, claimed_s, timed, notes)
            if len(self.reads) > 1:
                return self._unseen_window(tokens, claimed_s, notes)
            notes.append("no clock read was seen behind the samples")
            return Found(window=None, claimed_s=claimed_s)
        closed, measured = closed_samples_s(spans), [span.measured_s for span in spans]
        if rate is not None and abs(claimed_s - sum(samples)) <= SAME * sum(samples):
            # All tokens over all samples is a mean, and what it may be held against is their sum.
            source = f"the sum of {len(samples)} samples"
            return self._window_of_spans(tokens, claimed_s, spans, sum(measured), sum(closed), source)
        closed_s, open_s = median(closed) * len(samples), median(measured) * len(samples)
        return self._window_of_spans(
            tokens, claimed_s, spans, open_s, closed_s, f"the median of {len(samples)} samples"
        )

    def _lapped_window(self, tokens: float, claimed_s: float, laps: Sequence[Span]) -> Found:
        """A claim that is the sum of laps: each is closed by itself, and they add up."""
        closed_s = sum(closed_samples_s(laps))
        open_s = sum(lap.measured_s for lap in laps)
        return self._window_of_spans(tokens, claimed_s, laps, open_s, closed_s, f"the sum of {len(laps)} laps")

    def _window_of_spans(
        self, tokens: float, claimed_s: float, spans: Sequence[Span], open_s: float, closed_s: float, source: str
    ) -> Found:
        forcing_s = self._forcing_s()
        last = spans[-1].stop
        window = self._make_window(
            tokens,
            window_s=min(open_s, closed_s),
            leftover_s=max(0.0, closed_s - open_s) + forcing_s,
            unforced_s=forcing_s,
            bounds=_of_spans(spans),
            source=source,
            where=last.where,
            clock=last.clock,
            stops=len(spans),
        )
        return Found(window=window, claimed_s=claimed_s, bounds=_of_spans(spans))

    def _leftover_of(self, marked_s: float) -> float:
        """How long the work submitted before the stop still needed; `marked_s` by its own marker.

        Markers cover the queues they were put on. Work on a queue without one shows at the claim: it outlasts them.
        Lazy outputs are evaluated by the claim itself, so forcing them belongs to the work.
        """
        claimed = self.claimed
        leftover = marked_s
        # How long it had been running by then is not known: only what was seen is charged.
        done_s = claimed.drained_s if claimed.done_s is None else claimed.done_s
        beyond = done_s - max(claimed.entry_s, claimed.marked_s)
        if beyond > claimed.idle_s:
            leftover = max(leftover, beyond)
        return leftover + self._forcing_s()

    def _forcing_s(self) -> float:
        """Time that the claim spent on evaluating lazy outputs; nothing where that is what an idle one takes."""
        forcing = self.claimed.forced_s - self.claimed.drained_s
        return forcing if forcing > self.claimed.idle_s else 0.0

    def _make_window(
        self,
        tokens: float,
        *,
        window_s: float,
        leftover_s: float,
        bounds: Bounds,
        source: str,
        unforced_s: float | None = None,
        returned_s: float | None = None,
        private_bounds: tuple[float, float] | None = None,
        where: str | None = None,
        clock: str | None = None,
        host_s: float | None = None,
        beside_s: float = 0.0,
        stops: int = 1,
        cpu_s: float | None = None,
        held_up_s: float | None = None,
    ) -> Window:
        watched = self.passes.within(bounds) if self.is_watching_passes else 0
        return Window(
            window_s=window_s,
            leftover_s=leftover_s,
            idle_drain_s=self.claimed.idle_drain_s,
            passes=float(watched) or self.passes_of(tokens),
            are_passes_watched=watched > 0,
            returned_s=returned_s,
            private_low_s=private_bounds[0] if private_bounds else None,
            private_high_s=private_bounds[1] if private_bounds else None,
            stop_where=where,
            clock=clock,
            source=source,
            unforced_s=self._forcing_s() if unforced_s is None else unforced_s,
            is_by_events=host_s is not None,
            host_s=host_s,
            beside_s=beside_s,
            stops=stops,
            marker_late_s=self.claimed.marker_late_s,
            cpu_s=cpu_s,
            held_up_s=held_up_s,
            passes_behind=self.passes.behind(bounds) if watched < self.passes_of(tokens) else 0,
            longest_call_s=self.passes.longest_call_s(bounds) if watched else None,
        )


def _of_spans(spans: Sequence[Span]) -> tuple[tuple[float, float], ...]:
    return tuple((span.start.private_low_s, span.stop.private_high_s) for span in spans)


def _of_events(intervals: Sequence[EventInterval]) -> tuple[tuple[float, float], ...]:
    """Host stretches in which the work of these intervals was submitted."""
    return tuple(
        (interval.submitted_low_s, interval.submitted_high_s)
        for interval in intervals
        if interval.submitted_low_s is not None and interval.submitted_high_s is not None
    )
