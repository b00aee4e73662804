"""What the weights and caches of one model take in one choice of formats, summed once so that predicting is cheap.

::

    weights per pass  = matrices + vectors + sum over expert groups of bytes * (1 - (1 - k / E) ** tokens)
    KV per sequence   = sum over caches of layers * (elements per token * positions * bytes + 2 * state bytes)
    of one rank       = keys and values * ceil(KV heads / ranks) / KV heads + state / ranks
    least             = one token's experts, no layers for images, states in the model's dtype at most
    FLOPs per pass    = tokens * (2 * matrix elements + 2 * k / E * expert elements + attention at `context`)
    prefill FLOPs     = the same for every prompt token, the head once, attention summed over 1 .. N (causal)

Looked-up tables and idle towers take memory and are not read. Layers for multi-token prediction take memory only when
they draft: engines do not load them otherwise. Not counted: the row that a pass writes to the KV
cache, activations, rows of a table, the arithmetic of norms, softmax, routers' top-k and recurrent scans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pytest_roofline.architecture import Architecture, CacheLayers, Weight, expected_share
from pytest_roofline.errors import RooflineUsageError

HEAD_PARTS = ("head", "embedding")
"""Parts that turn the last hidden state into logits; an embedding that is multiplied by is tied to the head."""
KV_AS_GIVEN = "as given"
"""In place of a format: whoever asks has said how many bytes a token takes."""
_PLAIN_BYTES: Mapping[str, float] = MappingProxyType({"float64": 8.0, "float32": 4.0})
"""Of plain dtypes; of all others, 8-bit ones too, a state takes 2: no engine keeps one in less."""
_KEYS = ("attn_k", "attn_qkv")
"""Parts by which a layer is known to keep keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routed weights of which one token is sent to the same `share` (k / E)."""

    weight_bytes: float
    """All experts together."""
    share: float

    def expected_bytes(self, tokens: float) -> float:
        """What `tokens` tokens read when routing is uniform: ``bytes * (1 - (1 - k / E) ** tokens)``."""
        return self.weight_bytes * expected_share(self.share, tokens)


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
    image_bytes: float = 0.0
    """The part of `dense_bytes` that is passed over as long as there is no image; likewise `image_flops`."""
    experts: tuple[Experts, ...] = ()
    lookup_bytes: float = 0.0
    idle_bytes: float = 0.0
    """Towers and whatever else is loaded and not read."""
    prediction_bytes: float = 0.0
    """Layers for multi-token prediction: loaded only when they draft, and no part of `total_bytes`.

    Their copies of the model's embedding and head are counted nowhere: one is enough.
    """
    flops_per_token: float
    """Products of one token, attention left out: 2 per parameter that it is multiplied by, head included."""
    head_flops: float = 0.0
    image_flops: float = 0.0
    caches: tuple[CacheLayers, ...] = ()
    kv_bytes_per_element: float = 2.0
    plain_bytes_per_element: float = 2.0
    """Of the model's plain dtype: of states that have no dtype of their own."""
    layers: int = 0
    """0: not known."""
    hidden: int = 0
    reductions: int = 0
    """All-reduces of one pass on tensor parallel ranks; 0: not known."""
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
        """Everything that is loaded to decode text: all experts, tables, idle towers; no layers that only draft."""
        return (
            self.dense_bytes + self.lookup_bytes + self.idle_bytes + sum(group.weight_bytes for group in self.experts)
        )

    @property
    def kv_bytes_per_token(self) -> float:
        """What one more token of context adds, per sequence, before any window is full."""
        growing = (cache for cache in self.caches if cache.fixed_tokens is None)
        return sum(cache.layers * cache.bytes_per_token(self.kv_bytes_per_element) for cache in growing)

    def with_kv(self, bytes_per_token: float, source: str) -> Inventory:
        """The same with a KV cache of so many bytes per token and sequence, in place of whatever was known of it."""
        cache = CacheLayers(name="attention", layers=1, elements_per_token=1)
        note = f"KV cache of {bytes_per_token:,.0f} bytes per token ({source}); the FLOPs of attention are not counted"
        return replace(
            self, caches=(cache,), kv=KV_AS_GIVEN, kv_bytes_per_element=bytes_per_token, notes=(*self.notes, note)
        )

    def weight_bytes_per_pass(self, tokens: float) -> float:
        """What a pass over `tokens` tokens is expected to read."""
        expected = self.dense_bytes
        for group in self.experts:
            expected += group.expected_bytes(tokens)
        return expected

    def least_weight_bytes_per_pass(self) -> float:
        """What no pass can avoid: all tokens routed alike, and no image."""
        return self.weight_bytes_per_pass(1.0) - self.image_bytes

    def at_least(self) -> Inventory:
        """The same with what no correct implementation can avoid: `least_weight_bytes_per_pass`, no layers for images,
        and states in the model's plain dtype where that is narrower than what is expected of an engine."""
        plain = self.plain_bytes_per_element
        return replace(
            self,
            dense_bytes=self.least_weight_bytes_per_pass(),
            image_bytes=0.0,
            experts=(),
            flops_per_token=self.flops_per_token - self.image_flops,
            image_flops=0.0,
            caches=tuple(
                replace(cache, state_bytes_per_element=min(self._state_bytes(cache), plain))
                for cache in self.caches
                if not cache.needs_image
            ),
        )

    def kv_bytes_read(self, context: float, ranks: int = 1) -> float:
        """What the fullest of `ranks` reads per pass for one sequence at `context` tokens; a state is written too."""
        return self._cached_bytes(CacheLayers.positions, 2.0, context, ranks)

    def kv_bytes_kept(self, context: float, ranks: int = 1) -> float:
        """What the fullest of `ranks` has to keep in memory for one sequence at `context` tokens."""
        return self._cached_bytes(CacheLayers.kept_positions, 1.0, context, ranks)

    def _cached_bytes(
        self, positions: Callable[[CacheLayers, float], float], state_passes: float, context: float, ranks: int
    ) -> float:
        total = 0.0
        for cache in self.caches:
            cached = positions(cache, context) * cache.bytes_per_token(self.kv_bytes_per_element)
            state = state_passes * cache.state_elements * self._state_bytes(cache)
            total += cache.layers * (cached * cache.share_of_rank(ranks) + state / ranks)
        return total

    def _state_bytes(self, cache: CacheLayers) -> float:
        own = cache.state_bytes_per_element
        return self.plain_bytes_per_element if own is None else own

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
    limits = [limit for limit in (cache.window, cache.selected) if limit is not None]
    return _ramp(tokens, min(tokens, *limits) if limits else tokens)


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
    flops = head_flops = prediction_bytes = image_bytes = image_flops = 0.0
    predicting = set(map(id, architecture.prediction_weights))
    for weight in architecture.weights:
        weight_bytes = plan(weight)
        if id(weight) in predicting:
            prediction_bytes += weight_bytes
            continue
        if weight.use == "idle" and weight.part in HEAD_PARTS:
            continue  # a copy, for layers that predict, of a table that is counted already
        if weight.use == "routed" and weight.experts_per_token is not None:
            share = weight.experts_per_token / weight.experts
            experts[share] = experts.get(share, 0.0) + weight_bytes
            flops += 2.0 * share * weight.elements
            continue
        by_use[weight.use] += weight_bytes
        if weight.needs_image and weight.use in ("matrix", "vector"):
            image_bytes += weight_bytes
        if weight.use == "matrix":
            flops += 2.0 * weight.elements
            head_flops += 2.0 * weight.elements if weight.part in HEAD_PARTS else 0.0
            image_flops += 2.0 * weight.elements if weight.needs_image else 0.0
    return Inventory(
        model=architecture.name,
        source=architecture.source,
        weights=weights,
        kv=kv,
        compute_dtype=compute_dtype,
        parameters=float(architecture.parameters),
        active_parameters=float(architecture.active_parameters),
        dense_bytes=by_use["matrix"] + by_use["vector"],
        image_bytes=image_bytes,
        experts=tuple(Experts(weight_bytes=total, share=share) for share, total in sorted(experts.items())),
        lookup_bytes=by_use["lookup"],
        idle_bytes=by_use["idle"],
        prediction_bytes=prediction_bytes,
        flops_per_token=flops,
        head_flops=head_flops,
        image_flops=image_flops,
        caches=architecture.caches,
        kv_bytes_per_element=kv_bytes_per_element,
        plain_bytes_per_element=_PLAIN_BYTES.get(architecture.dtype, 2.0),
        layers=architecture.layers,
        hidden=architecture.hidden,
        reductions=2 * architecture.layers if architecture.reductions is None else architecture.reductions,
        max_context=architecture.max_context,
        notes=architecture.notes,
    )


