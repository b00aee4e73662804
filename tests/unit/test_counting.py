"""Passes by the device's own count, read beside what is timed: bounds that hold, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.backends.fake import FakeBackend, FakeModel, MemoryCounter
from pytest_roofline.backends.fake_counter import FakeCounter
from pytest_roofline.backends.gpm import GpmCounter
from pytest_roofline.backends.nvml import Nvml
from pytest_roofline.calibration import Calibrated
from pytest_roofline.counting import Meanwhile, Timeline, _greatest_ratio
from pytest_roofline.device import Device
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.protocol import CounterReading
from pytest_roofline.result import Result
from pytest_roofline.roofline import Interval
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget
from pytest_roofline.stopping import LEAST_SAMPLES

WEIGHTS = 4e9
SAMPLE_S = 1e-3


# -- the bounds -------------------------------------------------------------------------------------------------------


def test_a_timeline_grows_within_its_stretches_only() -> None:
    """Nothing before the first, half way through a half, everything after the last, nothing in a gap."""
    line = Timeline.of([(1.0, 2.0, 10.0), (3.0, 3.0, 5.0), (4.0, 6.0, 20.0)])
    moments = (0.5, 1.0, 1.5, 2.0, 2.9, 3.0, 5.0, 9.0)
    assert [line.until(moment) for moment in moments] == [0.0, 0.0, 5.0, 10.0, 10.0, 15.0, 25.0, 35.0]
    assert line.bends_s(1.5, 4.5) == [1.5, 3.0, 4.0, 2.0, 3.0, 4.5]
    assert Timeline.of([]).until(1.0) == 0.0


points = st.tuples(st.floats(-100, 100), st.floats(0, 10))


@settings(max_examples=60, deadline=None)
@given(opens=st.lists(points, min_size=1, max_size=9), closes=st.lists(points, min_size=1, max_size=9))
def test_the_greatest_ratio_is_the_greatest_of_all_pairs(
    opens: list[tuple[float, float]], closes: list[tuple[float, float]]
) -> None:
    """As if every pair were tried."""
    later = [(grown, 11 + by) for grown, by in closes]
    every = [(grown - begun) / (by - since) for grown, by in later for begun, since in opens]
    assert _greatest_ratio(opens, later) == pytest.approx(max(every), rel=1e-9, abs=1e-9)


class Told:
    """A counter whose two readings are as old as it is told, and whose answer is exact or one step too low."""

    source = "told"
    refresh_s = 0.1

    def __init__(self, moments: tuple[float, float], ages_s: tuple[float, float], moved: Any, step: float) -> None:
        self._readings = iter(
            CounterReading(before_s=moment, after_s=moment + SAMPLE_S, held=moment - age)
            for moment, age in zip(moments, ages_s, strict=True)
        )
        self._moved = moved
        self.step_bytes_per_s = step

    def settle(self) -> None:
        """Never asked for."""
        raise AssertionError("nobody waits")

    def read(self) -> CounterReading | None:
        """The next one."""
        return next(self._readings)

    def bytes_per_s(self, first: CounterReading, second: CounterReading) -> float | None:
        """The mean between what the two hold."""
        moved = float(self._moved(second.held) - self._moved(first.held))
        return max(0.0, moved / float(second.held - first.held) - self.step_bytes_per_s)


amounts = st.floats(min_value=0.0, max_value=5.0)


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    per_pass=amounts,
    beside=amounts,
    served=st.floats(min_value=0.0, max_value=1.0),
    blocks=st.lists(st.tuples(st.floats(0.005, 0.06), st.floats(0.0, 0.02)), min_size=12, max_size=24),
)
def test_the_bounds_hold_whatever_a_reading_held(
    data: st.DataObject, per_pass: float, beside: float, served: float, blocks: list[tuple[float, float]]
) -> None:
    """Blocks and readings of the ruler in turn, with gaps: the true bytes of a pass lie between the two bounds.

    The readings are of any age up to a renewal, the answer is up to a step too low, and a cache serves any share of
    what it may of the ruler's bytes.
    """
    now, ran, read, true = 0.0, [], [], []
    for length_s, gap_s in blocks:
        ran.append((now, now + length_s, 100 * length_s))
        true.append((now, now + length_s, 100 * length_s * per_pass))
        now += length_s + gap_s
        read.append((now, now + 0.02, Interval(low=0.75 * beside, high=beside)))
        true.append((now, now + 0.02, beside * (1 - served / 4)))
        now += 0.02 + gap_s / 3
    first = data.draw(st.floats(0.1, 0.15))
    if now < first + 0.3:
        return
    counter = Told(
        (first, now),
        (data.draw(st.floats(0.0, 0.1)), data.draw(st.floats(0.0, 0.1))),
        Timeline.of(true).until,
        data.draw(st.sampled_from([0.0, 1.0])),
    )
    meanwhile = Meanwhile(Calibrated(counter=counter, factor=Interval(low=0.95, high=1.02), copies=None))  # type: ignore[arg-type]
    meanwhile.begin()
    meanwhile.begin()
    meanwhile.end()
    counted = meanwhile.counted(ran, read, is_exact=True, place="one device")
    if counted is None:  # so few passes that there may have been none between the two
        return
    assert counted.least_bytes_per_pass <= per_pass * (1 + 1e-9) + 1e-9
    assert counted.most_bytes_per_pass >= per_pass * (1 - 1e-9)
    assert counted.is_exact


def test_what_ran_before_is_not_known_and_so_not_exact() -> None:
    """A first reading may hold what came before the first block."""
    ran = [(0.05 + at / 10, 0.14 + at / 10, 10.0) for at in range(10)]
    counter = Told((0.06, 1.1), (0.0, 0.0), Timeline.of(ran).until, 0.0)
    meanwhile = Meanwhile(Calibrated(counter=counter, factor=Interval(low=1.0, high=1.0), copies=None))  # type: ignore[arg-type]
    meanwhile.begin()
    meanwhile.end()
    counted = meanwhile.counted(ran, [], is_exact=True, place="unknown")
    assert counted is not None
    assert not counted.is_exact


def test_without_a_counter_or_a_reading_nothing_is_counted() -> None:
    """No counter, never begun, refused."""
    assert Meanwhile(None).counted([], [], is_exact=True, place="unknown") is None
    meanwhile = Meanwhile(None)
    assert meanwhile.around(lambda: None)() is None
    meanwhile.end()
    assert meanwhile.counted([], [], is_exact=True, place="unknown") is None


# -- NVIDIA's counter through a stand-in for its library --------------------------------------------------------------


class NVMLError(Exception):
    """As in pynvml."""


class Library:
    """A stand-in for pynvml whose one card is a fake device: a sample takes a millisecond, and there are ten a second.

    The percentage comes in whole ones.
    """

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, backend: FakeBackend, inside: FakeCounter) -> None:
        self._backend = backend
        self._inside = inside
        self._samples: dict[Any, CounterReading] = {}
        self.taken = 0

    def nvmlInit(self) -> None:
        """Nothing to do."""

    def nvmlGpmSampleAlloc(self) -> Any:
        """A buffer."""
        return object()

    def nvmlGpmSampleFree(self, buffer: Any) -> None:
        """Given back."""
        self._samples.pop(buffer, None)

    def nvmlGpmSampleGet(self, device: Any, buffer: Any) -> Any:
        """A sample, by the driver's last renewal."""
        reading = self._inside.read()
        assert reading is not None
        self._backend.host(SAMPLE_S)
        self._samples[buffer] = reading
        self.taken += 1
        return buffer

    def c_nvmlGpmMetricsGet_t(self) -> Any:
        """The question."""
        metric = type("Metric", (), {"metricId": 0, "nvmlReturn": 99, "value": 0.0})
        return type("Question", (), {"metrics": [metric()]})()

    def nvmlGpmMetricsGet(self, question: Any) -> Any:
        """The answer, of samples that differ."""
        rate = self._inside.bytes_per_s(self._samples[question.sample1], self._samples[question.sample2])
        metric = question.metrics[0]
        metric.nvmlReturn = 3 if rate is None else 0
        metric.value = 0.0 if rate is None else 100 * rate / self._inside._peak
        return question


