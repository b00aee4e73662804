"""Shared by the examples: one model for all of them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def llama():
    """A Llama-shaped model with random weights; skipped where torch or transformers are not installed."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from llama import Llama

    return Llama()
