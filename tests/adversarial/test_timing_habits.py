"""How people time their loops: tools of the standard library, sorted samples, generators, clocks by number.

Honest ones are believed whatever they use; the same habit with a missing wait is found.
"""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9
PASSES = 32
SAMPLES = 9


class Program:
    """A decode loop on a fake device, honest at 80 % of its memory, in an audit that knows no traffic."""

    def __init__(self) -> None:
        self.backend = FakeBackend(queue_depth=100_000)
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]), Settings())

    def run(self, count: int = PASSES, *, waits: bool = True) -> None:
        """So many passes, and a wait for them."""
        for _ in range(count):
            self.model.step()
        if waits:
            self.backend.synchronize()

    def samples(self, *, waits: bool) -> list[float]:
        """Seconds of a few loops, each timed by itself."""
        times = []
        for _ in range(SAMPLES):
            start = time.perf_counter()
            self.run(waits=waits)
            times.append(time.perf_counter() - start)
        self.backend.synchronize()
        return times


def _sorted(program: Program, *, waits: bool) -> dict[str, Any]:
    times = sorted(program.samples(waits=waits))
    return {"tokens_per_s": PASSES / statistics.median(times), "samples": times}


def _trimmed(program: Program, *, waits: bool) -> dict[str, Any]:
    times = sorted(program.samples(waits=waits))[1:-1]
    return {"tokens_per_s": PASSES / statistics.median(times), "samples": times}


def _timeit_once(program: Program, *, waits: bool) -> dict[str, Any]:
    seconds = timeit.timeit(lambda: program.run(1, waits=waits), number=PASSES)
    program.backend.synchronize()
    return {"tokens": PASSES, "seconds": seconds}


def _timeit_best(program: Program, *, waits: bool) -> dict[str, Any]:
    times = timeit.repeat(lambda: program.run(1, waits=waits), number=PASSES, repeat=3)
    program.backend.synchronize()
    return {"tokens": PASSES, "seconds": min(times)}


def _timeit_code(program: Program, *, waits: bool) -> dict[str, Any]:
    timer = timeit.Timer("run(1, waits=waits)", globals={"run": program.run, "waits": waits})
    seconds = timer.timeit(PASSES)
    program.backend.synchronize()
    return {"tokens": PASSES, "seconds": seconds}


