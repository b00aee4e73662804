"""The device's own counter as a witness: fewer bytes than the passes need take the verdict away, more accuse nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import BYTES, MEASURED, audit, ceiling, loop, sample, traced, traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.checks.counted import Counted
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.checks.hardware import can_be_counted, memory_counted
from pytest_roofline.residency import Survey
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import judge

KNEE = 40e6


def counted(low: float, high: float, **figures: Any) -> Counted:
    """So many passes' worth of bytes per pass, at least and at most, seen by a counter around 100 passes."""
    return Counted(
        **{
            "passes": 100.0,
            "moved_bytes": Interval(low=100 * low * BYTES, high=100 * high * BYTES),
            "span_s": 0.4,
            "source": "a counter",
            "is_exact": True,
            "place": "one device",
            **figures,
        }
    )


def seen(low: float, high: float, *, of: dict[str, Any] | None = None, **figures: Any) -> Evidence:
    """A believable decode at 80 % of the ceiling, and what was counted of it."""
    return replace(loop(knee_bytes=KNEE, **figures), counted=counted(low, high, **(of or {})))


def found(evidence: Evidence) -> Finding:
    """What the check says, which must be something."""
    finding = memory_counted(evidence)
    assert finding is not None
    return finding


@pytest.mark.parametrize(
    ("high", "at_least", "severity"),
    [
        (1.3, None, None),
        (0.90, None, None),  # the least is 1.96 GB less a knee, of which a tenth is no clear difference
        (0.87, None, "inconclusive"),
        (0.5, None, "inconclusive"),
        (0.5, 0.6, "inconclusive"),
        (0.5, 0.3, "note"),  # 0.8 * 0.5 is 0.4: decided all the same
        (0.5, 0.9, "note"),  # missed in spite of it
    ],
)
def test_bytes_that_were_not_seen_decide_or_not(high: float, at_least: float | None, severity: str | None) -> None:
    """The true fraction lies between what the counted bytes make of it and what was measured."""
    finding = memory_counted(seen(0.2, high, at_least=at_least))
    assert (finding.severity if finding else None) == severity


def test_the_message_has_both_figures_and_a_cause() -> None:
    """What was counted, what a pass needs, which counter, and what makes up the difference."""
    finding = found(seen(0.4, 0.5, at_least=0.6))
    assert finding.check == "cache-resident"
    assert finding.message.splitlines() == [
        "1.00 GB per pass at most came from memory by the device's own counter, a pass needs 1.96 GB: the fraction of "
        "the memory ceiling is between 40 % and 80 %, the test asks for 60 %",
        "  found: at most 100 GB moved through the memory of this device in 400 ms around 100 passes, by anybody "
        "(a counter)",
        "  expected: at least 1.96 GB per pass, the least of a pass less a cache knee of 40.0 MB",
        "  likely: caches that hold more than the probe saw, or work that only the first pass did",
    ]
    assert "rotate several copies" in finding.remedy
    assert finding.figures["counted_most_bytes_per_pass"] == pytest.approx(0.5 * BYTES)
    assert finding.figures["fraction_low"] == pytest.approx(0.4)
    assert judge(seen(0.4, 0.5, at_least=0.6)).outcome == "inconclusive"


def test_the_likeliest_cause_names_the_check() -> None:
    """Pages never written, patterns that compress, a declaration without a trace, and an audit's passes."""
    untouched = found(seen(0.0, 0.5, survey=Survey(untouched_bytes=0.01 * BYTES, sampled=9)))
    assert (untouched.check, untouched.severity) == ("untouched-memory", "inconclusive")
    assert "never written" in untouched.message
    zeros = found(seen(0.0, 0.5, survey=Survey(predictable_bytes=0.01 * BYTES, sampled=9, pattern="zeros")))
    assert (zeros.check, zeros.severity) == ("predictable-data", "inconclusive")
    assert "zeros, which this device moves compressed" in zeros.message
    for trace in (None, traced(is_closed=False)):
        declared = found(seen(0.0, 0.1, declared=traffic(), traced=trace))
        assert (declared.check, declared.severity) == ("bytes-disagree", "inconclusive")
        assert "bytes declared that a pass does not move" in declared.message
    claimed = found(audit(counted=counted(0.0, 0.1, is_exact=False, place="unknown")))
    assert (claimed.check, claimed.severity) == ("bytes-disagree", "inconclusive")
    assert "several tokens of a pass counted as passes" in claimed.message
    assert "tokens_per_pass=" in claimed.remedy


def test_what_the_data_check_has_said_is_not_said_twice() -> None:
    """Where zeros have taken the verdict away already, the counter supports that with a note."""
    survey = Survey(predictable_bytes=BYTES, sampled=9, pattern="zeros", may_compress=True)
    assert found(seen(0.0, 0.25, survey=survey)).severity == "note"


