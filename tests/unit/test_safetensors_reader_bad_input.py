"""Broken and hostile safetensors files: every one is an error that names file and key, in bounded memory and time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_files import safetensors_file

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.safetensors_file import read_safetensors


def test_a_file_cut_at_any_byte_is_an_error(tmp_path: Path) -> None:
    """Length, header or data: whatever is missing, the file is refused and named."""
    whole = safetensors_file({"a.weight": ("F16", (4, 4)), "b": ("F32", (2,))})
    path = tmp_path / "model.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(RooflineUsageError, match=r"model\.safetensors: "):
            read_safetensors(path, caches=[])


def entry(**changed: Any) -> dict[str, Any]:
    """One entry of a header."""
    return {"dtype": "F16", "shape": [2], "data_offsets": [0, 4], **changed}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"w": entry(shape=[-1])}, r"w: shape: \[-1\]; whole numbers from 0"),
        ({"w": entry(shape=[2.0])}, r"w: shape: \[2\.0\]"),
        ({"w": entry(shape=[True])}, r"w: shape: \[True\]"),
        ({"w": entry(shape="2")}, r"w: shape: '2'"),
        ({"w": entry(shape=[2**63])}, r"w: shape: "),
        ({"w": entry(shape=[2**62] * 4)}, r"w: data_offsets: 4 bytes, where F16 of .* takes more than any file"),
        ({"w": entry(shape=[1] * 33)}, r"w: shape: 33 dimensions"),
        ({"w": entry(shape=[3])}, r"w: data_offsets: 4 bytes, where F16 of \[3\] takes 6"),
        ({"w": entry(dtype="F17")}, r"w: dtype: 'F17' is not known"),
        ({"w": entry(dtype=[])}, r"w: dtype: \[\] is not known"),
        ({"w": entry(data_offsets=[0])}, r"w: data_offsets: \[0\]; a begin and an end"),
        ({"w": entry(data_offsets=[4, 0])}, r"w: data_offsets: -4 bytes"),
        ({"w": entry(data_offsets=[4, 8])}, r"w: data_offsets: begins at 4 of the data and leaves a hole"),
        ({"w": entry(), "v": entry()}, r"[vw]: data_offsets: begins at 0 of the data and overlaps"),
        ({"w": {"dtype": "F16"}}, r"w: dtype, shape and data_offsets are needed"),
        ({"w": 5}, r"w: dtype, shape and data_offsets are needed, not 5"),
        ({}, "4 bytes behind the last tensor"),
    ],
)
def test_entries_that_cannot_be_are_named(tmp_path: Path, header: dict[str, Any], message: str) -> None:
    """Shapes, dtypes and places are checked."""
    text = json.dumps(header).encode()
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(RooflineUsageError, match=rf"bad\.safetensors: {message}"):
        read_safetensors(path, caches=[])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"w": 1, "w": 2}', "w: given twice"),
        (b"[]", "holds a list of 0: a JSON object is needed"),
        (b"nothing", "is not valid JSON: line 1"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        (b'{"w": ' + b"9" * 5000 + b"}", "dtype, shape"),
        (b"[" * 100_000 + b"]" * 100_000, "is nested too deep"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is nested too deep"),
        (
            b"{" + b",".join(b'"%x":1' % number for number in range(5)) + b"," * 2**21 + b"}",
            "more than 2,097,152 are not",
        ),
    ],
    ids=["twice", "list", "text", "utf-16", "digits", "deep list", "deep object", "many"],
)
def test_json_bombs_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    """Depth, number of parts, digits and names are bounded."""
    path = tmp_path / "bad.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(RooflineUsageError, match=message):
        read_safetensors(path, caches=[])


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (2**63, "safetensors allow 100,000,000"),
        (100_000_001, "safetensors allow"),
        (99_999_999, "reaches to byte 100,000,007"),
    ],
)
def test_a_header_longer_than_the_file_or_the_format_is_refused(tmp_path: Path, length: int, message: str) -> None:
    """Nothing of its claimed size is made."""
    path = tmp_path / "bad.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(RooflineUsageError, match=rf"header length: .*{message}"):
        read_safetensors(path, caches=[])


def test_a_tensor_in_two_shards_is_an_error(tmp_path: Path) -> None:
    """Names are unique in all files together."""
    for number in (1, 2):
        (tmp_path / f"model-{number:05d}-of-00002.safetensors").write_bytes(safetensors_file({"w": ("F16", (4, 4))}))
    with pytest.raises(RooflineUsageError, match=r"00002-of-00002\.safetensors: w: stands in .*00001-of-00002"):
        read_safetensors(tmp_path, caches=[])


def test_an_empty_checkpoint_is_an_error(tmp_path: Path) -> None:
    """A header without tensors is no model."""
    (tmp_path / "model.safetensors").write_bytes(safetensors_file({}))
    with pytest.raises(RooflineUsageError, match="no tensors: an empty checkpoint"):
        read_safetensors(tmp_path)
