"""What torch compiled or captured: graphs of `torch.compile`, CUDA graphs.

Nothing here imports torch or its compiler: a compiler that nobody imported has compiled nothing. One that is imported
while a log is open is noticed by the next `poll`; what it compiled before that is not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pytest_roofline.protocol import Compilation

_CAPTURE = "CUDA graph capture"


class TorchCompileLog:
    """Listens to the callbacks of TorchDynamo and to captures of `torch.cuda.CUDAGraph`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: list[Compilation] = []
        self._begun: list[tuple[str, float]] = []
        self._captures: dict[int, float] = {}
        self._undo: list[Callable[[], None]] = []
        self._is_open = True
        self._has_dynamo = False
        self._watch_captures()
        self.poll()

    def entries(self) -> Sequence[Compilation]:
        """In the order in which they ended."""
        return tuple(self._entries)

    def poll(self) -> None:
        """Register with TorchDynamo once it is there."""
        if self._has_dynamo or not self._is_open:
            return
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is None:
            return
        self._has_dynamo = True
        with suppress(AttributeError, TypeError):  # an internal of torch, which may look different in another version
            handler.register_start_callback(self._on_start)
            self._undo.append(lambda: handler.remove_start_callback(self._on_start))
            handler.register_end_callback(self._on_end)
            self._undo.append(lambda: handler.remove_end_callback(self._on_end))

    def close(self) -> None:
        """Take the callbacks out again."""
        self._is_open = False
        while self._undo:
            with suppress(ValueError, AttributeError):  # somebody cleared all callbacks meanwhile
                self._undo.pop()()

    # -- what torch calls

    def _on_start(self, arguments: Any) -> None:
        self._begun.append((_what(arguments), self._clock()))

    def _on_end(self, arguments: Any) -> None:
        if self._begun:
            what, start_s = self._begun.pop()
            self._entries.append(Compilation(what=what, start_s=start_s, end_s=self._clock()))

    def _watch_captures(self) -> None:
        owner: Any = getattr(sys.modules.get("torch.cuda.graphs"), "CUDAGraph", None)
        begin, end = (vars(owner).get(name) if owner is not None else None for name in ("capture_begin", "capture_end"))
        if begin is None or end is None:
            return
        original_begin: Any = begin
        original_end: Any = end

        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_open:
                self._captures[id(graph)] = self._clock()
            return original_begin(graph, *args, **kwargs)

        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = original_end(graph, *args, **kwargs)
            start_s = self._captures.pop(id(graph), None)
            if self._is_open and start_s is not None:
                self._entries.append(Compilation(what=_CAPTURE, start_s=start_s, end_s=self._clock()))
            return result

        for name, old, new in (("capture_begin", begin, capture_begin), ("capture_end", end, capture_end)):
            setattr(owner, name, new)
            self._undo.append(lambda name=name, old=old, new=new: _put_back(owner, name, old, new))  # type: ignore[misc]


def _put_back(owner: Any, name: str, old: Any, new: Any) -> None:
    if vars(owner).get(name) is new:
        setattr(owner, name, old)


def _what(arguments: Any) -> str:
    """``torch.compile (graph 0/1, compiled again)``: TorchDynamo numbers the frame and how often it was compiled."""
    trigger = str(getattr(getattr(arguments, "callback_trigger", None), "name", ""))
    number = str(getattr(arguments, "compile_id", "") or "")
    if trigger == "CUDAGRAPH_RECORDING":
        return _CAPTURE
    if trigger == "TRITON_AUTOTUNING":
        return "Triton autotuning"
    again = ", compiled again" if "/" in number and not number.split("/")[1].startswith("0") else ""
    return f"torch.compile (graph {number}{again})" if number else "torch.compile"
