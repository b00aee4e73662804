"""From evidence to one of four outcomes, with reasons. Pure and total.

Precedence: *bogus* (cannot be true, or was not measured), *inconclusive* (may be true, the evidence does not carry
it), *failed* (true, and outside the budget), *passed*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.checks.bounds import fraction_bounds
from pytest_roofline.checks.ceiling import closed_pass_s
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.errors import (
    AboveBand,
    BelowCeiling,
    BogusMeasurement,
    InconclusiveMeasurement,
    RooflineError,
)
from pytest_roofline.roofline import Ceiling, Interval
from pytest_roofline.samples import median
from pytest_roofline.units import format_bytes, format_digits, format_fraction, format_rate, format_seconds

Outcome = Literal["passed", "failed", "inconclusive", "bogus"]
ALLOWED = " (allowed, so it decides nothing)"
"""How the message of a finding ends that would have decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the court decided, and on which findings."""

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    fraction: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    bounds: Interval | None = None
    """Where the fraction lies, noise and caches together."""
    allowed: tuple[str, ...] = ()
    """Checks that would have decided, had the test not allowed them; their findings are kept as notes."""

    def of(self, severity: str) -> tuple[Finding, ...]:
        """The findings of one severity, causes first."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "outcome": self.outcome,
            "fraction": self.fraction,
            "at_least": self.at_least,
            "at_most": self.at_most,
            "fraction_low": self.bounds.low if self.bounds else None,
            "fraction_high": self.bounds.high if self.bounds else None,
            "allowed": list(self.allowed),
            "findings": [finding.to_dict() for finding in self.findings],
        }


def judge(evidence: Evidence, fraction: float | None = None, checks: Sequence[Check] = CHECKS) -> Verdict:
    """Weigh the evidence; `fraction` is the measured middle of the fraction's interval.

    Findings of checks that the test allows are kept as notes that say so.
    """
    findings: list[Finding] = []
    allowed: list[str] = []
    is_doubt_allowed = False
    for check in checks:
        finding = check(evidence)
        if finding is None:
            continue
        if finding.severity != "note" and finding.check in evidence.allow:
            allowed.append(finding.check)
            # An accusation that is allowed says nothing of whether the figure is sure enough to be judged.
            is_doubt_allowed |= finding.severity == "inconclusive"
            finding = replace(finding, severity="note", message=f"{finding.message}{ALLOWED}")
        findings.append(finding)
    bounds = fraction_bounds(evidence)
    return Verdict(
        outcome=_outcome(evidence, findings, bounds, fraction, is_doubt_allowed=is_doubt_allowed),
        findings=tuple(findings),
        fraction=fraction,
        at_least=evidence.at_least,
        at_most=evidence.at_most,
        bounds=bounds,
        allowed=tuple(dict.fromkeys(allowed)),
    )


def _outcome(
    evidence: Evidence,
    findings: Sequence[Finding],
    bounds: Interval | None,
    fraction: float | None,
    *,
    is_doubt_allowed: bool,
) -> Outcome:
    severities = {finding.severity for finding in findings}
    if "bogus" in severities:
        return "bogus"
    if "inconclusive" in severities:
        return "inconclusive"
    if bounds is None:
        # A budget, and nothing that could be held against it.
        return "passed" if evidence.at_least is None and evidence.at_most is None else "inconclusive"
    if evidence.at_least is not None:
        clears = bounds.clears(evidence.at_least)
        if clears is None and not is_doubt_allowed:
            # Every reason for doubt is a finding; this is the safety net that keeps doubt from turning into a pass.
            return "inconclusive"
        if clears is None:
            # The test allows the doubt, so the figure is taken at its face value.
            clears = (bounds.high if fraction is None else fraction) >= evidence.at_least
        if not clears:
            return "failed"
    if evidence.at_most is not None and bounds.low > evidence.at_most:
        return "failed"
    return "passed"


def error_of(evidence: Evidence, verdict: Verdict) -> RooflineError | None:
    """The exception that says it, None for a pass: first line complete, then figures, findings and remedies."""
    if verdict.outcome == "passed":
        return None
    if verdict.outcome == "failed":
        return _budget_error(evidence, verdict)
    decisive = verdict.of(verdict.outcome)
    lines = [finding.message for finding in decisive] or ["the evidence does not carry a verdict"]
    lines += [f"  do: {finding.remedy}" for finding in decisive if finding.remedy]
    lines += [f"  note ({finding.check}): {finding.message}" for finding in verdict.of("note")]
    if decisive:
        # The name of the check belongs to the first line: it is what `allow=` takes.
        first, *rest = lines[0].split("\n")
        lines[0] = "\n".join([f"{first} [{decisive[0].check}]", *rest])
    kind = BogusMeasurement if verdict.outcome == "bogus" else InconclusiveMeasurement
    return kind("\n".join(lines), verdict)


