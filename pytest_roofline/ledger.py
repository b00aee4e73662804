"""From what an audit saw to its ledger: tokens, seconds, window and passes of one claim.

Pure: the reads of the clock, the claim as it was closed, and the passes that were watched come in; nothing is
measured here. Which pair of reads a claim speaks of is decided by `window`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_roofline.checks.evidence import Claim, ClockDrift, ClockRead, Window
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.samples import median
from pytest_roofline.window import closed_samples_s, find_span, spans_of_samples

BEYOND_MARKERS_S = 100e-6
"""Work that no marker covers (a foreign stream) counts only when it outlasts the marked queues by this much."""
SAME = 0.02
"""Two figures of one claim agree within 2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What an audit saw, closed: handed to the judge."""

    claim: Claim
    tokens_claimed: float
    ids_seen: int | None
    window: Window | None
    is_window_unknown: bool
    reads: int
    clocks_read: frozenset[str]
    drifts: tuple[ClockDrift, ...]
    whole_audit_s: float
    passes: float
    batch: int
    tokens_per_pass: float
    outputs: Any
    notes: tuple[str, ...]
    not_checked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What `claim` was told, and what closing at that moment showed."""

    tokens: float | None
    tokens_per_s: float | None
    seconds: float | None
    samples_s: tuple[float, ...]
    ids: int | None
    entry_s: float
    drained_s: float
    forced_s: float
    marked_s: float
    idle_drain_s: float
    outputs: Any

    @property
    def idle_s(self) -> float:
        """What may still look busy on a device that is idle."""
        return 10 * self.idle_drain_s + BEYOND_MARKERS_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A window that the test stated: its start and stop, and when the device had finished."""

    start_s: float
    stop_s: float
    finished_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Everything that closing one claim needs."""

    claimed: Claimed
    reads: tuple[ClockRead, ...]
    stated: tuple[Stated, ...]
    pass_starts_s: Sequence[float]
    is_watching_passes: bool
    batch: int
    tokens_per_pass: float
    drifts: tuple[ClockDrift, ...]
    whole_audit_s: float

    def ledger(self) -> Ledger:
        """The ledger of the claim. Raises RooflineUsageError when it says neither how many nor how long."""
        notes: list[str] = []
        tokens = self._tokens()
        window, claimed_s, is_unknown = self._window(tokens, notes)
        if self.claimed.ids is None:
            notes.append(f"{tokens:g} tokens are declared, not seen: pass ids= to have them counted")
        not_checked = (
            () if self.is_watching_passes else ("passes were not watched: wrap the step with audit.watch(step)",)
        )
        return Ledger(
            claim=Claim(
                tokens=tokens,
                seconds=claimed_s,
                is_tokens_seen=self.claimed.ids is not None,
                samples_s=self.claimed.samples_s,
            ),
            tokens_claimed=tokens,
            ids_seen=self.claimed.ids,
            window=window,
            is_window_unknown=is_unknown,
            reads=len(self.reads),
            clocks_read=frozenset(read.clock for read in self.reads),
            drifts=self.drifts,
            whole_audit_s=self.whole_audit_s,
            passes=window.passes if window is not None else self._passes_of(tokens),
            batch=self.batch,
            tokens_per_pass=self.tokens_per_pass,
            outputs=self.claimed.outputs,
            notes=tuple(notes),
            not_checked=not_checked,
        )

    def _watched(self, bounds: Sequence[tuple[float, float]]) -> int:
        """Passes that began within any of these stretches."""
        return sum(any(low <= start <= high for low, high in bounds) for start in self.pass_starts_s)

    def _passes_of(self, tokens: float) -> float:
        return tokens / (self.batch * self.tokens_per_pass)

    def _tokens(self) -> float:
        claimed = self.claimed
        if claimed.samples_s and claimed.tokens_per_s is not None:
            per_sample = claimed.tokens_per_s * median(claimed.samples_s)
            if claimed.tokens is None or abs(claimed.tokens - per_sample) <= SAME * per_sample:
                return per_sample * len(claimed.samples_s)  # the tokens of one sample were meant
        if claimed.tokens is not None:
            return claimed.tokens
        if claimed.tokens_per_s is not None and claimed.seconds is not None:
            return claimed.tokens_per_s * claimed.seconds
        if claimed.ids:
            return float(claimed.ids)
        if self.pass_starts_s:
            return self._passes_meant() * self.batch * self.tokens_per_pass
        raise RooflineUsageError(
            "audit.claim was given no tokens: pass tokens= and seconds=, or ids=, or wrap the step in audit.watch"
        )

    def _passes_meant(self) -> int:
        """Watched passes of the window, as far as it is known without the claim; else all of them."""
        bounds: list[tuple[float, float]] = [(stated.start_s, stated.stop_s) for stated in self.stated]
        if not bounds and self.claimed.samples_s:
            spans = spans_of_samples(self.reads, self.claimed.samples_s) or ()
            bounds = [(span.start.private_low_s, span.stop.private_high_s) for span in spans]
        if not bounds and not self.claimed.samples_s:
            span = find_span(self.reads, self.claimed.seconds)
            bounds = [(span.start.private_low_s, span.stop.private_high_s)] if span is not None else []
        return self._watched(bounds) or len(self.pass_starts_s)

    def _window(self, tokens: float, notes: list[str]) -> tuple[Window | None, float, bool]:
        """The window of the claim, the seconds that its rate amounts to, and whether the window stayed unknown."""
        claimed = self.claimed
        by_rate_s = tokens / claimed.tokens_per_s if claimed.tokens_per_s is not None else None
        stated_s = claimed.seconds if claimed.seconds is not None else by_rate_s
        claimed_s = by_rate_s if by_rate_s is not None else claimed.seconds
        if self.stated:
            window = self._make_window(
                tokens,
                window_s=sum(stated.stop_s - stated.start_s for stated in self.stated),
                leftover_s=sum(stated.finished_s - stated.stop_s for stated in self.stated),
                bounds=[(stated.start_s, stated.stop_s) for stated in self.stated],
                source="audit.window()",
            )
            # Who states the window and no time leaves the time to the tool: that is the closed one.
            return window, window.closed_s if claimed_s is None else claimed_s, False
        if claimed.samples_s:
            return self._sampled_window(tokens, notes)
        span = find_span(self.reads, stated_s)
        if span is not None:
            window = self._make_window(
                tokens,
                window_s=span.measured_s,
                leftover_s=self._leftover_of(span.stop),
                bounds=[(span.start.private_low_s, span.stop.private_high_s)],
                source="watched clock",
                returned_s=span.returned_s,
                private_bounds=(span.private_low_s, span.private_high_s),
                where=span.stop.where,
                clock=span.stop.clock,
            )
            return window, window.closed_s if claimed_s is None else claimed_s, False
        if claimed_s is None:
            raise RooflineUsageError(
                "audit.claim was given neither seconds nor a rate, and its window is not known: pass seconds= or "
                "tokens_per_s=, or put the timed part into `with audit.window():`"
            )
        if len(self.reads) > 1:
            return None, claimed_s, True
        notes.append("no clock read was seen: judged by the claimed seconds, what was left over, and the limit")
        leftover = claimed.forced_s - claimed.entry_s
        if leftover <= 10 * claimed.idle_drain_s:
            return None, claimed_s, False
        window = self._make_window(
            tokens,
            window_s=claimed_s,
            leftover_s=leftover,
            bounds=[],
            source="the claim itself, for no clock read was seen",
        )
        return window, claimed_s, False

    def _sampled_window(self, tokens: float, notes: list[str]) -> tuple[Window | None, float, bool]:
        """A claim that is the median of single timings: each is closed by itself, and the medians are compared."""
        samples, rate = self.claimed.samples_s, self.claimed.tokens_per_s
        # The claim is of one typical sample, scaled to all tokens.
        claimed_s = tokens / rate if rate is not None else median(samples) * len(samples)
        spans = spans_of_samples(self.reads, samples)
        if spans is None:
            if len(self.reads) > 1:
                return None, claimed_s, True
            notes.append("no clock read was seen behind the samples")
            return None, claimed_s, False
        closed_s = median(closed_samples_s(spans)) * len(samples)
        open_s = median([span.measured_s for span in spans]) * len(samples)
        last = spans[-1].stop
        window = self._make_window(
            tokens,
            window_s=min(open_s, closed_s),
            leftover_s=max(0.0, closed_s - open_s),
            bounds=[(span.start.private_low_s, span.stop.private_high_s) for span in spans],
            source=f"the median of {len(samples)} samples",
            where=last.where,
            clock=last.clock,
        )
        return window, claimed_s, False

    def _leftover_of(self, stop: ClockRead) -> float:
        """How long the work submitted before the stop still needed.

        Markers cover the queues they were put on. Work on a queue without one shows at the claim: it outlasts them.
        Lazy outputs are evaluated by the claim itself, so forcing them belongs to the work.
        """
        claimed = self.claimed
        leftover = stop.leftover_s
        # How long it had been running by then is not known: only what was seen is charged.
        beyond = claimed.drained_s - max(claimed.entry_s, claimed.marked_s)
        if beyond > claimed.idle_s:
            leftover = max(leftover, beyond)
        forcing = claimed.forced_s - claimed.drained_s
        return leftover + forcing if forcing > claimed.idle_s else leftover

    def _make_window(
        self,
        tokens: float,
        *,
        window_s: float,
        leftover_s: float,
        bounds: Sequence[tuple[float, float]],
        source: str,
        returned_s: float | None = None,
        private_bounds: tuple[float, float] | None = None,
        where: str | None = None,
        clock: str | None = None,
    ) -> Window:
        watched = self._watched(bounds) if self.is_watching_passes else 0
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
        )


