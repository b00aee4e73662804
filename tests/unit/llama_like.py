"""Llama-like models by their public dimensions, as the weights that their checkpoints hold."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.architecture import Architecture, Weight


@dataclass(frozen=True, kw_only=True)
class Dims:
    """The public dimensions of a Llama-like model."""

    layers: int
    hidden: int
    width: int
    heads: int
    kv_heads: int
    vocabulary: int
    head_dim: int = 128
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_table: int = 0
    experts: int = 0
    experts_per_token: int = 0


MODELS = {
    "Llama-2-7B": Dims(layers=32, hidden=4096, width=11008, heads=32, kv_heads=32, vocabulary=32000),
    "Llama-2-13B": Dims(layers=40, hidden=5120, width=13824, heads=40, kv_heads=40, vocabulary=32000),
    "Llama-2-70B": Dims(layers=80, hidden=8192, width=28672, heads=64, kv_heads=8, vocabulary=32000),
    "Llama-3-8B": Dims(layers=32, hidden=4096, width=14336, heads=32, kv_heads=8, vocabulary=128256),
    "Llama-3.1-8B": Dims(layers=32, hidden=4096, width=14336, heads=32, kv_heads=8, vocabulary=128256, rope_table=64),
    "Llama-3-70B": Dims(layers=80, hidden=8192, width=28672, heads=64, kv_heads=8, vocabulary=128256),
    "Llama-3.1-405B": Dims(
        layers=126, hidden=16384, width=53248, heads=128, kv_heads=8, vocabulary=128256, rope_table=64
    ),
    "Llama-3.2-1B": Dims(
        layers=16,
        hidden=2048,
        width=8192,
        heads=32,
        kv_heads=8,
        head_dim=64,
        vocabulary=128256,
        tied=True,
        rope_table=32,
    ),
    "Llama-3.2-3B": Dims(
        layers=28, hidden=3072, width=8192, heads=24, kv_heads=8, vocabulary=128256, tied=True, rope_table=64
    ),
    "Mistral-7B-v0.3": Dims(layers=32, hidden=4096, width=14336, heads=32, kv_heads=8, vocabulary=32768),
    "Qwen2.5-7B": Dims(layers=28, hidden=3584, width=18944, heads=28, kv_heads=4, vocabulary=152064, qkv_bias=True),
    "Qwen2.5-14B": Dims(layers=48, hidden=5120, width=13824, heads=40, kv_heads=8, vocabulary=152064, qkv_bias=True),
    "Qwen2.5-32B": Dims(layers=64, hidden=5120, width=27648, heads=40, kv_heads=8, vocabulary=152064, qkv_bias=True),
    "Qwen3-8B": Dims(layers=36, hidden=4096, width=12288, heads=32, kv_heads=8, vocabulary=151936, qk_norm=True),
    "Qwen3-32B": Dims(layers=64, hidden=5120, width=25600, heads=64, kv_heads=8, vocabulary=151936, qk_norm=True),
    "TinyLlama-1.1B": Dims(layers=22, hidden=2048, width=5632, heads=32, kv_heads=4, head_dim=64, vocabulary=32000),
    "Mixtral-8x7B": Dims(
        layers=32,
        hidden=4096,
        width=14336,
        heads=32,
        kv_heads=8,
        vocabulary=32000,
        experts=8,
        experts_per_token=2,
    ),
}


def vector(name: str, width: int, layers: tuple[int, ...] = (), part: str = "norm") -> Weight:
    """One vector per layer."""
    return Weight(name=name, part=part, shape=(width,), use="vector", layers=layers)


def architecture(dims: Dims, name: str = "model") -> Architecture:
    """The weights of a Llama-like model as its checkpoint has them."""
    layers = tuple(range(dims.layers))
    queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    weights = [
        Weight(
            name="embed_tokens",
            part="embedding",
            shape=(dims.vocabulary, dims.hidden),
            use="matrix" if dims.tied else "lookup",
        ),
        vector("norm", dims.hidden),
        vector("input_norm", dims.hidden, layers),
        vector("post_norm", dims.hidden, layers),
    ]
    if not dims.tied:
        weights.append(Weight(name="lm_head", part="head", shape=(dims.vocabulary, dims.hidden), use="matrix"))
    if dims.rope_table:
        weights.append(vector("rope_freqs", dims.rope_table, part="other"))
    for part, shape in (
        ("attn_q", (queries, dims.hidden)),
        ("attn_k", (keys, dims.hidden)),
        ("attn_v", (keys, dims.hidden)),
        ("attn_output", (dims.hidden, queries)),
    ):
        weights.append(Weight(name=part, part=part, shape=shape, use="matrix", layers=layers))
        if dims.qkv_bias and part != "attn_output":
            weights.append(vector(f"{part}.bias", shape[0], layers, "bias"))
    if dims.qk_norm:
        weights += [vector("q_norm", dims.head_dim, layers), vector("k_norm", dims.head_dim, layers)]
    weights += feed_forward(dims, layers)
    return Architecture(name=name, weights=tuple(weights), layers=dims.layers, hidden=dims.hidden, source="public dims")


def feed_forward(dims: Dims, layers: tuple[int, ...]) -> list[Weight]:
    """Gate, up and down, of one dense block or of experts."""
    shapes = (("ffn_gate", (dims.width, dims.hidden)), ("ffn_up", (dims.width, dims.hidden)))
    made = []
    for part, shape in (*shapes, ("ffn_down", (dims.hidden, dims.width))):
        if dims.experts:
            made.append(
                Weight(
                    name=f"experts.*.{part}",
                    part=part,
                    shape=shape,
                    use="routed",
                    layers=layers,
                    experts=dims.experts,
                    experts_per_token=float(dims.experts_per_token),
                )
            )
        else:
            made.append(Weight(name=part, part=part, shape=shape, use="matrix", layers=layers))
    if dims.experts:
        gate = Weight(name="gate", part="router", shape=(dims.experts, dims.hidden), use="matrix", layers=layers)
        made.append(gate)
    return made
