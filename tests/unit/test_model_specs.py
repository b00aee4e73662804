"""The library of models: what the files must hold, and what a name of it counts to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.models import model_named, read_model
from pytest_roofline.specs.names import Entry

GOOD = """\
schema: 1
sources:
  count: "counted"
  card: "the publisher's card"
models:
  - id: tiny-1m
    name: Tiny 1M
    aliases: [org/Tiny-1M]
    published: "1M"
    parameters: {value: 1_443_072, source: count}
    config: {model_type: llama, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 2, num_attention_heads: 4,
      num_key_value_heads: 2, vocab_size: 512, tie_word_embeddings: false, torch_dtype: bfloat16}
    source: card
"""
DECLARED = """\
schema: 1
sources:
  card: "the publisher's card"
models:
  - id: in-house
    name: In-house
    parameters: {value: 70_000_000_000, source: card}
"""

# Parameters, those one token reads, KV elements per token: of the classes on the meta device, and by hand.
COUNTS = {
    "llama-2-70b": (68_976_648_192, 68_714_504_192, 163_840),
    "llama-3-8b": (8_030_261_248, 7_504_924_672, 65_536),
    "llama-3.1-405b": (405_853_388_800, 403_752_042_496, 258_048),
    "llama-3.2-1b": (1_235_814_400, 1_235_814_400, 16_384),
    "llama-4-maverick": (400_711_848_960, 16_150_205_440, 98_304),
    "qwen2.5-7b": (7_615_616_512, 7_070_619_136, 28_672),
    "qwen3-30b-a3b": (30_532_122_624, 3_041_867_776, 49_152),
    "mixtral-8x7b": (46_702_792_704, 12_748_853_248, 65_536),
    "deepseek-v2-lite": (15_706_484_224, 2_451_435_008, 15_552),
    "deepseek-v3-r1": (671_026_404_352, 36_625_603_584, 35_136),
    "kimi-k2": (1_026_408_209_408, 31_687_072_768, 35_136),
    "gemma-3-27b": (27_009_346_304, 27_009_346_304, 253_952),
    "gpt-oss-20b": (20_914_757_184, 3_608_307_264, 24_576),
    "gpt-oss-120b": (116_829_156_672, 5_132_849_472, 36_864),
    "glm-4.5-air": (106_852_245_504, 12_803_366_912, 94_208),
    "phi-4": (14_659_507_200, 14_145_704_960, 102_400),
    "jamba-v0.1": (51_570_323_328, 11_841_875_840, 8_192),
    "qwen3-next-80b-a3b": (79_674_391_296, 3_563_764_480, 12_288),
}


@pytest.fixture(scope="module")
def models() -> dict[str, Architecture]:
    """The package's own models, read once: each must count to the parameters that its file states."""
    return {model.name: model for model in read_all(Catalogue())}


def read_all(catalogue: Catalogue) -> tuple[Architecture, ...]:
    """Every model of a catalogue."""
    return tuple(read_model(*entry, position) for position, entry in enumerate(catalogue.entries("models")))


def load(tmp_path: Path, text: str) -> tuple[Architecture, ...]:
    """Load one file of that text and nothing else."""
    file = tmp_path / "models.yaml"
    file.write_text(text, encoding="utf-8")
    return read_all(Catalogue([file], builtin=False))


def test_every_model_of_the_package_counts_to_its_stated_parameters(models: dict[str, Architecture]) -> None:
    """The files hold the models that people serve, and none of them is off by a single parameter."""
    assert len(models) >= 60


def test_every_model_of_the_package_states_its_parameters_and_what_it_is_called_by_its_publisher() -> None:
    """No entry slips in without the count that holds its config in check."""
    for reader, entry in Catalogue().entries("models"):
        assert {"parameters", "published", "config"} <= entry.keys(), f"{reader.file}: {entry['id']}"


