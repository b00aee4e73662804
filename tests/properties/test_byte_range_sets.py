"""Byte ranges against sets of integers."""

from __future__ import annotations

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline.models.byte_ranges import RangeSet, view_ranges

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair))))


def _bytes(ranges: object) -> set[int]:
    return {byte for start, stop in ranges for byte in range(start, stop)}  # type: ignore[attr-defined]


@given(RANGES, RANGES)
def test_sets_of_ranges_behave_as_sets_of_bytes(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    """Union, difference, intersection and size agree with sets of integers."""
    ours, theirs = RangeSet(left), RangeSet(right)
    assert ours.total_bytes == len(_bytes(left))
    assert _bytes(ours.minus(theirs)) == _bytes(left) - _bytes(right)
    assert _bytes(ours.common(theirs)) == _bytes(left) & _bytes(right)
    ours.update(right)
    assert _bytes(ours) == _bytes(left) | _bytes(right)


@given(RANGES)
def test_ranges_are_sorted_disjoint_and_apart(ranges: list[tuple[int, int]]) -> None:
    """Between two ranges of a set there is always a gap."""
    found = RangeSet(ranges).ranges
    assert all(start < stop for start, stop in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(RANGES, st.integers(0, 90))
def test_membership(ranges: list[tuple[int, int]], byte: int) -> None:
    """A byte is in the set exactly if one of the ranges holds it."""
    assert (byte in RangeSet(ranges)) == (byte in _bytes(ranges))


@given(
    st.integers(0, 16),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 24)), max_size=4),
    st.sampled_from([1, 2, 4, 8]),
)
def test_a_view_covers_exactly_its_elements(offset: int, dims: list[tuple[int, int]], item: int) -> None:
    """The ranges of a strided view are the bytes of its elements, no more and no fewer."""
    sizes = [size for size, _ in dims]
    strides = [stride * item for _, stride in dims]
    expected = {
        offset + sum(at * stride for at, stride in zip(index, strides, strict=True)) + byte
        for index in product(*(range(size) for size in sizes))
        for byte in range(item)
    }
    found = view_ranges(offset, sizes, strides, item)
    assert found is not None
    assert _bytes(found) == expected
