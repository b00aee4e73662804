"""A kernel silently falls back: each layer converts two matrices to fp32 in each pass. Ends FAILED."""

from __future__ import annotations

import pytest
import torch

BUDGET = {"cpu": 0.2, "*": 0.5}


@pytest.fixture
def slow_llama(llama, monkeypatch):
    """The same model, two of whose projections have lost their bf16 kernel."""
    for layer in llama.model.model.layers:
        for projection in (layer.mlp.gate_proj, layer.mlp.down_proj):

            def upcast(hidden, weight=projection.weight):
                return torch.nn.functional.linear(hidden.float(), weight.float()).to(hidden.dtype)

            monkeypatch.setattr(projection, "forward", upcast)
    return llama


@pytest.mark.roofline(at_least=BUDGET)
def test_decode(roofline, slow_llama):
    """Misses the budget; the message names the conversions."""
    roofline.decode(slow_llama.step, model=slow_llama.model, reset=slow_llama.reset, max_time_s=30)
