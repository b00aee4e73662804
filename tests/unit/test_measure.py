"""The schedule of a measurement, on the fake device and its virtual clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from court import MEASURED, SHEET, sample

from pytest_roofline.backends.fake import FakeBackend, FakeModel, Throttle
from pytest_roofline.backends.fake_weather import drift
from pytest_roofline.instrument import Instrument
from pytest_roofline.loop import Loop
from pytest_roofline.measure import ALTERNATIONS, Measurement, Timing, confront, is_suspicious
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.stopping import UntilDecided

BYTES = 2e9
RULER = 1e12
STEP_S = 2.5e-3  # 2 GB at 80 % of 1 TB/s


class Gauge:
    """A ruler that takes 30 ms of the device's clock and reads what the device can do."""

    def __init__(self, backend: FakeBackend, rate: Callable[[int], float] | float = RULER) -> None:
        self.readings = 0
        self._backend = backend
        self._rate = rate

    def measure(self) -> float:
        """Bytes per second."""
        self._backend.host(30e-3)
        self.readings += 1
        return self._rate(self.readings) if callable(self._rate) else self._rate


class Rig:
    """A model on a fake device, ready to be measured."""

    def __init__(
        self,
        *,
        weights: float = BYTES,
        max_time_s: float = 10.0,
        resets: bool = False,
        room: int | None = None,
        reset_s: float = 0.0,
        at_least: float | None = 0.5,
        step: Callable[[FakeModel], Callable[[], Any]] | None = None,
        gauge: Callable[[int], float] | float = RULER,
        device: dict[str, Any] | None = None,
        is_stateless: bool = False,
        keep_back: int = 0,
        **model: Any,
    ) -> None:
        self.backend = FakeBackend(**(device or {}))
        self.model = FakeModel(self.backend, weights, **model)
        self.start_s = self.backend.clock()
        self.max_time_s = max_time_s
        self.most_context = 0

        def reset() -> None:
            self.backend.host(reset_s)
            self.model.reset()

        def counted() -> Any:
            output = (step(self.model) if step else self.model.step)()
            self.most_context = max(self.most_context, self.model.context)
            return output

        self.loop = Loop(
            counted,
            backend=self.backend,
            drains=[self.backend],
            reset=reset if resets else None,
            passes_per_reset=room,
            is_stateless=is_stateless,
        )
        self.gauge = Gauge(self.backend, gauge)
        self.measurement = Measurement(
            self.loop,
            traffic=self.model.traffic,
            ruler=self.gauge,
            clock=self.backend.clock,
            deadline_s=self.start_s + max_time_s,
            context=float(self.model.context),
            criterion=UntilDecided(at_least),
            keep_back=keep_back,
        )

    def run(self) -> Timing:
        """Measure."""
        return self.measurement.run()

    @property
    def elapsed_s(self) -> float:
        """Virtual time since the rig was made."""
        return self.backend.clock() - self.start_s


