"""Readers of configs against transformers: parameters, streamed parameters and KV caches agree exactly."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from golden_families import ATTENTION  # noqa: E402
from golden_families import named as family_of  # noqa: E402
from meta_oracle import build, in_order, latent_elements, layer_caches, measure, reader_layers  # noqa: E402

from pytest_roofline.architecture import Architecture  # noqa: E402
from pytest_roofline.readers.config import known_families, read_config, read_family  # noqa: E402
from pytest_roofline.readers.defaults import DEFAULTS  # noqa: E402
from pytest_roofline.readers.fields import Fields  # noqa: E402

SMALL: dict[str, Any] = {
    **{"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "intermediate_size": 112, "max_position_embeddings": 64, "pad_token_id": 0},
}
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
DEEP = {"n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
MLA = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 12}
INDEX = {"index_topk": 7, "index_head_dim": 20, "index_n_heads": 3}
GPT = {"n_embd": 64, "n_layer": 6, "n_head": 4, "n_positions": 64, "vocab_size": 96}
OLD = {"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 112}

CLASSIC = ("gpt2", "gpt_bigcode", "gpt_neox", "bloom", "falcon", "opt", "mpt")
"""Families with keys of their own."""

SMALLS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24, "tie_word_embeddings": True}),
    ("mistral", {"sliding_window": 8}),
    ("mistral", {"sliding_window": None, "num_key_value_heads": 4, "head_dim": 16}),
    ("ministral", {"sliding_window": 8, "head_dim": 16}),
    ("ministral3", {"head_dim": 16}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 4}),
    ("qwen2", {"sliding_window": 8, "max_window_layers": 4, "tie_word_embeddings": True}),
    ("qwen3", {"head_dim": 24, "attention_bias": True}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    ("phi", {}),
    ("phi", {"qk_layernorm": True, "num_key_value_heads": None}),
    ("phi3", {"sliding_window": 8}),
    ("gemma", {"head_dim": 24}),
    ("gemma2", {"sliding_window": 8, "head_dim": 24, "attention_bias": True}),
    ("gemma3_text", {"sliding_window": 8, "head_dim": 24}),
    ("gemma3_text", {"sliding_window": 8, "sliding_window_pattern": 2}),
    ("vaultgemma", {"sliding_window": 8}),
    ("olmo", {"attention_bias": True}),
    ("olmo2", {}),
    ("olmo3", {"sliding_window": 8}),
    ("granite", {"mlp_bias": True}),
    ("smollm3", {}),
    ("smollm3", {"use_sliding_window": True, "sliding_window": 8}),
    ("starcoder2", {"sliding_window": 8}),
    ("starcoder2", {"use_bias": False, "tie_word_embeddings": False}),
    ("stablelm", {}),
    ("stablelm", {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}),
    ("cohere", {}),
    ("cohere", {"use_qk_norm": True, "attention_bias": True}),
    ("cohere2", {"sliding_window": 8}),
    ("nemotron", {"mlp_bias": True, "attention_bias": True, "head_dim": 24}),
    ("glm", {"head_dim": 16}),
    ("glm4", {"head_dim": 24, "attention_bias": False}),
    ("exaone4", {"sliding_window": 8}),
    ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 6}),
    ("ernie4_5", {"use_bias": True, "head_dim": 24}),
    ("hunyuan_v1_dense", {"head_dim": 24, "attention_bias": True}),
    ("seed_oss", {"head_dim": 24, "attention_out_bias": True, "mlp_bias": True}),
    ("arcee", {"mlp_bias": True}),
    ("helium", {"head_dim": 16, "attention_bias": True, "mlp_bias": True}),
    ("apertus", {}),
    ("cwm", {"sliding_window": 8, "head_dim": 16}),
    ("jais2", {"head_dim": 16}),
    ("nanochat", {"attention_bias": True}),
    ("gpt2", GPT),
    ("gpt2", {**GPT, "n_inner": 80, "tie_word_embeddings": False}),
    ("gpt_bigcode", GPT),
    ("gpt_bigcode", {**GPT, "multi_query": False}),
    ("gpt_neox", {**OLD, "attention_bias": False}),
    ("gpt_neox", {**OLD, "tie_word_embeddings": True}),
    ("bloom", {"vocab_size": 96, "hidden_size": 64, "n_layer": 6, "n_head": 4}),
    ("falcon", {**OLD, "bias": True, "parallel_attn": False, "multi_query": False}),
    ("falcon", {**OLD, "ffn_hidden_size": 80, "tie_word_embeddings": False}),
    ("falcon", {**OLD, "new_decoder_architecture": True, "num_kv_heads": 4}),
    ("falcon", {**OLD, "new_decoder_architecture": True, "num_kv_heads": 4, "num_ln_in_parallel_attn": 1}),
    ("opt", {**OLD, "ffn_dim": 80, "max_position_embeddings": 64}),
    ("opt", {**OLD, "ffn_dim": 80, "word_embed_proj_dim": 32, "do_layer_norm_before": False, "enable_bias": False}),
    ("opt", {**OLD, "ffn_dim": 80, "layer_norm_elementwise_affine": False}),
    ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 6, "vocab_size": 96, "max_seq_len": 64}),
    ("mixtral", {"sliding_window": 8}),
    ("mixtral", {"head_dim": 24, "num_local_experts": 5, "num_experts_per_tok": 3}),
    ("phimoe", {"lm_head_bias": True, "attention_bias": True}),
    ("minimax_m2", {"num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 24}),
    ("olmoe", {"num_experts": 6, "num_experts_per_tok": 2}),
    ("flex_olmo", {}),
    ("qwen2_moe", {**MOE, "num_experts": 6, "decoder_sparse_step": 2, "mlp_only_layers": [3]}),
    ("qwen2_moe", {**MOE, "num_experts": 6, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 4}),
    ("qwen3_moe", {**MOE, "num_experts": 6, "head_dim": 24, "mlp_only_layers": [0, 2]}),
    ("qwen3_moe", {**MOE, "num_experts": 6, "use_sliding_window": True, "sliding_window": 8}),
    ("granitemoe", {}),
    ("granitemoeshared", {"shared_intermediate_size": 40}),
    ("gpt_oss", {"sliding_window": 8, "num_local_experts": 6, "head_dim": 24}),
    ("hunyuan_v1_moe", {"head_dim": 24, "attention_bias": True, "num_experts": 6, "moe_topk": 2}),
    ("hunyuan_v1_moe", {"head_dim": 16, "num_experts": 5, "moe_topk": 3, "tie_word_embeddings": True}),
    ("ernie4_5_moe", {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 24, "moe_layer_end_index": 4}),
    ("ernie4_5_moe", {"moe_num_experts": 6, "moe_k": 2, "moe_layer_interval": 2, "use_bias": True}),
    ("glm4_moe", {**MOE, **DEEP, "use_qk_norm": True, "attention_bias": True, "head_dim": 24}),
    ("dots1", {**MOE, **DEEP, "sliding_window": 8, "max_window_layers": 4}),
    ("solar_open", {**MOE, **DEEP, "head_dim": 24}),
    ("solar_open", {**MOE, **DEEP, "head_dim": 24, "attention_bias": True}),
]
"""Switches on and off, widths that divide nothing by chance."""

LATENTS: list[tuple[str, dict[str, Any]]] = [
    ("deepseek_v2", {**MOE, **DEEP, **MLA, "num_key_value_heads": 4}),
    ("deepseek_v2", {**MOE, **DEEP, **MLA, "q_lora_rank": None, "mlp_bias": True, "attention_bias": True}),
    ("deepseek_v3", {**MOE, **DEEP, **MLA, "num_key_value_heads": 4}),
    ("deepseek_v3", {**MOE, **DEEP, **MLA, "q_lora_rank": None, "attention_bias": True, "first_k_dense_replace": 9}),
    ("glm4_moe_lite", {**MOE, **DEEP, **MLA, "num_key_value_heads": 4}),
    ("glm4_moe_lite", {**MOE, **DEEP, **MLA, "mlp_layer_types": ["dense", "sparse"] * 3}),
    ("deepseek_v32", {**MOE, **DEEP, **MLA, **INDEX, "num_key_value_heads": 4, "attention_bias": True}),
    ("deepseek_v32", {**MOE, **DEEP, **MLA, **INDEX, "num_key_value_heads": 4, "first_k_dense_replace": 6}),
    ("glm_moe_dsa", {**MOE, **DEEP, **MLA, **INDEX, "num_key_value_heads": 4}),
    ("glm_moe_dsa", {**MOE, **DEEP, **MLA, **INDEX, "num_key_value_heads": 4, "index_topk_freq": 3}),
    ("glm_moe_dsa", {**MOE, **DEEP, **MLA, **INDEX, "num_key_value_heads": 4, "index_topk_pattern": "FFSSFS"}),
    ("minicpm3", {**MLA, "num_key_value_heads": 4}),
    ("youtu", {**MLA, "num_key_value_heads": 4}),
]
FUSED = (("qkv_proj", "o_proj"), ("query_key_value", "dense"), ("Wqkv", "out_proj"), ("c_attn", "c_proj"))
"""Projections of queries, keys and values in one, and the output projection beside each."""

FULL: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"vocab_size": 128256, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
               "num_attention_heads": 128, "num_key_value_heads": 8}),
    ("mistral", {"vocab_size": 32768, "hidden_size": 12288, "intermediate_size": 28672, "num_hidden_layers": 88,
                 "num_attention_heads": 96, "num_key_value_heads": 8, "sliding_window": None}),
    ("mpt", {"d_model": 7168, "n_heads": 64, "n_layers": 48, "vocab_size": 50432}),
    ("bloom", {"hidden_size": 14336, "n_layer": 70, "n_head": 112}),
    ("opt", {"hidden_size": 9216, "num_hidden_layers": 64, "num_attention_heads": 72, "ffn_dim": 36864,
             "word_embed_proj_dim": 9216}),
    ("gpt2", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    ("gpt_bigcode", {"n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "n_positions": 8192,
                     "vocab_size": 49152}),
    ("falcon", {"hidden_size": 14848, "num_hidden_layers": 80, "num_attention_heads": 232, "num_kv_heads": 8,
                "new_decoder_architecture": True, "ffn_hidden_size": 59392}),
    ("nemotron", {"hidden_size": 18432, "intermediate_size": 73728, "num_hidden_layers": 96,
                  "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 192}),
    ("dots1", {"vocab_size": 152064, "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
               "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 32, "n_shared_experts": 2,
               "n_routed_experts": 128, "num_experts_per_tok": 6, "first_k_dense_replace": 1}),
    ("glm4_moe", {"head_dim": 128, "attention_bias": True}),
    ("hunyuan_v1_dense", {"vocab_size": 128167, "intermediate_size": 14336, "num_key_value_heads": 8,
                          "head_dim": 128, "tie_word_embeddings": True}),
    ("hunyuan_v1_moe", {"vocab_size": 128167, "intermediate_size": 3072, "num_key_value_heads": 8, "head_dim": 128,
                        "num_experts": 64, "moe_topk": 8, "tie_word_embeddings": True}),
    ("ministral", {"vocab_size": 131072, "intermediate_size": 12288, "num_hidden_layers": 36, "head_dim": 128,
                   "sliding_window": 32768}),
    ("deepseek_v2", {"hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 60,
                     "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 160,
                     "num_experts_per_tok": 6, "moe_intermediate_size": 1536, "first_k_dense_replace": 1}),
]  # fmt: skip
"""Published sizes where the class defaults are none; every other family is built at its class defaults."""


def named(case: tuple[str, dict[str, Any]]) -> str:
    """An id that says what was switched."""
    return f"{case[0]}-{'-'.join(str(key) for key in list(case[1])[:3])}"


def configured(case: tuple[str, dict[str, Any]]) -> Any:
    """The transformers config of a case, small sizes first."""
    name, changes = case
    return transformers.CONFIG_MAPPING[name](**(changes if name in CLASSIC else {**SMALL, **changes}))


def check_weights(config: Any, model: Any) -> Architecture:
    """Parameters and streamed parameters agree; the architecture, for more."""
    architecture, figures = read_config(config), measure(config, model)
    assert architecture.parameters == figures.parameters
    assert architecture.streamed_parameters == pytest.approx(float(figures.streamed), rel=1e-15)
    assert round(architecture.streamed_parameters) == round(figures.streamed)
    return architecture


@pytest.mark.parametrize("case", SMALLS, ids=named)
def test_a_small_config_agrees_with_transformers(case: tuple[str, dict[str, Any]]) -> None:
    """Parameters, streamed parameters, and every layer's cache with its window."""
    config = configured(case)
    model = build(config)
    architecture = check_weights(config, model)
    assert in_order(reader_layers(architecture)) == in_order(layer_caches(config, model))


