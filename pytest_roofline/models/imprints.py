"""What the operations of a trace left in memory, to tell whether somebody else wrote there behind them.

An extension that fills a tensor by its address comes by no dispatch mode, and no version counter moves. Where it fills
one that a traced operation wrote before (a copy of its argument, a cleared buffer), only the content tells that the
trace has not seen all. Some bytes of each storage are kept, on its own device, and compared when it is used next.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import torch

from pytest_roofline.models.calls import Call, tensors_in
from pytest_roofline.models.ledger import Ledger

SAMPLED_BYTES = 256
"""Of each storage, at even distances: a change of fewer bytes than lie between two of them may stay unseen."""
READABLE = ("cpu", "cuda", "xpu", "mps")
"""Devices that run what is asked of them; a lazy one would evaluate the step's graph for it."""


class Imprints:
    """The imprints of one trace, by the number of the storage."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._left: dict[int, torch.Tensor] = {}
        self._changed: list[torch.Tensor] = []

    def compare(self, values: object) -> None:
        """Look whether each tensor among these is as the last traced operation left it. Waits for nothing."""
        for tensor, number in self._known(tensors_in(values)):
            left = self._left.get(number)
            found = None if left is None else _imprint_of(tensor)
            if left is not None and found is not None:
                self._changed.append((left != found).any())

    def take(self, call: Call) -> None:
        """Keep what this operation left in the storages that it made or wrote. A view is no new content."""
        read = {number for _, number in self._known(call.inputs)}
        written = list(self._known(call.written))
        made = [(tensor, number) for tensor, number in self._known(call.outputs) if number not in read]
        devices = {tensor.device for tensor in call.inputs}
        for tensor, number in (*written, *made):
            self._left.pop(number, None)
            # From another device the content may still be on its way (``non_blocking=True``).
            imprint = _imprint_of(tensor) if devices <= {tensor.device} else None
            if imprint is not None:
                self._left[number] = imprint

    def close(self) -> None:
        """Open the trace where something was not as it was left."""
        if any(map(bool, self._changed)):
            self._ledger.open("memory was written behind the last traced operation (by an extension, by its address)")

    def _known(self, tensors: Iterable[torch.Tensor]) -> Iterable[tuple[torch.Tensor, int]]:
        for tensor in tensors:
            with suppress(RuntimeError, NotImplementedError):  # layouts without a storage
                if self._ledger.storages.knows(tensor):
                    yield tensor, self._ledger.storages.of(tensor).number


def _imprint_of(tensor: torch.Tensor) -> torch.Tensor | None:
    if tensor.device.type not in READABLE or not tensor.numel() or _is_capturing(tensor.device):
        return None
    storage = tensor.untyped_storage()
    every = max(1, storage.nbytes() // SAMPLED_BYTES)
    # An odd distance meets each byte of an element in turn; an even one might see the low bytes alone.
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)[:: every | 1].clone()


def _is_capturing(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())
