"""Readers of every family without torch: parameters, streamed parameters, KV elements per token, to the last one."""

from __future__ import annotations

from typing import Any

import pytest
from golden_families import ATTENTION, WRAPPERS, named

from pytest_roofline.readers.config import MODULES, read_config


@pytest.mark.parametrize("row", ATTENTION, ids=named)
def test_an_attention_model_is_counted_as_transformers_counts_it(row: dict[str, Any]) -> None:
    """Its weights, the part of them that one token streams, and what its layers keep of a token."""
    architecture = read_config(row["config"])
    assert architecture.parameters == row["parameters"]
    assert architecture.streamed_parameters == pytest.approx(row["streamed_parameters"], rel=1e-12)
    assert architecture.kv_elements_per_token() == row["kv_elements_per_token"]


@pytest.mark.parametrize("row", WRAPPERS, ids=named)
def test_a_wrapper_is_counted_as_transformers_counts_it(row: dict[str, Any]) -> None:
    """Its text model as the text model, its tower and its projector as idle."""
    architecture = read_config(row["config"])
    assert architecture.parameters == row["parameters"]
    assert architecture.streamed_parameters == pytest.approx(row["streamed_parameters"], rel=1e-12)
    assert architecture.idle_parameters == row["idle_parameters"]


@pytest.mark.parametrize("module", ["dense", "gemma", "classic", "mixture", "latent", "sparse_latent"])
def test_every_family_has_its_row(module: str) -> None:
    """A family that is added to a module of attention models brings its figures (Kimi K2 is DeepSeek V3)."""
    assert set(MODULES[module]) - {named(row) for row in ATTENTION} <= {"kimi_k2"}
