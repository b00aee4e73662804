"""Bytes of a pass counted from a module's parameters alone, for want of a step to trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.traffic import COUNTED, Traffic
from pytest_roofline.units import format_bytes

ABSENT_SHARE = 0.01
"""Of all parameters: so few on the meta device move no ceiling."""


def count_module(model: Any, *, batch: int | None = None, context: int | None = None) -> Traffic:
    """Every parameter once at its stored size, an embedding that is no output table as one row per sequence.

    Not counted: the KV cache, and buffers with fewer than two dimensions. Parameters of experts and buffers
    (packed weights, but caches too) are in the expected bytes and not in the least ones, because a pass need
    not read them all. Raises RooflineUsageError for what is no module, or one without parameters that hold
    memory, or whose parameters lie on no device.
    """
    if not isinstance(model, torch.nn.Module):
        raise RooflineUsageError(
            f"the bytes of a {type(model).__name__} cannot be counted: give a torch.nn.Module, or traffic="
        )
    tables = _lookup_tables(model)
    seen: set[object] = set()
    expected = least = absent = 0.0
    sizes: dict[str, float] = {}
    for tensor, is_sure in _weights(model):
        parts = _parts(tensor)
        if tensor.device.type == "meta":
            absent += float(tensor.numel() * tensor.element_size())
        for key, size_bytes in parts:
            if key in seen:
                continue
            seen.add(key)
            if id(tensor) in tables:
                size_bytes = size_bytes / max(1, tensor.shape[0]) * (batch or 1)
            expected += size_bytes
            least += size_bytes if is_sure else 0.0
            dtype = str(tensor.dtype).removeprefix("torch.")
            sizes[dtype] = sizes.get(dtype, 0.0) + size_bytes
    if expected <= 0 and not absent:
        raise RooflineUsageError(f"a {type(model).__name__} without parameters in memory has no bytes to count")
    if absent > ABSENT_SHARE * (expected + absent):
        raise RooflineUsageError(
            f"{format_bytes(absent)} of the {format_bytes(expected + absent)} of a {type(model).__name__} are in no "
            "memory between two passes (offloaded?), so they cannot be counted; a traced pass sees them: give step="
        )
    notes = ["bytes counted from the parameters, without the KV cache: a traced step sees what it reads"]
    if least < expected:
        notes.append("experts and buffers are counted whole; the least bytes leave them out")
    return Traffic(
        bytes_per_pass=expected,
        least_bytes_per_pass=least,
        weight_bytes_per_pass=expected,
        dtype=max(sizes, key=lambda dtype: sizes[dtype]),
        batch=batch,
        context=context,
        source=COUNTED,
        notes=tuple(notes),
    )


def _weights(model: torch.nn.Module) -> Iterator[tuple[torch.Tensor, bool]]:
    """A tensor, and whether every pass surely reads it."""
    for name, parameter in model.named_parameters():
        yield parameter, "expert" not in name.lower()
    for buffer in model.buffers():
        if buffer.dim() >= 2:
            yield buffer, False


def _lookup_tables(model: torch.nn.Module) -> set[int]:
    """Embedding weights that no other kind of module multiplies by."""
    tables: set[int] = set()
    products: set[int] = set()
    for module in model.modules():
        held = tables if isinstance(module, torch.nn.Embedding) else products
        held.update(id(parameter) for parameter in module.parameters(recurse=False))
    return tables - products


def _parts(tensor: torch.Tensor) -> list[tuple[object, float]]:
    """What the tensor is stored as: an identity of the memory, and its bytes; the payload of a wrapper."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None and type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        inner = [getattr(tensor, name, None) for name in flatten()[0]]
        return [part for each in inner if isinstance(each, torch.Tensor) for part in _parts(each)]
    if tensor.device.type == "meta" or isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return []
    size_bytes = float(tensor.numel() * tensor.element_size())
    if tensor.layout is not torch.strided:
        return [(id(tensor), size_bytes)]
    return [((tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape)), size_bytes)]
