"""Byte ranges: sets of intervals and the bytes of strided views."""

from __future__ import annotations

import sys

import pytest

from pytest_roofline.models.byte_ranges import RangeSet, merged, view_ranges


def test_overlapping_and_touching_ranges_join() -> None:
    """Ranges that overlap or touch become one, and empty ones vanish."""
    assert merged([(8, 12), (0, 4), (4, 6), (5, 7), (20, 20)]) == [(0, 7), (8, 12)]


def test_bytes_count_once() -> None:
    """The same bytes added twice count once."""
    ranges = RangeSet([(0, 100)])
    ranges.add(50, 150)
    ranges.add(7, 7)
    assert ranges.total_bytes == 150
    assert list(ranges) == [(0, 150)]


def test_minus_and_common() -> None:
    """Difference cuts holes, intersection keeps what both have."""
    left, right = RangeSet([(0, 10), (20, 30)]), RangeSet([(5, 22), (25, 26)])
    assert left.minus(right).ranges == [(0, 5), (22, 25), (26, 30)]
    assert left.common(right).ranges == [(5, 10), (20, 22), (25, 26)]


def test_an_empty_set_is_false() -> None:
    """A set without bytes is false, equals another such set, and contains nothing."""
    assert not RangeSet([(3, 3)])
    assert RangeSet() == RangeSet([(1, 1)])
    assert 0 not in RangeSet()
    assert 3 in RangeSet([(3, 4)])
    assert 4 not in RangeSet([(3, 4)])


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((4, 8), (32, 4), [(100, 228)]),  # contiguous
        ((8, 4), (4, 32), [(100, 228)]),  # its transpose
        ((4, 2), (32, 4), [(100, 108), (132, 140), (164, 172), (196, 204)]),  # two columns of it
        ((5, 8), (0, 4), [(100, 132)]),  # broadcast
        ((0, 8), (32, 4), []),  # empty
        ((), (), [(100, 104)]),  # a number
        ((3, 4), (4, 4), [(100, 124)]),  # overlapping windows
    ],
)
def test_a_view_covers_its_bytes(
    sizes: tuple[int, ...], strides: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    """A view covers the bytes of its elements whatever the order of its dimensions."""
    assert view_ranges(100, sizes, strides, 4) == expected


def test_a_scattered_view_counts_by_lines() -> None:
    """Every second element of a large row is read in whole lines, since memory moves lines."""
    assert view_ranges(0, (1000,), (8,), 4, limit=10) == [(0, 7996)]


def test_a_view_too_scattered_to_list_is_none() -> None:
    """More runs than the limit even by lines is an answer of its own."""
    assert view_ranges(0, (1000,), (4096,), 4, limit=10) is None


def test_no_framework_is_imported() -> None:
    """The arithmetic depends on nothing but the standard library."""
    module = sys.modules["pytest_roofline.models.byte_ranges"]
    assert not {"torch", "numpy"} & set(vars(module))
