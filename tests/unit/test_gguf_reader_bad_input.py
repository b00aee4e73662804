"""Broken and hostile GGUF files: every one is an error that names file and key, in bounded memory and time."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from model_files import F16, F32, Q4_K, GgufWriter, completed, llama_gguf, llama_tensors, llama_values

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.gguf_file import read_gguf
from pytest_roofline.readers.gguf_header import MOST_STRINGS

START = b"GGUF" + struct.pack("<I", 3)


def refused(folder: Path, data: bytes, *, size_bytes: int | None = None) -> str:
    """What reading this file says; the file may be made longer, sparsely."""
    path = folder / "bad.gguf"
    path.write_bytes(data)
    if size_bytes is not None:
        os.truncate(path, size_bytes)
    with pytest.raises(RooflineUsageError) as caught:
        read_gguf(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_a_file_cut_at_any_byte_is_an_error(tmp_path: Path) -> None:
    """Header or data: whatever is missing, the file is refused and named."""
    values = {key: value for key, value in llama_values().items() if not key.startswith("tokenizer")}
    values |= {"tokenizer.ggml.tokens": ["a", "bc"], "llama.block_count": 1}
    parts = ("attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    tensors = [("token_embd.weight", (2, 32), F16), ("blk.0.attn_norm.weight", (64,), F32)]
    tensors += [(f"blk.0.{part}.weight", (1, 16), F16) for part in parts]
    whole = GgufWriter().file(values, tensors)
    (tmp_path / "sound.gguf").write_bytes(whole)
    assert read_gguf(tmp_path / "sound.gguf").parameters == 2 * 32 + 64 + 5 * 16
    for length in range(len(whole)):
        assert refused(tmp_path, whole[:length])


def test_a_truncated_download_says_how_much_is_missing(tmp_path: Path) -> None:
    """The tensor that ends behind the file's end is named, with the bytes that lack."""
    message = refused(tmp_path, llama_gguf()[:-1000])
    assert message.startswith("blk.1.ffn_norm.weight: ends at byte ")
    assert "truncated, 1.00 kB are missing" in message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "an empty file"),
        (b"GG", "no GGUF file: it begins with 'GG'"),
        (b"ELF0" * 9, "no GGUF file: it begins with 'ELF0', not 'GGUF'"),
        (b"\x7fEL\0" * 9, "no GGUF file: it begins with the bytes 7f 45 4c 00, not 'GGUF'"),
        (b"GGUF", "version: reaches to byte 8 of the header, the file has 4"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version: 4; 1 to 3 are known"),
        (b"GGUF" + struct.pack("<IQQ", 0, 0, 0), "version: 0; 1 to 3 are known"),
        (START + struct.pack("<QQ", 2**63, 0), "tensor_count: 9,223,372,036,854,775,808 tensors; more than"),
        (START + struct.pack("<QQ", 0, 2**63), "metadata_kv_count: 9,223,372,036,854,775,808 keys; more than"),
        (
            START + struct.pack("<QQ", 200_000, 0),
            "tensor 1 of 200000: reaches to byte 32 of the header, the file has 24",
        ),
        (
            START + struct.pack("<QQQ", 0, 1, 2**62),
            "key 1 of 1: a text of 4,611,686,018,427,387,904 bytes; at most 512",
        ),
        (
            START + struct.pack("<QQQ", 0, 1, 100) + b"k",
            "key 1 of 1: reaches to byte 132 of the header, the file has 33",
        ),
        (START + struct.pack("<QQQ2s", 0, 1, 2, b"\xff\xfe"), "key 1 of 1: bytes that are no UTF-8 text"),
        (START + struct.pack("<QQQ1sI", 0, 1, 1, b"k", 13), "k: value of type 13; 0 to 12 are known"),
        (START + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 9, 1), "k: an array of values of type 9"),
        (START + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 4, 2**62), "k: reaches to byte 18,446,744,073,709,551,"),
        (START + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, 2**62), "k: 4,611,686,018,427,387,904 texts; more than"),
        (START + struct.pack("<QQQ1sIQ", 0, 1, 1, b"k", 8, 2**62), "k: reaches to byte 4,611,686,018,427,387,"),
    ],
)
def test_headers_that_claim_too_much(tmp_path: Path, data: bytes, message: str) -> None:
    """Counts, lengths, types and versions that cannot be are named, and nothing of their size is made."""
    assert refused(tmp_path, data).startswith(message)


