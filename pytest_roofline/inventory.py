"""What the weights and caches of one model take in one choice of formats, summed once so that predicting is cheap.

::

    weights per pass  = matrices + vectors + sum over expert groups of bytes * (1 - (1 - k / E) ** tokens)
    KV per sequence   = sum over caches of layers * (elements per token * positions * bytes + 2 * state bytes)
    FLOPs per pass    = tokens * (2 * matrix elements + 2 * k / E * expert elements + attention at `context`)
    prefill FLOPs     = the same for every prompt token, the head once, attention summed over 1 .. N (causal)

Looked-up tables and idle weights take memory and are not read. Not counted: the row that a pass writes to the KV
cache, activations, rows of a table, the arithmetic of norms, softmax, routers' top-k and recurrent scans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.errors import RooflineUsageError

HEAD_PARTS = ("head", "embedding")
"""Parts that turn the last hidden state into logits; an embedding that is multiplied by is tied to the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed weights of which one token is sent to the same `share` (k / E)."""

    weight_bytes: float
    """All experts together."""
    share: float

    def expected_bytes(self, tokens: float) -> float:
        """What `tokens` tokens read when routing is uniform: ``bytes * (1 - (1 - k / E) ** tokens)``."""
        if tokens == 1.0:
            return self.weight_bytes * self.share
        return self.weight_bytes * (1.0 - math.pow(1.0 - self.share, tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Sums over the weights and caches of one model in one choice of formats; bytes, elements and FLOPs."""

    model: str
    source: str
    weights: str
    """The format of the weights, in words."""
    kv: str
    """The format of the KV cache, in words."""
    compute_dtype: str = "bfloat16"
    parameters: float
    active_parameters: float
    """Those that serve one token, looked-up tables included: the ``params`` of the rule of thumb."""
    dense_bytes: float
    """Matrices and vectors: read by every pass, once."""
    experts: tuple[Experts, ...] = ()
    lookup_bytes: float = 0.0
    idle_bytes: float = 0.0
    flops_per_token: float
    """Products of one token, attention left out: 2 per parameter that it is multiplied by, head included."""
    head_flops: float = 0.0
    caches: tuple[CacheLayers, ...] = ()
    kv_bytes_per_element: float = 2.0
    layers: int = 0
    """0: not known."""
    hidden: int = 0
    max_context: int | None = None
    is_rule: bool = False
    """Whether this is the rule of thumb (so many parameters), not the count of a named model."""
    notes: tuple[str, ...] = ()

    @property
    def is_mixture(self) -> bool:
        """Whether tokens choose among experts."""
        return bool(self.experts)

    @property
    def total_bytes(self) -> float:
        """Everything that the checkpoint holds: all experts, tables, idle towers."""
        return (
            self.dense_bytes + self.lookup_bytes + self.idle_bytes + sum(group.weight_bytes for group in self.experts)
        )

    @property
    def kv_bytes_per_token(self) -> float:
        """What one more token of context adds, per sequence, before any window is full."""
        elements = sum(cache.layers * cache.elements_per_token for cache in self.caches if cache.fixed_tokens is None)
        return elements * self.kv_bytes_per_element

    def with_kv(self, bytes_per_token: float, source: str) -> Inventory:
        """The same with a KV cache of so many bytes per token and sequence, in place of whatever was known of it."""
        cache = CacheLayers(name="attention", layers=1, elements_per_token=1)
        note = f"KV cache of {bytes_per_token:,.0f} bytes per token ({source}); the FLOPs of attention are not counted"
        return replace(
            self, caches=(cache,), kv="as given", kv_bytes_per_element=bytes_per_token, notes=(*self.notes, note)
        )

    def shared(self) -> Inventory:
        """The same with only those caches that tensor parallel ranks cannot divide: latents that all heads share."""
        return replace(self, caches=tuple(cache for cache in self.caches if cache.name.startswith("MLA")))

    def weight_bytes_per_pass(self, tokens: float) -> float:
        """What a pass over `tokens` tokens is expected to read."""
        expected = self.dense_bytes
        for group in self.experts:
            expected += group.expected_bytes(tokens)
        return expected

    def least_weight_bytes_per_pass(self) -> float:
        """What no pass can avoid: all tokens routed alike."""
        return self.weight_bytes_per_pass(1.0)

    def kv_bytes_read(self, context: float) -> float:
        """What one sequence reads per pass at `context` tokens: KV, latents, windows; a state is written too."""
        total = 0.0
        for cache in self.caches:
            total += cache.layers * (
                cache.elements_per_token * cache.positions(context) * self.kv_bytes_per_element
                + 2.0 * cache.state_elements * self._state_bytes(cache)
            )
        return total

    def kv_bytes_kept(self, context: float) -> float:
        """What one sequence has to keep in memory at `context` tokens."""
        total = 0.0
        for cache in self.caches:
            total += cache.layers * (
                cache.elements_per_token * cache.kept_positions(context) * self.kv_bytes_per_element
                + cache.state_elements * self._state_bytes(cache)
            )
        return total

    def _state_bytes(self, cache: CacheLayers) -> float:
        own = cache.state_bytes_per_element
        return self.kv_bytes_per_element if own is None else own

    def attention_flops(self, context: float) -> float:
        """Attention of one token over `context` cached positions, all layers."""
        return sum(cache.layers * cache.flops_per_position * cache.positions(context) for cache in self.caches)

    def flops_per_pass(self, tokens: float, context: float) -> float:
        """A decode pass over `tokens` tokens, each at `context`."""
        return tokens * (self.flops_per_token + self.attention_flops(context))

    def prefill_flops(self, tokens: int) -> float:
        """One prompt of `tokens` tokens: the head for its last token alone, attention causal."""
        attention = sum(
            cache.layers * cache.flops_per_position * _causal_positions(cache, tokens) for cache in self.caches
        )
        return tokens * (self.flops_per_token - self.head_flops) + self.head_flops + attention


