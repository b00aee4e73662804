"""Safetensors checkpoints as models: bytes by the files, structure by config.json, quantized layouts, bad input."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from model_files import LLAMA_CONFIG, llama_safetensors, safetensors_file

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import read_config
from pytest_roofline.readers.safetensors_file import read_safetensors
from pytest_roofline.readers.safetensors_header import SafetensorsEntry
from pytest_roofline.readers.stored_tensors import place

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def write(folder: Path, tensors: Tensors, config: Mapping[str, Any] | None = LLAMA_CONFIG) -> Path:
    """A checkpoint in one file."""
    (folder / "model.safetensors").write_bytes(safetensors_file(tensors))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def stored(model: Architecture) -> dict[str, int | None]:
    """Bytes in the files by name."""
    return {weight.name: weight.stored_bytes for weight in model.weights}


def test_bytes_come_from_the_files_and_structure_from_the_config(tmp_path: Path) -> None:
    """Everything else is what config.json alone says."""
    model = read_safetensors(write(tmp_path, llama_safetensors("F32")))
    plain = read_config(tmp_path)
    assert (model.parameters, model.streamed_parameters) == (plain.parameters, plain.streamed_parameters)
    assert (model.caches, model.layers, model.notes) == (plain.caches, plain.layers, ())
    assert sum(weight.stored_bytes or 0 for weight in model.weights) == 4 * plain.parameters
    assert {weight.stored_format for weight in model.weights} == {"fp32"}
    assert model.source.endswith("config.json, " + str(tmp_path / "model.safetensors"))


def shard(folder: Path, *, index: bool) -> None:
    """The checkpoint in three files, with or without an index."""
    names, tensors = [], list(llama_safetensors().items())
    places = {}
    for number in range(3):
        names.append(f"model-{number + 1:05d}-of-00003.safetensors")
        part = dict(tensors[number * 7 : number * 7 + 7])
        (folder / names[-1]).write_bytes(safetensors_file(part))
        places |= dict.fromkeys(part, names[-1])
    (folder / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    if index:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("named", ["", "model-00002-of-00003.safetensors"])
def test_shards_are_read_together(tmp_path: Path, index: bool, named: str) -> None:
    """By an index, by their names, or by any one of them."""
    shard(tmp_path, index=index)
    (tmp_path / "consolidated.safetensors").write_bytes(safetensors_file(llama_safetensors()))
    model = read_safetensors(tmp_path / named)
    assert sum(weight.stored_bytes or 0 for weight in model.weights) == 2 * model.parameters
    assert model.source.endswith("and 2 more shards")


@pytest.mark.parametrize("index", [False, True])
def test_a_missing_shard_is_named(tmp_path: Path, index: bool) -> None:
    """What is not there is an error that names it."""
    shard(tmp_path, index=index)
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(RooflineUsageError, match=r"1 of 3 shards are missing: model-00002-of-00003\.safetensors"):
        read_safetensors(tmp_path)


def test_several_checkpoints_in_a_folder_must_be_told_apart(tmp_path: Path) -> None:
    """Two files that are no shards of each other are an error that lists them."""
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).write_bytes(safetensors_file(llama_safetensors()))
    with pytest.raises(RooflineUsageError, match=r"several checkpoints: name one of a\.safetensors, b\.safetensors"):
        read_safetensors(tmp_path)


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/x.safetensors", "model.bin", 5, "a/b.safetensors"])
def test_an_index_stays_in_its_folder(tmp_path: Path, name: Any) -> None:
    """A name that leads elsewhere is an error at its key."""
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(RooflineUsageError, match=r"index\.json: weight_map\.w: .*the name of a file beside it"):
        read_safetensors(tmp_path)


def test_an_index_without_a_map_is_an_error(tmp_path: Path) -> None:
    """The key is named."""
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(RooflineUsageError, match="weight_map: a mapping of tensors to files is needed"):
        read_safetensors(tmp_path)


def quantized(parts: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The llama with both up projections stored as these tensors behind the module's path."""
    tensors = llama_safetensors()
    for layer in (0, 1):
        del tensors[f"model.layers.{layer}.mlp.up_proj.weight"]
        tensors |= {f"model.layers.{layer}.mlp.up_proj{suffix}": value for suffix, value in parts.items()}
    return tensors


