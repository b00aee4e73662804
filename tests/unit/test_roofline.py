"""The arithmetic of the roofline, by hand-made figures."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from court import ceiling, traffic

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Interval, Rates, cache_interval, mixed_bytes_per_s

RATES = Rates(read_bytes_per_s=100.0, copy_bytes_per_s=80.0, write_bytes_per_s=120.0, triad_bytes_per_s=60.0)


def test_no_single_pattern_is_the_best() -> None:
    """Cards that write faster than they read exist."""
    assert RATES.best_bytes_per_s == 120.0


@pytest.mark.parametrize(("share", "rate"), [(0.0, 100.0), (1 / 3, 60.0), (0.5, 80.0), (1.0, 120.0)])
def test_mixed_rate_is_exact_at_the_patterns(share: float, rate: float) -> None:
    """Read, triad, copy and write write 0, 1/3, 1/2 and all of their bytes."""
    assert mixed_bytes_per_s(RATES, share) == pytest.approx(rate, rel=1e-12)


def test_mixed_rate_weighs_time_not_rates() -> None:
    """Halfway between copy and write the seconds per byte are averaged."""
    assert mixed_bytes_per_s(RATES, 0.75) == pytest.approx(2 / (1 / 80 + 1 / 120))


@pytest.mark.parametrize("share", [-0.01, 1.01, math.nan])
def test_written_share_outside_is_refused(share: float) -> None:
    """A share is between none and all."""
    with pytest.raises(RooflineUsageError, match="written share"):
        mixed_bytes_per_s(RATES, share)


@pytest.mark.parametrize(("budget", "clears"), [(0.39, True), (0.40, True), (0.41, None), (0.60, None), (0.61, False)])
def test_interval_clears_a_budget_with_all_of_it_or_not(budget: float, clears: bool | None) -> None:
    """A budget equal to the lower end is reached by all, one equal to the upper end by a part."""
    assert Interval(low=0.4, high=0.6).clears(budget) is clears


@pytest.mark.parametrize(
    ("working_set", "low"), [(1000.0, 0.72), (200.0, 0.4), (100.0, 0.0), (50.0, 0.0), (0.0, 0.0), (-1.0, 0.0)]
)
def test_cache_interval(working_set: float, low: float) -> None:
    """At most the knee came from cache; below the knee nothing has to come from memory."""
    interval = cache_interval(0.8, working_set, 100.0)
    assert interval.low == pytest.approx(low)
    assert interval.high == 0.8


def test_cache_interval_of_an_endless_fraction_has_a_lower_end() -> None:
    """No NaN where nothing has to come from memory."""
    assert cache_interval(math.inf, 50.0, 100.0).low == 0.0


def test_ceiling_of_a_memory_bound_pass() -> None:
    """2 GB at 1 TB/s are 2 ms; batch and tokens per pass multiply the tokens, not the bytes."""
    plain = ceiling()
    assert (plain.memory_s, plain.compute_s, plain.step_s) == (2e-3, 0.0, 2e-3)
    assert plain.bound == "memory"
    assert plain.tokens_per_s == plain.tokens_per_s_per_user == pytest.approx(500.0)
    assert plain.ridge_point is None
    many = ceiling(batch=4, tokens_per_pass=1.5)
    assert many.tokens_per_s == pytest.approx(3000.0)
    assert many.tokens_per_s_per_user == pytest.approx(750.0)


def test_ceiling_of_a_compute_bound_pass() -> None:
    """Above the ridge point the arithmetic sets the floor; exactly on it both do, and memory is named."""
    above = ceiling(traffic(flops_per_pass=4e12), peak_flops_per_s=1e15)
    assert above.ridge_point == 1000.0
    assert (above.bound, above.step_s) == ("compute", pytest.approx(4e-3))
    on_it = ceiling(traffic(flops_per_pass=2e12), peak_flops_per_s=1e15)
    assert on_it.memory_s == pytest.approx(on_it.compute_s)
    below = ceiling(traffic(flops_per_pass=1e12), peak_flops_per_s=1e15)
    assert (below.bound, below.step_s) == ("memory", 2e-3)
    assert ceiling(traffic(), peak_flops_per_s=1e15).compute_s == 0.0
    assert ceiling(traffic(flops_per_pass=1e12)).compute_s == 0.0


def test_pure_arithmetic_has_a_ceiling() -> None:
    """A pass without bytes is bounded by its arithmetic."""
    assert ceiling(traffic(0.0, flops_per_pass=1e12), peak_flops_per_s=1e15).step_s == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"bandwidth_bytes_per_s": 0.0}, "positive bandwidth"),
        ({"bandwidth_bytes_per_s": math.nan}, "positive bandwidth"),
        ({"batch": 0}, "batch is 0"),
        ({"tokens_per_pass": 0.0}, "tokens_per_pass is 0.0"),
        ({"tokens_per_pass": math.nan}, "tokens_per_pass is nan"),
        ({"peak_flops_per_s": 0.0}, "positive peak or none"),
        ({"peak_flops_per_s": math.nan}, "positive peak or none"),
    ],
)
def test_ceiling_refuses_nonsense(figures: dict[str, Any], message: str) -> None:
    """Wrong figures end at the border, not in a division."""
    with pytest.raises(RooflineUsageError, match=message):
        ceiling(**figures)


def test_a_pass_that_nothing_bounds_is_refused() -> None:
    """No bytes and no peak: there is no ceiling, and the message says what to give."""
    with pytest.raises(RooflineUsageError, match="nothing bounds this pass; give the bytes that it moves, or a peak"):
        ceiling(traffic(0.0, flops_per_pass=1e9))


def test_to_dict_has_the_names_of_the_prediction() -> None:
    """The keys of the command line's JSON."""
    record = ceiling(traffic(flops_per_pass=1e12), peak_flops_per_s=1e15).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["bound"] == "memory"
    assert record["ceiling_tokens_per_s"] == pytest.approx(500.0)
    assert record["arithmetic_intensity"] == 500.0
    assert record["ridge_point"] == 1000.0
