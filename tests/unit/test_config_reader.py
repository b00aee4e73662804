"""Reading a config: where it may come from, which family reads it, and what is said about a broken one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from pytest_roofline import readers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.config import MODULES, known_families, read_config, read_family
from pytest_roofline.readers.fields import Fields

LLAMA: dict[str, Any] = {
    **{"model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "torch_dtype": "bfloat16"},
}
LAYER = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64


def write(folder: Path, text: str | bytes) -> Path:
    """A config.json of exactly this text."""
    file = folder / "config.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refused(source: Any) -> str:
    """The first line of the error that a source earns."""
    with pytest.raises(RooflineUsageError) as caught:
        read_config(source)
    return str(caught.value).splitlines()[0]


def test_a_file_a_folder_a_dict_and_an_object_are_one_model(tmp_path: Path) -> None:
    """Whatever somebody has in hand, the weights are the same; the name is where it came from."""

    class Config:
        def to_dict(self) -> dict[str, Any]:
            return {**LLAMA, "_name_or_path": "me/tiny"}

    folder = tmp_path / "tiny"
    folder.mkdir()
    file = write(folder, json.dumps(LLAMA))
    found = [read_config(source) for source in (LLAMA, str(file), folder, Config())]
    assert {model.weights for model in found} == {found[0].weights}
    assert found[0].parameters == 3 * LAYER + 2 * 1000 * 64 + 64
    assert [model.name for model in found] == ["llama", "tiny", "tiny", "me/tiny"]
    assert read_config(file, name="mine").name == "mine"
    assert found[1].source == str(file)


def test_what_is_no_config_is_refused() -> None:
    """Neither mapping nor path nor object with to_dict(): the error lists what is taken."""
    assert refused(42) == (
        "a config of int cannot be read: give a dict, a config.json, a folder with one, or an object with to_dict()"
    )


def test_an_unknown_architecture_says_how_to_declare_the_model() -> None:
    """No guess: near names, and the three ways around."""
    with pytest.raises(RooflineUsageError) as caught:
        read_config({**LLAMA, "model_type": "qwen33"})
    text = str(caught.value)
    assert text.splitlines()[0].startswith("config: model_type: 'qwen33' is not a known architecture; near it: qwen3")
    for way in ("--params 70B", "--active", "--kv-per-token", "traffic=", "--specs PATH", "Known: apertus, arcee"):
        assert way in text
    assert refused({}) == ("config: model_type: missing: it says how the layers are built (as architectures would)")


def test_the_class_stands_in_for_a_missing_model_type() -> None:
    """Old configs name only the class in ``architectures``."""
    values = {key: value for key, value in LLAMA.items() if key != "model_type"}
    model = read_config({**values, "architectures": ["LlamaForCausalLM"]})
    assert model.weights == read_config(LLAMA).weights
    assert "'NovelForCausalLM' is not a known architecture" in refused(
        {**values, "architectures": ["NovelForCausalLM"]}
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_hidden_layers": -4}, "num_hidden_layers: -4: a whole number from 1 to 2**40 is needed"),
        ({"num_hidden_layers": 1e9}, "num_hidden_layers: 1,000,000,000 layers: more than 10,000 are not believed"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: 0: a whole number from 1 to 2**40 is needed"),
        ({"num_hidden_layers": None}, "num_hidden_layers: missing: the bytes of a pass cannot be counted without it"),
        ({"hidden_size": 10**400}, "hidden_size: 1000"),
        ({"hidden_size": 10**5000}, "hidden_size: a number of very many digits: a whole number from 1 to 2**40"),
        ({"hidden_size": float("nan")}, "hidden_size: nan: a whole number"),
        ({"hidden_size": "4096"}, "hidden_size: the text '4096': a whole number"),
        ({"hidden_size": True}, "hidden_size: true: a whole number"),
        ({"hidden_size": [64]}, "hidden_size: a list of 1: a whole number"),
        ({"hidden_size": 65}, "num_attention_heads: 4: does not divide the width 65, and head_dim is not given"),
        ({"num_key_value_heads": 3}, "num_key_value_heads: 3: 4 query heads cannot share 3 key heads evenly"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: the text 'yes': true or false is needed"),
        ({"torch_dtype": "int3"}, "torch_dtype: 'int3' is not known; float64, float32, float16, bfloat16"),
        ({"torch_dtype": 16}, "torch_dtype: 16: a text is needed"),
        ({"architectures": 3, "model_type": None}, "architectures: 3: a list is needed"),
        ({"model_type": 5}, "model_type: 5: a text is needed"),
        ({"quantization_config": 5}, "quantization_config: 5: a mapping is needed"),
        ({"model_type": "qwen2", "layer_types": ["full_attention"]}, "layer_types: 1 entries for 3 layers"),
        ({"model_type": "qwen2", "layer_types": ["a", "b", "c"]}, "layer_types[0]: the text 'a' is not known here"),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5},
            "num_experts_per_tok: 5: there are only 4 experts (num_local_experts)",
        ),
        ({"model_type": "smollm3", "no_rope_layers": [1]}, "no_rope_layers: 1 entries for 3 layers"),
    ],
)
def test_an_impossible_value_names_file_and_key(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    """What is missing, of the wrong kind or absurd."""
    assert refused({**LLAMA, **changes}).startswith(f"config: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not valid JSON: line 1: Expecting value"),
        ('{"model_type": ', "is not valid JSON: line 1"),
        ("[1, 2]", "holds a list of 2: a JSON object is needed"),
        ('"llama"', "holds the text 'llama': a JSON object is needed"),
        ('{"a": 1, "a": 2}', "a: given twice"),
        ('{"x": {"b": 1, "b": 2}}', "b: given twice"),
        ('{"hidden_size": NaN}', "holds NaN, which is no number"),
        ('{"hidden_size": -Infinity}', "holds -Infinity, which is no number"),
        ('{"a":' * 200_000, "is nested too deep"),
        ("[" * 200_000, "is nested too deep"),
        (b"\xff\xfe\x00", "is not UTF-8 text (byte 0)"),
        ('{"model_type": "llama", "vocab_size": 1' + "0" * 400 + "}", "is not"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str | bytes, problem: str) -> None:
    """Truncated, hostile or odd JSON ends in one line that names the file."""
    file = write(tmp_path, text)
    line = refused(file)
    assert line.startswith(f"{file}: ")
    if "vocab_size" in str(text):
        assert line == f"{file}: hidden_size: missing: the bytes of a pass cannot be counted without it"
    else:
        assert problem in line


def test_a_number_of_many_digits_is_refused_by_key(tmp_path: Path) -> None:
    """10**400 and a million digits are no size, and take no time."""
    for digits in (400, 1_000_000):
        text = json.dumps({**LLAMA, "hidden_size": 7}).replace("7", "1" + "0" * digits, 1)
        assert "hidden_size: inf: a whole number from 1 to 2**40 is needed" in refused(write(tmp_path, text))


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, an empty folder, a loop of links, a pipe, a name with a null byte, and a file too large."""
    assert refused(tmp_path / "no.json") == f"{tmp_path / 'no.json'}: cannot be read: No such file or directory"
    assert refused(tmp_path) == f"{tmp_path / 'config.json'}: cannot be read: No such file or directory"

    def refuse(path: Path) -> bool:
        raise RuntimeError("loop")  # as some versions of Python do

    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert refused(loop) == f"{loop}: a symbolic link that leads nowhere"
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    assert refused(pipe) == f"{pipe}: is no file"
    assert "cannot be read" in refused("a\0b")
    monkeypatch.setattr(Path, "is_dir", refuse)
    assert refused(pipe) == f"{pipe}: cannot be read: loop"
    monkeypatch.undo()
    large = tmp_path / "large.json"
    with large.open("wb") as stream:
        stream.truncate(400 * 10**9)
    assert refused(large) == f"{large}: 400,000,000,000 bytes: a config of over 16,777,216 is not read"


