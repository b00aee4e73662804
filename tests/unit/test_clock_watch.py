"""Reads of host clocks by the test's code: which are seen, what they are worth, and that all is put back."""

from __future__ import annotations

import logging
import sys
import time
import timeit
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import monotonic

import pytest

from pytest_roofline.clock_watch import MOST_MARKERS, ClockWatch, Stamp, drifts, host_clocks
from pytest_roofline.protocol import WatchedClock

_early_bound: Callable[[], float] = time.perf_counter


def watch(**changes: object) -> ClockWatch:
    """A watch over this module, on the machine's own clock."""
    frame = sys._getframe(1)
    arguments = {"private": _early_bound, "mark": lambda: (), "clocks": host_clocks(), "frame": frame, **changes}
    return ClockWatch(**arguments)  # type: ignore[arg-type]


def closure_reader() -> Callable[[], float]:
    """A function that holds a clock in its closure."""
    clock = time.monotonic_ns

    def read() -> float:
        return clock() * 1e-9

    return read


_closure_read = closure_reader()


def test_reads_through_the_module_are_noted_with_their_line() -> None:
    """`time.perf_counter()` is seen: its value lies between the private readings around it."""
    watched = watch()
    watched.start()
    value = time.perf_counter()
    watched.stop()
    (read,) = watched.reads()
    assert read.clock == "time.perf_counter"
    assert read.value_s == value
    assert read.private_low_s <= value <= read.private_high_s
    assert read.where.startswith("test_clock_watch.py:")


def test_nanosecond_clocks_are_worth_seconds() -> None:
    """A read of `perf_counter_ns` is noted in seconds."""
    watched = watch()
    watched.start()
    value = time.perf_counter_ns()
    watched.stop()
    assert watched.reads()[0].value_s == pytest.approx(value * 1e-9, rel=1e-12)


def test_names_imported_into_the_module_and_closures_are_seen() -> None:
    """A from-import in the test module, `timeit.default_timer` and a clock in a closure are watched too."""
    watched = watch()
    watched.start()
    monotonic()
    timeit.default_timer()
    _closure_read()
    watched.stop()
    assert [read.clock for read in watched.reads()] == ["time.monotonic", "time.perf_counter", "time.monotonic_ns"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in Python 3.12")
def test_a_clock_bound_before_the_audit_is_seen_by_monitoring() -> None:
    """A local name that holds the real clock is caught as a call, with the moment for its value."""
    early = time.perf_counter
    watched = watch()
    watched.start()
    value = early()
    watched.stop()
    (read,) = watched.reads()
    assert read.clock == "time.perf_counter"
    assert read.value_s == pytest.approx(value, abs=1.0)
    assert sys.monitoring.get_tool(4) is None


def test_reads_by_libraries_are_not_the_tests() -> None:
    """What the standard library reads for itself is not noted."""
    watched = watch()
    watched.start()
    record = logging.makeLogRecord({"msg": "x"})
    watched.stop()
    assert record.created
    assert watched.reads() == ()


def test_what_timeit_times_is_the_tests() -> None:
    """Its loop is made of the test's code, and its clock a default argument; both are as they were afterwards."""
    before = (timeit.Timer.__init__.__defaults__, timeit.timeit.__defaults__, timeit.repeat.__defaults__)
    watched = watch()
    watched.start()
    seconds = timeit.timeit("pass", number=3)
    times = timeit.repeat(lambda: None, number=3, repeat=2)
    watched.stop()
    reads = watched.reads()
    assert [read.clock for read in reads] == ["time.perf_counter"] * 6
    values = [read.value_s or 0.0 for read in reads]
    assert [later - earlier for earlier, later in zip(values[::2], values[1::2], strict=True)] == [seconds, *times]
    after = (timeit.Timer.__init__.__defaults__, timeit.timeit.__defaults__, timeit.repeat.__defaults__)
    assert all(one is other for one, other in zip(before, after, strict=True))
    timeit.timeit("pass", number=3)
    assert len(watched.reads()) == 6


@pytest.mark.skipif(not hasattr(time, "clock_gettime"), reason="this system has no clock_gettime")
def test_clocks_by_number_are_told_apart() -> None:
    """`clock_gettime` has many clocks; the processor's time goes by the name that it has elsewhere."""
    watched = watch(processor_s=time.process_time)
    watched.start()
    values = [
        time.clock_gettime(time.CLOCK_MONOTONIC),
        time.clock_gettime_ns(time.CLOCK_MONOTONIC) * 1e-9,
        time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID),
        time.process_time(),
    ]
    watched.stop()
    number = time.CLOCK_MONOTONIC
    reads = watched.reads()
    names = [f"time.clock_gettime({number})", f"time.clock_gettime_ns({number})", *["time.process_time"] * 2]
    assert [read.clock for read in reads] == names
    assert [read.value_s for read in reads] == pytest.approx(values, rel=1e-12)
    assert [read.cpu_s is not None for read in reads] == [False, False, True, True]
    assert time.clock_gettime(number) >= values[0]


