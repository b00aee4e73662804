"""What a measurement returns: figures, the verdict, and a fraction that remembers what it was compared with."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from pytest_roofline.checks.claimed import CompiledInWindow
from pytest_roofline.checks.evidence import Evidence, Finding, Kind, Limit, Sample
from pytest_roofline.device import Device
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.stream_figures import StreamFigures
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction, format_rate, format_seconds
from pytest_roofline.verdict import Verdict

SCHEMA = 1
NOT_MEASURED = "not measured (--roofline=off)"
UNITTESTS_OWN = "__unittest"
"""A global of modules whose frames are no test's: `assertGreaterEqual` compares for the line that calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison that a test made with a fraction: `where` is ``(file, line)``."""

    operator: str
    other: float
    truth: bool
    is_decided: bool
    where: tuple[str, int]


class Fraction(float):
    """Part of the probed ceiling, 1.0 being all of it; prints the figures behind it and records comparisons.

    With ``--roofline=off`` nothing was measured: every comparison is true, and says so.
    """

    bounds: Interval
    is_measured: bool
    comparisons: list[Comparison]
    _explain: Callable[[], str]

    def __new__(
        cls, value: float, bounds: Interval, explain: Callable[[], str], *, is_measured: bool = True
    ) -> Fraction:
        """Make one; `explain` is called only when the fraction is printed."""
        self = super().__new__(cls, value)
        self.bounds = bounds
        self.is_measured = is_measured
        self.comparisons = []
        self._explain = explain
        return self

    def __repr__(self) -> str:
        if not self.is_measured:
            return NOT_MEASURED
        return f"<{self._explain()}>"

    def __str__(self) -> str:
        return NOT_MEASURED if not self.is_measured else f"{float(self):.4g}"

    def __format__(self, spec: str) -> str:
        return NOT_MEASURED if not self.is_measured else format(float(self), spec)

    def __hash__(self) -> int:
        return hash(float(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)

    def _compare(self, operator: str, other: object, truth: bool) -> bool:
        if not self.is_measured or (isinstance(other, Fraction) and not other.is_measured):
            return True
        if isinstance(other, Real):
            budget = float(other)
            frame = sys._getframe(2)
            while UNITTESTS_OWN in frame.f_globals and frame.f_back is not None:
                frame = frame.f_back
            self.comparisons.append(
                Comparison(
                    operator=operator,
                    other=budget,
                    truth=bool(truth),
                    is_decided=self.bounds.clears(budget) is not None,
                    where=(frame.f_code.co_filename, frame.f_lineno),
                )
            )
        return truth

    def __ge__(self, other: float) -> bool:
        return self._compare(">=", other, float(self) >= _bare(other))

    def __gt__(self, other: float) -> bool:
        return self._compare(">", other, float(self) > _bare(other))

    def __le__(self, other: float) -> bool:
        return self._compare("<=", other, float(self) <= _bare(other))

    def __lt__(self, other: float) -> bool:
        return self._compare("<", other, float(self) < _bare(other))

    def __eq__(self, other: object) -> bool:
        return self._compare("==", other, float(self) == _bare(other))

    def __ne__(self, other: object) -> bool:
        return self._compare("!=", other, float(self) != _bare(other))


def _bare(other: Any) -> Any:
    """The number in another fraction, which would otherwise compare, and record, once more."""
    return float(other) if isinstance(other, Fraction) else other


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result:
    """One measurement, judged.

    `fraction` is taken of the probed ceiling; `mbu` of the datasheet's bandwidth, None where no sheet is known.
    `tokens_per_s` counts the whole batch. Samples are raw: rounding is the reports' business.
    """

    kind: str
    label: str
    device: Device
    fraction: Fraction
    mbu: float | None
    step_s: float | None
    fixed_s: float | None
    """Time per block that does not grow with its passes."""
    tokens_per_s: float | None
    tokens_per_s_per_user: float | None
    bytes_per_s: float | None
    ceiling: Ceiling | None
    traffic: Traffic | None
    verdict: Verdict
    evidence: Evidence
    samples: tuple[Sample, ...] = ()
    passes: int = 0
    """Passes timed; warm-up and the traced pass are not among them."""
    ttft_s: float | None = None
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    """What was not looked at, and what would let it be."""
    conditions: dict[str, Any] = field(default_factory=dict)
    outputs: Any = field(default=None, compare=False)
    """What the last pass returned."""
    stream: StreamFigures | None = field(default=None, compare=False)
    """Of `roofline.stream`: every request, and the figures made of them."""
    aggregate: Result | None = field(default=None, compare=False)
    """Of `roofline.stream`: all users together, judged by itself."""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label} on {self.device.id}: {self._standing()}, {self.fraction!r}>"

    def _standing(self) -> str:
        """The verdict, by budgets of settings alone; after a comparison that did not hold, what that asked for."""
        missed = [one for one in self.fraction.comparisons if not one.truth]
        if self.verdict.outcome != "passed" or not missed:
            return self.verdict.outcome
        asked = f"{missed[-1].operator} {format_fraction(missed[-1].other)}"
        return f"not {asked}" if missed[-1].is_decided else f"undecided whether {asked}"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that the court noticed."""
        return self.verdict.findings

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only, no NaN and no infinity (they become None)."""
        record = {
            "schema": SCHEMA,
            "kind": self.kind,
            "label": self.label,
            "device": self.device.to_dict(),
            "verdict": self.verdict.outcome,
            "fraction": float(self.fraction) if self.fraction.is_measured else None,
            "fraction_low": self.verdict.bounds.low if self.verdict.bounds else None,
            "fraction_high": self.verdict.bounds.high if self.verdict.bounds else None,
            "at_least": self.verdict.at_least,
            "at_most": self.verdict.at_most,
            "allowed": list(self.verdict.allowed),
            "mbu": self.mbu,
            "step_s": self.step_s,
            "fixed_s": self.fixed_s,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_user": self.tokens_per_s_per_user,
            "bytes_per_s": self.bytes_per_s,
            "ttft_s": self.ttft_s,
            "passes": self.passes,
            "elapsed_s": self.elapsed_s,
            "ceiling": self.ceiling.to_dict() if self.ceiling else None,
            "traffic": self.traffic.to_dict() if self.traffic else None,
            "findings": [finding.to_dict() for finding in self.findings],
            "samples": [
                {
                    "passes": sample.passes,
                    "step_s": sample.step_s,
                    "fixed_s": sample.fixed_s,
                    "closed_step_s": sample.closed_step_s,
                    "ruler_before_bytes_per_s": sample.ruler_before_bytes_per_s,
                    "ruler_after_bytes_per_s": sample.ruler_after_bytes_per_s,
                    "fraction": sample.fraction,
                    "context": sample.context,
                    "compiled": _compiled_record(sample.compiled),
                    "conditions": sample.conditions.to_dict() if sample.conditions else None,
                }
                for sample in self.samples
            ],
            **_evidence_record(self.evidence),
            "comparisons": [
                {"operator": one.operator, "other": one.other, "truth": one.truth, "is_decided": one.is_decided}
                for one in self.fraction.comparisons
            ],
            "conditions": dict(self.conditions),
            "notes": list(self.notes),
            "not_checked": list(self.not_checked),
            "stream": self.stream.to_dict() if self.stream else None,
        }
        cleaned = plain(record)
        if not isinstance(cleaned, dict):  # pragma: no cover - a dict stays a dict
            raise TypeError("a record must be a dict")
        return cleaned


