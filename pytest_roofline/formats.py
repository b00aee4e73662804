"""What a weight takes in a format: payload, scales and zeros, to the byte.

A format is a payload of so many bits per element plus overheads that come once per group, row, column, block or
tensor::

    bytes(rows x columns) = rows * columns * payload_bits / 8 + sum(overhead_bits * how often it comes) / 8

Block formats (GGML) are the special case of one overhead per `elements`. Vectors (norms, biases) are never
quantized: `vector_bytes` each. What is not counted: padding that an engine adds when it loads a checkpoint, and
second copies in another layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from pytest_roofline.architecture import Weight
from pytest_roofline.errors import RooflineUsageError

Scope = Literal["group", "row", "column", "block", "run", "tensor"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_MOST_BITS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Bits that come on top of the payload: a scale, a zero, a minimum."""

    bits: float
    per: Scope
    """``group``: `elements` neighbours of one row (the last group may be short); ``row``: an output row; ``column``:
    an input column; ``block``: a tile of `elements` rows x `elements` columns; ``run``: `elements` neighbours of the
    flattened tensor; ``tensor``: once."""
    elements: int | None = None

    def __post_init__(self) -> None:
        if self.per not in SCOPES:
            raise RooflineUsageError(f"overhead: per is {self.per!r}; one of {', '.join(SCOPES)} is needed")
        if not 0 <= self.bits < math.inf:
            raise RooflineUsageError(f"overhead per {self.per}: bits is {self.bits}; 0 or more is needed")
        if self.per in ("group", "block", "run"):
            if self.elements is None:
                raise RooflineUsageError(f"overhead per {self.per}: elements is missing: how many share it?")
            if isinstance(self.elements, bool) or not isinstance(self.elements, int) or self.elements < 1:
                raise RooflineUsageError(
                    f"overhead per {self.per}: elements is {self.elements!r}; a whole number from 1 is needed"
                )
        elif self.elements is not None:
            raise RooflineUsageError(f"overhead per {self.per}: elements is for group, block and run")

    def bits_of(self, shape: tuple[int, ...]) -> float:
        """For one tensor of this shape; leading axes are rows."""
        columns = shape[-1]
        rows = math.prod(shape[:-1])
        if self.per == "tensor":
            return self.bits
        if self.per == "row":
            return self.bits * rows
        if self.per == "column":
            return self.bits * columns
        width = self.elements or 1
        if self.per == "run":
            return self.bits * -(-rows * columns // width)
        if self.per == "group":
            return self.bits * rows * -(-columns // width)
        return self.bits * -(-rows // width) * -(-columns // width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How numbers are stored. `bits_per_element` is the payload with the overheads of a very wide matrix."""

    id: str
    """What a user types: ``int4-g128``, ``q4_k``, ``nf4``."""
    name: str
    aliases: tuple[str, ...] = ()
    payload_bits: float
    overheads: tuple[Overhead, ...] = ()
    vector_bytes: float = 2.0
    """Per element of what is not quantized: norms, biases (GGML keeps them in fp32)."""
    kept_parts: tuple[str, ...] = ()
    """Parts that checkpoints of this format leave in 16 bits: ``head``, ``embedding``, ``router``."""
    part_bits: tuple[tuple[str, float], ...] = ()
    """Parts with a payload of their own: (part, bits per element); the overheads are the same."""
    stated_bits: tuple[float, float] | None = None
    """Least and most bits per element that a user may state (``exl2-4.65bpw``); None where the format fixes them."""
    compute_dtype: str = "bfloat16"
    """What its products run in: weight-only formats compute in 16 bits."""
    for_weights: bool = True
    for_kv: bool = False
    source: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        figures = {"payload_bits": self.payload_bits, "vector_bytes": self.vector_bytes}
        figures.update({f"part_bits.{part}": bits for part, bits in self.part_bits})
        for key, figure in figures.items():
            if not 0 < figure <= _MOST_BITS:
                wanted = f"{_MOST_BITS} at most" if figure > _MOST_BITS else "more than 0"
                raise RooflineUsageError(f"format {self.id}: {key} is {figure}; {wanted} is needed")
        if self.stated_bits is not None and not 0 < self.stated_bits[0] <= self.stated_bits[1] <= _MOST_BITS:
            raise RooflineUsageError(f"format {self.id}: stated_bits is {self.stated_bits}; the least, then the most")
        if not (self.for_weights or self.for_kv):
            raise RooflineUsageError(f"format {self.id}: for is empty; weights, kv or both are needed")

    @property
    def bits_per_element(self) -> float:
        """Payload and overheads by group, run and block; those per row, column and tensor vanish in a wide matrix."""
        total = self.payload_bits
        for overhead in self.overheads:
            if overhead.per in ("group", "run") and overhead.elements:
                total += overhead.bits / overhead.elements
            elif overhead.per == "block" and overhead.elements:
                total += overhead.bits / overhead.elements**2
        return total

    @property
    def bytes_per_element(self) -> float:
        """`bits_per_element` / 8: for figures that come without shapes, such as ``--params 70B``."""
        return self.bits_per_element / 8

    def tensor_bytes(self, shape: tuple[int, ...], *, payload_bits: float | None = None) -> float:
        """One matrix of this shape, with its overheads; `payload_bits` in place of the format's where given.

        Leading axes count as rows: a KV cache of one layer is (..., head_dim). An empty shape, or an axis under 1, is
        a RooflineUsageError.
        """
        if not shape or min(shape) < 1:
            raise RooflineUsageError(f"format {self.id}: shape is {tuple(shape)}; positive whole numbers are needed")
        payload = math.prod(shape) * (self.payload_bits if payload_bits is None else payload_bits)
        return (payload + sum(overhead.bits_of(shape) for overhead in self.overheads)) / 8

    def weight_bytes(self, weight: Weight) -> float:
        """All tensors of `weight`, stored in this format (a vector and a kept part at 16 bits or `vector_bytes`)."""
        if weight.use == "vector" or len(weight.shape) < 2:
            return weight.elements * self.vector_bytes
        if weight.part in self.kept_parts:
            return weight.elements * 2.0
        return self.tensor_bytes(weight.shape, payload_bits=dict(self.part_bits).get(weight.part)) * weight.count


Plan = Callable[[Weight], float]
"""Bytes that all tensors of a weight take: one format for all, a mix by layer and part, or what a file says."""
