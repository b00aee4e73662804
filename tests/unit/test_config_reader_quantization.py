"""quantization_config blocks as checkpoints have them: the format, what stays plain, the cache."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_roofline.architecture import Storage, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.quantization import METHODS, divide, is_skipped
from pytest_roofline.specs.formats import format_named

LLAMA: dict[str, Any] = {
    **{"model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "torch_dtype": "bfloat16"},
}


def compressed(**weights: Any) -> dict[str, Any]:
    """A block of compressed-tensors with one group of these weights."""
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


def storage_of(block: dict[str, Any]) -> Storage:
    """What a config with this block stores."""
    storage = read_config({**LLAMA, "quantization_config": block}).storage
    assert storage is not None
    return storage


BLOCKS: list[tuple[dict[str, Any], str]] = [
    ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, "fp8-block"),
    ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8-tensor"),
    ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, "fp8-channel"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": True}, "int4-g128-sym"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False}, "int4-g32"),
    ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8-g128"),
    ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8-channel"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}, "int4-g128"),
    ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "int4-g64"),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": False}, "int4-g128-sym"),
    ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "nf4"),
    ({"_load_in_4bit": True, "quant_method": "bitsandbytes", "bnb_4bit_quant_type": "nf4",
      "bnb_4bit_use_double_quant": True}, "nf4-dq"),
    ({"load_in_4bit": True, "quant_method": "bitsandbytes"}, "bnb-fp4"),
    ({"load_in_8bit": True, "quant_method": "bitsandbytes", "load_in_4bit": False}, "bnb-int8"),
    ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "mxfp4"),
    (compressed(num_bits=8, type="float", strategy="tensor"), "fp8-tensor"),
    (compressed(num_bits=8, type="float", strategy="channel"), "fp8-channel"),
    (compressed(num_bits=8, type="float", strategy="block", block_structure=[128, 128]), "fp8-block"),
    (compressed(num_bits=4, type="float", strategy="tensor_group", group_size=16), "nvfp4"),
    (compressed(num_bits=4, type="float", strategy="group", group_size=32), "mxfp4"),
    (compressed(num_bits=4, type="int", strategy="group", group_size=128, symmetric=True), "int4-g128-sym"),
    (compressed(num_bits=4, type="int", strategy="group", group_size=128, symmetric=False), "int4-g128"),
    (compressed(num_bits=8, type="int", strategy="channel"), "int8-channel"),
    ({"config_groups": {"g": {"weights": {"num_bits": 8, "strategy": "channel"}, "input_activations": {}}}}, "w8a8"),
    ({"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}},
     "torchao-int4-g64"),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
                                                            "_data": {"group_size": 128}}}}, "torchao-int4-g128"),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}, "int8-channel"),
    ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int8_weight"}, "w8a8"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4"),
    ({"quant_algo": "FP8"}, "fp8-tensor"),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "hqq-4bit-g64"),
    ({"quant_method": "eetq", "weights": "int8"}, "int8-channel"),
    ({"quant_method": "quanto", "weights": "int4"}, "torchao-int4-g128"),
    ({"quant_method": "exl2", "bits": 4.65}, "exl2-4.65bpw"),
    ({"quant_method": "exl3", "bits": 3.0}, "exl3-3.0bpw"),
]  # fmt: skip


@pytest.mark.parametrize(("block", "expected"), BLOCKS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_block_says_its_format(block: dict[str, Any], expected: str) -> None:
    """Method, bits, groups and symmetry become the id of a format, and the library has that format."""
    storage = storage_of(block)
    assert storage.format == expected
    assert format_named(storage.format).for_weights


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (
            {"quant_method": "gtpq"},
            r"quant_method: 'gtpq' is not known \(near it: gptq\); known are awq, bitsandbytes, ",
        ),
        ({"bits": 4}, "quant_method: missing: a text is needed"),
        ({"quant_method": "gptq", "group_size": 128}, "bits: missing"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size: 0: a whole number"),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit: neither this nor load_in_8bit is true"),
        (
            {"load_in_4bit": True, "bnb_4bit_quant_type": "int4"},
            "bnb_4bit_quant_type: 'int4' is not known; nf4 and fp4",
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [64, 64]},
            r"weight_block_size: a list of 2 is not known; \[128, 128\] is",
        ),
        ({"quant_method": "exl2", "bits": 99}, "bits: 99: bits per weight from 1 to 8"),
        ({"quant_method": "torchao", "quant_type": "int1"}, "quant_type: 'int1' is not known"),
        ({"quant_method": "modelopt", "quant_algo": "W1"}, "quant_algo: 'W1' is not known; FP8, NVFP4"),
        ({"quant_method": "quanto", "weights": "int2"}, "weights: 'int2' is not known"),
        (compressed(num_bits=3, type="float"), "num_bits: float of 3 bits by tensor"),
        (compressed(num_bits=4, strategy="token"), "strategy: 'token' is not known"),
        (compressed(num_bits=4, type="complex"), "type: 'complex' is not known"),
        (compressed(num_bits=8, type="float", strategy="block", block_structure=[1, 2]), "block_structure: "),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "config_groups: one format .*; found none"),
        ({"quant_method": "mxfp4", "kv_cache_scheme": {"num_bits": 3}}, r"num_bits: a cache of 3 bits \(float\)"),
        ({"quant_method": "mxfp4", "kv_cache_quant_algo": "X"}, "kv_cache_quant_algo: 'X' is not known; FP8, INT8"),
        ({"quant_method": "mxfp4", "ignore": [3]}, "ignore: 3: a list of module paths is needed"),
        ({"quant_method": "mxfp4", "ignore": ["re:("]}, r"ignore: '\(' is no regular expression"),
        (
            {"quant_method": "mxfp4", "ignore": ["re:a{2}"]},
            r"ignore: 'a\{2\}' is no regular expression that is known here",
        ),
        ({"quant_method": "mxfp4", "ignore": ["re:(?!a)"]}, r"ignore: '.*' is no .*: '\(\?' is known as '\(\?:' only"),
        ({"quant_method": "mxfp4", "ignore": ["*" * 257]}, "ignore: .*: a pattern of over 256 characters is not read"),
        (
            {"quant_method": "mxfp4", "ignore": [f"*a{number}*b" for number in range(9000)]},
            r"ignore: 9,000 paths, 9,000 of them patterns with [\d,]+ characters; at most 65,536 and 32,768 are read",
        ),
    ],
)
def test_a_block_that_is_not_known_is_refused(block: dict[str, Any], problem: str) -> None:
    """A method, a combination or a value without a format: the error names file, key and what is known."""
    with pytest.raises(RooflineUsageError, match=rf"^config: quantization_config\.(?:[\w.]+\.)?{problem}"):
        storage_of(block)


def test_two_groups_stored_apart_are_refused() -> None:
    """A checkpoint of two formats has no single answer."""
    groups = {"a": {"weights": {"num_bits": 8, "strategy": "channel"}},
              "b": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 128}}}  # fmt: skip
    with pytest.raises(RooflineUsageError, match="found int8-channel, int4-g128-sym"):
        storage_of({"quant_method": "compressed-tensors", "config_groups": groups})


def test_the_cache_has_a_format_of_its_own() -> None:
    """compressed-tensors and ModelOpt may quantize the KV cache too; others leave it."""
    group = compressed(num_bits=8, type="float", strategy="tensor")
    assert storage_of({**group, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}).kv_format == "fp8"
    assert storage_of({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}).kv_format == "fp8"
    assert storage_of({"quant_method": "awq"}).kv_format is None
    assert all(format_named(name).for_kv for name in ("fp8", "int8", "nvfp4"))


def test_a_block_may_stand_in_the_text_part_or_under_its_old_name() -> None:
    """Multimodal checkpoints keep it in text_config, older ones called it compression_config."""
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    nested = read_config({**LLAMA, "text_config": {"quantization_config": block}}).storage
    old = read_config({**LLAMA, "compression_config": compressed(num_bits=8, type="float")}).storage
    assert nested is not None
    assert nested.source == "quantization_config (fp8)"
    assert old is not None
    assert old.format == "fp8-tensor"
    assert read_config(LLAMA).storage is None


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("lm_head", "lm_head", True),
        ("mlp.gate", "model.layers.*.mlp.gate", True),
        ("mlp.gate", "model.layers.*.mlp.gate_proj", False),
        ("model.layers.0", "model.layers.0.self_attn.q_proj", True),
        ("model.layers.1", "model.layers.10.self_attn.q_proj", False),
        ("model.layers.*.self_attn", "model.layers.7.self_attn.q_proj", True),
        ("model.layers.*.self_attn", "model.layers.7.mlp.experts.*.up_proj", False),
        ("lm_head*", "lm_head", True),
        ("*router*", "model.layers.3.mlp.router", True),
        ("visual", "model.visual.blocks.*.attn.qkv", True),
        ("re:.*lm_head", "lm_head", True),
        (r"re:.*mlp\.gate$", "model.layers.3.mlp.gate", True),
        (r"re:.*mlp\.gate$", "model.layers.3.mlp.gate_proj", False),
    ],
)
def test_a_skipped_path_stands_for_what_is_below_it(pattern: str, name: str, expected: bool) -> None:
    """Whole dotted words, anywhere; ``*`` for anything; ``re:`` for an expression."""
    assert is_skipped(Storage(format="fp8", skipped=("other", pattern)), name) is expected


def test_a_weight_is_divided_by_layer() -> None:
    """A checkpoint that leaves its first and last layer plain: both shares add up to the weight."""
    weight = Weight(
        name="model.layers.*.mlp.experts.*.up_proj", part="ffn_up", shape=(4, 8), use="routed", layers=(0, 1, 2, 3),
        experts=6, experts_per_token=2.0,
    )  # fmt: skip
    storage = Storage(format="fp8", skipped=("model.layers.0", "model.layers.3.mlp"))
    quantized, plain = divide(storage, weight)
    assert quantized is not None
    assert plain is not None
    assert (quantized.layers, plain.layers) == ((1, 2), (0, 3))
    assert quantized.elements + plain.elements == weight.elements
    assert divide(Storage(format="fp8"), weight) == (weight, None)
    assert divide(Storage(format="fp8", skipped=("mlp.experts",)), weight) == (None, weight)
    head = Weight(name="lm_head", part="head", shape=(4, 8), use="matrix")
    assert divide(Storage(format="fp8", skipped=("lm_head",)), head) == (None, head)
    assert divide(storage, head) == (head, None)


def test_every_method_is_tried_here() -> None:
    """No method without a block in this file."""
    tried = {block.get("quant_method") for block, _ in BLOCKS}
    assert set(METHODS) - tried <= {"modelopt_fp4"}
    assert re.fullmatch("nvfp4", storage_of({"quant_method": "modelopt_fp4"}).format)


@pytest.mark.parametrize(("layers", "experts", "gib"), [(24, 32, 12.8), (36, 128, 60.8)])
def test_gpt_oss_takes_what_its_model_card_says(layers: int, experts: int, gib: float) -> None:
    """Experts in MXFP4, all else plain: 12.8 and 60.8 GiB of checkpoint (gpt-oss model card, table 1)."""
    plain_paths = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    model = read_config(
        {
            **{"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880},
            **{"num_hidden_layers": layers, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64},
            **{"num_local_experts": experts, "num_experts_per_tok": 4, "torch_dtype": "bfloat16"},
            "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": plain_paths},
        }
    )
    assert model.storage is not None
    stored, total = format_named(model.storage.format), 0.0
    for weight in model.weights:
        quantized, plain = divide(model.storage, weight)
        total += stored.weight_bytes(quantized) if quantized else 0.0
        total += plain.elements * 2 if plain else 0.0
    assert round(total / 2**30, 1) == gib
