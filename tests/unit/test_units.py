"""Quantities as text."""

from __future__ import annotations

import math

import pytest

from pytest_roofline.units import (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    format_fraction,
    format_rate,
    format_ratio,
    format_seconds,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (999.4, "999 bytes"),
        (999.5, "1.00 kB"),
        (1e3, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_995, "10.0 kB"),
        (99_940, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (2.47e9, "2.47 GB"),
        (480e12, "480 TB"),
        (1.5e18, "1500 PB"),
        (-2.47e9, "-2.47 GB"),
        (math.nan, "nan B"),
        (math.inf, "inf B"),
    ],
)
def test_bytes_have_three_digits_and_a_decimal_prefix(value: float, text: str) -> None:
    """Never a four-digit figure below the largest prefix, and never a prefix too early."""
    assert format_bytes(value) == text


def test_rates_carry_their_unit() -> None:
    """Bandwidths and compute rates keep the unit at every size."""
    assert format_bytes_per_s(3.35e12) == "3.35 TB/s"
    assert format_bytes_per_s(12) == "12 B/s"
    assert format_flops_per_s(989e12) == "989 TFLOP/s"
    assert format_flops_per_s(5) == "5 FLOP/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 ns"),
        (3e-9, "3 ns"),
        (999.4e-9, "999 ns"),
        (999.5e-9, "1.00 us"),
        (12.34e-6, "12.3 us"),
        (1.2e-3, "1.20 ms"),
        (48e-3, "48.0 ms"),
        (0.9994, "999 ms"),
        (0.9995, "1.00 s"),
        (3600.0, "3600 s"),
        (-1.5e-3, "-1.50 ms"),
        (math.nan, "nan s"),
        (-math.inf, "-inf s"),
    ],
)
def test_seconds_choose_their_unit(value: float, text: str) -> None:
    """Durations from nanoseconds to hours."""
    assert format_seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.41, "41 %"),
        (1.0, "100 %"),
        (0.0994, "9.9 %"),
        (0.0995, "10 %"),
        (0.072, "7.2 %"),
        (0.0, "0.0 %"),
        (-0.25, "-25 %"),
        (30.0, "3000 %"),
        (math.inf, "no bound"),
        (math.nan, "not known"),
    ],
)
def test_fractions_are_per_cent(value: float, text: str) -> None:
    """One digit after the point below ten per cent only."""
    assert format_fraction(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1204.0, "1,204"),
        (999.5, "1,000"),
        (999.4, "999"),
        (98.3, "98.3"),
        (7.0, "7.00"),
        (0.0995, "0.10"),
        (0.0042, "0.0042"),
        (0.0, "0.00"),
        (-1234567.0, "-1,234,567"),
    ],
)
def test_rates_stay_readable(value: float, text: str) -> None:
    """Thousands are separated, and a very slow rate is not printed as nothing."""
    assert format_rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(40.0, "40x"), (1.3, "1.3x"), (9.94, "9.9x"), (9.95, "10x"), (12345.0, "12,345x")]
)
def test_ratios(value: float, text: str) -> None:
    """Two digits below ten."""
    assert format_ratio(value) == text
