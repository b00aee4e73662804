"""Quantities as text.

Inside the package everything is in SI base units (bytes, seconds, bytes/s, FLOP/s). This room turns them
into what a person reads. GB is 1e9 bytes; GiB, where it appears at all, is 2**30.
"""

from __future__ import annotations

import math

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
