"""The tensor types of GGML by their number in a file: elements and bytes of one block.

Numbers: ``enum ggml_type`` in ggml.h; block structures: ggml-common.h. Numbers that GGML has withdrawn are not here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GgmlType:
    """One type."""

    name: str
    """As the library of formats calls it."""
    elements: int
    """In one block; a row is a whole number of blocks."""
    size_bytes: int
    """Of one block, with its scales."""


def ggml_type(number: int) -> GgmlType | None:
    """The type of a number; None for one that is not known."""
    return _TYPES[number] if number < len(_TYPES) else None


_TYPES: tuple[GgmlType | None, ...] = (
    GgmlType("f32", 1, 4),
    GgmlType("f16", 1, 2),
    GgmlType("q4_0", 32, 18),
    GgmlType("q4_1", 32, 20),
    None,
    None,
    GgmlType("q5_0", 32, 22),
    GgmlType("q5_1", 32, 24),
    GgmlType("q8_0", 32, 34),
    GgmlType("q8_1", 32, 40),
    GgmlType("q2_k", 256, 84),
    GgmlType("q3_k", 256, 110),
    GgmlType("q4_k", 256, 144),
    GgmlType("q5_k", 256, 176),
    GgmlType("q6_k", 256, 210),
    GgmlType("q8_k", 256, 292),
    GgmlType("iq2_xxs", 256, 66),
    GgmlType("iq2_xs", 256, 74),
    GgmlType("iq3_xxs", 256, 98),
    GgmlType("iq1_s", 256, 50),
    GgmlType("iq4_nl", 32, 18),
    GgmlType("iq3_s", 256, 110),
    GgmlType("iq2_s", 256, 82),
    GgmlType("iq4_xs", 256, 136),
    GgmlType("i8", 1, 1),
    GgmlType("i16", 1, 2),
    GgmlType("i32", 1, 4),
    GgmlType("i64", 1, 8),
    GgmlType("f64", 1, 8),
    GgmlType("iq1_m", 256, 56),
    GgmlType("bf16", 1, 2),
    None,
    None,
    None,
    GgmlType("tq1_0", 256, 54),
    GgmlType("tq2_0", 256, 66),
    None,
    None,
    None,
    GgmlType("ggml-mxfp4", 32, 17),
    GgmlType("ggml-nvfp4", 64, 36),
    GgmlType("q1_0", 128, 18),
)
