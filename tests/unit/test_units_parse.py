"""Text as quantities: what people type, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.units import (
    format_digits,
    parse_bytes,
    parse_bytes_per_s,
    parse_count,
    parse_flops_per_s,
    parse_number,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "80GB", 80e9),
        (parse_bytes, "320KiB", 327_680),
        (parse_bytes, " 24 GB ", 24e9),
        (parse_bytes, "1.5 TiB", 1.5 * 2**40),
        (parse_bytes, "12 bytes", 12),
        (parse_bytes, "1e12", 1e12),
        (parse_bytes, "64kB", 64e3),
        (parse_bytes_per_s, "3.35TB/s", 3.35e12),
        (parse_bytes_per_s, "273 GB/s", 273e9),
        (parse_bytes_per_s, ".5GiB/s", 2**29),
        (parse_bytes_per_s, "2.04e12", 2.04e12),
        (parse_flops_per_s, "989TFLOP/s", 989e12),
        (parse_flops_per_s, "125 TFLOPS", 125e12),
        (parse_flops_per_s, "1.98PFLOPs", 1.98e15),
        (parse_count, "70B", 70e9),
        (parse_count, "8.03b", 8.03e9),
        (parse_count, "350M", 350e6),
        (parse_count, "1.5T", 1.5e12),
        (parse_count, "7e9", 7e9),
        (parse_seconds, "10us", 10e-6),
        (parse_seconds, "1.5 ms", 1.5e-3),
        (parse_seconds, "2s", 2.0),
        (parse_number, "2.5", 2.5),
    ],
)
def test_what_people_type(parse: Callable[[str], float], text: str, value: float) -> None:
    """Decimal and binary prefixes, with and without a space, plain numbers in base units."""
    assert parse(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "-1", "0", "nan", "inf", "1e999", "-inf", "one", "1,5", "0x10", "1 2", "9" * 65])
@pytest.mark.parametrize("parse", [parse_bytes, parse_bytes_per_s, parse_flops_per_s, parse_count, parse_seconds])
def test_nonsense_is_refused(parse: Callable[[str], float], text: str) -> None:
    """Negative, zero, endless or no number at all: the error shows what was given and what is accepted."""
    with pytest.raises(RooflineUsageError, match=r"is not a.*; write a positive one such as .* or "):
        parse(text)


@pytest.mark.parametrize(
    ("parse", "text", "dimension"),
    [
        (parse_bytes, "3.35TB/s", "a number of bytes"),
        (parse_bytes, "80Gb", "a number of bytes"),
        (parse_bytes, "8B/s", "a number of bytes"),
        (parse_bytes_per_s, "80GB", "a bandwidth"),
        (parse_bytes_per_s, "100Gb/s", "a bandwidth"),
        (parse_bytes_per_s, "989TFLOP/s", "a bandwidth"),
        (parse_flops_per_s, "3.35TB/s", "a compute rate"),
        (parse_flops_per_s, "989TFLOP", "a compute rate"),
        (parse_count, "80GB", "a number of parameters"),
        (parse_count, "70 billion", "a number of parameters"),
        (parse_seconds, "10GB", "a duration"),
        (parse_number, "4GB", "a number"),
    ],
)
def test_another_dimension_is_refused(parse: Callable[[str], float], text: str, dimension: str) -> None:
    """Bytes are no rate, bits are no bytes, and FLOPs are neither."""
    with pytest.raises(RooflineUsageError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"{text!r} is not {dimension}; write a positive one such as ")


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_bytes_per_s, "3.35", "'3.35' is not a bandwidth: no unit; did you mean 3.35TB/s?"),
        (parse_bytes_per_s, " 273 ", "' 273 ' is not a bandwidth: no unit; did you mean 273GB/s?"),
        (parse_bytes_per_s, "999999", "'999999' is not a bandwidth: no unit; did you mean 999999GB/s?"),
        (parse_flops_per_s, "989", "'989' is not a compute rate: no unit; did you mean 989TFLOP/s?"),
        (parse_count, "70", "'70' is not a number of parameters: no unit; did you mean 70B?"),
    ],
)
def test_a_small_number_without_a_unit_is_a_slip(parse: Callable[[str], float], text: str, message: str) -> None:
    """Nobody means 3.35 bytes per second or 70 parameters: the error says what was meant."""
    with pytest.raises(RooflineUsageError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes_per_s, "1000000", 1e6),
        (parse_bytes_per_s, "3B/s", 3.0),
        (parse_flops_per_s, "1e6", 1e6),
        (parse_flops_per_s, "5FLOP/s", 5.0),
        (parse_count, "1000", 1e3),
        (parse_count, "0.5k", 500.0),
    ],
)
def test_a_large_number_or_one_with_its_unit_is_no_slip(parse: Callable[[str], float], text: str, value: float) -> None:
    """Base units from 1e6 of a rate and 1,000 of a count on; below that with the unit written."""
    assert parse(text) == value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"),
        (16.0605e9, "B", "16.06 GB"),
        (35e9, "B", "35 GB"),
        (999_960, "B", "1 MB"),
        (12.0, "FLOP", "12 FLOP"),
    ],
)
def test_figures_to_divide_again(value: float, unit: str, text: str) -> None:
    """Four digits, and no zeros that say nothing."""
    assert format_digits(value, unit) == text


@pytest.mark.parametrize("text", ["10.8", "2", "1e-5", "7000000"])
def test_a_time_needs_its_unit(text: str) -> None:
    """Tools report seconds, ms and us: a number alone is none of them."""
    with pytest.raises(RooflineUsageError) as caught:
        parse_seconds(text)
    assert str(caught.value) == f"{text!r} is not a duration: no unit; did you mean {text}ms?"