class Hopper(FakeBackend):
    """A fake device that is counted through NVML."""

    library: Library | None = None

    def traffic_counter(self, device: Device) -> Any:
        """GPM's counter over the stand-in."""
        inside = super().traffic_counter(device)
        if inside is None:
            return None
        library = self.library = self.library or Library(self, inside)
        return GpmCounter(Nvml(library), "card", None, peak_bytes_per_s=inside._peak, clock=self.clock, sleep=self.host)


class Court:
    """The fixture's instrument over such a device, calibrated; or over the same device without a counter."""

    def __init__(self, *, is_counted: bool = True, stopping: str = "decided", weights: float = WEIGHTS) -> None:
        counter = MemoryCounter(step_percent=1.0) if is_counted else None
        self.backend = Hopper(counter=counter, memory_bytes=80e9)
        self.session = Session(added_backends=[self.backend])
        self.calibrated = self.session.counter(self.backend.devices()[0])
        self.model = FakeModel(self.backend, weights, efficiency=0.8)
        self.roofline = Instrument(self.session, Settings(at_least=parse_budget(0.6, "test"), stopping=stopping))

    def decode(self, later: Any = None) -> Result:
        """The model's own step; with `later`, something else after the pass that is looked at."""
        calls: list[int] = []

        def step() -> Any:
            calls.append(1)
            return self.model.step() if later is None or len(calls) == 1 else later()

        return self.roofline.decode(step, model=self.model, reset=self.model.reset)


