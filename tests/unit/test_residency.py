"""Places to look at, and what counts as a pattern."""

from __future__ import annotations

import array
import itertools
import random
import struct

import pytest

from pytest_roofline.residency import Survey, is_predictable, pattern_of, places, spread

KIB = 1024


def normal(kind: str) -> bytes:
    """A kilobyte of weights as they are drawn: N(0, 0.02) in 32 or 16 bits, or rounded to a few levels."""
    chance = random.Random(1)
    values = [chance.gauss(0.0, 0.02) for _ in range(KIB)]
    if kind == "float32":
        return array.array("f", values[: KIB // 4]).tobytes()
    if kind == "bfloat16":
        return b"".join(struct.pack("<f", value)[2:] for value in values[: KIB // 2])
    if kind == "float16":
        return struct.pack(f"<{KIB // 2}e", *values[: KIB // 2])
    if kind == "int8":
        return bytes(round(value * 1500) % 256 for value in values)
    if kind == "int4":
        return bytes((round(a * 100) & 15) << 4 | (round(b * 100) & 15) for a, b in itertools.pairwise([*values, 0.0]))
    if kind == "ternary":
        return bytes((0 if abs(value) < 0.01 else 1 if value > 0 else 255) for value in values)
    if kind == "half zeros":
        return array.array("f", [v if chance.random() < 0.5 else 0.0 for v in values[: KIB // 4]]).tobytes()
    return random.Random(2).randbytes(KIB)


@pytest.mark.parametrize(
    "kind", ["float32", "bfloat16", "float16", "int8", "int4", "ternary", "half zeros", "random bytes"]
)
def test_weights_are_no_pattern(kind: str) -> None:
    """Drawn, rounded, packed, ternary or pruned by half: all of them are data."""
    assert not is_predictable(normal(kind))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (bytes(KIB), "zeros"),
        (b"\x3f" * KIB, "one value"),
        (struct.pack("<f", 0.1) * (KIB // 4), "one value"),
        (struct.pack("<e", 0.1) * (KIB // 2), "one value"),
        (array.array("i", range(KIB // 4)).tobytes(), "a regular pattern"),
        (array.array("f", range(1000, 1000 + KIB // 4)).tobytes(), "a regular pattern"),
        (bytes(range(256)) * 4, "a regular pattern"),
        (bytes(KIB - 4) + b"\x01\x02\x03\x04", "a regular pattern"),
    ],
)
def test_constants_and_sequences_are_patterns(block: bytes, words: str) -> None:
    """One value, equal steps, a short cycle, zeros with a few exceptions."""
    assert is_predictable(block)
    assert pattern_of([block]) == words


def test_nothing_is_no_pattern() -> None:
    """An empty block says nothing."""
    assert not is_predictable(b"")


@pytest.mark.parametrize("total", [0, 1, 31, 32, 33, 1000, 10**12])
def test_places_are_spread_over_all_of_it(total: int) -> None:
    """All of a small stretch, and of a large one no half that is left out."""
    found = spread(total, 32)
    assert len(found) == len(set(found)) <= min(total, 32)
    assert all(0 <= place < total for place in found)
    if total >= 1000:
        assert sum(place < total // 2 for place in found) in range(14, 19)


def test_places_fall_on_stretches_by_their_length() -> None:
    """A stretch of nine tenths gets nine tenths of the places, an empty one none."""
    found = places([100, 0, 900], 100)
    assert {index for index, _ in found} == {0, 2}
    assert sum(index == 2 for index, _ in found) in range(88, 93)
    assert all(0 <= offset < (100, 0, 900)[index] for index, offset in found)


def test_a_survey_is_plain_data() -> None:
    """Builtin types only."""
    assert Survey(untouched_bytes=1.0).to_dict() == {
        "untouched_bytes": 1.0,
        "predictable_bytes": None,
        "sampled": 0,
        "pattern": "",
        "may_compress": True,
    }
