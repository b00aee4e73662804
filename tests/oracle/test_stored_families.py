"""Checkpoints that transformers writes: its own file of weights agrees with the reader of its own config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hybrid_configs import SMALL  # noqa: E402
from test_config_oracle import LATENTS, configured  # noqa: E402

from pytest_roofline.architecture import Architecture, CacheLayers  # noqa: E402
from pytest_roofline.readers.checkpoint import read_model  # noqa: E402
from pytest_roofline.readers.config import read_config  # noqa: E402

BUFFERS = 0.01
"""Of all parameters: corrections of routers, slopes of decays, which files hold and counts of parameters leave out."""
SPARSE = [case for case in LATENTS if case[0] in ("deepseek_v32", "glm_moe_dsa")]


def cases() -> Iterator[Any]:
    """Every hybrid and recurrent family, and latent attention with indexers."""
    for name, values in SMALL.items():
        yield pytest.param(name, {"vocab_size": 101, **values}, id=name)
    for number, (name, values) in enumerate(SPARSE):
        yield pytest.param(name, values, id=f"{name}-{number}")


def kept(read: Architecture) -> list[CacheLayers]:
    """What its layers keep."""
    return [cache for cache in read.caches if cache.layers]


@pytest.mark.parametrize(("name", "values"), list(cases()))
def test_a_saved_checkpoint_reads_as_its_config(tmp_path: Path, name: str, values: dict[str, Any]) -> None:
    """No layer is missed and none is strange; the bytes of the file are counted, and the caches are the same."""
    config = transformers.AutoConfig.for_model(name, **values) if name in SMALL else configured((name, values))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    stored, described = read_model(tmp_path), read_config(config)
    assert 0 <= stored.parameters - described.parameters <= BUFFERS * described.parameters
    assert 0 <= stored.streamed_parameters - described.streamed_parameters <= BUFFERS * described.parameters
    assert kept(stored) == kept(described)
    header = tmp_path / "model.safetensors"
    data = header.stat().st_size - 8 - int.from_bytes(header.read_bytes()[:8], "little")
    assert 0 <= data - sum(weight.stored_bytes or 0 for weight in stored.weights) <= BUFFERS * data
