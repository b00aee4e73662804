"""Device events read by the test's code: which are noted, what the markers make of them, and that all is put back."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from pytest_roofline.event_watch import MOST_MARKERS, EventWatch
from pytest_roofline.protocol import WatchedEvents
from pytest_roofline.provenance import Provenance, place_of


class Clock:
    """A private clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 10.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


class Event:
    """An event of some framework, in milliseconds; the clock moves when it is recorded."""

    clock: Clock

    def __init__(self) -> None:
        self.at_ms = 0.0

    def record(self, stream: object = None) -> str:
        """Stamp it at once."""
        self.at_ms = self.clock.now_s * 1e3
        self.clock.now_s += 1e-6
        return f"recorded on {stream}"

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        return end.at_ms - self.at_ms


class Marker:
    """Done at a moment."""

    def __init__(self, moment_s: float) -> None:
        self.moment_s = moment_s
        self.asked = 0

    def finished_s(self) -> float:
        """The moment."""
        self.asked += 1
        return self.moment_s


class Scene:
    """A watch over `Event`, with a marker before each record that says when the device was done."""

    def __init__(self) -> None:
        self.clock = Event.clock = Clock()
        self.busy_until_s = 0.0
        self.markers: list[Marker] = []
        self.watch = EventWatch(
            private=self.clock, mark=self.mark, classes=[WatchedEvents("Event", Event, "record", "elapsed_time", 1e-3)]
        )

    def mark(self) -> tuple[Marker, ...]:
        """Nothing where the device is idle."""
        if self.busy_until_s <= self.clock.now_s:
            return ()
        self.markers.append(Marker(self.busy_until_s))
        return (self.markers[-1],)


@pytest.fixture
def scene() -> Any:
    """A watch that has started, and is stopped again."""
    scene = Scene()
    scene.watch.start()
    yield scene
    scene.watch.stop()


def test_an_interval_is_noted_with_value_line_and_markers(scene: Scene) -> None:
    """The first event is reached at once, everything before the second is done half a second later."""
    first, last = Event(), Event()
    assert first.record() == "recorded on None"
    scene.clock.now_s = 10.1
    scene.busy_until_s = 10.6
    last.record("side")
    assert first.elapsed_time(last) == pytest.approx(100.0)
    (interval,) = scene.watch.intervals()
    assert interval.value_s == pytest.approx(0.1)
    assert interval.closed_s == pytest.approx(0.6, abs=1e-5)
    assert interval.host_s == pytest.approx(0.1, abs=1e-5)
    assert interval.latest_s is not None
    assert interval.latest_s == pytest.approx(0.6)
    assert interval.where.startswith("test_event_watch.py:")


def test_a_busy_device_reaches_the_first_event_late(scene: Scene) -> None:
    """What was queued before the first event is not charged to the interval."""
    scene.busy_until_s = 10.5
    first, last = Event(), Event()
    first.record()
    scene.clock.now_s = 10.1
    scene.busy_until_s = 10.8
    last.record()
    first.elapsed_time(last)
    (interval,) = scene.watch.intervals()
    assert interval.closed_s == pytest.approx(0.3)


def test_an_event_recorded_again_is_the_later_one(scene: Scene) -> None:
    """Each reading speaks of the records before it."""
    first, last = Event(), Event()
    for lap in range(3):
        scene.clock.now_s = 20.0 + lap
        first.record()
        scene.clock.now_s += 0.1 * (lap + 1)
        last.record()
        first.elapsed_time(last)
    assert [interval.closed_s for interval in scene.watch.intervals()] == pytest.approx([0.1, 0.2, 0.3], abs=1e-5)


def test_events_from_before_the_audit_are_not_closed(scene: Scene) -> None:
    """Their records were not seen: a value, and no bound."""
    scene.watch.stop()
    first, last = Event(), Event()
    first.record()
    last.record()
    scene.watch.start()
    first.elapsed_time(last)
    (interval,) = scene.watch.intervals()
    assert interval.closed_s is None
    assert interval.host_s is None


