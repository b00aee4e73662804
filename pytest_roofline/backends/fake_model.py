"""A language model on a fake device: a decode step as launches that read weights and a growing KV cache."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_roofline.backends.fake_array import FakeArray
from pytest_roofline.backends.fake_memory import Data, FakeBuffer
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.traffic import Traffic

if TYPE_CHECKING:
    from pytest_roofline.backends.fake_host import FakeHost

_VOCABULARY = 32_000
COPIED = "KV cache copied each step"


class FakeModel:
    """A decoder whose `step()` is one pass; give the bound method to whatever measures steps. ::

        backend = FakeBackend()
        model = FakeModel(backend, weight_bytes=2e9, kv_bytes_per_token=100e3, batch=4, context=2048)
        ids = model.step()               # an array of 4 token ids, queued, not waited for
        model.reset()                    # back to context 2048

    A step launches `layers` kernels that read the weights, in equal parts, and one that reads the KV cache of
    `batch` sequences at the present context and writes a row of it; then the context is one longer. All of
    them run at `efficiency`, the share of the device's rate that they reach. `host_s` is host work before the
    launches, as of a slow framework. With `copies_kv` the cache is concatenated anew: it is read and written
    once more each step.

    With `max_context` the cache is static and a step beyond it fails as a device-side assert does. Without it
    the cache grows as it must. `flops_per_token` defaults to one per byte of weights (2 per parameter of 2
    bytes). The ids are a fixed pseudo-random sequence in the context, the same after every `reset()`.
    """

    def __init__(
        self,
        backend: FakeHost,
        weight_bytes: float,
        *,
        kv_bytes_per_token: float = 0.0,
        batch: int = 1,
        context: int = 0,
        max_context: int | None = None,
        efficiency: float = 0.8,
        layers: int = 4,
        flops_per_token: float | None = None,
        host_s: float = 0.0,
        copies_kv: bool = False,
        data: Data = "random",
        is_opaque: bool = False,
        stream: str | None = None,
        device: int = 0,
    ) -> None:
        for name, figure in (("weight_bytes", weight_bytes), ("kv_bytes_per_token", kv_bytes_per_token)):
            if not (math.isfinite(figure) and figure >= 0):
                raise RooflineUsageError(
                    f"fake model: {name} is {figure}; it must be a finite number of bytes, 0 or more"
                )
        for name, count in (("batch", batch), ("layers", layers)):
            if count < 1:
                raise RooflineUsageError(f"fake model: {name} is {count}; it must be 1 or more")
        if context < 0 or (max_context is not None and max_context < context):
            raise RooflineUsageError(f"fake model: context is {context}; it must lie between 0 and {max_context}")
        self.weight_bytes = weight_bytes
        self.kv_bytes_per_token = kv_bytes_per_token
        self.batch = batch
        self.context = context
        self.max_context = max_context
        self.device_index = device
        self.flops_per_token = weight_bytes if flops_per_token is None else flops_per_token
        self._backend = backend
        self._start_context = context
        self._efficiency = efficiency
        self._host_s = host_s
        self._copies_kv = copies_kv
        self._is_opaque = is_opaque
        self._stream = stream
        self._weights = [
            backend.buffer(weight_bytes / layers, data=data, role="weights", name=f"layer {number}", device=device)
            for number in range(layers)
        ]
        self._kv: FakeBuffer | None = None
        self._kv_room = 0
        self._ensure_kv(context + 1 if max_context is None else max_context)

    @property
    def context_room(self) -> int | None:
        """Tokens that still fit into a static cache; None when the cache grows."""
        return None if self.max_context is None else self.max_context - self.context

    @property
    def traffic(self) -> Traffic:
        """What a step at the present context must move, as an honest declaration."""
        kv_bytes = self.kv_bytes_per_token * self.batch * self.context
        written_bytes = self.kv_bytes_per_token * self.batch
        total_bytes = self.weight_bytes + kv_bytes + written_bytes
        return Traffic(
            bytes_per_pass=total_bytes,
            least_bytes_per_pass=total_bytes,
            weight_bytes_per_pass=self.weight_bytes,
            kv_bytes_per_pass=kv_bytes,
            kv_bytes_per_token=self.kv_bytes_per_token or None,
            written_bytes_per_pass=written_bytes,
            flops_per_pass=self.flops_per_token * self.batch or None,
            dtype="bfloat16",
            batch=self.batch,
            context=self.context,
        )

    def step(self) -> FakeArray:
        """Queue one pass; the ids that it will have chosen, one per sequence."""
        if self.max_context is not None and self.context >= self.max_context:
            raise RuntimeError(
                f"fake device-side assert: the KV cache is full ({self.max_context} tokens); call reset()"
            )
        backend = self._backend
        if self._host_s:
            backend.host(self._host_s)
        self._attend()
        for weights in self._weights:
            chosen = backend.launch(
                buffer=weights,
                flops=self.flops_per_token * self.batch / len(self._weights),
                dtype="bfloat16",
                efficiency=self._efficiency,
                stream=self._stream,
                device=self.device_index,
                is_opaque=self._is_opaque,
                value=[(self.context * 7919 + row * 104729 + 17) % _VOCABULARY for row in range(self.batch)],
                size=self.batch,
                is_int=True,
            )
        self.context += 1
        return chosen

    def reset(self) -> None:
        """Start again at the context the model was made with; costs no time."""
        self.context = self._start_context

    def _attend(self) -> None:
        if not self.kv_bytes_per_token:
            return
        self._ensure_kv(self.context + 1)
        row_bytes = self.kv_bytes_per_token * self.batch
        read_bytes = row_bytes * self.context
        if self._copies_kv and read_bytes:
            self._touch_kv(read_bytes, read_bytes, extra=COPIED)
        self._touch_kv(read_bytes, row_bytes)

    def _touch_kv(self, read_bytes: float, write_bytes: float, extra: str | None = None) -> None:
        self._backend.launch(
            read_bytes=read_bytes,
            write_bytes=write_bytes,
            buffer=self._kv,
            writes=self._kv,
            efficiency=self._efficiency,
            stream=self._stream,
            device=self.device_index,
            is_opaque=self._is_opaque,
            extra=extra,
        )

    def _ensure_kv(self, tokens: int) -> None:
        """Make room for that many tokens per sequence, in steps of doubling."""
        if not self.kv_bytes_per_token or tokens <= self._kv_room:
            return
        room = tokens if self.max_context is not None else 1 << max(6, (tokens - 1).bit_length())
        if self._kv is not None:
            self._kv.free()
        self._kv = self._backend.buffer(
            self.kv_bytes_per_token * self.batch * room, role="kv", name="KV cache", device=self.device_index
        )
        self._kv_room = room
