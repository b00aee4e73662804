"""Small files of models, byte by byte by their formats' specifications, so that a test can break each byte."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

F32, F16, Q4_0, Q8_0, Q4_K, Q6_K, BF16 = 0, 1, 2, 8, 12, 14, 30
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210), BF16: (1, 2)}
DTYPE_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1, "I64": 8}

Tensor = tuple[str, tuple[int, ...], int]
"""Name, shape with rows first, number of the GGML type."""


class GgufWriter:
    """GGUF in either byte order and in versions 1 to 3."""

    def __init__(self, version: int = 3, *, big_endian: bool = False) -> None:
        self.version = version
        self.order = ">" if big_endian else "<"
        self.length = "I" if version == 1 else "Q"

    def pack(self, code: str, *values: Any) -> bytes:
        """Numbers in the file's byte order."""
        return struct.pack(self.order + code, *values)

    def text(self, value: str) -> bytes:
        """A length and the text."""
        return self.pack(self.length, len(value.encode())) + value.encode()

    def value(self, value: Any) -> bytes:
        """A type and a value: uint32, float32, bool, text, or an array of one of them."""
        if isinstance(value, (list, tuple)):
            kind = self.value(value[0])[:4] if value else self.pack("I", 4)
            return (
                self.pack("I", 9)
                + kind
                + self.pack(self.length, len(value))
                + b"".join(self.value(v)[4:] for v in value)
            )
        if isinstance(value, str):
            return self.pack("I", 8) + self.text(value)
        if isinstance(value, bool):
            return self.pack("IB", 7, value)
        return self.pack("If", 6, value) if isinstance(value, float) else self.pack("II", 4, value)

    def file(
        self,
        values: Mapping[str, Any],
        tensors: Sequence[Tensor],
        *,
        offsets: Sequence[int] | None = None,
        counts: tuple[int, int] | None = None,
        data: bool = True,
    ) -> bytes:
        """The whole file; `offsets` and `counts` (tensors, keys) in place of the true ones, `data` of zeros or none."""
        alignment = values.get("general.alignment", 32)
        body, end = b"", 0
        for index, (name, shape, kind) in enumerate(tensors):
            elements, size = BLOCKS[kind]
            start = -(-end // alignment) * alignment
            end = start + math.prod(shape) // elements * size
            body += self.text(name) + self.pack("I", len(shape))
            body += b"".join(self.pack(self.length, axis) for axis in reversed(shape))
            body += self.pack("IQ", kind, start if offsets is None else offsets[index])
        head = b"GGUF" + self.pack("I", self.version)
        head += b"".join(self.pack(self.length, count) for count in counts or (len(tensors), len(values)))
        head += b"".join(self.text(key) + self.value(value) for key, value in values.items()) + body
        return head + bytes(-len(head) % alignment) + (bytes(end) if data else b"")


def llama_values(**changed: Any) -> dict[str, Any]:
    """Metadata of a llama of 2 blocks: width 64, 4 heads on 2 key heads of 16, feed-forward 96, 128 tokens."""
    values = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": 2,
        "llama.context_length": 512,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "tokenizer.ggml.tokens": [f"token {number}" for number in range(128)],
        "tokenizer.ggml.scores": [float(number) for number in range(128)],
    }
    return {**values, **{key.replace("__", "."): value for key, value in changed.items()}}


def llama_tensors(*, blocks: int = 2, tied: bool = False, kind: int = F16) -> list[Tensor]:
    """Its tensors: matrices in `kind`, norms in F32."""
    tensors: list[Tensor] = [("token_embd.weight", (128, 64), kind), ("output_norm.weight", (64,), F32)]
    if not tied:
        tensors.append(("output.weight", (128, 64), kind))
    for block in range(blocks):
        shapes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
        shapes |= {"ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}
        tensors += [(f"blk.{block}.{name}.weight", shape, kind) for name, shape in shapes.items()]
        tensors += [(f"blk.{block}.{name}.weight", (64,), F32) for name in ("attn_norm", "ffn_norm")]
    return tensors


def completed(values: Mapping[str, Any], tensors: Sequence[Tensor]) -> list[Tensor]:
    """These tensors, and the least of others that make a whole model of every block that the metadata count.

    Attention where a block has no state and is given heads, projections of a state, a gated feed-forward.
    """
    architecture = values["general.architecture"]
    kv_heads = values.get(f"{architecture}.attention.head_count_kv")
    made = list(tensors)
    blocks = values.get(f"{architecture}.block_count", 0) if tensors else 0
    for block in range(blocks if blocks < 100 else 0):
        names = {name.split(".", 2)[2] for name, _, _ in tensors if name.startswith(f"blk.{block}.")}
        stems = {name.removesuffix(".weight").partition(".")[0] for name in names}

        def lacks(*alternatives: str, stems: set[str] = stems) -> bool:
            return not any(stem.startswith(alternatives) for stem in stems)

        missing = []
        if "shortconv" in stems:
            missing += ["shortconv.in_proj", "shortconv.out_proj"]
        elif not lacks("ssm_") or architecture == "mamba":
            missing += [
                *(["ssm_in"] if lacks("ssm_in", "attn_qkv") else []),
                *(["ssm_out"] if lacks("ssm_out") else []),
            ]
        elif not (isinstance(kv_heads, list) and block < len(kv_heads) and kv_heads[block] == 0):
            if lacks("attn_k", "attn_qkv"):
                missing.append("attn_qkv")
            elif lacks("attn_q"):
                missing.append("attn_q")
            if lacks("attn_v", "attn_kv_b", "attn_qkv") and "attn_qkv" not in missing:
                missing.append("attn_v")
            missing += ["attn_output"] if lacks("attn_output") else []
        if architecture != "mamba":
            parts = ("gate", "up", "down")
            missing += [f"ffn_{part}" for part in parts if not stems & {f"ffn_{part}", f"ffn_{part}_exps"}]
        made += [(f"blk.{block}.{name}.weight", (64, 64), F16) for name in missing]
    return made


def llama_gguf(**changed: Any) -> bytes:
    """The whole of it, tied or not."""
    return GgufWriter().file(llama_values(**changed), llama_tensors())


def safetensors_file(tensors: Mapping[str, tuple[str, Sequence[int]]], *, data: bool = True, **header: Any) -> bytes:
    """A safetensors file of zeros: dtype and shape by name; `header` adds to the JSON or replaces in it."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + math.prod(shape) * DTYPE_BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps({**entries, **header}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + (bytes(end) if data else b"")


LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
_MATRICES = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (96, 64),
    "mlp.up_proj": (96, 64),
    "mlp.down_proj": (64, 96),
}


def llama_safetensors(dtype: str = "F16", *, layers: Sequence[int] = (0, 1)) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of the same llama as transformers names them."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.embed_tokens.weight": (dtype, (128, 64)),
        "model.norm.weight": (dtype, (64,)),
        "lm_head.weight": (dtype, (128, 64)),
    }
    for layer in layers:
        tensors |= {f"model.layers.{layer}.{name}.weight": (dtype, shape) for name, shape in _MATRICES.items()}
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = (dtype, (64,))
    return tensors