def tokens_of_a_pass(given: float | Callable[[Any], float], outputs: Any) -> float:
    """Tokens that each sequence gains in a pass: a number, or a function of the pass's output."""
    value = given(outputs) if callable(given) else given
    number = positive(value, "tokens_per_pass")
    if number is None:
        raise RooflineUsageError("tokens_per_pass is None; it must be a positive number, or a function of the output")
    return number


def count_ids(ids: Any) -> int | None:
    """Elements of integer arrays and ints, also in nested lists; None where there is anything else among them."""
    if isinstance(ids, bool):
        return None
    if isinstance(ids, int):
        return 1
    if isinstance(ids, (list, tuple)):
        counts = [count_ids(item) for item in ids]
        if any(count is None for count in counts):
            return None
        return sum(count for count in counts if count is not None)
    if "int" not in str(getattr(ids, "dtype", "")):
        return None
    size: Any = ids.numel() if callable(getattr(ids, "numel", None)) else getattr(ids, "size", None)
    return size if isinstance(size, int) else None


def finite(value: Any, name: str) -> float | None:
    """The figure as a float; None stays None, and what is no finite number is a usage error that names it."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a scalar of numpy or of a framework
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RooflineUsageError(f"{name} is {value!r}; it must be a finite number")
    try:
        return float(value)
    except OverflowError:
        raise RooflineUsageError(f"{name} is too large; it must be a finite number") from None


def positive(value: Any, name: str) -> float | None:
    """The same for a figure that must be above zero."""
    number = finite(value, name)
    if number is not None and number <= 0:
        raise RooflineUsageError(f"{name} is {value!r}; it must be positive")
    return number
