"""What transformers are built of: weights of attention, feed-forward, experts, norms and tables, and KV caches.

Families put these together. Every function returns a list, so that a model is ``[*a(...), *b(...)]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.readers.fields import Fields, shown

MOST_LAYERS = 10_000
"""No model has more; a config that says so is broken, and would fill the memory."""

Layers = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The heads of one attention layer."""

    query: int
    kv: int
    dim: int
    """Width of one query or key."""
    value_dim: int
    """Width of one value; usually `dim`."""

    @property
    def kv_elements_per_token(self) -> int:
        """Keys and values that one token leaves in the cache of one layer."""
        return self.kv * (self.dim + self.value_dim)

    @property
    def flops_per_position(self) -> int:
        """Scores and weighted sum for one cached position: ``2 * heads * (qk_dim + v_dim)``."""
        return 2 * self.query * (self.dim + self.value_dim)


def layer_count(fields: Fields, key: str = "num_hidden_layers") -> int:
    """The number of layers; above `MOST_LAYERS` an error."""
    layers = fields.size(key)
    if layers > MOST_LAYERS:
        raise fields.fail(key, f"{layers:,} layers: more than {MOST_LAYERS:,} are not believed")
    return layers


def read_heads(
    fields: Fields,
    hidden: int,
    *,
    query: str = "num_attention_heads",
    kv: str | None = "num_key_value_heads",
    dim: str = "head_dim",
) -> Heads:
    """Heads by their usual keys: no kv heads given means one per query head, no width means ``hidden / heads``.

    `query`, `kv` and `dim` are the keys; ``kv=None`` for models that have one key per query head.
    """
    query_heads = fields.size(query)
    kv_heads = query_heads if kv is None else fields.size(kv, query_heads)
    if query_heads % kv_heads:
        raise fields.fail(str(kv), f"{kv_heads}: {query_heads} query heads cannot share {kv_heads} key heads evenly")
    if fields.has(dim):
        width = fields.size(dim)
    elif hidden % query_heads:
        raise fields.fail(query, f"{query_heads}: does not divide the width {hidden}, and {dim} is not given")
    else:
        width = hidden // query_heads
    return Heads(query=query_heads, kv=kv_heads, dim=width, value_dim=width)


def linear(name: str, part: str, outputs: int, inputs: int, layers: Layers = (), *, bias: bool = False) -> list[Weight]:
    """A matrix of (outputs, inputs), and its bias as ``name.bias``."""
    weights = [Weight(name=name, part=part, shape=(outputs, inputs), use="matrix", layers=layers)]
    return [*weights, *vector(f"{name}.bias", outputs, layers, part="bias")] if bias else weights


def vector(name: str, width: int, layers: Layers = (), *, part: str = "norm") -> list[Weight]:
    """A vector that is read whole and never quantized."""
    return [Weight(name=name, part=part, shape=(width,), use="vector", layers=layers)]


def norm(name: str, width: int, layers: Layers = (), *, bias: bool = False) -> list[Weight]:
    """A norm of `width`; with `bias` a LayerNorm."""
    weights = vector(name, width, layers)
    return [*weights, *vector(f"{name}.bias", width, layers, part="bias")] if bias else weights


def norms(prefix: str, names: Iterable[str], width: int, layers: Layers = (), *, bias: bool = False) -> list[Weight]:
    """Several norms of one width: ``prefix.name`` each."""
    return [weight for name in names for weight in norm(f"{prefix}.{name}", width, layers, bias=bias)]


def tables(
    vocabulary: int,
    hidden: int,
    *,
    tied: bool,
    embedding: str = "model.embed_tokens",
    head: str = "lm_head",
    head_bias: bool = False,
) -> list[Weight]:
    """The embedding and the head. Tied: one matrix under the embedding's name, read whole as the head."""
    if tied:
        table = Weight(name=embedding, part="embedding", shape=(vocabulary, hidden), use="matrix")
        return [table, *vector(f"{head}.bias", vocabulary, part="bias")] if head_bias else [table]
    return [
        Weight(name=embedding, part="embedding", shape=(vocabulary, hidden), use="lookup"),
        *linear(head, "head", vocabulary, hidden, bias=head_bias),
    ]


def lookup(name: str, rows: int, width: int, layers: Layers = ()) -> list[Weight]:
    """A table of which single rows are picked: learned positions, per-layer embeddings."""
    return [Weight(name=name, part="embedding", shape=(rows, width), use="lookup", layers=layers)]


def attention(
    prefix: str,
    hidden: int,
    heads: Heads,
    layers: Layers,
    *,
    bias: bool = False,
    output_bias: bool = False,
    output: str = "o_proj",
    fused: str | None = None,
) -> list[Weight]:
    """Projections of one attention: q, k, v (or one matrix named `fused`) with `bias`, and the output's."""
    queries, keys, values = heads.query * heads.dim, heads.kv * heads.dim, heads.kv * heads.value_dim
    if fused is not None:
        projections = linear(f"{prefix}.{fused}", "attn_qkv", queries + keys + values, hidden, layers, bias=bias)
    else:
        projections = [
            *linear(f"{prefix}.q_proj", "attn_q", queries, hidden, layers, bias=bias),
            *linear(f"{prefix}.k_proj", "attn_k", keys, hidden, layers, bias=bias),
            *linear(f"{prefix}.v_proj", "attn_v", values, hidden, layers, bias=bias),
        ]
    inputs = heads.query * heads.value_dim
    return [*projections, *linear(f"{prefix}.{output}", "attn_output", hidden, inputs, layers, bias=output_bias)]


