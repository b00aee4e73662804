"""The whole generate() of transformers: its decode passes against the memory, its prefill apart."""

from __future__ import annotations

import pytest

BUDGET = {"cpu": 0.05, "*": 0.4}
PROMPT, NEW_TOKENS = 16, 6


@pytest.mark.roofline(at_least=BUDGET)
def test_generate(roofline, llama):
    """Five decode passes a run; the prefill is in the time to the first token, and in no fraction."""
    import torch

    ids = torch.randint(3, llama.model.config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(0))
    result = roofline.generate(
        llama.model, ids, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, cache_implementation="static"
    )
    print(
        f"{result.fraction:.0%} of the ceiling, {result.tokens_per_s:.1f} tok/s, "
        f"first token after {1000 * result.ttft_s:.0f} ms"
    )
