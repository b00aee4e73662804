"""Stretches of an audit in which the process did not run at all, and what of its figures they touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from pytest_roofline.ledger import Ledger
from pytest_roofline.roofline import Interval

Bounds = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Seconds without the process, inside the window and while the device was drained behind it."""

    inside_s: float = 0.0
    late_s: float = 0.0
    """Of the leftover: it was the process that came late, not the device, as far as anybody can tell."""

    def without_late(self, ledger: Ledger) -> Ledger:
        """The ledger with no more leftover than the device may have had."""
        window = ledger.window
        if window is None or self.late_s <= 0:
            return ledger
        leftover = max(0.0, window.leftover_s - self.late_s)
        return replace(
            ledger,
            window=replace(
                window,
                leftover_s=leftover,
                unforced_s=min(window.unforced_s, leftover),
                beside_s=min(window.beside_s, leftover),
            ),
        )

    def widened(self, fraction: Interval | None, closed_s: float) -> Interval | None:
        """The fraction with the stops in its time, up to that without them; never above the ceiling for that."""
        if fraction is None or not 0 < self.inside_s < closed_s:
            return fraction
        without = min(1.0, fraction.high * closed_s / (closed_s - self.inside_s))
        return Interval(low=fraction.low, high=max(fraction.high, without))


def stops_around(ledger: Ledger, gaps: Bounds) -> Stops:
    """What the gaps of the pulse take of the window and of the leftover.

    A leftover was seen behind a stop of the clock, for as long as it was, and at the claim: a gap elsewhere explains
    none of it. Where it is not known when the window was, every other gap may have been in it.
    """
    window, bounds = ledger.window, ledger.bounds
    whole_s = sum(stop - start for start, stop in gaps)
    if window is None:
        return Stops(inside_s=whole_s)
    behind = [(high, high + window.leftover_s) for _, high in bounds]
    inside_s = sum(_covered_s(gap, bounds) for gap in gaps)
    late_s = sum(_covered_s(gap, [*bounds, *behind, (ledger.entry_s, inf)]) for gap in gaps) - inside_s
    return Stops(inside_s=inside_s if bounds else whole_s - late_s, late_s=max(0.0, min(late_s, window.leftover_s)))


def _covered_s(gap: tuple[float, float], stretches: Bounds) -> float:
    """How much of the gap lies within any of the stretches."""
    reached, stop = gap
    covered_s = 0.0
    for low, high in sorted(stretches):
        if min(high, stop) > max(low, reached):
            covered_s += min(high, stop) - max(low, reached)
            reached = min(high, stop)
    return covered_s
