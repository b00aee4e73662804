"""What the layers of a GGUF file keep per token: by metadata, by which tensors a block has, by architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_files import F16, F32, GgufWriter, completed

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.gguf_file import read_gguf


def read(folder: Path, architecture: str, blocks: int, own: dict[str, Any], tensors: Any = None) -> Architecture:
    """A file of `blocks` blocks, each with keys of 2 heads of 16 unless `tensors` (of a block's number) says else.

    What else a block needs to be whole is added.
    """
    values: dict[str, Any] = {"general.architecture": architecture}
    keys = {
        "block_count": blocks,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        **own,
    }
    values |= {f"{architecture}.{key}": value for key, value in keys.items() if value is not None}
    listed = [("token_embd.weight", (128, 64), F16)]
    for block in range(blocks):
        shapes = {"attn_k.weight": (32, 64), "attn_v.weight": (32, 64)} if tensors is None else tensors(block)
        listed += [(f"blk.{block}.{name}", shape, F16) for name, shape in shapes.items()]
    path = folder / "model.gguf"
    path.write_bytes(GgufWriter().file(values, completed(values, listed)))
    return read_gguf(path)


def kept(model: Architecture) -> list[tuple[str, int, int, int | None]]:
    """Name, layers, elements per token and window of each group of layers."""
    return [(cache.name, cache.layers, cache.elements_per_token, cache.window) for cache in model.caches]


@pytest.mark.parametrize(
    ("architecture", "own", "sliding"),
    [
        ("gemma2", {}, {0, 2, 4, 6, 8, 10}),
        ("gpt-oss", {}, {0, 2, 4, 6, 8, 10}),
        ("gemma3", {}, set(range(12)) - {5, 11}),
        ("gemma3n", {}, set(range(12)) - {4, 9}),
        ("cohere2", {}, set(range(12)) - {3, 7, 11}),
        ("olmo2", {}, set(range(12)) - {3, 7, 11}),
        ("gemma3", {"attention.sliding_window_pattern": 3}, set(range(12)) - {2, 5, 8, 11}),
        ("gemma4", {"attention.sliding_window_pattern": [True] * 11 + [False]}, set(range(11))),
        ("llama", {}, set(range(12))),
        ("phi3", {}, set(range(12))),
    ],
)
def test_windows_by_pattern_key_or_architecture(
    tmp_path: Path, architecture: str, own: dict[str, Any], sliding: set[int]
) -> None:
    """Which layers slide: as the file says, else as the architecture is defined."""
    model = read(tmp_path, architecture, 12, {"attention.sliding_window": 128, **own})
    expected = {("sliding attention", len(sliding), 64, 128), ("attention", 12 - len(sliding), 64, None)}
    assert set(kept(model)) == {group for group in expected if group[1]}


def test_a_window_of_an_architecture_without_a_known_pattern_is_an_error(tmp_path: Path) -> None:
    """Which layers slide is not guessed."""
    with pytest.raises(RooflineUsageError, match=r"qwen2\.attention\.sliding_window: 128, and which layers"):
        read(tmp_path, "qwen2", 4, {"attention.sliding_window": 128})


def test_a_pattern_that_must_be_given_is_an_error_without(tmp_path: Path) -> None:
    """Gemma 4 says its pattern in the file or not at all."""
    with pytest.raises(RooflineUsageError, match=r"gemma4\.attention\.sliding_window_pattern: missing"):
        read(tmp_path, "gemma4", 4, {"attention.sliding_window": 128})


def test_a_pattern_shorter_than_the_model_is_an_error(tmp_path: Path) -> None:
    """An entry for each block is needed."""
    with pytest.raises(RooflineUsageError, match="2 entries for 4 blocks"):
        read(
            tmp_path, "gemma3", 4, {"attention.sliding_window": 128, "attention.sliding_window_pattern": [True, False]}
        )


def test_llama4_forgets_in_chunks(tmp_path: Path) -> None:
    """Three of four layers keep a chunk of 8,192 tokens; a window of 0 in the file means none does."""
    model = read(tmp_path, "llama4", 8, {})
    assert {(cache.name, cache.layers, cache.chunk) for cache in model.caches} == {
        ("chunked attention", 6, 8192),
        ("attention", 2, None),
    }
    assert kept(read(tmp_path, "llama4", 8, {"attention.sliding_window": 0})) == [("attention", 8, 64, None)]


def test_heads_by_layer_and_layers_without_attention(tmp_path: Path) -> None:
    """An array gives each block its heads; 0 is a block without attention (Nemotron by search)."""

    def tensors(block: int) -> dict[str, tuple[int, ...]]:
        return {"attn_k.weight": (16 * (block + 1), 64)} if block < 2 else {"ffn_up.weight": (64, 64)}

    own = {"attention.head_count_kv": [1, 2, 0], "attention.head_count": [4, 4, 0]}
    assert kept(read(tmp_path, "deci", 3, own, tensors)) == [("attention", 1, 32, None), ("attention", 1, 64, None)]


def test_key_and_value_widths_may_differ(tmp_path: Path) -> None:
    """Widths given by the file hold, not width over heads."""
    own = {"attention.key_length": 24, "attention.value_length": 8}
    model = read(tmp_path, "qwen3", 2, own, lambda _: {"attn_k.weight": (48, 64), "attn_v.weight": (16, 64)})
    assert kept(model) == [("attention", 2, 2 * (24 + 8), None)]
    assert model.caches[0].flops_per_position == 2 * 4 * (24 + 8)


def test_sliding_layers_may_have_widths_of_their_own(tmp_path: Path) -> None:
    """Gemma 4's sliding layers have narrower heads than its full ones."""
    own = {
        "attention.sliding_window": 128,
        "attention.sliding_window_pattern": [True, False],
        **{f"attention.{name}_length": 32 for name in ("key", "value")},
        **{f"attention.{name}_length_swa": 16 for name in ("key", "value")},
    }
    model = read(tmp_path, "gemma4", 2, own, lambda block: {"attn_k.weight": ((32, 64)[block], 64)})
    assert kept(model) == [("sliding attention", 1, 64, 128), ("attention", 1, 128, None)]


def test_metadata_and_tensors_must_agree_on_the_keys(tmp_path: Path) -> None:
    """A key matrix of other rows than the heads make is an error that names it."""
    with pytest.raises(RooflineUsageError, match=r"blk\.0\.attn_k\.weight: 48 rows.*2 heads of 16 make 32"):
        read(tmp_path, "llama", 1, {}, lambda _: {"attn_k.weight": (48, 64)})


def test_layers_that_share_keys_keep_none(tmp_path: Path) -> None:
    """The last layers of Gemma 3n attend to what earlier ones kept, and their own key matrices are not read."""
    model = read(tmp_path, "gemma3n", 4, {"attention.shared_kv_layers": 2, "attention.sliding_window": 128})
    assert kept(model) == [("sliding attention", 2, 64, 128), ("attention to shared keys", 2, 0, 128)]
    assert {cache.flops_per_position for cache in model.caches} == {2 * 4 * 32}
    assert model.idle_parameters == 2 * 2 * 32 * 64
    assert "2 of 4 layers attend to the keys of earlier ones: read again, counted once" in model.notes


def test_all_layers_cannot_share(tmp_path: Path) -> None:
    """Somebody has to keep the keys."""
    with pytest.raises(RooflineUsageError, match=r"gemma3n\.attention\.shared_kv_layers: 4 of 4 blocks"):
        read(tmp_path, "gemma3n", 4, {"attention.shared_kv_layers": 4})


@pytest.mark.parametrize("own", [{}, {"attention.key_length_mla": 24, "attention.value_length_mla": 16}])
def test_mla_keeps_the_latent_and_a_rope_key(tmp_path: Path, own: dict[str, Any]) -> None:
    """DeepSeek's cache is the latent's width and the rope key's, in files before and after its matrices were split."""
    lengths = (40, 32) if own else (24, 16)
    base = {
        "attention.kv_lora_rank": 32,
        "rope.dimension_count": 8,
        "attention.key_length": lengths[0],
        "attention.value_length": lengths[1],
    }

    def tensors(_: int) -> dict[str, tuple[int, ...]]:
        split = {"attn_k_b.weight": (4, 32, 16), "attn_v_b.weight": (4, 16, 32)} if own else {}
        return {"attn_kv_a_mqa.weight": (40, 64), "attn_kv_b.weight": (128, 32), **split}

    model = read(tmp_path, "deepseek2", 3, {**base, **own}, tensors)
    assert kept(model) == [("MLA", 3, 40, None)]
    assert model.caches[0].flops_per_position == 2 * 4 * (24 + 16)
    assert {weight.use for weight in model.weights if weight.name == "blk.*.attn_kv_b"} == {"idle" if own else "matrix"}


def test_a_hybrid_has_both_by_its_tensors(tmp_path: Path) -> None:
    """Blocks with ``ssm_`` tensors keep a state, blocks with keys a cache; a gated delta net's qkv is no attention."""

    def tensors(block: int) -> dict[str, tuple[int, ...]]:
        if block % 4 == 3:
            return {"attn_k.weight": (32, 64)}
        return {"attn_qkv.weight": (160, 64), "ssm_conv1d.weight": (128, 4), "ssm_out.weight": (64, 64)}

    own = {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.group_count": 2}
    model = read(tmp_path, "qwen3next", 8, own, tensors)
    assert model.caches == (
        CacheLayers(name="attention", layers=2, elements_per_token=64, kv_heads=2, flops_per_position=2 * 4 * 32),
        CacheLayers(name="recurrent convolution", layers=6, state_elements=4 * (64 + 2 * 2 * 16)),
        CacheLayers(name="recurrent state", layers=6, state_elements=64 * 16, state_bytes_per_element=4.0),
    )


def test_a_mamba_has_no_cache_that_grows(tmp_path: Path) -> None:
    """Without groups the convolution is as wide as the inner width."""
    own = {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 16, "attention.head_count": 0}
    model = read(tmp_path, "mamba", 2, {**own, "attention.head_count_kv": None}, lambda _: {"ssm_in.weight": (256, 64)})
    assert model.kv_elements_per_token() == 0
    assert [cache.state_elements for cache in model.caches] == [4 * 128, 128 * 16]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"block_count": 0}, r"llama\.block_count: 0"),
        ({"block_count": 20_000}, r"llama\.block_count: 20,000; more than 10,000"),
        ({"nextn_predict_layers": 2}, r"llama\.nextn_predict_layers: 2 of 2 blocks"),
        ({"attention.head_count": 0}, r"llama\.attention\.head_count: 0: does not divide the width 64"),
        ({"attention.head_count": 7}, r"llama\.attention\.head_count: 7: does not divide the width 64"),
        ({"attention.head_count_kv": [2]}, r"llama\.attention\.head_count_kv: 1 entries for 2 blocks"),
        ({"attention.head_count_kv": [2.0, 2.0]}, r"llama\.attention\.head_count_kv: 2\.0 among the entries"),
        ({"embedding_length": None}, r"llama\.embedding_length: missing"),
        ({"attention.head_count": "four"}, r"llama\.attention\.head_count: the text 'four'"),
    ],
)
def test_metadata_that_cannot_be_names_file_and_key(tmp_path: Path, own: dict[str, Any], message: str) -> None:
    """Impossible and missing sizes are errors."""
    blocks = own.pop("block_count", 2)

    def tensors(_: int) -> dict[str, tuple[int, ...]]:
        return {"attn_k.weight": (32, 64)}

    with pytest.raises(RooflineUsageError, match=rf"model\.gguf: {message}"):
        if blocks == 2:
            read(tmp_path, "llama", 2, own, tensors)
        else:
            read(tmp_path, "llama", 0, {"block_count": blocks})


