"""Audit the user's own timing code: watch its clock, drain behind it, hold its claim against the closed window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from pytest_roofline.backends.private_clock import held_up_s, processor_clock
from pytest_roofline.checks.claimed import ClockDrift
from pytest_roofline.checks.ranks import combine
from pytest_roofline.clock_watch import ClockWatch, Stamp, drifts, host_clocks, stretches
from pytest_roofline.closed_window import Seen
from pytest_roofline.closing import Closing
from pytest_roofline.compile_logs import CompileLogs
from pytest_roofline.draining import Drained, wait_for
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.event_watch import EventWatch
from pytest_roofline.ledger import (
    Claimed,
    Ledger,
    Stated,
    count_ids,
    finite,
    positive,
    rank_windows,
    sample_times,
    tokens_of_a_pass,
)
from pytest_roofline.pass_watch import PassWatch
from pytest_roofline.protocol import Backend, Marker, WatchedEvents
from pytest_roofline.receipts import Receipts
from pytest_roofline.samples import median

if TYPE_CHECKING:
    from pytest_roofline.result import Result


class Audit:
    """Context manager around the user's own timing code; made by ``roofline.audit(...)``."""

    def __init__(
        self,
        *,
        backend: Backend,
        drains: Callable[[], Sequence[Backend]],
        loaded: Callable[[], Sequence[Backend]],
        judge: Callable[[Ledger], Result],
        on_enter: Callable[[], None],
        on_leave: Callable[[], None],
        frame: FrameType | None,
        batch: int = 1,
        tokens_per_pass: float | Callable[[Any], float] = 1,
        is_remote: bool = False,
    ) -> None:
        self._backend = backend
        self._clock = backend.clock
        self._drains = drains
        self._loaded = loaded
        self._judge = judge
        self._on_enter = on_enter
        self._on_leave = on_leave
        self._batch = batch
        self._tokens_per_pass = tokens_per_pass
        self._passes = PassWatch(clock=self._clock, mark=self._mark)
        self._receipts = Receipts(self._clock) if is_remote else None
        self._events: EventWatch | None = None
        self._compile_logs: CompileLogs | None = None
        self._claimed: Claimed | None = None
        self._stated: list[Stated] = []
        self._entry_s = 0.0
        self._entry_stamps: dict[str, Stamp] = {}
        self._exit_stamps: dict[str, Stamp] = {}
        self._claim_stamps: dict[str, Stamp] = {}
        self._result: Result | None = None
        self._is_late_claim = False
        self._state = "new"
        clocks = getattr(backend, "public_clocks", None)
        self._held_up = held_up_s if clocks is None else float
        self._watch = ClockWatch(
            private=self._clock,
            mark=self._mark,
            clocks=tuple(clocks()) if clocks is not None else host_clocks(),
            frame=frame,
            processor_s=processor_clock if clocks is None else None,
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
        """Whether it was never claimed (or not even entered), so that nothing could be judged."""
        return self._claimed is None and self._state in ("new", "inside", "left")

    def __enter__(self) -> Audit:
        if self._state != "new":
            raise RooflineUsageError("an audit can be entered once; call roofline.audit() again for the next one")
        self._on_enter()  # the probe before the window, and whatever was still running from before
        try:
            self._drain()
            self._state = "inside"
            self._events = EventWatch(private=self._clock, mark=self._mark, classes=self._event_classes())
            self._compile_logs = CompileLogs(self._companions())
            self._events.start()
            self._watch.start()
            self._entry_s = self._clock()
            self._entry_stamps = self._watch.stamps()
        except BaseException:
            self._stop_watching()
            self._on_leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._exit_stamps = self._watch.stamps()
        finally:
            self._stop_watching()
        if kind is not None:
            self._state = "abandoned"
            try:
                with suppress(Exception):  # the body's own exception is what counts
                    self._drain()  # whatever it left running is not the next test's
            finally:
                self._on_leave()
            return
        self._state = "left"
        try:
            self._drain()
            if self._claimed is not None:
                self._close()
        finally:
            self._on_leave()

    def watch(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step with its passes counted and its last outputs held; costs a microsecond a pass, and a few markers."""
        if self._receipts is not None:
            raise RooflineUsageError(
                "audit.watch counts the passes of a step, and those of another process cannot be seen: pass what the "
                "engine yields through audit.received(...)"
            )
        if not callable(step):
            raise RooflineUsageError(f"audit.watch needs the step, a callable; got a {type(step).__name__}")
        return self._passes.wrap(step, self._backend.submit if self._backend.is_lazy else None)

    def received(self, ids: Iterable[Any]) -> Iterator[Any]:
        """The same items, each taken down when it came from the engine: ints, integer arrays, or lists of them.

        For ``roofline.audit(remote=True)``: the window closes when as many ids have come as are claimed.
        """
        if self._receipts is None:
            raise RooflineUsageError("audit.received is for engines in another process: roofline.audit(remote=True)")
        return self._receipts.of(ids)

    @contextmanager
    def window(self) -> Iterator[None]:
        """State the window exactly: from here to the end of the block, drained at both ends; several add up."""
        if self._state != "inside":
            raise RooflineUsageError("audit.window() belongs inside the audit's with block")
        self._drain()
        held_up_s = self._held_up()
        start = self._clock()
        yield
        stop = self._clock()
        held_up_s = self._held_up() - held_up_s
        done = self._wait().done_s
        evaluating_s = self._evaluating_s(self._passes.last_output)
        self._force(self._passes.last_output)
        self._stated.append(
            Stated(
                start_s=start,
                stop_s=stop,
                drained_s=max(stop, done),
                finished_s=max(stop, done) + evaluating_s,
                held_up_s=held_up_s,
            )
        )

    def claim(
        self,
        *,
        tokens_per_s: float | None = None,
        tokens: float | None = None,
        seconds: float | None = None,
        samples: Sequence[float] | None = None,
        outputs: Any = None,
        ids: Any = None,
        ranks: Sequence[tuple[float, float, float]] | None = None,
        share_tokens: bool = False,
    ) -> None:
        """Say what was measured. Drains first, forces `outputs` (read to the host), counts `ids`.

        Give `tokens` and `seconds`, or `tokens_per_s` with `tokens`; `samples` (seconds each) where the claim is their
        median: then `tokens` are those of all samples, unless `seconds` is what one sample took.
        Prompt and padding tokens are not to be among `ids`. Raises BogusMeasurement at the later of claim and exit.

        `ranks`: start and stop (seconds, one clock or one barrier) and tokens of each of several processes; the claim
        may not exceed all tokens, or the same ones (`share_tokens`), from the first start to the last stop.
        """
        if self._state not in ("inside", "left"):
            raise RooflineUsageError("audit.claim belongs inside the with block, or after it")
        if self._claimed is not None:
            raise RooflineUsageError("an audit takes one claim; use one audit per window")
        if self._receipts is not None and ids is None and not self._receipts.total:
            raise RooflineUsageError(
                "a remote audit is drained by its ids, and saw none: audit.claim(ids=...), or pass what the engine "
                "yields through audit.received(...)"
            )
        windows = rank_windows(ranks, do_share_tokens=share_tokens)
        if windows and (ids is not None or samples is not None or self._stated or self._receipts is not None):
            raise RooflineUsageError(
                "ranks= has the window and the tokens of every rank: give no ids= or samples=, and no audit.window(), "
                "of this one beside it"
            )
        together = combine(windows, do_share_tokens=share_tokens)
        if together is not None and seconds is None and tokens_per_s is None:
            seconds = together.window_s
        end = self._wait()
        held = [held for held in (outputs, ids, self._passes.last_output) if held is not None]
        evaluating_s = self._evaluating_s(held)
        self._force(held)
        if self._events is not None:
            self._events.read_again()
        self._claimed = Claimed(
            tokens=positive(tokens, "tokens"),
            tokens_per_s=positive(tokens_per_s, "tokens_per_s"),
            seconds=finite(seconds, "seconds"),
            samples_s=sample_times(samples),
            ids=None if ids is None else self._count_ids(ids),
            entry_s=end.entry_s,
            drained_s=end.drained_s,
            forced_s=end.drained_s + evaluating_s,
            marked_s=end.marked_s,
            done_s=end.done_s,
            idle_drain_s=self._time_idle_drain(held),
            marker_late_s=self._time_idle_markers(),
            ranks=windows,
            do_ranks_share_tokens=share_tokens,
            outputs=outputs if outputs is not None else self._passes.last_output,
        )
        self._claim_stamps = self._watch.stamps()
        if self._state == "left":
            self._is_late_claim = True
            self._close()

    # -- closing ------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Find the window, make the ledger, have it judged (which raises when it is bogus)."""
        claimed = self._claimed
        if claimed is None:  # pragma: no cover - callers have asked
            return
        seen = Seen(
            claimed=claimed,
            reads=self._watch.reads(),
            events=self._events.intervals() if self._events is not None else (),
            stated=tuple(self._stated),
            passes=self._passes.times(),
            is_watching_passes=self._passes.is_watching,
            batch=self._batch,
            tokens_per_pass=tokens_of_a_pass(self._tokens_per_pass, claimed.outputs),
        )
        ledger = Closing(
            seen=seen,
            compilations=self._compile_logs.entries() if self._compile_logs is not None else (),
            is_lazy=self._backend.is_lazy,
            drifts=self._drifts(),
            public_stretches=stretches(self._entry_stamps, self._claim_stamps),
            whole_audit_s=claimed.entry_s - self._entry_s,
        ).ledger()
        self._result = self._judge(ledger if self._receipts is None else self._receipts.close(ledger))

    def _drifts(self) -> tuple[ClockDrift, ...]:
        """Public clocks against the private one, from entry to claim to exit (or to exit and then claim)."""
        middle, last = self._claim_stamps, self._exit_stamps
        if self._is_late_claim:
            middle, last = last, middle
        return drifts(self._entry_stamps, middle) + drifts(middle, last)

    # -- what is watched ----------------------------------------------------------------------------------------

    def _companions(self) -> Sequence[Backend]:
        """Every framework that this process has loaded and that lives in the same time as the audit's own."""
        if hasattr(self._backend, "public_clocks"):
            return (self._backend,)
        return [backend for backend in self._loaded() if not hasattr(backend, "public_clocks")]

    def _event_classes(self) -> list[WatchedEvents]:
        classes = (getattr(backend, "event_classes", None) for backend in self._companions())
        return [watched for ask in classes if ask is not None for watched in ask()]

    def _stop_watching(self) -> None:
        self._watch.stop()
        if self._events is not None:
            self._events.stop()
        if self._compile_logs is not None:
            self._compile_logs.close()

    # -- the device ---------------------------------------------------------------------------------------------

    def _wait(self) -> Drained:
        return wait_for(self._drains(), mark=self._mark, clock=self._clock, held_up_s=self._held_up)

    def _evaluating_s(self, output: Any) -> float:
        """Evaluate what is lazy; how long that took while this thread had a processor."""
        start, held_up_s = self._clock(), self._held_up()
        self._evaluate(output)
        return max(0.0, self._clock() - start - max(0.0, self._held_up() - held_up_s))

    def _drain(self) -> None:
        for backend in self._drains():
            backend.drain()

    def _evaluate(self, output: Any) -> None:
        """Have an output computed where the work waits until somebody asks for it, and nothing more.

        Reading it is no part of that work: a device may compile a program of its own for the first read.
        """
        for backend in self._lazy_holders(output):
            evaluate = getattr(backend, "evaluate", None)
            if evaluate is None or not evaluate(output):
                backend.force(output)

    def _force(self, output: Any) -> None:
        if output is None:
            return
        drains = self._drains()
        lazy = [backend for backend in self._lazy_holders(output) if not any(backend is one for one in drains)]
        for backend in (*drains, *lazy):
            backend.force(output)

    def _lazy_holders(self, output: Any) -> list[Backend]:
        """The frameworks whose part of an output waits to be asked for, also where they have no context of their own
        (torch on the CPU)."""
        drains = self._drains()
        companions = [backend for backend in self._companions() if not any(backend is one for one in drains)]
        return [] if output is None else [one for one in (*drains, *companions) if _waits_for(one, output)]

    def _count_ids(self, ids: Any) -> int:
        count = count_ids(ids)
        if count is None:
            # Inside a structure of the framework's own (a model output, say): its backend knows the way.
            seen = [
                forced.ids for forced in (backend.force(ids) for backend in self._loaded()) if forced.ids is not None
            ]
            count = max(seen, default=None)
        if count is None:
            raise RooflineUsageError(
                f"ids is a {type(ids).__name__} without integer ids; pass the generated ids (an integer array, "
                "or lists of ints or of such arrays)"
            )
        return count

    def _mark(self) -> tuple[Marker, ...]:
        if self._compile_logs is not None:
            self._compile_logs.poll()
        begun_s = self._clock()
        every = [backend.mark() for backend in self._drains()]
        markers = tuple([marker for marker in every if marker is not None])
        for marker in markers:
            # Marking one framework's queue delays the mark of the next, and nothing was submitted meanwhile.
            since = getattr(marker, "since", None)
            if since is not None:
                since(begun_s)
        return markers

    def _time_idle_drain(self, held: Any) -> float:
        times = []
        for _ in range(5):
            start = self._clock()
            self._drain()
            self._force(held)
            times.append(self._clock() - start)
        return median(times)

    def _time_idle_markers(self) -> float:
        """How late a marker comes at worst, of a few behind nothing: it was to be reached when it was set."""
        late_s = 0.0
        for _ in range(3):
            markers = self._mark()
            set_s = self._clock()
            late_s = max([late_s, *(marker.finished_s() - set_s for marker in markers)])
        return late_s


def _waits_for(backend: Backend, output: Any) -> bool:
    """Whether this output's work waits until it is asked for: a lazy framework, or a lazy device of an eager one."""
    holds_lazy = getattr(backend, "holds_lazy", None)
    return backend.is_lazy or (holds_lazy is not None and bool(holds_lazy(output)))
