"""What the layers of a GGUF file remember, by its metadata and by which tensors each block has.

The keys are those of the GGUF specification. Which layers slide where a file gives a window but no pattern, and what a
recurrent layer keeps, is the definition of each architecture in llama.cpp (``src/llama-model.cpp``,
``src/llama-hparams.cpp``): there, too, it is code and not metadata. An architecture that is not listed here is an
error, not a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.readers.fields import Fields

MOST_BLOCKS = 10_000
FLOAT32_BYTES = 4.0

# fmt: off
PLAIN = frozenset({
    "arcee", "apertus", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bloom", "chatglm", "codeshell",
    "command-r", "dbrx", "deci", "deepseek", "dots1", "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4",
    "glm4moe", "gpt2", "gptneox", "granite", "granitemoe", "grok", "hunyuan-dense", "hunyuan-moe", "internlm2",
    "jais", "llama", "minicpm", "minimax-m2", "mistral3", "mpt", "nemotron", "olmo", "olmoe", "openelm", "orion",
    "phi2", "phi3", "phimoe", "plamo", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl",
    "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "xverse",
})
# fmt: on
"""Keys and values of every token in every layer that has attention."""
EVERY_LAYER_SLIDES = frozenset({"llama", "mistral3", "phi3", "phimoe", "starcoder2"})
"""Where ``attention.sliding_window`` stands in one of these, all layers slide (Mistral 7B v0.1, Phi-3)."""
PERIODS = {
    "afmoe": 4,
    "cohere2": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gemma4": None,
    "gpt-oss": 2,
    "olmo2": 4,
}
"""Of so many layers the last is full, the others slide; None: the file has to say it."""
LATENT = frozenset({"deepseek2", "minicpm3", "plm"})
# fmt: off
RECURRENT = frozenset({
    "mamba", "mamba2", "jamba", "falcon-h1", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "granitehybrid",
    "qwen3next", "qwen35", "qwen35moe",
})
# fmt: on
LLAMA4_CHUNK = 8192
"""Tokens of a chunk; the key ``attention.sliding_window`` of these files only says 0 where there are no chunks."""
KNOWN = PLAIN | LATENT | RECURRENT | PERIODS.keys() | {"llama4"}

Blocks = Mapping[int, Mapping[str, tuple[int, ...]]]
"""The shapes of each block's tensors by their names without ``blk.N.``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The keys of one architecture in one file."""

    fields: Fields
    architecture: str

    def key(self, name: str) -> str:
        """``block_count`` becomes ``llama.block_count``."""
        return f"{self.architecture}.{name}"

    def has(self, name: str) -> bool:
        """Whether the file gives it."""
        return self.fields.has(self.key(name))

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number from 1."""
        return self.fields.size(self.key(name), default)

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number from 0."""
        return self.fields.count(self.key(name), default) if self.has(name) or default != 0 else 0

    def each(self, name: str, blocks: int, default: int | None = None) -> list[int]:
        """A number for each block: an array, or one number for all."""
        key, value = self.key(name), self.fields.values.get(self.key(name))
        if not isinstance(value, tuple):
            return [self.count(name, default)] * blocks
        if len(value) < blocks:
            raise self.fields.fail(key, f"{len(value)} entries for {blocks} blocks")
        for number in value[:blocks]:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 2**40:
                raise self.fields.fail(key, f"{number!r:.40} among the entries: whole numbers from 0 are needed")
        return list(value[:blocks])

    @property
    def blocks(self) -> int:
        """Blocks that decode a token, in order from 0; those that predict further tokens stand behind them."""
        blocks = self.size("block_count")
        if blocks > MOST_BLOCKS:
            raise self.fields.fail(self.key("block_count"), f"{blocks:,}; more than {MOST_BLOCKS:,} are not believed")
        ahead = self.count("nextn_predict_layers", 0)
        if ahead >= blocks:
            raise self.fields.fail(self.key("nextn_predict_layers"), f"{ahead} of {blocks} blocks: none is left")
        return blocks - ahead

    @property
    def keeping_blocks(self) -> int:
        """Blocks that keep keys and values of their own; those behind them attend to the keys of earlier ones."""
        blocks, shared = self.blocks, self.count("attention.shared_kv_layers", 0)
        if shared >= blocks:
            key = self.key("attention.shared_kv_layers")
            raise self.fields.fail(key, f"{shared} of {blocks} blocks: one at least keeps keys of its own")
        return blocks - shared


def read_caches(metadata: Metadata, blocks: Blocks) -> tuple[list[CacheLayers], list[str]]:
    """What the layers keep, and notes. The architecture must be among `KNOWN`.

    Layers that attend to the keys and values of an earlier layer (Gemma 3n) keep none of their own; what they read
    again is counted once.
    """
    caches: list[CacheLayers] = []
    notes: list[str] = []
    keepers = [layer for layer in range(metadata.blocks) if _attends(blocks.get(layer, {}))]
    if metadata.architecture in LATENT and metadata.has("attention.kv_lora_rank"):
        caches.append(_latent(metadata, len(keepers)))
    elif keepers:
        caches += _keys_and_values(metadata, blocks, keepers, notes)
    states = _having("ssm_", metadata, blocks)
    if states:
        caches += _states(metadata, states)
    convolutions = _having("shortconv.", metadata, blocks)
    if convolutions:
        inputs = metadata.size("embedding_length") * metadata.size("shortconv.l_cache")
        caches.append(CacheLayers(name="convolution", layers=convolutions, state_elements=inputs))
    return caches, notes