def limit_record(limit: Limit) -> dict[str, Any]:
    """A limit as builtin types."""
    return {
        "bytes_per_s": limit.bytes_per_s,
        "slack": limit.slack,
        "source": limit.source,
        "is_measured": limit.is_measured,
    }


def _evidence_record(evidence: Evidence) -> dict[str, Any]:
    """What a verdict rests on beside the samples: the limit, the probes around blocks, the claim and its window."""
    window, claim = evidence.window, evidence.claim
    return {
        "limit": limit_record(evidence.limit) if evidence.limit else None,
        "confrontation": [
            {
                "probe_before_bytes_per_s": turn.probe_before_bytes_per_s,
                "block_bytes_per_s": turn.block_bytes_per_s,
                "probe_after_bytes_per_s": turn.probe_after_bytes_per_s,
            }
            for turn in evidence.confrontation
        ],
        "sized": {
            "bytes_per_pass": evidence.sized.bytes_per_pass,
            "least_bytes_from_memory": evidence.sized.least_bytes_from_memory,
            "bytes_ratio": evidence.sized.bytes_ratio,
            "passes_s": list(evidence.sized.passes_s),
        }
        if evidence.sized
        else None,
        "claim": {
            "tokens": claim.tokens,
            "seconds": claim.seconds,
            "is_tokens_seen": claim.is_tokens_seen,
            "samples_s": list(claim.samples_s),
        }
        if claim
        else None,
        "window": {
            "window_s": window.window_s,
            "leftover_s": window.leftover_s,
            "closed_s": window.closed_s,
            "returned_s": window.returned_s,
            "passes": window.passes,
            "source": window.source,
        }
        if window
        else None,
        "compiled": _compiled_record(evidence.compiled),
    }


