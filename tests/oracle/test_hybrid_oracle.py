"""Hybrid, recurrent and wrapped models: the readers against transformers' own classes, and their caches."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import golden_families as golden  # noqa: E402
import meta_oracle as oracle  # noqa: E402
from hybrid_configs import FULL, SMALL, TOWERS, VARIED, WRAPPED, tower_config  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    DynamicCache,
    PretrainedConfig,
)

from pytest_roofline.architecture import Architecture  # noqa: E402
from pytest_roofline.readers import gemma4, hybrid, kimi_linear, linear_attention, nested, recurrent, zamba  # noqa: E402
from pytest_roofline.readers.config import read_config  # noqa: E402
from pytest_roofline.readers.text_parts import PARTS  # noqa: E402

IDLE = (
    *("model.vision_tower", "model.visual", "vision_model", "model.vision_model", "model.multi_modal_projector"),
    *("multi_modal_projector", "model.connector", "model.image_newline", "model.mm_projector"),
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """transformers warns of its own renamed arguments."""
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _config(model_type: str, values: dict[str, Any], *, small: bool = False) -> PretrainedConfig:
    return AutoConfig.for_model(model_type, **({"vocab_size": 101} if small else {}), **values)


def _agrees(architecture: Architecture, figures: oracle.Figures) -> None:
    assert architecture.parameters == figures.parameters
    assert architecture.streamed_parameters == figures.streamed


@pytest.mark.parametrize("model_type", SMALL)
def test_small_models_are_counted_exactly(model_type: str) -> None:
    """Parameters and those that one token streams, from a config that takes every branch of the family."""
    config = _config(model_type, SMALL[model_type], small=True)
    _agrees(read_config(config), oracle.measure(config))


@pytest.mark.parametrize("model_type", ["kimi_linear", "nemotron_h"])
def test_classes_that_never_tie_are_counted_as_they_build(model_type: str) -> None:
    """A head of its own, whatever the config says of ties."""
    config = _config(model_type, {**SMALL[model_type], "tie_word_embeddings": True}, small=True)
    _agrees(read_config(config), oracle.measure(config))


@pytest.mark.parametrize("model_type", FULL)
def test_full_models_are_counted_exactly(model_type: str) -> None:
    """Parameters and those that one token streams, at the sizes that people serve."""
    config = _config(model_type, FULL[model_type])
    _agrees(read_config(config), oracle.measure(config))


@pytest.mark.parametrize("model_type", WRAPPED)
def test_wrappers_are_counted_exactly(model_type: str) -> None:
    """The text model as the text model, and every parameter of tower and projector as idle."""
    _wrapped(_config(model_type, WRAPPED[model_type]))


@pytest.mark.parametrize("model_type", VARIED)
def test_varied_wrappers_are_counted_exactly(model_type: str) -> None:
    """Towers without pooling heads, other tilings, several feature layers, and a wrapper that overrules its text."""
    _wrapped(_config(model_type, VARIED[model_type]))


def _wrapped(config: PretrainedConfig) -> None:
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    figures = oracle.measure(config, model, idle=IDLE)
    architecture = read_config(config)
    _agrees(architecture, figures)
    # The class builds no layers for multi-token prediction.
    towers = architecture.idle_parameters - sum(weight.elements for weight in architecture.prediction_weights)
    assert towers == sum(p.numel() for p in model.parameters()) - figures.parameters


@pytest.mark.parametrize("model_type", [name for name in SMALL if name != "rwkv"])
def test_states_and_keys_are_what_the_cache_holds(model_type: str) -> None:
    """Per layer, the elements and the bytes of recurrent states, and of keys and values per token."""
    config = _config(model_type, SMALL[model_type], small=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    tokens = 5
    # RecurrentGemma returns no cache: it is watched through one that it is given.
    given = {"cache": DynamicCache(config=config)} if model_type == "recurrent_gemma" else {}
    with torch.no_grad():
        output = model(input_ids=torch.ones((1, tokens), dtype=torch.long), use_cache=True, **given)
    cache = given.get("cache") or _cache(output)
    architecture = read_config(config)
    assert Counter(_states(model, cache)) == Counter(
        (cache.state_elements, cache.state_bytes_per_element or 2.0)
        for cache in architecture.caches
        for _ in range(cache.layers if cache.state_elements else 0)
    )
    assert Counter(_keys(cache, tokens)) == Counter(
        cache.elements_per_token
        for cache in architecture.caches
        for _ in range(cache.layers if cache.elements_per_token else 0)
    )


def test_rwkv_keeps_two_inputs_and_three_vectors() -> None:
    """The state of RWKV-4, of which transformers holds one tensor per kind with the layers as its last axis."""
    config = _config("rwkv", SMALL["rwkv"], small=True)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    with torch.no_grad():
        state = model(input_ids=torch.ones((1, 5), dtype=torch.long), use_cache=True).state
    held = Counter[float]()
    for tensor in state:
        held[float(tensor.element_size())] += tensor.numel()
    caches = read_config(config).caches
    assert held == Counter(
        {cache.state_bytes_per_element or 2.0: cache.layers * cache.state_elements for cache in caches}
    )


@pytest.mark.parametrize(
    "model_type", ["llama4_text", "gemma3n_text", "gemma4_text", "jamba", "bamba", "qwen3_next", "zamba2"]
)
def test_windows_and_chunks_stop_growing_where_the_reader_says(model_type: str) -> None:
    """Layers whose cache is full at the window or the chunk, beside those that grow on."""
    config = _config(model_type, SMALL[model_type], small=True)
    told = [
        (cache.elements_per_token, cache.window or cache.chunk or 0)
        for cache in read_config(config).caches
        for _ in range(cache.layers if cache.elements_per_token else 0)
    ]
    assert sorted(told) == oracle.in_order(oracle.layer_caches(config))


@pytest.mark.parametrize("part", PARTS)
def test_defaults_of_text_parts_are_those_of_their_classes(part: str) -> None:
    """What a part leaves out is what its class of transformers fills in."""
    config = AutoConfig.for_model(part)
    for key, value in PARTS[part][1].items():
        found = getattr(config, key, None)
        assert found == value or (isinstance(found, list) and set(found) == {value}), key


@pytest.mark.parametrize(
    ("model_type", "defaults"),
    [
        ("mamba", recurrent.MAMBA),
        ("falcon_mamba", recurrent.MAMBA),
        ("mamba2", recurrent.MAMBA2),
        ("recurrent_gemma", recurrent.RECURRENT_GEMMA),
        ("jamba", hybrid.JAMBA),
        ("bamba", hybrid.MAMBA2_KEYS),
        ("falcon_h1", hybrid.MAMBA2_KEYS),
        ("nemotron_h", hybrid.NEMOTRON_H),
        ("zamba2", zamba.DEFAULTS),
        ("qwen3_next", linear_attention.QWEN3_NEXT),
        ("lfm2", linear_attention.LFM2),
        ("llama4_text", nested.LLAMA4),
        ("gemma3n_text", nested.GEMMA3N),
        ("gemma4_text", gemma4.DEFAULTS),
        ("kimi_linear", kimi_linear.DEFAULTS),
    ],
)
def test_defaults_are_those_of_the_classes(model_type: str, defaults: dict[str, Any]) -> None:
    """What a config leaves out is what transformers fills in."""
    written = AutoConfig.for_model(model_type).to_dict()
    # The two that the class takes apart as it reads them.
    derived = {"full_attention_interval": 4, "mamba_d_head": "auto"}
    for key, value in defaults.items():
        assert derived.get(key, written.get(key)) == value, key


@pytest.mark.parametrize("model_type", TOWERS)
def test_towers_are_filled_in_by_their_classes(model_type: str) -> None:
    """A wrapper that names no size of its tower or its text has those of the classes, on both sides."""
    config = tower_config(model_type)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(_config(model_type, config))
    total = sum(parameter.numel() for parameter in model.parameters())
    architecture = read_config({"model_type": model_type, **config})
    assert architecture.parameters + architecture.idle_parameters == total


@pytest.mark.parametrize("row", golden.WRAPPERS, ids=golden.named)
def test_golden_figures_are_those_of_transformers(row: dict[str, Any]) -> None:
    """What holds the readers of wrappers where torch is not installed."""
    config = _config(golden.named(row), {key: value for key, value in row["config"].items() if key != "model_type"})
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    figures = oracle.measure(config, model, idle=IDLE)
    assert (row["parameters"], row["streamed_parameters"]) == (figures.parameters, figures.streamed)
    assert row["idle_parameters"] == sum(p.numel() for p in model.parameters()) - figures.parameters


def test_a_part_of_a_wrapper_that_says_little_is_filled_in() -> None:
    """As files are written: the text part of Llama 4 names its type, and the rest is the class's default."""
    config = {"model_type": "llama4", "text_config": {"model_type": "llama4_text"}, "tie_word_embeddings": False}
    _agrees(read_config(config), oracle.measure(_config("llama4_text", {})))


def _states(model: torch.nn.Module, cache: Any) -> list[tuple[int, float]]:
    """(elements, bytes of one) of every recurrent state of every layer."""
    tensors: list[torch.Tensor] = []
    for layer in getattr(cache, "layers", []):
        for name in ("conv_states", "recurrent_states"):
            tensors += [state for state in (getattr(layer, name, None) or {}).values() if state is not None]
    tensors += [state for state in getattr(cache, "linear_cache", []) if len(state)]
    for module in model.modules():
        tensors += [
            state
            for name in ("conv1d_state", "recurrent_states")
            if isinstance(state := getattr(module, name, None), torch.Tensor)
        ]
    return [(state.numel(), float(state.element_size())) for state in tensors]


def _keys(cache: Any, tokens: int) -> list[int]:
    return [
        (layer.keys.numel() + layer.values.numel()) // tokens
        for layer in getattr(cache, "layers", [])
        if getattr(layer, "keys", None) is not None
    ]


def _cache(output: Any) -> Any:
    return output.get("past_key_values") or output.get("cache_params") or output.get("cache")
