"""The oracle of the config readers: transformers' own classes on the meta device, counted without any reader's help."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from pytest_roofline.architecture import Architecture

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "moe_k", "moe_topk", "moe_top_k", "num_experts_per_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """What one layer's cache does as the context grows."""

    elements_per_token: int
    """Elements that a token adds while nothing is full."""
    window: int | None
    """Tokens after which it no longer grows; None when it was never seen to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What transformers says about one config."""

    parameters: int
    """Tied ones once."""
    streamed: Fraction
    """Parameters that one token reads: no looked-up tables, and the share of the routed experts that it is sent to."""


def build(config: PretrainedConfig) -> torch.nn.Module:
    """The causal model of `config` on the meta device, where a trillion parameters take no memory."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        return AutoModelForCausalLM.from_config(config).eval()


def measure(config: PretrainedConfig, model: torch.nn.Module | None = None, idle: tuple[str, ...] = ()) -> Figures:
    """Parameters and streamed parameters; names that begin with one of `idle` are left out of both."""
    model = build(config) if model is None else model
    text = config.get_text_config()
    share = Fraction(1)
    experts = next((getattr(text, name) for name in EXPERTS if getattr(text, name, None)), None)
    if experts is not None:
        used = next(getattr(text, name) for name in EXPERTS_PER_TOKEN if getattr(text, name, None))
        share = Fraction(used, experts)
    tables = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, torch.nn.Embedding) and module.weight.dim() == 2
    }
    head = model.get_output_embeddings()
    if head is not None:
        tables.discard(id(head.weight))
    total, streamed = 0, Fraction(0)
    for name, parameter in model.named_parameters():  # yields what is tied once
        if name.startswith(idle) and idle:
            continue
        total += parameter.numel()
        if id(parameter) not in tables:
            streamed += parameter.numel() * (share if ".experts." in name else 1)
    return Figures(parameters=total, streamed=streamed)


def layer_caches(
    config: PretrainedConfig, model: torch.nn.Module | None = None, *, short: int = 3, long: int = 24
) -> list[LayerCache]:
    """The KV cache of each attention layer, from forwards of two short contexts and a long one, on meta.

    `short` must lie below every window and `long` above. Not for MLA: transformers caches its heads in full; and
    not for recurrent layers, whose cache has no keys.
    """
    model = build(config) if model is None else model
    sizes = {tokens: _cached(model, tokens) for tokens in (short, short + 1, long)}
    found = []
    for few, more, (keys, values, length) in zip(sizes[short], sizes[short + 1], sizes[long], strict=True):
        grown = more[0] + more[1] - few[0] - few[1]
        # A sliding layer keeps all but one of its window for the next step, which reads its own token besides.
        window = None if keys + values == grown * long else length + 1
        found.append(LayerCache(elements_per_token=grown, window=window))
    return found


def reader_layers(architecture: Architecture) -> list[LayerCache]:
    """What a reader says, one entry per layer, for comparison as a multiset with `layer_caches`."""
    return [
        LayerCache(elements_per_token=cache.elements_per_token, window=cache.window)
        for cache in architecture.caches
        for _ in range(cache.layers)
        if cache.elements_per_token
    ]


def in_order(layers: list[LayerCache]) -> list[tuple[int, int]]:
    """A multiset of layers as a sorted list."""
    return sorted((layer.elements_per_token, layer.window or 0) for layer in layers)


def latent_elements(model: torch.nn.Module) -> int:
    """Elements per token that MLA layers together must keep: what their down projections put out, and index keys."""
    kept = ("kv_a_proj_with_mqa", "indexer.wk")
    return sum(module.out_features for name, module in model.named_modules() if name.endswith(kept))


def _cached(model: torch.nn.Module, tokens: int) -> list[tuple[int, int, int]]:
    """(elements of keys, elements of values, tokens held) of every layer after a forward over `tokens` tokens."""
    ids = torch.zeros((1, tokens), dtype=torch.long, device="meta")
    with torch.no_grad(), _idle_experts(model):
        cache = model(input_ids=ids, use_cache=True).past_key_values
    return [
        (layer.keys.numel(), layer.values.numel(), layer.keys.shape[-2])
        for layer in cache.layers
        if getattr(layer, "keys", None) is not None
    ]


@contextmanager
def _idle_experts(model: torch.nn.Module) -> Iterator[None]:
    """Experts are passed over: which of them work depends on data, and they cache nothing."""

    def nothing(hidden: Any, *_: Any, **__: Any) -> Any:
        return hidden

    experts = [module for name, module in model.named_modules() if name.endswith(".experts")]
    for module in experts:
        module.forward = nothing
    try:
        yield
    finally:
        for module in experts:
            del module.forward
