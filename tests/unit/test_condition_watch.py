"""Watching a device while it is measured: every sample says how the device was, and the watch always ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from test_instrument import WEIGHTS, asking, decode, instrument

from pytest_roofline.backends.fake import FakeBackend, FakeModel, Neighbour, Throttle
from pytest_roofline.condition_watch import ConditionWatch
from pytest_roofline.conditions import Conditions
from pytest_roofline.device import Device
from pytest_roofline.result import Result

LONG = 1e6
CARD = Device(name="card", kind="cuda", backend="scripted")
CPU = Device(name="processor", kind="cpu", backend="scripted", compute_units=2)


class Scripted:
    """A backend whose readings are made by a function of their number, at one second of its clock each."""

    def __init__(self, make: Callable[[int], Conditions]) -> None:
        self._make = make
        self.asked = 0
        self.seen = threading.Event()

    def conditions(self, device: Device) -> Conditions:
        """The next reading."""
        self.asked += 1
        if self.asked >= 4:
            self.seen.set()
        return self._make(self.asked)

    def clock(self) -> float:
        """Seconds."""
        return float(self.asked)


def watch(make: Callable[[int], Conditions], device: Device = CPU, **figures: Any) -> ConditionWatch:
    """A watch on a scripted backend."""
    return ConditionWatch(Scripted(make), device, **figures)  # type: ignore[arg-type]


def threads() -> list[threading.Thread]:
    """The samplers that run now."""
    return [one for one in threading.enumerate() if one.name == "roofline-conditions"]


def remaining() -> list[threading.Thread]:
    """Those that do not end by themselves, however slow this machine is."""
    found = threads()
    for one in found:
        one.join(10)
    return [one for one in found if one.is_alive()]


@pytest.mark.parametrize("device", [CPU, Device(name="f", kind="fake", backend="fake")])
def test_no_thread_beside_a_processor_or_a_virtual_clock(device: Device) -> None:
    """It would take a core from the step, or depend on the machine: what is read is read between the blocks."""
    with watch(lambda _: Conditions(), device, period_s=0.001) as one:
        assert not threads()
    assert len(one.readings) == 2


def test_a_card_is_read_while_it_works() -> None:
    """By a thread that is gone when the watch ends."""
    backend = Scripted(lambda number: Conditions(clock_hz=1e9, max_clock_hz=2e9, temperature_c=float(number)))
    with ConditionWatch(backend, CARD, period_s=0.001) as one:  # type: ignore[arg-type]
        assert len(threads()) == 1
        assert backend.seen.wait(30)
    assert not remaining()
    assert len(one.readings) >= 4
    assert one.to_dict()["during"]["highest_temperature_c"] >= 4


def test_the_thread_is_stopped_when_the_measurement_breaks_off() -> None:
    """On every path, and closing twice is closing once."""
    one = watch(lambda _: Conditions(), CARD, period_s=0.001)
    with pytest.raises(ZeroDivisionError), one:
        raise ZeroDivisionError
    assert not remaining()
    count = len(one.readings)
    one.close()
    assert len(one.readings) == count


def test_without_a_thread_the_ends_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a container allows no further process, a card is read before and after, and nothing is raised."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with ConditionWatch(FakeBackend(), CARD) as watch:
        pass
    assert len(watch.readings) == 2


def test_a_reading_that_hangs_does_not_hold_the_end_up() -> None:
    """The sampler is left behind, a daemon; the last reading is the bounded one of the driver."""
    end, asked = threading.Event(), threading.Event()
    main = threading.current_thread()

    def read(_: int) -> Conditions:
        if threading.current_thread() is not main:
            asked.set()
            end.wait(30)
        return Conditions()

    with watch(read, CARD, period_s=0.001) as one:
        assert asked.wait(30)
    assert [thread.daemon for thread in threads()] == [True]
    assert len(one.readings) == 2
    end.set()
    assert not remaining()


@pytest.mark.parametrize("failing", [{1}, {2}, {3}, {1, 2, 3}])
def test_readings_that_raise_cost_themselves(failing: set[int]) -> None:
    """A backend of somebody else's, a lost device: the measurement goes on."""

    def read(number: int) -> Conditions:
        if number in failing:
            raise RuntimeError("device lost")
        return Conditions(machine_busy_s=2.0 * number, process_busy_s=1.0 * number)

    with watch(read) as one:
        found = one.since_last()
    assert (found.neighbours_share is None) == bool(failing & {1, 2})
    assert (one.stretch().neighbours_share is None) == bool(failing & {1, 3})
    json.dumps(one.to_dict(), allow_nan=False)


def test_since_last_is_the_part_and_stretch_the_whole() -> None:
    """Others came in the second half: half a core of two, then one and a half."""
    busy = {1: 0.0, 2: 1.0, 3: 4.0}
    with watch(lambda number: Conditions(machine_busy_s=busy[number], process_busy_s=0.0)) as one:
        assert one.since_last().neighbours_share == 0.5
    assert one.stretch().neighbours_share == 1.0


# -- in a measurement -----------------------------------------------------------------------------------------------


def marks(result: Result) -> list[bool]:
    """Which samples say that the device was throttled."""
    return [one.conditions is not None and one.conditions.is_throttled for one in result.samples]


