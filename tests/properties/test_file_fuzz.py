"""Readers of files against mutated and invented headers: a model or a usage error comes out, nothing else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import (
    F16,
    F32,
    Q8_0,
    GgufWriter,
    llama_gguf,
    llama_safetensors,
    llama_tensors,
    llama_values,
    safetensors_file,
)

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.readers.safetensors_file import read_safetensors

BUDGET = settings(max_examples=60, deadline=None)
DECLARED = [CacheLayers(name="attention", layers=2, elements_per_token=64)]


def outcome(data: bytes, ending: str, caches: Any = None) -> Architecture | None:
    """The model that these bytes are, or None; anything but a usage error comes through."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"model{ending}")
        path.write_bytes(data)
        try:
            return (read_gguf if ending == ".gguf" else read_safetensors)(path, caches=caches)
        except RooflineUsageError as error:
            message = str(error)
    assert str(path) in message.splitlines()[0]  # by itself it says which file it is about
    return None


def mutated(whole: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Bytes replaced, removed or put in at places of the header."""
    for place, removed, added in changes:
        place %= len(whole) + 1
        whole = whole[:place] + added + whole[place + removed :]
    return whole


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.sampled_from([0, 1, 1, 1, 2, 4, 8]),
        st.one_of(st.binary(max_size=8), st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\xff", b"\0", b"9", b"{", b'"'])),
    ),
    min_size=1,
    max_size=4,
)
SMALL = GgufWriter().file({k: v for k, v in llama_values().items() if "token" not in k}, llama_tensors(), data=True)


@BUDGET
@given(CHANGES)
def test_a_mutated_gguf_is_a_model_or_a_usage_error(changes: list[tuple[int, int, bytes]]) -> None:
    """Whatever becomes of its bytes."""
    outcome(mutated(SMALL, [(place % 2200, removed, added) for place, removed, added in changes]), ".gguf")


@BUDGET
@given(st.integers(8, 2200), st.sampled_from([4, 8]), st.integers(0, 2**64 - 1))
def test_any_number_in_a_gguf_may_be_anything(place: int, width: int, number: int) -> None:
    """A length, a count, a shape, an offset of any size is a model, or a usage error."""
    value = (number % 2 ** (8 * width)).to_bytes(width, "little")
    outcome(SMALL[:place] + value + SMALL[place + width :], ".gguf")


NAMES = st.sampled_from(
    [
        *("token_embd.weight", "output.weight", "blk.0.attn_k.weight", "blk.0.attn_qkv.weight"),
        *("blk.1.ffn_up_exps.weight", "blk.0.ssm_conv1d.weight", "blk.0.ffn_up.3.weight"),
        *("blk.99999.attn_k.bias", "blk.0.attn_kv_a_mqa.weight", "v.1.x"),
    ]
)
SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=3).map(lambda sizes: (*sizes, 64))
VALUES = st.one_of(
    st.integers(0, 2**32 - 1),
    st.integers(0, 8),
    st.booleans(),
    st.floats(width=32),
    st.text(max_size=4),
    st.lists(st.integers(0, 4), max_size=4),
)
KEYS = st.sampled_from(
    [
        *("block_count", "embedding_length", "attention.head_count", "attention.head_count_kv"),
        *("attention.key_length", "attention.sliding_window", "attention.sliding_window_pattern"),
        *("expert_count", "expert_used_count", "context_length", "attention.kv_lora_rank"),
        *("rope.dimension_count", "ssm.conv_kernel", "ssm.inner_size", "nextn_predict_layers"),
    ]
)
ARCHITECTURES = st.sampled_from(
    ["llama", "gemma3", "gemma4", "deepseek2", "qwen3next", "llama4", "mamba", "newnet", "clip"]
)


@BUDGET
@given(ARCHITECTURES, st.dictionaries(KEYS, VALUES, max_size=6), st.dictionaries(NAMES, SHAPES, max_size=5))
def test_any_metadata_and_tensors_are_a_model_or_a_usage_error(
    architecture: str, changed: dict[str, Any], tensors: dict[str, tuple[int, ...]]
) -> None:
    """Valid files of senseless content."""
    values = {key.replace("llama.", f"{architecture}."): value for key, value in llama_values().items()}
    values |= {
        "general.architecture": architecture,
        **{f"{architecture}.{key}": value for key, value in changed.items()},
    }
    listed = [(name, shape, (F16, F32, Q8_0)[len(shape) % 3]) for name, shape in tensors.items()]
    outcome(GgufWriter().file(values, listed), ".gguf")


@BUDGET
@given(CHANGES)
def test_a_mutated_safetensors_file_is_a_model_or_a_usage_error(changes: list[tuple[int, int, bytes]]) -> None:
    """Whatever becomes of its bytes."""
    outcome(mutated(safetensors_file(llama_safetensors()), changes), ".safetensors", DECLARED)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@BUDGET
@given(st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "more"]), JSON), JSON)
def test_any_json_is_a_model_or_a_usage_error(entry: dict[str, Any], anything: Any) -> None:
    """Entries of any content under any name."""
    whole = {"dtype": "F16", "shape": [2], "data_offsets": [0, 4], **entry}
    for header in ({"w": whole}, {"w": anything}, anything):
        text = json.dumps(header).encode()
        outcome(len(text).to_bytes(8, "little") + text + bytes(4), ".safetensors", DECLARED)


@BUDGET
@given(st.binary(max_size=64), st.sampled_from([".gguf", ".safetensors"]))
def test_any_bytes_are_no_model(data: bytes, ending: str) -> None:
    """Noise, and noise behind a magic number, is refused."""
    assert outcome(data, ending, DECLARED) is None
    assert outcome(b"GGUF\x03\0\0\0" + data, ".gguf", DECLARED) is None


def test_the_files_that_are_mutated_are_sound() -> None:
    """Unchanged they are models: otherwise the fuzzing would never get past the first error."""
    assert outcome(SMALL, ".gguf") is not None
    assert outcome(llama_gguf(), ".gguf") is not None
    assert outcome(safetensors_file(llama_safetensors()), ".safetensors", DECLARED) is not None
