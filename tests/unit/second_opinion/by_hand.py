"""Bytes and elements worked out by hand from published sizes: nothing of the package is called.

The sizes (layers, widths, heads, experts) are those of the publishers' configs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Command = Callable[[str], Json]
Text = Callable[[str], str]

UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def attention(hidden: int, heads: int, kv: int, dim: int, *, qkv_bias: bool = False) -> tuple[int, int]:
    """(matrix elements, vector elements) of one layer's projections."""
    matrices = hidden * heads * dim * 2 + hidden * kv * dim * 2
    return matrices, (heads + 2 * kv) * dim if qkv_bias else 0


def dense(
    layers: int, hidden: int, ffn: int, heads: int, kv: int, dim: int, vocab: int, *, norms: int = 2, **more: bool
) -> tuple[int, int, int]:
    """(blocks' matrix elements, head elements, vector elements) of a gated decoder."""
    matrices, vectors = attention(hidden, heads, kv, dim, **more)
    return layers * (matrices + 3 * hidden * ffn), vocab * hidden, layers * (vectors + norms * hidden) + hidden


LLAMA_8B = dense(32, 4096, 14336, 32, 8, 128, 128256)
LLAMA_70B = dense(80, 8192, 28672, 64, 8, 128, 128256)
LLAMA_7B = dense(32, 4096, 11008, 32, 32, 128, 32000)
LLAMA_13B = dense(40, 5120, 13824, 40, 40, 128, 32000)
LLAMA_1B = dense(16, 2048, 8192, 32, 8, 64, 128256)
MISTRAL_7B = dense(32, 4096, 14336, 32, 8, 128, 32000)
QWEN_HALF_B = dense(24, 896, 4864, 14, 2, 64, 151936, qkv_bias=True)
GEMMA_2_9B = dense(42, 3584, 14336, 16, 8, 256, 256000, norms=4)
GEMMA_3_1B_BLOCKS = dense(26, 1152, 6912, 4, 1, 256, 262144, norms=4)


def streamed(parts: tuple[int, int, int]) -> int:
    """Elements that a pass reads."""
    return sum(parts)


BLOCKS_8B, HEAD_8B, VECTORS_8B = LLAMA_8B


def hit(experts: int, chosen: int, tokens: float) -> float:
    """Distinct experts that so many tokens are expected to hit."""
    return experts * (1 - math.pow(1 - chosen / experts, tokens))


MIXTRAL_DENSE = 32 * (attention(4096, 32, 8, 128)[0] + 8 * 4096 + 2 * 4096) + 4096 + 32000 * 4096
QWEN_30B_DENSE = 48 * (attention(2048, 32, 4, 128)[0] + 128 * 2048 + 2 * 2048 + 256) + 2048 + 151936 * 2048
MIXTURES = {
    "mixtral-8x7b": (MIXTRAL_DENSE, 32 * 3 * 4096 * 14336, 8, 2, 32000 * 4096),
    "qwen3-30b-a3b": (QWEN_30B_DENSE, 48 * 3 * 2048 * 768, 128, 8, 151936 * 2048),
}


def amount(text: str) -> float:
    """``3.35 TB/s``, ``16.06 GB``, ``140 TFLOP`` as a plain number."""
    number, unit = re.fullmatch(r"([\d.,]+) ?([kMGTP]?)(?:B/s|B|FLOP/s|FLOP|bytes)?", text).groups()  # type: ignore[union-attr]
    return float(number.replace(",", "")) * UNITS[unit]
