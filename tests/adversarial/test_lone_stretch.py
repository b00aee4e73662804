"""Programs that time one stretch in sight of the audit and claim another time, by a clock that nobody can see.

A lone pair of device events, or of clock reads, may be the stretch that was claimed, badly computed; or it is a log
line's, and the claim is honest. What the device can do decides where nothing else does: an impossible claim is told
with the arithmetic of the only stretch that was timed, a possible one is never accused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeEvent, FakeModel
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9
PASSES = 32
PASS_S = 5e-3
"""At 80 % of the fake device's 1 TB/s."""


class Program:
    """A decode loop on a fake device, honest at 80 % of it, and a clock that no audit sees."""

    def __init__(self) -> None:
        self.backend = FakeBackend()
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]), Settings())
        self.unseen = self.backend.clock

    def run(self, count: int = PASSES) -> None:
        """So many passes, drained."""
        for _ in range(count):
            self.model.step()
        self.backend.synchronize()

    def unseen_s(self, count: int = PASSES) -> float:
        """Seconds of so many passes by the clock that nobody sees."""
        start = self.unseen()
        self.run(count)
        return self.unseen() - start

    def events(self, work: Callable[[], object], stream: str | None = None) -> tuple[FakeEvent, FakeEvent]:
        """Two events around some work."""
        first, last = self.backend.event(), self.backend.event()
        first.record() if stream is None else first.record(stream)
        work()
        last.record() if stream is None else last.record(stream)
        last.synchronize()
        return first, last

    def events_s(self, work: Callable[[], object]) -> float:
        """Their time."""
        first, last = self.events(work)
        return first.elapsed_s(last)


# -- honest: the events are a log line's ----------------------------------------------------------------------------


def _long_warm_up(program: Program) -> dict[str, Any]:
    program.events_s(lambda: program.run(3 * PASSES))
    return {"seconds": program.unseen_s()}


def _first_pass(program: Program) -> dict[str, Any]:
    program.events_s(lambda: program.run(1))
    return {"seconds": program.unseen_s()}


def _around_everything(program: Program) -> dict[str, Any]:
    first, last = program.backend.event(), program.backend.event()
    first.record()
    program.run()
    seconds = program.unseen_s()
    last.record()
    last.synchronize()
    first.elapsed_s(last)
    return {"seconds": seconds}


def _compilation(program: Program) -> dict[str, Any]:
    program.events_s(lambda: program.backend.host(2.0))
    return {"seconds": program.unseen_s()}


def _one_of_many(program: Program) -> dict[str, Any]:
    start = program.unseen()
    program.run(10)
    program.events_s(lambda: program.run(1))
    program.run(PASSES - 11)
    return {"seconds": program.unseen() - start}


def _never_read(program: Program) -> dict[str, Any]:
    program.events(lambda: program.run(3 * PASSES))
    return {"seconds": program.unseen_s()}


def _several(program: Program) -> dict[str, Any]:
    for count in (7, 40, 90):
        program.events_s(partial(program.run, count))
    return {"seconds": program.unseen_s()}


def _another_stream(program: Program) -> dict[str, Any]:
    first, last = program.events(lambda: program.run(3 * PASSES), stream="copies")
    first.elapsed_s(last)
    return {"seconds": program.unseen_s()}


def _behind_the_loop(program: Program) -> dict[str, Any]:
    seconds = program.unseen_s()
    program.events_s(lambda: program.run(3 * PASSES))
    return {"seconds": seconds}


def _log_lines_too(program: Program) -> dict[str, Any]:
    time.perf_counter()
    program.events_s(lambda: program.run(3 * PASSES))
    seconds = program.unseen_s()
    time.perf_counter()
    return {"seconds": seconds}


def _a_rate(program: Program) -> dict[str, Any]:
    program.events_s(lambda: program.run(3 * PASSES))
    return {"tokens_per_s": PASSES / program.unseen_s()}