def _count(parameters: float) -> str:
    """``70B``, ``1.5M``: as such a number is given."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if parameters >= size:
            return f"{parameters / size:g}{letter}"
    return f"{parameters:,.0f}"


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
        raise RooflineUsageError(f"{_count(active)} active parameters of {_count(parameters)}: more than there are")
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

    The head is the model's own, so `total_bytes` beside the model's would count it twice: what the layers add to the
    memory is `prediction_bytes` of the model. Raises RooflineUsageError where the model has no such layers.
    """
    layers = architecture.prediction_weights
    if not layers:
        raise RooflineUsageError(
            f"{architecture.name}: no multi-token-prediction layers are known ({architecture.source})"
        )
    routed = {weight.experts: weight.experts_per_token for weight in architecture.weights if weight.use == "routed"}
    acting = [_acting(weight, routed) for weight in layers]
    heads = [weight for weight in architecture.weights if weight.use == "matrix" and weight.part in HEAD_PARTS]
    depth = len({layer for weight in layers for layer in weight.layers}) or 1
    attending = len({layer for weight in layers if weight.part in _KEYS for layer in weight.layers}) or depth
    stored = dict(zip(map(id, acting), layers, strict=True))
    caches = tuple(replace(cache, layers=attending) for cache in _full_attention(architecture.caches)[-1:])
    kv_bytes_per_element = inventory.kv_bytes_per_element
    if inventory.kv == KV_AS_GIVEN:  # bytes per token of the whole model: a layer has its share of them
        caches, kv_bytes_per_element = inventory.caches, kv_bytes_per_element * attending / architecture.layers
    drafting = replace(
        architecture,
        name=f"{architecture.name} MTP",
        weights=(*acting, *heads),
        caches=caches,
        layers=depth,
        reductions=None,
        notes=(),
    )
    return inventory_of(
        drafting,
        lambda weight: plan(stored.get(id(weight), weight)),
        weights=inventory.weights,
        kv=inventory.kv,
        kv_bytes_per_element=kv_bytes_per_element,
        compute_dtype=inventory.compute_dtype,
    )


def _full_attention(caches: Sequence[CacheLayers]) -> list[CacheLayers]:
    """Caches like those of a layer that predicts: it attends to the whole context, whatever the layers before it do."""
    growing = [cache for cache in caches if cache.elements_per_token and cache.fixed_tokens is None]
    return [cache for cache in growing if cache.window is None and cache.chunk is None] or growing


def _acting(weight: Weight, routed: Mapping[int, float | None]) -> Weight:
    """An idle weight as what it is when it is used; `routed`: of how many experts the model uses how many."""
    if weight.experts in routed:
        return replace(weight, use="routed", experts_per_token=routed[weight.experts])
    if len(weight.shape) > 2 and weight.shape[0] in routed:
        experts = weight.shape[0]
        return replace(weight, use="routed", shape=weight.shape[1:], experts=experts, experts_per_token=routed[experts])
    return replace(weight, use="vector" if len(weight.shape) < 2 else "matrix")
