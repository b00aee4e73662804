"""A copy of n bytes reads n and writes n; counting n makes it look half as good as it is. Ends FAILED, and says why."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.roofline(at_least={"cpu": 0.9, "*": 0.7})
def test_copy(roofline):
    """`bytes_written` was forgotten."""
    source = torch.rand(64 * 1024 * 1024)
    target = torch.rand_like(source)
    roofline.kernel(lambda: target.copy_(source), bytes_read=source.nbytes)
