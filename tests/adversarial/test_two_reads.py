"""Honest programs that read the clock for their log and claim what something else measured.

Exactly two reads of a clock are taken for the window whatever was claimed, where nothing else was seen. Here they are
not the window: the test logs when it began and when it ended, or how long the compilation took, and claims the figures
of device events, or of a clock that the audit cannot see while the passes are watched. Every program is measured
rightly, at 80 % of a fake device.
"""

from __future__ import annotations

import logging
import time
from statistics import median

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

WEIGHTS = 4e9
PASSES = 32
WARM_UPS = 8
COMPILATION_S = 0.5


class Program:
    """A decode loop on a fake device, and device events around it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.backend = FakeBackend()
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        asking = Settings(at_least=parse_budget(0.6, "test"))
        self.roofline = Instrument(Session(added_backends=[self.backend]), asking)

    def warm_up(self) -> None:
        """The first passes, and what they compile."""
        self.backend.host(COMPILATION_S)
        self.passes(WARM_UPS)
        self.backend.synchronize()

    def passes(self, count: int) -> None:
        """Queue passes."""
        for _ in range(count):
            self.model.step()

    def timed_s(self, count: int = PASSES) -> float:
        """Passes between two device events; the seconds between them."""
        first, last = self.backend.event(), self.backend.event()
        first.record()
        self.passes(count)
        last.record()
        last.synchronize()
        return first.elapsed_s(last)


@pytest.fixture
def program() -> Program:
    """A program of its own for each test."""
    return Program()


def assert_right(result: Result) -> None:
    """Passed, at the efficiency of the device."""
    assert result.verdict.outcome == "passed"
    assert float(result.fraction or 0) == pytest.approx(0.8, rel=0.02)


# -- the claim of device events is found among two reads --------------------------------------------------------


def test_events_between_two_log_lines_of_the_whole_run(program: Program) -> None:
    """The log has the time from before the warm-up to the end; the events have the loop."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        program.warm_up()
        seconds = program.timed_s()
        program.log.append(f"the whole run took {time.perf_counter() - began:.1f} s")
        audit.claim(tokens=PASSES, seconds=seconds)
    assert_right(audit.result)


def test_events_after_a_logged_compilation(program: Program) -> None:
    """The log has the time of the compilation, which is longer than the loop."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        program.warm_up()
        program.log.append(f"compiled in {time.perf_counter() - began:.1f} s")
        audit.claim(tokens=PASSES, seconds=program.timed_s())
    assert_right(audit.result)


def test_events_after_a_logged_first_pass(program: Program) -> None:
    """The log has the time of one pass; 32 passes in that time would be faster than the device."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        program.model.step().item()
        program.log.append(f"the first pass took {time.perf_counter() - began:.4f} s")
        audit.claim(tokens=PASSES, seconds=program.timed_s())
    assert_right(audit.result)


def test_a_rate_by_events_between_two_log_lines(program: Program) -> None:
    """The same when tokens per second are claimed."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.time()
        program.warm_up()
        seconds = program.timed_s()
        program.log.append(f"done after {time.time() - began:.1f} s")
        audit.claim(tokens_per_s=PASSES / seconds, tokens=PASSES)
    assert_right(audit.result)


# -- believed, or left undecided ------------------------------------------------------------------------------------


def test_samples_of_events_between_two_log_lines_are_believed(program: Program) -> None:
    """The median of samples that device events explain, one by one."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        program.warm_up()
        samples = [program.timed_s(4) for _ in range(8)]
        program.log.append(f"the whole run took {time.perf_counter() - began:.1f} s")
        audit.claim(tokens_per_s=4 / median(samples), samples=samples)
    assert_right(audit.result)


def test_a_stated_window_between_two_log_lines_is_the_window(program: Program) -> None:
    """What the message advises: the test says itself which part is timed."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        program.warm_up()
        with audit.window():
            seconds = program.timed_s()
        program.log.append(f"the whole run took {time.perf_counter() - began:.1f} s")
        audit.claim(tokens=PASSES, seconds=seconds)
    assert_right(audit.result)


def test_two_log_lines_outside_of_the_audit_are_nobodys_window(program: Program) -> None:
    """The audit begins behind the first line and ends before the second."""
    began = time.perf_counter()
    program.warm_up()
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        audit.claim(tokens=PASSES, seconds=program.timed_s())
    program.log.append(f"the whole run took {time.perf_counter() - began:.1f} s")
    assert_right(audit.result)


def test_one_log_line_is_no_window(program: Program) -> None:
    """A single read measures nothing."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        program.log.append(f"began at {time.time():.0f}")
        program.warm_up()
        audit.claim(tokens=PASSES, seconds=program.timed_s())
    assert_right(audit.result)


def test_records_of_the_logging_library_are_not_reads_of_the_test(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    """Its clock reads are its own."""
    logger = logging.getLogger("decode")
    with caplog.at_level(logging.INFO, "decode"), program.roofline.audit(traffic=WEIGHTS) as audit:
        logger.info("begin")
        program.warm_up()
        seconds = program.timed_s()
        logger.info("end")
        audit.claim(tokens=PASSES, seconds=seconds)
    assert caplog.messages == ["begin", "end"]
    assert_right(audit.result)


def test_two_log_lines_around_reads_that_are_the_claim(program: Program) -> None:
    """Four reads: the inner pair is found by the seconds that were claimed."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        began = time.perf_counter()
        program.warm_up()
        start = time.perf_counter()
        program.passes(PASSES)
        program.backend.synchronize()
        seconds = time.perf_counter() - start
        program.log.append(f"the whole run took {time.perf_counter() - began:.1f} s")
        audit.claim(tokens=PASSES, seconds=seconds)
    assert_right(audit.result)


def test_log_lines_of_two_clocks_do_not_hide_the_events(program: Program) -> None:
    """They are no pair; the events that were claimed are."""
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        program.log.append(f"began at {time.time():.0f}")
        program.warm_up()
        seconds = program.timed_s()
        program.log.append(f"ended at {time.monotonic():.0f}")
        audit.claim(tokens=PASSES, seconds=seconds)
    assert_right(audit.result)


# -- what the rule is for -------------------------------------------------------------------------------------------


def test_a_claim_of_a_tenth_of_the_time_that_was_read_is_bogus(program: Program) -> None:
    """Whatever becomes of the rule: two reads around the loop and another figure claimed stays impossible."""
    with pytest.raises(BogusMeasurement, match="claimed, but"), program.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        program.passes(PASSES)
        program.backend.synchronize()
        audit.claim(tokens=PASSES, seconds=(time.perf_counter() - start) / 10)
