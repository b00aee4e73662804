"""Clocks and device events that do not tell the time that the work took, on the fake device: each ends bogus.

Every program runs 32 passes of 5 ms and claims less than the 160 ms that they take. The honest ones beside them time
in the same ways, and pass.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeEvent, FakeModel
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9
PASSES = 32
HERE = "test_clocks.py:"


class Program:
    """Passes on a fake device, timed by whoever asks."""

    def __init__(self, **figures: Any) -> None:
        self.backend = FakeBackend(**figures)
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]), Settings())

    def passes(self, count: int = PASSES, stream: str | None = None) -> None:
        """Queue passes."""
        for _ in range(count):
            if stream is None:
                self.model.step()
            else:
                self.backend.launch(read_bytes=0.8 * WEIGHTS, efficiency=0.64, stream=stream)

    def events(self, work: Callable[[], object]) -> tuple[FakeEvent, FakeEvent]:
        """Two events around some work, the second one waited for."""
        first, last = self.backend.event(), self.backend.event()
        first.record()
        work()
        last.record()
        last.synchronize()
        return first, last


def refused(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> list[str]:
    """Names of the checks behind a bogus verdict."""
    verdict = excinfo.value.verdict
    assert verdict is not None
    return [finding.check for finding in verdict.of("bogus")]


def checks(result: Result, severity: str) -> list[str]:
    """Names of the checks that found something of this severity."""
    return [finding.check for finding in result.findings if finding.severity == severity]


# -- device events ------------------------------------------------------------------------------------------------


def test_events_on_another_stream_bracket_nothing() -> None:
    """The work is on a side stream that the second event does not wait for."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="another stream") as excinfo, program.roofline.audit() as audit:
        first, last = program.events(lambda: program.passes(stream="side"))
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
    assert HERE in str(excinfo.value).split("\n")[0]
    assert "stream that does the work" in str(excinfo.value)


def test_events_that_see_half_of_the_streams() -> None:
    """Half of the passes run behind the events, the others beside them and twice as long."""
    program = Program()

    def work() -> None:
        program.passes(PASSES // 2)
        program.passes(PASSES, stream="side")

    with pytest.raises(BogusMeasurement, match="do not wait for") as excinfo, program.roofline.audit() as audit:
        first, last = program.events(work)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


@pytest.mark.parametrize("passes", [1, 4, 32, 200])
def test_events_that_are_stamped_when_they_are_queued(passes: int) -> None:
    """Their interval is the host's, however many passes it launched."""
    program = Program(event_at_enqueue=True)
    with (
        pytest.raises(BogusMeasurement, match="stamped when they were queued") as excinfo,
        program.roofline.audit() as audit,
    ):
        first, last = program.events(lambda: program.passes(passes))
        audit.claim(tokens=passes, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
    assert HERE in str(excinfo.value)


@pytest.mark.parametrize("scale", [1e-3, 1e-6])
def test_events_in_another_unit(scale: float) -> None:
    """Their clock counts micro- or nanoseconds and calls them milliseconds."""
    program = Program(event_scale=scale)
    with pytest.raises(BogusMeasurement, match="in another unit") as excinfo, program.roofline.audit() as audit:
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["clock-disagrees"]


@pytest.mark.parametrize("divisor", [1e3, 1e6])
def test_milliseconds_taken_for_microseconds(divisor: float) -> None:
    """The events are right, and the test divides once too often."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="in another unit") as excinfo, program.roofline.audit() as audit:
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last) / divisor)
    assert refused(excinfo) == ["clock-disagrees"]


def test_milliseconds_taken_for_seconds() -> None:
    """A claim that is longer than the audit, though nobody gains from it."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="another unit") as excinfo, program.roofline.audit() as audit:
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last) * 1e3)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


