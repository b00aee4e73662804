"""Kernels that are launched past PyTorch's dispatcher: replayed CUDA graphs, Triton's own launches.

No dispatch mode sees what they read. A trace that did not notice them would take the memory that they fill (cleared
before, or a copy of something) for all that was moved.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from pytest_roofline.models.ledger import Ledger

_TRITON = (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction"))
"""Compiled for a device, or interpreted on the host (``TRITON_INTERPRET=1``): one of them launches in the end."""


@contextmanager
def launches_seen(ledger: Ledger) -> Iterator[None]:
    """Each of them opens the trace, by its name."""
    graph: Any = getattr(torch.cuda, "CUDAGraph", None)
    with ExitStack() as held:
        if callable(getattr(graph, "replay", None)):
            held.enter_context(_replaced(graph, "replay", _replaying(graph.replay, ledger)))
        for module, name in _TRITON:
            kind: Any = getattr(sys.modules.get(module), name, None)
            if callable(getattr(kind, "run", None)):
                held.enter_context(_replaced(kind, "run", _launching(kind.run, ledger)))
        yield


def _replaying(original: Any, ledger: Ledger) -> Any:
    def replay(self: Any) -> Any:
        ledger.open("a CUDA graph was replayed; its operations cannot be seen")
        return original(self)

    return replay


def _launching(original: Any, ledger: Ledger) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        ledger.open(f"{_name_of(self)} is a Triton kernel, whose reads are not known")
        is_paused = ledger.is_paused
        ledger.is_paused = True  # the interpreter copies whole arguments to and fro, which no kernel does
        try:
            return original(self, *args, **kwargs)
        finally:
            ledger.is_paused = is_paused

    return run


def _name_of(kernel: Any) -> str:
    function = getattr(kernel, "fn", None)
    return str(getattr(function, "__name__", None) or getattr(kernel, "__name__", None) or type(kernel).__name__)


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    is_own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