def _causal_positions(cache: CacheLayers, tokens: int) -> float:
    """Positions attended to by tokens 1 .. N together: token i sees itself and what came before, in its window."""
    if cache.fixed_tokens is not None:
        return float(cache.fixed_tokens) * tokens
    if cache.chunk is not None:
        whole, rest = divmod(tokens, cache.chunk)
        reach = cache.chunk if cache.window is None else min(cache.window, cache.chunk)
        return whole * _ramp(cache.chunk, reach) + _ramp(rest, reach)
    return _ramp(tokens, tokens if cache.window is None else cache.window)


def _ramp(tokens: int, reach: int) -> float:
    """``sum(min(i, reach) for i in 1 .. tokens)``."""
    rising = min(tokens, reach)
    return rising * (rising + 1) / 2 + (tokens - rising) * float(reach)


def inventory_of(
    architecture: Architecture,
    plan: Callable[[Weight], float],
    *,
    weights: str,
    kv: str,
    kv_bytes_per_element: float = 2.0,
    compute_dtype: str = "bfloat16",
) -> Inventory:
    """Sum an architecture; `plan` says what all tensors of one weight take."""
    by_use = {"matrix": 0.0, "vector": 0.0, "lookup": 0.0, "idle": 0.0}
    experts: dict[float, float] = {}
    flops = head_flops = 0.0
    for weight in architecture.weights:
        weight_bytes = plan(weight)
        if weight.use == "routed" and weight.experts_per_token is not None:
            share = weight.experts_per_token / weight.experts
            experts[share] = experts.get(share, 0.0) + weight_bytes
            flops += 2.0 * share * weight.elements
            continue
        by_use[weight.use] += weight_bytes
        if weight.use == "matrix":
            flops += 2.0 * weight.elements
            if weight.part in HEAD_PARTS:
                head_flops += 2.0 * weight.elements
    return Inventory(
        model=architecture.name,
        source=architecture.source,
        weights=weights,
        kv=kv,
        compute_dtype=compute_dtype,
        parameters=float(architecture.parameters),
        active_parameters=float(architecture.active_parameters),
        dense_bytes=by_use["matrix"] + by_use["vector"],
        experts=tuple(Experts(weight_bytes=total, share=share) for share, total in sorted(experts.items())),
        lookup_bytes=by_use["lookup"],
        idle_bytes=by_use["idle"],
        flops_per_token=flops,
        head_flops=head_flops,
        caches=architecture.caches,
        kv_bytes_per_element=kv_bytes_per_element,
        layers=architecture.layers,
        hidden=architecture.hidden,
        max_context=architecture.max_context,
        notes=architecture.notes,
    )


