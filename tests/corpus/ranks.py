"""Several ranks: windows that do not overlap, and tokens that all of them share (R81 to R83).

Most were timed in processes of their own, and one audit claims for all of them; in some this process is a rank.
"""

from __future__ import annotations

import time
from typing import Any

from corpus.recipe import bogus, honest, undecidable
from corpus.scene import Scene


def _judged(
    scene: Scene, windows: list[tuple[float, float, float]], tokens_per_s: float, *, is_shared: bool = False
) -> None:
    with scene.audit(traffic=None) as audit:
        tokens = sum(tokens for _, _, tokens in windows)
        audit.claim(tokens=tokens, tokens_per_s=tokens_per_s, ranks=windows, share_tokens=is_shared)


def _windows(scene: Scene, apart_s: float) -> list[tuple[float, float, float]]:
    length_s = scene.passes / 100
    return [
        (rank * apart_s + scene.random.uniform(0, 1e-3), rank * apart_s + length_s, float(scene.passes))
        for rank in range(8 if scene.is_large else 4)
    ]


def _sum_of_rates(windows: list[tuple[float, float, float]]) -> float:
    return sum(tokens / (stop - start) for start, stop, tokens in windows)


def _common_s(windows: list[tuple[float, float, float]]) -> float:
    return max(stop for _, stop, _ in windows) - min(start for start, _, _ in windows)


def _beside_this_one(scene: Scene, *, is_drained: bool = True, late_s: float = 0.0) -> list[tuple[float, float, float]]:
    """This process as the first of several ranks that began with it, each `late_s` after the one before."""
    start = time.perf_counter()
    scene.loop()
    if is_drained:
        scene.backend.synchronize()
    stop = time.perf_counter()
    others = range(1, 8 if scene.is_large else 4)
    shift = scene.random.uniform(0, 1e-4)
    tokens = float(scene.passes)
    return [(start, stop, tokens)] + [(start + late_s * rank, stop + late_s * rank + shift, tokens) for rank in others]


@bogus("R81", "rank-window")
def windows_one_after_the_other(scene: Scene) -> None:
    """Ranks start their clocks one after the other, share one resource, and their rates are added."""
    windows = _windows(scene, scene.passes / 100)
    _judged(scene, windows, _sum_of_rates(windows))


@bogus("R81-half-apart", "rank-window")
def windows_that_overlap_by_half(scene: Scene) -> None:
    """Windows that overlap in part."""
    windows = _windows(scene, scene.passes / 200)
    _judged(scene, windows, _sum_of_rates(windows))


@bogus("R81-shared-tokens", "rank-window")
def tensor_parallel_tokens_added(scene: Scene) -> None:
    """Every rank made the same tokens, and they are added."""
    windows = _windows(scene, 0.0)
    _judged(scene, windows, _sum_of_rates(windows), is_shared=True)


@undecidable("R83-skewed", "rank-window")
def slightly_skewed_ranks(scene: Scene) -> None:
    """Ranks that start one after the other within a twentieth of the window, their rates added."""
    windows = _windows(scene, scene.passes / 100 / 20 / (7 if scene.is_large else 3))
    _judged(scene, windows, _sum_of_rates(windows))


@honest("R82-common-window")
def tokens_over_the_common_window(scene: Scene) -> None:
    """All tokens over the time from the first start to the last stop, one rank being late."""
    windows = _windows(scene, 0.0)
    windows[0] = (windows[0][0], windows[0][1] + 0.2, windows[0][2])
    _judged(scene, windows, sum(tokens for _, _, tokens in windows) / _common_s(windows))


@honest("R82-together")
def ranks_that_run_together(scene: Scene) -> None:
    """Windows behind one barrier: the sum of the rates is the rate of the sum."""
    windows = _windows(scene, 0.0)
    _judged(scene, windows, _sum_of_rates(windows))


@honest("R82-rank-that-claims")
def rank_that_claims_for_all(scene: Scene) -> None:
    """The first rank times its own window, gathers the others' and claims the tokens of all; traffic is one rank's."""
    with scene.audit() as audit:
        scene.timed(2)
        audit.claim(ranks=_beside_this_one(scene))


@honest("R82-launcher")
def launcher_that_timed_everything(scene: Scene) -> None:
    """The process that starts the ranks reads its clock before and after all of them, for a log line."""
    with scene.audit(traffic=None) as audit:
        began = time.perf_counter()
        scene.backend.host(1.0)
        windows = _windows(scene, 0.0)
        scene.backend.host(2.0)
        audit.claim(ranks=windows, tokens_per_s=sum(tokens for _, _, tokens in windows) / _common_s(windows))
        assert time.perf_counter() > began


@honest("R82-shared")
def tensor_parallel_tokens_once(scene: Scene) -> None:
    """Every rank made the same tokens, which are counted once."""
    with scene.audit(traffic=None) as audit:
        audit.claim(ranks=_windows(scene, 0.0), share_tokens=True)


@bogus("R81-not-drained", "not-drained")
def ranks_that_do_not_wait(scene: Scene) -> None:
    """The rank that claims for all stopped its clock when the work was queued, as the others did."""
    with scene.audit(traffic=None) as audit:
        audit.claim(ranks=_beside_this_one(scene, is_drained=False))


@bogus("R81-watched", "rank-window")
def rates_of_a_watched_rank_added(scene: Scene) -> None:
    """This rank's passes are watched and its window is right; the others had the machine after it, and rates add up."""
    with scene.audit() as audit:
        windows = _beside_this_one(scene, late_s=scene.passes / 100)
        audit.claim(ranks=windows, tokens_per_s=_sum_of_rates(windows))


@bogus("R81-tokens-of-more", "rank-window")
def tokens_of_ranks_that_are_not_there(scene: Scene) -> None:
    """Twice as many tokens as the ranks made, over their common window."""
    windows = _windows(scene, 0.0)
    tokens: Any = 2 * sum(tokens for _, _, tokens in windows)
    with scene.audit(traffic=None) as audit:
        audit.claim(tokens=tokens, ranks=windows)
