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

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import read_config

with (Path(__file__).parent / "published_models.csv").open(newline="", encoding="utf-8") as _file:
    PUBLISHED = {row["name"]: row for row in csv.DictReader(_file)}


GLM_5: dict[str, Any] = {
    **{"model_type": "glm_moe_dsa", "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6},
    **{"num_attention_heads": 4, "intermediate_size": 112, "moe_intermediate_size": 24, "n_routed_experts": 8},
    **{"num_experts_per_tok": 2, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "v_head_dim": 12},
    **{"qk_nope_head_dim": 8, "index_topk": 7, "index_head_dim": 20, "index_n_heads": 3},
}


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


def test_sparse_attention_reads_a_selection_and_keeps_all() -> None:
    """DeepSeek V3.2 is V3 with an indexer per layer: 13.96e6 parameters, and one key of 132 bytes of every token."""
    v3 = config_of(PUBLISHED[next(name for name in PUBLISHED if "DeepSeek" in name and "V3" in name)])
    index = {"index_topk": 2048, "index_head_dim": 128, "index_n_heads": 64}
    old, new = read_config(v3), read_config({**v3, **index, "model_type": "deepseek_v32"})
    per_layer = 64 * 128 * 1536 + 128 * 7168 + 2 * 128 + 64 * 7168
    assert new.parameters - old.parameters == 61 * per_layer
    keys, latents = new.caches
    assert (keys.elements_per_token, keys.bytes_per_token(2.0), keys.selected) == (128, 132.0, None)
    assert (latents.positions(100_000), latents.kept_positions(100_000)) == (2048, 100_000)
    assert any("a step reads the latents of 2,048 tokens at most" in note for note in new.notes)


@pytest.mark.parametrize(
    ("changes", "picking"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"index_topk_freq": 2}, [0, 1, 3, 5]),
        ({"index_topk_freq": 3, "index_skip_topk_offset": 3}, [0, 1, 2, 5]),
        ({"index_topk_pattern": "FSSFSS"}, [0, 3]),
        ({"indexer_types": ["full", "shared"] * 3}, [0, 2, 4]),
    ],
)
def test_layers_may_take_what_an_earlier_one_has_picked(changes: dict[str, Any], picking: list[int]) -> None:
    """GLM-5's schedule, by frequency, by pattern, or layer by layer; only layers that pick have an indexer and keys."""
    read = read_config({**GLM_5, **changes})
    held = next(weight for weight in read.weights if weight.name.endswith("indexer.wk"))
    assert list(held.layers) == picking
    assert read.caches[0].layers == len(picking)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"indexer_types": ["full"] * 5}, "indexer_types: 'full' or 'shared' is needed for each of 6 layers"),
        ({"indexer_types": ["shared"] + ["full"] * 5}, "indexer_types: the first layer has to pick"),
        ({"index_topk_pattern": "FXFXFX"}, "indexer_types: 'full' or 'shared' is needed"),
        ({"layer_types": ["full_attention"] * 6}, "layer_types: 6 times indexed_attention is needed"),
        ({"index_topk": 0}, "index_topk: 0: a whole number from 1"),
        ({"index_topk_pattern": 7}, "index_topk_pattern: 7: a list is needed"),
        ({"q_lora_rank": None}, "q_lora_rank: missing"),
    ],
)
def test_a_broken_schedule_names_its_key(changes: dict[str, Any], problem: str) -> None:
    """Whatever layers do not say for all of them, or say of the first, is refused."""
    with pytest.raises(RooflineUsageError, match=problem):
        read_config({**GLM_5, **changes})