def test_everything_is_put_back() -> None:
    """After stop, modules, globals and closures hold the real clocks again."""
    before = (time.perf_counter, timeit.default_timer, monotonic, _closure_read.__closure__[0].cell_contents)  # type: ignore[index]
    watched = watch()
    watched.start()
    assert time.perf_counter is not before[0]
    watched.stop()
    after = (time.perf_counter, timeit.default_timer, monotonic, _closure_read.__closure__[0].cell_contents)  # type: ignore[index]
    assert all(new is old for new, old in zip(after, before, strict=True))


def test_a_wrapper_that_outlives_its_audit_passes_straight_through() -> None:
    """A name that kept the wrapper still tells the time, and notes nothing."""
    watched = watch()
    watched.start()
    kept = time.perf_counter
    watched.stop()
    assert kept() <= _early_bound()
    assert watched.count == 0


def test_a_clock_that_was_patched_over_the_wrapper_stays() -> None:
    """What somebody else put in place during the audit is theirs to take back."""
    real = time.perf_counter
    watched = watch()
    watched.start()

    def patched() -> float:
        return 1.0

    time.perf_counter = patched
    try:
        watched.stop()
        assert time.perf_counter is patched
    finally:
        time.perf_counter = real


def test_two_audits_may_nest() -> None:
    """The outer watch sees the reads of the inner one's body, and both end where they began."""
    real = time.perf_counter
    outer, inner = watch(), watch()
    outer.start()
    inner.start()
    time.perf_counter()
    inner.stop()
    outer.stop()
    assert inner.count == 1
    assert time.perf_counter is real


def test_old_markers_are_settled_not_forgotten() -> None:
    """A loop that reads the clock ten thousand times does not hold ten thousand markers, and loses no leftover."""

    asked = 0

    class Marker:
        """One that is done at once."""

        def finished_s(self) -> float:
            """Long ago."""
            nonlocal asked
            asked += 1
            return 0.0

    watched = watch(mark=lambda: (Marker(),))
    watched.start()
    for _ in range(MOST_MARKERS + 50):
        time.perf_counter()
    watched.stop()
    assert asked == 50
    assert all(read.finished_s == 0.0 for read in watched.reads())
    assert asked == MOST_MARKERS + 50


def test_stamps_read_the_public_clock_as_the_test_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp follows a patched clock, and survives one that returns nonsense."""
    watched = watch()
    watched.start()
    monkeypatch.setattr(time, "perf_counter_ns", lambda: None)
    monkeypatch.setattr(time, "monotonic", lambda: 43.0)
    stamps = watched.stamps()
    watched.stop()
    assert stamps["time.monotonic"].value_s == 43.0
    assert "time.perf_counter_ns" not in stamps
    assert watched.count == 0


def test_drifts_compare_what_both_sets_hold() -> None:
    """The advance of a clock is its difference; the private one bounds it from both sides."""
    before = {"a": Stamp("a", 10.0, 100.0, 100.1), "b": Stamp("b", 0.0, 100.0, 100.1)}
    after = {"a": Stamp("a", 11.0, 102.0, 102.2)}
    (drift,) = drifts(before, after)
    assert (drift.clock, drift.public_s) == ("a", 1.0)
    assert drift.private_low_s == pytest.approx(1.9)
    assert drift.private_high_s == pytest.approx(2.2)


def test_a_clock_that_does_not_exist_here_is_left_out() -> None:
    """A watched clock whose module has no such name costs nothing."""
    watched = watch(clocks=(WatchedClock("time", "no_such_clock", 1.0, _early_bound),))
    watched.start()
    assert watched.stamps() == {}
    watched.stop()


def test_names_imported_into_other_modules_of_the_project_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timing helper beside the tests has `from time import perf_counter`; its reads are the test's."""
    (tmp_path / "stopwatch_of_a_project.py").write_text(
        "from time import perf_counter as now\n\n\ndef elapsed():\n    return now()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    helper = import_module("stopwatch_of_a_project")
    monkeypatch.setitem(sys.modules, "stopwatch_of_a_project", helper)
    before = helper.now
    watched = watch()
    watched.start()
    helper.elapsed()
    watched.stop()
    (read,) = watched.reads()
    assert read.where == "stopwatch_of_a_project.py:5"
    assert helper.now is before
