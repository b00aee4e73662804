"""Watch a step being called: when each pass was submitted, and when the device had done some of them.

Two readings of the private clock a pass, and now and then a marker: behind the first passes, then whenever there are a
quarter more of them, and behind the first pass after every 20 ms. So a burst of passes costs a handful of markers and
most of it is known to have been done by then, and a long run costs fifty a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_roofline.pass_times import PassTimes
from pytest_roofline.protocol import Marker

MARK_EVERY_S = 0.020
MOST_MARKERS = 512


class PassWatch:
    """Counts and times the passes of one audit; `last_output` is held, older ones are not."""

    def __init__(self, *, clock: Callable[[], float], mark: Callable[[], Sequence[Marker]]) -> None:
        self._clock = clock
        self._mark = mark
        self._starts_s: list[float] = []
        self._ends_s: list[float] = []
        self._before: tuple[Marker, ...] = ()
        self._marks: list[tuple[int, tuple[Marker, ...]]] = []
        self._next_index = 1
        self._next_s = 0.0
        self.is_watching = False
        self.last_output: Any = None

    def wrap(self, step: Callable[..., Any], submit: Callable[[Any], None] | None) -> Callable[..., Any]:
        """The step, watched; `submit` hands a lazy framework the graph of each pass."""
        self.is_watching = True
        clock, starts, ends = self._clock, self._starts_s, self._ends_s

        def watched(*args: Any, **kwargs: Any) -> Any:
            if not starts:
                self._before = tuple(self._mark())
            starts.append(clock())
            self.last_output = output = step(*args, **kwargs)
            if submit is not None:
                submit(output)
            now = clock()
            ends.append(now)
            if len(ends) >= self._next_index or now > self._next_s:
                self._set_marker(len(ends), now)
            return output

        return watched

    def _set_marker(self, passes: int, now_s: float) -> None:
        self._next_s = now_s + MARK_EVERY_S
        if passes >= self._next_index:
            self._next_index = max(passes + 1, passes * 5 // 4)
        if len(self._marks) < MOST_MARKERS:
            self._marks.append((passes - 1, tuple(self._mark())))

    def times(self) -> PassTimes:
        """What was seen. Waits for the markers, so the device is to be drained before."""
        done = ((index, _finished(markers)) for index, markers in self._marks)
        return PassTimes(
            starts_s=tuple(self._starts_s),
            ends_s=tuple(self._ends_s),
            idle_from_s=_finished(self._before),
            done_s=tuple((index, moment) for index, moment in done if moment is not None),
        )


def _finished(markers: Sequence[Marker]) -> float | None:
    return max((marker.finished_s() for marker in markers), default=None)
