"""Multimodal wrappers: where the text model stands, what it is called, and what is idle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hybrid_reader import attempt, error_of
from test_hybrid_reader_published import GEMMA3_27B, SCOUT

from pytest_roofline.architecture import Architecture
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.wrappers import FAMILIES, WRAPPERS

QWEN2 = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
QWEN2_VL: dict[str, Any] = {"model_type": "qwen2_vl", **QWEN2, "tie_word_embeddings": False, "vision_config": {}}
LLAVA: dict[str, Any] = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "patch_size": 14},
}
MLLAMA: dict[str, Any] = {
    "model_type": "mllama",
    "text_config": {"model_type": "mllama_text_model"},
    "vision_config": {"model_type": "mllama_vision_model", "image_size": 560},
}
INTERNVL: dict[str, Any] = {"model_type": "internvl", "text_config": {"model_type": "qwen2", **QWEN2}}
KIMI: dict[str, Any] = {
    "model_type": "kimi_k25",
    "text_config": {"model_type": "deepseek_v3"},
    "vision_config": {"merge_kernel_size": [2, 2]},
}


def names(architecture: Architecture) -> set[str]:
    """Of all weights that text decoding touches."""
    return {weight.name for weight in architecture.weights if weight.use != "idle"}


def test_every_wrapper_is_a_family() -> None:
    """The table of wrappers is what the dispatch finds."""
    assert set(FAMILIES) == set(WRAPPERS)


def test_the_text_model_is_the_same_in_its_wrapper() -> None:
    """Wrapped or not: parameters, streamed parameters and caches."""
    text = read_config(SCOUT["text_config"])
    wrapped = read_config(SCOUT)
    assert wrapped.parameters == text.parameters
    assert wrapped.streamed_parameters == text.streamed_parameters
    assert wrapped.caches == text.caches
    assert (wrapped.layers, wrapped.hidden) == (text.layers, text.hidden)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (SCOUT, {"language_model.model.layers.*.self_attn.q_proj", "language_model.lm_head"}),
        (QWEN2_VL, {"model.layers.*.self_attn.q_proj", "lm_head"}),
        (LLAVA, {"language_model.model.layers.*.self_attn.q_proj", "language_model.lm_head"}),
        (
            {"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text"}},
            {"model.language_model.layers.*.self_attn.q_proj", "lm_head"},
        ),
        (
            {"model_type": "smolvlm", "text_config": {"model_type": "llama"}},
            {"model.text_model.layers.*.self_attn.q_proj", "lm_head"},
        ),
    ],
)
def test_weights_are_named_as_in_the_checkpoint(config: dict[str, Any], expected: set[str]) -> None:
    """Quantization skips modules by name, so the wrapper's prefix has to be there."""
    assert expected <= names(read_config(config))


def test_towers_and_projectors_are_idle() -> None:
    """They are in the checkpoint, and no decode step reads them; a note says so."""
    architecture = read_config(GEMMA3_27B)
    vision = [weight for weight in architecture.weights if weight.part == "vision"]
    assert vision
    assert {weight.use for weight in vision} == {"idle"}
    assert any("not read in text decoding" in note for note in architecture.notes)


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_the_text_model_is_found_under_every_name(key: str) -> None:
    """Wrappers call it differently; errors name the key that it has."""
    config = {"model_type": "internvl_chat", key: {"model_type": "qwen2", **QWEN2}}
    assert read_config(config).parameters == read_config({"model_type": "qwen2", **QWEN2}).parameters
    config[key] = {"model_type": "qwen2", **QWEN2, "hidden_size": -1}
    assert f"config: {key}.hidden_size: -1" in error_of(config)


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_dtype_and_quantization_may_stand_in_the_text_part(key: str) -> None:
    """Under whatever name a wrapper keeps it; the wrapper's own words go before."""
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    part = {"model_type": "qwen2", **QWEN2, "torch_dtype": "float16", "quantization_config": block}
    config = {"model_type": "internvl_chat", key: part}
    found = read_config(config)
    assert found.dtype == "float16"
    assert found.storage is not None
    assert found.storage.format == "fp8-block"
    assert read_config({**config, "torch_dtype": "float32"}).dtype == "float32"


def test_a_flat_config_of_an_older_file_is_read() -> None:
    """Qwen2-VL's own files have the text model's sizes beside vision_config."""
    nested = {"model_type": "qwen2_vl", "text_config": QWEN2, "vision_config": {}, "tie_word_embeddings": False}
    assert read_config(QWEN2_VL).weights == read_config(nested).weights


def test_a_flat_config_states_its_sizes() -> None:
    """What may be left out of a part may not be left out of a whole config."""
    config = {key: value for key, value in QWEN2_VL.items() if key != "num_hidden_layers"}
    assert "config: num_hidden_layers: missing" in error_of(config)


@pytest.mark.parametrize(
    ("outer", "inner", "tied"),
    [
        ({}, {}, False),
        ({}, {"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": True}, {}, True),
        ({"tie_word_embeddings": False}, {"tie_word_embeddings": True}, False),
    ],
)
def test_the_wrapper_says_whether_the_table_is_tied(outer: dict[str, Any], inner: dict[str, Any], tied: bool) -> None:
    """The wrapper's word goes before the text model's, and its family's default comes last."""
    config = {**LLAVA, **outer, "text_config": {**LLAVA["text_config"], **inner}}
    assert ("language_model.lm_head" not in names(read_config(config))) == tied


