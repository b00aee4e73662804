"""What keeps a reported figure from being judged, and what to give so that it can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from pytest_roofline.checks.evidence import Finding
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.roof import Roof, Subject
from pytest_roofline.roofline import Interval
from pytest_roofline.units import format_fraction

_ALL_LAYERS = 99
"""What people ask for who want all of them, and what llama-bench takes by itself."""
_NEEDED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "total": ("prompts are counted in the rate", "give --prompt and --generated, the tokens of a request"),
        "latency": (
            "seconds of a call, and not how many tokens it yields",
            "give --generated, the tokens that each sequence gets in it, --prompt and --batch",
        ),
    }
)


def finite(value: float) -> float | None:
    """The value, or None for infinity: nothing bounds it."""
    return value if math.isfinite(value) else None


def doubts_of(
    reported: Reported,
    subject: Subject,
    roof: Roof | None,
    bounds: Interval | None,
    at_least: float | None,
    *,
    fraction: float | None = None,
) -> list[Finding]:
    """What keeps it from being judged, unless the least that it can be reaches the budget all the same.

    `fraction`: of the highest ceiling, as claimed; `bounds` hold its repetitions too.
    """
    if subject.conflict is not None:
        return [
            Finding(
                check="bytes-disagree",
                severity="inconclusive",
                message=f"MODEL is not what was measured: {subject.conflict}",
                remedy="give the model that ran, in its own format (--weights)",
            )
        ]
    failed = _failed(reported)
    if failed is not None:
        return [failed]
    if roof is None or bounds is None:
        return [_missing_figures(reported)]
    if at_least is not None and bounds.clears(at_least):
        return []
    missing = (*roof.missing, *(roof.missing_for_budget if at_least is not None else ()))
    if missing:
        what = "prefill and decode are mixed in one rate" if reported.metric == "mixed" else "not enough is known"
        if reported.metric == "prefill":
            what = "prompts are bound by compute, not by memory"
        return [
            Finding(
                check="figures-missing",
                severity="inconclusive",
                message=f"{what}: over {_lowest(reported, bounds, fraction)}, and no more can be said",
                figures={"fraction_low": bounds.low, "missing": list(missing)},
                remedy="give " + "; ".join(missing),
            )
        ]
    if reported.is_head_skipped:
        return [
            Finding(
                check="head-skipped",
                severity="inconclusive",
                message="embeddings were asked for: no output projection is read, and a ceiling with it is too low",
                remedy="measure without --embeddings",
            )
        ]
    spilled = _spilled(reported, subject)
    if spilled is not None and not subject.workload.offload:
        return [
            Finding(
                check="weights-spilled",
                severity="inconclusive",
                message=f"{spilled}: one bandwidth does not bound it from below",
                remedy="give --offload FRACTION with --spill-bandwidth",
            )
        ]
    if at_least is not None and bounds.clears(at_least) is None:
        return [
            Finding(
                check="too-few-samples" if reported.noise is not None else "figures-missing",
                severity="inconclusive",
                message=(
                    f"between {format_fraction(bounds.low)} and {_high(bounds)} of the ceiling: "
                    f"{format_fraction(at_least)} lies inside"
                ),
                figures={
                    "fraction_low": bounds.low,
                    "fraction_high": finite(bounds.high),
                    "at_least": at_least,
                },
                remedy=(
                    "repeat it more often (llama-bench -r)"
                    if reported.noise is not None
                    else "say more of what ran: MODEL, --batch, --context; --metric tpot has no prefill inside"
                ),
            )
        ]
    return []


def _failed(reported: Reported) -> Finding | None:
    failed, answered = reported.failed_requests, reported.answered_requests
    if answered is None or not reported.has_many_failed:
        return None
    whole = failed + answered
    return Finding(
        check="work-missing",
        severity="inconclusive",
        message=f"{failed:,.0f} of {whole:,.0f} requests failed, and all figures are of the other {answered:,.0f}",
        figures={"failed": failed, "requests": whole},
        remedy="ask for less at once, or look into the server's log, and measure again",
    )


def _lowest(reported: Reported, bounds: Interval, fraction: float | None) -> str:
    """``34 % of the ceiling (32 % at the low end of its repetitions)``: the figure of the table first."""
    claimed, low = format_fraction(bounds.low if fraction is None else fraction), format_fraction(bounds.low)
    if claimed == low:
        return f"{claimed} of the ceiling"
    why = "at the low end of its repetitions" if reported.noise is not None else "if its tokens were counted otherwise"
    return f"{claimed} of the ceiling ({low} {why})"


def _spilled(reported: Reported, subject: Subject) -> str | None:
    """Which weights another memory holds; layers that are all on the device leave none."""
    on_device, layers = reported.device_layers, subject.least.layers
    if reported.unjudged is not None or on_device is None or on_device >= (layers or _ALL_LAYERS):
        return reported.unjudged
    of = f" of {layers}" if layers else ""
    return f"{on_device:g}{of} layers are on the device (n_gpu_layers), the others in the host's memory"


def _high(bounds: Interval) -> str:
    return format_fraction(min(bounds.high, 1.0)) if math.isfinite(bounds.high) else "all"


def _missing_figures(reported: Reported) -> Finding:
    message, remedy = _NEEDED.get(reported.metric, ("the tokens of the prompt are not known", "give --prompt"))
    return Finding(
        check="figures-missing", severity="inconclusive", message=f"{reported.label}: {message}", remedy=remedy
    )
