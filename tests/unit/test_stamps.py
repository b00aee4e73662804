"""When a device reached a marker: the earliest moment that what the helper saw allows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

from pytest_roofline.backends.stamps import CoreLine, StampedMarker, Stamper, Watchman
from pytest_roofline.errors import MeasurementError


class Scene:
    """A clock that waiting moves, and the time stood in line for a core."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.stood_in_line_s = 0.0
        self.watchman = Watchman(self.clock, self)

    def clock(self) -> float:
        """Now."""
        return self.now_s

    def stood_s(self) -> float:
        """Of the helper."""
        return self.stood_in_line_s

    def marker(self, *, is_awaited: bool = True) -> StampedMarker:
        """A marker made now."""
        made = StampedMarker(self.clock, "framework")
        made.is_awaited = is_awaited
        return made

    def takes(self, seconds: float, *, in_line_s: float = 0.0) -> Callable[[], None]:
        """Something that returns so much later, of which the helper stood in line for a part."""

        def wait() -> None:
            self.now_s += seconds
            self.stood_in_line_s += in_line_s

        return wait


@pytest.fixture
def scene() -> Scene:
    """Time stands still until something is waited for."""
    return Scene()


def lateness(marker: StampedMarker) -> float:
    """From when a marker was made to its stamp."""
    return marker.finished_s() - marker.made_s


def test_work_that_is_waited_for_is_stamped_at_its_end(scene: Scene) -> None:
    """Nothing to take off."""
    marker = scene.marker()
    scene.watchman.watch(marker, scene.takes(0.5), scene.takes(0.0))
    assert lateness(marker) == pytest.approx(0.5)


def test_what_was_done_when_the_helper_looked_was_done_when_the_marker_was_made(scene: Scene) -> None:
    """The helper woke 30 ms late, and found the device there."""
    marker = scene.marker()
    scene.takes(0.030)()
    scene.watchman.watch(marker, scene.takes(1e-6), scene.takes(0.0))
    assert lateness(marker) == 0.0


def test_a_control_tells_how_late_the_machine_is(scene: Scene) -> None:
    """An operation with nothing before it came back after 30 ms, the marker 2 ms later: no more than that is work."""
    marker = scene.marker()
    scene.watchman.watch(marker, scene.takes(0.002), scene.takes(0.030))
    assert lateness(marker) == pytest.approx(0.002)


def test_time_in_line_for_a_core_is_no_work(scene: Scene) -> None:
    """Of 50 ms the helper stood 40 in line."""
    marker = scene.marker()
    scene.watchman.watch(marker, scene.takes(0.050, in_line_s=0.040), scene.takes(0.0))
    assert lateness(marker) == pytest.approx(0.010)


def test_where_nobody_waits_the_interpreter_may_be_elsewhere(scene: Scene) -> None:
    """Two of its switch intervals are taken off."""
    marker = scene.marker(is_awaited=False)
    scene.watchman.watch(marker, scene.takes(0.5), scene.takes(0.0))
    assert lateness(marker) == pytest.approx(0.5 - 2 * sys.getswitchinterval())


def test_markers_behind_each_other_are_not_charged_for_the_queue_before_them(scene: Scene) -> None:
    """The second was made with the first: the helper came to it when the first was reached, which is not late."""
    first, second = scene.marker(), scene.marker()
    scene.watchman.watch(first, scene.takes(0.2), scene.takes(0.0))
    scene.watchman.watch(second, scene.takes(0.3), scene.takes(0.0))
    assert lateness(first) == pytest.approx(0.2)
    assert lateness(second) == pytest.approx(0.5)


def test_a_marker_is_never_before_the_one_before_it(scene: Scene) -> None:
    """However much is taken off."""
    first, second = scene.marker(), scene.marker(is_awaited=False)
    scene.watchman.watch(first, scene.takes(0.2), scene.takes(0.0))
    scene.watchman.watch(second, scene.takes(0.001), scene.takes(0.0))
    assert second.finished_s() == first.finished_s()


def test_what_was_done_at_once_was_done_when_nothing_more_was_submitted(scene: Scene) -> None:
    """Queueing the marker took 20 ms, and nothing was submitted meanwhile; of pending work that changes nothing."""
    before_s = scene.clock()
    scene.takes(0.020)()
    idle, busy = scene.marker(), scene.marker()
    idle.since(before_s)
    busy.since(before_s)
    scene.watchman.watch(idle, scene.takes(1e-6), scene.takes(0.0))
    scene.watchman.watch(busy, scene.takes(0.5), scene.takes(0.0))
    assert idle.finished_s() == before_s
    assert busy.finished_s() == pytest.approx(before_s + 0.520, abs=1e-4)


def test_what_goes_wrong_is_raised_where_the_marker_is_asked(scene: Scene) -> None:
    """With the framework's own words; a control that fails is no matter."""

    def fail() -> None:
        raise ValueError("the device is gone\nand more")

    marker = scene.marker()
    scene.watchman.watch(marker, fail, fail)
    with pytest.raises(MeasurementError, match="framework could not finish what was queued: the device is gone"):
        marker.finished_s()


def test_the_helper_thread_stamps_in_order() -> None:
    """On this machine, whatever it does besides."""
    ticks = iter(range(1_000_000))
    stamper = Stamper("roofline-test-markers", lambda: float(next(ticks)))
    markers = []
    for _ in range(5):
        markers.append(StampedMarker(lambda: float(next(ticks)), "framework"))
        stamper.watch(markers[-1], lambda: None)
    stamps = [marker.finished_s() for marker in markers]
    assert stamps == sorted(stamps)
    assert all(marker.is_finished for marker in markers)


def test_a_helper_that_is_gone_is_replaced() -> None:
    """A forked process has the object of its parent and not the thread: nobody waits there for ever."""
    ticks = iter(range(1_000_000))
    stamper = Stamper("roofline-test-markers", lambda: float(next(ticks)))
    stamper._thread = threading.Thread(target=lambda: None)
    stamper._thread.start()
    stamper._thread.join()
    marker = StampedMarker(lambda: float(next(ticks)), "framework")
    stamper.watch(marker, lambda: None)
    assert marker.finished_s() >= 0.0


def test_a_system_that_keeps_no_account_says_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux; where it does, the account never shrinks."""
    line = CoreLine()
    before = line.stood_s()
    assert 0.0 <= before <= line.stood_s()

    def refuse(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr("os.open", refuse)
    assert CoreLine().stood_s() == 0.0
