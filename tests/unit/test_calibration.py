"""The device's own counter from its calibration to a verdict, on a fake device that knows what it moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel, MemoryCounter, Neighbour
from pytest_roofline.backends.fake_counter import FakeCounter
from pytest_roofline.calibration import AGREEMENT, SANE, Calibrated
from pytest_roofline.checks.counted import Counted
from pytest_roofline.checks.evidence import Finding
from pytest_roofline.counting import place_of
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.protocol import CounterReading, TrafficCounter
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget
from pytest_roofline.stopping import LEAST_SAMPLES

WEIGHTS = 4e9


class Bench:
    """A fake device that counts its traffic unless told otherwise, a model of 4 GB at 80 %, and a budget of 60 %."""

    def __init__(self, **figures: Any) -> None:
        self.backend = FakeBackend(**{"counter": MemoryCounter(), **figures})
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.session = Session(added_backends=[self.backend])
        self.roofline = Instrument(self.session, Settings(at_least=parse_budget(0.6, "test")))

    @property
    def counter(self) -> Calibrated | None:
        """Calibrated, if it holds."""
        return self.session.counter(self.backend.devices()[0])

    def decode(self, step: Callable[[], Any] | None = None, **arguments: Any) -> Result:
        """The model's own step, traced, unless told otherwise."""
        arguments = {"model": self.model, "reset": self.model.reset, **arguments}
        return self.roofline.decode(step or self.model.step, **arguments)

    def audit(self, step: Callable[[], Any] | None = None, passes: int = 200) -> Result:
        """A drained loop that claims a token and 4 GB for every call."""
        with self.roofline.audit(traffic=WEIGHTS) as audit:
            self.model.step()
            self.backend.synchronize()
            start = time.perf_counter()
            for _ in range(passes):
                (step or self.model.step)()
            self.backend.synchronize()
            audit.claim(tokens=passes, seconds=time.perf_counter() - start)
        result = audit.result
        assert result is not None
        return result


def counted_of(result: Result) -> Counted:
    """What was counted, which must be something."""
    counted = result.evidence.counted
    assert counted is not None
    return counted


def decisive(result: Result) -> list[Finding]:
    """Findings that are more than a note."""
    return [finding for finding in result.findings if finding.severity != "note"]


# -- the fake counter
# -----------------------------------------------------------------------------------------------------------


def rate(backend: FakeBackend, work: Callable[[], object]) -> float | None:
    """What the fake counter says of some work, between two readings with an idle renewal around it."""
    counter = backend.traffic_counter(backend.devices()[0])
    assert counter is not None
    counter.settle()
    first = counter.read()
    work()
    backend.drain()
    counter.settle()
    second = counter.read()
    if first is None or second is None:
        return None
    answer = counter.bytes_per_s(first, second)
    return None if answer is None else answer * (second.held.moment_s - first.held.moment_s)


def test_the_fake_counts_what_its_memory_moved() -> None:
    """Reads and writes, not what came from cache, zeros as they move, pages never written not at all."""
    backend = FakeBackend(counter=MemoryCounter(), compresses=True)
    small, large = backend.buffer(10e6), backend.buffer(1e9)
    zeros, unwritten = backend.buffer(1e9, data="constant"), backend.buffer(1e9, data="untouched")
    assert rate(backend, lambda: backend.launch(buffer=large)) == pytest.approx(1e9)
    assert rate(backend, lambda: backend.launch(buffer=large, writes=backend.buffer(1e9))) == pytest.approx(2e9)
    assert rate(backend, lambda: [backend.launch(buffer=small) for _ in range(50)]) == pytest.approx(10e6)
    assert rate(backend, lambda: backend.launch(buffer=zeros)) == pytest.approx(0.25e9)
    assert rate(backend, lambda: backend.launch(buffer=unwritten)) == pytest.approx(0.0)
    assert rate(backend, lambda: backend.launch(seconds=0.5)) == pytest.approx(0.0)
    assert rate(backend, lambda: backend.launch(read_bytes=1e9, seconds=0.5)) == pytest.approx(1e9)
    assert rate(backend, lambda: backend.launch(read_bytes=9e9, seconds=1e-3)) == pytest.approx(1e9)


