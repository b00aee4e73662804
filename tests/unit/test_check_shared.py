"""Neighbours on the processor: they excuse a miss, never a result that is too fast, and never cause anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from court import loop

from pytest_roofline.backends import cpu_facts
from pytest_roofline.bench import neighbours_share
from pytest_roofline.checks.steadiness import device_shared
from pytest_roofline.protocol import Conditions
from pytest_roofline.roofline import Interval


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        (0.0999, None),
        (0.1, "note"),  # 1.2x slower at most
        (0.15, "note"),  # 1.4x
        (0.19, "inconclusive"),  # 1.52x: from 40 % to over 60 %
        (0.9, "inconclusive"),
    ],
)
def test_a_miss_that_neighbours_explain_is_no_failure(share: float, severity: str | None) -> None:
    """A missed budget is not judged where cores taken away may have cost at least the gap."""
    evidence = loop(neighbours_share=share, cores=2, fraction=Interval(low=0.3, high=0.4), at_least=0.6)
    found = device_shared(evidence)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize("at_least", [None, 0.2])
def test_a_hit_among_neighbours_is_a_note(at_least: float | None) -> None:
    """Reached in spite of them: only said."""
    found = device_shared(loop(neighbours_share=0.5, fraction=Interval(low=0.3, high=0.4), at_least=at_least))
    assert found is not None
    assert found.severity == "note"
    assert found.message.startswith("other processes used 50 % of this process's cores")


def test_the_share_is_what_is_left_of_the_machine() -> None:
    """Busy seconds of all, less our own, over elapsed time and cores; unknown stays unknown."""
    before = Conditions(machine_busy_s=100.0, process_busy_s=10.0)
    after = Conditions(machine_busy_s=104.0, process_busy_s=13.0)
    assert neighbours_share(before, after, 2.0, 2) == pytest.approx(0.25)
    assert neighbours_share(Conditions(), after, 2.0, 2) is None
    assert neighbours_share(before, after, 2.0, None) is None
    assert neighbours_share(before, before, 2.0, 2) == 0.0


def test_busy_seconds_are_read_from_the_kernel(tmp_path: Path) -> None:
    """User, system, interrupts and steal count; idle and waiting do not; a system without them says nothing."""
    cpu = cpu_facts.usable_cpus()[0]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(f"cpu  9 9 9 9 9 9 9 9\ncpu{cpu} 100 0 50 777 777 25 0 25 0 0\nintr 1\n")
    assert cpu_facts.busy_s(tmp_path) == pytest.approx(2.0)
    assert cpu_facts.busy_s(tmp_path / "nowhere") is None