@pytest.mark.parametrize("name", COUNTS)
def test_a_known_model_has_its_known_figures(models: dict[str, Architecture], name: str) -> None:
    """Parameters, those that one token reads, and the KV cache are the published ones."""
    parameters, streamed, kv_elements = COUNTS[name]
    model = models[name]
    assert model.parameters == parameters
    assert model.streamed_parameters == pytest.approx(streamed, rel=1e-12)
    assert model.kv_elements_per_token() == kv_elements


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("Llama 3.1 8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("llama-3.1-8b-instruct", "llama-3.1-8b"),
        ("DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"),
        ("llama-3-8b", "llama-3-8b"),
        ("LLAMA_3.3_70B", "llama-3.3-70b"),
        ("meta-llama/Meta-Llama-3-70B", "llama-3-70b"),
        ("deepseek-r1", "deepseek-v3-r1"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "qwen2.5-14b"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)
def test_a_model_is_found_by_whatever_people_call_it(name: str, found: str) -> None:
    """Ids, names, and the names of checkpoints of the same shapes."""
    assert model_named(name).name == found


def test_versions_of_the_same_shape_are_models_of_their_own(models: dict[str, Architecture]) -> None:
    """Llama 3 and 3.1 differ in how far their context goes, and each names its own document."""
    old, new = models["llama-3-8b"], models["llama-3.1-8b"]
    assert old.parameters == new.parameters
    assert (old.max_context, new.max_context) == (8192, 131072)
    assert old.source != new.source
    assert new.source == "meta-llama/Llama-3.1-8B, config.json"


def test_checkpoints_that_are_published_quantized_say_so(models: dict[str, Architecture]) -> None:
    """The default weights of gpt-oss, DeepSeek-V3 and Kimi K2 are those of their checkpoints."""
    storages = {name: models[name].storage for name in ("gpt-oss-20b", "deepseek-v3-r1", "kimi-k2", "llama-3.1-8b")}
    assert {name: storage.format if storage else None for name, storage in storages.items()} == {
        "gpt-oss-20b": "mxfp4",
        "deepseek-v3-r1": "fp8-block",
        "kimi-k2": "fp8-block",
        "llama-3.1-8b": None,
    }


def test_an_unknown_model_is_an_error_with_the_nearest_names() -> None:
    """A slip of the finger is put right by the message."""
    with pytest.raises(RooflineUsageError, match=r"lama-3\.1-8b.*nearest:.*llama-3\.1-8b"):
        model_named("lama-3.1-8b")


def test_a_file_of_a_user_adds_models(tmp_path: Path) -> None:
    """Their configs are read as a config.json is, beside the package's own models."""
    (tmp_path / "mine.yaml").write_text(GOOD, encoding="utf-8")
    catalogue = Catalogue([tmp_path])
    model = model_named("org/tiny-1m", catalogue)
    assert (model.name, model.source, model.parameters) == ("tiny-1m", "the publisher's card", 1_443_072)
    assert model.weights == load(tmp_path, GOOD)[0].weights
    assert model_named("llama-3.1-8b", catalogue).name == "llama-3.1-8b"


def test_one_model_is_found_without_reading_the_others(tmp_path: Path) -> None:
    """A lookup parses the entry that bears the name: a broken file elsewhere is the business of `validate`."""
    (tmp_path / "a.yaml").write_text("models: [", encoding="utf-8")
    (tmp_path / "b.yaml").write_text(GOOD, encoding="utf-8")
    assert model_named("tiny-1m", Catalogue([tmp_path], builtin=False)).name == "tiny-1m"
    with pytest.raises(RooflineUsageError, match=r"a\.yaml: "):
        read_all(Catalogue([tmp_path], builtin=False))


def test_a_lookup_imports_no_framework() -> None:
    """A prediction by name must answer at once."""
    code = (
        "import sys; from pytest_roofline.specs.models import model_named; model_named('gpt-oss-20b'); "
        "print(sorted({'torch', 'transformers', 'numpy', 'pytest', 'gguf', 'safetensors'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("    published:", "    size:", "models.tiny-1m.size: unknown key"),
        ("    source: card\n", "", "models.tiny-1m.source: missing"),
        ("    source: card\n", "    source: sheet\n", "models.tiny-1m.source: 'sheet' is not in the sources"),
        ("    name: Tiny 1M\n", "", "models.tiny-1m.name: missing"),
        ("id: tiny-1m", "id: Tiny 1M", "models.Tiny 1M.id: 'Tiny 1M': lower-case words"),
        ("1_443_072", "1_443_073", "models.tiny-1m.parameters.value: 1,443,073 parameters are stated"),
        ("{value: 1_443_072, source: count}", "1443072", "models.tiny-1m.parameters: write {value"),
        (", num_hidden_layers: 2", "", "models.tiny-1m.config.num_hidden_layers: missing"),
        ("hidden_size: 256,", "hidden_size: -256,", "models.tiny-1m.config.hidden_size: -256"),
        ("model_type: llama", "model_type: nonesuch", "models.tiny-1m.config.model_type: 'nonesuch' is not a known"),
        ("    aliases: [org/Tiny-1M]", "    aliases: org/Tiny-1M", "models.tiny-1m.aliases: a list"),
    ],
)
def test_a_faulty_entry_is_an_error_that_names_file_and_key(tmp_path: Path, old: str, new: str, error: str) -> None:
    """Also what is wrong inside the config is found under the entry that holds it."""
    text = GOOD.replace(old, new)
    assert text != GOOD
    with pytest.raises(RooflineUsageError) as caught:
        load(tmp_path, text)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{tmp_path / 'models.yaml'}: {error}")