def _budget_error(evidence: Evidence, verdict: Verdict) -> RooflineError:
    bounds, ceiling = verdict.bounds, evidence.ceiling
    high = bounds.high if bounds is not None else 0.0
    fraction = high if verdict.fraction is None else verdict.fraction
    what = "the ceiling"
    reasons = []
    if ceiling is not None:
        pattern = "compute" if ceiling.bound == "compute" else ceiling.bandwidth_source
        if ceiling.spill_s and ceiling.bound != "compute":
            pattern += " and link"
        rate, allowed = _rates(evidence, ceiling, fraction)
        name = ceiling.bandwidth_source if evidence.kind == "stream" else f"probed {pattern}"
        seen = evidence.exchanged
        whose = "" if seen is None else " in aggregate" if seen.is_aggregate else " per user"
        what = f"the {name} ceiling ({format_rate(rate)} of {format_rate(allowed)} {_unit(evidence)}{whose})"
        reasons.append(f"{ceiling.bound}-bound")
    if evidence.traffic is not None and evidence.traffic.extra:
        name, extra_bytes = evidence.traffic.extra[0]
        reasons.append(f"{name} ({format_bytes(extra_bytes)} per pass)")
    because = f"; {', '.join(reasons)}" if reasons else ""
    lines = _division(evidence, ceiling, fraction, bounds) if ceiling is not None else []
    lines += [f"  note ({finding.check}): {finding.message}" for finding in verdict.of("note")]
    notes = "".join(f"\n{line}" for line in lines)
    if evidence.at_least is not None and min(high, fraction) < evidence.at_least:
        asked = format_fraction(evidence.at_least)
        return BelowCeiling(
            f"{format_fraction(fraction)} of {what}, the test asks for {asked}{because}{notes}",
            verdict,
        )
    return AboveBand(
        f"{format_fraction(fraction)} of {what}, above the {format_fraction(evidence.at_most or 0.0)} that the test "
        f"expects at most: an improvement asks for a new number{because}{notes}",
        verdict,
    )


def _division(evidence: Evidence, ceiling: Ceiling, fraction: float, bounds: Interval | None) -> list[str]:
    """The arithmetic of a fraction with its numbers, so that a reader can do it again."""
    measured, allowed = _rates(evidence, ceiling, fraction)
    if not (measured > 0 and allowed > 0):
        return []
    is_of_one = evidence.kind == "stream" and not (evidence.exchanged is not None and evidence.exchanged.is_aggregate)
    tokens = ceiling.tokens_per_pass * (1 if is_of_one else ceiling.batch)
    word, unit, traffic = "call" if evidence.kind == "kernel" else "token", _unit(evidence), ceiling.traffic
    passes = allowed / tokens
    if ceiling.bound == "compute" and traffic.flops_per_pass:
        flops = traffic.flops_per_pass
        roof = f"{format_digits(passes * flops, 'FLOP/s')} / {format_digits(flops, 'FLOP')} per pass"
    elif ceiling.spill_s:
        roof = (
            f"{format_digits(traffic.resident_bytes_per_pass, 'B')} of memory and "
            f"{format_digits(traffic.spilled_bytes_per_pass, 'B')} over the link "
            f"{'at the same time' if ceiling.is_overlapped else 'in turn'}, {format_seconds(1 / passes)} per pass"
        )
    else:
        size = traffic.bytes_per_pass
        source = ceiling.bandwidth_source + (" beside the samples" if evidence.samples else "")
        roof = f"{format_digits(passes * size, 'B/s')} ({source}) / {format_digits(size, 'B')} per pass"
    each = "" if tokens == 1 else f" x {tokens:.4g} {word}s"
    counted = f"1 {word}" if tokens == 1 else f"{tokens:.4g} {word}s"
    interval = ""
    if bounds is not None and bounds.high > bounds.low:
        interval = f", between {format_fraction(bounds.low)} and {format_fraction(bounds.high)}"
    count = f" ({len(evidence.samples)} samples)" if evidence.samples else ""
    return [
        f"  ceiling: {roof}{each} = {format_rate(allowed)} {unit}",
        f"  measured: {counted} / {format_seconds(tokens / measured)} = {format_rate(measured)} {unit}{count}",
        f"  fraction: {format_rate(measured)} / {format_rate(allowed)} = {format_fraction(fraction)}{interval}",
    ]


def _rates(evidence: Evidence, ceiling: Ceiling, fraction: float) -> tuple[float, float]:
    """What was measured, and what the probes around it allow: the session's probe may be of another minute."""
    if evidence.kind == "stream":
        is_of_all = evidence.exchanged is not None and evidence.exchanged.is_aggregate
        allowed = ceiling.tokens_per_s if is_of_all else ceiling.tokens_per_s_per_user
        return fraction * allowed, allowed
    slopes = [sample.step_s for sample in evidence.samples]
    pass_s = median(slopes) if slopes else closed_pass_s(evidence)
    if pass_s is None or pass_s <= 0 or fraction <= 0:
        return fraction * ceiling.tokens_per_s, ceiling.tokens_per_s
    measured = ceiling.batch * ceiling.tokens_per_pass / pass_s
    return measured, measured / fraction


def _unit(evidence: Evidence) -> str:
    return "calls/s" if evidence.kind == "kernel" else "tok/s"
