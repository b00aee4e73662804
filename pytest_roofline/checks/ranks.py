"""Several ranks are one program: one window from the first start to the last stop, and their work once.

Each rank's own rate may be right and their sum still be nobody's: windows that do not overlap used the machine one
after the other. The stamps must be on one clock, or be seconds after a barrier that all ranks passed together; clocks
of different hosts are not comparable, and nothing here aligns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_roofline.checks.claimed import RankWindow
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.units import format_rate, format_ratio, format_seconds

TOLERANCE = 0.02
SKEWED = 0.10
"""Up to a tenth, ranks that start one after the other are skew, and a sum of rates is only in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """Several ranks as one window."""

    start_s: float
    stop_s: float
    tokens: float
    summed_tokens_per_s: float
    """The sum of every rank's own rate: an upper bound that only simultaneous windows reach."""
    start_skew_s: float
    """From the first rank's start to the last one's."""
    stop_skew_s: float
    overlap_s: float
    """How long all of them were inside their windows; negative is a gap."""

    @property
    def window_s(self) -> float:
        """From the first start to the last stop."""
        return self.stop_s - self.start_s

    @property
    def tokens_per_s(self) -> float:
        """What the ranks did together; infinite where the window has no length."""
        return self.tokens / self.window_s if self.window_s > 0 else float("inf")


def combine(windows: Sequence[RankWindow], *, do_share_tokens: bool = False) -> Combined | None:
    """One window of all ranks; None for no ranks, or one that stopped before it started.

    `do_share_tokens`: every rank made the same tokens (tensor parallel), which count once, not once per rank.
    """
    if not windows or any(not window.stop_s >= window.start_s for window in windows):
        return None
    starts, stops = [window.start_s for window in windows], [window.stop_s for window in windows]
    tokens = [window.tokens for window in windows]
    rates = [_rate(window) for window in windows]
    return Combined(
        start_s=min(starts),
        stop_s=max(stops),
        tokens=max(tokens) if do_share_tokens else sum(tokens),
        summed_tokens_per_s=sum(rates),
        start_skew_s=max(starts) - min(starts),
        stop_skew_s=max(stops) - min(stops),
        overlap_s=min(stops) - max(starts),
    )


def rank_window(evidence: Evidence) -> Finding | None:
    """A claim for several ranks exceeds their tokens over their common window; nothing bears the windows out; a skew.

    The last is a note. What nobody can bear out accuses nobody, but no fraction rests on it.
    """
    combined = combine(evidence.ranks, do_share_tokens=evidence.do_ranks_share_tokens)
    if combined is None:
        return None
    figures = {
        "ranks": len(evidence.ranks),
        "tokens": combined.tokens,
        "window_s": combined.window_s,
        "tokens_per_s": combined.tokens_per_s,
        "summed_tokens_per_s": combined.summed_tokens_per_s,
        "start_skew_s": combined.start_skew_s,
        "stop_skew_s": combined.stop_skew_s,
    }
    claimed = evidence.claim.tokens_per_s if evidence.claim is not None else None
    if claimed is not None and claimed > combined.tokens_per_s * (1 + TOLERANCE):
        ratio = claimed / combined.tokens_per_s if combined.tokens_per_s > 0 else float("inf")
        return Finding(
            check="rank-window",
            severity="bogus" if ratio > 1 + SKEWED else "inconclusive",
            message=(
                f"{format_rate(claimed)} tok/s claimed for {_named(evidence)}, but together they made "
                f"{combined.tokens:g} tokens in {format_seconds(combined.window_s)}, "
                f"{format_rate(combined.tokens_per_s)} tok/s ({format_ratio(ratio)}): "
                f"{_cause(evidence, combined, claimed)}"
            ),
            figures={**figures, "claimed_tokens_per_s": claimed},
            remedy="start all ranks behind one barrier, and divide all tokens by the last stop minus the first start",
        )
    if not evidence.are_ranks_borne_out and evidence.fraction is not None:
        return Finding(
            check="rank-window",
            severity="inconclusive",
            message=(
                f"the window of {_named(evidence)}, from {combined.start_s:.6g} to {combined.stop_s:.6g} s, was not "
                "timed in this process, and lies in this audit by none of its clocks: nothing here bears it out"
            ),
            figures=figures,
            remedy=(
                "enter the audit before the ranks start, and stamp with time.perf_counter() or in seconds after a "
                "barrier; or time this process's own window, where it is a rank"
            ),
        )
    if combined.window_s > 0 and combined.start_skew_s > SKEWED * combined.window_s:
        return Finding(
            check="rank-window",
            severity="note",
            message=(
                f"the last of {len(evidence.ranks)} ranks started {format_seconds(combined.start_skew_s)} after the "
                f"first, in a common window of {format_seconds(combined.window_s)}: the others may have booked the "
                "wait for it as work"
            ),
            figures=figures,
            remedy="start all ranks behind one barrier",
        )
    return None


def _named(evidence: Evidence) -> str:
    return "1 rank" if len(evidence.ranks) == 1 else f"{len(evidence.ranks)} ranks"


def _cause(evidence: Evidence, combined: Combined, claimed: float) -> str:
    if evidence.do_ranks_share_tokens:
        return "every rank worked on the same tokens, and they were counted once per rank"
    if abs(claimed - combined.summed_tokens_per_s) <= TOLERANCE * claimed:
        apart = "did not overlap" if combined.overlap_s <= 0 else "did not coincide"
        return f"the ranks' own rates were added, and their windows {apart}"
    return "the ranks' tokens or their time were counted more than once"


def _rate(window: RankWindow) -> float:
    length_s = window.stop_s - window.start_s
    return window.tokens / length_s if length_s > 0 else 0.0
