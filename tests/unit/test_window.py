"""Which stretch of an audit a claim speaks of: rules (a) to (e) of the clock watch."""

from __future__ import annotations

import pytest

from pytest_roofline.checks.claimed import ClockRead, EventInterval
from pytest_roofline.window import (
    Span,
    closed_intervals_s,
    closed_samples_s,
    find_span,
    find_timed,
    intervals_of_samples,
    is_nearer,
    laps_of,
    matching_span,
    only_span,
    spans_of_samples,
)


def read(
    value: float | None,
    at: float | None = None,
    *,
    clock: str = "time.perf_counter",
    where: str = "test_it.py:1",
    finished: float | None = None,
    width: float = 0.0,
) -> ClockRead:
    """A read that returned `value` at the private moment `at`, which is known to within `width`."""
    moment = at if at is not None else value or 0.0
    return ClockRead(
        clock=clock,
        value_s=value,
        private_low_s=moment,
        private_high_s=moment + width,
        where=where,
        finished_s=finished,
    )


def ends(span: Span | None) -> tuple[float | None, float | None] | None:
    """Both returned values of a span."""
    return None if span is None else (span.start.value_s, span.stop.value_s)


def test_leftover_of_a_read() -> None:
    """Work done before the read, or none pending, leaves nothing over."""
    assert read(1.0).leftover_s == 0.0
    assert read(1.0, finished=0.5).leftover_s == 0.0
    assert read(1.0, finished=1.5).leftover_s == 0.5
    assert read(1.0, finished=1.5, width=0.25).leftover_s == 0.25


def test_span_lies_between_its_private_bounds() -> None:
    """The shortest and the longest that two uncertain moments allow; never negative."""
    span = Span(start=read(1.0, width=0.1), stop=read(3.0, width=0.2, finished=4.0))
    assert span.private_low_s == pytest.approx(1.9)
    assert span.private_high_s == pytest.approx(2.2)
    assert span.leftover_s == pytest.approx(0.8)
    assert Span(start=read(1.0, width=5.0), stop=read(2.0)).private_low_s == 0.0


@pytest.mark.parametrize(("returned", "measured"), [(2.0, 2.0), (1.0, 1.9), (9.0, 2.2)])
def test_measured_is_the_private_length_nearest_to_what_was_returned(returned: float, measured: float) -> None:
    """A preempted read is nobody's fault; a lying clock is bounded by the private one."""
    span = Span(start=read(0.0, 1.0, width=0.1), stop=read(returned, 3.0, width=0.2))
    assert span.measured_s == pytest.approx(measured)


def test_without_a_returned_value_the_longest_counts() -> None:
    """Only the moments of the calls were seen."""
    span = Span(start=read(None, 1.0, width=0.1), stop=read(None, 3.0, width=0.2))
    assert span.returned_s is None
    assert span.measured_s == pytest.approx(2.2)


@pytest.mark.parametrize("seconds", [2.0, 0.001, None, -5.0])
def test_exactly_two_reads_are_the_window_whatever_is_claimed(seconds: float | None) -> None:
    """Rule (a): a wrong divisor does not hide the window."""
    assert ends(find_span([read(1.0), read(3.0)], seconds)) == (1.0, 3.0)


def test_two_reads_of_two_clocks_are_no_window() -> None:
    """They cannot be subtracted."""
    assert find_span([read(1.0), read(3.0, clock="time.time")], 2.0) is None


@pytest.mark.parametrize(
    ("seconds", "found"), [(5.0, (2.0, 7.0)), (5.04, (2.0, 7.0)), (5.06, None), (4.96, (2.0, 7.0)), (4.94, None)]
)
def test_of_several_reads_the_pair_that_equals_the_claim(seconds: float, found: tuple[float, float] | None) -> None:
    """Rule (a): within 1 % of the claimed seconds; rule (d): else the window is not known."""
    reads = [read(0.0), read(2.0), read(7.0), read(50.0)]
    assert ends(find_span(reads, seconds)) == found


def test_the_nearest_pair_wins_over_a_merely_near_one() -> None:
    """Two pairs within 1 %: the one that fits better."""
    reads = [read(0.0), read(10.05), read(100.0), read(110.0)]
    assert ends(find_span(reads, 10.0)) == (100.0, 110.0)
    assert ends(find_span(reads, 10.05)) == (0.0, 10.05)


def test_of_equal_pairs_the_later_one() -> None:
    """A test that measures twice claims what it measured last."""
    reads = [read(0.0), read(1.0), read(4.0), read(5.0)]
    assert ends(find_span(reads, 1.0)) == (4.0, 5.0)


