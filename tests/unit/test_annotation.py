"""Benchmarks that pytest-benchmark timed, judged: its time is a claim, and its columns get what is true alone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, InconclusiveMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

WEIGHTS = 2e9
FLOOR_S = WEIGHTS / 1e12
"""Of a pass on the fake device."""


class Benchmark:
    """What the `benchmark` fixture keeps: a round is a call, timed on the fake device's clock."""

    def __init__(self, seconds: tuple[float, ...] = (), *, disabled: bool = False) -> None:
        self.name = "test_it"
        self.extra_info: dict[str, Any] = {}
        self.disabled = disabled
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=list(seconds)), iterations=1) if seconds else None

    def run(self, backend: FakeBackend, step: Callable[[], Any], rounds: int = 20) -> None:
        """Time `step` so often."""
        seconds = []
        for _ in range(rounds):
            start = backend.clock()
            step()
            seconds.append(backend.clock() - start)
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=seconds), iterations=1)


def bench(settings: Settings | None = None, **figures: Any) -> tuple[FakeBackend, Instrument]:
    """A fake device of 1 TB/s and the instrument on it."""
    backend = FakeBackend(**figures)
    return backend, Instrument(Session(added_backends=[backend]), settings)


def claimed(pass_s: float, rounds: int = 20) -> Benchmark:
    """A benchmark with these figures, whoever made them."""
    return Benchmark((pass_s,) * rounds)


def test_an_honest_benchmark_gets_its_fraction() -> None:
    """A step that waits for its device at 80 %: fraction, ceiling and bytes are in its columns."""
    backend, roofline = bench()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    benchmark = Benchmark()
    benchmark.run(backend, lambda: (model.step(), backend.drain()))
    result = roofline.annotate(benchmark, model=model)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction) == pytest.approx(0.8, rel=0.03)
    assert benchmark.extra_info["roofline_verdict"] == "passed"
    assert benchmark.extra_info["roofline_fraction"] == float(result.fraction)
    assert benchmark.extra_info["roofline_bytes_per_pass"] == pytest.approx(WEIGHTS, rel=0.01)
    assert benchmark.extra_info["roofline_ceiling_bytes_per_s"] == pytest.approx(1e12, rel=0.05)
    assert benchmark.extra_info["roofline_bound"] == "memory"
    assert roofline.results == [result]


@pytest.mark.parametrize(("budget", "outcome"), [(0.7, "passed"), (0.9, "failed")])
def test_the_budget_of_the_test_holds(budget: float, outcome: str) -> None:
    """A miss is judged at the end of the test; its figures are true, and stay in the columns."""
    _, roofline = bench(Settings(at_least=parse_budget(budget, "test")))
    benchmark = claimed(FLOOR_S / 0.8)
    assert roofline.annotate(benchmark, WEIGHTS).verdict.outcome == outcome
    assert benchmark.extra_info["roofline_verdict"] == outcome
    assert "roofline_fraction" in benchmark.extra_info


@pytest.mark.parametrize("sheet", ["derived", None])
def test_a_time_below_the_limit_is_bogus(sheet: str | None) -> None:
    """A step that nobody waited for: the columns hold the verdict and why, and no figure of it."""
    backend, roofline = bench(sheet_bytes_per_s=sheet)
    model = FakeModel(backend, WEIGHTS)
    benchmark = Benchmark()
    benchmark.run(backend, model.step)
    with pytest.raises(BogusMeasurement, match="from memory, but this device cannot exceed"):
        roofline.annotate(benchmark, model=model)
    assert benchmark.extra_info["roofline_verdict"] == "bogus"
    assert benchmark.extra_info["roofline_reason"].endswith("[faster-than-limit]")
    assert set(benchmark.extra_info) == {"roofline_verdict", "roofline_device", "roofline_reason"}


def test_a_queue_that_fills_does_not_hide_behind_its_mean() -> None:
    """Eleven of twenty rounds return at once, the rest wait for all: the mean may be true, the median is none."""
    _, roofline = bench()
    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        roofline.annotate(Benchmark((1e-5,) * 11 + (FLOOR_S * 3,) * 9), WEIGHTS)


@pytest.mark.parametrize("rounds", [3, 4, 5, 6, 20, 100])
def test_two_calls_of_look_ahead_accuse_nobody(rounds: int) -> None:
    """An engine that works ahead by two calls returns twice at once, and reaches 98 % of the device all the same."""
    _, roofline = bench()
    result = roofline.annotate(Benchmark((1e-5,) * 2 + (FLOOR_S / 0.98,) * (rounds - 2)), WEIGHTS)
    assert result.verdict.outcome in ("passed", "inconclusive")
    assert rounds < 20 or result.verdict.outcome == "passed"


@pytest.mark.parametrize("rounds", [1, 3, 5])
def test_few_rounds_of_a_step_that_nobody_waits_for_are_bogus_too(rounds: int) -> None:
    """No look-ahead explains that each call took no time."""
    _, roofline = bench()
    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        roofline.annotate(claimed(1e-5, rounds), WEIGHTS)


def test_without_a_sheet_a_little_too_fast_is_unsure() -> None:
    """1.6 times the best of all probes: no datasheet says that it cannot be."""
    _, roofline = bench(sheet_bytes_per_s=None)
    benchmark = claimed(FLOOR_S / 1.6)
    result = roofline.annotate(benchmark, WEIGHTS)
    assert result.verdict.outcome == "inconclusive"
    assert benchmark.extra_info["roofline_verdict"] == "inconclusive"
    assert "roofline_fraction" not in benchmark.extra_info
    assert benchmark.extra_info["roofline_reason"].endswith("[ceiling-unsure]")


