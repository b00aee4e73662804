"""GGUF files as models: weights at their true sizes, what a pass does with each, shards, what the layers keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_files import (
    BF16,
    F16,
    F32,
    Q4_0,
    Q4_K,
    Q6_K,
    Q8_0,
    GgufWriter,
    completed,
    llama_gguf,
    llama_tensors,
    llama_values,
)

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.ggml import TYPES
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.specs.formats import format_named

BLOCK = 64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3 + 2 * 64
"""Parameters of one block of the small llama."""


def read(folder: Path, values: dict[str, Any], tensors: list[Any], **how: Any) -> Architecture:
    """Write a file, with what makes it whole, and read it."""
    path = folder / "model.gguf"
    path.write_bytes(GgufWriter().file(values, completed(values, tensors)))
    return read_gguf(path, **how)


def uses(architecture: Architecture) -> dict[str, str]:
    """Use by name."""
    return {weight.name: weight.use for weight in architecture.weights}


def test_a_llama_is_counted_to_the_parameter(tmp_path: Path) -> None:
    """Parameters, streamed ones, bytes, and elements of KV per token follow from the shapes."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(llama_gguf())
    model = read_gguf(path)
    assert model.parameters == 2 * 128 * 64 + 64 + 2 * BLOCK
    assert model.streamed_parameters == model.parameters - 128 * 64
    assert sum(weight.stored_bytes or 0 for weight in model.weights) == 2 * model.parameters + 2 * 64 * 5
    assert model.kv_elements_per_token() == 2 * 2 * 2 * 16
    assert model.caches[0].flops_per_position == 2 * 4 * 32
    assert (model.name, model.layers, model.hidden, model.max_context) == ("tiny", 2, 64, 512)
    assert (model.dtype, model.source, model.notes) == ("float16", str(path), ())


def test_blocks_that_are_alike_are_one_weight(tmp_path: Path) -> None:
    """Names get a star for the block, and the layers say which hold one."""
    model = read(tmp_path, llama_values(), llama_tensors())
    (down,) = (weight for weight in model.weights if weight.name == "blk.*.ffn_down")
    assert (down.part, down.shape, down.layers, down.stored_bytes) == ("ffn_down", (64, 96), (0, 1), 2 * 64 * 96 * 2)


def test_without_an_output_matrix_the_table_is_the_head(tmp_path: Path) -> None:
    """A tied table is read whole; beside an output matrix it is a lookup."""
    assert uses(read(tmp_path, llama_values(), llama_tensors(tied=True)))["token_embd"] == "matrix"
    assert uses(read(tmp_path, llama_values(), llama_tensors()))["token_embd"] == "lookup"


def test_mixed_quantization_keeps_each_tensor_at_its_size(tmp_path: Path) -> None:
    """Blocks of one matrix in two types are two weights of one name, each with its true bytes."""
    tensors = [("token_embd.weight", (128, 256), Q6_K)]
    tensors += [(f"blk.{block}.ffn_down.weight", (64, 256), kind) for block, kind in ((0, Q4_K), (1, Q6_K))]
    model = read(tmp_path, llama_values(llama__embedding_length=256), tensors)
    down = {weight.stored_format: weight.stored_bytes for weight in model.weights if weight.name == "blk.*.ffn_down"}
    assert down == {"q4_k": 64 * 144, "q6_k": 64 * 210}
    assert model.dtype == "float16"


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("big_endian", [False, True])
def test_every_version_and_byte_order_reads_alike(tmp_path: Path, version: int, big_endian: bool) -> None:
    """Versions 1 to 3 differ in the width of counts only; either byte order may be written."""
    path = tmp_path / "model.gguf"
    writer = GgufWriter(version, big_endian=big_endian)
    path.write_bytes(writer.file(llama_values(), llama_tensors(kind=Q8_0 if version > 1 else F16)))
    assert read_gguf(path).kv_elements_per_token() == 128


def test_another_alignment_moves_the_data(tmp_path: Path) -> None:
    """With an alignment of 256 every tensor begins at a multiple of it."""
    model = read(tmp_path, llama_values(general__alignment=256), llama_tensors(kind=BF16))
    assert model.dtype == "bfloat16"


def test_sizes_of_all_types_are_those_of_the_library(tmp_path: Path) -> None:
    """The types by number take what the library of formats says that they take."""
    assert len(TYPES) == 34
    for kind in TYPES.values():
        for name in (kind.format, f"ggml-{kind.name}"):
            assert format_named(name).tensor_bytes((3, kind.elements)) == 3 * kind.size_bytes, name


def test_sizes_of_all_types_are_those_of_the_gguf_package() -> None:
    """The types by number are those of the ``gguf`` package, where it is installed."""
    constants = pytest.importorskip("gguf.constants")
    for number, (elements, size_bytes) in constants.GGML_QUANT_SIZES.items():
        kind = TYPES[int(number)]
        assert (kind.elements, kind.size_bytes) == (elements, size_bytes)
        assert kind.name == number.name


