"""Laws of weights that lie outside of a device's memory: the roofline of a test is that of `roofline predict`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BYTES, RATES, steady

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Ceiling, moved_s
from pytest_roofline.traffic import Traffic, declared_traffic, offloaded

SHARES = st.floats(min_value=0.0, max_value=1.0)


def ceiling_of(traffic: Traffic, bandwidth: float, link: float, *, is_overlapped: bool = False) -> Ceiling:
    """A ceiling with a memory and a link."""
    return Ceiling(
        traffic=traffic,
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_source="read",
        spill_bytes_per_s=link,
        spill_source="measured",
        is_overlapped=is_overlapped,
    )


@steady
@given(bytes_=BYTES, share=SHARES, bandwidth=RATES, link=RATES, is_overlapped=st.booleans())
def test_two_paths_add_up_or_the_slower_one_counts(
    bytes_: float, share: float, bandwidth: float, link: float, is_overlapped: bool
) -> None:
    """The floor lies between the slower path and the sum of both, and is one of the two, as the scheme says."""
    ceiling = ceiling_of(offloaded(declared_traffic(bytes_), share), bandwidth, link, is_overlapped=is_overlapped)
    memory_s, spill_s = bytes_ * (1 - share) / bandwidth, bytes_ * share / link
    assert ceiling.step_s == pytest.approx(max(memory_s, spill_s) if is_overlapped else memory_s + spill_s, rel=1e-6)
    assert ceiling.step_s == moved_s(ceiling.memory_s, ceiling.spill_s, is_overlapped=is_overlapped)
    assert ceiling.bound == ("link" if ceiling.spill_s > ceiling.memory_s else "memory")
    assert ceiling.floor_s(bandwidth) == pytest.approx(ceiling.step_s)


@steady
@given(bytes_=BYTES, shares=st.tuples(SHARES, SHARES), bandwidth=RATES)
def test_more_over_a_slower_link_is_never_faster(bytes_: float, shares: tuple[float, float], bandwidth: float) -> None:
    """A tenth of the memory's rate: the more weights come that way, the longer a pass takes."""
    less, more = (
        ceiling_of(offloaded(declared_traffic(bytes_), share), bandwidth, bandwidth / 10).step_s
        for share in sorted(shares)
    )
    assert less <= more * (1 + 1e-9)


@steady
@given(bytes_=BYTES, bandwidth=RATES, link=RATES)
def test_nothing_spilled_is_the_plain_roofline(bytes_: float, bandwidth: float, link: float) -> None:
    """A link that nothing comes over changes no figure."""
    plain = Ceiling(traffic=declared_traffic(bytes_), bandwidth_bytes_per_s=bandwidth, bandwidth_source="read")
    assert ceiling_of(offloaded(declared_traffic(bytes_), 0.0), bandwidth, link).step_s == plain.step_s
    assert plain.spill_s == 0.0


def test_known_weights_are_what_is_spilled() -> None:
    """KV cache and writes stay; where the weights are not known apart they are the rest."""
    known = Traffic(bytes_per_pass=10e9, least_bytes_per_pass=10e9, weight_bytes_per_pass=6e9, kv_bytes_per_pass=3e9)
    assert offloaded(known, 0.5).spilled_bytes_per_pass == 3e9
    unknown = Traffic(bytes_per_pass=10e9, least_bytes_per_pass=10e9, kv_bytes_per_pass=3e9, written_bytes_per_pass=1e9)
    assert offloaded(unknown, 0.5).spilled_bytes_per_pass == 3e9
    assert offloaded(unknown, 1.0).written_share == 0.25  # of what the device's own memory moves


def test_figures_of_a_spill_that_cannot_be() -> None:
    """More spilled than there is, and a path without a rate."""
    with pytest.raises(RooflineUsageError, match="it must be a part of the 1 bytes per pass"):
        Traffic(bytes_per_pass=1.0, least_bytes_per_pass=1.0, spilled_bytes_per_pass=2.0)
    with pytest.raises(RooflineUsageError, match="a spill path needs a positive rate"):
        ceiling_of(declared_traffic(1e9), 1e12, 0.0)
