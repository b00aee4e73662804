"""A model's config.json, as an architecture: which family, then that family's reader.

Nothing is guessed: a family that is not known here is an error that says how to declare the model instead. The
families' modules are imported when one of theirs is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_roofline.architecture import Architecture
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.fields import Family, Fields

MODULES: dict[str, tuple[str, ...]] = {
    "dense": (
        *("apertus", "arcee", "cohere", "cohere2", "cwm", "ernie4_5", "exaone4", "glm", "glm4", "granite", "helium"),
        *("hunyuan_v1_dense", "jais2", "llama", "ministral", "ministral3", "mistral", "nanochat", "nemotron", "olmo"),
        *("olmo2", "olmo3", "phi", "phi3", "qwen2", "qwen3", "seed_oss", "smollm3", "stablelm", "starcoder2"),
    ),
    "gemma": ("gemma", "gemma2", "gemma3_text", "vaultgemma"),
    "classic": ("bloom", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "mpt", "opt"),
    "mixture": (
        *("dots1", "ernie4_5_moe", "flex_olmo", "glm4_moe", "gpt_oss", "granitemoe", "granitemoeshared"),
        *("hunyuan_v1_moe", "minimax_m2", "mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe", "solar_open"),
    ),
    "latent": ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "minicpm3", "youtu"),
    "sparse_latent": ("deepseek_v32", "glm_moe_dsa"),
    "recurrent": ("falcon_mamba", "mamba", "mamba2", "recurrent_gemma", "rwkv"),
    "hybrid": ("bamba", "falcon_h1", "granitemoehybrid", "jamba", "nemotron_h"),
    "zamba": ("zamba2",),
    "kimi_linear": ("kimi_linear",),
    "linear_attention": (
        *("lfm2", "lfm2_moe", "minimax", "minimax_m1", "minimax_text_01", "qwen3_5_moe_text", "qwen3_5_text"),
        "qwen3_next",
    ),
    "gemma4": ("gemma4_text",),
    "nested": ("gemma3n_text", "llama4_text", "mllama_text_model"),
    "wrappers": (
        *("aya_vision", "cohere2_vision", "gemma3", "gemma3n", "gemma4", "glm4v", "glm4v_moe", "idefics3", "internvl"),
        *("internvl_chat", "kimi_k25", "kimi_vl", "lfm2_vl", "llama4", "llava", "llava_next", "llava_next_video"),
        *("llava_onevision", "mistral3", "mllama", "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe"),
        *("qwen3_vl", "qwen3_vl_moe", "smolvlm"),
    ),
}
"""Each module of families, and every ``model_type`` that it reads."""

PLAIN_DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")

TEXT_PARTS = ("text_config", "llm_config", "language_config")
"""Where multimodal configs keep the part that decodes text: its dtype and its quantization may stand there alone."""

Source = Mapping[str, Any] | str | Path | Any
"""A dict, the path of a config.json or of a folder with one, or an object with ``to_dict()``."""


def read_config(source: Source, *, name: str | None = None) -> Architecture:
    """What a pass of the model behind this config touches.

    Counted are the parameters that transformers builds for text decoding. Not counted: what is kept as a buffer (the
    correction of DeepSeek's router, 1 KB per layer), activations. Layers for multi-token prediction are idle weights
    beside them, where the config says how many there are.

    `name`: how to call the model; else its folder or ``_name_or_path``, else its ``model_type``.

    Raises RooflineUsageError, naming file and key, for a config that cannot be read, is of an unknown family, leaves
    out a size, or holds an impossible one.
    """
    fields, found = _open(source)
    architecture = read_family(fields)
    dtype, notes = _dtype(fields)
    storage = _storage(fields)
    return replace(
        architecture,
        name=name or found or architecture.name,
        dtype=dtype,
        storage=storage,
        source=fields.file,
        notes=(*architecture.notes, *notes),
    )


def read_family(fields: Fields) -> Architecture:
    """The architecture of one model, or of the text part of one: no dtype, no storage, named after its family."""
    family = _family(fields)
    from pytest_roofline.readers.defaults import CORE, DEFAULTS  # only when a config is read

    defaults = DEFAULTS.get(_model_type(fields), {})
    if not fields.path:
        # A whole config states its sizes; a part of one is written as the difference from the defaults.
        defaults = {key: value for key, value in defaults.items() if key not in CORE}
    return family(fields.with_defaults(defaults))


def known_families() -> list[str]:
    """Every ``model_type`` that can be read, sorted."""
    return sorted(model_type for families in MODULES.values() for model_type in families)


def _family(fields: Fields) -> Family:
    model_type = _model_type(fields)
    module = next((module for module, families in MODULES.items() if model_type in families), None)
    if module is None:
        raise _unknown(fields, model_type)
    families: dict[str, Family] = import_module(f"pytest_roofline.readers.{module}").FAMILIES
    return families[model_type]


def _model_type(fields: Fields) -> str:
    """``model_type``; without one, what the class named in ``architectures`` stands for."""
    if fields.has("model_type"):
        return fields.text("model_type")
    classes = fields.items("architectures", [])
    if not classes or not isinstance(classes[0], str):
        raise fields.fail("model_type", "missing: it says how the layers are built (as architectures would)")
    stem = classes[0]
    for ending in ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel"):
        stem = stem.removesuffix(ending)
    plain = stem.replace("_", "").lower()
    return next((known for known in known_families() if known.replace("_", "") == plain), classes[0])


def _unknown(fields: Fields, model_type: str) -> RooflineUsageError:
    import difflib  # only to complain

    near = difflib.get_close_matches(model_type[:100], known_families(), n=3, cutoff=0.6)
    hint = f"; near it: {', '.join(near)}" if near else ""
    return fields.fail(
        "model_type",
        f"{model_type!r:.100} is not a known architecture{hint}\n"
        "Its weights and its cache cannot be counted without knowing how its layers are built. Declare the model "
        "instead:\n"
        "  roofline predict --params 70B [--active 40B] [--kv-per-token 320KiB] ...\n"
        "  traffic=BYTES_PER_PASS in a test, or a spec file of your own under models: (--specs PATH)\n"
        f"Known: {', '.join(known_families())}",
    )


def _open(source: Source) -> tuple[Fields, str | None]:
    """The fields of a source, and a name for the model where the source has one."""
    if isinstance(source, (str, Path)):
        from pytest_roofline.readers.json_file import read_json_object

        path = Path(source)
        try:
            file = path / "config.json" if path.is_dir() else path
        except (OSError, RuntimeError, ValueError) as error:
            raise RooflineUsageError(f"{path}: cannot be read: {error}") from error
        values = read_json_object(file)
        folder = file.absolute().parent.name if file.name == "config.json" else file.stem
        return Fields(file=str(file), values=values), folder
    if not isinstance(source, Mapping):
        to_dict = getattr(source, "to_dict", None)
        given = to_dict() if callable(to_dict) and not isinstance(source, type) else None
        if not isinstance(given, Mapping):
            raise RooflineUsageError(
                f"a config of {type(source).__name__} cannot be read: give a dict, a config.json, a folder with one, "
                "or an object with to_dict()"
            )
        source = given
    origin = source.get("_name_or_path")
    called = origin if isinstance(origin, str) and origin else None
    return Fields(file=f"config of {called}" if called else "config", values=source), called


def _dtype(fields: Fields) -> tuple[str, tuple[str, ...]]:
    """The plain dtype of the checkpoint, and a note where the config leaves it open."""
    for part in _parts(fields):
        key = "dtype" if part.has("dtype") else "torch_dtype"
        if part.has(key):
            value = part.text(key).removeprefix("torch.")
            if value == "auto":
                continue
            if value not in PLAIN_DTYPES:
                raise part.fail(key, f"{value!r:.60} is not known; {', '.join(PLAIN_DTYPES)} are")
            return value, ()
    return "bfloat16", ("the config states no dtype: bfloat16 assumed",)


def _storage(fields: Fields) -> Any:
    for part in _parts(fields):
        if part.has("quantization_config") or part.has("compression_config"):
            from pytest_roofline.readers.quantization import read_storage

            return read_storage(part)
    return None


def _parts(fields: Fields) -> list[Fields]:
    """The whole config and its text part, where it has one."""
    return [fields, *(fields.part(key) for key in TEXT_PARTS if isinstance(fields.get(key), Mapping))]
