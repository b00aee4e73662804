"""What a weight takes in a format: payload, overheads, kept parts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_roofline.architecture import Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.formats import Format, Overhead


def made(**changes: Any) -> Format:
    """A format of 4 bits with nothing on top, changed as told."""
    values: dict[str, Any] = {"id": "test", "name": "Test", "payload_bits": 4.0, "source": "here"}
    return Format(**{**values, **changes})


@pytest.mark.parametrize(
    ("overhead", "extra_bits"),
    [
        (Overhead(bits=16, per="group", elements=128), 16 * 10 * 3),
        (Overhead(bits=32, per="row"), 32 * 10),
        (Overhead(bits=16, per="column"), 16 * 300),
        (Overhead(bits=32, per="block", elements=128), 32 * 1 * 3),
        (Overhead(bits=32, per="block", elements=4), 32 * 3 * 75),
        (Overhead(bits=32, per="run", elements=128), 32 * 24),
        (Overhead(bits=32, per="tensor"), 32),
    ],
)
def test_each_overhead_comes_as_often_as_its_scope_says(overhead: Overhead, extra_bits: float) -> None:
    """Of a matrix of 10 x 300: short groups and blocks count whole."""
    assert made(overheads=(overhead,)).tensor_bytes((10, 300)) == (10 * 300 * 4 + extra_bits) / 8


def test_leading_axes_are_rows() -> None:
    """A KV cache of tokens x heads x head_dim has a scale per token and head."""
    scaled = made(payload_bits=8.0, overheads=(Overhead(bits=16, per="row"),))
    assert scaled.tensor_bytes((7, 8, 128)) == 7 * 8 * (128 + 2)


def test_bits_per_element_are_those_of_a_wide_matrix() -> None:
    """Groups and blocks count; what comes per row, column or tensor vanishes."""
    scaled = made(
        overheads=(
            Overhead(bits=16, per="group", elements=64),
            Overhead(bits=32, per="block", elements=128),
            Overhead(bits=32, per="row"),
            Overhead(bits=32, per="column"),
            Overhead(bits=32, per="tensor"),
        )
    )
    assert scaled.bits_per_element == 4 + 16 / 64 + 32 / 128**2
    assert scaled.bytes_per_element == scaled.bits_per_element / 8


def test_vectors_and_kept_parts_are_not_quantized() -> None:
    """A norm takes `vector_bytes`, a kept head 16 bits, a part with bits of its own those."""
    mixed = made(vector_bytes=4.0, kept_parts=("head",), part_bits=(("ffn_down", 6.0),))
    norm = Weight(name="norm", part="norm", shape=(64,), use="vector", layers=(0, 1))
    head = Weight(name="head", part="head", shape=(100, 64), use="matrix")
    down = Weight(name="down", part="ffn_down", shape=(64, 32), use="matrix", layers=(0, 1, 2))
    query = Weight(name="q", part="attn_q", shape=(64, 64), use="matrix", layers=(0, 1, 2))
    assert mixed.weight_bytes(norm) == 2 * 64 * 4
    assert mixed.weight_bytes(head) == 100 * 64 * 2
    assert mixed.weight_bytes(down) == 3 * 64 * 32 * 6 / 8
    assert mixed.weight_bytes(query) == 3 * 64 * 64 / 2


def test_experts_and_their_biases() -> None:
    """Every expert is counted; a routed vector stays a vector."""
    expert = Weight(
        name="up", part="ffn_up", shape=(8, 32), use="routed", layers=(0, 1), experts=4, experts_per_token=2.0
    )
    bias = Weight(name="b", part="bias", shape=(8,), use="routed", layers=(0, 1), experts=4, experts_per_token=2.0)
    assert made().weight_bytes(expert) == 2 * 4 * 8 * 32 / 2
    assert made().weight_bytes(bias) == 2 * 4 * 8 * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bits": -1, "per": "row"}, "overhead per row: bits is -1; 0 or more is needed"),
        ({"bits": float("nan"), "per": "row"}, "overhead per row: bits is nan; 0 or more is needed"),
        ({"bits": float("inf"), "per": "row"}, "overhead per row: bits is inf; 0 or more is needed"),
        ({"bits": 16, "per": "group"}, "overhead per group: elements is missing: how many share it?"),
        ({"bits": 16, "per": "group", "elements": 0}, "overhead per group: elements is 0; a whole number from 1"),
        ({"bits": 16, "per": "block", "elements": 1.5}, "overhead per block: elements is 1.5; a whole number from 1"),
        ({"bits": 16, "per": "block", "elements": True}, "overhead per block: elements is True; a whole number"),
        ({"bits": 16, "per": "row", "elements": 4}, "overhead per row: elements is for group, block and run"),
        (
            {"bits": 16, "per": "page"},
            "overhead: per is 'page'; one of group, row, column, block, run, tensor is needed",
        ),
    ],
)
def test_a_wrong_overhead_is_refused(arguments: dict[str, Any], words: str) -> None:
    """The message names the key and what it needs."""
    with pytest.raises(RooflineUsageError) as caught:
        Overhead(**arguments)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"payload_bits": 0}, "format test: payload_bits is 0; more than 0 is needed"),
        ({"payload_bits": -4.0}, "format test: payload_bits is -4.0; more than 0 is needed"),
        ({"payload_bits": float("nan")}, "format test: payload_bits is nan; more than 0 is needed"),
        ({"payload_bits": 4096.0}, "format test: payload_bits is 4096.0; 1024 at most is needed"),
        ({"vector_bytes": 0.0}, "format test: vector_bytes is 0.0; more than 0 is needed"),
        ({"part_bits": (("head", -6.0),)}, "format test: part_bits.head is -6.0; more than 0 is needed"),
        ({"stated_bits": (8.0, 2.0)}, "format test: stated_bits is (8.0, 2.0); the least, then the most"),
        ({"for_weights": False}, "format test: for is empty; weights, kv or both are needed"),
    ],
)
def test_a_wrong_format_is_refused(changes: dict[str, Any], words: str) -> None:
    """The message names the format, the key and what it needs."""
    with pytest.raises(RooflineUsageError) as caught:
        made(**changes)
    assert str(caught.value) == words


@pytest.mark.parametrize("shape", [(), (0, 4), (4, -1)])
def test_an_empty_shape_is_refused(shape: tuple[int, ...]) -> None:
    """No axis, or an axis without elements, is no tensor."""
    with pytest.raises(RooflineUsageError) as caught:
        made().tensor_bytes(shape)
    assert str(caught.value) == f"format test: shape is {shape}; positive whole numbers are needed"
