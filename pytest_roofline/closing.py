"""From what an audit saw to its ledger: tokens, seconds, window and passes of one claim.

Pure: the reads of clocks and events, the claim as it was closed, and the passes that were watched come in; nothing is
measured here. Which reads a claim speaks of is decided by `window`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pytest_roofline.checks.evidence import Claim, ClockDrift, ClockRead, EventInterval, Window
from pytest_roofline.compile_logs import compiled_within
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.ledger import Claimed, Ledger, Stated
from pytest_roofline.pass_times import PassTimes
from pytest_roofline.protocol import Compilation
from pytest_roofline.samples import median
from pytest_roofline.window import (
    Span,
    Timed,
    closed_samples_s,
    find_span,
    find_timed,
    intervals_of_samples,
    laps_of,
    matching_span,
    only_span,
    spans_of_samples,
)

Bounds = Sequence[tuple[float, float]]
SAME = 0.02
"""Two figures of one claim agree within 2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A window, the seconds that the claim amounts to, and the stretches of the private clock that it covers."""

    window: Window | None
    claimed_s: float
    is_unknown: bool = False
    bounds: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Everything that closing one claim needs."""

    claimed: Claimed
    reads: tuple[ClockRead, ...]
    events: tuple[EventInterval, ...] = ()
    stated: tuple[Stated, ...]
    passes: PassTimes = field(default_factory=PassTimes)
    compilations: Sequence[Compilation] = ()
    is_watching_passes: bool
    is_lazy: bool = False
    batch: int
    tokens_per_pass: float
    drifts: tuple[ClockDrift, ...]
    whole_audit_s: float

    def ledger(self) -> Ledger:
        """The ledger of the claim. Raises RooflineUsageError when it says neither how many nor how long."""
        notes: list[str] = []
        tokens = self._tokens()
        found = self._window(tokens, notes)
        if self.claimed.ids is None:
            notes.append(f"{tokens:g} tokens are declared, not seen: pass ids= to have them counted")
        first_and_later = self.passes.first_and_later_s(found.bounds)
        return Ledger(
            claim=Claim(
                tokens=tokens,
                seconds=found.claimed_s,
                is_tokens_seen=self.claimed.ids is not None,
                samples_s=self.claimed.samples_s,
            ),
            tokens_claimed=tokens,
            ids_seen=self.claimed.ids,
            window=found.window,
            is_window_unknown=found.is_unknown,
            reads=len(self.reads),
            events_read=len(self.events),
            compiled=compiled_within(self.compilations, found.bounds),
            first_pass_s=first_and_later[0] if first_and_later else None,
            later_pass_s=first_and_later[1] if first_and_later else None,
            clocks_read=frozenset(read.clock for read in self.reads),
            drifts=self.drifts,
            whole_audit_s=self.whole_audit_s,
            passes=found.window.passes if found.window is not None else self._passes_of(tokens),
            batch=self.batch,
            tokens_per_pass=self.tokens_per_pass,
            outputs=self.claimed.outputs,
            notes=tuple(notes),
            not_checked=tuple(self._not_checked()),
        )

    def _not_checked(self) -> Iterator[str]:
        if self.is_watching_passes:
            return
        yield "passes were not watched: wrap the step with audit.watch(step)"
        if self.is_lazy and self.claimed.outputs is None:
            yield (
                "a lazy framework never runs what nobody evaluates, and results that were dropped unread cannot be "
                "seen: pass outputs=, or wrap the step with audit.watch(step)"
            )

    def _passes_of(self, tokens: float) -> float:
        return tokens / (self.batch * self.tokens_per_pass)

    def _tokens(self) -> float:
        claimed = self.claimed
        if claimed.samples_s and claimed.tokens_per_s is not None:
            per_sample = claimed.tokens_per_s * median(claimed.samples_s)
            if claimed.tokens is None or abs(claimed.tokens - per_sample) <= SAME * per_sample:
                return per_sample * len(claimed.samples_s)  # the tokens of one sample were meant
            by_mean = claimed.tokens_per_s * sum(claimed.samples_s) / len(claimed.samples_s)
            if abs(claimed.tokens - by_mean) <= SAME * by_mean:
                return claimed.tokens * len(claimed.samples_s)
        if claimed.tokens is not None:
            return claimed.tokens
        if claimed.tokens_per_s is not None and claimed.seconds is not None:
            return claimed.tokens_per_s * claimed.seconds
        if claimed.ids:
            return float(claimed.ids)
        if self.passes.starts_s:
            return self._passes_meant() * self.batch * self.tokens_per_pass
        raise RooflineUsageError(
            "audit.claim was given no tokens: pass tokens= and seconds=, or ids=, or wrap the step in audit.watch"
        )

    def _passes_meant(self) -> int:
        """Watched passes of the window, as far as it is known without the claim; else all of them."""
        bounds: Bounds = [(stated.start_s, stated.stop_s) for stated in self.stated]
        samples = self.claimed.samples_s
        if not bounds and samples:
            spans = spans_of_samples(self.reads, samples)
            timed = intervals_of_samples(self.events, samples) if spans is None else None
            bounds = _of_spans(spans or ()) or _of_events(timed)
        elif not bounds:
            span = matching_span(self.reads, self.claimed.seconds)
            timed = find_timed(self.events, self.claimed.seconds, 1.0) if span is None else None
            laps = laps_of(self.reads, self.claimed.seconds) if span is None else None
            bounds = _of_spans([span] if span else laps or ()) or _of_events(timed)
            bounds = bounds or _of_spans([only] if (only := only_span(self.reads)) else [])
        return self.passes.within(bounds) or len(self.passes.starts_s)

    def _window(self, tokens: float, notes: list[str]) -> _Found:
        """The window of the claim, the seconds that its rate amounts to, and whether the window stayed unknown."""
        claimed = self.claimed
        by_rate_s = tokens / claimed.tokens_per_s if claimed.tokens_per_s is not None else None
        stated_s = claimed.seconds if claimed.seconds is not None else by_rate_s
        claimed_s = by_rate_s if by_rate_s is not None else claimed.seconds
        if self.stated:
            return self._stated_window(tokens, claimed_s)
        if claimed.samples_s:
            return self._sampled_window(tokens, notes)
        span = matching_span(self.reads, stated_s)
        if span is None:
            timed = find_timed(self.events, stated_s, self._passes_of(tokens))
            if timed is not None and claimed_s is not None:
                return self._event_window(tokens, claimed_s, timed, notes)
            laps = laps_of(self.reads, stated_s)
            if laps is not None and claimed_s is not None:
                return self._lapped_window(tokens, claimed_s, laps)
            is_elsewhere = bool(self.events) or self.is_watching_passes
            span = None if is_elsewhere and stated_s is not None else find_span(self.reads, stated_s)
        if span is not None:
            window = self._make_window(
                tokens,
                window_s=span.measured_s,
                leftover_s=self._leftover_of(span.stop.leftover_s),
                bounds=_of_spans([span]),
                source="watched clock",
                returned_s=span.returned_s,
                private_bounds=(span.private_low_s, span.private_high_s),
                where=span.stop.where,
                clock=span.stop.clock,
            )
            # Who states the window and no time leaves the time to the tool: that is the closed one.
            return _Found(
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

    def _stated_window(self, tokens: float, claimed_s: float | None) -> _Found:
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
        )
        return _Found(window=window, claimed_s=window.closed_s if claimed_s is None else claimed_s, bounds=bounds)

    def _unseen_window(self, tokens: float, claimed_s: float, notes: list[str]) -> _Found:
        """Nothing that was read explains the claim: what the watched passes took, and what was left over, bound it."""
        claimed = self.claimed
        passes = self._passes_of(tokens)
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
            return _Found(window=window, claimed_s=claimed_s)
        is_explained = is_one_stretch and least_s is not None
        if (len(self.reads) > 1 or self.events) and not is_explained:
            return _Found(window=None, claimed_s=claimed_s, is_unknown=True)
        notes.append(
            "the clock reads are of something else: judged by the claimed seconds, the watched passes, and the limit"
            if len(self.reads) > 1
            else "no clock read was seen: judged by the claimed seconds, what was left over, and the limit"
        )
        leftover = claimed.forced_s - claimed.entry_s
        if len(self.reads) > 1 or leftover <= 10 * claimed.idle_drain_s:
            return _Found(window=None, claimed_s=claimed_s)
        window = self._make_window(
            tokens,
            window_s=claimed_s,
            leftover_s=leftover,
            unforced_s=self._forcing_s(),
            bounds=[],
            source="the claim itself, for no clock read was seen",
        )
        return _Found(window=window, claimed_s=claimed_s)

    def _event_window(self, tokens: float, claimed_s: float, timed: Timed, notes: list[str]) -> _Found:
        """Timed by device events, which are held against the markers behind what was submitted before each."""
        closed_s, last = timed.closed_s, timed.intervals[-1]
        notes.append(f"timed by device events ({last.name}), not by a clock of the host")
        if closed_s is None:
            notes.append("the events were recorded where nobody saw it: judged by the claimed seconds and the limit")
            return _Found(window=None, claimed_s=claimed_s)
        bounds = _of_events(timed)
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
        return _Found(window=window, claimed_s=claimed_s, bounds=bounds)

    def _sampled_window(self, tokens: float, notes: list[str]) -> _Found:
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
            return _Found(window=None, claimed_s=claimed_s)
        closed, measured = closed_samples_s(spans), [span.measured_s for span in spans]
        if rate is not None and abs(claimed_s - sum(samples)) <= SAME * sum(samples):
            # All tokens over all samples is a mean, and what it may be held against is their sum.
            source = f"the sum of {len(samples)} samples"
            return self._window_of_spans(tokens, claimed_s, spans, sum(measured), sum(closed), source)
        closed_s, open_s = median(closed) * len(samples), median(measured) * len(samples)
        return self._window_of_spans(
            tokens, claimed_s, spans, open_s, closed_s, f"the median of {len(samples)} samples"
        )

    def _lapped_window(self, tokens: float, claimed_s: float, laps: Sequence[Span]) -> _Found:
        """A claim that is the sum of laps: each is closed by itself, and they add up."""
        closed_s = sum(closed_samples_s(laps))
        open_s = sum(lap.measured_s for lap in laps)
        return self._window_of_spans(tokens, claimed_s, laps, open_s, closed_s, f"the sum of {len(laps)} laps")

    def _window_of_spans(
        self, tokens: float, claimed_s: float, spans: Sequence[Span], open_s: float, closed_s: float, source: str
    ) -> _Found:
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
        return _Found(window=window, claimed_s=claimed_s, bounds=_of_spans(spans))

    def _leftover_of(self, marked_s: float) -> float:
        """How long the work submitted before the stop still needed; `marked_s` by its own marker.

        Markers cover the queues they were put on. Work on a queue without one shows at the claim: it outlasts them.
        Lazy outputs are evaluated by the claim itself, so forcing them belongs to the work.
        """
        claimed = self.claimed
        leftover = marked_s
        # How long it had been running by then is not known: only what was seen is charged.
        beyond = claimed.drained_s - max(claimed.entry_s, claimed.marked_s)
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
    ) -> Window:
        watched = self.passes.within(bounds) if self.is_watching_passes else 0
        return Window(
            window_s=window_s,
            leftover_s=leftover_s,
            idle_drain_s=self.claimed.idle_drain_s,
            passes=float(watched) or self._passes_of(tokens),
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
        )


def _of_spans(spans: Sequence[Span]) -> tuple[tuple[float, float], ...]:
    return tuple((span.start.private_low_s, span.stop.private_high_s) for span in spans)


def _of_events(timed: Timed | None) -> tuple[tuple[float, float], ...]:
    """Host stretches in which the work of these intervals was submitted."""
    return tuple(
        (interval.submitted_low_s, interval.submitted_high_s)
        for interval in (timed.intervals if timed is not None else ())
        if interval.submitted_low_s is not None and interval.submitted_high_s is not None
    )
