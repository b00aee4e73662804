"""A process that is stopped in the middle: neither a failure nor an accusation, and no excuse for anything else."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from court import audit
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.backends.pulse import LEAST_S, PERIOD_S, ProcessPulse, gap
from pytest_roofline.checks.claimed import Window
from pytest_roofline.checks.suspension import suspended
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Budget, Settings
from pytest_roofline.stops import stops_around
from pytest_roofline.verdict import judge

PASSES = 40


def audited(stop: Callable[[FakeBackend, str], None], *, at_least: float = 0.6, efficiency: float = 0.8) -> Result:
    """An honest loop of 40 passes on the fake, stopped by `stop` at the places that it is called for."""
    backend = FakeBackend()
    model = FakeModel(backend, weight_bytes=2e9, efficiency=efficiency)
    budget = Settings(at_least=Budget(by_pattern=(("*", at_least),)))
    roofline = Instrument(Session(added_backends=[backend]), budget)
    with roofline.audit(model=model) as audit:
        stop(backend, "before")
        start = time.perf_counter()
        for number in range(PASSES):
            if number == PASSES // 2:
                stop(backend, "inside")
            model.step()
        backend.synchronize()
        elapsed = time.perf_counter() - start
        stop(backend, "behind")
        audit.claim(tokens=PASSES, seconds=elapsed)
    return audit.result


def at(place: str, seconds: float) -> Callable[[FakeBackend, str], None]:
    """Stops the process there for so long."""
    return lambda backend, where: backend.suspend(seconds) if where == place else None


def test_without_a_stop_nothing_is_said() -> None:
    """The loop passes, and its findings know of no stop."""
    result = audited(lambda backend, where: None)
    assert result.verdict.outcome == "passed"
    assert not [one for one in result.findings if "did not run" in one.message]


def test_a_stop_inside_the_window_is_no_failure() -> None:
    """The stop explains the miss: inconclusive, with how long it was and what the fraction may be without it."""
    result = audited(at("inside", 0.5))
    assert result.verdict.outcome == "inconclusive"
    assert result.fraction < 0.6
    (finding,) = result.verdict.of("inconclusive")
    assert finding.check == "device-shared"
    assert "the process did not run for 500 ms of the window of " in finding.message
    assert finding.figures["suspended_s"] == pytest.approx(0.5)


def test_a_stop_that_does_not_explain_the_miss_excuses_nothing() -> None:
    """A loop at 20 % that was stopped for a moment stays below 60 %."""
    result = audited(at("inside", 0.1), efficiency=0.2)
    assert result.verdict.outcome == "failed"
    assert result.verdict.of("note")


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_stop_outside_the_window_changes_nothing(place: str) -> None:
    """It is in no window; behind a drained window it is no leftover either."""
    assert audited(at(place, 0.5)).verdict.outcome == "passed"


def test_an_assert_in_the_test_is_undecided_as_well() -> None:
    """Without a budget the fraction itself knows that it lies between the two."""
    result = audited(at("inside", 0.5), at_least=0.01)
    assert result.fraction.bounds.clears(0.6) is None
    assert result.fraction.bounds.high <= 1.0


def test_a_queue_that_was_not_drained_stays_bogus() -> None:
    """A stop inside the window excuses no clock that was stopped too early."""
    backend = FakeBackend()
    model = FakeModel(backend, weight_bytes=2e9)
    roofline = Instrument(Session(added_backends=[backend]))

    def cheat() -> None:
        with roofline.audit(model=model) as audit:
            start = time.perf_counter()
            for number in range(PASSES):
                if number == 1:
                    backend.suspend(2e-3)
                model.step()
            audit.claim(tokens=PASSES, seconds=time.perf_counter() - start)

    with pytest.raises(BogusMeasurement):
        cheat()


@pytest.mark.parametrize("claim", ["inside", "late"])
def test_a_stop_behind_the_work_excuses_no_missing_drain(claim: str) -> None:
    """The device had finished long before the process was stopped: what was left over, was."""
    backend = FakeBackend()
    model = FakeModel(backend, weight_bytes=2e9)
    roofline = Instrument(Session(added_backends=[backend]))

    def cheat() -> None:
        with roofline.audit(model=model) as audit:
            start = time.perf_counter()
            for _ in range(PASSES):
                model.step()
            elapsed = time.perf_counter() - start
            backend.synchronize()
            backend.suspend(0.5)
            if claim == "inside":
                audit.claim(tokens=PASSES, seconds=elapsed)
                return
        backend.suspend(0.5)
        audit.claim(tokens=PASSES, seconds=elapsed)

    with pytest.raises(BogusMeasurement, match="missing synchronization"):
        cheat()


def ledger_of(*, bounds: tuple[tuple[float, float], ...], leftover_s: float, entry_s: float) -> Any:
    """What is asked of a ledger: where its window was, what was left over, and when it was claimed."""
    window = Window(window_s=1.0, leftover_s=leftover_s, idle_drain_s=0.0, passes=10)
    return SimpleNamespace(window=window, bounds=bounds, entry_s=entry_s)


@pytest.mark.parametrize(
    ("gap", "inside_s", "late_s"),
    [
        ((0.2, 0.6), 0.4, 0.0),  # in the first of two laps
        ((0.9, 1.2), 0.1, 0.2),  # across its end
        ((1.1, 2.2), 0.2, 0.4),  # from its leftover into the second lap
        ((1.6, 1.9), 0.0, 0.0),  # between the two, when nothing was left over any more
        ((2.9, 3.2), 0.1, 0.2),
        ((4.0, 6.0), 0.0, 0.0),  # before the claim
        ((6.5, 8.5), 0.0, 0.5),  # while it was evaluated, of which no more counts than was left over
    ],
)
def test_a_gap_explains_what_it_touches(gap: tuple[float, float], inside_s: float, late_s: float) -> None:
    """Two laps of a second, half a second left over behind each, claimed at 7 s."""
    ledger = ledger_of(bounds=((0.0, 1.0), (2.0, 3.0)), leftover_s=0.5, entry_s=7.0)
    stops = stops_around(ledger, [gap])
    assert [stops.inside_s, stops.late_s] == pytest.approx([inside_s, late_s])


def test_a_gap_at_a_claim_whose_window_nobody_saw_was_behind_it() -> None:
    """An earlier one may have been in the window."""
    ledger = ledger_of(bounds=(), leftover_s=2.0, entry_s=7.0)
    stops = stops_around(ledger, [(1.0, 1.5), (6.8, 8.0)])
    assert [stops.inside_s, stops.late_s] == pytest.approx([0.7, 1.0])


def test_a_pulse_says_nothing_of_the_time_after_its_end() -> None:
    """A claim may come long after the audit was left: nobody looked meanwhile, so that it is no gap."""
    now = [0.0]
    pulse = ProcessPulse(lambda: now[0], used=lambda: 0.0)
    try:
        now[0] = 5.0
        (seen,) = pulse.gaps()  # whether or not its thread has seen it too
        assert seen[1] - seen[0] == pytest.approx(5.0 - PERIOD_S)
    finally:
        pulse.close()
    now[0] = 100.0
    assert len(pulse.gaps()) == 1
    pulse.close()
    pulse._thread.join(30)
    assert not pulse._thread.is_alive()


def test_without_a_thread_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a container allows no further process an audit goes on, and no gap is claimed."""
    now = [0.0]

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pulse = ProcessPulse(lambda: now[0], used=lambda: 0.0)
    now[0] = 5.0
    assert pulse.gaps() == ()
    pulse.close()
    assert pulse.gaps() == ()


