"""What a weight takes in a format: payload, scales and zeros, to the byte.

A format is a payload of so many bits per element plus overheads that come once per group, row, block or tensor::

    bytes(rows x columns) = rows * columns * payload_bits / 8 + sum(overhead_bits * how often it comes) / 8

Block formats (GGML) are the special case of one overhead per `elements`. Vectors (norms, biases) are never
quantized: `vector_bytes` each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pytest_roofline.architecture import Weight
from pytest_roofline.errors import RooflineUsageError

Scope = Literal["group", "row", "block", "tensor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Bits that come on top of the payload: a scale, a zero, a minimum."""

    bits: float
    per: Scope
    """``group``: `elements` neighbours of one row (the last group may be short); ``row``: an output row;
    ``block``: a tile of `elements` rows x `elements` columns; ``tensor``: once."""
    elements: int | None = None

    def bits_of(self, shape: tuple[int, ...]) -> float:
        """For one tensor of this shape; leading axes are rows."""
        columns = shape[-1]
        rows = math.prod(shape[:-1])
        if self.per == "tensor":
            return self.bits
        if self.per == "row":
            return self.bits * rows
        if self.elements is None:
            raise RooflineUsageError(f"an overhead per {self.per} needs the number of its elements")
        if self.per == "group":
            return self.bits * rows * math.ceil(columns / self.elements)
        return self.bits * math.ceil(rows / self.elements) * math.ceil(columns / self.elements)


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
    compute_dtype: str = "bfloat16"
    """What its products run in: weight-only formats compute in 16 bits."""
    for_weights: bool = True
    for_kv: bool = False
    source: str
    sources: tuple[str, ...] = ()

    @property
    def bits_per_element(self) -> float:
        """Payload and overheads by group and block; those per row and per tensor vanish in a wide matrix."""
        total = self.payload_bits
        for overhead in self.overheads:
            if overhead.per == "group" and overhead.elements:
                total += overhead.bits / overhead.elements
            elif overhead.per == "block" and overhead.elements:
                total += overhead.bits / overhead.elements**2
        return total

    @property
    def bytes_per_element(self) -> float:
        """`bits_per_element` / 8: for figures that come without shapes, such as ``--params 70B``."""
        return self.bits_per_element / 8

    def tensor_bytes(self, shape: tuple[int, ...]) -> float:
        """One matrix of this shape, with its overheads."""
        payload = math.prod(shape) * self.payload_bits
        return (payload + sum(overhead.bits_of(shape) for overhead in self.overheads)) / 8

    def weight_bytes(self, weight: Weight) -> float:
        """All tensors of `weight`, stored in this format (a vector and a kept part at 16 bits or `vector_bytes`)."""
        if weight.use == "vector" or len(weight.shape) < 2:
            return weight.elements * self.vector_bytes
        if weight.part in self.kept_parts:
            return weight.elements * 2.0
        return self.tensor_bytes(weight.shape) * weight.count


Plan = Callable[[Weight], float]
"""Bytes that all tensors of a weight take: one format for all, a mix by layer and part, or what a file says."""
