"""Whole multimodal checkpoints: text model, tower and projector add up to what the published files hold.

The sizes are those of each model's published config.json, the totals those of its published safetensors files.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_hybrid_reader_published import GEMMA3_27B, SCOUT

from pytest_roofline.readers.config import read_config

QWEN2_VL_2B = {
    "model_type": "qwen2_vl",
    "vocab_size": 151936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "in_chans": 3, "hidden_size": 1536},
}
QWEN2_5_VL_7B = {
    "model_type": "qwen2_5_vl",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "out_hidden_size": 3584,
        "in_chans": 3,
    },
}
QWEN3_VL_8B = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_text",
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "out_hidden_size": 4096,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    },
}
LLAMA_3_2_11B_VISION = {
    "model_type": "mllama",
    "text_config": {"model_type": "mllama_text_model"},
    "vision_config": {"model_type": "mllama_vision_model", "image_size": 560},
}
LLAVA_1_5_7B = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "image_size": 336,
        "patch_size": 14,
    },
}
MISTRAL_SMALL_3_1 = {
    "model_type": "mistral3",
    "multimodal_projector_bias": False,
    "spatial_merge_size": 2,
    "text_config": {
        "model_type": "mistral",
        "vocab_size": 131072,
        "hidden_size": 5120,
        "intermediate_size": 32768,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "patch_size": 14},
}
LLAMA_4_SCOUT = {
    **SCOUT,
    "vision_config": {
        "hidden_size": 1408,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "image_size": 336,
        "patch_size": 14,
        "vision_output_dim": 4096,
    },
}
GEMMA3_4B = {
    **GEMMA3_27B,
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
}


@pytest.mark.parametrize(
    ("config", "total"),
    [
        pytest.param(QWEN2_VL_2B, 2_208_985_600, id="Qwen2-VL 2B"),
        pytest.param(QWEN2_5_VL_7B, 8_292_166_656, id="Qwen2.5-VL 7B"),
        pytest.param(QWEN3_VL_8B, 8_767_123_696, id="Qwen3-VL 8B"),
        pytest.param(LLAMA_3_2_11B_VISION, 10_670_220_835, id="Llama 3.2 11B Vision"),
        pytest.param(LLAVA_1_5_7B, 7_063_427_072, id="LLaVA 1.5 7B"),
        pytest.param(MISTRAL_SMALL_3_1, 24_011_361_280, id="Mistral Small 3.1 24B"),
        pytest.param(LLAMA_4_SCOUT, 108_641_793_536, id="Llama 4 Scout"),
        pytest.param(GEMMA3_4B, 4_300_079_472, id="Gemma 3 4B"),
        pytest.param(GEMMA3_27B, 27_432_406_640, id="Gemma 3 27B"),
    ],
)
def test_a_whole_checkpoint_adds_up(config: dict[str, Any], total: int) -> None:
    """Every parameter in the files, whether text decoding touches it or not."""
    architecture = read_config(config)
    assert architecture.parameters + architecture.idle_parameters == total
    assert architecture.idle_parameters > 0