def test_the_dtype_is_the_checkpoints() -> None:
    """``dtype`` or ``torch_dtype``, of the whole or of its text part; a missing one is assumed, and said so."""
    plain = {key: value for key, value in LLAMA.items() if key != "torch_dtype"}
    assert read_config({**plain, "dtype": "torch.float16"}).dtype == "float16"
    assert read_config({**plain, "torch_dtype": "float32"}).dtype == "float32"
    assert read_config({**plain, "text_config": {"dtype": "float16"}}).dtype == "float16"
    assumed = read_config(plain)
    assert (assumed.dtype, assumed.notes) == ("bfloat16", ("the config states no dtype: bfloat16 assumed",))
    assert read_config({**plain, "dtype": "auto"}).dtype == "bfloat16"
    assert read_config(LLAMA).notes == ()


def test_uses_and_names_of_weights() -> None:
    """Untied: the embedding is looked up. Tied: it is the head, read whole under its own name."""
    untied = {weight.name: weight for weight in read_config(LLAMA).weights}
    assert (untied["model.embed_tokens"].use, untied["lm_head"].use) == ("lookup", "matrix")
    assert untied["model.layers.*.self_attn.k_proj"].shape == (32, 64)
    assert untied["model.layers.*.mlp.down_proj"].layers == (0, 1, 2)
    tied = {weight.name: weight for weight in read_config({**LLAMA, "tie_word_embeddings": True}).weights}
    assert (tied["model.embed_tokens"].use, tied["model.embed_tokens"].part) == ("matrix", "embedding")
    assert "lm_head" not in tied
    positions = read_config({"model_type": "gpt2", "vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 2})
    table = next(weight for weight in positions.weights if weight.name == "transformer.wpe")
    assert (table.use, table.shape) == ("lookup", (1024, 8))


def test_null_and_missing_differ() -> None:
    """Mistral's class has a window of 4096: a config that leaves the key out has it, one that says null has none."""
    mistral = {**LLAMA, "model_type": "mistral"}
    assert [cache.window for cache in read_config(mistral).caches] == [4096]
    assert [cache.window for cache in read_config({**mistral, "sliding_window": None}).caches] == [None]


def test_a_whole_config_states_its_sizes_and_a_part_may_not() -> None:
    """A text_config is the difference from its class; a config.json without a width is broken."""
    assert refused({"model_type": "llama"}).startswith("config: hidden_size: missing")
    part = Fields(file="config.json", values={"model_type": "llama"}, path="text_config")
    assert read_family(part).parameters == 6_738_415_616  # Llama 7B
    with pytest.raises(RooflineUsageError, match=r"^config\.json: text_config\.hidden_size: -1"):
        read_family(Fields(file="config.json", values={"model_type": "llama", "hidden_size": -1}, path="text_config"))


def test_heads_of_helium_are_as_wide_as_the_residual() -> None:
    """Its output projection takes the residual's width in: a config whose heads have another runs nowhere."""
    helium = {**LLAMA, "model_type": "helium", "head_dim": 16, "attention_bias": False, "mlp_bias": False}
    helium |= {"tie_word_embeddings": False}
    assert read_config(helium).hidden == 64
    assert refused({**helium, "head_dim": 32}) == (
        "config: head_dim: 32: 4 heads of it are not the width 64, as Helium's must be"
    )


def test_hunyuan_says_one_number_for_each_layer() -> None:
    """As its checkpoints have it; what differs between layers, or from the width of all, is refused."""
    moe = {**LLAMA, "model_type": "hunyuan_v1_moe", "num_experts": 4, "moe_topk": 2}
    each = {"num_experts": 4, "moe_topk": [2] * 3, "moe_intermediate_size": [96] * 3, "num_shared_expert": [1] * 3}
    assert read_config({**moe, **each}).weights == read_config(moe).weights
    assert refused({**moe, "moe_topk": [2, 2, 1]}).startswith("config: moe_topk: the layers differ")
    assert refused({**moe, "moe_topk": []}).startswith("config: moe_topk: the layers differ")
    assert refused({**moe, "moe_intermediate_size": 48}) == "config: moe_intermediate_size: 48: only 96 is known here"
    assert refused({**moe, "num_shared_expert": [2] * 3}) == "config: num_shared_expert: 2: only 1 is known here"
    assert refused({**moe, "moe_topk": 5}).startswith("config: moe_topk: 5: there are only 4 experts")


def test_exaone_spells_its_windows() -> None:
    """``LLLG`` repeats from the first layer; the last layer is always full."""
    exaone = {**LLAMA, "model_type": "exaone4", "num_hidden_layers": 6, "sliding_window": 8}
    for pattern, full in (("LLLG", 2), ("LLLL", 1), (2, 3), (None, 6)):
        caches = read_config({**exaone, "sliding_window_pattern": pattern}).caches
        assert sum(cache.layers for cache in caches if cache.window is None) == full


def test_every_family_module_is_in_the_table() -> None:
    """The table of modules names each family of each module, and nothing else."""
    held = {}
    for info in iter_modules(readers.__path__):
        module = import_module(f"pytest_roofline.readers.{info.name}")
        if hasattr(module, "FAMILIES"):
            held[info.name] = set(module.FAMILIES)
    assert {name: set(families) for name, families in MODULES.items()} == held
    assert len(known_families()) == len(set(known_families()))


def test_reading_one_family_imports_no_other() -> None:
    """A prediction pays for the family that it needs, and for no framework."""
    code = (
        "import sys, json; from pytest_roofline.readers.config import read_config; "
        f"read_config(json.loads({json.dumps(json.dumps(LLAMA))})); "
        "print([name for name in ('torch', 'numpy', 'pytest', 'yaml', 'pytest_roofline.readers.mixture') "
        "if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
