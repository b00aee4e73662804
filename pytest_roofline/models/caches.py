"""KV caches that a step can reach: found by their shape, without importing whoever defines them.

The search looks where a step can hold a cache: its arguments, closure, bound object, partial arguments and the
globals that its code names. It is bounded, and reads instance dictionaries only, so that no property runs.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

OBJECTS_LIMIT = 4000
DEPTH_LIMIT = 6
CHILDREN_LIMIT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayer:
    """One layer of a cache as it is now; holds its tensors, so keep it no longer than needed."""

    keys: torch.Tensor
    values: torch.Tensor
    length: int
    """Tokens seen, which a sliding window may have dropped since."""
    capacity: int | None
    """Tokens that a static buffer holds; None for a cache that grows."""
    is_sliding: bool

    @property
    def rows(self) -> int:
        """Tokens that the buffers have room for."""
        return int(self.keys.shape[-2])

    @property
    def is_full_window(self) -> bool:
        """Whether a sliding window has stopped growing."""
        return self.is_sliding and (self.length >= self.rows if self.capacity is not None else self.length > self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """What the search met on its way."""

    caches: tuple[Any, ...]
    modules: tuple[torch.nn.Module, ...]
    is_compiled: bool
    """Whether something compiled by torch.compile was among it."""


def reach(*roots: Any) -> Reachable:
    """Search from the roots, breadth first, up to a bounded number of objects."""
    queue: deque[tuple[Any, int]] = deque((root, 0) for root in roots)
    seen: set[int] = set()
    kept: list[Any] = []  # ids stay unique only while the objects live
    caches: list[Any] = []
    modules: list[torch.nn.Module] = []
    is_compiled = False
    while queue and len(seen) < OBJECTS_LIMIT:
        item, depth = queue.popleft()
        if id(item) in seen or isinstance(item, (torch.Tensor, str, bytes, int, float, type, types.ModuleType)):
            continue
        seen.add(id(item))
        kept.append(item)
        fields = _fields(item)
        if "_torchdynamo_orig_callable" in fields or fields.get("_compiled_call_impl") is not None:
            is_compiled = True
        if _is_cache(fields):
            caches.append(item)
            continue
        if isinstance(item, torch.nn.Module):
            modules.append(item)
        if depth < DEPTH_LIMIT:
            queue.extend((child, depth + 1) for child in _children(item, fields))
    return Reachable(caches=tuple(caches), modules=tuple(modules), is_compiled=is_compiled)


def layers_of(cache: Any) -> Iterator[CacheLayer]:
    """The layers of a cache that hold tensors now."""
    for layer in vars(cache)["layers"]:
        fields = _fields(layer)
        keys, values = fields.get("keys"), fields.get("values")
        if not isinstance(keys, torch.Tensor) or not isinstance(values, torch.Tensor) or keys.dim() < 2:
            continue
        if not callable(getattr(type(layer), "get_seq_length", None)):
            continue
        capacity = fields.get("max_cache_len")
        yield CacheLayer(
            keys=keys,
            values=values,
            length=int(layer.get_seq_length()),
            capacity=capacity if isinstance(capacity, int) else None,
            is_sliding=bool(getattr(layer, "is_sliding", False)),
        )


def room_of(caches: Iterable[Any]) -> int | None:
    """Tokens that still fit into the fullest static cache; None where every cache grows or slides."""
    rooms = (
        max(0, layer.capacity - layer.length)
        for cache in caches
        for layer in layers_of(cache)
        if layer.capacity is not None and not layer.is_sliding
    )
    return min(rooms, default=None)


def _is_cache(fields: dict[str, Any]) -> bool:
    layers = fields.get("layers")
    return isinstance(layers, list) and any(
        callable(getattr(type(layer), "get_seq_length", None)) for layer in layers[:CHILDREN_LIMIT]
    )


def _fields(item: Any) -> dict[str, Any]:
    fields = getattr(item, "__dict__", None)
    return fields if isinstance(fields, dict) else {}


def _children(item: Any, fields: dict[str, Any]) -> Iterator[Any]:
    if isinstance(item, dict):
        yield from list(item.values())[:CHILDREN_LIMIT]
    elif isinstance(item, (list, tuple, set, frozenset, deque)):
        yield from list(item)[:CHILDREN_LIMIT]
    elif isinstance(item, functools.partial):
        yield from (item.func, item.args, item.keywords)
    elif isinstance(item, types.MethodType):
        yield from (item.__self__, item.__func__)
    elif isinstance(item, types.FunctionType):
        yield from _named_by(item)
        yield from fields.values()
    elif isinstance(item, torch.nn.Module):
        hidden = ("_parameters", "_buffers")
        yield from [value for name, value in fields.items() if name not in hidden and not name.endswith("_hooks")]
    else:
        yield from list(fields.values())[:CHILDREN_LIMIT]


def _named_by(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a name that is not bound yet
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
