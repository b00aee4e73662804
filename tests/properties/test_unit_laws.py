"""Laws of quantities as text."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st
from strategies import steady

from pytest_roofline.units import (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    format_fraction,
    format_rate,
    format_ratio,
    format_seconds,
)

SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "n": 1e-9, "u": 1e-6, "m": 1e-3}
FORMATS = (
    format_bytes,
    format_bytes_per_s,
    format_flops_per_s,
    format_seconds,
    format_fraction,
    format_rate,
    format_ratio,
)


def parse(text: str, unit: str) -> float:
    """What a reader takes a quantity for."""
    number, word = text.split(" ")
    prefix = word.removesuffix(unit)
    return float(number) * SCALES.get(prefix, 1.0)


@steady
@given(value=st.floats(min_value=1e3, max_value=9e17))
def test_a_reader_gets_three_digits(value: float) -> None:
    """Read back, a quantity is right to half a per cent."""
    assert math.isclose(parse(format_bytes(value), "B"), value, rel_tol=0.0051)
    assert math.isclose(parse(format_bytes_per_s(value), "B/s"), value, rel_tol=0.0051)
    assert math.isclose(parse(format_flops_per_s(value), "FLOP/s"), value, rel_tol=0.0051)


@steady
@given(value=st.floats(min_value=1e-6, max_value=1e5))
def test_seconds_read_back(value: float) -> None:
    """Durations too."""
    assert math.isclose(parse(format_seconds(value), "s"), value, rel_tol=0.0051)


@steady
@given(value=st.floats(min_value=1e3, max_value=9.99e17))
def test_no_prefix_too_early_or_too_late(value: float) -> None:
    """One to three digits before the point."""
    number = format_bytes(value).split(" ")[0]
    assert re.fullmatch(r"\d{1,3}(\.\d+)?", number)
    assert float(number) >= 1.0


@steady
@given(value=st.floats(allow_nan=True, allow_infinity=True))
def test_every_float_has_a_text(value: float) -> None:
    """Formatting an error message never fails, and never takes two lines."""
    for format_ in FORMATS:
        text = format_(value)
        assert text
        assert "\n" not in text


@steady
@given(value=st.floats(min_value=1e-300, max_value=1e300), sign=st.sampled_from([1, -1]))
def test_a_rate_that_is_not_zero_is_not_printed_as_zero(value: float, sign: int) -> None:
    """However slow."""
    assert float(format_rate(sign * value).replace(",", "")) != 0.0