def _compiled_record(compiled: CompiledInWindow | None) -> dict[str, Any] | None:
    if compiled is None:
        return None
    return {"what": list(compiled.what), "count": compiled.count, "seconds": compiled.seconds}


def plain(value: Any) -> Any:
    """Reduce to builtin types that JSON can hold: subclasses of float become floats, NaN and infinity None."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)


def explain_fraction(
    fraction: float, ceiling: Ceiling | None, step_s: float | None, bounds: Interval, unit: str = "tok/s"
) -> str:
    """The figures behind a fraction, in one line."""
    text = f"{format_fraction(fraction)} of the ceiling"
    if ceiling is not None:
        rate, allowed = fraction * ceiling.tokens_per_s, ceiling.tokens_per_s
        if step_s is not None and step_s > 0 and fraction > 0:
            # The session's probe may be of another minute than the probes that the fraction was taken from.
            rate = ceiling.batch * ceiling.tokens_per_pass / step_s
            allowed = rate / fraction
        text += (
            f": {format_rate(rate)} of {format_rate(allowed)} {unit}, "
            f"{format_bytes(ceiling.traffic.bytes_per_pass)} per pass"
        )
        if ceiling.spill_s:
            text += f" ({format_bytes(ceiling.traffic.spilled_bytes_per_pass)} of them over the link)"
    if step_s is not None:
        text += f" in {format_seconds(step_s)}"
        if ceiling is not None and ceiling.bound == "memory" and not ceiling.spill_s and step_s > 0 and fraction > 0:
            rate = ceiling.traffic.bytes_per_pass / step_s
            text += f" ({format_bytes_per_s(rate)} of {format_bytes_per_s(rate / fraction)})"
    if bounds.high > bounds.low:
        text += f", interval {format_fraction(bounds.low)} to {format_fraction(bounds.high)}"
    return text


def unmeasured_result(kind: Kind, label: str, device: Device, outputs: Any) -> Result:
    """With ``--roofline=off``: the step ran once, nothing was measured, and every comparison is true."""
    unknown = Interval(low=math.nan, high=math.nan)
    return Result(
        kind=kind,
        label=label,
        device=device,
        fraction=Fraction(math.nan, unknown, str, is_measured=False),
        mbu=None,
        step_s=None,
        fixed_s=None,
        tokens_per_s=None,
        tokens_per_s_per_user=None,
        bytes_per_s=None,
        ceiling=None,
        traffic=None,
        verdict=Verdict(outcome="passed"),
        evidence=Evidence(kind=kind, label=label),
        notes=(NOT_MEASURED,),
        outputs=outputs,
    )