def _samples(program: Program) -> dict[str, Any]:
    program.events_s(lambda: program.run(3 * PASSES))
    samples = [program.unseen_s(4) for _ in range(8)]
    return {"tokens": None, "tokens_per_s": 4 / sorted(samples)[4], "samples": samples}


def _rounded_up(program: Program) -> dict[str, Any]:
    program.backend.host(0.1)  # an audit that is shorter than its claim is another matter
    return {"seconds": 1.25 * program.events_s(program.run)}


def _of_one_stream_at_work(program: Program) -> dict[str, Any]:
    first, last = program.backend.event(), program.backend.event()
    first.record()
    start = program.unseen()
    program.run()
    seconds = program.unseen() - start
    program.backend.host(1.0)
    last.record()
    last.synchronize()
    first.elapsed_s(last)
    return {"seconds": seconds}


HONEST = (
    _long_warm_up,
    _first_pass,
    _around_everything,
    _compilation,
    _one_of_many,
    _never_read,
    _several,
    _another_stream,
    _behind_the_loop,
    _log_lines_too,
    _a_rate,
    _samples,
    _rounded_up,
    _of_one_stream_at_work,
)


@pytest.mark.parametrize("traffic", [WEIGHTS, None], ids=["bytes", "no bytes"])
@pytest.mark.parametrize("body", HONEST, ids=lambda body: body.__name__.strip("_"))
def test_events_of_a_log_line_accuse_nobody(body: Callable[[Program], dict[str, Any]], traffic: float | None) -> None:
    """Each is measured rightly, by a clock that the audit cannot see; at worst its window is not known."""
    program = Program()
    with program.roofline.audit(traffic=traffic) as audit:
        audit.claim(**{"tokens": PASSES, **body(program)})
    assert audit.result.verdict.outcome in ("passed", "inconclusive")
    assert not audit.result.verdict.of("bogus")


# -- cheats: the events are what was claimed, badly computed ---------------------------------------------------------


@pytest.mark.parametrize(
    "of",
    [
        lambda seconds: 1e-9,
        lambda seconds: seconds % (seconds / 3.5),
        lambda seconds: seconds / 7,
        lambda seconds: seconds / 2,
        lambda seconds: seconds - 0.9 * seconds,
    ],
    ids=["clamped", "wrapped", "a seventh", "half", "less an overhead"],
)
def test_an_impossible_time_made_of_events_is_told_with_theirs(of: Callable[[float], float]) -> None:
    """The first finding names the events' line and time, and the rate that they allow."""
    program = Program()
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit(traffic=WEIGHTS) as audit:
        audit.claim(tokens=PASSES, seconds=of(program.events_s(program.run)))
    verdict = excinfo.value.verdict
    assert verdict is not None
    first = verdict.of("bogus")[0]
    assert first.check in ("claim-exceeds-closed-time", "clock-disagrees")
    assert first.figures["claimed_tokens_per_s"] > 1.9 * first.figures["possible_tokens_per_s"]
    assert "test_lone_stretch.py:" in first.message
    assert "32 tokens" in first.message


def test_a_patched_event_is_told_by_its_records() -> None:
    """The method was replaced and put back before the claim: the two records remain."""
    program, real = Program(), FakeEvent.elapsed_s
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit(traffic=WEIGHTS) as audit:
        with mock.patch.object(FakeEvent, "elapsed_s", lambda self, end: real(self, end) / 7):
            seconds = program.events_s(program.run)
        audit.claim(tokens=PASSES, seconds=seconds)
    verdict = excinfo.value.verdict
    assert verdict is not None
    assert verdict.of("bogus")[0].message.startswith(
        "1,400 tok/s claimed, 32 tokens in 22.9 ms, but the only stretch that was timed took 160 ms: 32 tokens in that "
        "are 200 tok/s (7x less)"
    )
    assert "a patched event or clock" in str(excinfo.value)


