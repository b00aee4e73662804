"""Only the weights are declared; the KV cache is three times as large. Ends FAILED, and says why."""

from __future__ import annotations

import pytest
import torch

WEIGHTS = 32 * 1024 * 1024
HEADS, CONTEXT, HEAD = 8, 49_152, 128


@pytest.mark.roofline(at_least={"cpu": 0.45, "*": 0.6})
def test_decode(roofline):
    """A long context moves more bytes than the model."""
    weights = torch.rand(WEIGHTS // 1024, 1024)
    hidden = torch.rand(1024)
    keys = torch.rand(HEADS * CONTEXT, HEAD)
    values = torch.rand(HEADS * CONTEXT, HEAD)
    query = torch.rand(HEAD)

    def step():
        keys[-HEADS:] = query  # this token's own row
        values[-HEADS:] = query
        scores = torch.mv(keys, query)
        attended = torch.mv(values.T, scores)
        return torch.mv(weights, hidden), attended

    roofline.decode(step, traffic=weights.nbytes, batch=1, context=CONTEXT)