def entry(name: str, dimensions: tuple[int, ...], kind: int = F16, offset: int = 0) -> bytes:
    """A file of one tensor as the header lists it."""
    body = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dimensions))
    body += b"".join(struct.pack("<Q", size) for size in dimensions) + struct.pack("<IQ", kind, offset)
    return START + struct.pack("<QQ", 1, 0) + body + bytes(64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (entry("", (1,)), "tensor 1 of 1: a tensor without a name"),
        (entry("w", (1, 1, 1, 1, 1)), "w: 5 dimensions; at most 4 are known"),
        (entry("w", (2**32, 2**32)), "w: shape (4294967296, 4294967296): sizes from 1, and at most 2**63"),
        (entry("w", (0, 4)), "w: shape (4, 0): sizes from 1"),
        (entry("w", (2**64 - 1,)), "w: shape (18446744073709551615,): sizes from 1, and at most 2**63"),
        (entry("w", (4,), kind=4), "w: GGML type 4 is not known here"),
        (entry("w", (4,), kind=2**32 - 1), "w: GGML type 4294967295 is not known here"),
        (entry("w", (100, 2), kind=Q4_K), "w: rows of 100 are no whole blocks of 256 (Q4_K)"),
        (entry("w", (4,), offset=3), "w: offset 3 is no multiple of the alignment 32"),
        (entry("w", (4,), offset=2**63), "w: ends at byte 9,223,372,036,854,775,880, the file has "),
        (entry("w", (2**40,)), "w: ends at byte "),
    ],
)
def test_tensors_that_cannot_be(tmp_path: Path, data: bytes, message: str) -> None:
    """Shapes, types and places of tensors are checked, and the tensor is named."""
    assert refused(tmp_path, data).startswith(message)


def test_tensors_that_overlap_are_named(tmp_path: Path) -> None:
    """Two tensors on the same bytes are one too many."""
    data = GgufWriter().file(llama_values(), llama_tensors()[:2], offsets=[0, 32])
    assert refused(tmp_path, data).startswith(
        "output_norm.weight: begins at byte 32 of the data, where token_embd.weight"
    )


def test_names_and_keys_given_twice_are_named(tmp_path: Path) -> None:
    """A tensor or a key that comes twice has no meaning."""
    twice = [("token_embd.weight", (128, 64), F16)] * 2
    assert refused(tmp_path, GgufWriter().file(llama_values(), twice)) == "token_embd.weight: 2 tensors have this name"
    writer = GgufWriter()
    key = writer.text("general.name") + writer.value("x")
    assert refused(tmp_path, START + struct.pack("<QQ", 0, 2) + key * 2) == "general.name: this key is given twice"


@pytest.mark.parametrize("alignment", [0, 3, 48, 2**21, "32", 32.0])
def test_an_alignment_is_a_power_of_two(tmp_path: Path, alignment: Any) -> None:
    """Anything else would move the data anywhere."""
    data = GgufWriter().file({"general.name": "x"}, [("token_embd.weight", (128, 64), F16)])
    broken = GgufWriter().value(alignment)
    data = data.replace(
        GgufWriter().text("general.name") + GgufWriter().value("x"), GgufWriter().text("general.alignment") + broken
    )
    assert refused(tmp_path, data).startswith("general.alignment: ")


def test_an_architecture_must_be_named(tmp_path: Path) -> None:
    """Without general.architecture no key has a name."""
    data = GgufWriter().file({"general.name": "x"}, [("token_embd.weight", (128, 64), F16)])
    assert refused(tmp_path, data).startswith("general.architecture: missing")


def test_a_sparse_file_of_empty_texts_is_left_early(tmp_path: Path) -> None:
    """Zeros that read as texts without end, or as a long array, cost neither time nor memory."""
    claim = struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, MOST_STRINGS)
    tracemalloc.start()
    assert "k: 4,194,305 texts" in refused(
        tmp_path,
        START + claim.replace(struct.pack("<Q", MOST_STRINGS), struct.pack("<Q", MOST_STRINGS + 1)),
        size_bytes=2**40,
    )
    assert "believed" in refused(
        tmp_path, START + struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 4, 2**30), size_bytes=2**40
    )
    assert "a tensor without a name" in refused(tmp_path, START + struct.pack("<QQ", 100_000, 0), size_bytes=2**40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


def test_long_vocabularies_are_stepped_over(tmp_path: Path) -> None:
    """A vocabulary of 100,000 tokens leaves nothing behind, and less than a megabyte is held on the way."""
    path = tmp_path / "model.gguf"
    path.write_bytes(GgufWriter().file(llama_values(tokenizer__ggml__tokens=["token"] * 100_000), llama_tensors()))
    tracemalloc.start()
    read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_a_400_gigabyte_file_is_read_by_its_header(tmp_path: Path) -> None:
    """Only the header's chunks are read of a sparse file of that size."""
    side = 2**18
    values = llama_values(llama__embedding_length=side)
    tensors = [("token_embd.weight", (side, side), F16), ("blk.0.ffn_up.weight", (2 * side, side), F16)]
    tensors = completed(values, tensors)
    size_bytes = 412_316_860_416 + (len(tensors) - 2) * 64 * 64 * 2
    path = tmp_path / "huge.gguf"
    path.write_bytes(GgufWriter().file(values, tensors, data=False))
    os.truncate(path, size_bytes + path.stat().st_size)
    tracemalloc.start()
    model = read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(weight.stored_bytes or 0 for weight in model.weights) == size_bytes
    assert peak < 1e6


def test_metadata_without_end_is_not_kept(tmp_path: Path) -> None:
    """Hundreds of arrays of 65,536 entries are stepped over once four million entries are kept."""
    writer = GgufWriter()
    array = struct.pack("<IIQ", 9, 0, 2**16) + bytes(2**16)
    keys = b"".join(writer.text(f"x.{number}") + array for number in range(500))
    path = tmp_path / "wide.gguf"
    path.write_bytes(START + struct.pack("<QQ", 0, 500) + keys)
    tracemalloc.start()
    with pytest.raises(RooflineUsageError, match="no tensors"):
        read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6
