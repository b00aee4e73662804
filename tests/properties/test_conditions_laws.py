"""Whatever the conditions were: they never make a verdict worse than failed was, and excuse no wonder."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from strategies import FRACTIONS, evidence, steady

from pytest_roofline.checks.evidence import Clocks, Evidence
from pytest_roofline.conditions import QUOTA, Conditions, Stretch, stretch_of
from pytest_roofline.verdict import judge

SHARES = st.one_of(st.none(), st.floats(0.0, 1.0))
REASONS = st.lists(st.sampled_from(("heat", "power cap", QUOTA)), max_size=2).map(tuple)
NEIGHBOURS = st.lists(st.sampled_from(("process 1", "process 2")), max_size=2).map(tuple)
STRETCHES = st.builds(
    Stretch,
    reasons=REASONS,
    compute_share=SHARES,
    memory_share=SHARES,
    held_share=SHARES,
    neighbours_share=SHARES,
    steal_share=SHARES,
    neighbours=NEIGHBOURS,
)


@steady
@given(evidence=evidence, fraction=FRACTIONS, held=STRETCHES, seen=st.lists(st.one_of(st.none(), STRETCHES)))
def test_conditions_turn_a_failure_into_inconclusive_and_nothing_else(
    evidence: Evidence, fraction: float, held: Stretch, seen: list[Stretch | None]
) -> None:
    """Bogus stays bogus, inconclusive stays so, nothing begins to fail."""
    calm = replace(evidence, clocks=None, neighbours_share=None, neighbours=(), steal_share=None)
    marks = [*seen, *[None] * len(calm.samples)]
    samples = tuple(replace(one, conditions=mark) for one, mark in zip(calm.samples, marks, strict=False))
    rough = replace(
        calm,
        samples=samples,
        clocks=Clocks.of(held),
        neighbours_share=held.neighbours_share,
        neighbours=held.neighbours,
        steal_share=held.steal_share,
    )
    before, after = judge(calm, fraction).outcome, judge(rough, fraction).outcome
    assert after == before or (before, after) == ("failed", "inconclusive")


FIGURES = st.one_of(st.none(), st.floats(0.0, 1e12))
READINGS = st.builds(
    Conditions,
    clock_hz=FIGURES,
    max_clock_hz=FIGURES,
    throttle_reasons=REASONS,
    held_s=st.lists(st.tuples(st.sampled_from(("heat", QUOTA)), st.floats(0.0, 1e9)), max_size=2).map(tuple),
    neighbours_use=SHARES,
    machine_busy_s=FIGURES,
    process_busy_s=FIGURES,
    steal_s=FIGURES,
)


@steady
@given(before=READINGS, after=READINGS, elapsed_s=st.floats(0.0, 1e6), cores=st.one_of(st.none(), st.integers(1, 512)))
def test_shares_are_shares(before: Conditions, after: Conditions, elapsed_s: float, cores: int | None) -> None:
    """From 0 to 1, whatever counters did in between."""
    found = stretch_of(before, after, elapsed_s=elapsed_s, cores=cores)
    for share in (found.held_share, found.neighbours_share, found.steal_share):
        assert share is None or 0.0 <= share <= 1.0