def head_norms(prefix: str, heads: Heads, layers: Layers, *, bias: bool = False) -> list[Weight]:
    """Norms of queries and keys over one head's width, shared by all heads."""
    return norms(prefix, ("q_norm", "k_norm"), heads.dim, layers, bias=bias)


def gated(
    prefix: str,
    hidden: int,
    width: int,
    layers: Layers,
    *,
    bias: bool = False,
    fused: str | None = None,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> list[Weight]:
    """A gated feed-forward: gate and up (or one matrix of both named `fused`), and down."""
    gate, up, down = (f"{prefix}.{name}" for name in names)
    if fused is not None:
        entry = linear(f"{prefix}.{fused}", "ffn_gate_up", 2 * width, hidden, layers, bias=bias)
    else:
        entry = [
            *linear(gate, "ffn_gate", width, hidden, layers, bias=bias),
            *linear(up, "ffn_up", width, hidden, layers, bias=bias),
        ]
    return [*entry, *linear(down, "ffn_down", hidden, width, layers, bias=bias)]


def plain(
    prefix: str,
    hidden: int,
    width: int,
    layers: Layers,
    *,
    bias: bool = False,
    names: tuple[str, str] = ("up_proj", "down_proj"),
) -> list[Weight]:
    """A feed-forward of two matrices: up and down."""
    return [
        *linear(f"{prefix}.{names[0]}", "ffn_up", width, hidden, layers, bias=bias),
        *linear(f"{prefix}.{names[1]}", "ffn_down", hidden, width, layers, bias=bias),
    ]


def router(name: str, experts: int, hidden: int, layers: Layers, *, bias: bool = False) -> list[Weight]:
    """The small matrix that sends tokens to experts."""
    return linear(name, "router", experts, hidden, layers, bias=bias)


def routed(name: str, part: str, shape: tuple[int, ...], layers: Layers, experts: int, per_token: int) -> Weight:
    """One tensor per expert, of which a token reads `per_token`."""
    return Weight(
        name=name,
        part=part,
        shape=shape,
        use="routed",
        layers=layers,
        experts=experts,
        experts_per_token=float(per_token),
    )


def gated_experts(
    prefix: str,
    hidden: int,
    width: int,
    layers: Layers,
    *,
    experts: int,
    per_token: int,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> list[Weight]:
    """Gate, up and down of each expert, as ``prefix.*.name``."""
    gate, up, down = (f"{prefix}.*.{name}" for name in names)
    return [
        routed(gate, "ffn_gate", (width, hidden), layers, experts, per_token),
        routed(up, "ffn_up", (width, hidden), layers, experts, per_token),
        routed(down, "ffn_down", (hidden, width), layers, experts, per_token),
    ]


def read_experts(fields: Fields, experts: str, per_token: str) -> tuple[int, int]:
    """How many experts there are and how many serve a token; more than there are is an error."""
    total, used = fields.size(experts), fields.size(per_token)
    if used > total:
        raise fields.fail(per_token, f"{used}: there are only {total} experts ({experts})")
    return total, used


def read_windows(
    fields: Fields,
    layers: int,
    window: int | None,
    is_sliding: Callable[[int], bool],
    *,
    others: Mapping[str, int | None] | None = None,
) -> list[int | None]:
    """The window of each layer, None for full attention: by ``layer_types`` where given, else by `is_sliding`.

    `others`: further words that ``layer_types`` may hold, and the window that each means.
    """
    if not fields.has("layer_types"):
        return [window if is_sliding(layer) else None for layer in range(layers)]
    words = fields.items("layer_types")
    if len(words) != layers:
        raise fields.fail("layer_types", f"{len(words)} entries for {layers} layers")
    known = {"full_attention": None, "sliding_attention": window, **(others or {})}
    for layer, word in enumerate(words):
        if not isinstance(word, str) or word not in known:
            raise fields.fail(f"layer_types[{layer}]", f"{shown(word)} is not known here; {', '.join(known)} are")
    return [known[word] for word in words]


def kv_caches(heads: Heads, windows: Sequence[int | None]) -> list[CacheLayers]:
    """One `CacheLayers` for each distinct window, in order of appearance; `windows` has an entry per layer."""
    return [
        CacheLayers(
            name="attention" if window is None else "sliding attention",
            layers=layers,
            elements_per_token=heads.kv_elements_per_token,
            kv_heads=heads.kv,
            window=window,
            flops_per_position=heads.flops_per_position,
        )
        for window, layers in Counter(windows).items()
    ]


def assemble(
    fields: Fields,
    weights: Sequence[Weight],
    caches: Sequence[CacheLayers],
    *,
    layers: int,
    hidden: int,
    max_context: str = "max_position_embeddings",
    notes: Sequence[str] = (),
) -> Architecture:
    """The architecture under its ``model_type``; `read_config` adds name, dtype and storage. `max_context`: the key."""
    return Architecture(
        name=fields.text("model_type", "model"),
        weights=tuple(weights),
        caches=tuple(caches),
        layers=layers,
        hidden=hidden,
        max_context=fields.size(max_context) if fields.has(max_context) else None,
        source=fields.file,
        notes=tuple(notes),
    )