@pytest.mark.parametrize("case", LATENTS, ids=named)
def test_a_small_config_with_latent_attention_agrees(case: tuple[str, dict[str, Any]]) -> None:
    """The latent and rope key that the down projection puts out are what is kept."""
    config = configured(case)
    model = build(config)
    architecture = check_weights(config, model)
    assert architecture.kv_elements_per_token() == latent_elements(model)


@pytest.mark.parametrize("row", ATTENTION, ids=family_of)
def test_golden_figures_are_those_of_transformers(row: dict[str, Any]) -> None:
    """What holds the readers where torch is not installed."""
    changes = {key: value for key, value in row["config"].items() if key != "model_type"}
    config = transformers.CONFIG_MAPPING[family_of(row)](**changes)
    model = build(config)
    figures = measure(config, model)
    assert row["parameters"] == figures.parameters
    assert row["streamed_parameters"] == pytest.approx(float(figures.streamed), rel=1e-15)
    assert row["kv_elements_per_token"] == kept_by_width(model)


def full_cases() -> list[tuple[str, dict[str, Any]]]:
    """Every family once at full size: the published sizes above, else its class defaults."""
    given = {name for name, _ in FULL}
    return [*FULL, *((name, {}) for name in DEFAULTS if name not in given)]


@pytest.mark.parametrize("case", full_cases(), ids=lambda case: case[0])
def test_a_full_size_config_agrees_with_transformers(case: tuple[str, dict[str, Any]]) -> None:
    """Billions of parameters on the meta device, to the last one; KV per token by the widths of its projections."""
    config = transformers.CONFIG_MAPPING[case[0]](**case[1])
    model = build(config)
    architecture = check_weights(config, model)
    assert architecture.kv_elements_per_token() == kept_by_width(model)
    if not case[1]:  # a text_config is written as its difference from the class: an empty one is the class itself
        part = Fields(file="config.json", values={"model_type": case[0]}, path="text_config")
        # Layers for multi-token prediction are there only where a config says so: the class builds none.
        drafting = architecture.prediction_weights
        assert read_family(part).weights == tuple(each for each in architecture.weights if each not in drafting)


