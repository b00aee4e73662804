"""One door for everything: configs, folders, GGUF and safetensors files; and what is none of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from model_files import LLAMA_CONFIG, llama_gguf, llama_safetensors, safetensors_file

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.checkpoint import read_model
from pytest_roofline.readers.config import read_config


class Config:
    """As transformers' configs are."""

    def to_dict(self) -> dict[str, Any]:
        """The whole."""
        return LLAMA_CONFIG


def test_every_kind_of_source_gives_the_same_model(tmp_path: Path) -> None:
    """A mapping, an object, a file, folders of each kind, and the architecture itself agree."""
    config, files, gguf = (tmp_path / name for name in ("config", "safetensors", "gguf"))
    for folder in (config, files, gguf):
        folder.mkdir()
    (config / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    (files / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    (files / "model.safetensors").write_bytes(safetensors_file(llama_safetensors()))
    (gguf / "model.gguf").write_bytes(llama_gguf())
    (gguf / "mmproj-model.gguf").write_bytes(b"")
    sources: list[Any] = [LLAMA_CONFIG, Config(), config, str(config), config / "config.json", files]
    sources += [files / "model.safetensors", gguf, str(gguf / "model.gguf"), read_config(LLAMA_CONFIG)]
    models = [read_model(source) for source in sources]
    assert {(model.parameters, model.streamed_parameters, model.kv_elements_per_token()) for model in models} == {
        (models[0].parameters, models[0].streamed_parameters, 128)
    }


def test_an_index_stands_for_its_folder(tmp_path: Path) -> None:
    """Naming the index reads the checkpoint beside it."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    (tmp_path / "weights.safetensors").write_bytes(safetensors_file(llama_safetensors()))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(llama_safetensors(), "weights.safetensors")}))
    assert read_model(index).kv_elements_per_token() == 128


def test_files_are_known_by_their_beginning(tmp_path: Path) -> None:
    """A name without an ending is no hindrance."""
    (tmp_path / "blob").write_bytes(llama_gguf())
    assert read_model(tmp_path / "blob").kv_elements_per_token() == 128
    (tmp_path / "other").write_bytes(safetensors_file(llama_safetensors()))
    (tmp_path / "config.json").write_text("\ufeff\n" + json.dumps(LLAMA_CONFIG), encoding="utf-8")
    assert read_model(tmp_path / "other").kv_elements_per_token() == 128
    assert read_model(tmp_path / "config.json").kv_elements_per_token() == 128


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04rest", "a torch checkpoint"),
        (b"\x80\x02rest", "a pickle, which is never opened"),
        (b"\x89HDF\r\n", "an HDF5 file"),
        (b"tjggrest", "a GGML file of before GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"hello, world", "not a model that is known here: it begins with 'hello, w'"),
    ],
)
def test_files_of_other_kinds_say_what_they_are(tmp_path: Path, data: bytes, message: str) -> None:
    """The error says what to name instead."""
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    with pytest.raises(RooflineUsageError, match=rf"model\.bin: {message}"):
        read_model(path)


def test_empty_files_of_known_endings_are_errors(tmp_path: Path) -> None:
    """An ending does not make a model."""
    for name in ("model.gguf", "model.safetensors"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(RooflineUsageError, match=f"{name}: "):
            read_model(tmp_path / name)


def test_folders_without_a_model_or_with_several(tmp_path: Path) -> None:
    """What is missing, or could be named, is said."""
    with pytest.raises(RooflineUsageError, match=r"no config\.json, no safetensors and no GGUF file in this folder"):
        read_model(tmp_path)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(llama_gguf())
    with pytest.raises(RooflineUsageError, match=r"2 GGUF files: name one of a\.gguf, b\.gguf"):
        read_model(tmp_path)


@pytest.mark.parametrize("source", [None, 5, object(), [1], b"path", "", "a\0b"])
def test_what_is_no_source_is_an_error(source: Any) -> None:
    """Numbers, lists, bytes and empty names."""
    with pytest.raises(RooflineUsageError):
        read_model(source)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    """A path without a file."""
    with pytest.raises(RooflineUsageError, match=r"nothing\.gguf: no such file or folder"):
        read_model(tmp_path / "nothing.gguf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("name", ["model.gguf", "model.safetensors", "config.json", "model.safetensors.index.json"])
def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path, name: str) -> None:
    """Nobody writes to it: a plain open would wait for ever."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(RooflineUsageError, match=r"a pipe|is no file"):
        read_model(tmp_path / name)
    with pytest.raises(RooflineUsageError, match=r"a pipe|is no file"):
        read_model(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices on this system")
def test_a_device_is_refused() -> None:
    """Zeros without end are no file."""
    with pytest.raises(RooflineUsageError, match="/dev/zero: a device, not a regular file"):
        read_model("/dev/zero")


@pytest.mark.parametrize("name", ["model.gguf", "model.safetensors", "config.json"])
def test_a_loop_of_links_is_an_error(tmp_path: Path, name: str) -> None:
    """A link to itself, and one to what is gone, lead nowhere: named itself, and found in its folder."""
    for number, target in enumerate((name, "gone")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).symlink_to(folder / target)
        with pytest.raises(RooflineUsageError, match=rf"{name}: a symbolic link that leads nowhere$"):
            read_model(folder / name)
        with pytest.raises(RooflineUsageError, match=rf"{name}: a symbolic link that leads nowhere$"):
            read_model(folder)


def test_a_folder_where_a_file_should_be_is_an_error(tmp_path: Path) -> None:
    """A folder by a file's name inside a checkpoint."""
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(
        RooflineUsageError, match=r"model\.safetensors: (a folder, not a regular file|cannot be opened)"
    ):
        read_model(tmp_path)
