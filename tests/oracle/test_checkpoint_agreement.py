"""One model in three forms: transformers' config, its safetensors, and a GGUF by the ``gguf`` package agree."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from model_files import F16, GgufWriter, completed

from pytest_roofline.architecture import Architecture
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.readers.safetensors_file import read_safetensors

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}


def write_gguf(path: Path, config: Any, model: Any, architecture: str) -> None:
    """As llama.cpp's converter does: names by the package's map, experts stacked, norms in F32, the rest in F16."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    if width := getattr(config, "head_dim", None):
        writer.add_key_length(width)
        writer.add_value_length(width)
    if window := getattr(config, "sliding_window", None):
        writer.add_sliding_window(window)
    if experts := getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[architecture], config.num_hidden_layers)
    tied = config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        array = tensor.to(torch.float32 if tensor.dim() == 1 else torch.float16).numpy()
        if ".experts.gate_up_proj" in name:
            gate, up = array[:, : array.shape[1] // 2], array[:, array.shape[1] // 2 :]
            block = name.split(".")[2]
            writer.add_tensor(f"blk.{block}.ffn_gate_exps.weight", gate.copy())
            writer.add_tensor(f"blk.{block}.ffn_up_exps.weight", up.copy())
            continue
        if name.endswith(".experts.down_proj"):
            writer.add_tensor(f"blk.{name.split('.')[2]}.ffn_down_exps.weight", array)
            continue
        mapped = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert mapped is not None, name
        writer.add_tensor(mapped, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def figures(model: Architecture) -> dict[str, Any]:
    """What all forms must agree on; layers that keep alike are one whatever they are called."""
    caches: defaultdict[tuple[int, int | None, int], int] = defaultdict(int)
    for cache in model.caches:
        caches[cache.elements_per_token, cache.window, cache.flops_per_position] += cache.layers
    return {
        "parameters": model.parameters,
        "streamed": model.streamed_parameters,
        "active": model.active_parameters,
        "kv per token": model.kv_elements_per_token(),
        "caches": dict(caches),
        "layers": model.layers,
        "hidden": model.hidden,
        "context": model.max_context,
    }


@pytest.mark.parametrize(
    ("family", "architecture", "own"),
    [
        ("llama", "llama", {"tie_word_embeddings": False}),
        ("llama", "llama", {"tie_word_embeddings": True, "head_dim": 32}),
        ("qwen2", "qwen2", {"tie_word_embeddings": True}),
        ("qwen3", "qwen3", {"tie_word_embeddings": False, "head_dim": 16}),
        ("mixtral", "llama", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
        ("gemma2", "gemma2", {"head_dim": 16, "sliding_window": 32}),
        ("gemma3_text", "gemma3", {"head_dim": 16, "sliding_window": 32, "num_hidden_layers": 7}),
        ("mistral", "llama", {"sliding_window": 32, "tie_word_embeddings": False}),
    ],
)
def test_a_config_its_safetensors_and_a_gguf_agree(
    tmp_path: Path, family: str, architecture: str, own: dict[str, Any]
) -> None:
    """Parameters, those that a pass streams, KV per token, windows, and the bytes in each file."""
    config = transformers.AutoConfig.for_model(family, **{**SIZES, **own})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16)
    model.save_pretrained(tmp_path)
    write_gguf(tmp_path / "model.gguf", config, model, architecture)
    plain, saved, converted = read_config(tmp_path), read_safetensors(tmp_path), read_gguf(tmp_path / "model.gguf")
    assert figures(plain) == figures(saved) == figures(converted)
    assert plain.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert sum(weight.stored_bytes or 0 for weight in saved.weights) == 2 * plain.parameters
    by_package = sum(int(tensor.n_bytes) for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors)
    assert sum(weight.stored_bytes or 0 for weight in converted.weights) == by_package
    assert {weight.use for weight in plain.weights} == {weight.use for weight in converted.weights}
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == family


def kept(model: Architecture) -> dict[tuple[object, ...], int]:
    """Layers by what they keep and compute per token, whatever the groups are called."""
    layers: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for cache in model.caches:
        what = (cache.elements_per_token, cache.window, cache.chunk, cache.state_elements, cache.flops_per_position)
        layers[what] += cache.layers
    return dict(layers)


def kept_by_gguf(path: Path, config: Any, architecture: str, keys: dict[str, int], tensors: Any) -> dict[Any, int]:
    """The same by the metadata of a GGUF of that config, whose blocks hold `tensors` and what else they need."""
    blocks = config.num_hidden_layers
    keys = {"block_count": blocks, "embedding_length": config.hidden_size, **keys}
    values = {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in keys.items()}}
    listed = [("token_embd.weight", (32, 64), F16)]
    listed += [(f"blk.{block}.{name}", shape, F16) for block in range(blocks) for name, shape in tensors(block).items()]
    path.write_bytes(GgufWriter().file(values, completed(values, listed)))
    return kept(read_gguf(path))


@pytest.mark.parametrize(
    ("family", "architecture", "own", "keys"),
    [
        ("gpt_oss", "gpt-oss", {}, {}),
        ("cohere2", "cohere2", {}, {}),
        ("olmo3", "olmo2", {}, {}),
        ("llama4_text", "llama4", {}, {}),
        ("exaone4", "exaone4", {"num_hidden_layers": 64, "sliding_window": 4096, "sliding_window_pattern": 4}, {}),
        ("gemma3n_text", "gemma3n", {}, {"attention.shared_kv_layers": 15}),
        ("phi3", "phi3", {"sliding_window": 2047}, {}),
        ("qwen3_moe", "qwen3moe", {}, {}),
        ("smollm3", "smollm3", {}, {}),
    ],
)
def test_full_sizes_keep_what_their_configs_say(
    tmp_path: Path, family: str, architecture: str, own: dict[str, Any], keys: dict[str, int]
) -> None:
    """Windows, chunks and shared keys by the metadata of a GGUF are those of transformers' default config."""
    config = transformers.AutoConfig.for_model(family, **own)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    keys = {
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": width,
        "attention.value_length": width,
        **keys,
    }
    if window := getattr(config, "sliding_window", None):
        keys["attention.sliding_window"] = window
    found = kept_by_gguf(
        tmp_path / "m.gguf",
        config,
        architecture,
        keys,
        lambda _: {"attn_k.weight": (config.num_key_value_heads * width, 1)},
    )
    assert found == kept(read_config(config))


def test_a_latent_is_kept_as_its_config_says(tmp_path: Path) -> None:
    """DeepSeek V3 at full size."""
    config = transformers.AutoConfig.for_model("deepseek_v3")
    keys = {
        "attention.head_count": config.num_attention_heads,
        "attention.kv_lora_rank": config.kv_lora_rank,
        "rope.dimension_count": config.qk_rope_head_dim,
        "attention.key_length_mla": config.qk_nope_head_dim + config.qk_rope_head_dim,
        "attention.value_length_mla": config.v_head_dim,
    }
    found = kept_by_gguf(tmp_path / "m.gguf", config, "deepseek2", keys, lambda _: {"attn_kv_a_mqa.weight": (576, 1)})
    assert found == kept(read_config(config))


@pytest.mark.parametrize("family", ["mamba", "qwen3_next"])
def test_a_state_is_kept_as_its_config_says(tmp_path: Path, family: str) -> None:
    """A Mamba at full size, and a hybrid of gated delta nets and attention."""
    config = transformers.AutoConfig.for_model(family)
    if family == "mamba":
        keys = {
            "conv_kernel": config.conv_kernel,
            "inner_size": config.intermediate_size,
            "state_size": config.state_size,
        }
    else:
        keys = {
            "conv_kernel": config.linear_conv_kernel_dim,
            "inner_size": config.linear_num_value_heads * config.linear_value_head_dim,
            "state_size": config.linear_key_head_dim,
            "group_count": config.linear_num_key_heads,
        }
    keys = {f"ssm.{name}": value for name, value in keys.items()}
    rows = 0
    if family == "qwen3_next":
        rows = config.num_key_value_heads * config.head_dim
        keys |= {
            "attention.head_count": config.num_attention_heads,
            "attention.head_count_kv": config.num_key_value_heads,
        }
        keys |= {"attention.key_length": config.head_dim, "attention.value_length": config.head_dim}

    def tensors(block: int) -> dict[str, tuple[int, ...]]:
        is_full = rows and config.layer_types[block] == "full_attention"
        return {"attn_k.weight": (rows, 1)} if is_full else {"ssm_out.weight": (64, 64)}

    found = kept_by_gguf(tmp_path / "m.gguf", config, family.replace("_", ""), keys, tensors)
    assert found == kept(read_config(config))
