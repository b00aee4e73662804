"""Audit the user's own timing code: watch its clock, drain behind it, hold its claim against the closed window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from pytest_roofline.checks.evidence import Claim, ClockDrift, ClockRead, Window
from pytest_roofline.clock_watch import ClockWatch, Stamp, drifts, host_clocks
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Backend, Marker
from pytest_roofline.samples import median
from pytest_roofline.window import closed_samples_s, find_span, spans_of_samples

if TYPE_CHECKING:
    from pytest_roofline.result import Result

BEYOND_MARKERS_S = 100e-6
"""Work that no marker covers (a foreign stream) counts only when it outlasts the marked queues by this much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What an audit saw, closed: handed to the judge."""

    claim: Claim
    tokens_claimed: float
    ids_seen: int | None
    window: Window | None
    is_window_unknown: bool
    reads: int
    drifts: tuple[ClockDrift, ...]
    whole_audit_s: float
    passes: float
    batch: int
    tokens_per_pass: float
    outputs: Any
    notes: tuple[str, ...]
    not_checked: tuple[str, ...]


@dataclass(slots=True)
class _Claimed:
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
    stamps: dict[str, Stamp]
    outputs: Any


class Audit:
    """Context manager around the user's own timing code; made by ``roofline.audit(...)``."""

    def __init__(
        self,
        *,
        backend: Backend,
        drains: Callable[[], Sequence[Backend]],
        judge: Callable[[Ledger], Result],
        on_enter: Callable[[], None],
        on_abandon: Callable[[], None],
        frame: FrameType | None,
        batch: int = 1,
        tokens_per_pass: float | Callable[[Any], float] = 1,
    ) -> None:
        self._backend = backend
        self._clock = backend.clock
        self._drains = drains
        self._judge = judge
        self._on_enter = on_enter
        self._on_abandon = on_abandon
        self._batch = batch
        self._tokens_per_pass = tokens_per_pass
        self._pass_starts_s: list[float] = []
        self._is_watching_passes = False
        self._last_output: Any = None
        self._claimed: _Claimed | None = None
        self._stated: tuple[float, float, float] | None = None
        self._entry_s = 0.0
        self._entry_stamps: dict[str, Stamp] = {}
        self._exit_stamps: dict[str, Stamp] = {}
        self._reads: tuple[ClockRead, ...] | None = None
        self._result: Result | None = None
        self._is_late_claim = False
        self._state = "new"
        clocks = getattr(backend, "public_clocks", None)
        self._watch = ClockWatch(
            private=self._clock,
            mark=self._mark,
            clocks=tuple(clocks()) if clocks is not None else host_clocks(),
            frame=frame,
        )

    @property
    def result(self) -> Result:
        """The judged result; a usage error before the audit has been claimed and left."""
        if self._result is None:
            raise RooflineUsageError(
                "this audit has no result yet: call audit.claim(...) and leave the with block first"
            )
        return self._result

    @property
    def is_open(self) -> bool:
        """Whether it was entered and never claimed, so that nothing could be judged."""
        return self._claimed is None and self._state in ("inside", "left")

    def __enter__(self) -> Audit:
        if self._state != "new":
            raise RooflineUsageError("an audit can be entered once; call roofline.audit() again for the next one")
        self._on_enter()  # the probe before the window, and whatever was still running from before
        self._drain()
        self._state = "inside"
        self._watch.start()
        self._entry_s = self._clock()
        self._entry_stamps = self._watch.stamps()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._exit_stamps = self._watch.stamps()
        self._watch.stop()
        if kind is not None:
            self._state = "abandoned"
            self._on_abandon()
            self._drain()  # whatever the body left running is not the next test's
            return
        self._state = "left"
        self._drain()
        if self._claimed is not None:
            self._close()

    def watch(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step with its passes counted and its last outputs held; costs well under a microsecond a pass."""
        if not callable(step):
            raise RooflineUsageError(f"audit.watch needs the step, a callable; got a {type(step).__name__}")
        self._is_watching_passes = True
        note, clock = self._pass_starts_s.append, self._clock
        submit = self._backend.submit if getattr(self._backend, "is_lazy", False) else None

        def watched(*args: Any, **kwargs: Any) -> Any:
            note(clock())
            self._last_output = output = step(*args, **kwargs)
            if submit is not None:
                submit(output)
            return output

        return watched

    @contextmanager
    def window(self) -> Iterator[None]:
        """State the window exactly: from here to the end of the block, drained at both ends."""
        if self._state != "inside":
            raise RooflineUsageError("audit.window() belongs inside the audit's with block")
        self._drain()
        start = self._clock()
        yield
        stop = self._clock()
        self._drain()
        self._force(self._last_output)
        self._stated = (start, stop, self._clock())

    def claim(
        self,
        *,
        tokens_per_s: float | None = None,
        tokens: float | None = None,
        seconds: float | None = None,
        samples: Sequence[float] | None = None,
        outputs: Any = None,
        ids: Any = None,
    ) -> None:
        """Say what was measured. Drains first, forces `outputs` (read to the host), counts `ids`.

        Give `tokens` and `seconds`, or `tokens_per_s`; `samples` (seconds each) where the claim is their median.
        Prompt and padding tokens are not to be among `ids`. Raises BogusMeasurement at the later of claim and exit.
        """
        if self._state not in ("inside", "left"):
            raise RooflineUsageError("audit.claim belongs inside the with block, or after it")
        if self._claimed is not None:
            raise RooflineUsageError("an audit takes one claim; use one audit per window")
        entry = self._clock()
        markers = self._mark()
        self._drain()
        drained = self._clock()
        held = [held for held in (outputs, ids, self._last_output) if held is not None]
        self._force(held)
        forced = self._clock()
        marked = max((marker.finished_s() for marker in markers), default=entry)
        self._claimed = _Claimed(
            tokens=_positive(tokens, "tokens"),
            tokens_per_s=_positive(tokens_per_s, "tokens_per_s"),
            seconds=_number(seconds, "seconds"),
            samples_s=tuple(_number(sample, "samples") or 0.0 for sample in samples or ()),
            ids=None if ids is None else self._count_ids(ids),
            entry_s=entry,
            drained_s=drained,
            forced_s=forced,
            marked_s=marked,
            idle_drain_s=self._time_idle_drain(held),
            stamps=self._watch.stamps(),
            outputs=outputs if outputs is not None else self._last_output,
        )
        if self._state == "left":
            self._is_late_claim = True
            self._close()

    # -- closing ------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Find the window, make the ledger, have it judged (which raises when it is bogus)."""
        claimed = self._claimed
        if claimed is None:  # pragma: no cover - callers have asked
            return
        reads = self._reads if self._reads is not None else self._watch.reads()
        self._reads = reads
        tokens_per_pass = self._tokens_of_a_pass(claimed.outputs)
        tokens = self._tokens(claimed, tokens_per_pass)
        notes: list[str] = []
        not_checked: list[str] = []
        window, seconds, is_unknown = self._window(claimed, tokens, tokens_per_pass, reads, notes)
        if claimed.ids is None:
            notes.append(f"{tokens:g} tokens are declared, not seen: pass ids= to have them counted")
        if not self._is_watching_passes:
            not_checked.append("passes were not watched: wrap the step with audit.watch(step)")
        passes = window.passes if window is not None else tokens / (self._batch * tokens_per_pass)
        ledger = Ledger(
            claim=Claim(
                tokens=tokens, seconds=seconds, is_tokens_seen=claimed.ids is not None, samples_s=claimed.samples_s
            ),
            tokens_claimed=tokens,
            ids_seen=claimed.ids,
            window=window,
            is_window_unknown=is_unknown,
            reads=len(reads),
            drifts=self._drifts(claimed),
            whole_audit_s=claimed.entry_s - self._entry_s,
            passes=passes,
            batch=self._batch,
            tokens_per_pass=tokens_per_pass,
            outputs=claimed.outputs,
            notes=tuple(notes),
            not_checked=tuple(not_checked),
        )
        self._result = self._judge(ledger)

    def _drifts(self, claimed: _Claimed) -> tuple[ClockDrift, ...]:
        """Public clocks against the private one, from entry to claim to exit (or to exit and then claim)."""
        middle, last = claimed.stamps, self._exit_stamps
        if self._is_late_claim:
            middle, last = last, middle
        return drifts(self._entry_stamps, middle) + drifts(middle, last)

    def _tokens_of_a_pass(self, outputs: Any) -> float:
        given = self._tokens_per_pass
        value = given(outputs) if callable(given) else given
        number = _positive(value, "tokens_per_pass")
        if number is None:
            raise RooflineUsageError(
                "tokens_per_pass is None; it must be a positive number, or a function of the output"
            )
        return number

    def _tokens(self, claimed: _Claimed, tokens_per_pass: float) -> float:
        if claimed.tokens is not None:
            return claimed.tokens
        if claimed.tokens_per_s is not None and claimed.seconds is not None:
            return claimed.tokens_per_s * claimed.seconds
        if claimed.ids:
            return float(claimed.ids)
        if self._pass_starts_s:
            return len(self._pass_starts_s) * self._batch * tokens_per_pass
        raise RooflineUsageError(
            "audit.claim was given no tokens: pass tokens= and seconds=, or ids=, or wrap the step in audit.watch"
        )

    def _window(
        self,
        claimed: _Claimed,
        tokens: float,
        tokens_per_pass: float,
        reads: Sequence[ClockRead],
        notes: list[str],
    ) -> tuple[Window | None, float, bool]:
        """The window of the claim, the seconds claimed, and whether the window stayed unknown."""
        seconds = claimed.seconds
        if seconds is None and claimed.tokens_per_s is not None:
            seconds = tokens / claimed.tokens_per_s
        if self._stated is not None:
            start, stop, finished = self._stated
            return (
                self._make_window(
                    claimed,
                    window_s=stop - start,
                    leftover_s=finished - stop,
                    bounds=(start, stop),
                    tokens=tokens,
                    tokens_per_pass=tokens_per_pass,
                    source="audit.window()",
                ),
                stop - start if seconds is None else seconds,
                False,
            )
        if claimed.samples_s:
            return self._sampled_window(claimed, tokens, tokens_per_pass, reads, seconds, notes)
        span = find_span(reads, seconds)
        if span is not None:
            window = self._make_window(
                claimed,
                window_s=span.measured_s,
                leftover_s=self._leftover_of(span.stop, claimed),
                bounds=(span.start.private_low_s, span.stop.private_high_s),
                tokens=tokens,
                tokens_per_pass=tokens_per_pass,
                source="watched clock",
                returned_s=span.returned_s,
                private_bounds=(span.private_low_s, span.private_high_s),
                where=span.stop.where,
                clock=span.stop.clock,
            )
            claimed_s = seconds if seconds is not None else span.returned_s
            return window, claimed_s if claimed_s is not None else span.private_high_s, False
        if seconds is None:
            raise RooflineUsageError(
                "audit.claim was given neither seconds nor a rate, and its window is not known: pass seconds= or "
                "tokens_per_s=, or put the timed part into `with audit.window():`"
            )
        if len(reads) > 1:
            return None, seconds, True
        notes.append("no clock read was seen: judged by the claimed seconds, what was left over, and the limit")
        leftover = claimed.forced_s - claimed.entry_s
        if leftover <= 10 * claimed.idle_drain_s:
            return None, seconds, False
        return (
            self._make_window(
                claimed,
                window_s=seconds,
                leftover_s=leftover,
                bounds=None,
                tokens=tokens,
                tokens_per_pass=tokens_per_pass,
                source="the claim itself, for no clock read was seen",
            ),
            seconds,
            False,
        )

    def _sampled_window(
        self,
        claimed: _Claimed,
        tokens: float,
        tokens_per_pass: float,
        reads: Sequence[ClockRead],
        seconds: float | None,
        notes: list[str],
    ) -> tuple[Window | None, float, bool]:
        """A claim that is the median of single timings: each is closed by itself, and the medians are compared."""
        samples = claimed.samples_s
        per_sample = tokens / len(samples)
        typical_s = median(samples)
        claimed_s = per_sample / claimed.tokens_per_s if claimed.tokens_per_s is not None else typical_s
        # From here on the claim is of one typical sample, scaled to all tokens.
        seconds = claimed_s * len(samples)
        spans = spans_of_samples(reads, samples)
        if spans is None:
            if len(reads) > 1:
                return None, seconds, True
            notes.append("no clock read was seen behind the samples")
            return None, seconds, False
        closed_s = median(closed_samples_s(spans)) * len(samples)
        open_s = median([span.measured_s for span in spans]) * len(samples)
        last = spans[-1].stop
        window = self._make_window(
            claimed,
            window_s=min(open_s, closed_s),
            leftover_s=max(0.0, closed_s - open_s),
            bounds=(spans[0].start.private_low_s, last.private_high_s),
            tokens=tokens,
            tokens_per_pass=tokens_per_pass,
            source=f"the median of {len(samples)} samples",
            where=last.where,
            clock=last.clock,
        )
        return window, seconds, False

    def _leftover_of(self, stop: ClockRead, claimed: _Claimed) -> float:
        """How long the work submitted before the stop still needed.

        Markers cover the queues they were put on. Work on a queue without one shows at the claim: it outlasts them.
        Lazy outputs are evaluated by the claim itself, so forcing them belongs to the work.
        """
        leftover = stop.leftover_s
        idle = 10 * claimed.idle_drain_s + BEYOND_MARKERS_S
        if claimed.drained_s - max(claimed.entry_s, claimed.marked_s) > idle:
            leftover = max(leftover, claimed.drained_s - stop.private_high_s)
        forcing = claimed.forced_s - claimed.drained_s
        return leftover + forcing if forcing > idle else leftover

    def _make_window(
        self,
        claimed: _Claimed,
        *,
        window_s: float,
        leftover_s: float,
        bounds: tuple[float, float] | None,
        tokens: float,
        tokens_per_pass: float,
        source: str,
        returned_s: float | None = None,
        private_bounds: tuple[float, float] | None = None,
        where: str | None = None,
        clock: str | None = None,
    ) -> Window:
        passes: float = tokens / (self._batch * tokens_per_pass)
        are_watched = self._is_watching_passes and bounds is not None
        if are_watched and bounds is not None:
            passes = float(sum(bounds[0] <= start <= bounds[1] for start in self._pass_starts_s))
            are_watched = passes > 0
            passes = passes or tokens / (self._batch * tokens_per_pass)
        return Window(
            window_s=window_s,
            leftover_s=leftover_s,
            idle_drain_s=claimed.idle_drain_s,
            passes=passes,
            are_passes_watched=are_watched,
            returned_s=returned_s,
            private_low_s=private_bounds[0] if private_bounds else None,
            private_high_s=private_bounds[1] if private_bounds else None,
            stop_where=where,
            clock=clock,
            source=source,
        )

    # -- the device ---------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        for backend in self._drains():
            backend.drain()

    def _force(self, output: Any) -> None:
        if output is None:
            return
        for backend in self._drains():
            backend.force(output)

    def _count_ids(self, ids: Any) -> int:
        count = count_ids(ids)
        if count is None:
            # Inside a structure of the framework's own (a model output, say): its backend knows the way.
            seen = [
                forced.ids for forced in (backend.force(ids) for backend in self._drains()) if forced.ids is not None
            ]
            count = max(seen, default=None)
        if count is None:
            raise RooflineUsageError(
                f"ids is a {type(ids).__name__} without integer ids; pass the generated ids (an integer array, "
                "or lists of ints or of such arrays)"
            )
        return count

    def _mark(self) -> tuple[Marker, ...]:
        markers = (backend.mark() for backend in self._drains() if backend.has_context())
        return tuple(marker for marker in markers if marker is not None)

    def _time_idle_drain(self, held: Any) -> float:
        times = []
        for _ in range(5):
            start = self._clock()
            self._drain()
            self._force(held)
            times.append(self._clock() - start)
        return median(times)


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


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RooflineUsageError(f"audit.claim: {name} is {value!r}; it must be a finite number")
    return float(value)


def _positive(value: Any, name: str) -> float | None:
    number = _number(value, name)
    if number is not None and number <= 0:
        raise RooflineUsageError(f"audit.claim: {name} is {value!r}; it must be positive")
    return number