def test_pairs_are_of_one_clock() -> None:
    """A wall clock and a counter never make a window, and each is searched by itself."""
    wall = "time.time"
    reads = [read(1000.0, 0.0, clock=wall), read(0.0, 0.0), read(1003.0, 3.0, clock=wall), read(3.0, 3.0)]
    span = find_span(reads, 3.0)
    assert span is not None
    assert span.start.clock == span.stop.clock
    assert find_span(reads, 1003.0) is None
    nearer = find_span([*reads, read(3.01, 3.01)], 3.01)
    assert nearer is not None
    assert nearer.stop.value_s == 3.01


@pytest.mark.parametrize("seconds", [None, 0.0, -1.0])
def test_several_reads_and_no_length_are_no_window(seconds: float | None) -> None:
    """Nothing to look for, or nothing that a window can be."""
    assert find_span([read(0.0), read(1.0), read(2.0)], seconds) is None


@pytest.mark.parametrize("reads", [[], [read(1.0)]])
def test_fewer_than_two_reads_are_no_window(reads: list[ClockRead]) -> None:
    """Rule (e): nothing was seen."""
    assert find_span(reads, 1.0) is None


def test_reads_without_a_value_do_not_fit_a_claim() -> None:
    """Three of them: nothing was returned that could equal the claim."""
    assert find_span([read(None, 0.0), read(None, 1.0), read(None, 2.0)], 1.0) is None


def test_a_clock_that_was_set_back_makes_no_backward_window() -> None:
    """The stop of a window comes after its start, whatever the values say."""
    reads = [read(100.0, 0.0), read(50.0, 1.0), read(51.5, 2.5), read(99.0, 50.0)]
    assert find_span(reads, 1.0) is None
    assert ends(find_span(reads, 1.5)) == (50.0, 51.5)


def test_samples_are_matched_in_order() -> None:
    """Each sample is the difference of neighbouring reads, one after the other."""
    reads = [read(0.0), read(1.0), read(1.5), read(3.5), read(4.0), read(5.0)]
    spans = spans_of_samples(reads, [1.0, 2.0, 1.0])
    assert spans is not None
    assert [ends(span) for span in spans] == [(0.0, 1.0), (1.5, 3.5), (4.0, 5.0)]
    assert spans_of_samples(reads, [2.0, 2.0]) is None


def test_samples_that_were_sorted_or_trimmed_are_matched_by_length() -> None:
    """No two samples by the same reads; the order is that of the reads again."""
    reads = [read(0.0), read(1.0), read(1.5), read(3.5), read(4.0), read(5.001)]
    spans = spans_of_samples(reads, [1.0, 1.001, 2.0])
    assert spans is not None
    assert [ends(span) for span in spans] == [(0.0, 1.0), (1.5, 3.5), (4.0, 5.001)]
    trimmed = spans_of_samples(reads, [2.0, 1.001])
    assert trimmed is not None
    assert [ends(span) for span in trimmed] == [(1.5, 3.5), (4.0, 5.001)]
    rounded = spans_of_samples(reads, [1.002, 2.0, 1.0])
    assert rounded is not None
    assert [ends(span) for span in rounded] == [(0.0, 1.0), (1.5, 3.5), (4.0, 5.001)]
    assert spans_of_samples(reads, [1.0, 1.0, 1.0]) is None
    assert spans_of_samples(reads, [1.0, 2.5]) is None


def test_a_sample_begins_when_what_was_submitted_before_it_is_done() -> None:
    """Also where the sample that submitted it was left out."""
    spans = spans_of_samples(
        [read(0.0), read(1.0, finished=3.0), read(1.5, finished=3.0), read(3.5, finished=5.0)], [2.0, 1.0]
    )
    assert spans is not None
    assert closed_samples_s(spans) == pytest.approx((3.0, 2.0))
    assert closed_samples_s(spans[1:]) == pytest.approx((2.0,))


def test_samples_may_share_their_reads() -> None:
    """``t1 - t0, t2 - t1``: one read ends a sample and begins the next."""
    spans = spans_of_samples([read(0.0), read(1.0), read(3.0)], [1.0, 2.0])
    assert spans is not None
    assert [ends(span) for span in spans] == [(0.0, 1.0), (1.0, 3.0)]


@pytest.mark.parametrize(
    ("sample", "found"), [(1.0, True), (1.0099, True), (1.011, False), (0.991, True), (0.98, False)]
)
def test_a_sample_equals_its_reads_within_one_per_cent(sample: float, found: bool) -> None:
    """Samples that were rounded a little are found."""
    assert (spans_of_samples([read(0.0), read(1.0)], [sample]) is not None) is found