@pytest.mark.parametrize("weights", [1e9, 4e9, 16e9])
@pytest.mark.parametrize("stopping", ["decided", f"fixed:{LEAST_SAMPLES}"])
def test_through_nvml_an_honest_decode_costs_two_samples(weights: float, stopping: str) -> None:
    """Under a hundredth of the shortest measurement, whose passes are confirmed."""
    counted, bare = (Court(is_counted=is_counted, stopping=stopping, weights=weights) for is_counted in (True, False))
    assert counted.calibrated is not None
    assert counted.backend.library is not None
    before = counted.backend.library.taken
    results = [court.decode() for court in (counted, bare)]
    assert counted.backend.library.taken - before == 2
    assert results[0].elapsed_s <= 1.01 * results[1].elapsed_s + 2 * SAMPLE_S
    seen = results[0].evidence.counted
    assert seen is not None
    assert seen.least_bytes_per_pass <= weights <= seen.most_bytes_per_pass
    assert [result.verdict.outcome for result in results] == ["passed", "passed"]


def test_through_nvml_a_ceiling_needs_no_calibration() -> None:
    """Copies are made when somebody is judged, and once."""
    backend = Hopper(counter=MemoryCounter(step_percent=1.0), memory_bytes=80e9)
    session = Session(added_backends=[backend])
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    roofline = Instrument(session, Settings())

    def taken() -> int:
        return 0 if backend.library is None else backend.library.taken

    roofline.ceiling(model)
    assert taken() == 0
    roofline.decode(model.step, model=model, reset=model.reset)
    assert taken() == 3 + 2
    roofline.decode(model.step, model=model, reset=model.reset)
    assert taken() == 3 + 4


def test_through_nvml_passes_that_read_nothing_are_bogus() -> None:
    """As slow as honest ones: counted beside the blocks, counted again alone, and only then told."""
    court = Court()
    with pytest.raises(BogusMeasurement, match="at most came from memory by the device's own counter"):
        court.decode(lambda: court.backend.launch(seconds=WEIGHTS / 0.8e12))
    bare = Court(is_counted=False)
    assert bare.decode(lambda: bare.backend.launch(seconds=WEIGHTS / 0.8e12)).verdict.outcome == "passed"


@pytest.mark.parametrize("share", [1 / 5, 1 / 3])
def test_through_nvml_passes_that_read_a_part_are_undecided(share: float) -> None:
    """At the time of all of the bytes."""
    court = Court()
    part = FakeModel(court.backend, share * WEIGHTS, efficiency=share * 0.8)
    result = court.decode(part.step)
    assert result.verdict.outcome == "inconclusive"
    assert [one.check for one in result.findings if one.severity == "inconclusive"] == ["cache-resident"]
