"""Whole GGUF models: what a block must have, by its metadata and by its siblings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from model_files import F16, GgufWriter, Tensor, completed, llama_tensors, llama_values

from pytest_roofline.architecture import Architecture, CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.gguf_file import read_gguf


def read(folder: Path, values: dict[str, Any], tensors: Sequence[Tensor], **how: Any) -> Architecture:
    """Write a file and read it."""
    path = folder / "model.gguf"
    path.write_bytes(GgufWriter().file(values, tensors))
    return read_gguf(path, **how)


def without(*beginnings: str, blocks: int = 2) -> list[Tensor]:
    """The small llama without tensors of these names."""
    return [tensor for tensor in llama_tensors(blocks=blocks) if not tensor[0].startswith(beginnings)]


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("token_embd", "token_embd.weight: not in the file"),
        ("blk.1.", "llama.block_count: 2, and the file holds nothing of block 1"),
        ("blk.0.attn_q", "blk.0.attn_q.weight: not in the file"),
        ("blk.1.attn_k", "blk.1.attn_k.weight: not in the file"),
        ("blk.1.attn_v", "blk.1.attn_v.weight: not in the file"),
        ("blk.1.attn_output", "blk.1.attn_output.weight: not in the file"),
        ("blk.0.ffn_gate", "blk.0.ffn_gate.weight: not in the file"),
        ("blk.0.ffn_up", "blk.0.ffn_up.weight: not in the file"),
        ("blk.1.ffn_down", "blk.1.ffn_down.weight: not in the file"),
    ],
)
def test_what_is_missing_is_named(missing: str, named: str, tmp_path: Path) -> None:
    """The first tensor or block that the file lacks."""
    with pytest.raises(RooflineUsageError, match=re.escape(f"model.gguf: {named}")):
        read(tmp_path, llama_values(), without(missing))


def test_siblings_tell_what_a_block_lacks(tmp_path: Path) -> None:
    """What most blocks have and metadata do not tell of: a gate of attention."""
    tensors = [*llama_tensors(blocks=4), *((f"blk.{block}.attn_gate.weight", (64, 64), F16) for block in (0, 1, 3))]
    with pytest.raises(RooflineUsageError, match=r"blk\.2\.attn_gate\.weight: not in the file, and in 3 of 4 blocks"):
        read(tmp_path, llama_values(llama__block_count=4), tensors)


def test_a_gate_may_be_part_of_up(tmp_path: Path) -> None:
    """One matrix of twice the width is both."""
    tensors = [
        (name, (192, 64) if "ffn_up" in name else shape, kind)
        for name, shape, kind in without("blk.0.ffn_gate", "blk.1.ffn_gate")
    ]
    assert read(tmp_path, llama_values(), tensors).layers == 2


def test_a_head_may_be_missing(tmp_path: Path) -> None:
    """Then the table is it."""
    assert read(tmp_path, llama_values(), without("output.")).layers == 2


def test_blocks_by_metadata_may_lack_parts(tmp_path: Path) -> None:
    """No heads, no attention; a feed-forward of no width is none."""
    values = {
        **{key.replace("llama.", "deci."): value for key, value in llama_values().items()},
        "general.architecture": "deci",
        "deci.attention.head_count": [4, 0],
        "deci.attention.head_count_kv": [2, 0],
        "deci.feed_forward_length": [96, 0],
    }
    tensors = [*without("blk.1."), ("blk.1.attn_norm.weight", (64,), F16)]
    assert [cache.layers for cache in read(tmp_path, values, tensors).caches] == [1]


@pytest.mark.parametrize("missing", ["blk.0.ssm_out", "blk.1.attn_output", "blk.0.ffn_up"])
def test_hybrids_are_whole_by_kind(missing: str, tmp_path: Path) -> None:
    """A block with a state needs its way in and out, one with attention its parts."""
    values = {key.replace("llama.", "qwen3next."): value for key, value in llama_values().items()}
    values |= {f"qwen3next.ssm.{name}": 16 for name in ("conv_kernel", "inner_size", "state_size")}
    values["general.architecture"] = "qwen3next"
    listed = [("token_embd.weight", (128, 64), F16), ("blk.0.ssm_conv1d.weight", (64, 4), F16)]
    tensors = completed(values, [*listed, ("blk.1.attn_k.weight", (32, 64), F16)])
    assert len(read(tmp_path, values, tensors).caches) == 3
    with pytest.raises(RooflineUsageError, match=re.escape(f"{missing}.weight: not in the file")):
        read(tmp_path, values, [tensor for tensor in tensors if not tensor[0].startswith(missing)])


def test_of_an_unknown_architecture_blocks_are_counted(tmp_path: Path) -> None:
    """What a block of it has is nobody's business here."""
    values = {key.replace("llama.", "newnet."): value for key, value in llama_values().items()}
    values["general.architecture"] = "newnet"
    caches = [CacheLayers(name="attention", layers=2, elements_per_token=64)]
    assert read(tmp_path, values, without("blk.0.ffn", "blk.1.attn"), caches=caches).layers == 2
    with pytest.raises(RooflineUsageError, match=r"newnet\.block_count: 2, and the file holds nothing of block 1"):
        read(tmp_path, values, without("blk.1."), caches=caches)
