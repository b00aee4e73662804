"""Text models that exist only inside a wrapper: the family that reads them, and the sizes that files leave out.

A part of a config is written as the difference from the defaults of its class in transformers 5.24; a test compares
every entry with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_QWEN2_VL: Mapping[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_window_layers": 80,
}
_QWEN3_VL: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
}
_QWEN3_VL_MOE: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 1408,
    "num_experts": 60,
    "num_experts_per_tok": 4,
}
_QWEN3_5: Mapping[str, Any] = {
    "vocab_size": 248320,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
}
_QWEN3_5_MOE: Mapping[str, Any] = {
    **{key: value for key, value in _QWEN3_5.items() if key != "intermediate_size"},
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
}
_GLM4V: Mapping[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    # The class has no such key: the width of a head is that of the model by the heads.
    "head_dim": None,
}
_GLM4V_MOE: Mapping[str, Any] = {
    "vocab_size": 151424,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "num_hidden_layers": 46,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "attention_bias": True,
    "moe_intermediate_size": 1408,
    "num_experts_per_tok": 8,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
_LLAMA4: Mapping[str, Any] = {
    "vocab_size": 202048,
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
}
_GEMMA3N: Mapping[str, Any] = {
    "vocab_size": 262400,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
}
_GEMMA4: Mapping[str, Any] = {
    "vocab_size": 262144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
}
_MLLAMA: Mapping[str, Any] = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
_LFM2: Mapping[str, Any] = {
    "vocab_size": 65536,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}

PARTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "qwen2_vl_text": ("qwen2", _QWEN2_VL),
    "qwen2_5_vl_text": ("qwen2", _QWEN2_VL),
    "qwen3_vl_text": ("qwen3", _QWEN3_VL),
    "qwen3_vl_moe_text": ("qwen3_moe", _QWEN3_VL_MOE),
    "qwen3_5_text": ("qwen3_5_text", _QWEN3_5),
    "qwen3_5_moe_text": ("qwen3_5_moe_text", _QWEN3_5_MOE),
    "glm4v_text": ("glm4", _GLM4V),
    "glm4v_moe_text": ("glm4_moe", _GLM4V_MOE),
    "llama4_text": ("llama4_text", _LLAMA4),
    "gemma3n_text": ("gemma3n_text", _GEMMA3N),
    "gemma4_text": ("gemma4_text", _GEMMA4),
    "mllama_text_model": ("mllama_text_model", _MLLAMA),
    "lfm2": ("lfm2", _LFM2),
}
"""By the ``model_type`` of the part: the family that reads it, and its defaults."""
