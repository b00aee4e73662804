"""What a step returned: every tensor in it, wherever it hides, and one element of each on the host."""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from pytest_roofline.protocol import Forced

# Enough for the caches of the deepest models (a few tensors a layer); a step that returns more is walked in
# part.
MAX_OBJECTS = 20_000
MAX_DEPTH = 16

_ID_DTYPES = frozenset({torch.int32, torch.int64})
# Integer tensors that travel along with ids under names of their own, and are no ids.
_NOT_IDS = frozenset({"attention_mask", "token_type_ids", "position_ids", "cache_position", "mask"})
_LAZY_DEVICES = frozenset({"xla", "lazy"})
_LEAVES = (
    *(str, bytes, bytearray, memoryview, int, float, complex, type(None), type, range, slice),
    # A module's namespace leads everywhere, and a function's attributes are no output.
    *(ModuleType, FunctionType, MethodType, BuiltinFunctionType),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A tensor of an output. `may_be_ids`: reached through plain containers alone, under no name of something
    else."""

    tensor: torch.Tensor
    may_be_ids: bool


class Walk:
    """Iterates over the tensors of an arbitrary object, each one once; `is_complete` tells afterwards whether
    all.

    It enters mappings, sequences, sets, dataclasses and model outputs, and the attributes of other objects (a
    transformers cache, a struct of an engine). It calls no method of theirs, consumes no iterator or
    generator, and does not enter modules (parameters are no outputs) unless `modules` is set.
    """

    def __init__(self, obj: Any, *, modules: bool = False) -> None:
        self.is_complete = True
        self._root = obj
        self._modules = modules

    def __iter__(self) -> Iterator[Found]:
        seen: dict[int, Any] = {}  # the values keep every visited object alive, so that no id is used twice
        pending: deque[tuple[Any, bool, int]] = deque([(self._root, True, 0)])
        while pending:
            obj, may_be_ids, depth = pending.popleft()
            if isinstance(obj, _LEAVES) or id(obj) in seen:
                continue
            if len(seen) >= MAX_OBJECTS or depth > MAX_DEPTH:
                self.is_complete = False
                continue
            seen[id(obj)] = obj
            if isinstance(obj, torch.Tensor):
                yield Found(obj, may_be_ids)
                continue
            for name, child, is_plain in self._children(obj):
                is_other = isinstance(name, str) and name in _NOT_IDS
                pending.append((child, may_be_ids and is_plain and not is_other, depth + 1))

    def _children(self, obj: Any) -> list[tuple[Any, Any, bool]]:
        """Name, value, and whether the object is a plain container; nothing where the object objects."""
        try:
            if isinstance(obj, torch.nn.Module):
                if not self._modules:
                    return []
                held = [*obj.parameters(), *obj.buffers()]
                return [(None, tensor, False) for tensor in held]
            if isinstance(obj, Mapping):
                return [(name, value, True) for name, value in list(obj.items())]
            if isinstance(obj, (list, tuple, set, frozenset, deque)):
                return [(None, value, True) for value in list(obj)]
            if dataclasses.is_dataclass(obj):
                names = [field.name for field in dataclasses.fields(obj)]
                return [(name, getattr(obj, name, None), True) for name in names]
            held_by_name = dict(getattr(obj, "__dict__", {}))
            for owner in type(obj).__mro__:
                slots = owner.__dict__.get("__slots__", ())
                for name in (slots,) if isinstance(slots, str) else tuple(slots):
                    held_by_name.setdefault(name, getattr(obj, name, None))
            return [(name, value, False) for name, value in held_by_name.items()]
        except Exception:  # broad: a strange object's own code runs here (items, __getattr__), and may raise anything
            self.is_complete = False
            return []


def force(output: Any) -> Forced:
    """Read one element of every tensor in `output` to the host, which waits for whatever computes it.

    `ids` counts the elements of the int32 and int64 tensors that the step itself returned: alone, or in
    lists, tuples, mappings, dataclasses and model outputs, under any name but those of masks and positions. A
    tensor of shape (batch, n) counts batch * n. Integers inside caches and other objects are not counted (a
    cache keeps positions and lengths as such). Nothing raises: what cannot be read is a note.
    """
    evaluate(output)
    walk = Walk(output)
    arrays = 0
    ids: int | None = None
    id_arrays = 0
    notes: list[str] = []
    for found in walk:
        arrays += 1
        problem = _read_one(found.tensor, depth=0)
        if problem is not None:
            if problem not in notes:
                notes.append(problem)
        elif found.may_be_ids and found.tensor.dtype in _ID_DTYPES:
            ids = (ids or 0) + found.tensor.numel()
            id_arrays += 1
    if not walk.is_complete:
        notes.append(f"the output is too large or too strange to walk through: {arrays} tensors were read")
    return Forced(arrays=arrays, ids=ids, id_arrays=id_arrays, notes=tuple(notes))


def _read_one(tensor: torch.Tensor, depth: int) -> str | None:
    """Read an element; None when it worked, else what was in the way."""
    try:
        inner = _inner_tensors(tensor)
        if inner and depth < MAX_DEPTH:
            # A wrapper's own indexing may be missing, or start a collective that other ranks do not join.
            problems = [_read_one(part, depth + 1) for part in inner]
            return next((problem for problem in problems if problem is not None), None)
        if tensor.device.type == "meta":
            return "a tensor on the meta device holds nothing to read"
        if tensor.numel() == 0:
            return None
        if _is_freed(tensor):
            return "the storage of a tensor was freed before it could be read"
        element = tensor.detach()
        if element.dim():
            # Indexed, not flattened: flattening copies the whole of a tensor that is not contiguous.
            element = element[(-1,) * element.dim()]
        element.cpu()
    except (
        Exception
    ) as error:  # broad: subclasses and dead CUDA graph pools raise whatever they like; see the docstring
        reason = (str(error).splitlines() or [""])[0]
        return f"a {type(tensor).__name__} could not be read: {type(error).__name__}: {reason:.120}"
    return None


def _inner_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that a wrapper subclass, a sparse or a nested tensor is made of; none for an ordinary
    one."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is not None:
            names, _ = flatten()
            parts = [getattr(tensor, name, None) for name in names]
            return [part for part in parts if isinstance(part, torch.Tensor)]
        if _has_no_storage(tensor):
            return [part for part in vars(tensor).values() if isinstance(part, torch.Tensor)]
    if tensor.layout is torch.sparse_coo:
        return [tensor.detach()._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        return [tensor.detach().values()]
    if tensor.is_nested:
        return list(tensor.detach().unbind())
    return []


def _has_no_storage(tensor: torch.Tensor) -> bool:
    """Whether a subclass holds no memory of its own (made by `_make_wrapper_subclass`)."""
    try:
        return bool(tensor.data_ptr() == 0)
    except (RuntimeError, NotImplementedError):
        return True


def _is_freed(tensor: torch.Tensor) -> bool:
    try:
        storage = tensor.untyped_storage()
        return bool(storage.nbytes() == 0)
    except (
        RuntimeError,
        NotImplementedError,
    ):  # lazy and functional tensors have none, and can be read all the same
        return False


def device_id(device: torch.device) -> str:
    """``cpu``, ``cuda:0``: how the package names a device."""
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"


def holds_lazy(output: Any) -> bool:
    """Whether a tensor of the output is on a device that evaluates nothing before a value is asked for."""
    return not _LAZY_DEVICES.isdisjoint(_device_kinds(output))


def _device_kinds(output: Any) -> set[str]:
    """Kinds of device that the output's tensors are on, asked past whatever a subclass makes of the question."""
    kinds = set()
    for found in Walk(output):
        with suppress(Exception), torch._C.DisableTorchFunctionSubclass():
            kinds.add(found.tensor.device.type)
    return kinds


def evaluate(output: Any) -> bool:
    """Have lazy devices evaluate what is pending and keep it: each read of an element runs the graph anew.

    False where one of them cannot be asked to: the read that follows waits for it all the same.
    """
    kinds = _device_kinds(output)
    try:
        if "lazy" in kinds:
            torch._lazy.mark_step(wait=True)  # type: ignore[no-untyped-call, attr-defined, unused-ignore]
        if "xla" in kinds:
            sys.modules["torch_xla"].sync(wait=True)
    except (RuntimeError, TypeError, AttributeError, KeyError):
        return False
    return True


def device_of(obj: Any) -> str | None:
    """Id of the device that holds most of the bytes of a model, a tensor, or anything that holds some; None
    without.

    Memory that several tensors share (tied weights, views) counts once; the meta device holds nothing.
    """
    held: dict[str, float] = {}
    counted: set[tuple[str, int]] = set()
    for found in Walk(obj, modules=True):
        tensor = found.tensor
        if tensor.device.type == "meta":
            continue
        name = device_id(tensor.device)
        try:
            storage = tensor.untyped_storage()
            key, size_bytes = (name, storage.data_ptr()), storage.nbytes()
        except (
            RuntimeError,
            NotImplementedError,
            TypeError,
        ):  # wrappers, sparse and fake tensors have no storage
            key, size_bytes = (name, id(tensor)), _logical_bytes(tensor)
        if key[1] == 0 or key not in counted:
            counted.add(key)
            held[name] = held.get(name, 0.0) + max(size_bytes, 1)
    return max(held, key=lambda name: held[name]) if held else None


def _logical_bytes(tensor: torch.Tensor) -> float:
    try:
        return float(tensor.numel() * tensor.element_size())
    except (RuntimeError, NotImplementedError):  # a lazy parameter has no size yet
        return 0