def kept_by_width(model: torch.nn.Module) -> int:
    """Elements per token that all layers keep, by the widths of what projects keys and values, together or apart."""
    separate = sum(
        module.out_features for path, module in model.named_modules() if path.endswith((".k_proj", ".v_proj"))
    )
    # A fused projection puts out the queries too, which are as wide as the residual or the output's inputs.
    fused = 0
    for module in model.modules():
        for entry, output in FUSED:
            if hasattr(module, entry):
                first, last = getattr(module, entry), getattr(module, output)
                outputs = first.bias.numel() if entry == "c_attn" else first.out_features  # GPT-2's are convolutions
                fused += outputs - (last.bias.numel() if entry == "c_attn" else last.in_features)
    return latent_elements(model) or separate or fused


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_defaults_are_those_of_the_class(name: str) -> None:
    """Every default in the table is the field default of transformers' configuration class, and none is missing."""
    fields = {field.name: field.default for field in dataclasses.fields(transformers.CONFIG_MAPPING[name])}
    for key, value in DEFAULTS[name].items():
        assert fields[key] == value, key


def test_every_family_but_kimi_has_its_class() -> None:
    """Kimi K2 is DeepSeek V3 under another name; all other families of attention models are measured above."""
    from pytest_roofline.readers import classic, dense, gemma, latent, mixture, sparse_latent

    modules = (dense, gemma, classic, mixture, latent, sparse_latent)
    families = {name for module in modules for name in module.FAMILIES}
    assert families - {"kimi_k2"} == set(DEFAULTS)
    assert families <= set(known_families())
    assert len(families) >= 32


