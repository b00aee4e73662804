"""Whose memory a tensor is in, and may it be overwritten? And two sets of tensors held against each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pytest_roofline.backends.torch_outputs import Walk
from pytest_roofline.backends.torch_sight import storage_key
from pytest_roofline.models.belongings import plain_tensors
from pytest_roofline.models.caches import reach
from pytest_roofline.witness import PairFigures, Rerun

HELD_HERE = 2
"""Uses of a storage whose only holders are the operand that was noted and the question after the number."""
_NO_STORAGE = (RuntimeError, NotImplementedError, TypeError)


def plain(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Tensors with memory of their own: wrappers are replaced by what they hold."""
    for tensor in tensors:
        try:
            parts = list(plain_tensors(tensor))
        except Exception:  # broad: the subclass's own code runs here
            continue
        for part in parts:
            if part.layout is torch.strided and part.device.type != "meta" and part.numel():
                yield part


def compared(output: Any) -> Iterator[torch.Tensor]:
    """What is compared of an output: not what is inside caches and other objects, which is state."""
    return plain(found.tensor for found in Walk(output) if found.may_be_ids)


def floating(output: Any) -> list[torch.Tensor]:
    """Tensors of floating numbers in an output, also those inside caches and other objects."""
    found = plain(found.tensor for found in Walk(output))
    return [tensor for tensor in found if tensor.is_floating_point() and key_of(tensor) is not None]


def integers(output: Any) -> list[torch.Tensor]:
    """The others."""
    found = plain(found.tensor for found in Walk(output))
    return [tensor for tensor in found if not tensor.is_floating_point() and key_of(tensor) is not None]


def key_of(tensor: torch.Tensor) -> int | None:
    """Its storage, as long as somebody holds it; None where it has none."""
    try:
        return storage_key(tensor)
    except _NO_STORAGE:
        return None


def keys_of(tensors: Iterable[torch.Tensor]) -> set[int]:
    """The storages of some tensors."""
    return {key for key in map(key_of, tensors) if key is not None}


def is_torchs(tensor: torch.Tensor) -> bool:
    """Whether torch allocated this memory, for this process alone: all else may be mapped, shared or read-only."""
    try:
        storage = tensor.untyped_storage()
        is_shared = tensor.device.type == "cpu" and tensor.is_shared()
        return bool(storage.resizable()) and not is_shared and not storage.filename
    except _NO_STORAGE:
        return False


def uses_of(tensor: torch.Tensor) -> int:
    """How many hold its storage, this question included."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return HELD_HERE + 1 if count is None else int(count(storage_key(tensor)))


def is_overwritable(tensor: torch.Tensor) -> bool:
    """Whether a pass may be run on other values of it: torch allocated it, and it is no parameter."""
    is_parameter = isinstance(tensor, torch.nn.Parameter) or (tensor.requires_grad and tensor.is_leaf)
    return not is_parameter and type(tensor) is torch.Tensor and is_torchs(tensor)


def belongings(rerun: Rerun) -> set[int]:
    """Storages of parameters, buffers and arguments."""
    found = reach(rerun.step, rerun.args, rerun.model)
    roots = (rerun.args, [rerun.model, *found.modules])
    return keys_of(plain(found.tensor for root in roots for found in Walk(root, modules=True)))


@contextmanager
def writable(tensor: torch.Tensor) -> Iterator[None]:
    """In which it may be written in place: inference tensors only in inference mode."""
    with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
        yield


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """Each element once: an expanded tensor shows some of them many times."""
    flat = tensor.data
    for dim, (size, stride) in enumerate(zip(flat.shape, flat.stride(), strict=True)):
        if stride == 0 and size > 1:
            flat = flat.narrow(dim, 0, 1)
    return flat


@contextmanager
def filled(leaf: torch.Tensor, value: float) -> Iterator[None]:
    """While it lasts every element is this value; then what it was."""
    part = distinct(leaf)
    saved = part.clone()
    try:
        with writable(leaf):
            part.fill_(value)
        yield
    finally:
        with writable(leaf):
            part.copy_(saved)


def holds(leaf: torch.Tensor, value: float) -> bool:
    """Whether every element is this value, as its dtype rounds it."""
    if not leaf.numel():
        return True
    wide = torch.float64 if leaf.dtype == torch.float64 else torch.float32
    rounded = torch.full((), value, dtype=leaf.dtype, device=leaf.device).to(wide)
    for part in (leaf.detach()[(-1,) * leaf.dim()], leaf.detach()):  # one element settles it most of the time
        part = part.to(wide)
        if not bool((part.isnan() if math.isnan(value) else part == rounded).all()):
            return False
    return True


def figures_of(left: torch.Tensor, right: torch.Tensor) -> PairFigures:
    """The figures of a pair; in double precision on the host."""
    one, other = left.detach().cpu().double().reshape(-1), right.detach().cpu().double().reshape(-1)
    finite = one.isfinite() & other.isfinite()
    same_stray = torch.equal(one[~finite].nan_to_num(nan=1.0), other[~finite].nan_to_num(nan=1.0))
    is_identical = same_stray and torch.equal(one[finite], other[finite])
    errors, sizes = (one - other)[finite].abs(), other[finite]
    last = right.shape[-1] if right.dim() else 1
    is_choice_same = last <= 1 or torch.equal(one.reshape(-1, last).argmax(-1), other.reshape(-1, last).argmax(-1))
    return PairFigures(
        elements=one.numel(),
        is_identical=is_identical,
        is_constant=bool((other.nan_to_num(nan=1.0) == other[:1].nan_to_num(nan=1.0)).all()),
        error_squares=float(errors.square().sum()),
        squares=float(sizes.square().sum()),
        largest_error=float(errors.max()) if errors.numel() else 0.0,
        has_stray_infinity=not same_stray,
        is_choice_same=is_choice_same,
    )


def coarsest(tensors: Sequence[torch.Tensor]) -> tuple[float, str]:
    """The largest machine epsilon among some floating tensors, and the dtype that has it."""
    if not tensors:
        return 0.0, ""
    coarsest = max(tensors, key=lambda tensor: torch.finfo(tensor.dtype).eps)
    name = str(coarsest.dtype).removeprefix("torch.")
    epsilon = float(torch.finfo(coarsest.dtype).eps)
    if coarsest.dtype == torch.float32 and coarsest.is_cuda and torch.backends.cuda.matmul.allow_tf32:
        return 2.0**-10, "tf32"
    return epsilon, name
