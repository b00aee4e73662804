"""Noise, throttling and neighbours of the fake device."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.backends.fake import (
    FakeBackend,
    Neighbour,
    NoiseTrace,
    Throttle,
    bursts,
    drift,
    gaussian,
    heavy_tail,
    step_change,
)
from pytest_roofline.errors import RooflineUsageError


def durations(backend: FakeBackend, count: int = 400) -> list[float]:
    """Device time of launches of one millisecond each."""
    times = []
    for _ in range(count):
        before_s = backend.busy_s()
        backend.launch(seconds=1e-3)
        backend.synchronize()
        times.append(backend.busy_s() - before_s)
    return times


def test_seed_repeats_a_run_exactly() -> None:
    """The same seed gives the same durations to the last digit, another seed gives others."""
    runs = [durations(FakeBackend(noise=["gaussian", "heavy-tail"], seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_gaussian_jitters_to_both_sides() -> None:
    """Jitter keeps the mean and its width."""
    times = durations(FakeBackend(noise=gaussian(0.05)))
    mean_s = sum(times) / len(times)
    assert mean_s == pytest.approx(1e-3, rel=0.02)
    assert min(times) < 1e-3 < max(times)
    assert (sum((time - mean_s) ** 2 for time in times) / len(times)) ** 0.5 == pytest.approx(5e-5, rel=0.2)


def test_drift_halves_the_bandwidth_within_minutes() -> None:
    """After two minutes a launch takes twice as long, and at last four times."""
    noise = drift(halves_in_s=120.0, levels_off_at=4.0)
    assert [noise(at_s, Random(0)) for at_s in (0.0, 120.0, 240.0, 1e6)] == pytest.approx([1, 2, 4, 4])


def test_bursts_come_back() -> None:
    """The last tenth of every period is slow."""
    noise = bursts(every_s=1.0, length_s=0.1, slowdown=3.0)
    assert [noise(at_s, Random(0)) for at_s in (0.0, 0.89, 0.95, 1.0, 1.95)] == [1, 1, 3, 1, 3]


def test_heavy_tail_is_rare_and_only_adds() -> None:
    """Most launches are exact, a few take much longer, none is shorter, none exceeds the cap."""
    times = durations(FakeBackend(noise=heavy_tail(probability=0.05, cap=20.0)), count=1000)
    slow = [time for time in times if time > 1.001e-3]
    assert 20 <= len(slow) <= 90
    assert min(times) == pytest.approx(1e-3)
    assert max(times) <= 20.001e-3


def test_step_change_happens_once() -> None:
    """Before its moment launches take their time, after it twice as long."""
    times = durations(FakeBackend(noise=step_change(at_s=0.2, slowdown=2.0)), count=300)
    assert times[0] == pytest.approx(1e-3)
    assert times[-1] == pytest.approx(2e-3)


@pytest.mark.parametrize("name", ["gaussian", "drift", "bursts", "heavy-tail", "step-change"])
def test_every_noise_has_a_name(name: str) -> None:
    """Each model works by its name alone."""
    assert len(durations(FakeBackend(noise=name), count=3)) == 3


def test_noise_can_be_a_function() -> None:
    """A function of the start time and the seeded random source is a noise; several multiply."""
    backend = FakeBackend(noise=[lambda start_s, random: 2.0, lambda start_s, random: 3.0])
    assert durations(backend, count=1) == pytest.approx([6e-3])


def test_noise_never_stops_time() -> None:
    """A factor of zero or less is held at 0.05; NaN is a usage error."""
    assert durations(FakeBackend(noise=lambda start_s, random: -1.0), count=1) == pytest.approx([5e-5])
    with pytest.raises(RooflineUsageError, match="NaN"):
        FakeBackend(noise=lambda start_s, random: float("nan")).launch(seconds=1.0)


def test_unknown_noise_lists_the_known() -> None:
    """A wrong name is a usage error that lists the names."""
    with pytest.raises(RooflineUsageError, match="noise 'pink' is not known; known are gaussian"):
        FakeBackend(noise="pink")


def test_throttle_slows_exactly_its_window() -> None:
    """Work that crosses a window runs at full speed before and after it, and slower inside."""
    backend = FakeBackend(throttle=[Throttle(start_s=1.0, end_s=3.0, slowdown=4.0)], launch_s=0.0)
    array = backend.launch(seconds=2.0)
    # One second until the window, half a second of work during its two, half a second after it.
    assert array.ready_s == pytest.approx(3.5)
    assert backend.busy_s() == pytest.approx(3.5)


def test_throttle_shows_in_the_conditions() -> None:
    """During the window the reason is reported and the clock is down; before and after it is not."""
    backend = FakeBackend(throttle=[Throttle(start_s=1.0, end_s=2.0, slowdown=3.0, reason="power cap")])
    (device,) = backend.devices()
    seen = []
    for _ in range(3):
        conditions = backend.conditions(device)
        seen.append((conditions.throttle_reasons, conditions.clock_hz))
        backend.host(1.0)
    assert seen == [((), 1.5e9), (("power cap",), pytest.approx(0.5e9)), ((), 1.5e9)]


def test_hidden_throttle_slows_and_says_nothing() -> None:
    """A device may slow down without a word."""
    backend = FakeBackend(throttle=[Throttle(start_s=0.0, end_s=9.0, slowdown=3.0, is_visible=False)])
    conditions = backend.conditions(backend.devices()[0])
    assert durations(backend, count=1) == pytest.approx([3e-3])
    assert (conditions.throttle_reasons, conditions.clock_hz) == ((), 1.5e9)


def test_neighbour_takes_its_share_and_is_seen() -> None:
    """A neighbour with three quarters of the device leaves a quarter, and is named in the conditions."""
    backend = FakeBackend(neighbours=[Neighbour(start_s=0.0, end_s=9.0, share=0.75, name="pid 7 (train)")])
    assert durations(backend, count=1) == pytest.approx([4e-3])
    assert backend.conditions(backend.devices()[0]).neighbours == ("pid 7 (train)",)


def test_overlapping_windows_multiply() -> None:
    """Throttled beside a neighbour, work suffers from both."""
    backend = FakeBackend(
        throttle=[Throttle(start_s=0.0, end_s=9.0, slowdown=2.0)],
        neighbours=[Neighbour(start_s=0.0, end_s=9.0, share=0.5)],
    )
    assert durations(backend, count=1) == pytest.approx([4e-3])


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (lambda: Throttle(start_s=2.0, end_s=1.0, slowdown=2.0), "2.0 s to 1.0 s is empty"),
        (lambda: Throttle(start_s=0.0, end_s=1.0, slowdown=0.5), "slowdown is 0.5"),
        (lambda: Neighbour(start_s=0.0, end_s=1.0, share=1.0), "share is 1.0"),
    ],
)
def test_impossible_windows_are_usage_errors(window: object, message: str) -> None:
    """A window that ends before it starts, speeds up, or leaves nothing is named with its figures."""
    with pytest.raises(RooflineUsageError, match=message):
        window()  # type: ignore[operator]


# -- traces


def test_a_trace_is_played_period_by_period() -> None:
    """Three milliseconds of work in a machine that stands half still in every second one."""
    backend = FakeBackend(noise=NoiseTrace([1.0, 2.0], period_s=1e-3))
    backend.launch(seconds=3e-3)
    # Work of 1.5 ms takes 2 ms: twice that is 4 ms.
    assert backend.busy_s() == pytest.approx(4e-3, rel=1e-6)


def test_a_trace_goes_round_and_can_begin_anywhere() -> None:
    """What is done in between two moments is what the factors leave of the time."""
    trace = NoiseTrace([1.0, 4.0], period_s=1.0)
    assert trace.length_s == 2.0
    assert trace.work_s(0.0, 20.0) == pytest.approx(12.5)
    assert trace.shifted(1.0).work_s(0.0, 1.0) == pytest.approx(0.25)
    assert trace.shifted(1.5).finish_s(0.0, 0.125) == pytest.approx(0.5)
    assert trace.offset_s == 0.0


@given(
    factors=st.lists(st.floats(0.5, 50.0), min_size=1, max_size=20),
    start_s=st.floats(0.0, 100.0),
    work_s=st.floats(0.0, 10.0),
    offset_s=st.floats(0.0, 100.0),
)
@settings(max_examples=60, deadline=None)
def test_a_trace_conserves_work(factors: list[float], start_s: float, work_s: float, offset_s: float) -> None:
    """Whatever it looks like: between a start and its end lies exactly the work."""
    trace = NoiseTrace(factors, period_s=0.25, offset_s=offset_s)
    end_s = trace.finish_s(start_s, work_s)
    assert end_s >= start_s
    assert trace.work_s(start_s, end_s) == pytest.approx(work_s, abs=1e-9, rel=1e-9)


def test_a_trace_and_a_window_multiply() -> None:
    """Throttling by two from 1 ms on, in a trace that is slow by two: 1 ms of work, then a quarter of the speed."""
    backend = FakeBackend(
        noise=NoiseTrace([2.0], period_s=1e-3), throttle=[Throttle(start_s=2e-3, end_s=1.0, slowdown=2.0)], launch_s=0.0
    )
    backend.launch(seconds=2e-3)
    assert backend.busy_s() == pytest.approx(2e-3 + 4e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1.0), "noise trace: factors must be positive, finite numbers, at least one"),
        (([0.0], 1.0), "noise trace: factors must be positive, finite numbers, at least one"),
        (([1.0], 0.0), "noise trace: period_s is 0.0; it must be a positive number"),
    ],
)
def test_a_wrong_trace_is_a_usage_error(arguments: tuple[list[float], float], message: str) -> None:
    """Before anything runs."""
    with pytest.raises(RooflineUsageError) as error:
        NoiseTrace(*arguments)
    assert str(error.value) == message


def test_a_device_plays_one_trace() -> None:
    """Two of them are refused, with their number."""
    trace = NoiseTrace([1.0], period_s=1.0)
    with pytest.raises(RooflineUsageError, match="noise: 2 traces were given; a device plays one"):
        FakeBackend(noise=[trace, trace])