def test_passes_that_read_nothing_are_missing_work() -> None:
    """A pass that was traced whole needs what later passes do not read, and no cache or compression explains it."""
    finding = found(seen(0.0, 0.05))
    assert (finding.check, finding.severity) == ("work-missing", "bogus")
    assert finding.message.startswith(
        "100 MB per pass at most came from memory by the device's own counter, the pass that was traced needs 1.96 GB "
        "(20x): later passes do not read what it read\n  found: "
    )
    assert "a result that is remembered" in finding.message
    assert finding.remedy == "do the work on every pass"
    assert judge(seen(0.0, 0.05)).outcome == "bogus"
    assert found(seen(0.0, 0.0)).message.startswith("0 bytes per pass at most came from memory")


@pytest.mark.parametrize(
    "doubt",
    [
        {"traced": traced(is_closed=False)},
        {"traced": None, "declared": traffic()},
        {"of": {"place": "unknown"}},
        {"limit": MEASURED},
        {"limit": None},
        {"samples": (sample(0.3),) * 9},  # a link could carry so much
        {"knee": 0.3 * BYTES},
        {"survey": Survey(predictable_bytes=0.1 * BYTES, sampled=9, pattern="zeros")},
        {"survey": Survey(untouched_bytes=0.1 * BYTES, sampled=9)},
    ],
)
def test_anything_that_could_explain_it_is_no_accusation(doubt: dict[str, Any]) -> None:
    """An open trace, another memory, a slow rate, a large cache, compressed data: undecided, never bogus."""
    knee = doubt.get("knee", KNEE)
    evidence = replace(seen(0.0, 0.05, **{name: doubt[name] for name in doubt if name != "knee"}), knee_bytes=knee)
    assert found(evidence).severity != "bogus"
    assert judge(evidence).outcome == "inconclusive"


def test_what_cannot_be_told_by_a_counter_is_left_alone() -> None:
    """No counter, several devices, caches that may hold it, hot caches, a bound by compute."""
    evidence = seen(0.0, 0.05)
    assert memory_counted(replace(evidence, counted=None)) is None
    assert memory_counted(seen(0.0, 0.05, of={"place": "several devices"})) is None
    assert memory_counted(seen(0.0, 0.05, of={"passes": 0.0})) is None
    compute = ceiling(replace(traffic(), flops_per_pass=1e15), peak_flops_per_s=1e14)
    for silent in ({"knee_bytes": 0.6 * BYTES}, {"is_cache_hot": True}, {"ceiling": compute}, {"traffic": None}):
        assert not can_be_counted(replace(evidence, **{**silent, **({"traced": None} if "traffic" in silent else {})}))
        assert memory_counted(replace(evidence, **{**silent, "traced": None})) is None
    assert memory_counted(replace(evidence, fraction=None, traced=None)).severity == "note"  # type: ignore[union-attr]


def test_too_fast_stays_what_it_is() -> None:
    """Beyond the limit the counter adds a note; the accusation is the limit's own."""
    fast = seen(0.1, 0.5, samples=(sample(2.0),) * 9, fraction=Interval(low=2.0, high=2.0))
    assert found(fast).severity == "note"
    verdict = judge(fast)
    assert [finding.check for finding in verdict.of("bogus")] == ["faster-than-limit"]


def test_more_than_is_known_of_is_a_note() -> None:
    """Extra reads, or a neighbour; not where a reset or the test's own code ran in between."""
    finding = found(seen(1.3, 1.6))
    assert (finding.check, finding.severity) == ("bytes-disagree", "note")
    assert finding.message == (
        "2.60 GB per pass moved through memory by the device's own counter, 2.00 GB are accounted for (1.3x): the pass "
        "reads or writes more than it must, or another process uses this memory"
    )
    assert memory_counted(seen(1.2, 1.6)) is None
    assert memory_counted(seen(1.3, 1.6, of={"is_exact": False})) is None
    assert memory_counted(seen(1.3, 1.6, traced=traced(extra_bytes_per_pass=0.5 * BYTES))) is None


def test_at_most_is_undecided_too() -> None:
    """A band whose upper end is exceeded only by bytes that nobody saw move."""
    assert found(seen(0.0, 0.5, at_most=0.7)).severity == "inconclusive"
    assert found(seen(0.0, 0.5, at_most=0.9)).severity == "note"


@settings(max_examples=60, deadline=None)
@given(
    needed=st.floats(0.1, 10.0),
    extra=st.floats(0.0, 20.0),
    openness=st.floats(0.0, 0.9),
    cached=st.floats(0.0, 1.0),
    at_least=st.none() | st.floats(0.1, 1.0),
)
def test_whoever_moves_his_bytes_is_not_doubted(
    needed: float, extra: float, openness: float, cached: float, at_least: float | None
) -> None:
    """Whatever a neighbour adds and a cache within its knee saves: nothing but a note, if the interval is true."""
    truth = needed * BYTES - cached * KNEE + extra * BYTES
    figures = {"moved_bytes": Interval(low=100 * truth * (1 - openness), high=100 * truth * (1 + openness))}
    evidence = seen(0, 0, of=figures, traffic=traffic(needed * BYTES), traced=traced(needed * BYTES), at_least=at_least)
    finding = memory_counted(evidence)
    assert finding is None or finding.severity == "note"