def test_work_that_still_runs_is_a_doubt_and_no_accusation() -> None:
    """Ten passes behind a benchmark may be those of the next line: the time stands, undecided."""
    backend, roofline = bench()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    roofline.annotate(claimed(FLOOR_S / 0.8), WEIGHTS)  # the probe is made before the work is left over
    for _ in range(10):
        model.step()
    result = roofline.annotate(claimed(FLOOR_S / 0.8), WEIGHTS)
    (finding,) = result.verdict.of("inconclusive")
    assert finding.check == "not-drained"
    assert "of work were still running behind test_it, " in finding.message
    assert "annotate right after the benchmark" in finding.remedy


def test_a_pass_in_flight_is_no_doubt() -> None:
    """Engines work ahead."""
    backend, roofline = bench()
    roofline.annotate(claimed(FLOOR_S / 0.8), WEIGHTS)
    FakeModel(backend, WEIGHTS).step()
    assert roofline.annotate(claimed(FLOOR_S / 0.8), WEIGHTS).verdict.outcome == "passed"


def test_a_timer_that_stands_still_measured_nothing() -> None:
    """No work takes 0 s, as in an audit; a timer that moves seldom is no such one."""
    _, roofline = bench()
    benchmark = claimed(0.0)
    with pytest.raises(BogusMeasurement, match="an elapsed time of 0 ns was claimed"):
        roofline.annotate(benchmark, WEIGHTS)
    assert "roofline_fraction" not in benchmark.extra_info
    coarse = Benchmark((0.0, 0.0, 0.0, 0.0, 15e-3) * 8)  # 3 ms each, by a clock of 15 ms
    assert float(roofline.annotate(coarse, WEIGHTS).fraction) == pytest.approx(FLOOR_S / 3e-3, rel=0.03)


def test_a_small_working_set_has_no_verdict() -> None:
    """20 MB of a 40 MB cache: nothing is known of the memory, and no fraction is passed on."""
    _, roofline = bench()
    benchmark = claimed(20e6 / 1e12 / 0.8)
    assert roofline.annotate(benchmark, 20e6).verdict.outcome == "inconclusive"
    assert "roofline_fraction" not in benchmark.extra_info


def test_several_passes_of_a_call_are_counted() -> None:
    """A call that decodes 32 tokens reads the weights 32 times, for 4 sequences at once."""
    _, roofline = bench()
    benchmark = claimed(32 * FLOOR_S / 0.8)
    result = roofline.annotate(benchmark, WEIGHTS, passes_per_call=32, batch=4)
    assert float(result.fraction) == pytest.approx(0.8, rel=0.03)
    assert result.tokens_per_s == pytest.approx(4 * 0.8 / FLOOR_S, rel=0.01)
    assert result.step_s == pytest.approx(FLOOR_S / 0.8)


def test_a_second_annotation_takes_the_place_of_the_first() -> None:
    """Columns of the test's own stay, and none of an earlier verdict does."""
    _, roofline = bench()
    benchmark = claimed(FLOOR_S / 0.8)
    benchmark.extra_info["mine"] = 1
    roofline.annotate(benchmark, WEIGHTS)
    with pytest.raises(BogusMeasurement):
        roofline.annotate(benchmark, 10 * WEIGHTS)
    assert set(benchmark.extra_info) == {"mine", "roofline_verdict", "roofline_device", "roofline_reason"}


def test_off_measures_nothing_and_says_so() -> None:
    """With --roofline=off every comparison is true, whether or not the benchmark ran."""
    _, roofline = bench(Settings(mode="off"))
    benchmark = Benchmark(disabled=True)
    result = roofline.annotate(benchmark, WEIGHTS)
    assert result.fraction >= 0.9
    assert benchmark.extra_info == {"roofline_verdict": "not measured"}


def test_a_disabled_benchmark_is_not_judged() -> None:
    """Under pytest-xdist pytest-benchmark measures nothing: no test passes by that."""
    _, roofline = bench()
    with pytest.raises(InconclusiveMeasurement, match=r"pytest-benchmark measured nothing: --benchmark-disable, or"):
        roofline.annotate(Benchmark(disabled=True), WEIGHTS)


@pytest.mark.parametrize(
    ("benchmark", "asked", "said"),
    [
        (Benchmark(), {"traffic": 1e9}, "test_it has not run yet; call benchmark(step) first"),
        (object(), {"traffic": 1e9}, "needs the benchmark fixture of pytest-benchmark, which keeps its times; got a o"),
        (claimed(1e-3), {}, "needs the bytes of a pass, once: traffic= (or bytes per pass), or model="),
        (claimed(1e-3), {"traffic": 1e9, "model": 1e9}, "needs the bytes of a pass, once"),
        (claimed(1e-3), {"traffic": 1e9, "passes_per_call": 0}, "passes_per_call is 0; it must be a positive number"),
        (claimed(1e-3), {"traffic": 1e9, "batch": 0}, "batch is 0; it must be a whole number, 1 or more"),
    ],
)
def test_wrong_use_is_an_error_that_says_what_is_right(benchmark: Any, asked: dict[str, Any], said: str) -> None:
    """Before anything is judged."""
    _, roofline = bench()
    with pytest.raises(RooflineUsageError) as caught:
        roofline.annotate(benchmark, **asked)
    assert said in str(caught.value)
    assert roofline.results == []
