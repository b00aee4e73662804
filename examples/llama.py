"""A Llama-shaped transformer with random weights, large enough to leave every cache, and its decode step."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

CONTEXT = 64
CACHE_ROOM = 192


class Llama:
    """A model, its static KV cache and one decode pass; about 1.2 GB of bf16 weights are read per pass."""

    def __init__(self) -> None:
        config = LlamaConfig(
            vocab_size=16_384,
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=12,
            num_attention_heads=16,
            num_key_value_heads=4,
            max_position_embeddings=CACHE_ROOM,
            attn_implementation="sdpa",
        )
        with torch.device("meta"):
            model = LlamaForCausalLM(config)
        self.model = model.to(torch.bfloat16).to_empty(device="cpu").eval()
        # Written with random numbers: a page that was never written is one page of zeros, and reads too fast. One
        # block of them, repeated at shifting places, is as good for this and a great deal quicker to make.
        block = torch.empty(1 << 22).uniform_(-0.03, 0.03, generator=torch.Generator().manual_seed(0)).bfloat16()
        with torch.no_grad():
            for weights in self.model.parameters():
                flat = weights.view(-1)
                for start in range(0, flat.numel(), block.numel()):
                    part = flat[start : start + block.numel()]
                    part.copy_(block[: part.numel()])
        rope: Any = self.model.model.rotary_emb
        rope.__init__(config)
        self.cache = StaticCache(config=config, max_cache_len=CACHE_ROOM)
        self.ids = torch.ones((1, 1), dtype=torch.long)
        with torch.inference_mode():
            self.model(torch.ones((1, CONTEXT), dtype=torch.long), cache=self.cache)
        self._generated = 0

    @torch.inference_mode()
    def step(self) -> torch.Tensor:
        """Decode one token; returns its id."""
        logits = self.model(self.ids, cache=self.cache, logits_to_keep=1).logits
        self._generated += 1
        return logits[:, -1].argmax(dim=-1, keepdim=True)

    def reset(self) -> None:
        """Bring the cache back to the prompt."""
        for layer in self.cache.layers:
            layer.crop(-self._generated)
        self._generated = 0
