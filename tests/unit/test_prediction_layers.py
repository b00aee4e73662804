"""Layers for multi-token prediction by name, config and file, and ``roofline predict --draft mtp`` with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from model_files import F16, GgufWriter, llama_tensors, llama_values, safetensors_file

from pytest_roofline.architecture import Architecture
from pytest_roofline.cli import main
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.predict import inventory_in
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.readers.safetensors_file import read_safetensors
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.models import model_named

GLM = {
    "model_type": "glm4_moe",
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "vocab_size": 128,
    "attention_bias": False,
    "use_qk_norm": False,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 1,
    "torch_dtype": "float16",
}
ERNIE = {
    "model_type": "ernie4_5_moe",
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "moe_num_experts": 4,
    "moe_k": 2,
    "moe_layer_start_index": 1,
    "moe_layer_interval": 1,
    "vocab_size": 128,
    "use_bias": False,
    "tie_word_embeddings": True,
}
# Attention, feed-forward of one expert and of a shared one, router, six norms of which three join and end, projection.
GLM_LAYER = 64 * (64 + 32 + 32 + 64) + 3 * 64 * 32 * (4 + 1) + 4 * 64 + 5 * 64 + 2 * 64 * 64


def ahead(model: Architecture) -> int:
    """Parameters of the layers that predict."""
    return sum(weight.elements for weight in model.prediction_weights)


@pytest.mark.parametrize(
    ("name", "table", "checkpoint"),
    [
        # DeepSeek's README_WEIGHTS.md: 11.5B; the hub counts these parameters in BF16 and in FP8.
        ("deepseek-v3-r1", 129280 * 7168, 3_918_786_560 + 680_571_043_840),
        # The hub counts these in BF16 (and the routers' corrections in FP32, which are no parameters here).
        ("glm-4.5-air", 151552 * 4096, 110_468_818_944),
    ],
)
def test_a_checkpoint_is_the_model_its_prediction_layer_and_two_copies(name: str, table: int, checkpoint: int) -> None:
    """To the last parameter: a copy of the embedding and one of the head stand in the layer too."""
    model = model_named(name)
    assert model.parameters + ahead(model) + 2 * table == checkpoint
    assert {layer for weight in model.prediction_weights for layer in weight.layers} == {model.layers}


def test_the_prediction_layer_of_deepseek_v3_is_as_published() -> None:
    """11.5B unique parameters and 2.4B active with table and head, which leaves the projection of 0.1B out."""
    model = model_named("deepseek-v3-r1")
    projection = 2 * 7168**2
    assert round((ahead(model) - projection) / 1e9, 1) == 11.5
    active = sum(weight.elements * (8 / 256 if weight.experts == 256 else 1) for weight in model.prediction_weights)
    assert round((active - projection + 2 * 129280 * 7168) / 1e9, 1) == 2.4


@pytest.mark.parametrize("name", ["deepseek-v3-r1", "glm-4.5-air", "qwen3.5-27b", "qwen3.5-35b-a3b", "qwen3.6-27b"])
def test_a_model_drafts_with_its_own_layers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each pass reads the layer and the head once more, and the memory holds the layer only then."""
    model = model_named(name)
    head = next(weight.elements for weight in model.weights if weight.part == "head")

    def predicted(*more: str) -> dict[str, Any]:
        assert main(["predict", name, "--bandwidth", "4TB/s", "--weights", "bf16", "--json", *more]) == 0
        return dict(json.loads(capsys.readouterr().out))

    alone, drafted = predicted(), predicted("--draft", "mtp", "--draft-tokens", "1", "--tokens-per-pass", "1.5")
    routed = {weight.experts: weight.experts_per_token for weight in model.weights if weight.use == "routed"}
    read = head + sum(
        weight.elements * ((routed.get(weight.experts) or weight.experts) / weight.experts)
        for weight in model.prediction_weights
    )
    assert drafted["draft_bytes_per_pass"] == pytest.approx(2 * read)
    assert drafted["memory_needed_bytes"] - alone["memory_needed_bytes"] == pytest.approx(2 * ahead(model))
    assert drafted["weight_bytes_total"] == alone["weight_bytes_total"]


def test_a_mix_counts_the_other_layers_as_ever() -> None:
    """Which layers of a GGUF mix get more bits does not depend on a layer that converters leave out."""
    model = model_named("glm-4.5-air")
    without = replace(model, weights=tuple(each for each in model.weights if each not in model.prediction_weights))
    totals = {inventory_in(each, "q4_k_m", None, Catalogue()).total_bytes for each in (model, without)}
    assert len(totals) == 1


def test_ernie_predicts_with_an_ordinary_block() -> None:
    """Two norms, a projection, attention, a dense feed-forward and its norms; without the key nothing."""
    model = read_config(ERNIE | {"num_nextn_predict_layers": 1})
    assert ahead(model) == 2 * 64 + 2 * 64 * 64 + 64 * (64 + 32 + 32 + 64) + 3 * 64 * 96 + 2 * 64
    assert ahead(read_config(ERNIE)) == 0


