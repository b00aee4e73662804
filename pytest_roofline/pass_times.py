"""What the watched passes of an audit took at least. Pure: moments in, bounds out.

Nobody knows when the device did a pass unless somebody waited, so these are lower bounds that hold for every honest
program, whatever it timed with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_roofline.samples import median


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """Host moments of every watched pass, and the moments at which the device is known to have finished some."""

    starts_s: tuple[float, ...] = ()
    ends_s: tuple[float, ...] = ()
    """When the step had returned; one fewer where the last pass raised."""
    idle_from_s: float | None = None
    """When the work submitted before the first pass was done."""
    done_s: tuple[tuple[int, float], ...] = ()
    """Index of a pass, and when it and all before it were done."""

    def within(self, bounds: Sequence[tuple[float, float]]) -> int:
        """Passes that began within any of these stretches."""
        return sum(any(low <= start <= high for low, high in bounds) for start in self.starts_s)

    def behind(self, bounds: Sequence[tuple[float, float]]) -> int:
        """Passes that began after the last of these stretches; 0 without any."""
        end_s = max((high for _, high in bounds), default=float("inf"))
        return sum(start > end_s for start in self.starts_s)

    def contiguous_s(self, passes: int, drained_s: float) -> float | None:
        """The least time from the beginning to the end of so many consecutive passes; None with fewer of them.

        The end of a pass is no earlier than its return and than any marker before it; its beginning no later than
        its call and the first marker that shows its predecessor done.
        """
        if not 0 < passes <= len(self.ends_s):
            return None
        ended: list[float] = []
        marks = iter(sorted(self.done_s))
        mark = next(marks, None)
        latest = float("-inf")
        for index, end in enumerate(self.ends_s):
            while mark is not None and mark[0] <= index:
                latest, mark = max(latest, mark[1]), next(marks, None)
            ended.append(max(end, latest))
        # From the back: when the passes before this one were done at the latest.
        done_by = [drained_s] * len(self.ends_s)
        backwards = iter(sorted(self.done_s, reverse=True))
        mark = next(backwards, None)
        soonest = drained_s
        for index in range(len(self.ends_s) - 1, -1, -1):
            while mark is not None and mark[0] >= index:
                soonest, mark = min(soonest, mark[1]), next(backwards, None)
            done_by[index] = soonest
        least = float("inf")
        for first in range(len(self.ends_s) - passes + 1):
            before = done_by[first - 1] if first else self.idle_from_s
            began = self.starts_s[first] if before is None else max(self.starts_s[first], before)
            least = min(least, ended[first + passes - 1] - began)
        return max(0.0, least)

    def separate_s(self, passes: int) -> float | None:
        """The least time of so many passes that were timed one by one: the host's time inside the step."""
        if not 0 < passes <= len(self.ends_s):
            return None
        spent = sorted(end - start for start, end in zip(self.starts_s, self.ends_s, strict=False))
        return sum(spent[:passes])

    def longest_call_s(self, bounds: Sequence[tuple[float, float]]) -> float | None:
        """The longest time from call to call within these stretches, the first quarter apart; None with under 8 passes.

        A pass of the device takes no longer where calls wait for it, a few passes behind; elsewhere it tells nothing.
        """
        starts = [start for start in self.starts_s if any(low <= start <= high for low, high in bounds)]
        if len(starts) < 8:
            return None
        gaps = [after - before for before, after in pairwise(starts)]
        return max(gaps[len(gaps) // 4 :])

    def first_and_later_s(self, bounds: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
        """From the first call within a stretch to the second, and the median of the later ones; None with under 8.

        Only where calls wait for the device, or the queue is short, do they keep its pace.
        """
        starts = [start for start in self.starts_s if any(low <= start <= high for low, high in bounds)]
        if len(starts) < 8:
            return None
        gaps = [after - before for before, after in pairwise(starts)]
        return gaps[0], median(gaps[1:])
