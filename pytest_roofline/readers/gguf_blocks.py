"""Whether a GGUF file holds a whole model: every block that its metadata counts, and every part of each.

Half a model is read twice as fast, on paper. What a block must have is told by its metadata (which blocks attend,
which have a feed-forward), and by its siblings: what most blocks of one kind have, the others of that kind lack.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from pytest_roofline.readers.gguf_caches import KNOWN, LATENT, RECURRENT, Blocks, Metadata

_EXPERT = re.compile(r"^(ffn_\w+)\.\d+$")
_SIBLINGS = re.compile(
    r"^(attn_(q|k|v|qkv|output|q_a|q_b|k_b|v_b|kv_b|kv_a_mqa|gate)|ffn_\w+|ssm_(in|out|x|dt)|shortconv\.\w+)$"
)
_NORM = re.compile(r"norm|_scale|_inp$|probs")
_WITHOUT_ATTENTION = frozenset({"mamba", "mamba2"})
_WITHOUT_FEED_FORWARD = frozenset({"mamba", "mamba2", "nemotron_h", "nemotron_h_moe"})
"""Not in every block, and no metadata tells in which."""
_BOTH = frozenset({"falcon-h1"})
"""Every block attends, and has a state too."""
_KEYS_ARE_VALUES = frozenset({"gemma4"})
"""Some blocks have no projection of values."""
_VARIED = frozenset({"deci"})
"""Blocks that a search has shaped one by one: only the metadata tells."""
# fmt: off
_GATED = frozenset({
    "command-r", "cohere2", "deepseek", "deepseek2", "dots1", "ernie4_5", "exaone4", "gemma", "gemma2", "gemma3",
    "gemma3n", "gemma4", "glm4moe", "gpt-oss", "granite", "granitemoe", "hunyuan-dense", "hunyuan-moe", "internlm2",
    "lfm2", "llama", "llama4", "minimax-m2", "mistral3", "olmo2", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "qwen3next",
    "seed_oss", "smollm3",
})
# fmt: on
"""Their feed-forward has a gate; others are not listed where it is not certain."""

_QUERIES = ("attn_q", "attn_q_b", "attn_qkv")
_KEYS = ("attn_k", "attn_qkv", "attn_kv_a_mqa")
_VALUES = ("attn_v", "attn_qkv", "attn_kv_b", "attn_v_b")
_UP = ("ffn_up", "ffn_gate_up", "ffn_up_exps", "ffn_gate_up_exps", "ffn_up_chexps")
_DOWN = ("ffn_down", "ffn_down_exps", "ffn_down_chexps")
_GATE = ("ffn_gate", "ffn_gate_up", "ffn_gate_exps", "ffn_gate_up_exps", "ffn_gate_chexps")


def check_blocks(metadata: Metadata, blocks: Blocks, tensors: Iterable[str]) -> None:
    """Raises RooflineUsageError that names the first block or tensor that is missing.

    Of an architecture that is not known only the table and the number of blocks are checked. Not checked: biases,
    norms, blocks that predict further tokens, a head (without one the table is it).
    """
    fields = metadata.fields
    if "token_embd.weight" not in set(tensors):
        raise fields.fail("token_embd.weight", "not in the file: a part of a model")
    stems = {layer: _stems(blocks.get(layer, {})) for layer in range(metadata.blocks)}
    for layer, found in stems.items():
        if not found:
            raise fields.fail(
                metadata.key("block_count"), f"{metadata.blocks}, and the file holds nothing of block {layer}"
            )
    if metadata.architecture not in KNOWN:
        return
    for layer, found in stems.items():
        for alternatives in _needed(metadata, layer, found, blocks[layer]):
            if not found.intersection(alternatives):
                raise fields.fail(
                    f"blk.{layer}.{alternatives[0]}.weight",
                    "not in the file, nor what could stand for it: a part of a model",
                )
    if metadata.architecture not in _VARIED:
        _check_siblings(metadata, stems)


def _stems(tensors: Iterable[str]) -> frozenset[str]:
    """Names without ``.weight`` and the numbers of experts; biases aside."""
    found = (name.removesuffix(".weight") for name in tensors if not name.endswith(".bias"))
    return frozenset(_EXPERT.sub(r"\1", name) for name in found)


def _needed(
    metadata: Metadata, layer: int, found: frozenset[str], tensors: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, ...]]:
    """What a block must have, each as the names of which one is enough."""
    architecture = metadata.architecture
    is_recurrent = _is_recurrent(found)
    if _attends(metadata, layer, found, is_recurrent):
        yield _QUERIES
        if layer < metadata.keeping_blocks:
            yield _KEYS
            if architecture not in _KEYS_ARE_VALUES:
                yield _VALUES
        yield ("attn_output",)
    elif architecture in RECURRENT and not is_recurrent and not _has_one_mixer(architecture):
        yield ("ssm_in", "shortconv.in_proj", *_QUERIES)
    if is_recurrent and any(stem.startswith("shortconv.") for stem in found):
        yield ("shortconv.in_proj",)
        yield ("shortconv.out_proj",)
    elif is_recurrent or architecture in _BOTH or architecture in _WITHOUT_ATTENTION:
        yield ("ssm_in", "attn_qkv")
        yield ("ssm_out",)
    if _has_feed_forward(metadata, layer):
        yield _UP
        yield _DOWN
        if architecture in _GATED and not _is_fused(metadata, layer, tensors):
            yield _GATE


def _has_one_mixer(architecture: str) -> bool:
    """Whether a block is attention, a state or a feed-forward, one of the three."""
    return architecture.startswith("nemotron_h")


def _attends(metadata: Metadata, layer: int, found: frozenset[str], is_recurrent: bool) -> bool:
    """By the metadata where it says so for each block, else by the block itself."""
    if metadata.architecture in _WITHOUT_ATTENTION:
        return False
    heads, kv_heads = (_of_block(metadata, f"attention.head_count{end}", layer) for end in ("", "_kv"))
    if kv_heads == 0 or heads == 0:
        return False
    if metadata.architecture in LATENT or metadata.architecture not in RECURRENT or metadata.architecture in _BOTH:
        return True
    if isinstance(metadata.fields.values.get(metadata.key("attention.head_count_kv")), tuple):
        return True
    # A gated delta net has an attn_qkv too, beside its state.
    return not is_recurrent and bool(found & {"attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv"})


def _has_feed_forward(metadata: Metadata, layer: int) -> bool:
    if metadata.architecture in _WITHOUT_FEED_FORWARD:
        return False
    return _of_block(metadata, "feed_forward_length", layer) != 0


def _is_fused(metadata: Metadata, layer: int, tensors: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the gate is part of ``ffn_up``."""
    width = _of_block(metadata, "feed_forward_length", layer)
    rows = tensors.get("ffn_up.weight", (0,))[0]
    return width is not None and rows == 2 * width


