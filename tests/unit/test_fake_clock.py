"""The virtual clock and the public clocks that distort it."""

from __future__ import annotations

import pytest

from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import WatchedClock


def test_reading_the_clock_advances_it() -> None:
    """A loop until a deadline ends, because each reading takes 25 ns."""
    backend = FakeBackend()
    deadline_s = backend.clock() + 1e-5
    readings = 0
    while backend.clock() < deadline_s:
        readings += 1
    assert 398 <= readings <= 401


def test_start_and_tick_can_be_chosen() -> None:
    """The clock starts where it is told and advances as it is told."""
    backend = FakeBackend(start_s=100.0, tick_s=1e-3)
    assert backend.clock() == pytest.approx(100.001)


@pytest.mark.parametrize(
    ("name", "seconds_per_unit"),
    [
        ("perf_counter", 1.0),
        ("perf_counter_ns", 1e-9),
        ("monotonic", 1.0),
        ("monotonic_ns", 1e-9),
        ("time", 1.0),
        ("time_ns", 1e-9),
        ("process_time", 1.0),
        ("process_time_ns", 1e-9),
        ("thread_time", 1.0),
        ("thread_time_ns", 1e-9),
        ("default_timer", 1.0),
    ],
)
def test_honest_public_clocks_agree_with_the_private_one(name: str, seconds_per_unit: float) -> None:
    """Every public clock advances by what the private clock advances."""
    backend = FakeBackend()
    (clock,) = [clock for clock in backend.public_clocks() if clock.name == name]
    assert clock.module == ("timeit" if name == "default_timer" else "time")
    assert clock.seconds_per_unit == seconds_per_unit
    before = clock.read()
    backend.host(2.0)
    assert (clock.read() - before) * seconds_per_unit == pytest.approx(2.0, abs=1e-6)
    if name.endswith("_ns"):
        assert isinstance(clock.read(), int)


def test_methods_read_the_public_clocks() -> None:
    """The backend has the four clocks as methods, for code that takes a clock."""
    backend = FakeBackend()
    backend.host(1.0)
    assert backend.perf_counter() == pytest.approx(1.0, abs=1e-6)
    assert backend.perf_counter_ns() == pytest.approx(1e9, abs=1e3)
    assert backend.monotonic() == pytest.approx(1.0, abs=1e-6)
    assert backend.time() > 1.7e9
    assert all(isinstance(clock, WatchedClock) for clock in backend.public_clocks())


def test_scaled_clocks_run_slow() -> None:
    """At half speed the public clock shows half the time; the private one does not care."""
    backend = FakeBackend(clock_scale=0.5, start_s=10.0)
    before_s, private_s = backend.perf_counter(), backend.clock()
    backend.host(4.0)
    assert backend.perf_counter() - before_s == pytest.approx(2.0, abs=1e-6)
    assert backend.clock() - private_s == pytest.approx(4.0, abs=1e-6)


def test_stepped_clock_jumps_at_its_moment() -> None:
    """A jump back of an hour shows in the public clock only, and only after its moment."""
    backend = FakeBackend(clock_step_s=-3600.0, clock_step_at_s=5.0)
    backend.host(4.0)
    assert backend.time() - 1.8e9 == pytest.approx(4.0, abs=1e-5)
    backend.host(2.0)
    assert backend.time() - 1.8e9 == pytest.approx(-3594.0, abs=1e-5)
    assert backend.clock() == pytest.approx(6.0, abs=1e-5)


def test_coarse_clock_shows_multiples() -> None:
    """A resolution of 16 ms hides everything shorter."""
    backend = FakeBackend(clock_resolution_s=0.016)
    before_s = backend.perf_counter()
    backend.host(0.010)
    assert backend.perf_counter() == before_s
    backend.host(0.010)
    assert backend.perf_counter() - before_s == pytest.approx(0.016)


def test_chosen_clocks_lie_and_the_others_do_not() -> None:
    """With `lying_clocks` only the named ones are distorted."""
    backend = FakeBackend(clock_scale=0.0, lying_clocks=("time", "perf_counter_ns"))
    backend.host(3.0)
    assert backend.time() == 1.8e9
    assert backend.perf_counter_ns() == 0
    assert backend.perf_counter() == pytest.approx(3.0, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clock_step_s": 1.0}, "clock_step_s needs clock_step_at_s"),
        ({"clock_scale": float("nan")}, "clock_scale is nan"),
        ({"clock_resolution_s": -1.0}, "clock_resolution_s is -1.0"),
        ({"lying_clocks": ("clock",)}, "no public clock 'clock'; known are perf_counter"),
        ({"tick_s": 0.0}, "tick_s is 0.0"),
        ({"start_s": -1.0}, "start_s is -1.0"),
    ],
)
def test_impossible_clocks_are_usage_errors(arguments: dict[str, object], message: str) -> None:
    """Each wrong parameter of the clocks is named with its value."""
    with pytest.raises(RooflineUsageError, match=message):
        FakeBackend(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_time_cannot_be_moved_back(seconds: float) -> None:
    """Host work of negative or endless length is a usage error."""
    with pytest.raises(RooflineUsageError, match="cannot advance by"):
        FakeBackend().host(seconds)