def test_a_saved_config_reads_as_the_live_one(tmp_path: Any) -> None:
    """The file that transformers writes and the object it came from are one architecture."""
    config = configured(("qwen2_moe", {**MOE, "num_experts": 6}))
    config.save_pretrained(tmp_path)
    live, saved = read_config(config), read_config(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "qwen2_moe"
    assert (saved.weights, saved.caches) == (live.weights, live.caches)


@pytest.mark.parametrize("tied", [False, True])
def test_a_live_module_and_its_config_agree(tied: bool) -> None:
    """Weight bytes per pass of a module in memory: counted from its parameters, and from its config."""
    from pytest_roofline.backends.torch_weights import count_module

    config = transformers.LlamaConfig(**SMALL, tie_word_embeddings=tied)
    model = transformers.LlamaForCausalLM(config).to(torch.float32)
    architecture = read_config(config)
    row_bytes = 0 if tied else SMALL["hidden_size"] * 4  # the module's count has the one looked-up row in it
    assert count_module(model).bytes_per_pass == architecture.streamed_parameters * 4 + row_bytes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_live_module_tells_its_cache_by_its_config(dtype: torch.dtype) -> None:
    """With a context: what a config in the module's dtype says, in the expected bytes; the least are the weights."""
    from pytest_roofline.amounts import traffic_of
    from pytest_roofline.backends.torch import TorchBackend

    config = transformers.LlamaConfig(**SMALL, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config).to(dtype)
    kv = str(dtype).removeprefix("torch.")
    paper = traffic_of([], config, batch=2, context=100, kv=kv)
    live, short = (traffic_of([TorchBackend()], model, batch=2, context=context) for context in (100, None))
    assert (live.kv_bytes_per_pass, live.kv_bytes_per_token) == (paper.kv_bytes_per_pass, paper.kv_bytes_per_token)
    assert live.least_bytes_per_pass == short.bytes_per_pass == live.bytes_per_pass - live.kv_bytes_per_pass
    assert live.notes[0].startswith("weights counted from the parameters, the KV cache (")
    assert short.kv_bytes_per_token is None
    model.config = None
    assert traffic_of([TorchBackend()], model, batch=2, context=100).kv_bytes_per_pass == 0
