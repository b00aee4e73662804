"""What a step left behind: its outputs, the state that it grew, and whether the trace accounts for them."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from pytest_roofline.models.belongings import CacheState, filled_part, plain_tensors, stored
from pytest_roofline.models.byte_ranges import RangeSet
from pytest_roofline.models.caches import layers_of
from pytest_roofline.models.ledger import Ledger
from pytest_roofline.models.lineage import row_dims, rows_of
from pytest_roofline.models.storages import FRESH, Storage, ranges_of

DEPTH_LIMIT = 6
NOWHERE = "meta"
"""Offloaded modules put their parameters there between two passes."""


def returned_tensors(value: Any, depth: int = DEPTH_LIMIT) -> list[torch.Tensor]:
    """Tensors in what a step returned: containers, mappings and dataclasses, but not the inside of a cache."""
    if isinstance(value, torch.Tensor):
        return list(plain_tensors(value))
    if depth == 0:
        return []
    children: Sequence[Any] = ()
    if isinstance(value, Mapping):
        children = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        children = list(value)
    elif is_dataclass(value) and not isinstance(value, type):
        children = [getattr(value, item.name, None) for item in fields(value)]
    elif isinstance(value, types.SimpleNamespace):
        children = list(vars(value).values())
    return [tensor for child in children for tensor in returned_tensors(child, depth - 1)]


def close(ledger: Ledger, outputs: Any) -> int:
    """Judge whether the trace accounts for what was returned; the bytes of outputs that the step made."""
    made: dict[int, RangeSet] = {}
    has_product = False
    for tensor in returned_tensors(outputs):
        try:
            is_known = ledger.storages.knows(tensor)
            storage = ledger.storages.of(tensor)
        except (RuntimeError, NotImplementedError):
            ledger.open("a returned tensor has no storage to look at")
            continue
        if not tensor.numel():
            continue
        if storage.existed and not (is_known and storage.is_written):
            if not (storage.is_argument or storage.is_model):
                ledger.open("a returned tensor was there before the step and nothing traced wrote it")
            continue
        if storage.is_blank or not storage.is_written:
            ledger.open("a returned tensor was written by nothing that was traced")
        elif not (storage.is_fed if storage.existed else storage.reaches_memory):
            ledger.open("a returned tensor was made from constants alone as far as the trace can see")
        else:
            has_product = True
        if not storage.existed:
            ledger.need(tensor)
            if not any(grown is storage for grown, _ in ledger.grown):
                made.setdefault(storage.number, RangeSet()).update(ranges_of(tensor) or ())
    if not has_product and not any(storage.existed and storage.is_fed for storage in ledger.storages):
        ledger.open("the step returned no tensor and changed none that was there before")
    return sum(ranges.total_bytes for ranges in made.values())


def outliving_bytes(ledger: Ledger, states: Iterable[CacheState]) -> int:
    """New rows of state that the step made anew and that is still held: a cache that grows by concatenation."""
    counted: dict[int, int] = {}
    for grown, fresh_bytes in ledger.grown:
        if grown.is_alive:
            counted[grown.number] = fresh_bytes
    for layer in (layer for state in states for layer in layers_of(state.cache)):
        for tensor in (layer.keys, layer.values):
            for plain, storage in stored(ledger, tensor):
                if not storage.existed and storage.number not in counted:
                    counted[storage.number] = _fresh_bytes(ledger, filled_part(layer, plain))
    return sum(counted.values())


def _fresh_bytes(ledger: Ledger, tensor: torch.Tensor) -> int:
    for dim in row_dims(tensor):
        rows = rows_of(ledger.storages, tensor, dim)
        if rows is not None:
            return int((rows.codes == FRESH).sum()) * rows.row_bytes
    return 0


def touched_devices(ledger: Ledger) -> tuple[str, ...]:
    """Devices whose memory the step used, the one with most bytes first; what it made counts where it was made.

    So a device that weights are sent to comes before the memory that they are sent from.
    """
    sizes: dict[str, int] = {}
    for storage in ledger.storages:
        if storage.device != NOWHERE:
            sizes[storage.device] = sizes.get(storage.device, 0) + _moved_bytes(storage)
    return tuple(sorted(sizes, key=lambda name: -sizes[name]))


def needed_bytes_by_device(ledger: Ledger) -> tuple[tuple[str, float], ...]:
    """Where what the step had to read lay before it, the device with most bytes first; arguments left out."""
    sizes: dict[str, float] = {}
    for storage in ledger.storages:
        if storage.existed and not storage.is_argument and storage.needed and storage.device != NOWHERE:
            sizes[storage.device] = sizes.get(storage.device, 0.0) + storage.needed.total_bytes
    return tuple(sorted(sizes.items(), key=lambda item: -item[1]))


def _moved_bytes(storage: Storage) -> int:
    if not storage.existed:
        return storage.nbytes if storage.is_written else 0
    return storage.needed.total_bytes + storage.written.total_bytes
