"""What speaks against a reported figure: its own file, or a rate that no device of that bandwidth has."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.checks.evidence import Finding
from pytest_roofline.diagnosis import Cause, CauseName, Claim, diagnose
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.roof import ASSUMED_FORMAT_SLACK, COMPUTE_SLACK, Roof, Subject
from pytest_roofline.units import format_digits, format_rate, format_seconds

_MOST_CAUSES = 4
_RANKS = (2, 4, 8)
GENERATING = ("decode", "output", "tpot")
"""Metrics of generated tokens alone, to which the known mistakes apply."""


def contradictions(reported: Reported, claimed: float | None) -> list[Finding]:
    """A rate above the file's own tokens over its own seconds: no hardware knowledge is needed."""
    own, rate = reported.recomputed_tokens_per_s, reported.tokens_per_s
    if own is None or rate is None or claimed is None or rate <= own * (1 + reported.recomputed_tolerance):
        return []
    return [
        Finding(
            check="claim-exceeds-closed-time",
            severity="bogus",
            message=(
                f"{format_rate(rate)} tok/s claimed, {format_rate(own)} tok/s by its own tokens and seconds "
                f"({rate / own:.2f}x)"
            ),
            figures={"claimed_tokens_per_s": rate, "recomputed_tokens_per_s": own},
            remedy="take the rate from tokens and seconds; a figure that was edited by hand is none",
        )
    ]


def too_fast(reported: Reported, subject: Subject, roof: Roof | None, claimed: float | None) -> list[Finding]:
    """A claim above what the bandwidth (or the largest peak) allows."""
    if roof is None or claimed is None:
        return []
    limit = roof.limit_tokens_per_s * reported.count_slack
    slack, unsure = subject.slack, subject.unsure_slack
    if roof.is_compute_limit:
        slack, unsure = max(slack, COMPUTE_SLACK), min(unsure, COMPUTE_SLACK)
    if subject.is_format_assumed:
        slack = max(slack, ASSUMED_FORMAT_SLACK)
    if claimed <= limit * unsure:
        return []
    is_bogus = claimed > limit * slack
    causes = _causes(reported, subject, roof, claimed) if reported.metric in GENERATING else ()
    over = claimed / roof.limit_tokens_per_s
    first = (
        f"{_named_rate(reported, claimed)} is {over:.2f}x the ceiling of {format_rate(roof.limit_tokens_per_s)} tok/s "
        f"({_arithmetic(reported, roof)})"
    )
    named = [cause for cause in causes if cause.name != "impossible"][:_MOST_CAUSES]
    unexplained = "; nothing stated explains it" if len(named) < len(causes) else ""
    likely = "" if not named else f"; it may be {named[0].message}" if unexplained else f": {named[0].message}"
    lines = [f"{first}{unexplained}{likely}"]
    lines += [f"  or: {cause.message}" for cause in named[1:]]
    if not is_bogus:
        why = "weights whose format is not stated" if subject.is_format_assumed else subject.machine.bandwidth_source
        lines.append(f"  {why}: a limit that may be too low by up to {slack:.2f}x")
    return [
        Finding(
            check="faster-than-limit" if is_bogus else "ceiling-unsure",
            severity="bogus" if is_bogus else "inconclusive",
            message="\n".join(lines),
            figures={
                "claimed_tokens_per_s": claimed,
                "limit_tokens_per_s": roof.limit_tokens_per_s,
                "slack": slack,
                "causes": [cause.name for cause in named],
            },
            remedy=(
                "say what was measured (--batch, --context, --weights, --kv, --tp, --tokens-per-pass), or measure again"
                if is_bogus
                else "state the format of the weights (--weights)"
                if subject.is_format_assumed
                else "name the device (--device), so that its data sheet gives the limit"
            ),
        )
    ]


def _causes(reported: Reported, subject: Subject, roof: Roof, claimed: float) -> tuple[Cause | _Devices, ...]:
    """What explains it, most likely first."""
    prediction = roof.prediction
    rate = claimed * prediction.workload.batch if reported.is_per_user else claimed
    claim = Claim(
        tokens_per_s=rate,
        prompt_tokens=reported.prompt_tokens,
        generated_tokens=reported.generated_tokens,
        words=reported.words,
    )
    found: list[Cause | _Devices] = list(diagnose(claim, prediction, ruled_out=ruled_out(reported)))
    ratio = claimed / roof.ceiling.high
    ranks = next((ranks for ranks in _RANKS if ratio <= ranks), None)
    if subject.machine.ranks == 1 and ranks is not None:
        what = "pace" if reported.is_per_user else "rate"
        found.append(
            _Devices(
                name="several-devices",
                message=f"the {what} of several devices: {ranks} together could do it (--tp {ranks})",
            )
        )
    return tuple(found)


def ruled_out(reported: Reported) -> set[CauseName]:
    """Mistakes that the file's own words and figures exclude, or that such a figure cannot have."""
    names: set[CauseName] = set()
    own, rate = reported.recomputed_tokens_per_s, reported.tokens_per_s
    # No token of a prompt has a time per token, and what the generated tokens alone come to counts no others.
    is_own = own is not None and rate is not None and rate <= own * (1 + reported.recomputed_tolerance)
    if reported.is_per_user or reported.is_prompt_excluded or is_own:
        names.add("prompt-counted")
    if reported.tool != "figures" and reported.batch is not None and reported.batch.low == reported.batch.high:
        names.add("batch-aggregate")
    if reported.stored_bytes is not None:
        names.add("smaller-file")
    if len(reported.kv_formats) > 0:
        names.add("kv-format")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Devices:
    """A claim of several devices against the ceiling of one."""

    name: str
    message: str


def _named_rate(reported: Reported, claimed: float) -> str:
    if reported.metric == "tpot":
        return f"{format_rate(claimed)} tok/s per sequence ({format_seconds(1 / claimed)} per token)"
    if reported.seconds is not None:
        return f"{format_rate(claimed)} tok/s ({format_seconds(reported.seconds)} per call)"
    return f"{format_rate(claimed)} tok/s"


def _arithmetic(reported: Reported, roof: Roof) -> str:
    """``3.35 TB/s / 15.01 GB per pass x 32 sequences``, or the seconds of several parts."""
    prediction = roof.prediction
    machine, workload = prediction.machine, prediction.workload
    if roof.seconds is not None:
        return f"{format_seconds(roof.seconds)} for all of it on {machine.name}"
    if prediction.step_bound != "memory" or workload.offload:
        return f"{format_seconds(prediction.step_floor_s)} per pass, bound by {prediction.step_bound}"
    bandwidth, moved = (
        format_digits(machine.bandwidth_bytes_per_s, "B/s"),
        format_digits(prediction.bytes_per_pass, "B"),
    )
    parts = [f"{bandwidth} / {moved} per pass"]
    if workload.batch > 1 and not reported.is_per_user:
        parts.append(f"{workload.batch:,} sequences")
    if workload.tokens_per_pass != 1:
        parts.append(f"{workload.tokens_per_pass:g} tokens per pass")
    return " x ".join(parts)