def test_cross_attention_keeps_one_image_whatever_the_context() -> None:
    """Llama 3.2 Vision: 4 tiles of 40 x 40 patches and a class token in 8 of 40 layers."""
    caches = {cache.name: cache for cache in read_config(MLLAMA).caches}
    cross = caches["cross-attention"]
    assert (caches["attention"].layers, cross.layers) == (32, 8)
    assert cross.positions(1) == cross.positions(100_000) == 4 * (40 * 40 + 1)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}, "vision_config": {}},
        {"model_type": "llava", "text_config": {"model_type": "llama"}},
        {"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config": {"model_type": "eyes"}},
    ],
)
def test_a_tower_that_cannot_be_counted_is_left_out_and_said(config: dict[str, Any]) -> None:
    """No guess: nothing idle, and a note."""
    architecture = read_config(config)
    assert architecture.idle_parameters == 0
    assert any("left out" in note for note in architecture.notes)


def test_a_wrapper_in_itself_a_hundred_times_is_refused_at_once() -> None:
    """Nesting ends at the first wrapper inside a wrapper, however deep it goes on."""
    config: dict[str, Any] = {"model_type": "llava", "hidden_size": 1}
    for _ in range(100):
        config = {"model_type": "llava", "text_config": config}
    assert "config: text_config.model_type: 'llava': a wrapper inside a wrapper" in error_of(config)


def test_a_wrapper_that_holds_itself_is_refused() -> None:
    """A cycle, as YAML or a Python object can have it."""
    config: dict[str, Any] = {"model_type": "gemma3"}
    config["text_config"] = config
    assert "a wrapper inside a wrapper" in error_of(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "llava"}, "text_config: missing: it describes the text model"),
        ({"model_type": "llava", "text_config": 5}, "text_config: 5: a mapping is needed"),
        ({"model_type": "llava", "text_config": {"model_type": "abacus"}}, "text_config.model_type: 'abacus'"),
        (LLAVA | {"vision_config": [1]}, "vision_config: a list of 1: a mapping is needed"),
        (LLAVA | {"vision_feature_layer": []}, "vision_feature_layer: empty: at least one layer is needed"),
        (
            LLAVA | {"vision_config": {**LLAVA["vision_config"], "patch_size": 400}},
            "vision_config.patch_size: 400: larger than the image, 336",
        ),
        (
            LLAVA | {"vision_config": {**LLAVA["vision_config"], "image_size": [336, 224]}},
            "vision_config.image_size: a list of 2: two equal sides are needed",
        ),
        (
            LLAVA | {"vision_config": {**LLAVA["vision_config"], "num_hidden_layers": -3}},
            "vision_config.num_hidden_layers: -3: a whole number from 1 to 2**40 is needed",
        ),
        (INTERNVL | {"vision_config": {}, "downsample_ratio": 0}, "downsample_ratio: 0: a number above 0"),
        (
            KIMI | {"vision_config": {"merge_kernel_size": [2]}},
            "vision_config.merge_kernel_size: a list of 1: two whole numbers",
        ),
        ({**MLLAMA, "vision_config": None}, "vision_config: missing: it says how many positions an image takes"),
        (
            {**MLLAMA, "tie_word_embeddings": True},
            "text_config.tie_word_embeddings: true: its table has eight rows more",
        ),
        (
            {**MLLAMA, "text_config": {"model_type": "mllama_text_model", "cross_attention_layers": [40]}},
            "text_config.cross_attention_layers[0]: 40: a layer from 0 to 39 is needed",
        ),
    ],
)
def test_a_bad_wrapper_names_the_key_and_what_is_wrong(config: dict[str, Any], expected: str) -> None:
    """Errors inside a part carry its path."""
    assert f"config: {expected}" in error_of(config)


def test_a_cross_attending_model_without_its_wrapper_is_refused() -> None:
    """Its text model alone does not say how many positions an image takes."""
    config = {"model_type": "mllama_text_model", **QWEN2, "cross_attention_layers": [3]}
    assert "config: cross_attention_tokens: missing" in error_of(config)


@settings(max_examples=60, deadline=None)
@given(
    config=st.sampled_from(
        [GEMMA3_27B, LLAVA, MLLAMA, KIMI, QWEN2_VL, INTERNVL | {"vision_config": {"hidden_size": 8}}]
    ),
    part=st.sampled_from(["text_config", "vision_config", None]),
    data=st.data(),
    value=st.sampled_from([-1, 0, 2**63, 1.5, "8", True, [], {}, None, float("nan"), [0, 0], [[]]]),
)
def test_any_value_at_any_key_is_read_or_named(
    config: dict[str, Any], part: str | None, data: st.DataObject, value: Any
) -> None:
    """Nonsense in a wrapper or in a part of it is refused by its name, or it does not matter."""
    inside = config if part is None or part not in config else config[part]
    key = data.draw(st.sampled_from(sorted([*inside, "hidden_size", "patch_size", "num_hidden_layers"])))
    changed = {**inside, key: value}
    said, architecture = attempt(changed if part is None or part not in config else {**config, part: changed})
    assert said.startswith("config: ") if architecture is None else architecture.streamed_parameters > 0