def rule_inventory(
    parameters: float,
    *,
    active_parameters: float | None = None,
    kv_bytes_per_token: float = 0.0,
    bytes_per_parameter: float,
    weights: str,
    kv: str,
    compute_dtype: str = "bfloat16",
    notes: tuple[str, ...] = (),
) -> Inventory:
    """The rule of thumb: one matrix of so many parameters, no tables and no head apart.

    With `active_parameters` all of them count as routed, each token to the same share: that is exact for one token
    and underestimates nothing but the shared part of a larger batch. `kv_bytes_per_token` is as it is stored.
    """
    active = parameters if active_parameters is None else active_parameters
    if not 0 < active <= parameters:
        raise RooflineUsageError(f"{active:g} active parameters of {parameters:g}: more than there are")
    size = f"{parameters / 1e9:g}B parameters"
    weight_bytes = parameters * bytes_per_parameter
    is_mixture = active < parameters
    cache = CacheLayers(name="attention", layers=1, elements_per_token=1)
    return Inventory(
        model=size if not is_mixture else f"{size}, {active / 1e9:g}B active",
        source="the number of parameters given",
        weights=weights,
        kv=kv,
        compute_dtype=compute_dtype,
        parameters=parameters,
        active_parameters=active,
        dense_bytes=0.0 if is_mixture else weight_bytes,
        experts=(Experts(weight_bytes=weight_bytes, share=active / parameters),) if is_mixture else (),
        flops_per_token=2.0 * active,
        caches=(cache,) if kv_bytes_per_token else (),
        kv_bytes_per_element=kv_bytes_per_token or 2.0,
        is_rule=True,
        notes=notes,
    )


def own_draft(architecture: Architecture, plan: Callable[[Weight], float], inventory: Inventory) -> Inventory:
    """The model's multi-token-prediction layers as a draft: their weights, one KV cache each, and the head again.

    Its bytes are idle ones of the checkpoint, so its `total_bytes` beside the model's would count them twice: use
    `dense_bytes` and `experts` alone. Raises RooflineUsageError where the model has no such layers.
    """
    layers = _prediction_layers(architecture)
    if not layers:
        raise RooflineUsageError(
            f"{architecture.name}: no multi-token-prediction layers are known ({architecture.source})"
        )
    routed = {weight.experts: weight.experts_per_token for weight in architecture.weights if weight.use == "routed"}
    acting = [_acting(weight, routed) for weight in layers]
    heads = [weight for weight in architecture.weights if weight.use == "matrix" and weight.part in HEAD_PARTS]
    depth = max(1, len({layer for weight in layers for layer in weight.layers}))
    caches = tuple(replace(cache, layers=depth) for cache in architecture.caches[-1:])
    stored = dict(zip(map(id, acting), layers, strict=True))
    drafting = replace(
        architecture, name=f"{architecture.name} MTP", weights=(*acting, *heads), caches=caches, layers=depth, notes=()
    )
    return inventory_of(
        drafting,
        lambda weight: plan(stored.get(id(weight), weight)),
        weights=inventory.weights,
        kv=inventory.kv,
        kv_bytes_per_element=inventory.kv_bytes_per_element,
        compute_dtype=inventory.compute_dtype,
    )


def _acting(weight: Weight, routed: Mapping[int, float | None]) -> Weight:
    """An idle weight as what it is when it is used; `routed`: of how many experts the model uses how many."""
    if weight.experts in routed:
        return replace(weight, use="routed", experts_per_token=routed[weight.experts])
    if len(weight.shape) > 2 and weight.shape[0] in routed:
        experts = weight.shape[0]
        return replace(weight, use="routed", shape=weight.shape[1:], experts=experts, experts_per_token=routed[experts])
    return replace(weight, use="vector" if len(weight.shape) < 2 else "matrix")


def _prediction_layers(architecture: Architecture) -> tuple[Weight, ...]:
    """Idle weights past the last layer, or named after what they predict; neither tables nor a head of their own."""
    return tuple(
        weight
        for weight in architecture.weights
        if weight.use == "idle"
        and weight.part not in ("vision", "embedding", "head")
        and (
            "mtp" in weight.name
            or "nextn" in weight.name
            or any(0 < architecture.layers <= layer for layer in weight.layers)
        )
    )
