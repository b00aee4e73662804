"""Neighbours on the processor: they excuse a miss, never a result that is too fast, and never cause anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from court import MEASURED, loop, sample

from pytest_roofline.backends import cpu_facts
from pytest_roofline.backends.cpu_conditions import busy_s
from pytest_roofline.checks.environment import device_shared
from pytest_roofline.conditions import Conditions, stretch_of
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import judge

MISS = Interval(low=0.4, high=0.4)


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


NEIGHBOUR = ("process 7 (train), 12.0 GB",)


@pytest.mark.parametrize(
    ("use", "ruler", "severity"),
    [
        (0.5, 1.1e12, "inconclusive"),  # the probes read all that is printed, the step had half of the device
        (0.2, 1.1e12, "note"),  # 1.25x: from 40 % to 50 %
        (0.5, 0.55e12, "note"),  # the probes lost as much
    ],
)
def test_a_shared_card_explains_what_its_probes_did_not_feel(use: float, ruler: float, severity: str) -> None:
    """Less what the probes beside the blocks lost themselves, for the fraction is of those."""
    samples = (sample(0.4, ruler_before_bytes_per_s=ruler, ruler_after_bytes_per_s=ruler),) * 9
    evidence = loop(samples=samples, neighbours_share=use, neighbours=NEIGHBOUR, fraction=MISS, at_least=0.6)
    found = device_shared(evidence)
    assert found is not None
    assert found.severity == severity
    assert " of the device's time (process 7 (train), 12.0 GB)" in found.message
    assert judge(evidence, 0.4).outcome == ("inconclusive" if severity == "inconclusive" else "failed")


def test_nothing_printed_is_nothing_to_excuse_by() -> None:
    """Whether the session's own probe was shared as well, nobody knows."""
    found = device_shared(loop(limit=MEASURED, neighbours_share=0.5, neighbours=NEIGHBOUR, fraction=MISS, at_least=0.6))
    assert found is not None
    assert (found.severity, found.figures["slowdown"]) == ("note", 1.0)


@pytest.mark.parametrize(("use", "words"), [(None, "how much of it they used is not known"), (0.05, "they used 5.0 %")])
def test_others_on_the_card_are_named_even_where_their_use_is_not_known(use: float | None, words: str) -> None:
    """A word, no excuse."""
    found = device_shared(loop(neighbours_share=use, neighbours=NEIGHBOUR, fraction=MISS, at_least=0.6))
    assert found is not None
    assert found.severity == "note"
    assert found.message.startswith("other processes were on the device while it was measured (process 7 (train)")
    assert words in found.message


def test_what_the_hypervisor_took_is_said() -> None:
    """Steal is part of what others used."""
    found = device_shared(loop(neighbours_share=0.5, steal_share=0.3, cores=2))
    assert found is not None
    assert "(30 % went to other virtual machines)" in found.message
    assert found.figures["steal_share"] == 0.3


def test_sharing_never_excuses_a_wonder() -> None:
    """However many others there were, what cannot be is bogus."""
    wonder = loop(*(5.0,) * 9, at_least=0.6, neighbours_share=0.9, neighbours=NEIGHBOUR)
    assert judge(wonder, 5.0).outcome == "bogus"


def share(before: Conditions, after: Conditions, elapsed_s: float, cores: int | None) -> float | None:
    """What two readings say of the others."""
    return stretch_of(before, after, elapsed_s=elapsed_s, cores=cores).neighbours_share


def test_the_share_is_what_is_left_of_the_machine() -> None:
    """Busy seconds of all, less our own, over elapsed time and cores; unknown stays unknown."""
    before = Conditions(machine_busy_s=100.0, process_busy_s=10.0)
    after = Conditions(machine_busy_s=104.0, process_busy_s=13.0)
    assert share(before, after, 2.0, 2) == pytest.approx(0.25)
    assert share(Conditions(), after, 2.0, 2) is None
    assert share(before, after, 2.0, None) is None
    assert share(before, before, 2.0, 2) == 0.0
    assert share(after, before, 2.0, 2) is None, "a counter that runs backwards says nothing"


def test_busy_seconds_are_read_from_the_kernel(tmp_path: Path) -> None:
    """User, system, interrupts and steal count; idle and waiting do not; a system without them says nothing."""
    cpu = cpu_facts.usable_cpus()[0]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(f"cpu  9 9 9 9 9 9 9 9\ncpu{cpu} 100 0 50 777 777 25 0 25 0 0\nintr 1\n")
    assert busy_s([cpu], tmp_path) == (pytest.approx(2.0), pytest.approx(0.25))
    assert busy_s([cpu], tmp_path / "nowhere") is None
    (tmp_path / "proc/stat").write_text(f"\ncpu{cpu} 1 2 3\ncpu{cpu} a b c d e f g h\n")
    assert busy_s([cpu], tmp_path) is None