@pytest.mark.parametrize("count", [-1, 20_000, "one"])
def test_an_absurd_number_of_prediction_layers_is_an_error(count: Any) -> None:
    """With the key."""
    with pytest.raises(RooflineUsageError, match="num_nextn_predict_layers"):
        read_config(GLM | {"num_nextn_predict_layers": count})


def checkpoint(model: Architecture) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Every tensor that an architecture describes, and the copies of table and head in the layer that predicts."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.layers.2.embed_tokens.weight": ("F16", (128, 64)),
        "model.layers.2.shared_head.head.weight": ("F16", (128, 64)),
    }
    for weight in model.weights:
        for layer in weight.layers or (0,):
            name = weight.name.replace("*", str(layer), 1)
            for expert in range(weight.experts):
                tensors[f"{name.replace('*', str(expert))}.weight"] = ("F16", weight.shape)
    return tensors


@pytest.mark.parametrize("is_said", [True, False])
def test_a_checkpoint_drafts_as_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_said: bool) -> None:
    """Whether config.json says how many layers predict or not: the tensors behind the last layer are there."""
    described = read_config(GLM)
    config = GLM if is_said else {key: value for key, value in GLM.items() if key != "num_nextn_predict_layers"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors_file(checkpoint(described)))
    model = read_safetensors(file)
    assert ahead(model) == ahead(described) == GLM_LAYER
    assert model.parameters == described.parameters
    (tmp_path / "paper.json").write_text(json.dumps(GLM), encoding="utf-8")
    found = []
    for source in (tmp_path / "paper.json", file):
        arguments = ["predict", str(source), "--bandwidth", "4TB/s", "--draft", "mtp", "--context", "100", "--json"]
        assert main(arguments) == 0
        found.append(json.loads(capsys.readouterr().out))
    for key in ("draft_bytes_per_pass", "memory_needed_bytes", "flops_per_pass", "bytes_per_pass"):
        assert found[0][key] == pytest.approx(found[1][key]), key


def test_a_checkpoint_without_the_layers_that_its_config_says(tmp_path: Path) -> None:
    """Quantizers leave them out: nothing drafts, and nothing is missing."""
    (tmp_path / "config.json").write_text(json.dumps(GLM), encoding="utf-8")
    tensors = {name: what for name, what in checkpoint(read_config(GLM)).items() if ".layers.2." not in name}
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors_file(tensors))
    model = read_safetensors(file)
    assert model.prediction_weights == ()
    assert model.notes == read_config(GLM).notes


def test_a_gguf_file_drafts_with_its_last_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its copies of table and head are not read, the model's head is."""
    own = [
        ("blk.2.nextn.eh_proj.weight", (64, 128), F16),
        ("blk.2.nextn.enorm.weight", (64,), F16),
        ("blk.2.nextn.embed_tokens.weight", (128, 64), F16),
        ("blk.2.nextn.shared_head_head.weight", (128, 64), F16),
    ]
    tensors = [*llama_tensors(blocks=3), *own]
    file = tmp_path / "ahead.gguf"
    file.write_bytes(GgufWriter().file(llama_values(llama__block_count=3, llama__nextn_predict_layers=1), tensors))
    model = read_gguf(file)
    block = sum(weight.elements for weight in model.weights if weight.layers == (2,) and "nextn" not in weight.name)
    assert ahead(model) == block + 64 * 128 + 64
    assert (
        main(
            [
                "predict",
                str(file),
                "--bandwidth",
                "4TB/s",
                "--draft",
                "mtp",
                "--draft-tokens",
                "3",
                "--context",
                "10",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    stored = sum(weight.stored_bytes or 0 for weight in model.prediction_weights)
    head = 128 * 64 * 2
    keys = 2 * 2 * 16 * 10 * 2
    assert found["draft_bytes_per_pass"] == 3 * (stored + head + keys)


def test_a_rank_holds_one_key_head_of_four(capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen3 30B-A3B on 8 devices: 4 heads, 16 sequences of 32,768 tokens: 12.9 GB each, not 6.4."""
    where = ["--device", "h200", "--tp", "8"]
    arguments = ["predict", "qwen3-30b-a3b", *where, "--batch", "16", "--context", "32768", "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kv_bytes_per_pass"] == 48 * 2 * 1 * 128 * 2 * 32768 * 16
    assert round(found["kv_bytes_per_pass"] / 1e9, 1) == 12.9


def test_printed_division_names_the_peak_of_all_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    """The rule divides by as many peaks as there are devices."""
    assert main(["predict", "llama-3.1-8b", "--device", "h100-sxm", "--tp", "2", "--prompt", "1000"]) == 0
    assert "1,000 tokens / (2 x peak); counted exactly at least" in " ".join(capsys.readouterr().out.split())
