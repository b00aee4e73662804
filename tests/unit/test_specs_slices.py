"""MIG slices: which share of a card's memory a profile has, and what a slice can do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs import Catalogue, mig_share


def card(gigabytes: float = 80, slices: int | None = 8) -> Spec:
    """A card of that size that MIG cuts into so many slices of memory."""
    return Spec(
        name="Card",
        memory_bytes=gigabytes * 1e9,
        bandwidth_bytes_per_s=2e12,
        source="sheet",
        mig_memory_slices=slices,
    )


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 254.875e9),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 1019.5e9),
        ("h100-sxm MIG 1g.10gb", 418.75e9),
        ("H100 SXM 1g.10gb", 418.75e9),
        ("h100-sxm:1g.10gb", 418.75e9),
        ("h100-sxm mig-1g.10gb", 418.75e9),
        ("NVIDIA H200 MIG 2g.35gb", 1.2e12),
        ("a30 MIG 1g.6gb", 933e9 / 4),
        ("a30 MIG 4g.24gb", 933e9),
        ("rtx-pro-6000-server MIG 2g.48gb", 896e9),
    ],
)
def test_the_rate_of_a_slice(name: str, rate: float) -> None:
    """Bandwidth follows the slices of memory, to the byte."""
    assert Catalogue().device(name).bandwidth_bytes_per_s == rate


@pytest.mark.parametrize(
    ("gigabytes", "profile", "slices"),
    [
        (40, "1g.5gb", 1),
        (40, "1g.10gb", 2),
        (40, "2g.10gb", 2),
        (80, "1g.10gb", 1),
        (80, "1g.10gb+me", 1),
        (80, "1g.20gb", 2),
        (80, "2g.20gb", 2),
        (80, "3g.40gb", 4),
        (80, "4g.40gb", 4),
        (80, "7g.80gb", 8),
        (94, "1g.12gb", 1),
        (94, "1g.24gb", 2),
        (94, "3g.47gb", 4),
        (96, "1g.12gb", 1),
        (141, "1g.18gb", 1),
        (141, "1g.35gb", 2),
        (141, "2g.35gb", 2),
        (141, "3g.71gb", 4),
        (180, "1g.23gb", 1),
        (180, "1g.45gb", 2),
        (180, "7g.180gb", 8),
        (186, "1g.24gb", 1),
        (186, "1g.47gb", 2),
        (186, "4g.95gb", 4),
        (186, "7G.189GB", 8),
    ],
)
def test_the_share_of_a_profile_in_eighths(gigabytes: float, profile: str, slices: int) -> None:
    """A 1g has one eighth or two, and its size against the card's says which; a 3g has as many as a 4g."""
    assert mig_share(profile, card(gigabytes)) == slices / 8
    assert mig_share(f"NVIDIA Card MIG {profile}", card(gigabytes)) == slices / 8


@pytest.mark.parametrize(
    ("gigabytes", "profile", "share"),
    [
        (24, "1g.6gb", 0.25),
        (24, "2g.12gb+me", 0.5),
        (24, "4g.24gb", 1),
        (96, "1g.24gb+gfx", 0.25),
        (96, "1g.24gb-me", 0.25),
    ],
)
def test_the_share_of_a_profile_in_quarters(gigabytes: float, profile: str, share: float) -> None:
    """A30 and RTX PRO 6000 are cut in quarters."""
    assert mig_share(profile, card(gigabytes, 4)) == share


@pytest.mark.parametrize(
    ("profile", "slices", "words"),
    [
        ("1g.10gb", None, "has no MIG slices"),
        ("5g.50gb", 8, "write one of 1g, 2g, 3g, 4g, 7g"),
        ("3g.12gb", 4, "write one of 1g, 2g, 4g"),
        ("1g.40gb", 8, "1g has 10.0 GB or 20.0 GB"),
        ("7g.40gb", 8, "7g has 80.0 GB"),
        ("half", 8, "is no MIG profile"),
        ("", 8, "is no MIG profile"),
        ("1g.10gb " * 50, 8, "is no MIG profile"),
    ],
)
def test_a_profile_that_is_none_of_the_cards(profile: str, slices: int | None, words: str) -> None:
    """An error with the sizes that there are, never the share of another card's profile."""
    with pytest.raises(RooflineUsageError, match="Card") as caught:
        mig_share(profile, card(80, slices))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_what_a_slice_has_of_its_card() -> None:
    """Memory, bandwidth and cache by memory slices, peaks and units by compute slices; no NVLink, the same PCIe."""
    whole = Catalogue().device("h100-sxm")
    slice_ = Catalogue().device("NVIDIA H100 80GB HBM3 MIG 3g.40gb")
    assert slice_.name == "NVIDIA H100 SXM 80 GB, MIG 3g.40gb"
    assert slice_.memory_bytes == 40e9
    assert slice_.last_level_cache_bytes == 26_214_400
    assert slice_.dense_peak_flops_per_s["bfloat16"] == pytest.approx(989.4e12 * 3 / 7)
    assert slice_.compute_units == pytest.approx(132 * 3 / 7)
    assert slice_.link_bidirectional_bytes_per_s is None
    assert slice_.host_link_bytes_per_s == whole.host_link_bytes_per_s
    assert "4 of 8 memory slices" in slice_.source
    assert "4 of 8 memory slices" in slice_.sources["memory_bytes"]
    assert "3 of 7 compute slices" in slice_.sources["dense_peak_flops_per_s.bfloat16"]
    assert slice_.sources["host_link_bytes_per_s"] == whole.sources["host_link_bytes_per_s"]
    assert Catalogue().device("a30 MIG 2g.12gb").dense_peak_flops_per_s["bfloat16"] == 82.5e12


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30) | st.from_regex(r"[1-9]g\.[0-9]{1,5}gb", fullmatch=True), st.sampled_from([8, 4, None]))
def test_any_text_is_a_share_or_a_clear_error(profile: str, slices: int | None) -> None:
    """A share is a slice of the memory at least, and never more than the card."""
    try:
        share = mig_share(profile, card(80, slices))
    except RooflineUsageError:
        return
    assert 1 / 8 <= share <= 1
