"""Host clocks that were patched, stepped, too coarse or divided wrongly (R14, R15, R18, R55, R56)."""

from __future__ import annotations

import statistics
import time
from unittest import mock

from corpus.recipe import bogus, honest
from corpus.scene import Scene


@bogus("R14-grid", "claim-exceeds-closed-time", "clock-disagrees", clock_resolution_s=10.0)
def coarse_clock(scene: Scene) -> None:
    """The clock moves in steps longer than the run, which therefore took no time at all."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R14-grid-clamped", "claim-exceeds-closed-time", "clock-disagrees", clock_resolution_s=10.0)
def coarse_clock_clamped(scene: Scene) -> None:
    """The same, with the zero replaced by the smallest step of the time stamp."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=max(1e-9, seconds))


@bogus("R15-nanoseconds", "claim-exceeds-closed-time", "clock-disagrees")
def nanoseconds_divided_once_too_often(scene: Scene) -> None:
    """A clock of nanoseconds, divided by 1e12."""
    with scene.audit() as audit:
        start = time.perf_counter_ns()
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=(time.perf_counter_ns() - start) / 1e12)


@bogus("R17", "claim-exceeds-closed-time")
def kernels_lost_by_a_profiler(scene: Scene) -> None:
    """A profiler's total, in which half of the kernels, replayed by a graph, are missing."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds / 2)


@honest("R17-parents", at_least=None)
def kernels_counted_with_their_parents(scene: Scene) -> None:
    """A profiler's total in which parents are counted again: too slow, and nobody gains."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds * 2)


@bogus("R18-groups", "claim-exceeds-closed-time")
def divided_by_groups(scene: Scene) -> None:
    """The time is divided by the number of groups, its tokens are not."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds / 8)


@bogus("R18-iterations-twice", "claim-exceeds-closed-time")
def divided_by_iterations_twice(scene: Scene) -> None:
    """The time of one pass is divided by the number of passes again."""
    with scene.audit() as audit:
        each = scene.timed() / scene.passes
        audit.claim(tokens=1, seconds=each / scene.passes)


@bogus("R18-batch", "claim-exceeds-closed-time", model={"batch": 4})
def divided_by_the_batch_again(scene: Scene) -> None:
    """Tokens count the batch already, and the time is divided by it once more."""
    with scene.audit() as audit:
        step = audit.watch(scene.step)
        seconds = scene.timed(step=step)
        audit.claim(tokens=4 * scene.passes, seconds=seconds / 4)


@bogus("R55-slow-clock", "clock-disagrees", clock_scale=0.5)
def clock_at_half_speed(scene: Scene) -> None:
    """Every public clock runs at half speed."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R55-one-slow-clock", "clock-disagrees", clock_scale=0.7, lying_clocks=("perf_counter",))
def one_slow_clock(scene: Scene) -> None:
    """Only the clock that is read is wrong."""
    with scene.audit(traffic=None) as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R55-patched-clock", "clock-disagrees", "claim-exceeds-closed-time")
def clock_patched_by_the_work(scene: Scene) -> None:
    """The work replaces the clock while it is measured."""
    with scene.audit() as audit:
        real = time.perf_counter
        with mock.patch("time.perf_counter", side_effect=lambda: real() / 3):
            seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R55-stepped-clock", "clock-disagrees", clock_step_s=-0.01, clock_step_at_s=60.0)
def clock_set_back(scene: Scene) -> None:
    """The clock is set back by 10 ms while a window of 40 ms is open."""
    with scene.audit(traffic=None) as audit:
        scene.backend.host(60.0 - 5e-3 - scene.backend.now_s())
        seconds = scene.timed(40, lambda: scene.backend.launch(seconds=1e-3))
        audit.claim(tokens=40, seconds=seconds)


@bogus("R55-patched-statistics", "claim-exceeds-closed-time")
def patched_statistics(scene: Scene) -> None:
    """The samples are right, and the function that takes their median is not."""
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(4) for _ in range(9))
        with mock.patch("statistics.median", return_value=min(samples) / 5):
            claimed = 4 / statistics.median(samples)
        audit.claim(tokens=36, tokens_per_s=claimed, samples=samples)


@bogus("R55-patched-statistics-only-a-rate", "faster-than-limit")
def patched_statistics_and_a_rate(scene: Scene) -> None:
    """The same where the tokens are left out, so that the rate is all that is claimed."""
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(4) for _ in range(9))
        audit.claim(tokens_per_s=20 / min(samples), samples=samples)


@bogus("R56-geometric-mean", "claim-exceeds-closed-time")
def one_row_of_nothing(scene: Scene) -> None:
    """A geometric mean in which one row is a picosecond."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=statistics.geometric_mean([seconds, seconds, 1e-12]))


@bogus("R49", "claim-exceeds-closed-time", model={"kv_bytes_per_token": 0.0})
def mean_of_rates(scene: Scene) -> None:
    """Rates of short and of long requests are averaged, instead of tokens over time."""
    with scene.audit() as audit:
        with audit.window():
            start = time.perf_counter()
            scene.loop(20)
            scene.backend.synchronize()
            short = time.perf_counter() - start
            start = time.perf_counter()
            scene.loop(20)
            scene.launch(60 * scene.weight_bytes)
            scene.backend.synchronize()
            long = time.perf_counter() - start
        audit.claim(tokens=40, tokens_per_s=(20 / short + 20 / long) / 2)


@honest("R14-grid-enough", clock_resolution_s=1e-4)
def coarse_clock_and_a_long_window(scene: Scene) -> None:
    """A grid far below the length of the window changes nothing."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)
