"""One result in two runs: what changed, or why that cannot be said. Pure records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pytest_roofline.comparison.alike import are_samples_apart, other_device, other_work, traffic_of
from pytest_roofline.comparison.speeds import (
    LEAST_SAMPLES,
    THRESHOLD,
    Answer,
    Cost,
    answer_of,
    costs_of,
    hull,
    tokens_of,
)
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import median
from pytest_roofline.units import format_bytes

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run's figures of one result."""

    cost_s: float | None
    """Seconds per token: the median of the samples, else what the result says."""
    moved_bytes: float | None
    """The median of what the device could have moved meanwhile; None where memory does not bound the pass."""
    tokens_per_s: float | None
    fraction: float | None
    samples: int

    @property
    def ruler_bytes_per_s(self) -> float | None:
        """The rate of the probes around the samples."""
        return _ratio(self.moved_bytes, self.cost_s)

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "seconds_per_token": self.cost_s,
            "tokens_per_s": self.tokens_per_s,
            "fraction": self.fraction,
            "samples": self.samples,
            "ruler_bytes_per_s": self.ruler_bytes_per_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One result that both runs have. `speed` is new over old, above 1 faster; None where a side has no figure."""

    node_id: str
    label: str
    kind: str
    device: str
    old: Side
    new: Side
    speed: float | None
    interval: Interval | None
    """None where there are too few samples."""
    answer: Answer
    reason: str = ""
    """Why it is undecided; else empty."""
    remarks: tuple[str, ...] = ()

    @property
    def speed_at_same_bandwidth(self) -> float | None:
        """The speed as it would be, had the device moved as many bytes per second in both runs."""
        return _ratio(self.old.moved_bytes, self.new.moved_bytes)

    def is_slower_by(self, threshold: float) -> bool:
        """Whether all of the interval lies further than this below the old speed."""
        return self.interval is not None and self.interval.high < 1 - threshold

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only, no infinity."""
        bounds = self.interval
        return {
            "node_id": self.node_id,
            "label": self.label,
            "kind": self.kind,
            "device": self.device,
            "answer": self.answer,
            "speed_ratio": self.speed,
            "speed_ratio_at_same_bandwidth": self.speed_at_same_bandwidth,
            "speed_ratio_low": bounds.low if bounds else None,
            "speed_ratio_high": bounds.high if bounds and isfinite(bounds.high) else None,
            "reason": self.reason,
            "remarks": list(self.remarks),
            "old": self.old.to_dict(),
            "new": self.new.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One result that cannot be compared, and why."""

    node_id: str
    label: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {"node_id": self.node_id, "label": self.label, "reason": self.reason}


def change_of(node_id: str, label: str, old: Record, new: Record, threshold: float) -> Change | Refusal:
    """One result that both runs have; `label` is empty where it needs none to be told apart."""
    reason = _no_figure("old", old) or _no_figure("new", new)
    reason = reason or other_device(old["device"], new["device"]) or other_work(old, new)
    if reason:
        return Refusal(node_id=node_id, label=label, reason=reason)
    costs = costs_of(old), costs_of(new)
    before, after = _side(old, costs[0]), _side(new, costs[1])
    pairs = [costs]
    if are_samples_apart(old, new):  # a run with more samples is at a longer context: that alone is no slower code
        pairs.append((costs_of(old, is_at_start=True), costs_of(new, is_at_start=True)))
    interval = hull(*pairs)
    answer = answer_of(interval, threshold)
    return Change(
        node_id=node_id,
        label=label,
        kind=new["kind"],
        device=new["device"]["name"],
        old=before,
        new=after,
        speed=_ratio(before.cost_s, after.cost_s),
        interval=interval,
        answer=answer,
        reason="" if answer != "undecided" else _undecided(before, after, interval),
        remarks=tuple(_remarks(old, new, before, after)),
    )


def _ratio(one: float | None, other: float | None) -> float | None:
    """None where either is not known, or is none because noise was larger than what was timed."""
    return one / other if one is not None and other is not None and one > 0 and other > 0 else None


def _no_figure(run: str, result: Record) -> str:
    if result["standing"] in ("bogus", "bogus (caught)") or result["verdict"] == "bogus":
        return f"bogus in the {run} run: that was no figure"
    if "inconclusive" in (result["standing"], result["verdict"]):
        return f"inconclusive in the {run} run"
    return f"not measured in the {run} run" if result["standing"] == "not measured" else ""


def _side(result: Record, costs: Sequence[Cost]) -> Side:
    moved = [amount for _, amount in costs if amount is not None]
    cost = median([seconds for seconds, _ in costs]) if costs else None
    if cost is None and result["step_s"] is not None:
        cost = result["step_s"] / tokens_of(result)
    return Side(
        cost_s=cost,
        moved_bytes=median(moved) if moved else None,
        tokens_per_s=result["tokens_per_s"],
        fraction=result["fraction"],
        samples=len(costs),
    )


def _undecided(old: Side, new: Side, interval: Interval | None) -> str:
    if interval is not None:
        return "the interval holds both a change and none"
    few = min(old.samples, new.samples)
    if not few:
        return "one figure without samples: nothing says how far it moves by itself"
    return f"{few} samples, {LEAST_SAMPLES} are needed on either side"


def _remarks(old: Record, new: Record, before: Side, after: Side) -> Iterator[str]:
    first, second = traffic_of(old, "bytes_per_pass"), traffic_of(new, "bytes_per_pass")
    if first and second and abs(first - second) > 0.01 * max(first, second):
        yield f"{format_bytes(first)} per pass, then {format_bytes(second)}"
    given, alike = (
        _ratio(after.ruler_bytes_per_s, before.ruler_bytes_per_s),
        _ratio(before.moved_bytes, after.moved_bytes),
    )
    if given is not None and alike is not None and abs(given - 1) > THRESHOLD:
        yield f"the device gave {given:.2f}x the bandwidth meanwhile; at the same one the speed is {alike:.2f}x"
    if old["device"]["uuid"] != new["device"]["uuid"]:
        yield "another card of the same kind"