def _of_block(metadata: Metadata, name: str, layer: int) -> int | None:
    """A block's own number; None where the file does not give it, or gives no number."""
    value = metadata.fields.values.get(metadata.key(name))
    if isinstance(value, tuple):
        value = value[layer] if layer < len(value) else None
    return value if isinstance(value, int) else None


def _is_recurrent(found: frozenset[str]) -> bool:
    return any(stem.startswith(("ssm_", "shortconv.")) for stem in found)


def _check_siblings(metadata: Metadata, stems: Mapping[int, frozenset[str]]) -> None:
    """What half of the blocks of one kind have, all of them have."""
    kinds: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
    for layer, found in stems.items():
        is_recurrent = _is_recurrent(found)
        kinds[
            is_recurrent,
            _attends(metadata, layer, found, is_recurrent),
            "ffn_gate_inp" in found,
            bool(found.intersection(_UP)),
            layer < metadata.keeping_blocks,
        ].append(layer)
    exempt = {"attn_v"} if metadata.architecture in _KEYS_ARE_VALUES else set()
    for (*_, keeps), layers in kinds.items():
        aside = exempt if keeps else {*exempt, "attn_k", "attn_v"}
        times = Counter(stem for layer in layers for stem in stems[layer])
        for stem, count in times.items():
            if count == len(layers) or 2 * count < len(layers) or stem in aside:
                continue
            if _SIBLINGS.match(stem) and not _NORM.search(stem):
                missing = next(layer for layer in layers if stem not in stems[layer])
                raise metadata.fields.fail(
                    f"blk.{missing}.{stem}.weight",
                    f"not in the file, and in {count} of {len(layers)} blocks of its kind: a part of a model",
                )