def test_the_fake_counts_its_neighbours() -> None:
    """A neighbour with a quarter of the device moves a quarter of what it could."""
    backend = FakeBackend(counter=MemoryCounter(refresh_s=0.0), neighbours=[Neighbour(start_s=0, end_s=9, share=0.25)])
    assert rate(backend, lambda: backend.host(1.0)) == pytest.approx(0.25e12, rel=1e-3)


def test_the_fake_counter_has_the_faults_of_real_ones() -> None:
    """None at all, whole percents, readings that are renewed now and then, refusals; and bad figures are errors."""
    plain = FakeBackend()
    assert plain.traffic_counter(plain.devices()[0]) is None
    coarse = FakeBackend(counter=MemoryCounter(step_percent=1.0, refresh_s=0.0))
    counter = coarse.traffic_counter(coarse.devices()[0])
    assert isinstance(counter, FakeCounter)
    first = counter.read()
    coarse.launch(read_bytes=0.25e12)
    coarse.drain()
    second = counter.read()
    assert first is not None
    assert second is not None
    whole = counter.bytes_per_s(first, second)
    assert whole == pytest.approx(0.90 * 1.1e12)  # 90.9 percent
    assert counter.step_bytes_per_s == pytest.approx(0.01 * 1.1e12)
    refusing = FakeBackend(counter=MemoryCounter(failing_reads=frozenset({1}), failing_answers=frozenset({0})))
    counter = refusing.traffic_counter(refusing.devices()[0])
    assert isinstance(counter, FakeCounter)
    first, refused, second = counter.read(), counter.read(), counter.read()
    assert refused is None
    assert first is not None
    assert second is not None
    assert counter.bytes_per_s(first, second) is None  # refused
    assert counter.bytes_per_s(first, second) is None  # of the same renewal
    with pytest.raises(RooflineUsageError, match=r"fake counter: scale is -1; it must be a finite number, 0 or more"):
        MemoryCounter(scale=-1)


# -- calibration
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start_s", [0.013, 0.077])
@pytest.mark.parametrize("step_percent", [0.0, 1.0])
@pytest.mark.parametrize("refresh_s", [0.0, 0.1])
def test_a_true_counter_holds(start_s: float, step_percent: float, refresh_s: float) -> None:
    """Exact or in whole percents, renewed at any phase: known and counted bytes agree, and the interval has both."""
    bench = Bench(counter=MemoryCounter(step_percent=step_percent, refresh_s=refresh_s), start_s=start_s)
    calibrated = bench.counter
    assert calibrated is not None
    assert calibrated.factor.low <= 1.0 <= calibrated.factor.high
    assert calibrated.still_holds()
    counted = counted_of(bench.decode())
    assert counted.least_bytes_per_pass <= WEIGHTS <= counted.most_bytes_per_pass


@pytest.mark.parametrize(
    "figures",
    [
        {"counter": None},
        {"counter": MemoryCounter(scale=0.0)},
        {"counter": MemoryCounter(scale=0.5)},
        {"counter": MemoryCounter(scale=1.4)},
        {"counter": MemoryCounter(lost_at_s=0.0)},
        {"counter": MemoryCounter(failing_reads=frozenset({1}))},
        {"counter": MemoryCounter(failing_answers=frozenset({1}))},
        {"memory_bytes": 6e9, "cache_bytes": 120e6},
        {"neighbours": [Neighbour(start_s=0, end_s=1e9, share=0.4)]},
    ],
)
def test_a_counter_that_does_not_hold_changes_nothing(figures: dict[str, Any]) -> None:
    """None, off, wrong, refused, no room for a copy, a busy device: nothing is counted, and nothing is said of it."""
    bench = Bench(**figures)
    bench.model = FakeModel(bench.backend, 1e9, efficiency=0.8)
    assert bench.counter is None
    result = bench.decode()
    assert result.evidence.counted is None
    assert result.verdict.outcome in ("passed", "inconclusive")
    assert "counter" not in " ".join([*result.notes, *(finding.message for finding in result.findings)])