def test_throttled_samples_are_kept_and_marked() -> None:
    """In the sample list, in the record and in the finding; none is missing."""
    result = decode(throttle=[Throttle(start_s=0.0, end_s=LONG, slowdown=2.0, reason="heat")])
    assert marks(result) == [True] * len(result.samples)
    record = result.to_dict()
    assert [one["conditions"]["throttled"] for one in record["samples"]] == [["heat"]] * len(result.samples)
    assert record["conditions"]["during"]["throttled"] == ["heat"]
    (finding,) = [one for one in result.findings if one.check == "throttled"]
    assert finding.figures["throttled_samples"] == list(range(1, len(result.samples) + 1))
    assert f"in {len(result.samples)} of {len(result.samples)} samples" in finding.message


def test_only_the_samples_in_the_window_are_marked() -> None:
    """The device's own counters tell, even where the window is over when it is asked."""
    quiet = decode()
    assert not any(marks(quiet))
    backend, roofline = instrument()
    roofline.ceiling(WEIGHTS)
    begun = backend.now_s()
    backend, roofline = instrument(throttle=[Throttle(start_s=begun + 0.4, end_s=begun + 0.55, slowdown=1.5)])
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    found = marks(roofline.decode(model.step, model=model, reset=model.reset))
    assert any(found)
    assert not all(found)


def test_a_device_that_does_not_admit_it_is_not_excused() -> None:
    """A slow-down that no source shows is judged like any other."""
    result = decode(throttle=[Throttle(start_s=0.0, end_s=LONG, slowdown=2.0, is_visible=False)])
    assert not any(marks(result))
    assert not [one for one in result.findings if one.check == "throttled"]


@pytest.mark.parametrize("sheet", ["derived", None])
def test_neighbours_that_the_probes_beside_the_blocks_felt_excuse_nothing(sheet: str | None) -> None:
    """Half of the device is gone for both: 50 % stays 50 %, a miss stays a miss, and the neighbour is named."""
    neighbour = Neighbour(start_s=0.0, end_s=LONG, share=0.5, name="process 7 (train)")
    result = decode(asking(0.6), efficiency=0.4, neighbours=[neighbour], sheet_bytes_per_s=sheet)
    assert result.verdict.outcome == "failed"
    (finding,) = [one for one in result.findings if one.check == "device-shared"]
    assert finding.severity == "note"
    assert "50 % of the device's time (process 7 (train))" in finding.message


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0])
def test_a_driver_that_goes_away_costs_no_verdict(seconds: float) -> None:
    """At the start, midway or never: the same verdict, and the fields are empty."""

    def state(now_s: float) -> Conditions:
        if now_s >= seconds:
            raise RuntimeError("GPU is lost")
        return Conditions(power_w=300.0)

    result = decode(asking(0.6), state=state)
    assert result.verdict.outcome == "passed"
    assert result.to_dict()["conditions"]["after"]["power_w"] is None


def test_the_fake_plays_every_field() -> None:
    """Whatever a state says is what a reading says; the record holds it before and after."""
    state = Conditions(
        power_w=500.0, power_limit_w=350.0, is_persistent=False, uncorrected_errors=2, governor="powersave"
    )
    record = decode(state=state).to_dict()["conditions"]
    for when in ("before", "after"):
        assert record[when]["power_limit_w"] == 350.0
        assert (record[when]["is_persistent"], record[when]["uncorrected_errors"]) == (False, 2)
    assert FakeBackend(state=state).conditions(FakeBackend().devices()[0]).governor == "powersave"
    json.dumps(record, allow_nan=False)


def test_an_audit_has_conditions_too() -> None:
    """Read on entry and when the claim is judged."""
    backend, roofline = instrument(state=Conditions(temperature_c=71.0))
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    with roofline.audit(model=model) as audit:
        start = backend.perf_counter()
        for _ in range(20):
            audit.watch(model.step)()
        backend.synchronize()
        audit.claim(tokens=20, seconds=backend.perf_counter() - start)
    record = audit.result.to_dict()["conditions"]
    assert record["before"]["temperature_c"] == record["during"]["highest_temperature_c"] == 71.0


@pytest.mark.parametrize("ending", ["raises", "claims nothing", "claims"])
def test_an_audit_stops_watching_however_it_ends(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """With a thread, as beside a card, which is gone afterwards."""
    backend, roofline = instrument()
    opened: list[ConditionWatch] = []
    original = ConditionWatch.open

    def open_beside_a_card(self: ConditionWatch) -> ConditionWatch:
        opened.append(self)
        self._device = CARD
        return original(self)

    monkeypatch.setattr(ConditionWatch, "open", open_beside_a_card)
    model = FakeModel(backend, WEIGHTS)
    audit = roofline.audit(model=model)
    try:
        with audit:
            assert len(threads()) == 1
            start = backend.perf_counter()
            for _ in range(20):
                model.step()
            backend.synchronize()
            if ending == "raises":
                raise ZeroDivisionError
            if ending == "claims":
                audit.claim(tokens=20, seconds=backend.perf_counter() - start)
    except ZeroDivisionError:
        assert ending == "raises"
    assert not remaining()
    assert len(opened) == 1
