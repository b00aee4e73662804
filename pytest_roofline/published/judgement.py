"""The verdict on one reported figure: bogus, inconclusive, failed or passed, with the findings behind it. Pure.

Nothing of a file proves that work was done; it says what would have to be true. So a figure is bogus where its own file
contradicts it, or where no device of that bandwidth can do it, and inconclusive wherever something that would decide is
not in the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pytest_roofline.checks.evidence import Finding
from pytest_roofline.diagnosis import Claim, diagnose
from pytest_roofline.prediction import EXPECTED_SHARES, Prediction
from pytest_roofline.published.accusation import GENERATING, contradictions, ruled_out, too_fast
from pytest_roofline.published.doubts import doubts_of, finite
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.roof import Roof, Subject
from pytest_roofline.roofline import Interval
from pytest_roofline.units import (
    format_bytes,
    format_bytes_per_s,
    format_fraction,
    format_rate,
)
from pytest_roofline.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One row of the answer."""

    reported: Reported
    subject: Subject
    verdict: Outcome
    claimed_tokens_per_s: float | None
    """In the unit of the metric: of one sequence for ``tpot``."""
    roof: Roof | None
    fraction: float | None
    """Of the highest ceiling that what is known allows: the least that the fraction can be."""
    bounds: Interval | None
    """Where the fraction lies, repetitions and what is not known together; infinite where nothing bounds it."""
    at_least: float | None
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only, no NaN or infinity."""
        reported, roof, machine = self.reported, self.roof, self.subject.machine
        prediction = None if roof is None else roof.prediction
        return {
            "tool": reported.tool,
            "label": reported.label,
            "where": reported.where,
            "metric": reported.metric,
            "verdict": self.verdict,
            "fraction": self.fraction,
            "fraction_low": None if self.bounds is None else self.bounds.low,
            "fraction_high": None if self.bounds is None else finite(self.bounds.high),
            "at_least": self.at_least,
            "claimed_tokens_per_s": self.claimed_tokens_per_s,
            "claimed_seconds": reported.seconds,
            "ceiling_tokens_per_s": None if roof is None else roof.ceiling.high,
            "ceiling_tokens_per_s_low": None if roof is None else roof.ceiling.low or None,
            "limit_tokens_per_s": None if roof is None else roof.limit_tokens_per_s,
            "expected_tokens_per_s": None if roof is None else [share * roof.ceiling.high for share in EXPECTED_SHARES],
            "device": machine.name,
            "bandwidth_bytes_per_s": machine.bandwidth_bytes_per_s,
            "bandwidth_source": machine.bandwidth_source,
            "ranks": machine.ranks,
            "model": self.subject.least.model,
            "model_source": self.subject.least.source,
            "weights": self.subject.least.weights,
            "kv": self.subject.least.kv,
            "batch": None if reported.batch is None else [reported.batch.low, reported.batch.high],
            "context": reported.context,
            "tokens_per_pass": self.subject.workload.tokens_per_pass,
            "weight_bytes_per_pass": None if prediction is None else prediction.weight_bytes_per_pass,
            "kv_bytes_per_pass": None if prediction is None else prediction.kv_bytes_per_pass,
            "bytes_per_pass": None if prediction is None else prediction.bytes_per_pass,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def judge_reported(
    reported: Reported, subject: Subject, roof: Roof | None, *, at_least: float | None = None
) -> Judgement:
    """Weigh one figure against its roof. `at_least`: the least share of the ceiling that it has to reach."""
    claimed = _claimed(reported, subject)
    bounds = fraction = None
    if roof is not None and claimed is not None:
        fraction = claimed / roof.ceiling.high
        noise = reported.noise or Interval(low=claimed, high=claimed)
        # Repetitions differ around the claim; what they are per device or per call, the claim is too.
        scale = claimed / reported.tokens_per_s if reported.tokens_per_s else 1.0
        low, high = min(noise.low * scale, claimed), max(noise.high * scale, claimed)
        bounds = Interval(
            low=low / roof.ceiling.high / reported.count_slack,
            high=high / roof.ceiling.low if roof.ceiling.low > 0 else math.inf,
        )
    findings = [
        *contradictions(reported, claimed),
        *too_fast(reported, subject, roof, claimed),
    ]
    outcome: Outcome = "passed"
    if any(finding.severity == "bogus" for finding in findings):
        outcome = "bogus"
    else:
        findings += doubts_of(reported, subject, roof, bounds, at_least, fraction=fraction)
        if any(finding.severity == "inconclusive" for finding in findings):
            outcome = "inconclusive"
        elif at_least is not None and bounds is not None and bounds.clears(at_least) is False:
            outcome = "failed"
            findings.append(_miss(reported, subject, roof, claimed, fraction, at_least))
    findings += _notes(reported, subject, roof, claimed)
    return Judgement(
        reported=reported,
        subject=subject,
        verdict=outcome,
        claimed_tokens_per_s=claimed,
        roof=roof,
        fraction=fraction,
        bounds=bounds,
        at_least=at_least,
        findings=tuple(findings),
    )


def _claimed(reported: Reported, subject: Subject) -> float | None:
    """The claim in the unit of its roof: all devices together, tokens for a latency."""
    if reported.seconds is not None:
        if reported.generated_tokens is None:
            return None
        batch = 1.0 if reported.batch is None else reported.batch.high
        return batch * reported.generated_tokens / reported.seconds
    rate = reported.tokens_per_s or 0.0
    return rate * subject.machine.ranks if reported.is_per_device and not reported.is_per_user else rate


def _miss(
    reported: Reported,
    subject: Subject,
    roof: Roof | None,
    claimed: float | None,
    fraction: float | None,
    at_least: float,
) -> Finding:
    ceiling = 0.0 if roof is None else roof.ceiling.high
    reached, asked = format_fraction(fraction or 0.0), format_fraction(at_least)
    if reached == asked:
        reached = f"{100 * (fraction or 0.0):.2f} %"
    return Finding(
        check="below-ceiling",
        severity="note",
        message=(
            f"{reached} of the ceiling ({format_rate(claimed or 0.0)} of {format_rate(ceiling)} tok/s), {asked} is "
            "asked for"
        ),
        figures={"fraction": fraction, "at_least": at_least},
    )


def _notes(reported: Reported, subject: Subject, roof: Roof | None, claimed: float | None) -> list[Finding]:
    """What is said beside the verdict."""
    said: list[tuple[str, str]] = []
    if roof is not None and claimed is not None:
        said += _about_work(reported, roof)
        if reported.metric in GENERATING and claimed <= roof.limit_tokens_per_s:
            rate = claimed * roof.prediction.workload.batch if reported.is_per_user else claimed
            claim = Claim(tokens_per_s=rate, words=reported.words)
            causes = diagnose(claim, roof.prediction, ruled_out=ruled_out(reported))
            said += [(cause.name, cause.message) for cause in causes[:1]]
    if reported.batch is not None and reported.batch.low != reported.batch.high:
        text = f"{reported.batch.low:.3g} to {reported.batch.high:.3g} sequences at once"
        said.append(("concurrency", f"{text}: {reported.batch_source}" if reported.batch_source else text))
    if reported.failed_requests and not reported.has_many_failed:
        failed = reported.failed_requests
        said.append(("remark", f"{failed:,.0f} request{'s' * (failed != 1)} failed"))
    said += [("remark", text) for text in (*reported.remarks, *subject.remarks)]
    return [Finding(check=name, severity="note", message=text) for name, text in dict.fromkeys(said)]


def _about_work(reported: Reported, roof: Roof) -> list[tuple[str, str]]:
    if reported.metric == "mixed":
        text = "prefill and decode are mixed in one rate: held against the floors of both in turn"
        return [("mixed-rate", text)]
    if reported.metric == "output" and reported.prompt_tokens:
        return [("prefill-inside", "the time of prefill is in this rate, and not in its ceiling")]
    if reported.metric == "latency":
        return [("mixed-rate", "the seconds hold the prompt's pass too, and so does the floor")]
    return []


def expected_words(prediction: Prediction) -> str:
    """What engines reach, for the reader of a table."""
    low, high = EXPECTED_SHARES
    return (
        f"well-made engines reach {low:.0%} to {high:.0%} of the ceiling; a pass moves "
        f"{format_bytes(prediction.bytes_per_pass)} at {format_bytes_per_s(prediction.machine.bandwidth_bytes_per_s)}"
    ).replace("%", " %")
