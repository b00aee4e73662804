"""Compilation inside of what was measured: named, no excuse for too fast; a miss that it explains is unsure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from court import audit, loop, sample, window

from pytest_roofline.checks.claimed import CompiledInWindow
from pytest_roofline.checks.compilation import compiled_in_window, first_call_in_window, halves_disagree
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.compile_logs import compiled_within
from pytest_roofline.protocol import Compilation
from pytest_roofline.roofline import Interval
from pytest_roofline.samples import median_interval
from pytest_roofline.verdict import judge

COMPILED = CompiledInWindow(what=("torch.compile (graph 0/1, compiled again)",), count=1, seconds=0.5)


def blocks(clean: int, marked: int, *, slow: float = 0.2, at_least: float | None = 0.6) -> Evidence:
    """Samples at 80 %, and some at `slow` that compiled something."""
    samples = (*[sample(0.8)] * clean, *[sample(slow, compiled=COMPILED)] * marked)
    fractions = [one.fraction for one in samples]
    return loop(samples=samples, fraction=median_interval(fractions), at_least=at_least)


def test_a_miss_that_compilation_explains_is_unsure() -> None:
    """Without the blocks that compiled, the budget would be met."""
    evidence = blocks(6, 30)
    finding = compiled_in_window(evidence)
    assert finding is not None
    assert (finding.check, finding.severity) == ("compiled-in-window", "inconclusive")
    assert finding.message == (
        "30 compilations (torch.compile (graph 0/1, compiled again)) while 30 of 36 samples were taken (15.0 s): "
        "without those the fraction is up to 80 %, the test asks for 60 %"
    )
    assert "warm up before the window" in finding.remedy
    assert judge(evidence, 0.2).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("evidence", "severity"),
    [
        (blocks(9, 1), "note"),
        (blocks(0, 9), "note"),
        (blocks(3, 9), "note"),
        (blocks(6, 30, at_least=0.9), "note"),
        (blocks(6, 30, at_least=None), "note"),
        (loop(), None),
    ],
)
def test_otherwise_it_is_a_note(evidence: Evidence, severity: str | None) -> None:
    """The budget is met, out of reach, not given, or every block compiles: then compiling is what the step does."""
    finding = compiled_in_window(evidence)
    assert (finding.severity if finding else None) == severity


def test_compiling_in_every_block_is_the_steps_own_slowness() -> None:
    """A step that compiles each time misses its budget by its own fault."""
    evidence = blocks(0, 9)
    finding = compiled_in_window(evidence)
    assert finding is not None
    assert finding.message.endswith("compiling is what this step does")
    assert judge(evidence, 0.2).outcome == "failed"


def test_compilation_never_excuses_too_fast() -> None:
    """Three times the limit stays impossible."""
    evidence = blocks(6, 30, slow=3.0)
    assert judge(evidence, 3.0).outcome == "bogus"


def audited(seconds: float, *, fraction: float = 0.4, at_least: float | None = 0.6) -> Evidence:
    """A window of 250 ms, of which a compilation took some."""
    return audit(
        compiled=replace(COMPILED, seconds=seconds),
        fraction=Interval(low=fraction, high=fraction),
        at_least=at_least,
    )


@pytest.mark.parametrize(("seconds", "severity"), [(0.1, "inconclusive"), (0.05, "note"), (0.25, "note")])
def test_an_audit_is_judged_without_its_compilation(seconds: float, severity: str) -> None:
    """40 % with 100 of 250 ms compiled would be 67 %: unsure. With 50 ms it is 50 %: a miss all the same."""
    finding = compiled_in_window(audited(seconds))
    assert finding is not None
    assert finding.severity == severity


def test_the_audits_message() -> None:
    """What was compiled, its share of the window, and what would be without it."""
    finding = compiled_in_window(audited(0.1))
    assert finding is not None
    assert finding.message == (
        "1 compilation (torch.compile (graph 0/1, compiled again)) inside the window: 100 ms, 40 % of the window of "
        "250 ms; without it the fraction is 67 %, the test asks for 60 %"
    )


@pytest.mark.parametrize(
    ("first_s", "later_s", "severity"),
    [(0.1, 1e-3, "inconclusive"), (0.03, 1e-3, "note"), (9e-3, 1e-3, None), (0.004, 1e-5, None), (0.1, 0.0, None)],
)
def test_a_first_pass_that_set_something_up(first_s: float, later_s: float, severity: str | None) -> None:
    """Over ten times the later ones, and over 2 % of the window."""
    evidence = audit(
        first_pass_s=first_s, later_pass_s=later_s, fraction=Interval(low=0.4, high=0.4), at_least=0.6, window=window()
    )
    finding = first_call_in_window(evidence)
    assert (finding.severity if finding else None) == severity


def test_the_first_pass_message() -> None:
    """Both times, their ratio, and the likely causes."""
    finding = first_call_in_window(audit(first_pass_s=0.05, later_pass_s=1e-3))
    assert finding is not None
    assert finding.message == (
        "the first pass of the window took 50.0 ms, the later ones 1.00 ms (50x): compilation, autotuning or "
        "allocation inside the window; it is charged to the measurement"
    )
    assert finding.remedy == "run the step a few times before the window begins"
    assert first_call_in_window(audit(first_pass_s=0.05, later_pass_s=1e-3, compiled=COMPILED)) is None


def test_two_halves_that_share_no_value_are_a_note() -> None:
    """A step that became slower in the middle, under a probe that did not."""
    finding = halves_disagree(loop(0.8, 0.81, 0.79, 0.8, 0.6, 0.61, 0.59, 0.6))
    assert finding is not None
    assert (finding.check, finding.severity) == ("drifted", "note")
    assert finding.message == (
        "A/A: the first and the second half of 8 samples have no value in common (80 % and 60 %): the step itself "
        "changed"
    )
    turns = halves_disagree(loop(*[0.8, 0.6] * 5))
    assert turns is not None
    assert "which differ in the order of their blocks" in turns.message


@pytest.mark.parametrize(
    "fractions", [(0.8,) * 9, (0.8, 0.6) * 3, (0.8, 0.81, 0.79, 0.8, 0.78, 0.8, 0.77, 0.8), (0.8,) * 4 + (0.78,) * 4]
)
def test_noise_and_few_samples_say_nothing(fractions: tuple[float, ...]) -> None:
    """Overlapping halves, under four samples in each, or under 5 % apart."""
    assert halves_disagree(loop(*fractions)) is None


def test_only_what_overlaps_is_inside() -> None:
    """Two compilations, one of them half inside; a capture that took no time counts."""
    entries = [
        Compilation(what="early", start_s=0.0, end_s=1.0),
        Compilation(what="half", start_s=1.5, end_s=2.5),
        Compilation(what="capture", start_s=3.0, end_s=3.0),
        Compilation(what="late", start_s=9.0, end_s=9.5),
    ]
    found = compiled_within(entries, [(2.0, 4.0)])
    assert found is not None
    assert (found.what, found.count, found.seconds) == (("half", "capture"), 2, pytest.approx(0.5))
    assert compiled_within(entries, [(5.0, 6.0)]) is None
    assert compiled_within(entries, []) is None
