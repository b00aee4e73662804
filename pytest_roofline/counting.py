"""The passes of a measurement by the device's own count: read beside what is timed anyway, which costs next to nothing.

Between two readings there were the blocks of passes, the ruler's readings, and nothing else of ours. A reading may be
as old as the counter's `refresh_s`, so the stretch that was really counted is known to that at either end only: of all
that it may have been, the one counts that is the kindest to the passes. Only where even that says that they moved too
little are some more of them run for the counter alone, twice, before anybody is told.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pytest_roofline.calibration import Calibrated
from pytest_roofline.checks.counted import Counted, Place
from pytest_roofline.conditions import Stretch
from pytest_roofline.device import Device
from pytest_roofline.loop import Loop, OutOfRoom
from pytest_roofline.protocol import CounterReading
from pytest_roofline.roofline import Interval

COUNT_S = 0.2
"""Work that is counted of a step by itself."""
BLOCKS = 16
"""Resets that this may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What was done when, evenly within each stretch: passes, or bytes."""

    starts_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    sums: tuple[float, ...]
    """Of all stretches before each one, and of all of them."""

    @classmethod
    def of(cls, stretches: Sequence[tuple[float, float, float]]) -> Timeline:
        """From (start, end, amount), in order and without overlaps."""
        return cls(
            starts_s=tuple(start for start, _, _ in stretches),
            ends_s=tuple(end for _, end, _ in stretches),
            sums=tuple(accumulate((amount for _, _, amount in stretches), initial=0.0)),
        )

    def until(self, moment_s: float) -> float:
        """What had been done by then."""
        index = bisect_right(self.starts_s, moment_s)
        if index == 0:
            return 0.0
        start_s, end_s = self.starts_s[index - 1], self.ends_s[index - 1]
        amount = self.sums[index] - self.sums[index - 1]
        share = min(1.0, (moment_s - start_s) / (end_s - start_s)) if end_s > start_s else 1.0
        return self.sums[index - 1] + amount * share

    def bends_s(self, low_s: float, high_s: float) -> list[float]:
        """Moments between these at which something began or ended, and the two themselves."""
        inner = (moment for moment in (*self.starts_s, *self.ends_s) if low_s < moment < high_s)
        return [low_s, *inner, high_s]


class Meanwhile:
    """Two readings of the counter around what is timed: `begin` when the warm-up is over, `end` when all is done."""

    def __init__(self, calibrated: Calibrated | None) -> None:
        self._calibrated = calibrated
        self._first: CounterReading | None = None
        self._second: CounterReading | None = None
        self._is_begun = False

    def begin(self) -> None:
        """Take the first reading; later calls do nothing."""
        if self._calibrated is not None and not self._is_begun:
            self._is_begun = True
            self._first = self._calibrated.counter.read()

    def around(self, conditions: Callable[[], Stretch | None]) -> Callable[[], Stretch | None]:
        """The same conditions; the first time that they are asked for, the warm-up is over."""

        def asked() -> Stretch | None:
            self.begin()
            return conditions()

        return asked

    def end(self) -> None:
        """Take the second reading, of what has not settled."""
        if self._calibrated is not None and self._first is not None:
            self._second = self._calibrated.counter.read()

    def counted(
        self,
        passes: Sequence[tuple[float, float, float]],
        beside: Sequence[tuple[float, float, Interval]],
        *,
        is_exact: bool,
        place: Place,
    ) -> Counted | None:
        """Bytes of the passes, by the kindest and the least kind stretch that may have been counted.

        `passes` and `beside` are what ran, as (start, end, how many passes or bytes). None without two readings, where
        the counter refuses, or where less was timed than two readings may be old.
        """
        calibrated, first, second = self._calibrated, self._first, self._second
        if calibrated is None or first is None or second is None:
            return None
        counter = calibrated.counter
        refresh_s, span_s = counter.refresh_s, second.before_s - first.after_s
        rate = counter.bytes_per_s(first, second) if span_s >= 2 * refresh_s else None
        if rate is None:
            return None
        done = Timeline.of(passes)
        least = Timeline.of([(start_s, end_s, moved.low) for start_s, end_s, moved in beside])
        most = Timeline.of([(start_s, end_s, moved.high) for start_s, end_s, moved in beside])
        low_rate = rate * calibrated.factor.low
        high_rate = (rate + counter.step_bytes_per_s) * calibrated.factor.high
        # Between two bends everything grows evenly, so the extremes lie on them.
        ends = []
        for reading in (first, second):
            low_s = reading.before_s - refresh_s
            bends_s = {*done.bends_s(low_s, reading.after_s), *least.bends_s(low_s, reading.after_s)}
            ends.append([(at_s, done.until(at_s), least.until(at_s), most.until(at_s)) for at_s in bends_s])
        opens, closes = ends
        if min(ran for _, ran, _, _ in closes) <= max(ran for _, ran, _, _ in opens):
            return None
        highest = _greatest_ratio(
            *([(high_rate * at_s - taken, ran) for at_s, ran, taken, _ in points] for points in (opens, closes))
        )
        lowest = -_greatest_ratio(
            *([(taken - low_rate * at_s, ran) for at_s, ran, _, taken in points] for points in (opens, closes))
        )
        count = done.until(second.before_s) - done.until(first.after_s)
        is_known = bool(passes) and passes[0][0] <= first.before_s - refresh_s
        return Counted(
            passes=count,
            moved_bytes=Interval(low=max(0.0, lowest) * count, high=max(0.0, highest) * count),
            span_s=span_s,
            source=calibrated.source,
            is_exact=is_exact and is_known,
            place=place,
        )


def _greatest_ratio(opens: Sequence[tuple[float, float]], closes: Sequence[tuple[float, float]]) -> float:
    """The greatest quotient of what grew from an opening point to a closing one: the first figure by the second.

    Every second figure of a closing point is above every one of an opening point. By Dinkelbach's method: a better
    quotient than the present one is found, or there is none, by looking at each side alone.
    """
    best = -math.inf
    (grown, by), (begun, since) = closes[0], opens[0]
    while (ratio := (grown - begun) / (by - since)) > best:
        best = ratio
        grown, by = max(closes, key=lambda point: point[0] - best * point[1])
        begun, since = min(opens, key=lambda point: point[0] - best * point[1])
    return best


def count_passes(
    loop: Loop,
    calibrated: Calibrated,
    *,
    pass_s: float,
    place: Place,
    clock: Callable[[], float],
    until_s: float,
    keep_back: int = 0,
) -> Counted | None:
    """Run some more passes between two readings; None where there is no time or room for that, or no reading.

    Before and after, the device idles for so long that a reading holds all of it and nothing before it. Without a
    reset `keep_back` passes are left over, for what is to come.
    """
    room = loop.room if loop.has_reset or loop.room_left is None else loop.room_left - keep_back
    if pass_s <= 0 or (room is not None and room < 1):
        return None
    passes = math.ceil(COUNT_S / pass_s)
    block = passes if room is None else min(passes, room)
    blocks = math.ceil(passes / block)
    if blocks > 1 and not loop.has_reset:
        return None
    counter = calibrated.counter
    if blocks > BLOCKS or clock() + blocks * block * pass_s + 4 * counter.refresh_s > until_s:
        return None
    loop.reset()
    loop.drain()
    counter.settle()
    first = counter.read()
    if first is None:
        return None
    try:
        for _ in range(blocks):
            loop.run(block)
    except OutOfRoom:  # pragma: no cover - each block begins with a reset and has no more passes than fit
        return None
    counter.settle()
    second = counter.read()
    if second is None:
        return None
    return calibrated.counted(first, second, blocks * block, is_exact=blocks == 1, place=place)


def place_of(device: Device, touched: tuple[str, ...]) -> Place:
    """Where the memory of a pass is, by the devices that a trace saw it touch.

    Beside an accelerator the host may hold an index or half of the weights: that is not known.
    """
    if set(touched) == {device.id}:
        return "one device"
    others = [each for each in touched if each != device.id and not each.startswith("cpu")]
    return "several devices" if others else "unknown"