def test_a_replaced_method_is_read_as_the_test_would(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was noted, and two records were: the claim asks the method that is there now."""
    first, last = Event(), Event()
    first.record()
    scene.clock.now_s = 10.5
    last.record()
    monkeypatch.setattr(Event, "elapsed_time", lambda event, end: 7.0)
    scene.watch.read_again()
    (interval,) = scene.watch.intervals()
    assert interval.value_s == pytest.approx(7e-3)
    assert interval.closed_s == pytest.approx(0.5, abs=1e-5)


def test_reading_again_notes_only_what_differs(scene: Scene) -> None:
    """An honest method says the same twice; one that raises says nothing."""
    first, last = Event(), Event()
    first.record()
    last.record()
    first.elapsed_time(last)
    scene.watch.read_again()
    assert len(scene.watch.intervals()) == 1


def test_a_value_that_is_no_number_is_not_noted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that somebody replaced may return what it likes."""
    scene.watch.stop()
    monkeypatch.setattr(Event, "elapsed_time", lambda event, end: "soon")
    scene.watch.start()
    assert Event().elapsed_time(Event()) == "soon"  # type: ignore[comparison-overlap]
    assert scene.watch.intervals() == ()


def test_methods_are_put_back_and_kept_wrappers_pass_through() -> None:
    """After stop the class is as it was; a wrapper that monkeypatch puts back later notes nothing."""
    before = (Event.record, Event.elapsed_time)
    scene = Scene()
    scene.watch.start()
    kept = Event.record
    scene.watch.stop()
    assert (Event.record, Event.elapsed_time) == before
    assert kept(Event(), "main") == "recorded on main"
    assert scene.watch.intervals() == ()


def test_what_was_patched_over_the_wrapper_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is theirs to take back; what they then put back passes through, and the next audit takes it out."""
    before = Event.record
    scene = Scene()
    scene.watch.start()
    monkeypatch.setattr(Event, "record", lambda event: "mine")
    scene.watch.stop()
    assert Event().record() == "mine"
    monkeypatch.undo()
    assert Event().record() == "recorded on None"
    assert Event.record is not before
    later = Scene()
    later.watch.start()
    later.watch.stop()
    assert Event.record is before


def test_inherited_methods_are_not_left_on_the_subclass() -> None:
    """A class that inherits its methods has none of its own afterwards."""

    class Child(Event):
        """No method of its own."""

    watch = EventWatch(
        private=Clock(), mark=tuple, classes=[WatchedEvents("Child", Child, "record", "elapsed_time", 1e-3)]
    )
    watch.start()
    assert "record" in vars(Child)
    watch.stop()
    assert "record" not in vars(Child)


def test_old_markers_are_settled_not_forgotten(scene: Scene) -> None:
    """A loop of many events holds few markers."""
    scene.busy_until_s = 1e9
    for _ in range(MOST_MARKERS + 20):
        Event().record()
    assert sum(marker.asked for marker in scene.markers) == 20


def test_two_watches_may_nest() -> None:
    """Both note what is read inside of both."""
    before = (Event.record, Event.elapsed_time)
    outer, inner = Scene(), Scene()
    outer.watch.start()
    inner.watch.start()
    first, last = Event(), Event()
    first.record()
    last.record()
    first.elapsed_time(last)
    inner.watch.stop()
    outer.watch.stop()
    assert len(inner.watch.intervals()) == len(outer.watch.intervals()) == 1
    assert (Event.record, Event.elapsed_time) == before


def test_a_class_that_cannot_be_changed_is_stood_in_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.Event` is such a class: its name holds a subclass meanwhile, and instances of either are instances."""
    module = ModuleType("some_framework")
    monkeypatch.setitem(sys.modules, "some_framework", module)

    class Frozen(type):
        """Refuses to have its classes changed, as classes of C code do."""

        def __setattr__(cls, name: str, value: object) -> None:
            if cls.__dict__.get("is_frozen"):
                raise TypeError("cannot set attribute of immutable type")
            super().__setattr__(name, value)

    original = Frozen(
        "Event",
        (),
        {
            "__module__": "some_framework",
            "is_frozen": True,
            "record": lambda event: None,
            "elapsed_time": lambda event, end: 3.0,
        },
    )
    module.__dict__["Event"] = original
    old: Any = original()
    watch = EventWatch(
        private=Clock(), mark=tuple, classes=[WatchedEvents("Event", original, "record", "elapsed_time", 1e-3)]
    )
    watch.start()
    stand_in: Any = module.__dict__["Event"]
    assert stand_in is not original
    first, last = stand_in(), stand_in()
    first.record()
    last.record()
    assert first.elapsed_time(last) == 3.0
    assert isinstance(first, original)
    assert isinstance(old, stand_in)
    assert issubclass(original, stand_in)
    watch.stop()
    assert module.__dict__["Event"] is original
    assert [interval.value_s for interval in watch.intervals()] == pytest.approx([3e-3])


def test_provenance_tells_the_tests_code_from_libraries_and_ours() -> None:
    """The standard library, installed packages and this package are nobody's test."""
    provenance = Provenance()
    assert provenance.is_of_test(__file__)
    assert not provenance.is_of_test(sys.modules["json"].__file__ or "")
    assert not provenance.is_of_test(pytest.__file__)
    assert not provenance.is_of_test("<frozen importlib._bootstrap>")
    assert provenance.is_ours(sys.modules["pytest_roofline.event_watch"].__file__ or "")
    assert not provenance.is_ours(__file__)
    frame = sys._getframe()
    assert provenance.caller(frame) is frame
    assert place_of(frame).startswith("test_event_watch.py:")
    assert any(names is globals() for names in provenance.namespaces())