# -- two reads of a clock --------------------------------------------------------------------------------------------


def _log_of_a_compilation(program: Program) -> float:
    time.perf_counter()
    program.backend.host(2.0)
    time.perf_counter()
    return program.unseen_s()


def _log_of_a_warm_up(program: Program) -> float:
    time.perf_counter()
    program.run(3 * PASSES)
    time.perf_counter()
    return program.unseen_s()


def _log_of_a_queue(program: Program) -> float:
    time.perf_counter()
    for _ in range(3 * PASSES):
        program.model.step()
    time.perf_counter()
    program.backend.synchronize()
    return program.unseen_s()


def _slower_than_the_log(program: Program) -> float:
    time.perf_counter()
    seconds = program.unseen_s()
    time.perf_counter()
    return 1.3 * seconds


def _as_long_as_the_log(program: Program) -> float:
    time.perf_counter()
    seconds = program.unseen_s()
    time.perf_counter()
    return seconds


@pytest.mark.parametrize("traffic", [WEIGHTS, None], ids=["bytes", "no bytes"])
@pytest.mark.parametrize(
    "body",
    [_log_of_a_compilation, _log_of_a_warm_up, _log_of_a_queue, _slower_than_the_log, _as_long_as_the_log],
    ids=lambda body: body.__name__.strip("_"),
)
def test_two_log_lines_before_an_unseen_clock_accuse_nobody(
    body: Callable[[Program], float], traffic: float | None
) -> None:
    """There is room behind the log lines for the whole claim, or it gains nothing over them."""
    program = Program()
    with program.roofline.audit(traffic=traffic) as audit:
        audit.claim(tokens=PASSES, seconds=body(program))
    assert audit.result.verdict.outcome in ("passed", "inconclusive")


@pytest.mark.parametrize("factor", [1.05, 1.3, 2, 10, 1000])
def test_two_reads_and_a_claim_right_behind_them_are_the_window(factor: float) -> None:
    """No room for another stretch: a wrong divisor is bogus, however little it gains, without any bytes."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="claimed, but"), program.roofline.audit(traffic=None) as audit:
        program.run(10)
        start = time.perf_counter()
        program.run()
        audit.claim(tokens=PASSES, seconds=(time.perf_counter() - start) / factor)


def test_room_behind_the_reads_saves_no_impossible_claim() -> None:
    """A second is spent on checking the outputs, a tenth of the time is claimed: told with the time that was read."""
    program = Program()
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        program.run()
        seconds = time.perf_counter() - start
        program.backend.host(1.0)
        audit.claim(tokens=PASSES, seconds=seconds / 10)
    verdict = excinfo.value.verdict
    assert verdict is not None
    assert verdict.of("bogus")[0].check == "claim-exceeds-closed-time"
    assert "2,000 tok/s claimed, 32 tokens in 16.0 ms, but the only stretch that was timed took 160 ms" in str(
        excinfo.value
    )


def test_no_stretch_behind_the_reads_is_shorter_than_its_calls() -> None:
    """A time clamped to a nanosecond fits into any room, and no 32 passes into it."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="claimed, but"), program.roofline.audit(traffic=None) as audit:
        time.perf_counter()
        program.run()
        time.perf_counter()
        program.backend.host(1.0)
        audit.claim(tokens=PASSES, seconds=1e-9)


_partial_clock = partial(time.perf_counter)


def test_a_clock_in_a_partial_is_seen() -> None:
    """So the four reads tell the window, and a claim of a third of it has none."""
    program = Program()
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        time.perf_counter()
        program.backend.host(2.0)
        time.perf_counter()
        start = _partial_clock()
        program.run()
        seconds = _partial_clock() - start
        audit.claim(tokens=PASSES, seconds=seconds)
    assert audit.result.verdict.outcome == "passed"
    assert audit.result.evidence.reads == 4
    assert isinstance(_partial_clock, partial)
    assert _partial_clock.func is time.perf_counter