def test_one_event_read_at_both_ends() -> None:
    """No time between an event and itself, with the line that recorded it."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="no work takes") as excinfo, program.roofline.audit() as audit:
        first, _ = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(first))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
    assert HERE in str(excinfo.value).split("\n")[0]


@pytest.mark.parametrize("scale", [0.0, -1.0, -2e4])
def test_dead_and_wrapped_stamps(scale: float) -> None:
    """Zero, and a counter that ran backwards, claimed as they are."""
    program = Program(event_scale=scale)
    with pytest.raises(BogusMeasurement, match="no work takes") as excinfo, program.roofline.audit() as audit:
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
    assert HERE in str(excinfo.value).split("\n")[0]


def test_negative_stamps_that_are_made_positive() -> None:
    """The absolute value of a counter that ran backwards at a hundredth of the pace."""
    program = Program(event_scale=-0.01)
    with program.roofline.audit() as audit:
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=abs(first.elapsed_s(last)))
    assert audit.result.verdict.outcome == "inconclusive"
    assert "1 time between device events were seen" in audit.result.findings[0].message


def test_an_event_method_that_was_replaced_inside_the_audit() -> None:
    """Whoever replaces the method that tells the time has not replaced the markers."""
    program = Program()
    real = FakeEvent.elapsed_s
    with (
        pytest.raises(BogusMeasurement, match="the device events say") as excinfo,
        program.roofline.audit() as audit,
        mock.patch.object(FakeEvent, "elapsed_s", lambda event, end: real(event, end) / 10),
    ):
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
    assert FakeEvent.elapsed_s is real


def test_an_event_method_that_calls_the_one_before_it() -> None:
    """What it returned and what it was given are both noted; the claim rests on the lesser one."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="the device events say") as excinfo, program.roofline.audit() as audit:
        inner = FakeEvent.elapsed_s
        with mock.patch.object(FakeEvent, "elapsed_s", lambda event, end: inner(event, end) / 10):
            first, last = program.events(program.passes)
            audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


def test_samples_of_events_on_another_stream() -> None:
    """Each sample is closed by itself, and none holds its work."""
    program = Program()
    samples = []
    with pytest.raises(BogusMeasurement, match="another stream") as excinfo, program.roofline.audit() as audit:
        for _ in range(8):
            first, last = program.events(lambda: program.passes(4, stream="side"))
            samples.append(first.elapsed_s(last))
        audit.claim(tokens=PASSES, samples=samples)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


def test_parents_added_to_their_children() -> None:
    """The sum over nested intervals is longer than all that happened."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="whole audit lasted") as excinfo, program.roofline.audit() as audit:
        program.passes()
        program.backend.synchronize()
        audit.claim(tokens=PASSES, seconds=2 * PASSES * 5e-3)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


def test_replays_that_a_profiler_does_not_attribute() -> None:
    """Half of the passes are missing from the sum, and two reads stand around all of them."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="claimed, but") as excinfo, program.roofline.audit() as audit:
        start = time.perf_counter()
        program.passes()
        program.backend.synchronize()
        total = time.perf_counter() - start
        audit.claim(tokens=PASSES, seconds=total / 2)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


# -- honest events ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 4, 32, 400])
def test_honest_events_are_believed(passes: int) -> None:
    """On the stream of the work, behind a busy queue or not."""
    program = Program()
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        program.passes(3)
        first, last = program.events(lambda: program.passes(passes))
        audit.claim(tokens=passes, seconds=first.elapsed_s(last))
    assert audit.result.verdict.outcome == "passed"
    assert float(audit.result.fraction or 0) == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("statistic", [statistics.median, statistics.mean, min, max])
def test_statistics_of_events_are_believed(statistic: Callable[[list[float]], float]) -> None:
    """One event pair a pass, read at the end; the claim is a rate by one of the usual figures."""
    program = Program(noise="gaussian", seed=3)
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        pairs = [(program.backend.event(), program.backend.event()) for _ in range(PASSES)]
        for first, last in pairs:
            first.record()
            program.passes(1)
            last.record()
        program.backend.synchronize()
        typical = statistic([first.elapsed_s(last) for first, last in pairs])
        audit.claim(tokens=PASSES, tokens_per_s=1 / typical)
    assert audit.result.verdict.outcome == "passed"


def test_a_starved_stream_is_slow_and_not_wrong() -> None:
    """The host sleeps between short launches: the events time the gaps, and a note says nothing against it."""
    program = Program()
    with program.roofline.audit() as audit:
        first, last = program.events(
            lambda: [(program.backend.launch(seconds=2e-5), program.backend.host(1e-4)) for _ in range(PASSES)]
        )
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert audit.result.verdict.outcome == "passed"
    assert checks(audit.result, "bogus") == []