@pytest.mark.parametrize(
    ("parts", "each_bytes"),
    [
        (
            {
                ".qweight": ("I32", (8, 96)),
                ".qzeros": ("I32", (2, 12)),
                ".scales": ("F16", (2, 96)),
                ".g_idx": ("I32", (64,)),
            },
            4 * 8 * 96 + 4 * 24 + 2 * 192 + 4 * 64,
        ),
        ({".qweight": ("I32", (64, 12)), ".qzeros": ("I32", (1, 12)), ".scales": ("F16", (1, 96))}, 4 * 65 * 12 + 192),
        (
            {
                ".weight": ("U8", (3072, 1)),
                ".weight.absmax": ("F32", (96,)),
                ".weight.quant_map": ("F32", (16,)),
                ".weight.quant_state.bitsandbytes__nf4": ("U8", (80,)),
            },
            3072 + 4 * 96 + 64 + 80,
        ),
        ({".weight": ("I8", (96, 64)), ".SCB": ("F32", (96,)), ".weight_format": ("U8", ())}, 96 * 64 + 4 * 96 + 1),
        ({".weight": ("F8_E4M3", (96, 64)), ".weight_scale_inv": ("F32", (1, 1))}, 96 * 64 + 4),
        (
            {".weight": ("F8_E4M3", (96, 64)), ".weight_scale": ("F32", (1,)), ".input_scale": ("F32", (1,))},
            96 * 64 + 8,
        ),
        (
            {".weight_packed": ("I32", (96, 8)), ".weight_scale": ("BF16", (96, 1)), ".weight_shape": ("I64", (2,))},
            4 * 96 * 8 + 2 * 96 + 16,
        ),
        ({"_blocks": ("U8", (96, 2, 16)), "_scales": ("U8", (96, 2))}, 96 * 32 + 192),
    ],
    ids=["gptq", "awq", "bnb-nf4", "bnb-int8", "fp8-block", "fp8-tensor", "compressed-tensors", "mxfp4"],
)
def test_quantized_layouts_count_every_tensor_to_its_module(tmp_path: Path, parts: Any, each_bytes: int) -> None:
    """Payload, scales, zeros, indices and maps belong to the matrix that they stand for."""
    model = read_safetensors(write(tmp_path, quantized(parts)))
    assert stored(model)["model.layers.*.mlp.up_proj"] == 2 * each_bytes
    assert model.parameters == read_config(tmp_path).parameters
    assert model.notes == ()


def test_the_format_of_packed_numbers_is_the_configs(tmp_path: Path) -> None:
    """What 32-bit words hold stands in quantization_config; without one it stays unsaid."""
    parts = {".qweight": ("I32", (8, 96)), ".scales": ("F16", (2, 96))}
    config = {**LLAMA_CONFIG, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
    model = read_safetensors(write(tmp_path, quantized(parts), config))
    formats = {weight.name: weight.stored_format for weight in model.weights}
    assert model.storage is not None
    assert formats["model.layers.*.mlp.up_proj"] == model.storage.format
    assert formats["model.layers.*.mlp.gate_proj"] == "fp16"
    plain = read_safetensors(write(tmp_path, quantized(parts)))
    assert {weight.name: weight.stored_format for weight in plain.weights}["model.layers.*.mlp.up_proj"] is None


def test_towers_and_layers_that_predict_ahead_are_idle(tmp_path: Path) -> None:
    """What text decoding does not touch is counted apart, with a note."""
    extra = {
        "vision_tower.blocks.0.fc.weight": ("F16", (64, 64)),
        "model.layers.2.mlp.up_proj.weight": ("F16", (96, 64)),
        "model.layers.2.eh_proj.weight": ("F16", (64, 128)),
        "mtp.fc.weight": ("F16", (64, 128)),
    }
    model = read_safetensors(write(tmp_path, llama_safetensors() | extra))
    assert model.idle_parameters == 64 * 64 + 96 * 64 + 2 * 64 * 128
    assert model.parameters == read_config(tmp_path).parameters
    assert model.notes == ("53.2 kB of the files are not touched by decoding text",)


def test_a_tensor_that_the_config_does_not_describe_is_read_whole(tmp_path: Path) -> None:
    """It may be an adapter or a new kind of layer: counted, and said."""
    extra = {f"model.layers.{layer}.mlp.magic.weight": ("F16", (64, 64)) for layer in (0, 1)}
    model = read_safetensors(write(tmp_path, llama_safetensors() | extra))
    assert stored(model)["model.layers.*.mlp.magic"] == 2 * 64 * 64 * 2
    assert model.notes == ("not described by config.json, and read whole: model.layers.*.mlp.magic.weight",)


def test_buffers_of_old_checkpoints_are_left_out(tmp_path: Path) -> None:
    """Rotary frequencies are computed at load."""
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (8,))}
    assert read_safetensors(write(tmp_path, llama_safetensors() | extra)).notes == ()


def test_a_copy_of_a_tied_head_is_not_read(tmp_path: Path) -> None:
    """A checkpoint may hold the head beside the table it is tied to."""
    model = read_safetensors(write(tmp_path, llama_safetensors(), {**LLAMA_CONFIG, "tie_word_embeddings": True}))
    assert model.streamed_parameters == read_config(tmp_path).streamed_parameters
    assert model.idle_parameters == 128 * 64


