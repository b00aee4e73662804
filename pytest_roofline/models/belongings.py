"""What a step had before it ran: its model's weights, its caches and its arguments, entered in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from pytest_roofline.models.accounts import ExpertTable
from pytest_roofline.models.byte_ranges import RangeSet
from pytest_roofline.models.caches import CacheLayer, Reachable, layers_of
from pytest_roofline.models.calls import tensors_in
from pytest_roofline.models.ledger import Ledger
from pytest_roofline.models.storages import Storage, ranges_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """A cache as it was before the step."""

    cache: Any
    tokens: int | None
    batch: int | None


EXPERTS_LIMIT = 2048
"""A stack of more matrices than this is no stack of experts (a convolution, say)."""


def is_wrapper(kind: type) -> bool:
    """Whether a tensor class does its operations itself, on tensors that it holds inside."""
    dispatch = getattr(kind, "__torch_dispatch__", None)
    return dispatch is not None and dispatch is not torch.Tensor.__torch_dispatch__


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor itself, or the inner ones of a wrapper subclass."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None or not is_wrapper(type(tensor)):
        yield tensor
        return
    for name in flatten()[0]:
        yield from plain_tensors(getattr(tensor, name))


def stored(ledger: Ledger, tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, Storage]]:
    """The plain tensors of a tensor with their storages; nothing for a layout that has none (sparse, lazy)."""
    for plain in plain_tensors(tensor):
        storage = _storage_of(ledger, plain)
        if storage is not None:
            yield plain, storage


def _storage_of(ledger: Ledger, tensor: torch.Tensor) -> Storage | None:
    try:
        return ledger.storages.of(tensor)
    except (RuntimeError, NotImplementedError):
        ledger.note(f"a tensor of layout {tensor.layout} has no storage to look at and is not counted")
        return None


def register_arguments(ledger: Ledger, args: Any) -> None:
    """Mark tensors that are handed to the step."""
    for tensor in tensors_in(args):
        for _, storage in stored(ledger, tensor):
            storage.is_argument = True


def register_modules(ledger: Ledger, modules: Iterable[torch.nn.Module]) -> tuple[ExpertTable, ...]:
    """Mark parameters and buffers; where each expert's share of the expert weights lies."""
    tables: dict[tuple[Any, ...], ExpertTable] = {}
    for module in modules:
        for table in _register_module(ledger, module):
            tables[table.parts] = table
    return tuple(tables.values())


def _register_module(ledger: Ledger, module: torch.nn.Module) -> Iterator[ExpertTable]:
    lists: dict[tuple[str, str], list[tuple[int, tuple[tuple[int, int], ...]]]] = {}
    for name, parameter in module.named_parameters():
        if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
            continue
        for plain, storage in stored(ledger, parameter.detach()):
            storage.is_parameter = storage.is_model = True
            is_stack = plain.dim() >= 3 or (plain.dim() == 2 and "experts" in name)
            if is_stack and plain.shape[0] <= EXPERTS_LIMIT:
                parts = tuple((storage.number, tuple(ranges_of(part) or ())) for part in plain)
                yield ExpertTable(experts=len(parts), parts=parts)
            # Older models keep one module per expert: experts.0.w1.weight, experts.1.w1.weight ...
            prefix, _, rest = name.partition("experts.")
            index, _, suffix = rest.partition(".")
            if index.isdigit():
                lists.setdefault((prefix, suffix), []).append((storage.number, tuple(ranges_of(plain) or ())))
    for members in lists.values():
        yield ExpertTable(experts=len(members), parts=tuple(members))
    for buffer in module.buffers():
        if not isinstance(buffer, torch.nn.parameter.UninitializedTensorMixin):
            for _, storage in stored(ledger, buffer):
                storage.is_model = True


def register_caches(ledger: Ledger, found: Reachable) -> tuple[CacheState, ...]:
    """Mark the tensors of every cache, and how far each is filled before the step."""
    states: list[CacheState] = []
    for cache in found.caches:
        lengths: list[int] = []
        batches: list[int] = []
        for layer in layers_of(cache):
            lengths.append(layer.length)
            if layer.keys.dim() == 4:
                batches.append(layer.keys.shape[0])
            for tensor in (layer.keys, layer.values):
                _register_cached(ledger, layer, tensor)
        states.append(CacheState(cache=cache, tokens=max(lengths, default=None), batch=max(batches, default=None)))
    return tuple(states)


def _register_cached(ledger: Ledger, layer: CacheLayer, tensor: torch.Tensor) -> None:
    for plain, storage in stored(ledger, tensor):
        if not plain.numel():
            continue
        storage.is_cache = True
        storage.is_full_window = layer.is_full_window
        if layer.capacity is not None and plain.dim() == tensor.dim():
            storage.allowed = storage.allowed or RangeSet()
            storage.allowed.update(ranges_of(filled_part(layer, plain)) or ())


def used_caches(ledger: Ledger, states: Iterable[CacheState]) -> tuple[CacheState, ...]:
    """The caches that the step read or wrote; the search may have met those of somebody else."""
    return tuple(
        state
        for state in states
        if any(
            storage.touched or storage.written or not storage.existed
            for layer in layers_of(state.cache)
            for tensor in (layer.keys, layer.values)
            for _, storage in stored(ledger, tensor)
        )
    )


def filled_part(layer: CacheLayer, tensor: torch.Tensor) -> torch.Tensor:
    """The rows of a layer's tensor that hold tokens."""
    if layer.capacity is None or tensor.dim() < 2:
        return tensor
    return tensor[..., : min(layer.length, tensor.shape[-2]), :]
