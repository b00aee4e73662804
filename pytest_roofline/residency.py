"""What lies in the memory that a pass reads: was it ever written, and is it more than a pattern?

Two kinds of memory are read faster than memory can be read, under a perfectly honest clock. Pages that nobody ever
wrote are all one page of zeros, which stays in the processor's cache. And a device that compresses its memory moves
fewer bytes of constant or regular data than the data has. Neither says anything about real weights. Pure: what is
surveyed comes from the backends.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

PREDICTABLE_SHARE = 1 / 8
"""A block that a general compressor brings under this share of its size is a pattern: weights, whether trained or
drawn at random, packed, ternary or half of them zero, stay well above it."""
_ITEMS_BYTES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of this process's addresses."""

    start: int
    length_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found where a traced pass reads, looked at once, after the measurement; None is not known.

    Estimates from samples spread over all of it. Not looked at: what was freed since the trace, and the pages of
    files and of memory shared between processes, which are nobody's zero page.
    """

    untouched_bytes: float | None = None
    """Bytes in pages that were read and never written."""
    predictable_bytes: float | None = None
    """Bytes that hold one value or a plain sequence."""
    sampled: int = 0
    """Pages or blocks that were looked at."""
    pattern: str = ""
    """What the predictable bytes hold, in words."""
    may_compress: bool = True
    """False where the device is known to move every byte as it is."""

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "untouched_bytes": self.untouched_bytes,
            "predictable_bytes": self.predictable_bytes,
            "sampled": self.sampled,
            "pattern": self.pattern,
            "may_compress": self.may_compress,
        }


class Surveyor(Protocol):
    """Knows where a traced pass read, without keeping any of it alive."""

    def survey(self) -> Survey | None:
        """Look now; None where nothing can be known. Never raises, never runs a step, takes under 10 ms."""
        ...


def spread(total: int, count: int) -> list[int]:
    """Up to `count` different places below `total`, evenly spread without falling into step with any row length."""
    if total <= 0:
        return []
    if total <= count:
        return list(range(total))
    # Multiples of the golden section: no period of the data can hide between them.
    return sorted({int(((number * 0.6180339887498949 + 0.5) % 1.0) * total) for number in range(count)})


def places(lengths: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Up to `count` places in several stretches that follow each other: the number of the stretch, and the offset."""
    found: list[tuple[int, int]] = []
    index, before = 0, 0
    for place in spread(sum(lengths), count):
        while place >= before + lengths[index]:
            before += lengths[index]
            index += 1
        found.append((index, place - before))
    return found


def is_predictable(block: bytes) -> bool:
    """Whether a block (about a kilobyte) is a pattern: one value, few values in a cycle, or steps of one size."""
    if not block:
        return False
    most = len(block) * PREDICTABLE_SHARE
    if len(zlib.compress(block, 1)) <= most:
        return True
    return any(len(zlib.compress(_steps(block, item), 1)) <= most for item in _ITEMS_BYTES)


def pattern_of(blocks: Sequence[bytes]) -> str:
    """What predictable blocks hold, in words."""
    values = {value for block in blocks for value in block}
    if values == {0}:
        return "zeros"
    if len(values) == 1 or all(_is_one_value(block) for block in blocks):
        return "one value"
    return "a regular pattern"


def _is_one_value(block: bytes) -> bool:
    return any(block[item:] == block[:-item] for item in _ITEMS_BYTES)


def _steps(block: bytes, item_bytes: int) -> bytes:
    """Differences of neighbouring items, each an integer of so many bytes."""
    whole = len(block) // item_bytes * item_bytes
    modulus = 1 << (8 * item_bytes)
    items = [int.from_bytes(block[at : at + item_bytes], "little") for at in range(0, whole, item_bytes)]
    return b"".join(((after - before) % modulus).to_bytes(item_bytes, "little") for before, after in pairwise(items))