def test_a_head_that_is_missing_is_the_table(tmp_path: Path) -> None:
    """A config that does not say "tied", of a checkpoint that has only the table."""
    tensors = llama_safetensors()
    del tensors["lm_head.weight"]
    model = read_safetensors(write(tmp_path, tensors))
    assert {weight.name: weight.use for weight in model.weights}["model.embed_tokens"] == "matrix"
    assert model.notes == ("lm_head is not in the files: the table model.embed_tokens is read as the head",)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("model.norm.weight", r"model\.norm: config\.json describes it, and the files hold nothing of it"),
        (
            "model.layers.1.mlp.up_proj.weight",
            r"model\.layers\.1\.mlp\.up_proj: not in the files, while other layers are",
        ),
    ],
)
def test_a_part_of_a_checkpoint_is_an_error(tmp_path: Path, left_out: str, message: str) -> None:
    """A weight that the config describes and no file holds is named."""
    tensors = llama_safetensors()
    del tensors[left_out]
    with pytest.raises(RooflineUsageError, match=message):
        read_safetensors(write(tmp_path, tensors))


def test_sizes_that_differ_are_told(tmp_path: Path) -> None:
    """A padded vocabulary is read as the file has it, with a note."""
    model = read_safetensors(write(tmp_path, llama_safetensors(), {**LLAMA_CONFIG, "vocab_size": 127}))
    assert stored(model)["lm_head"] == 2 * 128 * 64
    assert "lm_head: 8,128 parameters by config.json, 8,192 in the files" in model.notes


def test_without_a_config_the_cache_must_be_declared(tmp_path: Path) -> None:
    """Weights can be told by name and shape, what layers keep cannot."""
    write(tmp_path, llama_safetensors(), None)
    with pytest.raises(RooflineUsageError, match=r"no config\.json beside it: 21 tensors of .*--kv-per-token BYTES"):
        read_safetensors(tmp_path)
    model = read_safetensors(tmp_path, caches=[CacheLayers(name="attention", layers=2, elements_per_token=64)])
    described = read_config(LLAMA_CONFIG)
    assert (model.parameters, model.streamed_parameters) == (described.parameters, described.streamed_parameters)
    assert (model.layers, model.hidden, model.dtype) == (2, 64, "float16")


@pytest.mark.parametrize(
    "extra",
    [{"model.layers.0.mlp.experts.0.w1.weight": ("F16", (4, 4))}, {"x.qweight": ("I32", (4, 4))}],
)
def test_experts_and_packed_numbers_need_a_config(tmp_path: Path, extra: Tensors) -> None:
    """How a pass reads them stands nowhere else."""
    write(tmp_path, llama_safetensors() | dict(extra), None)
    with pytest.raises(RooflineUsageError, match=r"how a pass reads it stands in config\.json, and there is none"):
        read_safetensors(tmp_path, caches=[])


def test_a_400_gigabyte_file_is_read_by_its_header(tmp_path: Path) -> None:
    """A sparse file of that size takes its header's bytes."""
    side = 2**18
    path = tmp_path / "model.safetensors"
    tensors = {"model.embed_tokens.weight": ("BF16", (side, side)), "lm_head.weight": ("BF16", (2 * side, side))}
    path.write_bytes(safetensors_file(tensors, data=False))
    os.truncate(path, path.stat().st_size + 412_316_860_416)
    assert sum(weight.stored_bytes or 0 for weight in read_safetensors(path, caches=[]).weights) == 412_316_860_416


def test_the_safetensors_package_writes_what_we_read(tmp_path: Path) -> None:
    """A file by the package's own writer, where it is installed."""
    numpy = pytest.importorskip("numpy")
    writer = pytest.importorskip("safetensors.numpy")
    tensors = {name: numpy.zeros(shape, numpy.float16) for name, (_, shape) in llama_safetensors().items()}
    writer.save_file(tensors, str(tmp_path / "model.safetensors"))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    model = read_safetensors(tmp_path)
    assert sum(weight.stored_bytes or 0 for weight in model.weights) == 2 * model.parameters


def test_wrappers_differ_between_checkpoints_of_one_model(tmp_path: Path) -> None:
    """``language_model.model.layers`` and ``layers`` are the config's ``model.layers``."""
    for wrapper in ("language_model.", "model.language_model.", ""):
        tensors = {f"{wrapper}{name.removeprefix('model.')}": value for name, value in llama_safetensors().items()}
        model = read_safetensors(write(tmp_path, tensors))
        assert model.notes == ()
        assert sum(weight.stored_bytes or 0 for weight in model.weights) == 2 * model.parameters


MIXTURE = {**LLAMA_CONFIG, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}


