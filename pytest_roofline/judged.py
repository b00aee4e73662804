"""From evidence and its verdict to a result: the figures that follow from the time of a pass."""

from __future__ import annotations

from typing import Any

from pytest_roofline.bench import fraction_of, mbu_of
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.device import Device
from pytest_roofline.result import Result
from pytest_roofline.verdict import Verdict


def result_of(
    evidence: Evidence,
    verdict: Verdict,
    device: Device,
    pass_s: float | None,
    *,
    kind: str | None = None,
    fixed_s: float | None = None,
    **figures: Any,
) -> Result:
    """A result whose passes took `pass_s` each (None or nothing: no rate is known); `figures` are its further fields.

    Tokens are those of the passes: what a user claimed, or a server was seen to send, is another rate.
    """
    step_s = pass_s if pass_s is not None and pass_s > 0 else None
    rate = evidence.batch * evidence.tokens_per_pass / step_s if step_s else None
    traffic = evidence.traffic
    return Result(
        kind=kind or evidence.kind,
        label=evidence.label,
        device=device,
        fraction=fraction_of(evidence, verdict, step_s),
        mbu=mbu_of(device, traffic, step_s),
        step_s=step_s,
        fixed_s=fixed_s,
        tokens_per_s=rate,
        tokens_per_s_per_user=rate / evidence.batch if rate else None,
        bytes_per_s=traffic.bytes_per_pass / step_s if traffic and step_s else None,
        ceiling=evidence.ceiling,
        traffic=traffic,
        verdict=verdict,
        evidence=evidence,
        **figures,
    )
