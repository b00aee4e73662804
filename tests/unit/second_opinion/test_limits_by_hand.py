"""A second opinion on floors and limits: no correct implementation may beat them, however it works."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from by_hand import (
    BLOCKS_8B,
    HEAD_8B,
    LLAMA_7B,
    LLAMA_8B,
    MIXTURES,
    VECTORS_8B,
    Command,
    Text,
    amount,
    streamed,
)


def test_double_quantization_counts_its_scales_over_the_whole_tensor(predicted: Command) -> None:
    """A float32 per 256 blocks of 64 elements of the flattened matrix, not one or more for each row of 4,096."""
    found = predicted("llama-3.1-8b --weights nf4-dq --bandwidth 2TB/s")
    expected = BLOCKS_8B * (4 + 8 / 64 + 32 / 16384) / 8 + 2 * (HEAD_8B + VECTORS_8B)
    # An offset and a table of 256 float32 for each of the 224 matrices may be counted as well.
    assert expected <= found["weight_bytes_per_pass"] <= expected + 224 * 4 * 257


def test_a_card_of_12_gb_holds_what_ran_on_it(predicted: Command) -> None:
    """gpt-oss-20b in llama.cpp's MXFP4 file (12.1e9 bytes) runs on an RTX 3060, whose driver reports 12,288 MiB."""
    assert predicted("gpt-oss-20b --device rtx-3060 --weights mxfp4_moe")["fits"] is True


def test_compute_of_quantized_weights_is_bounded_by_the_fastest_units(predicted: Command) -> None:
    """llama.cpp multiplies Q4_0 by 8-bit activations on int8 tensor cores: the bf16 peak is no bound on them."""
    found = predicted("llama-2-7b --device 'RTX 4090' --weights q4_0 --batch 4096")
    flops = 4096 * 2 * (LLAMA_7B[0] + LLAMA_7B[1])
    assert found["limit_tokens_per_s"] >= 4096 / (flops / 660.6e12) * (1 - 1e-6)


def test_prefill_of_gpt_oss_on_a_b200_is_bounded_by_its_fp8_units(predicted: Command) -> None:
    """TensorRT-LLM and vLLM multiply MXFP4 by MXFP8: the floor may not rest on the bf16 peak."""
    found = predicted("gpt-oss-120b --device b200 --prompt 8000")
    assert found["prefill_floor_s"] <= found["prefill_flops"] / 4.5e15 * 1.001


def test_a_state_in_the_dtype_of_the_model_is_not_impossible(predicted: Command) -> None:
    """64 sequences of Qwen3-Next with bfloat16 states read less than the limit allows for."""
    found = predicted("qwen3-next-80b-a3b --device h200 --batch 64")
    one_token = predicted("qwen3-next-80b-a3b --device h200")["weight_bytes_per_pass"]
    state = 36 * (32 * 128 * 128 + 4 * (2 * 16 * 128 + 32 * 128)) * 2
    assert found["limit_tokens_per_s"] >= 64 * 4.8e12 / (one_token + 64 * 2 * state) * (1 - 1e-9)


def test_a_block_with_one_mixer_has_one_all_reduce(predicted: Command) -> None:
    """118 blocks, each either Mamba, attention or feed-forward: 118 all-reduces, not 236."""
    found = predicted("nemotron-h-56b --tp 8 --bandwidth 3.35TB/s --link 450GB/s --link-latency 1ms")
    assert found["link_s"] == pytest.approx(118 * (1e-3 + 2 * 7 / 8 * 8192 * 2 / 450e9), rel=1e-6)


