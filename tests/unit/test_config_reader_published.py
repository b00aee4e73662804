"""Models as their publishers describe them: parameters, streamed parameters and KV cache, to the last digit.

The sizes in published_models.csv are those of each publisher's config.json. DeepSeek V3 agrees with its
README_WEIGHTS.md (671B, 36.7B active), GPT-OSS with its card (20.9B and 3.6B, 116.8B and 5.1B).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.readers.config import read_config

with (Path(__file__).parent / "published_models.csv").open(newline="", encoding="utf-8") as _file:
    PUBLISHED = {row["name"]: row for row in csv.DictReader(_file)}


def config_of(row: dict[str, str]) -> dict[str, Any]:
    """The config.json of a row, without the keys that bytes do not depend on."""
    figures = ("name", "model_type", "others", "parameters", "streamed_parameters", "kv_bytes_per_token_16bit")
    sizes = {key: json.loads(value) for key, value in row.items() if key not in figures}
    return {"model_type": row["model_type"], **sizes, **json.loads(row["others"])}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_comes_out_to_the_last_parameter(name: str) -> None:
    """Total, streamed per token and KV bytes per token of a model that people serve."""
    row = PUBLISHED[name]
    architecture = read_config(config_of(row), name=name)
    assert architecture.name == name
    assert architecture.parameters == int(row["parameters"])
    assert round(architecture.streamed_parameters) == int(row["streamed_parameters"])
    assert architecture.kv_elements_per_token() * 2 == int(row["kv_bytes_per_token_16bit"])


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("gpt-oss-120b", {128: 18, None: 18}),
        ("Gemma 3 27B (text tower)", {1024: 52, None: 10}),
        ("Gemma 2 9B", {4096: 21, None: 21}),
        ("Phi-3-mini 4k", {2047: 32}),
        ("Llama 3 8B / 3.1 8B", {None: 32}),
        ("Qwen2.5 72B", {None: 80}),
    ],
)
def test_windows_of_a_published_model(name: str, windows: dict[int | None, int]) -> None:
    """How many layers slide over how many tokens."""
    architecture = read_config(config_of(PUBLISHED[name]))
    assert {cache.window: cache.layers for cache in architecture.caches} == windows


def test_latent_attention_says_what_other_engines_would_cache() -> None:
    """DeepSeek V3 keeps 576 elements; its 128 unfolded heads are 71 times as many, and a note says so."""
    name = next(name for name in PUBLISHED if "DeepSeek" in name and "V3" in name)
    architecture = read_config(config_of(PUBLISHED[name]))
    assert architecture.caches[0].elements_per_token == 576
    assert architecture.caches[0].flops_per_position == 2 * 128 * (128 + 64 + 128)
    assert any("caches 40,960 (71x)" in note for note in architecture.notes)
