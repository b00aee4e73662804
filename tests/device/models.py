"""What the device checks run: a decode of a Llama-shaped model, and a plain stream of weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from pytest_roofline.device import Device

_CONTEXT = 256
_ROOM = 512


class StaticDecode:
    """One token at a time through a transformers Llama with random weights and a static cache.

    About 4 GB of bf16 on an accelerator, 0.3 GB of float32 on the CPU. `step` appends a token and returns the
    logits; `room` steps fit before `reset`.
    """

    def __init__(self, device: Device) -> None:
        import transformers

        small = device.is_cpu
        config = transformers.LlamaConfig(
            hidden_size=768 if small else 3072,
            intermediate_size=3072 if small else 8192,
            num_hidden_layers=8 if small else 16,
            num_attention_heads=6 if small else 24,
            num_key_value_heads=2 if small else 8,
            vocab_size=4096 if small else 32768,
            max_position_embeddings=4096,
        )
        dtype = torch.float32 if small else torch.bfloat16
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device.id):
                self.model = transformers.LlamaForCausalLM(config).eval()
        finally:
            torch.set_default_dtype(before)
        self.context = 64 if small else _CONTEXT
        self.room = 64 if small else _ROOM
        self.cache = transformers.StaticCache(config=config, max_cache_len=self.context + self.room)
        takes = inspect.signature(self.model.forward).parameters
        self._keywords: dict[str, Any] = {"cache" if "cache" in takes else "past_key_values": self.cache}
        prompt = torch.randint(0, config.vocab_size, (1, self.context), device=device.id)
        self.token = torch.randint(0, config.vocab_size, (1, 1), device=device.id)
        with torch.no_grad():
            self.model(prompt, logits_to_keep=1, **self._keywords)

    def step(self) -> torch.Tensor:
        """One pass: the logits."""
        with torch.no_grad():
            logits: torch.Tensor = self.model(self.token, **self._keywords).logits
        return logits

    def reset(self) -> None:
        """Back to the end of the prompt, in place, so that a captured graph sees it."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.context)

    def captured(self) -> Callable[[], torch.Tensor]:
        """The step as a CUDA graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.reset()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self.step()
        self.reset()

        def replay() -> torch.Tensor:
            graph.replay()
            return logits

        return replay


class Streamed:
    """A pass is one product of a large matrix and a vector: long on the device, short on the host."""

    def __init__(self, device: Device) -> None:
        small = device.is_cpu
        rows, columns = (2**13, 2**13) if small else (2**18, 2**13)
        dtype = torch.float32 if small else torch.bfloat16
        self._device = device
        self.weight = torch.empty(rows, columns, dtype=dtype, device=device.id).normal_()
        self.vector = torch.empty(columns, dtype=dtype, device=device.id).normal_()
        self.result = torch.empty(rows, dtype=dtype, device=device.id)
        self.bytes_per_pass = float(self.weight.numel() * self.weight.element_size())

    def step(self) -> torch.Tensor:
        """Submit one pass."""
        return torch.mv(self.weight, self.vector, out=self.result)

    def drain(self) -> None:
        """Wait as an honest test does."""
        if not self._device.is_cpu:
            torch.accelerator.synchronize(self._device.index)