def test_norms_and_states_are_vectors(tmp_path: Path) -> None:
    """What is multiplied element by element is never quantized, whatever its shape."""
    path = tmp_path / "model.gguf"
    values = {"general.architecture": "mamba", "mamba.block_count": 1, "mamba.embedding_length": 64}
    values |= {"mamba.ssm.conv_kernel": 4, "mamba.ssm.inner_size": 128, "mamba.ssm.state_size": 16}
    tensors = [
        ("token_embd.weight", (128, 64), F16),
        ("blk.0.ssm_a", (128, 16), F32),
        ("blk.0.ssm_in.weight", (256, 64), F16),
        ("blk.0.ssm_out.weight", (64, 128), F16),
    ]
    path.write_bytes(GgufWriter().file(values, tensors))
    assert {weight.name: weight.use for weight in read_gguf(path).weights} == {
        "token_embd": "matrix",
        "blk.*.ssm_a": "vector",
        "blk.*.ssm_in": "matrix",
        "blk.*.ssm_out": "matrix",
    }


def test_short_convolutions_keep_their_last_inputs(tmp_path: Path) -> None:
    """LFM2's blocks without attention keep as many inputs as their convolution is long."""

    def tensors(block: int) -> dict[str, tuple[int, ...]]:
        return {"attn_k.weight": (32, 64)} if block == 2 else {"shortconv.conv.weight": (64, 3)}

    model = read(tmp_path, "lfm2", 3, {"shortconv.l_cache": 3, "attention.head_count_kv": [0, 0, 2]}, tensors)
    assert model.caches == (
        CacheLayers(name="attention", layers=1, elements_per_token=64, kv_heads=2, flops_per_position=2 * 4 * 32),
        CacheLayers(name="convolution", layers=2, state_elements=3 * 64),
    )
