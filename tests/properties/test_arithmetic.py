"""Laws of the roofline's arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BYTES, FRACTIONS, NO_BYTES, RATES, rates, steady

from pytest_roofline.roofline import Ceiling, Rates, cache_interval, mixed_bytes_per_s
from pytest_roofline.traffic import Traffic

SHARES = st.floats(min_value=0.0, max_value=1.0)


def made(bytes_: float, flops: float, bandwidth: float, peak: float, batch: int = 1) -> Ceiling:
    """A ceiling with both roofs."""
    return Ceiling(
        traffic=Traffic(bytes_per_pass=bytes_, least_bytes_per_pass=bytes_, flops_per_pass=flops),
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_source="read",
        peak_flops_per_s=peak,
        batch=batch,
    )


@steady
@given(bytes_=BYTES, flops=BYTES, bandwidth=RATES, peak=RATES, batch=st.integers(1, 64))
def test_attainable_is_under_both_roofs_and_touches_one(
    bytes_: float, flops: float, bandwidth: float, peak: float, batch: int
) -> None:
    """No pass is faster than its bytes or its arithmetic allow, and one of them is the bound."""
    ceiling = made(bytes_, flops, bandwidth, peak, batch)
    by_memory, by_compute = batch * bandwidth / bytes_, batch * peak / flops
    assert ceiling.tokens_per_s == pytest.approx(min(by_memory, by_compute))
    assert ceiling.tokens_per_s <= by_memory * (1 + 1e-12)
    assert ceiling.tokens_per_s <= by_compute * (1 + 1e-12)
    assert ceiling.bound == ("compute" if ceiling.compute_s > ceiling.memory_s else "memory")
    assert ceiling.tokens_per_s_per_user * batch == pytest.approx(ceiling.tokens_per_s)


@steady
@given(bytes_=BYTES, flops=BYTES, bandwidth=RATES, peak=RATES, more=st.floats(min_value=1.0, max_value=100.0))
def test_attainable_is_monotone(bytes_: float, flops: float, bandwidth: float, peak: float, more: float) -> None:
    """More bandwidth or peak never slows a pass down, more bytes or arithmetic never speed it up."""
    step_s = made(bytes_, flops, bandwidth, peak).step_s
    assert made(bytes_, flops, bandwidth * more, peak).step_s <= step_s
    assert made(bytes_, flops, bandwidth, peak * more).step_s <= step_s
    assert made(bytes_ * more, flops, bandwidth, peak).step_s >= step_s
    assert made(bytes_, flops * more, bandwidth, peak).step_s >= step_s


@steady
@given(bytes_=BYTES, bandwidth=RATES, peak=RATES)
def test_both_roofs_meet_at_the_ridge(bytes_: float, bandwidth: float, peak: float) -> None:
    """At peak / bandwidth FLOP per byte both floors are the same."""
    ceiling = made(bytes_, bytes_ * peak / bandwidth, bandwidth, peak)
    assert ceiling.memory_s == pytest.approx(ceiling.compute_s)
    assert ceiling.traffic.arithmetic_intensity == pytest.approx(ceiling.ridge_point)


@steady
@given(rates=rates, share=SHARES)
def test_mixed_rate_lies_between_the_patterns(rates: Rates, share: float) -> None:
    """A mix is never faster than the best pattern nor slower than the worst."""
    every = (rates.read_bytes_per_s, rates.copy_bytes_per_s, rates.write_bytes_per_s, rates.triad_bytes_per_s)
    mixed = mixed_bytes_per_s(rates, share)
    assert min(every) * (1 - 1e-9) <= mixed <= max(every) * (1 + 1e-9)
    assert rates.best_bytes_per_s == max(every)


@steady
@given(rates=rates)
def test_mixed_rate_is_exact_at_the_anchors(rates: Rates) -> None:
    """Pure patterns have their own rate."""
    for share, rate in (
        (0.0, rates.read_bytes_per_s),
        (1 / 3, rates.triad_bytes_per_s),
        (1 / 2, rates.copy_bytes_per_s),
        (1.0, rates.write_bytes_per_s),
    ):
        assert mixed_bytes_per_s(rates, share) == pytest.approx(rate, rel=1e-6)


@steady
@given(rates=rates, share=st.floats(min_value=0.0, max_value=0.999))
def test_mixed_rate_has_no_jump(rates: Rates, share: float) -> None:
    """A hair more written bytes changes the seconds per byte by a hair."""
    here, there = 1 / mixed_bytes_per_s(rates, share), 1 / mixed_bytes_per_s(rates, share + 1e-9)
    slowest = 1 / min(rates.read_bytes_per_s, rates.copy_bytes_per_s, rates.write_bytes_per_s, rates.triad_bytes_per_s)
    assert abs(here - there) <= 1e-7 * slowest


@steady
@given(fraction=FRACTIONS, working_set=BYTES, knee=NO_BYTES, more=st.floats(min_value=1.0, max_value=10.0))
def test_cache_interval_narrows_with_the_working_set(
    fraction: float, working_set: float, knee: float, more: float
) -> None:
    """It holds the fraction, starts at 0 at the earliest, and never widens as the working set grows."""
    interval = cache_interval(fraction, working_set, knee)
    assert 0.0 <= interval.low <= interval.high == fraction
    larger = cache_interval(fraction, working_set * more, knee)
    assert larger.low >= interval.low
    if knee >= working_set:
        assert interval.low == 0.0


@steady
@given(
    kv=st.floats(min_value=0.0, max_value=1e6),
    batch=st.integers(1, 64),
    context=st.integers(0, 100_000),
    grown=st.lists(st.integers(0, 10_000), min_size=2, max_size=2),
)
def test_at_context_is_linear(kv: float, batch: int, context: int, grown: list[int]) -> None:
    """Each token of context adds the same bytes; going back gives what there was."""
    start = Traffic(
        bytes_per_pass=1e9,
        least_bytes_per_pass=1e9,
        kv_bytes_per_pass=1e8,
        kv_bytes_per_token=kv,
        batch=batch,
        context=context,
    )
    for tokens in grown:
        there = start.at_context(context + tokens)
        assert there.bytes_per_pass - start.bytes_per_pass == pytest.approx(kv * batch * tokens, abs=1e-3)
        assert there.bytes_per_pass - there.kv_bytes_per_pass == pytest.approx(1e9 - 1e8)
        assert there.at_context(context).bytes_per_pass == pytest.approx(1e9)
    first, second = grown
    both = start.at_context(context + first).at_context(context + first + second)
    assert both.bytes_per_pass == pytest.approx(start.at_context(context + first + second).bytes_per_pass)
    assert replace(start, batch=None).at_context(context + 1).bytes_per_pass == pytest.approx(1e9 + kv)