def test_a_copy_beside_the_passes_accuses_nobody() -> None:
    """A prefetch on a side stream outlasts the second event by a pass and a half."""
    program = Program()

    def work() -> None:
        program.passes()
        program.backend.launch(seconds=7e-3, stream="prefetch")

    with program.roofline.audit() as audit:
        first, last = program.events(work)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert audit.result.verdict.outcome == "passed"
    assert checks(audit.result, "note") == ["clock-disagrees"]


def test_events_on_the_stream_of_the_work_and_a_join() -> None:
    """A side stream that the timed one waits for is inside of the events."""
    program = Program()

    def work() -> None:
        program.passes(stream="side")
        program.backend.wait_stream(None, "side")

    with program.roofline.audit() as audit:
        first, last = program.events(work)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert audit.result.verdict.outcome == "passed"


def test_events_recorded_again_and_again() -> None:
    """The same two events in every lap, read after each."""
    program = Program()
    first, last = program.backend.event(), program.backend.event()
    total = 0.0
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        for _ in range(8):
            first.record()
            program.passes(4)
            last.record()
            last.synchronize()
            total += first.elapsed_s(last)
            program.backend.host(0.01)
        audit.claim(tokens=PASSES, seconds=total)
    assert audit.result.verdict.outcome == "passed"
    assert float(audit.result.fraction or 0) == pytest.approx(0.8, rel=0.02)


def test_events_that_run_fast_are_a_note() -> None:
    """Nobody gains from events that give too much time."""
    program = Program(event_scale=1.5)
    with program.roofline.audit() as audit:
        first, last = program.events(program.passes)
        audit.claim(tokens=PASSES, seconds=first.elapsed_s(last))
    assert audit.result.verdict.outcome == "passed"
    assert checks(audit.result, "note") == ["clock-disagrees"]


def test_the_event_methods_are_put_back() -> None:
    """After an audit the class is as it was; a method that somebody patched over ours stays theirs."""
    program = Program()
    before = (FakeEvent.record, FakeEvent.elapsed_s)
    with program.roofline.audit() as audit:
        assert FakeEvent.record is not before[0]
        audit.claim(tokens=1, seconds=1e-9)
    assert (FakeEvent.record, FakeEvent.elapsed_s) == before


# -- clocks of the host -------------------------------------------------------------------------------------------


def test_early_stamps_that_are_added_up() -> None:
    """Each lap ends at the launch, one drain stands behind all of them, and their sum is claimed."""
    program = Program()
    total = 0.0
    with (
        pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo,
        program.roofline.audit() as audit,
    ):
        for _ in range(PASSES):
            start = time.perf_counter()
            program.passes(1)
            total += time.perf_counter() - start
        program.backend.synchronize()
        audit.claim(tokens=PASSES, seconds=total)
    assert refused(excinfo) == ["not-drained"]
    assert HERE in str(excinfo.value).split("\n")[0]


def test_laps_that_are_drained_add_up() -> None:
    """The same with a drain inside of each lap is honest."""
    program = Program()
    total = 0.0
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        for _ in range(8):
            start = time.perf_counter()
            program.passes(4)
            program.backend.synchronize()
            total += time.perf_counter() - start
            program.backend.host(0.02)
        audit.claim(tokens=PASSES, seconds=total)
    assert audit.result.verdict.outcome == "passed"
    assert float(audit.result.fraction or 0) == pytest.approx(0.8, rel=0.02)


def test_a_clock_of_15_ms_shows_no_time() -> None:
    """One pass of 5 ms between two ticks; the line that read the second one is named."""
    tick_s = 15e-3
    program = Program(clock_resolution_s=tick_s)
    with pytest.raises(BogusMeasurement, match="no work takes") as excinfo, program.roofline.audit() as audit:
        program.backend.host(tick_s - program.backend.now_s() % tick_s + 1e-3)
        start = time.perf_counter()
        program.passes(1)
        program.backend.synchronize()
        audit.claim(tokens=1, seconds=time.perf_counter() - start)
    assert refused(excinfo) == ["clock-disagrees", "claim-exceeds-closed-time"]
    assert HERE in str(excinfo.value).split("\n")[0]