def test_two_sizes_that_disagree_are_no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter that is right for one length of copying and off by 18 % for another is not used."""
    true = FakeCounter.bytes_per_s
    answers: list[float] = []

    def drifting(self: FakeCounter, first: CounterReading, second: CounterReading) -> float | None:
        answer = true(self, first, second)
        answers.append(1.0)
        return answer if answer is None or len(answers) != 2 else 0.82 * answer

    monkeypatch.setattr(FakeCounter, "bytes_per_s", drifting)
    assert Bench(counter=MemoryCounter(refresh_s=0.0)).counter is None
    assert len(answers) == 3
    assert 1 + AGREEMENT < 1 / 0.82 < SANE[1]


def test_it_is_calibrated_once_a_session() -> None:
    """The second measurement finds it as it is."""
    bench = Bench()
    assert bench.counter is not None
    assert bench.counter is bench.counter
    before_s = bench.backend.now_s()
    assert bench.session.counter(bench.backend.devices()[0]) is bench.counter
    assert bench.backend.now_s() == before_s
    counter: TrafficCounter = bench.counter.counter
    assert counter.source == "fake counter of memory traffic"


def test_a_neighbour_at_calibration_makes_nobody_look_idle_later() -> None:
    """It is counted with the copies and gone when the passes run: they still have all their bytes."""
    probe_only = Bench(counter=None)
    probe_only.session.probe(probe_only.backend.devices()[0])
    neighbour = Neighbour(start_s=probe_only.backend.now_s(), end_s=probe_only.backend.now_s() + 2.0, share=0.1)
    bench = Bench(neighbours=[neighbour])
    calibrated = bench.counter
    assert calibrated is not None
    bench.backend.host(3.0)
    result = bench.decode()
    assert counted_of(result).most_bytes_per_pass >= WEIGHTS
    assert result.verdict.outcome == "passed"


def test_where_a_pass_lies() -> None:
    """One device, another one beside it, the host beside it, or not known."""
    device = FakeBackend().devices()[0]
    assert place_of(device, ()) == "unknown"
    assert place_of(device, ("fake:0",)) == "one device"
    assert place_of(device, ("fake:0", "cpu")) == "unknown"
    assert place_of(device, ("fake:0", "fake:1")) == "several devices"


# -- decode and kernel
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [None, "gaussian", "drift", "bursts", "heavy-tail"])
@pytest.mark.parametrize("policy", ["lru", "best"])
def test_an_honest_decode_is_confirmed(noise: Any, policy: Any) -> None:
    """Whatever the weather and the kindest cache there can be: what was counted holds what the pass must move."""
    bench = Bench(noise=noise, cache_policy=policy, seed=3)
    result = bench.decode()
    needed = WEIGHTS - result.evidence.knee_bytes
    assert counted_of(result).most_bytes_per_pass >= needed
    assert counted_of(result).least_bytes_per_pass <= WEIGHTS
    assert decisive(result) == []
    assert result.verdict.outcome == "passed"


@pytest.mark.parametrize("weights", [0.5e9, 4e9, 20e9])
@pytest.mark.parametrize("stopping", ["decided", f"fixed:{LEAST_SAMPLES}"])
def test_counting_an_honest_decode_takes_two_readings(weights: float, stopping: str) -> None:
    """Not a pass more, and two readings of a millisecond at most, even of the shortest measurement there is."""
    taken: list[tuple[float, int]] = []
    for figures in ({}, {"counter": None}):
        bench = Bench(memory_bytes=80e9, **figures)
        bench.roofline = Instrument(bench.session, Settings(at_least=parse_budget(0.6, "test"), stopping=stopping))
        bench.model = FakeModel(bench.backend, weights, efficiency=0.8)
        calls: list[Any] = []
        assert bench.counter is not None or figures
        result = bench.decode(lambda calls=calls, model=bench.model: (calls.append(1), model.step())[1])
        taken.append((result.elapsed_s, len(calls)))
        assert (result.evidence.counted is None) is bool(figures)
    (with_counter_s, with_counter), (without_s, without) = taken
    assert with_counter == without
    assert with_counter_s - without_s <= 2e-3
    assert with_counter_s <= 1.01 * without_s


@pytest.mark.parametrize("passes", [100, 200, 400])
def test_counting_an_honest_audit_takes_two_readings(passes: int) -> None:
    """Nobody waits for the counter to settle unless it speaks against the test."""
    taken = []
    for figures in ({}, {"counter": None}):
        bench = Bench(**figures)
        bench.session.counter(bench.backend.devices()[0])
        begun_s = bench.backend.now_s()
        assert (bench.audit(passes=passes).evidence.counted is None) is bool(figures)
        taken.append(bench.backend.now_s() - begun_s)
    assert taken[0] - taken[1] <= 2e-3


def skipping(bench: Bench, later: Callable[[], Any]) -> Callable[[], Any]:
    """A step that does its work when it is looked at, and something else from then on."""
    calls: list[int] = []

    def step() -> Any:
        calls.append(1)
        return bench.model.step() if len(calls) == 1 else later()

    return step


def test_passes_that_read_nothing_are_bogus() -> None:
    """As slow as honest ones, so that no limit is exceeded: only the counter sees that nothing was read."""

    def measured(bench: Bench) -> Result:
        step = skipping(bench, lambda: bench.backend.launch(seconds=WEIGHTS / 0.8e12))
        return bench.decode(step, reset=lambda: None)

    assert measured(Bench(counter=None)).verdict.outcome == "passed"
    with pytest.raises(BogusMeasurement, match="at most came from memory by the device's own counter") as excinfo:
        measured(Bench())
    assert str(excinfo.value).splitlines()[0].endswith("later passes do not read what it read [work-missing]")


def test_half_of_the_bytes_is_undecided() -> None:
    """Half of the layers skipped, as slow as the whole: the budget lies between what was claimed and counted."""
    bench = Bench()
    half = FakeModel(bench.backend, WEIGHTS / 2, efficiency=0.4)
    result = bench.decode(skipping(bench, half.step), reset=half.reset)
    assert result.verdict.outcome == "inconclusive"
    assert [finding.check for finding in decisive(result)] == ["cache-resident"]


@pytest.mark.parametrize("arguments", [{}, {"reset": None, "passes_per_reset": 100_000}])
def test_bytes_that_a_hidden_pass_does_not_move_are_undecided(arguments: dict[str, Any]) -> None:
    """Twice the bytes declared for a step that no trace sees, at half the efficiency: the counter sees them missing."""
    bench = Bench()
    opaque = FakeModel(bench.backend, WEIGHTS / 2, efficiency=0.4, is_opaque=True)
    result = bench.decode(opaque.step, **{"model": None, "traffic": WEIGHTS, "reset": opaque.reset, **arguments})
    assert result.verdict.outcome == "inconclusive"
    assert [finding.check for finding in decisive(result)] == ["bytes-disagree"]


def test_a_counter_that_dies_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched off or half blind after its calibration: held against a copy before it may speak, it drops out."""
    true = FakeCounter.bytes_per_s
    for share in (0.0, 0.4):

        def blind(*readings: Any, share: float = share) -> float:
            return share * (true(*readings) or 0.0)

        bench = Bench()
        assert bench.counter is not None
        with monkeypatch.context() as patch:
            patch.setattr(FakeCounter, "bytes_per_s", blind)
            result = bench.decode()
            audit = bench.audit()
        for one in (result, audit):
            assert one.evidence.counted is None
            assert one.verdict.outcome == "passed"


