"""Claims for several ranks, through an audit: what is asked of their windows, and what is made of them."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9
PASSES = 40
PASS_S = 5e-3
"""At 80 % of the fake device's 1 TB/s."""


class Rank:
    """The process that claims: a decode loop on a fake device."""

    def __init__(self) -> None:
        self.backend = FakeBackend()
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]), Settings())

    def run(self) -> tuple[float, float, float]:
        """Its own window."""
        start = time.perf_counter()
        for _ in range(PASSES):
            self.model.step()
        self.backend.synchronize()
        return start, time.perf_counter(), float(PASSES)


def test_the_common_window_is_the_claim_by_default() -> None:
    """All tokens from the first start to the last stop; the traffic is one rank's, on a device of its own."""
    rank = Rank()
    with rank.roofline.audit(traffic=WEIGHTS) as audit:
        start, stop, tokens = rank.run()
        audit.claim(ranks=[(start, stop, tokens)] * 8)
    result = audit.result
    assert result.verdict.outcome == "passed"
    assert result.tokens_per_s == pytest.approx(8 / PASS_S, rel=0.01)
    assert result.step_s == pytest.approx(PASS_S, rel=0.01)
    assert result.fraction == pytest.approx(0.8, rel=0.02)


def test_rates_of_windows_apart_are_bogus() -> None:
    """With the figures: what was claimed, what the ranks did together, and why the two differ."""
    rank = Rank()
    with (
        pytest.raises(BogusMeasurement, match="the ranks' own rates were added, and their windows did not") as excinfo,
        rank.roofline.audit() as audit,
    ):
        audit.claim(tokens_per_s=400, ranks=[(0.0, 1.0, 200), (1.0, 2.0, 200)])
    assert str(excinfo.value).splitlines()[0].endswith("[rank-window]")
    assert "400 tok/s claimed for 2 ranks, but together they made 400 tokens in 2.00 s, 200 tok/s (2x)" in str(
        excinfo.value
    )


def test_one_rank_is_held_against_its_own_window() -> None:
    """A launcher with a world of one."""
    rank = Rank()
    with pytest.raises(BogusMeasurement, match="claimed for 1 rank, but"), rank.roofline.audit() as audit:
        audit.claim(tokens_per_s=400, ranks=[(0.0, 1.0, 200)])
    with rank.roofline.audit() as audit:
        audit.claim(tokens_per_s=200, ranks=[(0.0, 1.0, 200)])
    assert audit.result.verdict.outcome == "passed"


def test_windows_from_before_the_audit_are_no_other_unit() -> None:
    """They were gathered when it was over: a claim longer than the audit is nobody's fault then."""
    with Rank().roofline.audit() as audit:
        audit.claim(ranks=[(0.0, 100.0, 200), (0.1, 100.0, 200)])
    assert audit.result.verdict.outcome == "passed"
    assert any("none of them was timed in this process" in note for note in audit.result.notes)


@pytest.mark.parametrize(
    ("clock", "shift_s", "outcome"),
    [
        ("perf_counter", 0.0, "passed"),
        ("monotonic", 0.0, "passed"),
        ("time", 0.0, "passed"),
        (None, 0.0, "passed"),  # seconds after a barrier
        ("perf_counter", 5000.0, "inconclusive"),
        ("perf_counter", 0.8, "inconclusive"),
        ("time", -5000.0, "inconclusive"),
        (None, 5000.0, "inconclusive"),
    ],
)
def test_windows_of_other_processes_have_to_lie_in_the_audit(clock: str | None, shift_s: float, outcome: str) -> None:
    """A launcher ran none of the passes: stamps of its own clocks are held against the audit, others decide nothing."""
    rank = Rank()
    with rank.roofline.audit(traffic=WEIGHTS) as audit:
        start = shift_s + (getattr(rank.backend, clock)() if clock else 0.0)
        rank.backend.host(1.5)  # the other processes work
        audit.claim(ranks=[(start + 0.1, start + 1.1, 200), (start + 0.1, start + 1.1, 200)])
    assert audit.result.verdict.outcome == outcome
    assert [one.check for one in audit.result.findings] == ([] if outcome == "passed" else ["rank-window"])


def test_ranks_that_share_tokens_made_as_many() -> None:
    """Twenty and three are not the same ones; a token more at an end is."""
    words = "share_tokens=True says that all ranks made the same tokens, and they made 3 to 20: "
    with pytest.raises(RooflineUsageError, match=words), Rank().roofline.audit() as audit:
        audit.claim(ranks=[(0.0, 1.0, 20), (0.0, 1.0, 3)], share_tokens=True)
    with Rank().roofline.audit() as audit:
        audit.claim(ranks=[(0.0, 1.0, 20), (0.0, 1.0, 19)], share_tokens=True)
    assert audit.result.verdict.outcome == "passed"


