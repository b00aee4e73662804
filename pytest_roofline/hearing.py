"""An audit before the court: a probe before and after the window, and the evidence made of its ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from types import FrameType
from typing import Any

from pytest_roofline.audit import Audit
from pytest_roofline.backends.pulse import Pulse, open_pulse
from pytest_roofline.bench import Bench, Budgets, budgets_for, fraction_of, mbu_of, with_conditions
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.counted import Counted
from pytest_roofline.checks.evidence import Evidence, Limit
from pytest_roofline.checks.hardware import can_be_counted, is_clearly_fewer, is_rather_few
from pytest_roofline.condition_watch import ConditionWatch
from pytest_roofline.conditions import Stretch
from pytest_roofline.device import Device
from pytest_roofline.errors import MeasurementError, one_line
from pytest_roofline.ledger import Ledger
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.protocol import Backend, CounterReading
from pytest_roofline.result import Result, unmeasured_result
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.ruler import Ruler
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.stops import stops_around
from pytest_roofline.traffic import Traffic
from pytest_roofline.turns import Turn
from pytest_roofline.verdict import judge


def open_audit(
    session: Session,
    device: Device,
    backend: Backend,
    *,
    bench_of: Callable[[], Bench],
    traffic: Traffic | None,
    settings: Settings,
    keep: Callable[[Result], Result],
    checks: Sequence[Check],
    label: str,
    batch: int | None,
    tokens_per_pass: float | Callable[[Any], float],
    is_remote: bool,
    frame: FrameType,
) -> Audit:
    """An audit of the code in `frame`, and the hearing that it ends in. Of a remote one nothing here is drained."""
    known = batch or (traffic.batch if traffic is not None else None)
    hearing = Hearing(
        device=device,
        bench_of=bench_of,
        lock=lambda: session.lock(device),
        onlooker=session.onlooker,
        pulse_of=lambda: open_pulse(backend),
        traffic=traffic,
        label=label,
        settings=settings,
        keep=keep,
        is_batch_known=known is not None,
        is_remote=is_remote,
        checks=checks,
    )
    return Audit(
        backend=backend,
        drains=list if is_remote else lambda: session.backends.in_use(backend),
        loaded=list if is_remote else session.backends.loaded,
        judge=hearing.judge,
        on_enter=hearing.enter,
        on_leave=hearing.leave,
        frame=frame,
        batch=known or 1,
        tokens_per_pass=tokens_per_pass,
        is_remote=is_remote,
    )


class Hearing:
    """Brackets one audit and judges it; `bench_of` probes the device on first use."""

    def __init__(
        self,
        *,
        device: Device,
        bench_of: Callable[[], Bench],
        lock: Callable[[], AbstractContextManager[Turn | None]] = nullcontext,
        pulse_of: Callable[[], Pulse] | None = None,
        traffic: Traffic | None,
        label: str,
        settings: Settings,
        keep: Callable[[Result], Result],
        is_batch_known: bool = True,
        is_remote: bool = False,
        checks: Sequence[Check] = CHECKS,
        onlooker: Onlooker = NOBODY,
    ) -> None:
        self._device = device
        self._bench_of = bench_of
        self._lock = lock
        self._held = ExitStack()
        self._turn: Turn | None = None
        self._pulse_of = pulse_of
        self._pulse: Pulse | None = None
        self._traffic = traffic
        self._label = label
        self._settings = settings
        self._keep = keep
        self._is_batch_known = is_batch_known
        self._is_remote = is_remote
        self._checks = checks
        self._onlooker = onlooker
        self._notes: list[str] = []
        self._bench: Bench | None = None
        self._ruler: Ruler | None = None
        self._before_bytes_per_s = 0.0
        self._watch: ConditionWatch | None = None
        self._reading: CounterReading | None = None

    def enter(self) -> None:
        """Have the device to ourselves; probe before the window, where there is traffic to hold against it."""
        if self._settings.mode == "off":
            return
        self._turn = self._held.enter_context(self._lock())
        try:
            self._probe_before()
            self._onlooker.tell("the test's own timing")
            if self._pulse_of is not None:
                self._pulse = self._pulse_of()
        except BaseException:
            self.leave()
            raise

    def _probe_before(self) -> None:
        if self._traffic is None:
            return
        self._bench = self._bench_of()
        self._before_bytes_per_s = self._rate_now(self._bench, self._traffic)
        self._watch = ConditionWatch(self._bench.backend, self._device).open()
        if self._bench.counter is not None:
            self._reading = self._bench.counter.counter.read()

    def _rate_now(self, bench: Bench, traffic: Traffic) -> float:
        """A reading of the ruler, which is made where there is none.

        Where another process's engine has the memory, and no four cache knees are left, it is the session's probe: a
        smaller ruler would tell of the cache.
        """
        if self._ruler is None:
            try:
                self._ruler = bench.ruler(traffic)
            except MeasurementError as error:
                if not self._is_remote:
                    raise
                return self._by_session(bench, traffic, one_line(str(error)))
        if self._is_remote and self._ruler.notes:
            short = one_line(self._ruler.notes[0])
            self._ruler.close()
            self._ruler = None
            return self._by_session(bench, traffic, short)
        return self._ruler.measure()

    def _by_session(self, bench: Bench, traffic: Traffic, short: str) -> float:
        note = f"the memory is taken, so the session's first probe is the ruler, and not one of this minute: {short}"
        if note not in self._notes:
            self._notes.append(note)
        return bench.ceiling(traffic).bandwidth_bytes_per_s

    def leave(self) -> None:
        """Give the device and the probe's buffers back and stop watching, however the audit ended."""
        with self._held:  # given back whatever goes wrong before
            self._turn = None
            try:
                self._stop()
            finally:
                if self._pulse is not None:
                    self._pulse.close()

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._ruler is not None:
            self._ruler.close()
            self._ruler = None

    def judge(self, ledger: Ledger) -> Result:
        """Probe again and let the court decide; what is bogus is raised by `keep`."""
        if self._settings.mode == "off":
            result = unmeasured_result("audit", self._label, self._device, ledger.outputs)
            return self._keep(result)
        if self._turn is not None:
            self._turn.go_on()  # it may be left on another thread than it was entered on
        with self._lock():  # a claim may come after the audit has been left
            return self._judged(ledger)

    def _judged(self, ledger: Ledger) -> Result:
        stops = stops_around(ledger, self._pulse.gaps() if self._pulse is not None else ())
        ledger = stops.without_late(ledger)
        budgets = budgets_for(self._settings, self._device)
        window = ledger.window
        closed_s = window.closed_s if window else ledger.claim.seconds
        pass_s = closed_s / ledger.passes if ledger.passes and closed_s > 0 else None
        counted = self._counted(ledger)
        ceiling, limit, interval = self._scale(ledger, pass_s)
        widened = stops.widened(interval, closed_s)
        evidence = self._witnessed(self._evidence(ledger, budgets, ceiling, limit, widened), counted, ledger)
        evidence = replace(evidence, suspended_s=stops.inside_s, suspended_late_s=stops.late_s)
        fraction = (interval.low + interval.high) / 2 if interval is not None else None
        verdict = judge(evidence, fraction, self._checks)
        # The tokens of all ranks took until the last of them was done, however short this one's own window was.
        every_s = max(closed_s, ledger.claim.seconds) if ledger.ranks else closed_s
        rate = ledger.tokens_claimed / every_s if every_s > 0 else None
        traffic = self._traffic
        notes = [*ledger.notes, *self._notes, *([budgets.note] if budgets.note else [])]
        if not self._is_batch_known:
            notes.append("batch is not known and taken as 1")
        if traffic is None:
            notes.append("no traffic was given (model= or traffic=): only clock and tokens were judged")
        return self._keep(
            Result(
                kind="remote" if self._is_remote else "audit",
                label=self._label,
                device=self._device,
                fraction=fraction_of(evidence, verdict, pass_s),
                mbu=mbu_of(self._device, traffic, pass_s),
                step_s=pass_s,
                fixed_s=None,
                tokens_per_s=rate,
                tokens_per_s_per_user=rate / ledger.batch if rate else None,
                bytes_per_s=traffic.bytes_per_pass / pass_s if traffic and pass_s else None,
                ceiling=ceiling,
                traffic=traffic,
                verdict=verdict,
                evidence=evidence,
                passes=round(ledger.passes),
                elapsed_s=ledger.whole_audit_s,
                notes=tuple(notes),
                not_checked=ledger.not_checked,
                conditions=self._watch.to_dict() if self._watch else {},
                outputs=ledger.outputs,
            )
        )

    def _counted(self, ledger: Ledger, *, has_settled: bool = False) -> Counted | None:
        """What moved since the audit was entered, warm-up and all: the passes of its window cannot have moved more."""
        counter = self._bench.counter if self._bench is not None else None
        if counter is None or self._reading is None or ledger.window is None or ledger.is_window_unknown:
            return None
        if has_settled:
            counter.counter.settle()
        second = counter.counter.read()
        if second is None:
            return None
        return counter.counted(self._reading, second, ledger.passes, is_exact=False, place="unknown")

    def _witnessed(self, evidence: Evidence, counted: Counted | None, ledger: Ledger) -> Evidence:
        """With what was counted, unless it speaks against the test and the counter itself cannot be relied on now.

        A reading may be too old to hold the end of the window: where it says less than the passes need, even if its
        pace went on to now, it is taken again when it has settled.
        """
        counter = self._bench.counter if self._bench is not None else None
        if counter is None or counted is None:
            return evidence
        if can_be_counted(evidence) and is_rather_few(evidence, counted):
            counted = self._counted(ledger, has_settled=True)
            if counted is None or (is_clearly_fewer(evidence, counted) and not counter.still_holds()):
                return evidence
        return replace(evidence, counted=counted)

    def _scale(self, ledger: Ledger, pass_s: float | None) -> tuple[Ceiling | None, Limit | None, Interval | None]:
        """The ceiling, the limit of this very minute, and the fraction by the probes on both sides of the window."""
        bench, traffic = self._bench, self._traffic
        if bench is None or traffic is None:
            return None, None, None
        after = self._rate_now(bench, traffic)  # claimed after the block, the first ruler was given back
        self._stop()
        ceiling = bench.ceiling(traffic, batch=ledger.batch, tokens_per_pass=ledger.tokens_per_pass)
        limit = bench.limit
        if limit.is_measured:
            # The session's probe may have been taken in a slow minute; the probes around the window follow it.
            faster = max(self._before_bytes_per_s, after) / ceiling.bandwidth_bytes_per_s
            limit = replace(limit, bytes_per_s=limit.bytes_per_s * max(1.0, faster))
        if not pass_s:
            return ceiling, limit, None
        fractions = sorted(ceiling.floor_s(rate) / pass_s for rate in (self._before_bytes_per_s, after))
        return ceiling, limit, Interval(low=fractions[0], high=fractions[1])

    def _evidence(
        self,
        ledger: Ledger,
        budgets: Budgets,
        ceiling: Ceiling | None,
        limit: Limit | None,
        interval: Interval | None,
    ) -> Evidence:
        bench, traffic = self._bench, self._traffic
        held = self._watch.stretch() if self._watch else Stretch()
        evidence = Evidence(
            kind="audit",
            label=self._label,
            ceiling=ceiling,
            traffic=traffic,
            declared=traffic,
            limit=limit,
            knee_bytes=bench.probe.cache_knee_bytes if bench else 0.0,
            fraction=interval,
            at_least=budgets.at_least if traffic is not None else None,
            at_most=budgets.at_most if traffic is not None else None,
            window=ledger.window,
            claim=ledger.claim,
            drifts=ledger.drifts,
            reads=ledger.reads,
            events_read=ledger.events_read,
            compiled=ledger.compiled,
            first_pass_s=ledger.first_pass_s,
            later_pass_s=ledger.later_pass_s,
            clocks_read=ledger.clocks_read,
            is_window_unknown=ledger.is_window_unknown,
            likely=ledger.likely,
            whole_audit_s=ledger.whole_audit_s,
            tokens_claimed=ledger.tokens_claimed,
            ids_seen=ledger.ids_seen,
            batch=ledger.batch,
            tokens_per_pass=ledger.tokens_per_pass,
            ranks=ledger.ranks,
            do_ranks_share_tokens=ledger.do_ranks_share_tokens,
            are_ranks_borne_out=ledger.are_ranks_borne_out,
            allow=self._settings.allow,
        )
        if bench is None:
            return with_conditions(evidence, held, self._device)
        return bench.with_witnesses(evidence, held)
