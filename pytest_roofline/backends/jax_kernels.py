"""Access patterns and matrix products in JAX, on data that was written and that nothing can predict.

Every kernel takes its data as arguments (captured constants are folded at compile time), and whatever writes,
writes into a donated buffer: fresh ones would time the page faults of the allocator (5.5 against 26 GB/s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from pytest_roofline.device import Pattern
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Kernel

_COLUMNS = 4096
_ITEM_BYTES = 4


@partial(jax.jit, static_argnums=0)
def _random(count: int, seed: Any) -> Any:
    """float32 in [-0.5, 0.5): a hash of the index, in one pass and without a period."""
    bits = jax.lax.iota(jnp.uint32, count) * jnp.uint32(2654435761) + seed
    bits = (bits ^ (bits >> 15)) * jnp.uint32(0x2C1B3C6D)
    bits = (bits ^ (bits >> 12)) * jnp.uint32(0x297A2D39)
    bits = bits ^ (bits >> 15)
    return jax.lax.bitcast_convert_type((bits >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1.5


def random_array(device: Any, count: int, seed: int) -> Any:
    """`count` float32 values, computed on the device itself; MemoryError when they do not fit."""
    with jax.default_device(device):
        return settled(lambda: _random(count, jax.device_put(jnp.uint32(seed), device)))


def settled(make: Callable[[], Any]) -> Any:
    """The finished result of `make`, with JAX's two ways of running out of memory told as MemoryError."""
    try:
        return jax.block_until_ready(make())
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
        if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
            raise MemoryError(text.splitlines()[0]) from error
        raise


def _copy(_target: Any, source: Any) -> Any:
    return source + 1.0  # a plain copy of an array may be answered with the array itself


def _write(target: Any, value: Any) -> Any:
    return jnp.broadcast_to(value, target.shape)


def _triad(_target: Any, left: Any, right: Any, factor: Any) -> Any:
    return left + factor * right


class _IntoBuffer:
    """A launch that writes into the buffer which the launch before it wrote."""

    def __init__(self, function: Callable[..., Any], target: Any, *arguments: Any) -> None:
        # keep_unused: the old content is not read, and without it the donated buffer would not be taken over.
        self._call = jax.jit(function, donate_argnums=0, keep_unused=True)
        self._target = target
        self._arguments = arguments

    def __call__(self) -> object:
        self._target = self._call(self._target, *self._arguments)
        return self._target


def kernels(device: Any, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
    """The kernels of one pattern over float32 buffers of that total size, warm: compiled and run once."""
    items = max(int(working_set_bytes) // _ITEM_BYTES, 6)
    scalar = jax.device_put(jnp.float32(0.5), device)
    launches: list[tuple[str, int, Callable[[], object]]] = []
    if pattern == "read":
        launches = _reads(device, items)
    elif pattern == "copy":
        half = items // 2
        target, source = (random_array(device, half, seed) for seed in (1, 2))
        launches = [("jax add(x, 1)", 2 * half, _IntoBuffer(_copy, target, source))]
    elif pattern == "write":
        launches = [("jax full", items, _IntoBuffer(_write, random_array(device, items, 1), scalar))]
    elif pattern == "triad":
        third = items // 3
        target, left, right = (random_array(device, third, seed) for seed in (1, 2, 3))
        launches = [("jax a + s * b", 3 * third, _IntoBuffer(_triad, target, left, right, scalar))]
    else:
        raise RooflineUsageError(f"pattern {pattern!r} is not one of read, copy, write, triad")
    for _, _, launch in launches:
        settled(launch)
    return [
        Kernel(
            name=name,
            pattern=pattern,
            bytes_per_launch=float(moved * _ITEM_BYTES),
            working_set_bytes=float(moved * _ITEM_BYTES),
            launch=launch,
        )
        for name, moved, launch in launches
    ]


def _reads(device: Any, items: int) -> list[tuple[str, int, Callable[[], object]]]:
    columns = min(_COLUMNS, items)
    rows = items // columns
    matrix = settled(lambda: random_array(device, rows * columns, 1).reshape(rows, columns))
    vector = random_array(device, columns, 2)
    product = jax.jit(jnp.matmul)
    row_sums = jax.jit(partial(jnp.sum, axis=1))
    total = jax.jit(jnp.sum)
    read = rows * columns
    return [
        ("jax matmul(m, v)", read, lambda: product(matrix, vector)),
        ("jax sum(m, axis=1)", read, lambda: row_sums(matrix)),
        ("jax sum", read, lambda: total(matrix)),
    ]


_PRODUCTS = {
    "float32": (jnp.float32, "highest"),
    "tf32": (jnp.float32, "default"),
    "bfloat16": (jnp.bfloat16, "default"),
    "float16": (jnp.float16, "default"),
    "float64": (jnp.float64, "highest"),
    "int8": (jnp.int8, "default"),
}


def matmul(device: Any, dtype: str, size: int) -> Callable[[], object]:
    """A square product of random operands; int8 adds up in int32, `tf32` is float32 at default precision."""
    if dtype not in _PRODUCTS or (dtype == "tf32" and device.platform != "gpu"):
        known = ", ".join(name for name in _PRODUCTS if name != "tf32" or device.platform == "gpu")
        raise RooflineUsageError(f"matmul dtype {dtype!r} is not one that JAX multiplies on {device.platform}: {known}")
    if size < 1:
        raise RooflineUsageError(f"matmul size is {size}; it must be 1 or more")
    kind, precision = _PRODUCTS[dtype]
    if dtype == "float64" and not jax.config.jax_enable_x64:
        raise RooflineUsageError("matmul dtype 'float64' needs jax_enable_x64, which is off in this process")
    scale = 100 if dtype == "int8" else 1

    def operand(seed: int) -> Any:
        flat = random_array(device, size * size, seed)
        return settled(lambda: (flat * scale).astype(kind).reshape(size, size))

    left, right = operand(1), operand(2)
    accumulate = jnp.int32 if dtype == "int8" else None
    product = jax.jit(partial(jnp.matmul, precision=precision, preferred_element_type=accumulate))
    settled(lambda: product(left, right))
    return lambda: product(left, right)
