"""Quantities as text, and text as quantities.

Inside the package everything is in SI base units (bytes, seconds, bytes/s, FLOP/s). This room turns them
into what a person reads, and back. GB is 1e9 bytes; GiB, where it appears at all, is 2**30.
"""

from __future__ import annotations

import math
import re

from pytest_roofline.errors import RooflineUsageError

_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _scaled(value: float, unit: str) -> str:
    """Format with three significant digits and a decimal prefix: ``3.35 TB/s``, ``12.0 MB``, ``0 bytes``."""
    if not math.isfinite(value):
        return f"{value} {unit}"
    for size, prefix in _DECIMAL:
        # 999.5 of one prefix prints as 1.00 of the next one, never as a four-digit number.
        if abs(value) >= size * 0.9995:
            return f"{_three_digits(value / size)} {prefix}{unit}"
    return f"{value:.0f} {unit if unit != 'B' else 'bytes'}"


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    if abs(value) >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def format_bytes(value_bytes: float) -> str:
    """Bytes with a decimal prefix: ``2.47 GB``."""
    return _scaled(value_bytes, "B")


def format_bytes_per_s(value: float) -> str:
    """A bandwidth with a decimal prefix: ``33.1 GB/s``."""
    return _scaled(value, "B/s")


def format_flops_per_s(value: float) -> str:
    """A compute rate with a decimal prefix: ``989 TFLOP/s``."""
    return _scaled(value, "FLOP/s")


def format_digits(value: float, unit: str) -> str:
    """Four significant digits with a decimal prefix, for figures that a reader divides again: ``16.06 GB``.

    Zeros that say nothing are left out: ``3.35 TB/s``.
    """
    for size, prefix in _DECIMAL:
        if math.isfinite(value) and abs(value) >= size * 0.99995:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def format_seconds(value_s: float) -> str:
    """A duration in the unit that leaves one to three digits before the point: ``1.20 ms``."""
    if not math.isfinite(value_s):
        return f"{value_s} s"
    magnitude = abs(value_s)
    if magnitude >= 0.9995:
        return f"{_three_digits(value_s)} s"
    for size, unit in ((1e-3, "ms"), (1e-6, "us")):
        if magnitude >= size * 0.9995:
            return f"{_three_digits(value_s / size)} {unit}"
    return f"{value_s / 1e-9:.0f} ns"


def format_fraction(value: float) -> str:
    """A fraction as per cent, 1.0 being 100 %: ``41 %``, and ``7.2 %`` below ten."""
    percent = value * 100
    if not math.isfinite(percent):
        return "no bound" if percent > 0 else "not known"
    return f"{percent:.0f} %" if abs(percent) >= 9.95 else f"{percent:.1f} %"


def format_rate(value_per_s: float) -> str:
    """Tokens per second, without the unit: ``98.3``, ``1,204``, ``0.0042``."""
    if abs(value_per_s) >= 999.5:
        return f"{value_per_s:,.0f}"
    if 0 < abs(value_per_s) < 0.0995:
        return f"{value_per_s:.2g}"
    return _three_digits(value_per_s)


def format_ratio(value: float) -> str:
    """A multiple: ``40x``, ``1.3x``."""
    return f"{value:,.0f}x" if abs(value) >= 9.95 else f"{value:.2g}x"


# -- text as quantities ---------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
# Nothing that is typed here is beyond these, and nothing between them overflows when it is divided or multiplied.
_LEAST, _MOST = 1e-12, 1e24
# Smaller ones without a unit are slips: 3.35 of a bandwidth, 70 of parameters.
_LEAST_BARE_RATE, _LEAST_BARE_COUNT = 1e6, 1e3
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def parse_bytes(text: str) -> float:
    """A positive number of bytes: ``80GB``, ``320 KiB``, ``1e12``. RooflineUsageError for anything else."""
    return _parsed(text, "a number of bytes", ("80GB", "320KiB", "1e12"), _of_unit(text, ("B", "bytes"), binary=True))


def parse_bytes_per_s(text: str) -> float:
    """A positive bandwidth: ``3.35TB/s``, ``273 GB/s``, ``1e12``. ``Gb/s`` are bits, and refused.

    So is a number under 1e6 without a unit: nobody means bytes by it.
    """
    _refuse_bare(text, "a bandwidth", _LEAST_BARE_RATE, "TB/s" if (_split(text)[0] or 0.0) < 50 else "GB/s")
    return _parsed(text, "a bandwidth", ("3.35TB/s", "273GB/s", "1e12"), _of_unit(text, ("B/s",), binary=True))


def parse_flops_per_s(text: str) -> float:
    """A positive compute rate: ``989TFLOP/s``, ``125 TFLOPS``, ``1.25e14``; a number under 1e6 needs a unit."""
    _refuse_bare(text, "a compute rate", _LEAST_BARE_RATE, "TFLOP/s")
    units = ("FLOP/s", "FLOPS", "FLOPs", "FLOPs/s")
    return _parsed(text, "a compute rate", ("989TFLOP/s", "125TFLOPS", "1.25e14"), _of_unit(text, units))


def parse_count(text: str) -> float:
    """A positive number of parameters: ``70B``, ``8.03b``, ``350M``, ``1.5T``, ``7e9``; B is 1e9.

    A number under 1,000 needs its letter.
    """
    _refuse_bare(text, "a number of parameters", _LEAST_BARE_COUNT, "B")
    number, unit = _split(text)
    scale = _COUNTS.get(unit.lower())
    value = None if number is None or scale is None else number * scale
    return _parsed(text, "a number of parameters", ("70B", "8.03B", "350M", "1.5T", "7e9"), value)


def parse_seconds(text: str) -> float:
    """A positive duration: ``10us``, ``1.5ms``, ``2s``. One without a unit is refused: tools report them all."""
    _refuse_bare(text, "a duration", math.inf, "ms")
    number, unit = _split(text)
    scale = _SECONDS.get(unit)
    value = None if number is None or scale is None else number * scale
    return _parsed(text, "a duration", ("10us", "1.5ms", "2s"), value)


def parse_number(text: str) -> float:
    """A positive number without a unit: ``2.5``, ``1e3``."""
    number, unit = _split(text)
    return _parsed(text, "a number", ("1", "2.5", "1e3"), None if unit else number)


def _split(text: str) -> tuple[float | None, str]:
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= 64 else None
    return (float(found[1]), found[2].strip()) if found else (None, "")


def _refuse_bare(text: str, dimension: str, least: float, unit: str) -> None:
    """A number without a unit and too small to be meant in base units: the error says what was meant."""
    number, word = _split(text)
    if number is not None and not word and _LEAST <= number < least:
        raise RooflineUsageError(f"{text[:64]!r} is not {dimension}: no unit; did you mean {text.strip()}{unit}?")


def _of_unit(text: str, units: tuple[str, ...], *, binary: bool = False) -> float | None:
    """The value where the text ends in one of `units` with a prefix, or in nothing at all; else None."""
    number, word = _split(text)
    if number is None or not word:
        return number
    prefixes = {**_PREFIXES, **_BINARY} if binary else _PREFIXES
    for unit in units:
        if word.endswith(unit) and word[: -len(unit)] in prefixes:
            return number * prefixes[word[: -len(unit)]]
    return None


def _parsed(text: str, dimension: str, examples: tuple[str, ...], value: float | None) -> float:
    if value is None or not _LEAST <= value <= _MOST:
        wanted = f"{', '.join(examples[:-1])} or {examples[-1]}"
        raise RooflineUsageError(f"{text[:64]!r} is not {dimension}; write a positive one such as {wanted}")
    return value