def median_context(timing: Timing) -> float:
    """The middle of the samples' contexts."""
    return sorted(sample.context or 0.0 for sample in timing.samples)[len(timing.samples) // 2]


# -- what is measured


@pytest.mark.parametrize("resets", [False, True])
def test_the_slope_is_the_time_of_a_pass(resets: bool) -> None:
    """And the fraction is what the model reaches of the ruler."""
    timing = Rig(resets=resets, room=64 if resets else None).run()
    assert timing.step_s == pytest.approx(STEP_S, rel=0.01)
    assert timing.fraction == pytest.approx(0.8, rel=0.01)
    assert timing.interval is not None
    assert timing.interval.low <= 0.8 * 1.01
    assert len(timing.samples) >= 8
    assert not timing.timed_out
    assert timing.last is not None


def test_fixed_costs_are_told_apart() -> None:
    """What a block costs once (here the drain, 5 ms) is no part of the step."""
    timing = Rig(resets=True, room=400, device={"sync_s": 5e-3}).run()
    assert timing.step_s == pytest.approx(STEP_S, rel=0.01)
    assert timing.fixed_s is not None
    assert timing.fixed_s == pytest.approx(5e-3, rel=0.05)  # the force; the drain waits while the device works
    last = timing.samples[-1]
    assert last.closed_step_s == pytest.approx(STEP_S + timing.fixed_s / (2 * last.passes), rel=0.01)


def test_blocks_are_lengthened_while_the_fixed_cost_outweighs_them() -> None:
    """The first blocks are too short for a force of 40 ms, which the idle drain does not show."""
    rig = Rig(resets=True, room=4000, device={"sync_s": 0.0})
    plain_force = rig.backend.force

    def slow_force(output: Any) -> Any:
        rig.backend.host(0.2)
        return plain_force(output)

    rig.backend.force = slow_force  # type: ignore[method-assign]
    timing = rig.run()
    lengths = [one.passes for one in timing.samples]
    assert min(lengths[5:]) > max(lengths[:3])
    assert timing.step_s == pytest.approx(STEP_S, rel=0.01)


def test_blocks_are_not_lengthened_for_one_pair_that_was_hit() -> None:
    """A neighbour that stalls every fifth short block makes its fixed cost look large: the blocks stay as they are."""
    rig = Rig(resets=True, room=4000, at_least=0.8)
    plain_force, calls = rig.backend.force, 0

    def stalled_force(output: Any) -> Any:
        nonlocal calls
        calls += 1
        rig.backend.host(0.5 if calls > 10 and calls % 10 == 1 else 0.0)
        return plain_force(output)

    rig.backend.force = stalled_force  # type: ignore[method-assign]
    lengths = [one.passes for one in rig.run().samples]
    assert max(lengths) <= 2 * min(lengths)


def test_a_step_bound_by_the_host_is_measured_as_slow() -> None:
    """19 ms of host work per pass: the device waits, and the fraction says so."""
    timing = Rig(host_s=19e-3).run()
    assert timing.step_s == pytest.approx(19e-3, rel=0.15)
    assert timing.fraction is not None
    assert timing.fraction < 0.15


def test_the_slope_of_a_reset_loop_is_that_of_context_plus_1_5_n() -> None:
    """Time and bytes per pass grow with the context: the fraction is taken at the context of the slope."""
    rig = Rig(resets=True, room=60, context=1000, kv_bytes_per_token=2e6)
    timing = rig.run()
    assert len({one.passes for one in timing.samples}) > 1
    for one in timing.samples:
        assert one.context == 1000 + 1.5 * one.passes
        floor_s = rig.model.traffic.at_context(one.context).bytes_per_pass / RULER
        assert one.step_s == pytest.approx(floor_s / 0.8, rel=0.01)
    assert timing.fraction == pytest.approx(0.8, rel=0.01)
    assert timing.growth_s_per_pass is None


def test_without_reset_the_intercept_is_the_time_at_the_stated_context() -> None:
    """The context grows from block to block: time is fitted against it, and told for where it started."""
    rig = Rig(context=1000, kv_bytes_per_token=50e6, weights=20e9, device={"memory_bytes": 400e9})
    start = rig.model.traffic
    timing = rig.run()
    assert timing.growth_s_per_pass == pytest.approx(50e6 / RULER / 0.8, rel=0.05)
    assert timing.step_s == pytest.approx(start.bytes_per_pass / RULER / 0.8, rel=0.01)
    assert median_context(timing) > 1000
    assert timing.fraction == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize("max_time_s", [1.0, 3.0, 8.0])
def test_a_machine_that_slows_down_is_no_context_that_grows(max_time_s: float) -> None:
    """The bandwidth halves every second, and the probes see it: no step is told to be faster than its samples."""
    backend = FakeBackend(read_bytes_per_s=1e12, noise=drift(halves_in_s=1.0, levels_off_at=8))
    model = FakeModel(backend, 2e9)
    instrument = Instrument(Session(added_backends=[backend]), Settings(max_time_s=max_time_s))
    result = instrument.decode(model.step, traffic=2e9)
    steps = [one.step_s for one in result.samples]
    assert result.step_s is not None
    assert min(steps) <= result.step_s <= max(steps)


def test_growth_within_the_scatter_is_no_growth() -> None:
    """A model whose steps do not grow gets the median, not an extrapolation of noise."""
    timing = Rig(device={"noise": "gaussian", "seed": 3}, at_least=0.79).run()
    assert timing.growth_s_per_pass is None
    assert timing.step_s == pytest.approx(STEP_S, rel=0.05)


def test_the_fraction_follows_the_ruler_pair_by_pair() -> None:
    """The host's bandwidth halves in the middle, step and probe alike: the fraction stays."""
    at_s = 0.45
    rig = Rig(
        resets=True, room=40, device={"throttle": [Throttle(start_s=at_s, end_s=1e9, slowdown=2.0)]}, at_least=None
    )
    rig.gauge._rate = lambda _: RULER / (2.0 if rig.backend.clock() >= at_s else 1.0)
    timing = rig.run()
    steps = [one.step_s for one in timing.samples]
    assert max(steps) > 1.8 * min(steps)
    assert timing.fraction == pytest.approx(0.8, rel=0.02)
    for one in timing.samples:
        if one.ruler_before_bytes_per_s == one.ruler_after_bytes_per_s:
            assert one.fraction == pytest.approx(0.8, rel=0.02)


def test_probes_bracket_every_pair() -> None:
    """One more reading than samples, each shared by its neighbours."""
    rig = Rig(gauge=lambda number: RULER * (1 + number / 1000))
    timing = rig.run()
    assert rig.gauge.readings == len(timing.samples) + 1
    for before, after in zip(timing.samples, timing.samples[1:], strict=False):
        assert before.ruler_after_bytes_per_s == after.ruler_before_bytes_per_s


def test_compute_may_set_the_floor() -> None:
    """A floor of 2.4 ms of arithmetic: the fraction is taken of that, not of the bytes."""
    rig = Rig()
    rig.measurement = Measurement(
        rig.loop,
        traffic=rig.model.traffic,
        ruler=rig.gauge,
        clock=rig.backend.clock,
        deadline_s=rig.backend.clock() + 10,
        context=0.0,
        compute_s=2.4e-3,
    )
    timing = rig.run()
    assert timing.fraction == pytest.approx(0.96, rel=0.01)


def test_a_remembered_result_has_no_slope() -> None:
    """Nothing runs after the first pass: an infinite fraction, not a crash; the court does not let it pass."""
    memo: list[Any] = []

    def remembering(model: FakeModel) -> Callable[[], Any]:
        def step() -> Any:
            rig.backend.host(1e-6)
            if not memo:
                memo.append(model.step())
            return memo[0]

        return step

    rig = Rig(step=remembering, resets=True, room=100, max_time_s=0.5)
    timing = rig.run()
    assert timing.fraction is not None
    assert timing.fraction > 100


# -- room


@pytest.mark.parametrize("room", [1, 2, 3, 5, 8, 17, 64, 300])
@pytest.mark.parametrize("resets", [False, True])
def test_the_room_is_never_overrun(room: int, resets: bool) -> None:
    """A static cache of exactly that room: the fake fails like a device-side assert on one pass more."""
    rig = Rig(resets=resets, room=room, max_context=room, kv_bytes_per_token=1e3)
    timing = rig.run()
    assert rig.most_context <= room
    if resets and room >= 2:
        assert len(timing.samples) >= 8
        assert timing.notes == ()
    if not resets:
        assert rig.loop.in_all <= room


def test_running_out_of_room_is_noted() -> None:
    """How many passes ran, and what would help; with a reset that advice is not given."""
    timing = Rig(room=10, at_least=0.8).run()
    assert len(timing.notes) == 1
    assert timing.notes[0].startswith("stopped after ")
    assert timing.notes[0].endswith("the state has room for 10; give reset= (and passes_per_reset=) to measure longer")
    assert not timing.timed_out
    single = Rig(room=1, resets=True).run()
    assert single.samples == ()
    assert single.notes[0].endswith("the state has room for 1")


def test_without_reset_64_passes_are_all() -> None:
    """Nothing is known of the state: warm-up and blocks together stay within it, and still carry a verdict."""
    rig = Rig()
    timing = rig.run()
    assert rig.loop.in_all <= 64
    assert len(timing.samples) >= 8


@pytest.mark.parametrize("room", [20, 64])
def test_passes_are_kept_back_for_a_confrontation(room: int) -> None:
    """Where no reset makes new room, the last five passes are not used up."""
    rig = Rig(room=room, at_least=0.8, keep_back=ALTERNATIONS)
    rig.run()
    assert rig.loop.room_left is not None
    assert rig.loop.room_left >= ALTERNATIONS


def test_a_room_that_is_used_up_measures_nothing() -> None:
    """The traced pass took the last of it: no samples, no step, and no crash."""
    rig = Rig(room=1)
    rig.loop.count()
    timing = rig.run()
    assert timing.samples == ()
    assert timing.step_s is timing.fixed_s is timing.fraction is timing.interval is timing.last is None


# -- time


@pytest.mark.parametrize("max_time_s", [0.05, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("weights", [2e9, 20e9, 200e9, 2000e9])
@pytest.mark.parametrize("at_least", [None, 0.8])
def test_the_time_allowed_is_kept(max_time_s: float, weights: float, at_least: float | None) -> None:
    """At most that, one pass and one probe."""
    rig = Rig(
        weights=weights, max_time_s=max_time_s, at_least=at_least, resets=True, room=500, device={"memory_bytes": 1e15}
    )
    timing = rig.run()
    pass_s = weights / RULER / 0.8
    assert rig.elapsed_s <= max_time_s + 1.05 * pass_s + 2 * 30e-3
    if not timing.samples:
        assert timing.timed_out or timing.last is None


def test_slow_resets_are_part_of_the_time() -> None:
    """They are never timed, but they take time: a pair that would not fit with its resets is not begun."""
    rig = Rig(resets=True, room=40, reset_s=0.5, max_time_s=10.0, at_least=0.8)
    timing = rig.run()
    assert rig.elapsed_s <= 10.0 + 2 * 0.5
    assert timing.step_s == pytest.approx(STEP_S, rel=0.01)
    assert timing.timed_out


def test_a_device_that_slows_down_keeps_the_time() -> None:
    """Ten times slower after the warm-up: the schedule learns it from the last pair."""
    rig = Rig(
        weights=20e9,
        resets=True,
        room=400,
        at_least=0.8,
        max_time_s=5.0,
        device={"memory_bytes": 1e12, "throttle": [Throttle(start_s=0.6, end_s=1e9, slowdown=10.0)]},
    )
    rig.run()
    assert rig.elapsed_s <= 5.0 + 2.5


def test_a_pass_that_is_too_long_says_so() -> None:
    """One pass of 4 s of 10: N and 2N do not fit, so nothing is begun, and the note tells why."""
    rig = Rig(weights=3.2e12, resets=True, room=10, device={"memory_bytes": 1e13})
    timing = rig.run()
    assert timing.timed_out
    assert timing.samples == ()
    assert timing.notes == ("a pass takes about 4.00 s: one of N and 2N passes do not fit into the time allowed",)
    assert rig.elapsed_s <= 10.0 + 4.0
    assert timing.last is not None


def test_no_time_at_all_measures_nothing() -> None:
    """The deadline has passed before the first pass."""
    rig = Rig(max_time_s=0.0)
    timing = rig.run()
    assert (timing.samples, timing.passes, rig.loop.in_all) == ((), 0, 0)


def test_a_budget_that_stays_inside_times_out() -> None:
    """Noise around the budget: the time ends it, and it is said so."""
    rig = Rig(resets=True, room=100, at_least=0.8, max_time_s=2.0, device={"noise": "gaussian"})
    timing = rig.run()
    assert timing.timed_out
    assert timing.samples


def test_a_clear_result_ends_early() -> None:
    """Ten samples, well within the time."""
    rig = Rig(resets=True, room=100, at_least=0.2)
    timing = rig.run()
    assert len(timing.samples) == 10
    assert rig.elapsed_s < 1.5


def test_warm_up_goes_on_while_it_gets_faster() -> None:
    """Clocks ramp up within 0.4 s, from a fifth of their speed: no sample is taken before they have."""
    rig = Rig(resets=True, room=100, device={"noise": lambda start_s, _: max(1.0, 5.0 - 10.0 * start_s)})
    timing = rig.run()
    assert all(one.step_s == pytest.approx(STEP_S, rel=0.01) for one in timing.samples)


def test_timed_passes_are_counted_without_warm_up() -> None:
    """Three times N for every pair."""
    rig = Rig()
    timing = rig.run()
    assert timing.passes == sum(3 * one.passes for one in timing.samples)
    assert rig.loop.in_all > timing.passes


def test_blocks_are_long_against_the_idle_drain() -> None:
    """A drain of 1 ms wants blocks of 50 ms; a cheap one wants a pair of 30, as long as a reading."""
    cheap = Rig(resets=True, room=1000).run()
    dear = Rig(resets=True, room=1000, device={"sync_s": 1e-3}).run()
    assert {one.passes for one in cheap.samples} <= {4, 5, 6, 7, 8}
    assert min(one.passes for one in dear.samples) >= 15  # a pass and its share of the drain take 3.2 ms


def test_an_error_in_the_step_comes_through() -> None:
    """From any moment of the schedule, with the device drained."""
    calls: list[int] = []

    def failing(model: FakeModel) -> Callable[[], Any]:
        def step() -> Any:
            calls.append(1)
            if len(calls) == 20:
                raise ValueError("the 20th pass")
            return model.step()

        return step

    rig = Rig(step=failing)
    with pytest.raises(ValueError, match="the 20th pass"):
        rig.run()
    assert rig.backend.pending() == 0


# -- the confrontation


def test_confrontation_alternates_probe_and_block() -> None:
    """Five turns between six readings; a block's rate is over closed time."""
    rig = Rig(is_stateless=True, gauge=lambda number: number * 1e11)
    turns = confront(rig.loop, rig.gauge, 10, 1e9)
    assert [turn.probe_before_bytes_per_s for turn in turns] == pytest.approx([1e11, 2e11, 3e11, 4e11, 5e11])
    assert [turn.probe_after_bytes_per_s for turn in turns] == pytest.approx([2e11, 3e11, 4e11, 5e11, 6e11])
    for turn in turns:
        assert turn.block_bytes_per_s == pytest.approx(1e9 / STEP_S, rel=0.01)


def test_confrontation_ends_with_the_room() -> None:
    """Fewer turns then, which accuse nobody."""
    assert len(confront(*_short(12), 5, 1e9)) == 2


def _short(room: int) -> tuple[Loop, Gauge]:
    rig = Rig(room=room)
    return rig.loop, rig.gauge


def test_a_block_without_time_is_endlessly_fast() -> None:
    """No division by zero where a clock stands still."""
    rig = Rig(is_stateless=True)
    rig.backend.clock = lambda: 1.0  # type: ignore[method-assign]
    assert all(math.isinf(turn.block_bytes_per_s) for turn in confront(rig.loop, rig.gauge, 1, 1e9))


@pytest.mark.parametrize(
    ("limit", "needed", "samples", "suspicious"),
    [
        (None, 1e12, (sample(),), False),
        (SHEET, 1e12, (sample(),), False),
        (MEASURED, 1e12, (), False),
        (MEASURED, 2e9, (sample(closed_step_s=2e9 / 1.2499e12),), False),
        (MEASURED, 2e9, (sample(closed_step_s=2e9 / 1.2501e12),), True),
    ],
)
def test_only_a_measured_limit_needs_a_confrontation(limit: Any, needed: float, samples: Any, suspicious: bool) -> None:
    """And only when the blocks exceed it by its slack."""
    assert is_suspicious(limit, needed, samples) is suspicious