def test_reads_of_another_clock_between_the_samples_do_not_hide_them() -> None:
    """A log line that prints the wall clock is no sample's business."""
    wall = "time.time"
    reads = [
        read(900.0, 0.0, clock=wall),
        read(0.0),
        read(900.5, 0.5, clock=wall),
        read(1.0),
        read(901.5, 1.5, clock=wall),
        read(2.0),
        read(4.0),
    ]
    spans = spans_of_samples(reads, [1.0, 2.0])
    assert spans is not None
    assert [ends(span) for span in spans] == [(0.0, 1.0), (2.0, 4.0)]


@pytest.mark.parametrize("reads", [[], [read(0.0)], [read(None, 0.0), read(None, 1.0)]])
def test_samples_without_reads_behind_them(reads: list[ClockRead]) -> None:
    """None was seen, or none with a value."""
    assert spans_of_samples(reads, [1.0]) is None


def test_early_stamps_are_closed_by_the_device() -> None:
    """Per step: start, launch, stop; the device is done long after each stop. Every sample is as long as its work."""
    spans = [
        Span(start=read(0.0), stop=read(0.1, finished=1.0)),
        Span(start=read(0.1), stop=read(0.2, finished=2.0)),
        Span(start=read(0.2), stop=read(0.3, finished=3.0)),
    ]
    assert closed_samples_s(spans) == pytest.approx((1.0, 1.0, 1.0))


def test_honest_samples_are_closed_as_they_are() -> None:
    """Drained before each stop: nothing is added, and pauses between samples are not charged."""
    spans = [Span(start=read(0.0), stop=read(1.0)), Span(start=read(5.0), stop=read(7.0, finished=6.5))]
    assert closed_samples_s(spans) == pytest.approx((1.0, 2.0))


def test_a_preempted_read_is_not_charged() -> None:
    """Where nothing was left over, a sample ends at the earliest moment that the read allows."""
    assert closed_samples_s([Span(start=read(0.0), stop=read(1.0, width=3.0))]) == (1.0,)
    assert closed_samples_s([Span(start=read(0.0, width=2.0), stop=read(1.0))]) == (0.0,)


def event(value_s: float, began_s: float | None = 0.0, ended_s: float | None = None) -> EventInterval:
    """An interval whose work took as long as the events say, unless given."""
    end = None if began_s is None else began_s + value_s if ended_s is None else ended_s
    return EventInterval(name="Event", value_s=value_s, where="test_it.py:9", began_s=began_s, ended_s=end)


def test_two_reads_match_by_value_alone_where_asked() -> None:
    """Log lines a second apart are no window of a tenth of it, though they are the only pair."""
    reads = [read(1.0), read(2.0)]
    assert matching_span(reads, 0.1) is None
    assert matching_span(reads, 1.0) is not None
    assert only_span(reads) is not None
    assert only_span([*reads, read(3.0)]) is None


@pytest.mark.parametrize("seconds", [0.0, -0.5])
def test_a_clock_that_stood_still_or_ran_back_is_found(seconds: float) -> None:
    """The last neighbours between which it did."""
    reads = [read(1.0), read(2.0), read(2.0 + seconds), read(7.0)]
    span = matching_span(reads, seconds)
    assert span is not None
    assert span.start is reads[1]
    assert span.stop is reads[2]


def test_laps_are_neighbouring_pairs_that_add_up() -> None:
    """Three laps of a second, with gaps; half of the sum is another figure."""
    reads = [read(value) for value in (0.0, 1.0, 5.0, 6.0, 8.0, 9.0)]
    laps = laps_of(reads, 3.0)
    assert laps is not None
    assert [lap.measured_s for lap in laps] == [1.0, 1.0, 1.0]
    assert laps_of(reads, 1.5) is None
    assert laps_of(reads[:5], 2.0) == laps[:2]  # the last one is a log line
    assert laps_of([read(-1.0), *reads, read(11.0)], 3.0) == laps
    assert laps_of(reads, None) is None


def laps(count: int, *, starts: str = "test_it.py:3", stops: str = "test_it.py:5") -> list[ClockRead]:
    """Laps of a second with pauses of half of one, read at two lines of code."""
    return [read(1.5 * lap + at, where=stops if at else starts) for lap in range(count) for at in (0.0, 1.0)]


