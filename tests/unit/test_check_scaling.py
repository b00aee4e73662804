"""Does the time grow with the passes, and if not, does something else explain it?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from court import BYTES, audit, loop, sample, traffic

from pytest_roofline.checks.ceiling import faster_than_limit
from pytest_roofline.checks.claimed import CompiledInWindow
from pytest_roofline.checks.evidence import Evidence
from pytest_roofline.checks.scaling import does_not_scale
from pytest_roofline.conditions import Stretch
from pytest_roofline.verdict import judge


def sloped(step_s: float, closed_s: float = 4e-3, **figures: Any) -> Evidence:
    """Blocks that take `closed_s` a pass as a whole, and `step_s` by their difference."""
    return loop(**{"samples": tuple(sample(step_s=step_s, closed_step_s=closed_s) for _ in range(9)), **figures})


@pytest.mark.parametrize("step_s", [0.0, -1e-4, 1e-5, BYTES / 1.1221e12])
def test_a_slope_beyond_the_limit_never_passes(step_s: float) -> None:
    """2N passes take hardly longer than N: nobody is accused, for the blocks are slow enough, and nothing passes."""
    finding = does_not_scale(sloped(step_s))
    assert finding is not None
    assert (finding.check, finding.severity) == ("does-not-scale", "inconclusive")
    assert finding.message.endswith("the time does not grow with the passes")
    assert finding.remedy


@pytest.mark.parametrize("step_s", [BYTES / 1.1219e12, 2.5e-3])
def test_fixed_costs_are_honest(step_s: float) -> None:
    """A slope that the device can reach is the time of a pass, whatever a block costs on top."""
    assert does_not_scale(sloped(step_s, closed_s=1.0)) is None


def test_what_is_impossible_as_a_whole_is_told_as_that() -> None:
    """The block itself is too fast: faster-than-limit has it."""
    assert does_not_scale(sloped(1e-5, closed_s=1e-5)) is None
    assert faster_than_limit(sloped(1e-5, closed_s=1e-5)) is not None


def test_a_slope_of_zero_needs_no_limit() -> None:
    """Also from cache, and where no limit is known, passes take time."""
    assert does_not_scale(sloped(0.0, limit=None)) is not None
    assert does_not_scale(sloped(0.0, is_cache_hot=True)) is not None
    assert does_not_scale(sloped(1e-9, limit=None)) is None
    assert does_not_scale(audit()) is None


def test_a_slope_beyond_the_peak_never_passes_either() -> None:
    """The same for arithmetic."""
    flops = replace(traffic(1e6), flops_per_pass=1e12)
    computing = loop(traffic=flops, traced=None, limit=None, peak_limit_flops_per_s=1e15)
    assert does_not_scale(replace(computing, samples=(sample(step_s=5e-4, closed_step_s=1.0),))) is not None
    assert does_not_scale(replace(computing, samples=(sample(step_s=1e-3, closed_step_s=1.0),))) is None
    assert does_not_scale(replace(computing, samples=())) is None


# -- what may have slowed the short blocks alone

# A short block of ten passes that took as long as the long one of twenty: 50 ms, half of them by something else.
SHORT: dict[str, Any] = {"step_s": 0.0, "fixed_s": 50e-3, "closed_step_s": 2.5e-3}
HELD = Stretch(reasons=("thermal",), memory_share=0.5)
SHARED = Stretch(neighbours=("pid 7",), neighbours_share=0.5)
COMPILED = CompiledInWindow(what=("step",), count=1, seconds=25e-3)


@pytest.mark.parametrize(
    ("disturbance", "check", "said"),
    [
        ({"compiled": COMPILED}, "compiled-in-window", "what was compiled inside the blocks explains it"),
        ({"conditions": HELD}, "throttled", "the clocks that the device held down meanwhile explain it"),
        ({"conditions": SHARED}, "device-shared", "what others used of the device meanwhile explains it"),
        ({"ruler_after_bytes_per_s": 2e12}, "drifted", "the bandwidth that moved meanwhile, by the probes"),
    ],
)
def test_what_explains_the_slope_is_named_instead(disturbance: dict[str, Any], check: str, said: str) -> None:
    """Its own figures spare the short blocks enough: the cause is named, and the verdict is still undecided."""
    evidence = loop(samples=tuple(sample(**SHORT, **disturbance) for _ in range(9)))
    finding = does_not_scale(evidence)
    assert finding is not None
    assert (finding.check, finding.severity) == (check, "inconclusive")
    assert said in finding.message
    assert finding.message.endswith("(2.50 ms per pass without it)")
    assert finding.figures["spared_step_s"] == pytest.approx(2.5e-3)
    verdict = judge(evidence, 0.8)
    assert verdict.outcome == "inconclusive"
    assert verdict.of("inconclusive")[0].check == check
    assert judge(replace(evidence, allow=frozenset({"does-not-scale"})), 0.8).outcome == "inconclusive"


@pytest.mark.parametrize(
    "disturbance",
    [
        {"compiled": CompiledInWindow(what=("step",), count=1, seconds=1e-3)},
        {"conditions": Stretch(reasons=("thermal",), memory_share=0.97)},
        {"conditions": Stretch(neighbours=("pid 7",))},
        {"ruler_after_bytes_per_s": 1.05e12},
    ],
)
def test_a_disturbance_too_small_explains_nothing(disturbance: dict[str, Any]) -> None:
    """What was there, and cannot have taken so long, is no excuse."""
    finding = does_not_scale(loop(samples=tuple(sample(**SHORT, **disturbance) for _ in range(9))))
    assert finding is not None
    assert finding.check == "does-not-scale"


def test_one_disturbed_sample_explains_nothing() -> None:
    """Most samples have to be explained: the median is what is judged."""
    samples = (sample(**SHORT, compiled=COMPILED), *(sample(**SHORT) for _ in range(8)))
    finding = does_not_scale(loop(samples=samples))
    assert finding is not None
    assert finding.check == "does-not-scale"