def _having(prefix: str, metadata: Metadata, blocks: Blocks) -> int:
    """How many blocks have tensors whose names begin so."""
    return sum(any(name.startswith(prefix) for name in blocks.get(layer, {})) for layer in range(metadata.blocks))


def _attends(tensors: Mapping[str, Any]) -> bool:
    """Whether a block has attention. A gated delta net has an ``attn_qkv`` too, beside its ``ssm_`` tensors."""
    if "attn_k.weight" in tensors or "attn_kv_a_mqa.weight" in tensors:
        return True
    return "attn_qkv.weight" in tensors and not any(name.startswith("ssm_") for name in tensors)


def _latent(metadata: Metadata, layers: int) -> CacheLayers:
    """MLA: the latent and one rope key for all heads."""
    heads, rank = metadata.size("attention.head_count"), metadata.size("attention.kv_lora_rank")
    lengths = [
        metadata.size(f"attention.{name}_length" + ("_mla" if metadata.has(f"attention.{name}_length_mla") else ""))
        for name in ("key", "value")
    ]
    return CacheLayers(
        name="MLA",
        layers=layers,
        elements_per_token=rank + metadata.size("rope.dimension_count"),
        kv_heads=1,
        flops_per_position=2 * heads * sum(lengths),
    )


def _keys_and_values(metadata: Metadata, blocks: Blocks, keepers: list[int], notes: list[str]) -> list[CacheLayers]:
    total, fields = metadata.blocks, metadata.fields
    heads = metadata.each("attention.head_count", total)
    kv_heads = metadata.each("attention.head_count_kv", total) if metadata.has("attention.head_count_kv") else heads
    own, windows = metadata.keeping_blocks, _windows(metadata, total)
    found: Counter[tuple[bool, int | None, int, int, int]] = Counter()
    for layer in keepers:
        if not kv_heads[layer]:
            continue
        suffix = "_swa" if windows[layer] is not None and metadata.has("attention.key_length_swa") else ""
        if suffix or metadata.has("attention.key_length"):
            key = metadata.size(f"attention.key_length{suffix}")
            value = metadata.size(f"attention.value_length{suffix}", key)
        else:
            width, count = metadata.size("embedding_length"), heads[layer]
            if not count or width % count:
                raise fields.fail(metadata.key("attention.head_count"), f"{count}: does not divide the width {width}")
            key = value = width // count
        rows = blocks[layer].get("attn_k.weight")
        if rows is not None and rows[0] != kv_heads[layer] * key:
            raise fields.fail(
                f"blk.{layer}.attn_k.weight",
                f"{rows[0]} rows, where {metadata.key('attention.head_count_kv')} {kv_heads[layer]} heads of {key} "
                f"make {kv_heads[layer] * key}",
            )
        elements = kv_heads[layer] * (key + value) if layer < own else 0
        flops = 2 * heads[layer] * (key + value)
        found[windows[layer] is not None, windows[layer], kv_heads[layer], elements, flops] += 1
    if own < total:
        notes.append(f"{total - own} of {total} layers attend to the keys of earlier ones: read again, counted once")
    chunked = metadata.architecture == "llama4"
    words = ("attention", "chunked attention" if chunked else "sliding attention")
    return [
        CacheLayers(
            name=words[slides] if elements else "attention to shared keys",
            layers=layers,
            elements_per_token=elements,
            kv_heads=heads_kept,
            window=None if chunked else window,
            chunk=window if chunked else None,
            flops_per_position=flops,
        )
        for (slides, window, heads_kept, elements, flops), layers in found.items()
    ]


def _windows(metadata: Metadata, layers: int) -> list[int | None]:
    """The window of each layer; None for full attention."""
    name, architecture = "attention.sliding_window", metadata.architecture
    chunked = architecture == "llama4"
    window = metadata.count(name, LLAMA4_CHUNK if chunked else 0)
    if not window:
        return [None] * layers
    if chunked:
        window = LLAMA4_CHUNK
    pattern = metadata.fields.values.get(metadata.key(f"{name}_pattern"))
    if isinstance(pattern, tuple):
        if len(pattern) < layers:
            raise metadata.fields.fail(metadata.key(f"{name}_pattern"), f"{len(pattern)} entries for {layers} blocks")
        return [window if slides else None for slides in pattern[:layers]]
    if architecture in EVERY_LAYER_SLIDES:
        return [window] * layers
    period = 4 if chunked else PERIODS.get(architecture)
    if pattern is not None or period is None:
        if architecture not in PERIODS and pattern is None:
            raise metadata.fields.fail(
                metadata.key(name), f"{window}, and which layers of {architecture!r} slide is not known here"
            )
        period = metadata.size(f"{name}_pattern")
    return [window if layer % period < period - 1 else None for layer in range(layers)]


def _states(metadata: Metadata, layers: int) -> list[CacheLayers]:
    """Mamba, Mamba 2 and gated delta nets: the last inputs of the short convolution, and a matrix of states in fp32.

    ``conv * (inner + 2 * groups * state)`` and ``inner * state`` elements, as the readers of configs count them;
    llama.cpp keeps one input fewer.
    """
    inner, state = metadata.size("ssm.inner_size"), metadata.size("ssm.state_size")
    convolved = inner + 2 * metadata.count("ssm.group_count", 0) * state
    return [
        CacheLayers(
            name="recurrent convolution", layers=layers, state_elements=metadata.size("ssm.conv_kernel") * convolved
        ),
        CacheLayers(
            name="recurrent state", layers=layers, state_elements=inner * state, state_bytes_per_element=FLOAT32_BYTES
        ),
    ]