@pytest.mark.parametrize(
    ("factor", "found"), [(1.0, True), (1.00005, True), (1.009, True), (0.991, True), (1.011, False), (0.5, False)]
)
def test_laps_of_one_loop_may_be_rounded(factor: float, found: bool) -> None:
    """All begin at one line and end at another one: within 1 %, as a pair of reads is."""
    assert (laps_of(laps(12), 12.0 * factor) is not None) is found


@pytest.mark.parametrize(("factor", "found"), [(1.0, True), (1.00005, True), (1.001, False), (0.995, False)])
@pytest.mark.parametrize("where", ["one line", "several lines"])
def test_laps_of_elsewhere_have_to_be_exact(factor: float, found: bool, where: str) -> None:
    """Read through a helper, or by two loops: something near may be any log lines'."""
    seen = laps(6, stops="test_it.py:3") + [
        read(one.value_s + 20, where="test_it.py:3" if where == "one line" else f"test_it.py:{50 + index % 2}")
        for index, one in enumerate(laps(6))
        if one.value_s is not None
    ]
    assert (laps_of(seen, 12.0 * factor) is not None) is found


def test_exact_events_are_nearer_than_reads_that_merely_match() -> None:
    """A log line of about the same length is no window where events are just what was claimed."""
    about, same = Span(start=read(0.0), stop=read(1.005)), Span(start=read(0.0), stop=read(1.0))
    whole, longer = find_timed([event(1.0)], 1.0, 1.0), find_timed([event(1.008)], 1.0, 1.0)
    assert whole is not None
    assert longer is not None
    assert is_nearer(whole, about, 1.0)
    assert not is_nearer(whole, same, 1.0)
    assert not is_nearer(longer, about, 1.0)
    assert not is_nearer(whole, Span(start=read(None, 0.0), stop=read(None, 1.0)), 1.0)
    assert not is_nearer(whole, about, None)
    micro = find_timed([event(1.0)], 1e-3, 7.0)
    assert micro is not None
    assert not is_nearer(micro, about, 1e-3)


@pytest.mark.parametrize(
    ("seconds", "passes", "value_s"),
    [
        (2.0, 1.0, 2.0),  # one of them
        (9.0, 4.0, 9.0),  # all
        (7.0, 4.0, 7.0),  # all but the first
        (4 * 2.25, 4.0, 9.0),  # four times the mean
        (4 * 7 / 3, 4.0, 4 * 7 / 3),  # four times the mean of the last three
        (8.0, 4.0, 8.0),  # four times the median
        (12.0, 4.0, 12.0),  # four times the slowest
        (20.0, 10.0, 20.0),  # ten times the median
    ],
)
def test_a_claim_may_be_made_of_events_in_several_ways(seconds: float, passes: float, value_s: float) -> None:
    """One interval, sums, and a typical one as the time of a pass."""
    timed = find_timed([event(2.0), event(2.0), event(3.0), event(2.0)], seconds, passes)
    assert timed is not None
    assert timed.unit == 1.0
    assert timed.value_s == pytest.approx(value_s)


def test_half_of_the_laps_is_no_sum_of_them() -> None:
    """Four equal intervals, divided by two: nothing that was read says so."""
    assert find_timed([event(2.0)] * 4, 4.0, 16.0) is None


def test_a_claim_in_another_unit_is_found_where_it_is_too_short() -> None:
    """Thousandths of an interval are a slip; a thousand times it is no gain."""
    timed = find_timed([event(2.0)], 2e-3, 7.0)
    assert timed is not None
    assert timed.unit == 1e3
    assert find_timed([event(2.0)], 2e3, 7.0) is None
    assert find_timed([event(2.0)], 0.13, 7.0) is None
    assert find_timed([], 2.0, 7.0) is None
    assert find_timed([event(2.0)], None, 7.0) is None


def test_overlapping_intervals_are_not_charged_twice() -> None:
    """Work of an earlier interval that outlasts it is not the next one's; an unknown one leaves all unknown."""
    assert closed_intervals_s([event(1.0, 0.0, 3.0), event(1.0, 1.0, 4.0)]) == (3.0, 1.0)
    assert closed_intervals_s([event(1.0), event(1.0, None)]) is None
    timed = find_timed([event(1.0, 0.0, 3.0)], 1.0, 1.0)
    assert timed is not None
    assert timed.closed_s == 3.0


def test_samples_are_matched_to_events_in_order() -> None:
    """A warm-up that was timed too is passed over."""
    events = [event(9.0), event(1.0), event(2.0), event(3.0)]
    timed = intervals_of_samples(events, [1.0, 2.0, 3.0])
    assert timed is not None
    assert timed.value_s == 6.0
    assert intervals_of_samples(events, [1.0, 9.0]) is None
