"""What two readings tell of the stretch between them."""

from __future__ import annotations

import json

import pytest

from pytest_roofline.conditions import COUNTERS, QUOTA, Conditions, Stretch, stretch_of


def test_a_record_holds_no_counters() -> None:
    """Seconds since the start of the machine mean nothing to a reader; all else is there, as builtin types."""
    record = Conditions(steal_s=3.0, throttle_reasons=("heat",), held_s=(("heat", 1.0),)).to_dict()
    assert record["throttle_reasons"] == ["heat"]
    assert not set(record) & set(COUNTERS)
    json.dumps(record)


def test_nothing_known_is_nothing_said() -> None:
    """Two empty readings make an empty stretch."""
    assert stretch_of(Conditions(), Conditions(), elapsed_s=1.0) == Stretch()
    assert not Stretch().is_throttled


@pytest.mark.parametrize(
    ("held_s", "reasons"),
    [(0.5, ("heat",)), (0.011, ("heat",)), (0.009, ()), (0.0, ()), (-1.0, ())],
)
def test_the_drivers_own_counters_tell_what_no_reading_saw(held_s: float, reasons: tuple[str, ...]) -> None:
    """From one hundredth of the time on; one that runs backwards (a driver loaded anew) says nothing."""
    before, after = Conditions(held_s=(("heat", 5.0),)), Conditions(held_s=(("heat", 5.0 + held_s), ("other", 9.0)))
    assert stretch_of(before, after, elapsed_s=1.0).reasons == reasons


def test_a_quota_holds_back_a_share_of_the_cores_time() -> None:
    """One second of two cores' two."""
    found = stretch_of(Conditions(held_s=((QUOTA, 1.0),)), Conditions(held_s=((QUOTA, 2.0),)), elapsed_s=1.0, cores=2)
    assert (found.reasons, found.held_share) == ((QUOTA,), 0.5)


def test_clocks_count_only_with_a_reason() -> None:
    """An idle device lowers them too; the lowest that was held down is what counts, whenever it was read."""
    idle = Conditions(clock_hz=1e8, max_clock_hz=2e9, memory_clock_hz=1e8, max_memory_clock_hz=1e9)
    hot = Conditions(
        clock_hz=1e9, max_clock_hz=2e9, memory_clock_hz=8e8, max_memory_clock_hz=1e9, throttle_reasons=("heat",)
    )
    found = stretch_of(idle, idle, [hot], elapsed_s=1.0)
    assert (found.compute_share, found.memory_share, found.reasons) == (0.5, 0.8, ("heat",))
    assert stretch_of(idle, idle, elapsed_s=1.0).compute_share is None


def test_the_use_of_others_is_the_mean_of_the_readings() -> None:
    """By the driver, where it says so; who they are is collected, each once."""
    one, two = Conditions(neighbours_use=0.2, neighbours=("a",)), Conditions(neighbours_use=0.6, neighbours=("a", "b"))
    found = stretch_of(one, two, [Conditions(), Conditions(neighbours_use=0.7)], elapsed_s=1.0)
    assert found.neighbours_share == pytest.approx(0.5)
    assert found.neighbours == ("a", "b")


def test_steal_is_the_hypervisors_part() -> None:
    """A fifth of a second of two cores' two seconds; a stretch without length has no shares."""
    before, after = Conditions(steal_s=1.0), Conditions(steal_s=1.2)
    assert stretch_of(before, after, elapsed_s=1.0, cores=2).steal_share == pytest.approx(0.1)
    assert stretch_of(before, after, elapsed_s=0.0, cores=2).steal_share is None
    assert stretch_of(before, after, elapsed_s=1.0).steal_share is None