@pytest.mark.parametrize("failing", [range(4, 99), range(5, 99)])
def test_permission_lost_midway_is_no_evidence(failing: range) -> None:
    """Before or after the passes: nothing is counted, and the verdict is as it was."""
    bench = Bench(counter=MemoryCounter(failing_reads=frozenset(failing)))
    assert bench.counter is not None
    result = bench.decode()
    assert [bench.decode().evidence.counted, result.verdict.outcome] == [None, "passed"]


@pytest.mark.parametrize(
    "arguments",
    [{"max_time_s": 0.5}, {"reset": None, "passes_per_reset": 90}, {"passes_per_reset": 2}],
    ids=["time", "room", "resets"],
)
def test_no_time_and_no_room_to_count_again_is_no_evidence(arguments: dict[str, Any]) -> None:
    """Too few bytes beside the blocks, and nothing left to count passes by themselves: nobody is told."""

    def measured(bench: Bench) -> Result:
        step = skipping(bench, lambda: bench.backend.launch(seconds=WEIGHTS / 0.8e12))
        return bench.decode(step, **{"reset": lambda: None, **arguments})

    assert measured(Bench()).evidence.counted is None
    assert measured(Bench(counter=None)).verdict.outcome == measured(Bench()).verdict.outcome


def test_a_measurement_that_is_short_for_the_counter_says_nothing() -> None:
    """Under two renewals between the readings: who knows what a reading held."""
    bench = Bench()
    assert bench.counter is not None
    assert bench.decode(max_time_s=0.25).evidence.counted is None