def mixture(**changed: Any) -> dict[str, Any]:
    """Metadata of a llama with 4 experts of which a token uses 2."""
    return llama_values(**{"llama__expert_count": 4, "llama__expert_used_count": 2, **changed})


def test_experts_are_routed_by_the_leading_axis(tmp_path: Path) -> None:
    """Fused experts count their leading axis; the router and shared experts are read whole."""
    tensors = [
        ("token_embd.weight", (128, 64), F16),
        ("blk.0.ffn_gate_inp.weight", (4, 64), F32),
        ("blk.0.ffn_up_exps.weight", (4, 96, 64), Q4_0),
        ("blk.0.ffn_up_exps.bias", (4, 96), F32),
        ("blk.0.ffn_up_shexp.weight", (96, 64), F16),
    ]
    model = read(tmp_path, mixture(), tensors)
    by_name = {weight.name: weight for weight in model.weights}
    up = by_name["blk.*.ffn_up_exps"]
    assert (up.use, up.shape, up.experts, up.experts_per_token) == ("routed", (96, 64), 4, 2.0)
    assert up.stored_bytes == 4 * 96 * 64 // 32 * 18
    assert (by_name["blk.*.ffn_up_exps.bias"].use, by_name["blk.*.ffn_up_exps.bias"].shape) == ("routed", (96,))
    assert (by_name["blk.*.ffn_gate_inp"].part, by_name["blk.*.ffn_gate_inp"].use) == ("router", "matrix")
    assert by_name["blk.*.ffn_up_shexp"].use == "matrix"


def test_a_tensor_per_expert_counts_as_fused_ones_do(tmp_path: Path) -> None:
    """Mixtral files of the first months hold each expert by itself."""
    tensors = [("token_embd.weight", (128, 64), F16)]
    tensors += [(f"blk.{block}.ffn_up.{expert}.weight", (96, 64), F16) for block in (0, 1) for expert in range(4)]
    model = read(tmp_path, mixture(), tensors)
    (up,) = (weight for weight in model.weights if weight.use == "routed")
    assert (up.name, up.layers, up.experts, up.elements) == ("blk.*.ffn_up.*", (0, 1), 4, 8 * 96 * 64)


@pytest.mark.parametrize(
    ("tensors", "values", "message"),
    [
        ([("blk.0.ffn_up_exps.weight", (3, 96, 64), F16)], mixture(), "llama.expert_count says 4 experts"),
        ([("blk.0.ffn_up_exps.weight", (96,), F32)], mixture(), "llama.expert_count says 4 experts"),
        ([("blk.0.ffn_up.0.weight", (96, 64), F16)], mixture(), "1 tensors for 1 blocks of 4 experts"),
        ([("blk.0.ffn_up_exps.weight", (4, 96, 64), F16)], llama_values(), "llama.expert_count: missing"),
        (
            [("blk.0.ffn_up_exps.weight", (4, 96, 64), F16)],
            mixture(llama__expert_used_count=5),
            "5.* experts per token of 4",
        ),
    ],
)
def test_experts_that_do_not_add_up_are_an_error(tmp_path: Path, tensors: Any, values: Any, message: str) -> None:
    """The metadata and the tensors must agree on the experts."""
    with pytest.raises(RooflineUsageError, match=message):
        read(tmp_path, values, [("token_embd.weight", (128, 64), F16), *tensors])


def test_layers_that_predict_ahead_and_towers_are_idle(tmp_path: Path) -> None:
    """Blocks behind the last, vision towers, and an MLA matrix that stands there split too are not read."""
    tensors = [*llama_tensors(blocks=3), ("v.blk.0.attn_q.weight", (64, 64), F16), ("mm.0.weight", (64, 64), F16)]
    model = read(tmp_path, llama_values(llama__block_count=3, llama__nextn_predict_layers=1), tensors)
    assert model.layers == 2
    assert model.idle_parameters == BLOCK + 2 * 64 * 64
    assert model.kv_elements_per_token() == 128
    assert any("not touched by decoding text" in note for note in model.notes)


def test_a_tensor_of_unknown_purpose_is_read_whole_with_a_note(tmp_path: Path) -> None:
    """What a name does not tell counts as a matrix, and the notes say so."""
    model = read(tmp_path, llama_values(), [*llama_tensors(), ("blk.0.attn_magic.weight", (64, 64), F16)])
    assert uses(model)["blk.*.attn_magic"] == "matrix"
    assert model.notes == ("read whole, since not known: blk.*.attn_magic",)


def test_per_layer_embeddings_are_looked_up(tmp_path: Path) -> None:
    """Gemma 3n's tables per layer are capacity, not traffic."""
    tensors = [("token_embd.weight", (128, 64), F16), ("per_layer_token_embd.weight", (128, 64), Q8_0)]
    assert uses(read(tmp_path, llama_values(), tensors))["per_layer_token_embd"] == "lookup"


