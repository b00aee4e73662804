"""A kernel silently falls back: every weight is converted to fp32 in each pass. Ends FAILED."""

from __future__ import annotations

import pytest
import torch

BUDGET = {"cpu": 0.15, "*": 0.5}


@pytest.fixture
def slow_llama(llama, monkeypatch):
    """The same model, with a linear layer that has lost its bf16 kernel."""

    def upcast(self, hidden):
        return torch.nn.functional.linear(hidden.float(), self.weight.float()).to(hidden.dtype)

    monkeypatch.setattr(torch.nn.Linear, "forward", upcast)
    return llama


@pytest.mark.roofline(at_least=BUDGET)
def test_decode(roofline, slow_llama):
    """Misses the budget; the message names the conversions."""
    roofline.decode(slow_llama.step, model=slow_llama.model, reset=slow_llama.reset)