def test_resets_beside_the_blocks_only_add() -> None:
    """They move what nobody knows, so there is no word about reading more than is known; without any there may be."""
    bench = Bench()
    counted = counted_of(bench.decode(passes_per_reset=20))
    assert not counted.is_exact
    assert counted.most_bytes_per_pass >= WEIGHTS
    assert counted_of(Bench().decode(reset=None, passes_per_reset=100_000)).is_exact


def test_passes_that_read_more_than_they_must_are_told() -> None:
    """Twice what the pass read that was looked at, by every later one: a note."""
    bench = Bench()
    step = skipping(bench, lambda: (bench.model.step(), bench.model.step())[1])
    result = bench.decode(step, reset=None, passes_per_reset=100_000)
    assert counted_of(result).least_bytes_per_pass >= 1.25 * WEIGHTS
    assert [one.severity for one in result.findings if "own counter" in one.message] == ["note"]


def test_a_neighbour_only_adds() -> None:
    """Another process that moves as much again, from after the calibration on: a note at most."""
    bench = Bench()
    assert bench.counter is not None
    later = Bench(neighbours=[Neighbour(start_s=bench.backend.now_s(), end_s=1e9, share=0.5)])
    assert later.counter is not None
    result = later.decode()
    assert counted_of(result).most_bytes_per_pass >= 2 * WEIGHTS
    assert decisive(result) == []


def test_a_cold_kernel_is_counted_and_an_evicted_one_is_not() -> None:
    """Past four knees calls follow each other; evictions between them would drown what they move."""
    bench = Bench()
    source, target = bench.backend.buffer(2e9), bench.backend.buffer(2e9)
    result = bench.roofline.kernel(
        lambda: bench.backend.launch(buffer=source, writes=target), bytes_read=2e9, bytes_written=2e9
    )
    assert counted_of(result).most_bytes_per_pass >= 4e9
    assert decisive(result) == []
    small = bench.backend.buffer(60e6)
    evicted = bench.roofline.kernel(lambda: bench.backend.launch(buffer=small), bytes_read=60e6)
    assert evicted.evidence.counted is None
    hot = bench.roofline.kernel(lambda: bench.backend.launch(buffer=source), bytes_read=2e9, cache="hot")
    assert hot.evidence.counted is None


# -- audits
# -----------------------------------------------------------------------------------------------------------


def test_an_honest_audit_is_confirmed() -> None:
    """Everything since it was entered encloses its window."""
    result = Bench().audit()
    counted = counted_of(result)
    assert counted.passes == 200
    assert counted.most_bytes_per_pass >= WEIGHTS
    assert result.verdict.outcome == "passed"


def test_passes_that_move_too_little_are_undecided_in_an_audit() -> None:
    """A third of the bytes at the time of all of them."""
    bench = Bench()
    other = FakeModel(bench.backend, WEIGHTS / 3, efficiency=0.8 / 3)
    result = bench.audit(other.step)
    assert result.verdict.outcome == "inconclusive"
    assert [finding.check for finding in decisive(result)] == ["bytes-disagree"]


def test_a_short_audit_says_nothing() -> None:
    """A window that is not long against the age of a reading is no evidence."""
    bench = Bench()
    assert bench.counter is not None
    assert bench.audit(passes=5).evidence.counted is None
    assert bench.audit(passes=50).evidence.counted is not None


def test_an_audit_without_a_window_or_a_reading_says_nothing() -> None:
    """Several clock reads that fit no claim, and a counter that refuses."""
    bench = Bench(counter=MemoryCounter(failing_reads=frozenset(range(4, 99))))
    assert bench.audit().evidence.counted is None
    bench = Bench()
    with bench.roofline.audit(traffic=WEIGHTS) as audit:
        for _ in range(3):
            time.perf_counter()
            for _ in range(100):
                bench.model.step()
            bench.backend.synchronize()
        audit.claim(tokens=300, seconds=1.4)
    assert audit.result is not None
    assert audit.result.evidence.counted is None