def mixture(
    *, leave_out: str = "", experts: str = "block_sparse_moe.experts"
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """A small Mixtral as it is published."""
    tensors = {name: value for name, value in llama_safetensors().items() if ".mlp." not in name}
    for layer in (0, 1):
        prefix = f"model.layers.{layer}."
        tensors[f"{prefix}block_sparse_moe.gate.weight"] = ("F16", (4, 64))
        for expert in range(4):
            shapes = {"w1": (96, 64), "w2": (64, 96), "w3": (96, 64)}
            tensors |= {f"{prefix}{experts}.{expert}.{name}.weight": ("F16", shape) for name, shape in shapes.items()}
    return {name: value for name, value in tensors.items() if name != leave_out}


def test_experts_are_counted_each(tmp_path: Path) -> None:
    """One tensor per expert and layer; a missing one is an error."""
    model = read_safetensors(write(tmp_path, mixture(), MIXTURE))
    assert model.active_parameters == read_config(tmp_path).active_parameters
    assert (model.parameters, model.notes) == (read_config(tmp_path).parameters, ())
    with pytest.raises(RooflineUsageError, match=r"experts.*: 7 tensors in the files, 8 by config\.json"):
        read_safetensors(
            write(tmp_path, mixture(leave_out="model.layers.1.block_sparse_moe.experts.3.w1.weight"), MIXTURE)
        )


def test_experts_under_another_name_are_routed_all_the_same(tmp_path: Path) -> None:
    """A new layout of files changes names, not how a token is sent to experts."""
    model = read_safetensors(write(tmp_path, mixture(experts="ffn.experts"), MIXTURE))
    assert model.active_parameters == read_config(tmp_path).active_parameters
    assert model.notes[-1].startswith("not described by config.json, and read whole: model.layers.*.ffn.experts.*.w1")


def test_what_the_config_gives_to_other_layers_is_not_read(tmp_path: Path) -> None:
    """Keys that a layer holds and never uses, as Gemma 3n's last layers do."""
    described = read_config(LLAMA_CONFIG)
    weights = tuple(
        dataclasses.replace(weight, layers=(0,)) if weight.part == "attn_k" else weight for weight in described.weights
    )
    tensors = [
        SafetensorsEntry(name=name, dtype=dtype, shape=shape, size_bytes=2 * math.prod(shape))
        for name, (dtype, shape) in llama_safetensors().items()
    ]
    assert place(dataclasses.replace(described, weights=weights), tensors, "file").idle_parameters == 32 * 64


def test_names_of_another_layout_are_an_error(tmp_path: Path) -> None:
    """Where the table has another name, what is looked up cannot be told from what is read."""
    tensors = {name.replace("embed_tokens", "tok_embeddings"): value for name, value in llama_safetensors().items()}
    with pytest.raises(
        RooflineUsageError, match=r"model\.embed_tokens: config\.json describes it, and the files hold nothing"
    ):
        read_safetensors(write(tmp_path, tensors))


@pytest.mark.parametrize(
    ("tensors", "config", "problem"),
    [
        ({}, {"head_dim": 32}, r"model\.layers\.\*\.self_attn\.q_proj: \[128, 64\] by config\.json and \[64, 64\]"),
        ({}, {"num_hidden_layers": 1}, r"num_hidden_layers: 1 by config\.json, and the files hold layer 1 as well"),
        ({"model.layers.0.mlp.up_proj.weight": ("F16", (96, 32))}, {}, r"mlp\.up_proj: \[96, 64\] .* and \[96, 32\]"),
        ({"model.embed_tokens.weight": ("F16", (100, 64))}, {}, r"embed_tokens: \[128, 64\] .* and \[100, 64\]"),
    ],
)
def test_the_config_of_another_model_is_refused(
    tensors: Tensors, config: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """Other shapes or more layers than the config's: its KV cache would be another's."""
    with pytest.raises(RooflineUsageError, match=problem):
        read_safetensors(write(tmp_path, {**llama_safetensors(), **tensors}, {**LLAMA_CONFIG, **config}))


def test_other_names_have_room_for_what_is_missing(tmp_path: Path) -> None:
    """One matrix for gate and up, in each layer; in one of them alone it is none."""
    tensors = {
        name: entry for name, entry in llama_safetensors().items() if "gate" not in name and "up_proj" not in name
    }
    fused = {f"model.layers.{layer}.mlp.gate_up.weight": ("F16", (192, 64)) for layer in (0, 1)}
    model = read_safetensors(write(tmp_path, tensors | fused))
    assert stored(model)["model.layers.*.mlp.gate_up"] == 2 * 2 * 192 * 64
    fused.pop("model.layers.1.mlp.gate_up.weight")
    with pytest.raises(RooflineUsageError, match=r"hold nothing of it \(model\.layers\.1\.mlp\.gate_proj\)"):
        read_safetensors(write(tmp_path, tensors | fused))
