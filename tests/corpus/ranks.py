"""Several ranks: windows that do not overlap, and tokens that all of them share (R81 to R83). Pure evidence."""

from __future__ import annotations

from corpus.recipe import bogus, honest, undecidable
from corpus.scene import Scene
from pytest_roofline.checks.claimed import Claim, RankWindow
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.verdict import Verdict, judge


def _judged(windows: list[tuple[float, float, float]], tokens_per_s: float, *, is_shared: bool = False) -> Verdict:
    tokens = sum(tokens for _, _, tokens in windows)
    evidence = Evidence(
        kind="audit",
        claim=Claim(tokens=tokens, seconds=tokens / tokens_per_s, is_tokens_seen=False),
        ranks=tuple(RankWindow(start_s=start, stop_s=stop, tokens=tokens) for start, stop, tokens in windows),
        do_ranks_share_tokens=is_shared,
    )
    return judge(evidence)


def _windows(scene: Scene, apart_s: float) -> list[tuple[float, float, float]]:
    length_s = scene.passes / 100
    return [
        (rank * apart_s + scene.random.uniform(0, 1e-3), rank * apart_s + length_s, float(scene.passes))
        for rank in range(8 if scene.is_large else 4)
    ]


def _sum_of_rates(windows: list[tuple[float, float, float]]) -> float:
    return sum(tokens / (stop - start) for start, stop, tokens in windows)


@bogus("R81", "rank-window")
def windows_one_after_the_other(scene: Scene) -> Verdict:
    """Ranks start their clocks one after the other, share one resource, and their rates are added."""
    windows = _windows(scene, scene.passes / 100)
    return _judged(windows, _sum_of_rates(windows))


@bogus("R81-half-apart", "rank-window")
def windows_that_overlap_by_half(scene: Scene) -> Verdict:
    """Windows that overlap in part."""
    windows = _windows(scene, scene.passes / 200)
    return _judged(windows, _sum_of_rates(windows))


@bogus("R81-shared-tokens", "rank-window")
def tensor_parallel_tokens_added(scene: Scene) -> Verdict:
    """Every rank made the same tokens, and they are added."""
    windows = _windows(scene, 0.0)
    return _judged(windows, _sum_of_rates(windows), is_shared=True)


@undecidable("R83-skewed", "rank-window")
def slightly_skewed_ranks(scene: Scene) -> Verdict:
    """Ranks that start one after the other within a twentieth of the window, their rates added."""
    windows = _windows(scene, scene.passes / 100 / 20 / (7 if scene.is_large else 3))
    return _judged(windows, _sum_of_rates(windows))


@honest("R82-common-window")
def tokens_over_the_common_window(scene: Scene) -> Verdict:
    """All tokens over the time from the first start to the last stop, one rank being late."""
    windows = _windows(scene, 0.0)
    windows[0] = (windows[0][0], windows[0][1] + 0.2, windows[0][2])
    length_s = max(stop for _, stop, _ in windows) - min(start for start, _, _ in windows)
    return _judged(windows, sum(tokens for _, _, tokens in windows) / length_s)


@honest("R82-together")
def ranks_that_run_together(scene: Scene) -> Verdict:
    """Windows behind one barrier: the sum of the rates is the rate of the sum."""
    windows = _windows(scene, 0.0)
    return _judged(windows, _sum_of_rates(windows))
