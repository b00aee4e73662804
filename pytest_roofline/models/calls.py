"""One operation as PyTorch dispatched it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operation, its arguments and what it returned."""

    name: str
    """Without its overload: ``aten.mm``."""
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by the names of the schema."""
        names = [argument.name for argument in self.func._schema.arguments]
        return {**dict(zip(names, self.args, strict=False)), **self.kwargs}

    @property
    def inputs(self) -> list[torch.Tensor]:
        """Every tensor among the arguments."""
        return tensors_in((self.args, self.kwargs))

    @property
    def outputs(self) -> list[torch.Tensor]:
        """Every tensor in the result."""
        return tensors_in(self.result)

    @property
    def written(self) -> list[torch.Tensor]:
        """Arguments that the schema says are written."""
        arguments = self.arguments
        return [
            tensor
            for argument in self.func._schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
            for tensor in tensors_in(arguments.get(argument.name))
        ]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