def test_one_stop_among_the_blocks_of_a_measurement_is_an_outlier() -> None:
    """It is kept among the samples, and the verdict is that of the others."""
    backend = FakeBackend()
    model = FakeModel(backend, weight_bytes=2e9, efficiency=0.8)
    calls: list[int] = []

    def step() -> object:
        calls.append(1)
        if len(calls) == 30:
            backend.suspend(2.0)
        return model.step()

    budget = Settings(at_least=Budget(by_pattern=(("*", 0.6),)))
    result = Instrument(Session(added_backends=[backend]), budget).decode(step, traffic=2e9)
    assert len(calls) > 30
    assert result.verdict.outcome == "passed"
    assert 0.78 < result.fraction < 0.82


@given(st.floats(0, 1e4), st.floats(0, 1e3), st.floats(0, 1e3), st.integers(1, 256))
@settings(max_examples=60)
def test_what_counts_as_a_gap(begun_s: float, length_s: float, used_s: float, cores: int) -> None:
    """Long, and without work of the process; it never begins before the last look."""
    found = gap(begun_s, begun_s + length_s, used_s, cores)
    if found is None:
        assert length_s - PERIOD_S < LEAST_S * 1.001 or used_s > 0.029 * (length_s - PERIOD_S)
    else:
        assert begun_s <= found[0] < found[1] <= begun_s + length_s
        assert used_s <= 0.31 * (found[1] - found[0])


def test_a_busy_machine_is_no_stop() -> None:
    """On two cores with a tenth of them, or while one thread keeps the interpreter for itself: the process ran."""
    assert gap(0.0, 0.5, 0.5 * 2 * 0.1, 2) is None
    assert gap(0.0, 2.0, 2.0, 64) is None
    assert gap(0.0, 0.5, 0.02, 2) is not None


PULSE = """
import sys, time
from pytest_roofline.backends.pulse import ProcessPulse
pulse = ProcessPulse(time.perf_counter)
print("ready", flush=True)
sys.stdin.readline()
print(sum(end - start for start, end in pulse.gaps()), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "WUNTRACED"), reason="no job control here")
def test_a_process_that_was_stopped_knows_it() -> None:
    """SIGSTOP and SIGCONT, on real clocks: the gap is as long as the stop, give or take what the machine adds."""
    with subprocess.Popen(
        [sys.executable, "-c", PULSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        select.select([], [], [], 0.4)  # the stop itself has to last
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        stopped_s = float(process.stdout.readline())
    assert stopped_s > 0.3


def test_a_miss_is_still_a_miss() -> None:
    """The budget is judged as before where nothing was stopped."""
    result = audited(lambda backend, where: None, efficiency=0.3)
    assert result.verdict.outcome == "failed"


def test_allowing_neighbours_is_not_allowing_an_open_clock() -> None:
    """A stop behind the window is told as a drain that nobody could watch: only `not-drained` allows that."""
    evidence = replace(audit(), suspended_late_s=0.2)
    finding = suspended(evidence)
    assert finding is not None
    assert (finding.check, finding.severity) == ("not-drained", "inconclusive")
    assert judge(replace(evidence, allow=frozenset({"device-shared"})), 0.8).outcome == "inconclusive"
    assert judge(replace(evidence, allow=frozenset({"not-drained"})), 0.8).outcome == "passed"
