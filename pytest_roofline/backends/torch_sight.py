"""What one pass of torch operations reads, makes and writes, by storage: no bytes are accounted for, as in a trace."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_roofline.models.belongings import is_wrapper
from pytest_roofline.models.calls import Call

WEIGHT_FLOOR_BYTES = 4096
"""Smaller operands are biases and norms, whose change may vanish in rounding."""

_ALLOCATIONS = frozenset(
    f"aten.{name}" for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty")
)
_SECOND_FACTOR = frozenset(f"aten.{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "matmul"))
"""Their second factor has its outputs in its last dimension."""
_PRODUCTS = frozenset(f"aten.{name}" for name in ("mv", "addmv", "linear", "sum", "mean", "mul", "dot", "convolution"))


class Operand:
    """A tensor from before the pass that it computed with; `dim` is the dimension of its outputs."""

    __slots__ = ("dim", "tensor")

    def __init__(self, tensor: torch.Tensor, dim: int) -> None:
        self.tensor = tensor
        self.dim = dim


class Sight(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Notes the storages of every operation. With `fill`, floating memory is filled with that when it is allocated.

    Memory that `torch.empty` hands out holds anything at all, so filling it changes nothing for a correct program.
    """

    supports_higher_order_operators = True

    def __init__(self, fill: float | None = None, *, keeps_operands: bool = False) -> None:
        super().__init__()
        self._fill = fill
        self._keeps_operands = keeps_operands
        self._operands: list[Operand] = []
        self._read: dict[int, int] = {}
        self._alive: list[Any] = []
        self.made: set[int] = set()
        self.written: set[int] = set()
        self.is_blind = False
        """Something ran whose reads are not known."""

    @property
    def read_bytes(self) -> int:
        """Bytes of the storages from before the pass that it read, whole."""
        return sum(self._read.values())

    def has_read(self, key: int) -> bool:
        """Whether the pass read this storage, which was there before it."""
        return key in self._read

    def operands(self) -> list[Operand]:
        """What the pass computed with and left as it was, in order of its use."""
        return [operand for operand in self._operands if storage_key(operand.tensor) not in self.written]

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(is_wrapper(kind) for kind in types):
            return NotImplemented  # it does its operations on the tensors inside it, and those come by here
        result = func(*args, **kwargs)
        if getattr(func, "_schema", None) is None:
            self.is_blind = True
            return result
        call = Call(name=str(func.overloadpacket), func=func, args=args, kwargs=kwargs, result=result)
        try:
            self._note(call)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, LookupError):
            self.is_blind = True  # a layout without storage, say
        return result

    def _note(self, call: Call) -> None:
        if call.name in _ALLOCATIONS:
            for tensor in call.outputs:
                self._is_made(tensor)
                if self._fill is not None:
                    _fill_blank(tensor, self._fill)
            return
        written = call.written
        self.written.update(storage_key(tensor) for tensor in written)
        given = {storage_key(tensor) for tensor in call.inputs}
        made = [tensor for tensor in call.outputs if storage_key(tensor) not in given]
        for tensor in made:
            self._is_made(tensor)
        if not made and not written and call.outputs:
            return  # a view reads nothing
        targets = {id(tensor) for tensor in written} if call.name in ("aten.copy_", "aten.fill_", "aten.zero_") else ()
        for position, tensor in enumerate(call.inputs):
            key = storage_key(tensor)
            if key in self.made or id(tensor) in targets:
                continue
            self._read[key] = tensor.untyped_storage().nbytes()
            self._note_operand(call.name, position, tensor)

    def _note_operand(self, name: str, position: int, tensor: torch.Tensor) -> None:
        if not self._keeps_operands or not tensor.is_floating_point():
            return
        if tensor.dim() < 1 or tensor.numel() * tensor.element_size() < WEIGHT_FLOOR_BYTES:
            return
        if name in _SECOND_FACTOR:
            is_second = position == (2 if "add" in name else 1)
            self._operands.append(Operand(tensor.detach(), tensor.dim() - 1 if is_second else max(0, tensor.dim() - 2)))
        elif name in _PRODUCTS:
            self._operands.append(Operand(tensor.detach(), 0))

    def _is_made(self, tensor: torch.Tensor) -> None:
        key = storage_key(tensor)
        if key not in self.made and key not in self._read:
            self.made.add(key)
            # Held until the pass is over: a key must not come back for other memory.
            self._alive.append(tensor.untyped_storage())

    def forget(self) -> None:
        """Let go of the memory that the pass made."""
        self._alive.clear()


def storage_key(tensor: torch.Tensor) -> int:
    """One storage, as long as somebody holds it; RuntimeError or NotImplementedError where there is none."""
    return int(tensor.untyped_storage()._cdata)


def eager() -> ExitStack:
    """While entered, compiled functions run as they were written, so that their operations can be seen."""
    stack = ExitStack()
    if "torch._dynamo" in sys.modules:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
    return stack


def _fill_blank(tensor: torch.Tensor, value: float) -> None:
    if not tensor.is_floating_point() or tensor.device.type == "meta" or not tensor.numel():
        return
    if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return
    with suppress(RuntimeError, NotImplementedError), torch.no_grad():
        tensor.fill_(value)
        if tensor.device.type != "cpu":
            # Whoever writes it next may do so on another stream.
            getattr(torch, tensor.device.type).synchronize(tensor.device)
