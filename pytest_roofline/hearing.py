"""An audit before the court: a probe before and after the window, and the evidence made of its ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_roofline.bench import Bench, Budgets, budgets_for, clocks_of, fraction_of, mbu_of, neighbours_share
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.evidence import Evidence, Limit
from pytest_roofline.device import Device
from pytest_roofline.ledger import Ledger
from pytest_roofline.protocol import Conditions
from pytest_roofline.result import Result, unmeasured_result
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.ruler import Ruler
from pytest_roofline.settings import Settings
from pytest_roofline.traffic import Traffic
from pytest_roofline.verdict import judge


class Hearing:
    """Brackets one audit and judges it; `bench_of` probes the device on first use."""

    def __init__(
        self,
        *,
        device: Device,
        bench_of: Callable[[], Bench],
        traffic: Traffic | None,
        label: str,
        settings: Settings,
        keep: Callable[[Result], Result],
        is_batch_known: bool = True,
        checks: Sequence[Check] = CHECKS,
    ) -> None:
        self._device = device
        self._bench_of = bench_of
        self._traffic = traffic
        self._label = label
        self._settings = settings
        self._keep = keep
        self._is_batch_known = is_batch_known
        self._checks = checks
        self._bench: Bench | None = None
        self._ruler: Ruler | None = None
        self._before_bytes_per_s = 0.0
        self._begun_s = 0.0
        self._before = Conditions()

    def enter(self) -> None:
        """Probe before the window, where there is traffic to hold against it."""
        if self._traffic is None or self._settings.mode == "off":
            return
        self._bench = self._bench_of()
        self._ruler = self._bench.ruler(self._traffic)
        self._before_bytes_per_s = self._ruler.measure()
        self._begun_s, self._before = self._bench.backend.clock(), self._bench.backend.conditions(self._device)

    def leave(self) -> None:
        """Give the probe's buffers back, however the audit ended."""
        if self._ruler is not None:
            self._ruler.close()
            self._ruler = None

    def judge(self, ledger: Ledger) -> Result:
        """Probe again and let the court decide; what is bogus is raised by `keep`."""
        if self._settings.mode == "off":
            result = unmeasured_result("audit", self._label, self._device, ledger.outputs)
            return self._keep(result)
        budgets = budgets_for(self._settings, self._device)
        window = ledger.window
        closed_s = window.closed_s if window else ledger.claim.seconds
        pass_s = closed_s / ledger.passes if ledger.passes and closed_s > 0 else None
        ceiling, limit, interval = self._scale(ledger, pass_s)
        evidence = self._evidence(ledger, budgets, ceiling, limit, interval)
        fraction = (interval.low + interval.high) / 2 if interval is not None else None
        verdict = judge(evidence, fraction, self._checks)
        rate = ledger.tokens_claimed / closed_s if closed_s > 0 else None
        traffic = self._traffic
        notes = [*ledger.notes, *([budgets.note] if budgets.note else [])]
        if not self._is_batch_known:
            notes.append("batch is not known and taken as 1")
        if traffic is None:
            notes.append("no traffic was given (model= or traffic=): only clock and tokens were judged")
        backend = self._bench.backend if self._bench else None
        return self._keep(
            Result(
                kind="audit",
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
                conditions=backend.conditions(self._device).to_dict() if backend else {},
                outputs=ledger.outputs,
            )
        )

    def _scale(self, ledger: Ledger, pass_s: float | None) -> tuple[Ceiling | None, Limit | None, Interval | None]:
        """The ceiling, the limit of this very minute, and the fraction by the probes on both sides of the window."""
        bench, traffic = self._bench, self._traffic
        if bench is None or traffic is None:
            return None, None, None
        if self._ruler is None:  # claimed after the block, where the first ruler was given back
            self._ruler = bench.ruler(traffic)
        after = self._ruler.measure()
        self.leave()
        ceiling = bench.ceiling(traffic, batch=ledger.batch, tokens_per_pass=ledger.tokens_per_pass)
        limit = bench.limit
        if limit.is_measured:
            # The session's probe may have been taken in a slow minute; the probes around the window follow it.
            faster = max(self._before_bytes_per_s, after) / ceiling.bandwidth_bytes_per_s
            limit = replace(limit, bytes_per_s=limit.bytes_per_s * max(1.0, faster))
        if not pass_s:
            return ceiling, limit, None
        fractions = sorted(
            max(traffic.bytes_per_pass / rate, ceiling.compute_s) / pass_s for rate in (self._before_bytes_per_s, after)
        )
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
        return Evidence(
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
            whole_audit_s=ledger.whole_audit_s,
            tokens_claimed=ledger.tokens_claimed,
            ids_seen=ledger.ids_seen,
            batch=ledger.batch,
            tokens_per_pass=ledger.tokens_per_pass,
            peak_limit_flops_per_s=bench.peak_limit_flops_per_s(ceiling) if bench and ceiling else None,
            is_peak_limit_measured=bench.is_peak_limit_measured if bench else True,
            neighbours_share=self._neighbours_share(),
            cores=self._device.compute_units if self._device.is_cpu else None,
            probe_doubts=bench.doubts if bench else (),
            probe_excess=bench.probe.excess if bench else 1.0,
            clocks=clocks_of(self._before, bench.backend.conditions(self._device), self._device) if bench else None,
            identity=bench.identity if bench else None,
            allow=self._settings.allow,
        )

    def _neighbours_share(self) -> float | None:
        if self._bench is None:
            return None
        backend = self._bench.backend
        elapsed_s = backend.clock() - self._begun_s
        return neighbours_share(self._before, backend.conditions(self._device), elapsed_s, self._device.compute_units)