def test_a_clock_that_jumps_back() -> None:
    """A second is lost in the middle of the loop, and the claim is negative."""
    program = Program(clock_step_s=-1.0, clock_step_at_s=10.05, start_s=10.0)
    with pytest.raises(BogusMeasurement, match="no work takes") as excinfo, program.roofline.audit() as audit:
        start = time.perf_counter()
        program.passes()
        program.backend.synchronize()
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start)
    assert "claim-exceeds-closed-time" in refused(excinfo)


@pytest.mark.parametrize("divisor", [2, 16, PASSES])
def test_a_time_divided_twice(divisor: int) -> None:
    """By groups, by the batch, by the passes once more."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="a wrong divisor") as excinfo, program.roofline.audit() as audit:
        start = time.perf_counter()
        program.passes()
        program.backend.synchronize()
        audit.claim(tokens=PASSES, seconds=(time.perf_counter() - start) / divisor)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


def test_a_clock_replaced_inside_the_tested_code() -> None:
    """A tenth of the time, by a function that stands in for the clock."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="the clock was patched") as excinfo, program.roofline.audit() as audit:
        real = time.perf_counter

        def slow() -> float:
            return real() / 10

        with mock.patch.object(time, "perf_counter", slow):
            start = time.perf_counter()
            program.passes()
            program.backend.synchronize()
            audit.claim(tokens=PASSES, seconds=time.perf_counter() - start)
    assert refused(excinfo) == ["clock-disagrees"]


def fastest_tenth(values: list[float]) -> float:
    """No median."""
    return min(values) / 10


def test_a_median_replaced_inside_the_tested_code() -> None:
    """The rate is not that of the samples, which are right."""
    program = Program()
    samples = []
    with pytest.raises(BogusMeasurement, match="claimed, but") as excinfo, program.roofline.audit() as audit:
        for _ in range(8):
            start = time.perf_counter()
            program.passes(4)
            program.backend.synchronize()
            samples.append(time.perf_counter() - start)
        with mock.patch.object(statistics, "median", fastest_tenth):
            audit.claim(tokens=PASSES, tokens_per_s=4 / statistics.median(samples), samples=samples)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]


def test_samples_that_are_not_those_of_the_reads() -> None:
    """Eight reads, and samples that no two of them explain: no verdict."""
    program = Program()
    with program.roofline.audit() as audit:
        for _ in range(4):
            time.perf_counter()
            program.passes(4)
            program.backend.synchronize()
            time.perf_counter()
        audit.claim(tokens=16, samples=[1e-3] * 4)
    assert audit.result.verdict.outcome == "inconclusive"


# -- watched passes -----------------------------------------------------------------------------------------------


def test_two_log_lines_and_a_clock_that_nobody_saw() -> None:
    """The passes are watched: what they took at least does not contradict the claim of a clock from elsewhere."""
    program = Program()
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        step = audit.watch(program.model.step)
        time.perf_counter()
        program.backend.host(0.5)
        start = program.backend.clock()
        for _ in range(PASSES):
            step()
        program.backend.synchronize()
        seconds = program.backend.clock() - start
        time.perf_counter()
        audit.claim(tokens=PASSES, seconds=seconds)
    assert audit.result.verdict.outcome == "passed"
    assert float(audit.result.fraction or 0) == pytest.approx(0.8, rel=0.02)
    assert any("the clock reads are of something else" in note for note in audit.result.notes)


@pytest.mark.parametrize("factor", [1.3, 3, 10, 100])
def test_watched_passes_bound_a_claim_between_two_log_lines(factor: int) -> None:
    """The same program claims less than so many passes take at least."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="claimed, but") as excinfo, program.roofline.audit() as audit:
        step = audit.watch(program.model.step)
        time.perf_counter()
        for _ in range(PASSES):
            step()
        program.backend.synchronize()
        time.perf_counter()
        audit.claim(tokens=PASSES, seconds=PASSES * 5e-3 / factor)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
    assert "of 32 watched passes took" in str(excinfo.value)


def test_watched_passes_that_wait_bound_any_claim() -> None:
    """No clock is read at all, and each step waits for its token."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="claimed, but") as excinfo, program.roofline.audit() as audit:
        step = audit.watch(lambda: program.model.step().item())
        for _ in range(PASSES):
            step()
        audit.claim(tokens=PASSES, seconds=PASSES * 5e-3 / 10)
    assert refused(excinfo) == ["claim-exceeds-closed-time"]
