"""What one sample costs, where the ratio of two runs lies, and what that says. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, Literal

from pytest_roofline.comparison.alike import batch_of, share_at_start
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import between, sequential_cut, sequential_interval

THRESHOLD = 0.05
"""Changes up to this are called the same: two runs of the same code lie so far apart now and then."""
ERROR = 0.0125
"""Chance that one end of one median's interval is wrong; four of them make a ratio."""
LEAST_SAMPLES = next(count for count in range(1, 100) if sequential_cut(count, ERROR) is not None)
"""With fewer on either side not even the extremes bracket a median that surely."""
Answer = Literal["faster", "slower", "same", "undecided"]
Record = Mapping[str, Any]
Cost = tuple[float, float | None]
"""Seconds per token of one sample, and the bytes that the device could have moved meanwhile."""


def tokens_of(result: Record) -> float:
    """Tokens that one pass yields, of all sequences together."""
    return batch_of(result) * float((result["ceiling"] or {}).get("tokens_per_pass") or 1)


def costs_of(result: Record, *, is_at_start: bool = False) -> list[Cost]:
    """What every sample costs, by the clock, and by the probes around it where memory bounds the pass.

    `is_at_start`: what it would cost by its bytes at the context that the test gave, where its cache has grown since.
    """
    tokens = tokens_of(result)
    is_memory = (result["ceiling"] or {}).get("bound") == "memory"
    costs: list[Cost] = []
    for sample in result["samples"]:
        if sample["step_s"] is None:
            continue
        rulers = sample["ruler_before_bytes_per_s"], sample["ruler_after_bytes_per_s"]
        ruler = between(*rulers) if is_memory and None not in rulers else 0.0
        seconds = sample["step_s"] / tokens * (share_at_start(result, sample["context"]) if is_at_start else 1.0)
        costs.append((seconds, seconds * ruler if ruler else None))
    claim = result["claim"]
    if not costs and claim is not None and claim["tokens"]:
        each = claim["tokens"] / max(1, len(claim["samples_s"]))  # the tokens are those of all samples
        costs = [(seconds / each, None) for seconds in claim["samples_s"] if seconds is not None]
    return costs


def hull(*pairs: tuple[Sequence[Cost], Sequence[Cost]]) -> Interval | None:
    """Where the speed lies, new over old, by the clock and at the same bandwidth; None for too few samples.

    A pair is the costs of both runs; of several the interval covers all.
    """
    spans = [span for before, after in pairs for span in _intervals(before, after)]
    return Interval(low=min(one.low for one in spans), high=max(one.high for one in spans)) if spans else None


def _intervals(before: Sequence[Cost], after: Sequence[Cost]) -> Iterator[Interval]:
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return
    yield speed_interval([seconds for seconds, _ in before], [seconds for seconds, _ in after])
    moved = [[amount for _, amount in costs if amount is not None] for costs in (before, after)]
    if len(moved[0]) == len(before) and len(moved[1]) == len(after):
        yield speed_interval(*moved)


def speed_interval(old: Sequence[float], new: Sequence[float]) -> Interval:
    """Where median(old) / median(new) of two sets of times lies; with 0 or infinity as its end where noise has it so.

    Each set needs `LEAST_SAMPLES`.
    """
    before, after = sequential_interval(old, ERROR), sequential_interval(new, ERROR)
    return Interval(
        low=max(0.0, before.low) / after.high if after.high > 0 else 0.0,
        high=before.high / after.low if before.high > 0 and after.low > 0 else inf,
    )


def answer_of(interval: Interval | None, threshold: float) -> Answer:
    """What an interval of the speed (new over old) says: too little to be called a change goes before a direction."""
    if interval is None:
        return "undecided"
    if interval.low >= 1 - threshold and interval.high <= 1 + threshold:
        return "same"
    if interval.low > 1:
        return "faster"
    return "slower" if interval.high < 1 else "undecided"