HABITS = [_sorted, _trimmed, _timeit_once, _timeit_best, _timeit_code]


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_with_a_wait_is_believed(habit: Callable[..., dict[str, Any]]) -> None:
    """Nothing is found, not even a note of reads that fit no claim."""
    program = Program()
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        program.run(2)
        audit.claim(**habit(program, waits=True))
    assert audit.result.verdict.outcome == "passed"
    assert [finding.check for finding in audit.result.findings] == []
    assert not any("no clock read" in note for note in audit.result.notes)


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_without_a_wait_is_bogus(habit: Callable[..., dict[str, Any]]) -> None:
    """Also where everything was waited for before the claim, so that nothing is left over by then."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo, program.roofline.audit() as audit:
        program.run(2)
        audit.claim(**habit(program, waits=False))
    assert excinfo.value.verdict is not None
    assert excinfo.value.verdict.of("bogus")[0].check == "not-drained"


# -- passes that run behind the window --------------------------------------------------------------------------------


def tokens_of(step: Callable[[], Any]) -> Iterator[Any]:
    """A generator of tokens, which runs nothing until it is consumed."""
    for _ in range(PASSES):
        yield step()


def test_a_generator_consumed_behind_the_window_is_no_rate() -> None:
    """The time of making it was claimed, and the watch saw the passes run later."""
    program = Program()
    with program.roofline.audit() as audit:
        step = audit.watch(program.model.step)
        start = time.perf_counter()
        tokens = tokens_of(step)
        seconds = time.perf_counter() - start
        assert len(list(tokens)) == PASSES
        audit.claim(tokens=PASSES, seconds=seconds + 1e-9)
    (finding,) = audit.result.verdict.of("inconclusive")
    assert finding.check == "tokens-disagree"
    assert (
        f"in which none of the watched passes began: {PASSES} of them began after the clock was stopped"
        in finding.message
    )
    assert "a generator or a future that was made, and consumed later" in finding.message
    assert "consume what runs the passes before the clock is stopped" in finding.remedy


def test_a_generator_consumed_in_the_window_is_believed() -> None:
    """The same with the list inside."""
    program = Program()
    with program.roofline.audit() as audit:
        step = audit.watch(program.model.step)
        start = time.perf_counter()
        assert len(list(tokens_of(step))) == PASSES
        program.backend.synchronize()
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "passed"


def test_futures_that_are_not_awaited_say_what_ran_later() -> None:
    """A worker that waits for its turn runs most of the passes behind the stop."""
    program = Program()
    with program.roofline.audit() as audit, ThreadPoolExecutor(1) as worker:
        step = audit.watch(program.model.step)
        start = time.perf_counter()
        step()
        program.backend.synchronize()
        seconds = time.perf_counter() - start
        for future in [worker.submit(step) for _ in range(PASSES - 1)]:
            future.result()
        audit.claim(tokens=PASSES, seconds=seconds)
    (finding,) = audit.result.verdict.of("inconclusive")
    assert f"({PASSES - 1} watched passes began after the clock was stopped)" in finding.message


@pytest.mark.parametrize("behind", [0, 3])
def test_work_that_is_not_watched_may_fill_the_window(behind: int) -> None:
    """A step that was watched while it was captured, and a check or two of it behind replays that nobody watches."""
    program = Program()
    with program.roofline.audit() as audit:
        step = audit.watch(program.model.step)
        for _ in range(3):
            step()
        program.backend.synchronize()
        start = time.perf_counter()
        program.run()
        seconds = time.perf_counter() - start
        for _ in range(behind):
            step()
        audit.claim(tokens=PASSES, seconds=seconds)
    assert audit.result.verdict.outcome == "passed"


# -- on a busy machine ------------------------------------------------------------------------------------------------


class Busy(FakeBackend):
    """A fake device behind a thread that is taken off its processor for 20 ms in every wait."""

    late_s = 20e-3

    def drain(self) -> None:
        """Wait, and get the processor back late."""
        super().drain()
        if self.is_busy:
            self.host(self.late_s)
            self.is_busy = False

    is_busy = False


def busy_program() -> Program:
    """Its short loops take no longer than the thread is kept waiting."""
    program = Program()
    program.backend = Busy(queue_depth=100_000)
    program.model = FakeModel(program.backend, WEIGHTS / 50, efficiency=0.8)
    program.roofline = Instrument(Session(added_backends=[program.backend]), Settings())
    return program


def test_a_wait_that_only_held_up_the_thread_is_no_work_of_the_device() -> None:
    """A clock that nobody sees, drained, and a claim whose own wait took 20 ms: markers say that nothing was left."""
    program = busy_program()
    assert isinstance(program.backend, Busy)
    with program.roofline.audit() as audit:
        start = program.backend.clock()
        program.run()
        seconds = program.backend.clock() - start
        program.backend.is_busy = True
        audit.claim(tokens=PASSES, seconds=seconds)
    assert audit.result.verdict.outcome == "passed"


def test_what_was_left_over_is_found_behind_a_busy_thread() -> None:
    """The same without a wait in the window."""
    program = busy_program()
    assert isinstance(program.backend, Busy)
    with pytest.raises(BogusMeasurement, match="missing synchronization"), program.roofline.audit() as audit:
        start = program.backend.clock()
        program.run(waits=False)
        seconds = program.backend.clock() - start
        program.backend.is_busy = True
        audit.claim(tokens=PASSES, seconds=seconds)


@pytest.mark.parametrize("windows", [1, 4])
def test_a_stated_window_ends_when_the_device_is_done(windows: int) -> None:
    """Not when the thread that waited for it runs again."""
    program = busy_program()
    assert isinstance(program.backend, Busy)
    seconds = 0.0
    with program.roofline.audit() as audit:
        for _ in range(windows):
            with audit.window():
                start = program.backend.clock()
                program.run()
                seconds += program.backend.clock() - start
                program.backend.is_busy = True
        audit.claim(tokens=windows * PASSES, seconds=seconds)
    assert audit.result.verdict.outcome == "passed"
    assert [finding.check for finding in audit.result.findings] == []


def test_a_clock_inside_a_stated_window_may_start_late() -> None:
    """By what a busy interpreter takes, nobody is accused; by more, a part of the window was left out."""
    for late_s, outcome in ((50e-6, "passed"), (0.8e-3, "inconclusive")):
        program = busy_program()
        with program.roofline.audit() as audit:
            with audit.window():
                program.backend.host(late_s)
                start = program.backend.clock()
                program.run()
                seconds = program.backend.clock() - start
            audit.claim(tokens=PASSES, seconds=seconds)
        assert audit.result.verdict.outcome == outcome
    assert "of it for a processor or the interpreter" in audit.result.findings[0].message
    program = busy_program()
    with pytest.raises(BogusMeasurement, match="only part of the time counted"), program.roofline.audit() as audit:
        with audit.window():
            program.run(4 * PASSES)
            start = program.backend.clock()
            program.run()
            seconds = program.backend.clock() - start
        audit.claim(tokens=5 * PASSES, seconds=seconds)
