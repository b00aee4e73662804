"""Several ranks: one window, the work once, and a claim that may not exceed the two."""

from __future__ import annotations

import math
from typing import Any

import pytest
from court import audit, claim

from pytest_roofline.checks.claimed import RankWindow
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.ranks import combine, rank_window
from pytest_roofline.roofline import Interval
from pytest_roofline.verdict import judge


def ranks(*windows: tuple[float, float], tokens: float = 100.0) -> tuple[RankWindow, ...]:
    """Ranks that made so many tokens each between these moments."""
    return tuple(RankWindow(start_s=start, stop_s=stop, tokens=tokens) for start, stop in windows)


def claimed(tokens_per_s: float, windows: tuple[RankWindow, ...], **figures: Any) -> Evidence:
    """An audit whose claim speaks of several ranks."""
    return audit(claim=claim(tokens=tokens_per_s, seconds=1.0), ranks=windows, window=None, traffic=None, **figures)


TOGETHER = ranks((0.0, 1.0), (0.0, 1.0))
APART = ranks((0.0, 1.0), (1.0, 2.0))


def test_windows_are_joined_from_the_first_start_to_the_last_stop() -> None:
    """Tokens add up, time does not."""
    combined = combine(ranks((0.0, 1.0), (0.2, 1.5), tokens=60))
    assert combined is not None
    assert (combined.start_s, combined.stop_s, combined.window_s) == (0.0, 1.5, 1.5)
    assert combined.tokens == 120
    assert combined.tokens_per_s == pytest.approx(80)
    assert combined.start_skew_s == pytest.approx(0.2)
    assert combined.stop_skew_s == pytest.approx(0.5)
    assert combined.overlap_s == pytest.approx(0.8)
    assert combined.summed_tokens_per_s == pytest.approx(60 + 60 / 1.3)


def test_shared_tokens_count_once() -> None:
    """Eight tensor-parallel ranks make the same tokens."""
    windows = ranks(*((0.0, 1.0),) * 8)
    assert combine(windows).tokens == 800  # type: ignore[union-attr]
    assert combine(windows, do_share_tokens=True).tokens == 100  # type: ignore[union-attr]


@pytest.mark.parametrize("windows", [(), ranks((1.0, 0.0)), ranks((0.0, 1.0), (0.0, math.nan))])
def test_windows_that_are_none_give_no_figure(windows: tuple[RankWindow, ...]) -> None:
    """No ranks, one that ran backwards, one without a stop."""
    assert combine(windows) is None
    assert rank_window(claimed(1e9, windows)) is None


def test_a_window_of_no_length_has_no_bound() -> None:
    """It accuses nobody."""
    windows = ranks((1.0, 1.0), (1.0, 1.0))
    assert combine(windows).tokens_per_s == math.inf  # type: ignore[union-attr]
    assert rank_window(claimed(1e9, windows)) is None


def test_rates_of_windows_that_did_not_overlap_may_not_be_added() -> None:
    """Each rank had the link for itself: 200 claimed, 100 made."""
    found = rank_window(claimed(200.0, APART))
    assert found is not None
    assert found.severity == "bogus"
    assert found.message == (
        "200 tok/s claimed for 2 ranks, but together they made 200 tokens in 2.00 s, 100 tok/s (2x): the ranks' own "
        "rates were added, and their windows did not overlap"
    )
    assert found.remedy.startswith("start all ranks behind one barrier")
    assert found.figures["summed_tokens_per_s"] == pytest.approx(200)
    assert judge(claimed(200.0, APART)).outcome == "bogus"


def test_shared_work_may_not_be_added() -> None:
    """The same tokens, once per rank."""
    found = rank_window(claimed(200.0, TOGETHER, do_ranks_share_tokens=True))
    assert found is not None
    assert found.severity == "bogus"
    assert found.message.endswith("(2x): every rank worked on the same tokens, and they were counted once per rank")


def test_more_than_any_sum_is_bogus_too() -> None:
    """Whatever was counted."""
    found = rank_window(claimed(900.0, TOGETHER))
    assert found is not None
    assert found.severity == "bogus"
    assert found.message.endswith("the ranks' tokens or their time were counted more than once")


@pytest.mark.parametrize(
    ("skew_s", "severity"),
    [(0.0, None), (0.02, None), (0.05, "inconclusive"), (0.09, "inconclusive"), (0.3, "bogus")],
)
def test_a_sum_of_rates_is_honest_as_far_as_the_windows_coincide(skew_s: float, severity: str | None) -> None:
    """Two per cent of skew are nothing, up to ten are a doubt."""
    windows = ranks((0.0, 1.0), (skew_s, 1.0 + skew_s))
    found = rank_window(claimed(200.0, windows))
    assert (found.severity if found else None) == severity


def test_an_honest_claim_of_skewed_ranks_is_noted() -> None:
    """One rank came late and the others waited: true, and worth a word."""
    found = rank_window(claimed(150.0, ranks((0.0, 1.2), (0.2, 1.2))))
    assert found is not None
    assert found.severity == "note"
    assert found.message.startswith("the last of 2 ranks started 200 ms after the first, in a common window of 1.20 s")


def test_windows_that_nothing_bears_out_carry_no_fraction() -> None:
    """A figure of the ceiling rests on them: undecided, and what would bear them out. Without one nobody asks."""
    some = Interval(low=0.7, high=0.8)
    found = rank_window(claimed(200.0, TOGETHER, are_ranks_borne_out=False, fraction=some))
    assert found is not None
    assert (found.check, found.severity) == ("rank-window", "inconclusive")
    assert found.message == (
        "the window of 2 ranks, from 0 to 1 s, was not timed in this process, and lies in this audit by none of its "
        "clocks: nothing here bears it out"
    )
    assert found.remedy.startswith("enter the audit before the ranks start, and stamp with time.perf_counter()")
    assert rank_window(claimed(200.0, TOGETHER, are_ranks_borne_out=True, fraction=some)) is None
    assert rank_window(claimed(200.0, TOGETHER, are_ranks_borne_out=False, fraction=None)) is None
    too_much = rank_window(claimed(400.0, TOGETHER, are_ranks_borne_out=False, fraction=some))
    assert too_much is not None
    assert too_much.severity == "bogus"


def test_one_process_is_no_matter_of_ranks() -> None:
    """Nothing to join; a world of one is held against its only window."""
    assert rank_window(claimed(1e9, ())) is None
    alone = TOGETHER[:1]
    assert rank_window(claimed(alone[0].tokens / alone[0].stop_s, alone)) is None
    finding = rank_window(claimed(1e9, alone))
    assert finding is not None
    assert "claimed for 1 rank, but together" in finding.message


def test_ranks_that_made_nothing_cannot_be_claimed_for() -> None:
    """No tokens, and a rate."""
    found = rank_window(claimed(10.0, ranks((0.0, 1.0), (0.0, 1.0), tokens=0)))
    assert found is not None
    assert found.severity == "bogus"
