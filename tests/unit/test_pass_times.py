"""What watched passes took at least: bounds that hold for every honest program."""

from __future__ import annotations

import random

import pytest

from pytest_roofline.pass_times import PassTimes
from pytest_roofline.pass_watch import PassWatch


def synchronous(passes: int, pass_s: float = 1.0, gap_s: float = 0.0) -> PassTimes:
    """Each call takes as long as its pass."""
    starts = [index * (pass_s + gap_s) for index in range(passes)]
    return PassTimes(starts_s=tuple(starts), ends_s=tuple(start + pass_s for start in starts))


def test_synchronous_passes_take_what_their_calls_take() -> None:
    """Ten passes of a second each, any four of them take four."""
    times = synchronous(10)
    assert times.contiguous_s(10, 10.0) == pytest.approx(10.0)
    assert times.separate_s(4) == pytest.approx(4.0)
    assert times.within([(2.5, 5.5)]) == 3


def test_gaps_between_passes_are_not_charged_to_laps() -> None:
    """Whoever times each pass by itself does not time what lies between."""
    times = synchronous(10, gap_s=5.0)
    assert times.separate_s(10) == pytest.approx(10.0)
    assert times.contiguous_s(10, 60.0) == pytest.approx(55.0)


@pytest.mark.parametrize("passes", [0, 11])
def test_more_passes_than_were_watched_have_no_bound(passes: int) -> None:
    """Absence of evidence accuses nobody."""
    times = synchronous(10)
    assert times.contiguous_s(passes, 10.0) is None
    assert times.separate_s(passes) is None


def test_a_marker_behind_a_burst_tells_when_it_was_done() -> None:
    """Queued in no time, done after eight seconds by the marker behind the last."""
    times = PassTimes(starts_s=(0.0,) * 8, ends_s=(0.0,) * 8, done_s=((3, 4.0), (7, 8.0)))
    assert times.contiguous_s(8, 8.0) == pytest.approx(8.0)
    assert times.contiguous_s(4, 8.0) == pytest.approx(0.0)  # it may be the four in the middle: no telling
    assert times.separate_s(8) == 0.0


def test_work_before_the_first_pass_is_not_charged() -> None:
    """An undrained warm-up ends at three seconds."""
    times = PassTimes(starts_s=(0.0,) * 4, ends_s=(0.0,) * 4, idle_from_s=3.0, done_s=((3, 7.0),))
    assert times.contiguous_s(4, 7.0) == pytest.approx(4.0)


def test_the_bounds_hold_for_random_queues() -> None:
    """Whatever was launched when, and wherever markers stood: no stretch of the device's own is shorter."""
    chance = random.Random(5)
    for _ in range(200):
        now, free = 0.0, chance.choice([0.0, 2.0])
        idle_from = free
        starts, ends, begun, done = [], [], [], []
        for _ in range(chance.randint(1, 12)):
            now += chance.choice([0.0, 0.01, 3.0])
            starts.append(now)
            now += 0.001
            begun.append(max(now, free))
            free = begun[-1] + chance.uniform(0.5, 1.5)
            if chance.random() < 0.3:
                now = max(now, free)
            ends.append(now)
            done.append(free)
        marks = [(index, moment) for index, moment in enumerate(done) if chance.random() < 0.4]
        times = PassTimes(starts_s=tuple(starts), ends_s=tuple(ends), idle_from_s=idle_from, done_s=tuple(marks))
        for count in range(1, len(starts) + 1):
            least = times.contiguous_s(count, max(now, free))
            # From the call of the first (an honest clock starts no later than the device) to the end of the last.
            true = min(
                max(done[first + count - 1], ends[first + count - 1])
                - max(starts[first], done[first - 1] if first else idle_from)
                for first in range(len(starts) - count + 1)
            )
            assert least is not None
            assert least <= true + 1e-9


def test_first_and_later_need_eight_passes() -> None:
    """The first call took five seconds, the later ones one."""
    starts = (0.0, *(5.0 + index for index in range(9)))
    times = PassTimes(starts_s=starts, ends_s=starts)
    assert times.first_and_later_s([(0.0, 100.0)]) == (5.0, 1.0)
    assert times.first_and_later_s([(0.0, 8.0)]) is None
    assert times.first_and_later_s([]) is None


def test_the_longest_call_leaves_the_first_quarter_out() -> None:
    """Twelve calls a second apart but for two: the compilation at the beginning is no pass, the slow one is."""
    gaps = [9.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    starts = [sum(gaps[:index]) for index in range(len(gaps) + 1)]
    passes = PassTimes(starts_s=tuple(starts), ends_s=tuple(starts))
    assert passes.longest_call_s([(0.0, 100.0)]) == 1.5
    assert passes.longest_call_s([(14.0, 100.0)]) is None
    assert passes.longest_call_s([]) is None


def test_a_watch_sets_few_markers() -> None:
    """Ever fewer in a burst, one in 20 ms of a slow loop, and one before the first pass."""
    now = 0.0
    marked: list[float] = []

    class Marker:
        """Done at once."""

        def finished_s(self) -> float:
            """Now."""
            return now

    def mark() -> tuple[Marker, ...]:
        marked.append(now)
        return (Marker(),)

    watch = PassWatch(clock=lambda: now, mark=mark)
    step = watch.wrap(lambda value: value, None)
    assert [step(index) for index in range(1000)] == list(range(1000))
    assert 25 < len(marked) < 35
    assert watch.last_output == 999
    for index in range(1000):
        now += 0.01
        step(index)
    assert 300 < len(marked) < 520
    times = watch.times()
    assert len(times.starts_s) == len(times.ends_s) == 2000
    assert times.done_s[0][0] == 0