def write_shards(folder: Path, *, leave_out: int | None = None, **changed: Any) -> Path:
    """The small llama in three files; the middle one's path."""
    tensors = llama_tensors()
    split = {"split.count": 3, "split.tensors.count": len(tensors), **changed}
    for number in range(3):
        values = (llama_values() if number == 0 else {}) | split | {"split.no": number}
        if number != leave_out:
            path = folder / f"tiny-{number + 1:05d}-of-00003.gguf"
            path.write_bytes(GgufWriter().file(values, tensors[number * 7 : number * 7 + 7 + 7 * (number == 2)]))
    return folder / "tiny-00002-of-00003.gguf"


def test_any_shard_reads_them_all(tmp_path: Path) -> None:
    """Naming the second of three files is naming the model."""
    model = read_gguf(write_shards(tmp_path))
    assert model.parameters == 2 * 128 * 64 + 64 + 2 * BLOCK
    assert "and 2 more shards" in model.source


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    """What is not there is an error that names it."""
    with pytest.raises(RooflineUsageError, match=r"1 of 3 shards are missing: tiny-00003-of-00003\.gguf"):
        read_gguf(write_shards(tmp_path, leave_out=2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"split.tensors.count": 99}, r"split\.tensors\.count: 99, but the shards hold 21 tensors"),
        ({"split.count": 4}, r"split\.count: 4, but 3 shards are here"),
    ],
)
def test_shards_that_do_not_add_up_are_an_error(tmp_path: Path, changed: dict[str, int], message: str) -> None:
    """The counts of the first shard hold."""
    with pytest.raises(RooflineUsageError, match=message):
        read_gguf(write_shards(tmp_path, **changed))


def test_shards_in_each_others_place_are_an_error(tmp_path: Path) -> None:
    """A shard renamed to another's number is found out."""
    middle = write_shards(tmp_path)
    (tmp_path / "tiny-00003-of-00003.gguf").write_bytes(middle.read_bytes())
    with pytest.raises(RooflineUsageError, match=r"00003-of-00003\.gguf: split\.no: 1; by its name it is 2"):
        read_gguf(middle)


def test_a_shard_that_was_renamed_says_what_is_missing(tmp_path: Path) -> None:
    """A single file that says it is one of three is an error."""
    path = tmp_path / "renamed.gguf"
    path.write_bytes(GgufWriter().file({**llama_values(), "split.count": 3, "split.no": 0}, llama_tensors()))
    with pytest.raises(RooflineUsageError, match=r"split\.count: 3, but 1 shards are here"):
        read_gguf(path)


@pytest.mark.parametrize("name", ["m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-00001-of-99999.gguf"])
def test_a_shard_number_that_cannot_be_is_an_error(tmp_path: Path, name: str) -> None:
    """The fourth of three, and ten thousands of shards."""
    with pytest.raises(RooflineUsageError, match="no such shard can be"):
        read_gguf(tmp_path / name)


def test_a_tensor_in_two_shards_is_an_error(tmp_path: Path) -> None:
    """Names are unique in all shards together."""
    for number in range(2):
        values = (llama_values() if number == 0 else {}) | {"split.no": number, "split.count": 2}
        data = GgufWriter().file(values, [("token_embd.weight", (128, 64), F16)])
        (tmp_path / f"tiny-{number + 1:05d}-of-00002.gguf").write_bytes(data)
    with pytest.raises(RooflineUsageError, match="a tensor stands in two of its shards"):
        read_gguf(tmp_path / "tiny-00001-of-00002.gguf")


def test_an_unknown_architecture_says_what_can_be_told(tmp_path: Path) -> None:
    """Parameters, bytes and blocks are in the error, and how to declare the rest."""
    values = {key.replace("llama.", "newnet."): value for key, value in llama_values().items()}
    values["general.architecture"] = "newnet"
    with pytest.raises(
        RooflineUsageError, match=r"'newnet' is not known here.*0\.00 billion.*2 blocks.*--kv-per-token"
    ):
        read(tmp_path, values, llama_tensors())
    declared = CacheLayers(name="attention", layers=2, elements_per_token=64)
    assert read(tmp_path, values, llama_tensors(), caches=[declared]).kv_elements_per_token() == 128


def test_a_projector_is_no_model(tmp_path: Path) -> None:
    """An mmproj file is refused by what it is."""
    with pytest.raises(RooflineUsageError, match="a projector for pictures or sound"):
        read(tmp_path, {"general.architecture": "clip"}, [("v.blk.0.attn_q.weight", (64, 64), F16)])


def test_a_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    """llama.cpp's test vocabularies hold no tensors."""
    with pytest.raises(RooflineUsageError, match="no tensors: a vocabulary"):
        read(tmp_path, llama_values(), [])