def test_a_config_that_is_no_mapping_is_an_error(tmp_path: Path) -> None:
    """The path of a config.json, say: the keys themselves are needed."""
    head, _, tail = GOOD.partition("    config: {")
    text = head + "    config: config.json\n" + tail.partition("}\n")[2]
    with pytest.raises(RooflineUsageError, match=r"models\.tiny-1m\.config: a mapping is needed here"):
        load(tmp_path, text)


def test_two_models_of_one_name_are_an_error(tmp_path: Path) -> None:
    """However it is spelled."""
    second = GOOD.partition("models:\n")[2].replace("id: tiny-1m", "id: other").replace("org/Tiny-1M", "TINY 1m")
    file = tmp_path / "models.yaml"
    file.write_text(GOOD + second, encoding="utf-8")
    problems, counts = Catalogue([file], builtin=False).check({"models": read_model})
    assert problems == [f"{file}: models.other: the name 'TINY 1m' is taken, by 'tiny-1m' ({file})"]
    assert counts["models"] == 1


def test_a_declared_model_is_the_rule_of_thumb(tmp_path: Path) -> None:
    """All of its parameters are read, and it says that this is the rule."""
    (model,) = load(tmp_path, DECLARED)
    assert model.parameters == model.streamed_parameters == 70_000_000_000
    assert model.kv_elements_per_token() == 0
    assert not model.is_mixture
    assert "rule of thumb" in model.notes[0]
    assert model.source == "the publisher's card"


def test_a_declared_mixture_reads_its_active_parameters(tmp_path: Path) -> None:
    """One token reads the active ones; memory holds all; the KV cache is in 16 bits."""
    text = DECLARED + (
        "    active_parameters: {value: 12_000_000_000, source: card}\n"
        "    kv_bytes_per_token: {value: 327_680, source: card}\n"
    )
    (model,) = load(tmp_path, text)
    assert model.is_mixture
    assert model.parameters == 70_000_000_000
    assert model.streamed_parameters == pytest.approx(12_000_000_000, rel=1e-12)
    assert 2 * model.kv_elements_per_token() == 327_680


@given(parameters=st.integers(1, 2 * 10**12))
@settings(max_examples=60, deadline=None)
def test_a_declared_model_keeps_every_parameter(parameters: int) -> None:
    """Whatever the number, the shapes multiply to it, and rows stay wide enough for groups and blocks."""
    reader, entry = next(iter(_entries(DECLARED)))
    model = read_model(reader, {**entry, "parameters": {"value": parameters, "source": "card"}}, 0)
    assert model.parameters == parameters
    assert sum(weight.shape[0] for weight in model.weights) <= parameters // 4096 + 1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("active_parameters: {value: 7.1e+10, source: card}", "active_parameters.value: 71,000,000,000 of 70"),
        ("kv_bytes_per_token: {value: 3, source: card}", "kv_bytes_per_token.value: 3: whole elements"),
        ("active_parameters: {value: 1.5, source: card}", "active_parameters.value: 1.5: a whole number"),
        ("kv_per_token: {value: 2, source: card}", "kv_per_token: unknown key"),
    ],
)
def test_a_faulty_declaration_is_an_error_that_names_file_and_key(tmp_path: Path, line: str, error: str) -> None:
    """More active parameters than there are, half elements, keys of nobody."""
    with pytest.raises(RooflineUsageError) as caught:
        load(tmp_path, f"{DECLARED}    {line}\n")
    assert str(caught.value).startswith(f"{tmp_path / 'models.yaml'}: models.in-house.{error}")


def test_a_model_with_neither_config_nor_parameters_is_told_both_ways(tmp_path: Path) -> None:
    """The error says what would do."""
    text = "".join(line for line in DECLARED.splitlines(keepends=True) if "parameters" not in line)
    with pytest.raises(RooflineUsageError, match=r"models\.in-house\.parameters: missing \(or a config"):
        load(tmp_path, text)


def _entries(text: str) -> list[Entry]:
    from pytest_roofline.specs.document import read_document

    reader, lists = read_document(Path("models.yaml"), text)
    return [(reader, entry) for entry in lists["models"]]