def test_a_parallel_residual_has_one_all_reduce(predicted: Command, tmp_path: Any) -> None:
    """GPT-NeoX adds attention and feed-forward to the same residual: one sum over the ranks is enough."""
    config = {
        "model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
        "num_attention_heads": 64, "vocab_size": 50432, "tie_word_embeddings": False,
        "use_parallel_residual": True, "torch_dtype": "float16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = predicted(f"{tmp_path}/config.json --tp 2 --bandwidth 1TB/s --link 100GB/s --link-latency 1ms")
    assert found["link_s"] == pytest.approx(44 * (1e-3 + 6144 * 2 / 100e9), rel=1e-6)


def test_a_text_prompt_skips_cross_attention(predicted: Command, tmp_path: Any) -> None:
    """Llama 3.2 11B Vision on text alone reads its 32 self-attention layers: no more than Llama 3.1 8B."""
    text = {
        "model_type": "mllama_text_model", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38], "tie_word_embeddings": False,
    }  # fmt: skip
    config = {"model_type": "mllama", "torch_dtype": "bfloat16", "text_config": text, "vision_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = predicted(f"{tmp_path}/config.json --bandwidth 1TB/s")
    assert found["limit_tokens_per_s"] >= 1e12 / (2 * streamed(LLAMA_8B)) * (1 - 1e-9)


def test_the_token_after_a_full_chunk_starts_anew(predicted: Command) -> None:
    """With 8,192 tokens cached the next one has position 8,192, the first of its chunk: it sees no cached position."""
    found = predicted("llama-4-scout --context 8192 --bandwidth 1TB/s")
    assert found["kv_bytes_per_pass"] == 2 * 2 * 8 * 128 * 12 * 8192


def test_the_least_bytes_of_a_draft_are_those_of_one_token(predicted: Command) -> None:
    """The limit takes the experts of one token, the draft's too."""
    found = predicted("qwen3-235b-a22b --draft qwen3-30b-a3b --draft-tokens 2 --batch 32 --bandwidth 8TB/s")
    alone = predicted("qwen3-235b-a22b --bandwidth 8TB/s")["least_bytes_per_pass"]
    shared, expert, _, chosen, _ = MIXTURES["qwen3-30b-a3b"]
    assert found["least_bytes_per_pass"] == pytest.approx(alone + 2 * 2 * (shared + expert * chosen), rel=1e-9)


def test_the_floor_of_a_prefill_counts_the_least_experts(predicted: Command) -> None:
    """Four prompt tokens that are alike route alike: two experts of eight are read."""
    found = predicted("mixtral-8x7b --device h200 --prompt 4")
    shared, expert, _, chosen, _ = MIXTURES["mixtral-8x7b"]
    assert found["prefill_floor_s"] <= 2 * (shared + expert * chosen) / 4.8e12 * (1 + 1e-9)


def test_one_link_is_the_slowest(predicted: Command) -> None:
    """2.78 s between devices and 0.11 s on the spill path: only one of them sets the pace."""
    found = predicted("llama-3.1-70b --device h100-sxm --tp 2 --offload 0.1 --link 1MB/s --link-latency 1ms")
    named = [note for note in found["notes"] if note.startswith("the slowest link")]
    assert len(named) == 1, named


def test_a_suggested_number_of_devices_divides_the_heads(predicted: Command) -> None:
    """Tensor parallel ranks hold whole heads: of 64, 3 devices hold none evenly."""
    found = predicted("qwen2.5-72b --device 'RTX 4090' --weights q4_k_m --context 8000")
    devices = [int(m[1]) for note in found["notes"] if (m := re.match(r"would fit: (\d+) such devices", note))]
    assert devices
    assert 64 % devices[0] == 0


def test_the_own_draft_of_deepseek_v3_by_name(predicted: Command) -> None:
    """Its config says num_nextn_predict_layers: 1, and the layer's sizes follow from the others."""
    found = predicted("deepseek-v3-r1 --device h200 --tp 8 --draft mtp")
    assert found["draft_bytes_per_pass"] > 0


def test_no_figure_is_printed_with_an_exponent(printed: Text) -> None:
    """1,000 FLOP/byte is printed as a reader would write it."""
    text = printed("--params 70B --bandwidth 3.35TB/s --peak 989TFLOP/s --batch 1000")
    assert re.search(r"\de[+-]\d", text) is None


def test_the_limit_of_mla_on_ranks_allows_for_divided_latents(predicted: Command) -> None:
    """Data-parallel attention and decode context parallelism let each of 8 ranks read an eighth of the latents."""
    found = predicted("deepseek-v3-r1 --device h200 --tp 8 --batch 128 --context 30000 --weights fp8-block")
    latents = 128 * 30000 * 61 * 576 * 2
    least = predicted("deepseek-v3-r1 --device h200 --weights fp8-block")["least_bytes_per_pass"]
    assert found["limit_tokens_per_s"] >= 128 * 4.8e12 / ((least + latents) / 8) * (1 - 1e-9)


def test_the_least_in_the_note_is_below_the_expected(predicted: Command) -> None:
    """``82.5 GB of weights ... are the expectation; the least is 275 GB``: the second figure has the cache in it."""
    found = predicted("deepseek-v3-r1 --device h200 --tp 8 --batch 128 --context 30000 --weights fp8-block")
    note = next(note for note in found["notes"] if "are the expectation" in note)
    expected = re.match(r"([\d.]+ [kMGT]?B) of weights", note)
    least = re.search(r"the least is ([\d.]+ [kMGT]?B)", note)
    assert expected is not None
    assert least is not None
    assert amount(least[1]) < amount(expected[1])