def test_shared_tokens_may_not_be_added() -> None:
    """The ranks of a tensor parallel model made them together."""
    windows = [(0.0, 1.0, 100)] * 4
    with (
        pytest.raises(BogusMeasurement, match="counted once per rank"),
        Rank().roofline.audit() as audit,
    ):
        audit.claim(tokens_per_s=400, ranks=windows, share_tokens=True)
    with Rank().roofline.audit() as audit:
        audit.claim(tokens_per_s=400, ranks=windows)
    assert audit.result.verdict.outcome == "passed"


def test_a_watched_rank_has_its_own_passes() -> None:
    """The others' are not watched, and the tokens of all ranks are no sign of missing passes."""
    rank = Rank()
    with rank.roofline.audit(traffic=WEIGHTS) as audit:
        step = audit.watch(rank.model.step)
        start = time.perf_counter()
        for _ in range(PASSES):
            step()
        rank.backend.synchronize()
        stop = time.perf_counter()
        audit.claim(ranks=[(start, stop, PASSES), (start, stop, PASSES)])
    assert [one.check for one in audit.result.findings] == []
    assert audit.result.verdict.outcome == "passed"


@pytest.mark.parametrize("is_watched", [True, False], ids=["watched", "timed"])
@pytest.mark.parametrize("theirs", [10, 100, 1000])
def test_ranks_that_had_more_or_fewer_to_do(theirs: int, is_watched: bool) -> None:
    """In its own window a rank made its own tokens; what another made in a longer or shorter one is in none of them."""
    rank = Rank()
    with rank.roofline.audit(traffic=WEIGHTS) as audit:
        step = audit.watch(rank.model.step) if is_watched else rank.model.step
        start = time.perf_counter()
        for _ in range(PASSES):
            step()
        rank.backend.synchronize()
        stop = time.perf_counter()
        audit.claim(ranks=[(start, stop, PASSES), (start, start + theirs * PASS_S, theirs)])
    result = audit.result
    assert [one.check for one in result.findings] == []
    assert result.step_s == pytest.approx(PASS_S, rel=0.01)
    assert result.tokens_per_s == pytest.approx((PASSES + theirs) / (max(PASSES, theirs) * PASS_S), rel=0.01)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([], "ranks is empty; it must have (start_s, stop_s, tokens) of each rank"),
        (3, "ranks is 3; it must be a sequence of (start_s, stop_s, tokens), one for each rank"),
        ([(0.0, 1.0)], "it must be a sequence of (start_s, stop_s, tokens), one for each rank"),
        ([(1.0, 0.5, 10)], "a rank started at 1.0 and stopped at 0.5 with 10 tokens; it must stop after it starts"),
        ([(1.0, 1.0, 10)], "it must stop after it starts"),
        ([(0.0, None, 10)], "it must stop after it starts"),
        ([(0.0, math.nan, 10)], "a rank's stop is nan; it must be a finite number"),
        ([("0", 1.0, 10)], "a rank's start is '0'; it must be a finite number"),
        ([(0.0, 1.0, 0)], "a rank's tokens is 0; it must be positive"),
    ],
)
def test_ranks_that_are_none_are_a_usage_error(ranks: Any, words: str) -> None:
    """What was found, and what is expected."""
    with pytest.raises(RooflineUsageError) as excinfo, Rank().roofline.audit() as audit:
        audit.claim(ranks=ranks)
    assert words in str(excinfo.value)


def test_tokens_that_no_ranks_share_are_a_usage_error() -> None:
    """The windows were forgotten, and with them the check."""
    words = "share_tokens=True is said of ranks, and there are none"
    with pytest.raises(RooflineUsageError, match=words), Rank().roofline.audit() as audit:
        audit.claim(tokens=10, seconds=1.0, share_tokens=True)


@pytest.mark.parametrize("beside", [{"ids": [1, 2, 3]}, {"samples": [0.1, 0.1]}])
def test_figures_of_one_process_beside_ranks_are_a_usage_error(beside: dict[str, Any]) -> None:
    """Ids, samples or a stated window of this process are not of all ranks."""
    with pytest.raises(RooflineUsageError, match="give no ids= or samples="), Rank().roofline.audit() as audit:
        audit.claim(ranks=[(0.0, 1.0, 3)], **beside)
    with pytest.raises(RooflineUsageError, match="of this one beside it"), Rank().roofline.audit() as audit:
        with audit.window():
            pass
        audit.claim(ranks=[(0.0, 1.0, 3)])
