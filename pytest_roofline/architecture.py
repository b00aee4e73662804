"""A model on paper: every weight and every cache that a pass touches, before there is a file or a framework.

Readers of configs, GGUF and safetensors files all end here, so that whatever somebody has in hand is predicted by
the same arithmetic. An `Architecture` says what a pass reads; the bytes follow once a format is chosen (`formats`).

*Use* says how one pass touches a weight:

- ``matrix``: multiplied by, all of it, once per pass whatever the batch (an embedding table that is tied to the head
  is read whole, as the head);
- ``vector``: a norm, a bias, a router's correction, a decay: read whole, too small to quantize;
- ``lookup``: rows picked by token id (an untied embedding, per-layer embeddings): capacity, not traffic;
- ``routed``: one expert of many, read when a token of the batch is sent to it;
- ``idle``: in the checkpoint, untouched by text decoding (vision towers, multi-token-prediction layers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pytest_roofline.errors import RooflineUsageError

Use = Literal["matrix", "vector", "lookup", "routed", "idle"]
USES: tuple[Use, ...] = ("matrix", "vector", "lookup", "routed", "idle")
_PREDICTING = ("mtp", "nextn")
"""How checkpoints call modules for multi-token prediction that they do not number as further layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One weight tensor, or one per layer (and per expert) of the same shape.

    `name` is its module path as the checkpoint has it, with ``*`` for the layer's and the expert's index:
    ``model.layers.*.mlp.experts.*.up_proj``; quantization skips modules by it. `part` is the word for its job that
    formats go by: attn_q, attn_k, attn_v, attn_qkv, attn_output, ffn_gate, ffn_up, ffn_down, ffn_gate_up, embedding,
    head, router, norm, bias, conv, state, vision, other.
    """

    name: str
    part: str
    shape: tuple[int, ...]
    """Of one tensor: (out_features, in_features) for a matrix, (rows, width) for a table."""
    use: Use
    layers: tuple[int, ...] = ()
    """The layers that hold one; empty for what belongs to no layer."""
    experts: int = 1
    """How many of them stand side by side in one layer (fused or not)."""
    experts_per_token: float | None = None
    """How many of `experts` one token is sent to; for ``routed`` only."""
    stored_bytes: int | None = None
    """What all of them take in the file they were read from; None when no file was read."""
    stored_format: str | None = None
    """The format's name in that file."""
    needs_image: bool = False
    """Whether decoding passes it over as long as there is no image: layers of cross-attention."""

    def __post_init__(self) -> None:
        sizes = (*self.shape, self.experts)
        if not self.shape or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
            raise RooflineUsageError(f"{self.name}: shape {self.shape} x {self.experts}: positive whole numbers needed")
        if self.use not in USES:
            raise RooflineUsageError(f"{self.name}: use is {self.use!r}; one of {', '.join(USES)} is needed")
        if (self.use == "routed") != (self.experts_per_token is not None):
            raise RooflineUsageError(f"{self.name}: experts_per_token is for routed weights, and they need it")
        if self.experts_per_token is not None and not 0 < self.experts_per_token <= self.experts:
            raise RooflineUsageError(
                f"{self.name}: {self.experts_per_token} experts per token of {self.experts}: more than there are"
                if self.experts_per_token > 0
                else f"{self.name}: {self.experts_per_token} experts per token; it must be positive"
            )

    @property
    def count(self) -> int:
        """How many tensors of this shape the model holds."""
        return max(1, len(self.layers)) * self.experts

    @property
    def elements(self) -> int:
        """Parameters of all of them together."""
        return math.prod(self.shape) * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayers:
    """Layers that remember alike: a KV cache, a latent, a window, a constant state; per sequence."""

    name: str
    """``attention``, ``sliding attention``, ``MLA``, ``Mamba`` ..."""
    layers: int
    elements_per_token: int = 0
    """Cached per token of context and layer: ``2 * kv_heads * head_dim``, or latent + rope key for MLA."""
    kv_heads: int | None = None
    """Heads that tensor parallel ranks can divide among them: 1 for the latent of MLA; None: not known."""
    window: int | None = None
    """Tokens after which the layer stops growing; None: never."""
    chunk: int | None = None
    """Tokens after which the layer forgets all and starts anew (Llama 4); None: never."""
    selected: int | None = None
    """Tokens that a step reads of all that are kept, picked anew each time (sparse attention); None: all of them."""
    bytes_per_element: float | None = None
    """Where what is cached has a width of its own, whatever the format of the KV cache; None: that format's."""
    fixed_tokens: int | None = None
    """Cached tokens that do not depend on the context (cross-attention to an image); replaces the context."""
    state_elements: int = 0
    """Recurrent state per layer, read *and* written by each pass, whatever the context."""
    state_bytes_per_element: float | None = None
    """Where the state has a dtype of its own (Mamba keeps fp32); None: the model's plain one, never the KV format's."""
    flops_per_position: int = 0
    """FLOPs per layer and generated token for each position it attends to: ``2 * heads * (qk_dim + v_dim)``."""
    needs_image: bool = False
    """Whether there is none of it as long as there is no image."""

    def __post_init__(self) -> None:
        for name in ("layers", "elements_per_token", "state_elements", "flops_per_position"):
            if getattr(self, name) < 0:
                raise RooflineUsageError(f"cache of {self.name}: {name} is {getattr(self, name)}; 0 or more is needed")
        for name in ("kv_heads", "window", "chunk", "selected"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise RooflineUsageError(f"cache of {self.name}: {name} is {value}; 1 or more is needed")

    def share_of_rank(self, ranks: int) -> float:
        """The share of the keys and values that the fullest of `ranks` keeps: heads are whole, so never less than one.

        ``ceil(kv_heads / ranks) / kv_heads``, and ``1 / ranks`` where the heads are not known.
        """
        return 1.0 / ranks if self.kv_heads is None else -(-self.kv_heads // ranks) / self.kv_heads

    def positions(self, context: float) -> float:
        """Cached positions that one step reads at `context` tokens; after full chunks the next token begins anew."""
        if self.fixed_tokens is not None:
            return self.fixed_tokens
        if self.chunk is not None:
            context %= self.chunk
        limits = [limit for limit in (self.window, self.selected) if limit is not None]
        return min(context, *limits) if limits else context

    def bytes_per_token(self, format_bytes_per_element: float) -> float:
        """What one position of one layer takes, the KV cache being in a format of so many bytes per element."""
        own = self.bytes_per_element
        return self.elements_per_token * (format_bytes_per_element if own is None else own)

    def kept_positions(self, context: float) -> float:
        """Positions that have to be kept for `context` tokens: a chunk is full before it is forgotten."""
        if self.fixed_tokens is not None:
            return self.fixed_tokens
        limits = [limit for limit in (self.window, self.chunk) if limit is not None]
        return min(context, *limits) if limits else context


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How a checkpoint's own quantization_config stores its weights: a format, and what it leaves alone."""

    format: str
    skipped: tuple[str, ...] = ()
    """Module paths (``lm_head``, ``model.layers.0``, with ``*``) that stay in the checkpoint's plain dtype."""
    kv_format: str | None = None
    source: str = "quantization_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What a pass of one model touches."""

    name: str
    weights: tuple[Weight, ...]
    caches: tuple[CacheLayers, ...] = ()
    dtype: str = "bfloat16"
    """Plain dtype of the checkpoint: what is not quantized is stored in it."""
    storage: Storage | None = None
    """How the checkpoint itself is quantized; None: plainly."""
    layers: int = 0
    hidden: int = 0
    """Width of the residual stream: what tensor parallel ranks exchange."""
    reductions: int | None = None
    """All-reduces of one pass on tensor parallel ranks; None: two per layer, after attention and after feed-forward."""
    max_context: int | None = None
    source: str
    """Where all this was read: a file, a spec and its document."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.weights:
            raise RooflineUsageError(f"{self.name}: a model without weights predicts nothing")

    @property
    def parameters(self) -> int:
        """Every parameter that the checkpoint holds, `idle` ones left out."""
        return sum(weight.elements for weight in self.weights if weight.use != "idle")

    @property
    def idle_parameters(self) -> int:
        """Parameters that text decoding never touches: vision towers, multi-token prediction.

        No prediction needs it: it serves to compare a reader with a checkpoint's or a library's own count.
        """
        return sum(weight.elements for weight in self.weights if weight.use == "idle")

    @property
    def active_parameters(self) -> float:
        """Parameters that serve one token: all but the experts it is not sent to; tables included."""
        return sum(
            weight.elements if weight.experts_per_token is None else weight.elements * share(weight, 1.0)
            for weight in self.weights
            if weight.use != "idle"
        )

    @property
    def streamed_parameters(self) -> float:
        """Parameters that a decode pass of one token reads whole: `active_parameters` less the looked-up tables.

        No prediction needs it: it serves to compare a reader with a library's own count.
        """
        return self.active_parameters - sum(weight.elements for weight in self.weights if weight.use == "lookup")

    @property
    def prediction_weights(self) -> tuple[Weight, ...]:
        """Layers for multi-token prediction: idle weights past the last layer, or named after what they predict.

        Without copies of the embedding and of the head, which some checkpoints hold beside them.
        """
        return tuple(
            weight
            for weight in self.weights
            if weight.use == "idle"
            and weight.part not in ("vision", "embedding", "head")
            and (
                any(word.startswith(_PREDICTING) for word in weight.name.split("."))
                or any(0 < self.layers <= layer for layer in weight.layers)
            )
        )

    @property
    def is_mixture(self) -> bool:
        """Whether any weight is routed."""
        return any(weight.use == "routed" for weight in self.weights)

    def kv_elements_per_token(self) -> int:
        """Elements that one more token of context adds before any window is full, all layers together."""
        return sum(cache.layers * cache.elements_per_token for cache in self.caches if cache.fixed_tokens is None)


def expected_share(share_per_token: float, tokens: float) -> float:
    """The share of the experts that `tokens` tokens read, each sent to `share_per_token` (k / E) of them.

    ``1 - (1 - k / E) ** tokens``: routing is taken as uniform and independent. An estimate, not a bound: tokens that
    are alike route alike, and genuine batched runs read up to 1.5 times fewer.
    """
    return share_per_token if tokens == 1.0 else 1.0 - math.pow(1.0 - share_per_token, tokens)


def distinct_experts(experts: float, experts_per_token: float, tokens: float) -> float:
    """Expected distinct experts that `tokens` tokens hit: ``E * expected_share(k / E, tokens)``."""
    return experts * expected_share(experts_per_token / experts, tokens)


def share(weight: Weight, tokens: float) -> float:
    """The share of a weight that a pass over `tokens` tokens reads: 0 to 1. Looked-up rows count as none."""
    if weight.use == "routed" and weight.experts_per_token is not None:
        return expected_share(weight.experts_per_token / weight.experts, tokens)
    return 1.0 if weight.use in ("matrix", "vector") else 0.0
