"""A 2 MB buffer read again and again comes from cache, whatever the memory can do. Ends INCONCLUSIVE."""

from __future__ import annotations

import torch


def test_read(roofline):
    """Far faster than memory, and honest: but no verdict about memory."""
    buffer = torch.rand(512 * 1024)
    result = roofline.decode(
        buffer.sum, traffic=buffer.nbytes, reset=lambda: None, passes_per_reset=10_000, max_time_s=4
    )
    assert result.fraction >= 0.6
