"""How a checkpoint's own quantization_config stores its weights: a format, what it leaves alone, the cache's format.

Which parts a format keeps in 16 bits by itself (head, embedding, routers) stands in `specs/formats`; here is what one
checkpoint adds to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from pytest_roofline.architecture import Storage, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.fields import Fields, shown
from pytest_roofline.readers.module_patterns import ModulePatterns, PatternFault

_SKIP_KEYS = (
    *("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules"),
    *("skip_modules", "modules_to_exclude"),
)

MOST_SKIPPED = 2**16
LONGEST_PATTERN = 256
MOST_PATTERN_CHARACTERS = 2**15
"""In all wildcards and expressions of one list; the longest of publishers hold some thousand."""


def read_storage(fields: Fields) -> Storage:
    """The storage that the ``quantization_config`` (or older ``compression_config``) of these fields describes.

    Raises RooflineUsageError for a method or a combination that is not known, naming those that are.
    """
    block = fields.part("quantization_config" if fields.has("quantization_config") else "compression_config")
    method = _method(block)
    if method not in METHODS:
        import difflib  # only to complain

        near = difflib.get_close_matches(method[:60], METHODS, n=1)
        hint = f" (near it: {near[0]})" if near else ""
        raise block.fail("quant_method", f"{method!r:.60} is not known{hint}; known are {', '.join(sorted(METHODS))}")
    return Storage(
        format=METHODS[method](block),
        skipped=_skipped(block),
        kv_format=_kv_format(block),
        source=f"quantization_config ({method})",
    )


def is_skipped(storage: Storage, weight_name: str) -> bool:
    """Whether the module of this name stays in the plain dtype.

    A skipped path stands for the module and all below it, wherever its dotted words occur (``lm_head``, ``mlp.gate``,
    ``model.layers.0``); ``*`` in it stands for anything, and ``re:`` before it makes it a regular expression. In
    `weight_name` an expert's ``*`` is taken as the expert 0. Raises RooflineUsageError where matching takes too long.
    """
    return _is_among(_sorted_patterns(storage.skipped), storage, weight_name)


def _is_among(sorted_patterns: tuple[frozenset[str], ModulePatterns], storage: Storage, weight_name: str) -> bool:
    exact, patterns = sorted_patterns
    words = weight_name.replace("*", "0").split(".")
    ends = range(1, len(words) + 1)
    if any(".".join(words[start:end]) in exact for end in ends for start in range(end)):
        return True
    try:
        return patterns.holds(".".join(words))
    except PatternFault as fault:
        raise RooflineUsageError(f"{storage.source}: its list of skipped modules: {fault}") from None


def divide(storage: Storage, weight: Weight) -> tuple[Weight | None, Weight | None]:
    """The quantized and the plain share of a weight: some layers of it may be skipped (None for an empty share)."""
    if not weight.layers:
        return (None, weight) if is_skipped(storage, weight.name) else (weight, None)
    skipped = _sorted_patterns(storage.skipped)
    plain = tuple(
        layer for layer in weight.layers if _is_among(skipped, storage, weight.name.replace("*", str(layer), 1))
    )
    if not plain:
        return weight, None
    if len(plain) == len(weight.layers):
        return None, weight
    left = set(plain)
    quantized = tuple(layer for layer in weight.layers if layer not in left)
    return replace(weight, layers=quantized), replace(weight, layers=plain)


@lru_cache(maxsize=8)
def _sorted_patterns(skipped: tuple[str, ...]) -> tuple[frozenset[str], ModulePatterns]:
    """The paths that stand for themselves, and the others."""
    patterns = ModulePatterns()
    for pattern in filter(_is_pattern, skipped):
        _add(patterns, pattern)
    return frozenset(path for path in skipped if not _is_pattern(path)), patterns


def _is_pattern(path: str) -> bool:
    return path.startswith("re:") or "*" in path


def _add(patterns: ModulePatterns, pattern: str) -> None:
    if pattern.startswith("re:"):
        patterns.add_expression(pattern[3:])
    else:
        patterns.add_wildcard(pattern)


def _method(block: Fields) -> str:
    if block.has("quant_method"):
        return block.text("quant_method").lower()
    for key, method in (("load_in_4bit", "bitsandbytes"), ("load_in_8bit", "bitsandbytes"), ("quant_algo", "modelopt")):
        if block.has(key):
            return method
    if block.has("config_groups"):
        return "compressed-tensors"
    return block.text("quant_method")


def _skipped(block: Fields) -> tuple[str, ...]:
    """Every module path that the block lists under any of the names that quantizers use for it."""
    found: list[str] = []
    for key in _SKIP_KEYS:
        if not block.has(key):
            continue
        value = block.get(key)
        for entry in [value] if isinstance(value, str) else block.items(key):
            if not isinstance(entry, str):
                raise block.fail(key, f"{shown(entry)}: a list of module paths is needed")
            found.append(entry)
        _check_patterns(block, key, found)
    return tuple(dict.fromkeys(found))


def _check_patterns(block: Fields, key: str, paths: list[str]) -> None:
    """Patterns that are known here, and no more of them than a publisher writes."""
    patterns = [path for path in paths if _is_pattern(path)]
    length = sum(map(len, patterns))
    if len(paths) > MOST_SKIPPED or length > MOST_PATTERN_CHARACTERS:
        raise block.fail(
            key,
            f"{len(paths):,} paths, {len(patterns):,} of them patterns with {length:,} characters; at most "
            f"{MOST_SKIPPED:,} and {MOST_PATTERN_CHARACTERS:,} are read",
        )
    for pattern in patterns:
        text = pattern.removeprefix("re:")
        if len(text) > LONGEST_PATTERN:
            raise block.fail(key, f"{text!r:.60}: a pattern of over {LONGEST_PATTERN} characters is not read")
        try:
            _add(ModulePatterns(), pattern)
        except PatternFault as fault:
            raise block.fail(key, f"{text!r:.60} is no regular expression that is known here: {fault}") from None


def _kv_format(block: Fields) -> str | None:
    """``kv_cache_scheme`` (compressed-tensors) or ``kv_cache_quant_algo`` (ModelOpt)."""
    if block.has("kv_cache_scheme"):
        scheme = block.part("kv_cache_scheme")
        bits, kind = scheme.size("num_bits"), scheme.text("type", "float")
        if (bits, kind) not in ((8, "float"), (8, "int")):
            raise scheme.fail("num_bits", f"a cache of {bits} bits ({kind}) is not known; 8 bits, float or int, are")
        return "fp8" if kind == "float" else "int8"
    if block.has("kv_cache_quant_algo"):
        algorithm = block.text("kv_cache_quant_algo").upper()
        known = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}
        if algorithm not in known:
            raise block.fail("kv_cache_quant_algo", f"{algorithm!r:.60} is not known; {', '.join(known)} are")
        return known[algorithm]
    return None


def _grouped(bits: int, group: int | None, *, symmetric: bool) -> str:
    """Integers with a scale per group (and a packed zero, unless symmetric); no group: per output channel."""
    if group is None:
        return f"int{bits}-channel"
    return f"int{bits}-g{group}{'-sym' if symmetric and bits == 4 else ''}"


def _group_size(block: Fields, key: str, default: int | None = None) -> int | None:
    return None if block.get(key) == -1 else block.size(key, default)


def _gptq(block: Fields) -> str:
    """Symmetric files hold zeros that kernels do not read: they are not counted; nor is ``desc_act``'s g_idx."""
    return _grouped(block.size("bits"), _group_size(block, "group_size", 128), symmetric=block.flag("sym", True))


def _awq(block: Fields) -> str:
    bits, group = block.either("bits", "w_bit"), block.either("group_size", "q_group_size")
    return _grouped(block.size(bits, 4), _group_size(block, group, 128), symmetric=not block.flag("zero_point", True))


def _bitsandbytes(block: Fields) -> str:
    if block.flag(block.either("load_in_8bit", "_load_in_8bit"), False):
        return "bnb-int8"
    if not block.flag(block.either("load_in_4bit", "_load_in_4bit"), False):
        raise block.fail("load_in_4bit", "neither this nor load_in_8bit is true")
    kind = block.text("bnb_4bit_quant_type", "fp4")
    if kind not in ("nf4", "fp4"):
        raise block.fail("bnb_4bit_quant_type", f"{kind!r:.60} is not known; nf4 and fp4 are")
    double = "-dq" if block.flag("bnb_4bit_use_double_quant", False) else ""
    return f"nf4{double}" if kind == "nf4" else f"bnb-fp4{double}"


def _fp8(block: Fields) -> str:
    if not block.has("weight_block_size"):
        return "fp8-tensor"
    sizes = block.items("weight_block_size")
    if sizes != [128, 128]:
        raise block.fail("weight_block_size", f"{shown(sizes)} is not known; [128, 128] is")
    return "fp8-block"


def _compressed(block: Fields) -> str:
    """All groups of compressed-tensors must store their weights alike."""
    groups = block.part("config_groups")
    found = {}
    for name in groups.values:
        group = groups.part(str(name))
        if group.has("weights"):
            found[_compressed_weights(group.part("weights"), group.has("input_activations"))] = name
    if len(found) != 1:
        stored = ", ".join(found) or "none"
        raise block.fail("config_groups", f"one format for all groups of weights is needed; found {stored}")
    return next(iter(found))


def _compressed_weights(weights: Fields, has_activations: bool) -> str:
    bits, kind, strategy = weights.size("num_bits"), weights.text("type", "int"), weights.text("strategy", "tensor")
    group = weights.size("group_size") if strategy in ("group", "tensor_group") else None
    if kind == "float":
        known = {
            (8, "tensor", None): "fp8-tensor",
            (8, "channel", None): "fp8-channel",
            (8, "block", None): "fp8-block",
            (8, "group", 32): "mxfp8",
            (4, "group", 32): "mxfp4",
            (4, "tensor_group", 16): "nvfp4",
            (4, "group", 16): "nvfp4",
        }
        if strategy == "block" and weights.items("block_structure", [128, 128]) != [128, 128]:
            raise weights.fail("block_structure", "blocks of [128, 128] are known")
        if (bits, strategy, group) not in known:
            raise weights.fail("num_bits", f"float of {bits} bits by {strategy} ({group}) is not known")
        return known[bits, strategy, group]
    if kind != "int":
        raise weights.fail("type", f"{kind!r:.60} is not known; int and float are")
    if strategy in ("channel", "tensor"):
        return "w8a8" if bits == 8 and has_activations else f"int{bits}-channel"
    if strategy != "group":
        raise weights.fail("strategy", f"{strategy!r:.60} is not known; tensor, channel, group and block are")
    return _grouped(bits, group, symmetric=weights.flag("symmetric", True))


def _torchao(block: Fields) -> str:
    """By the name of the configuration class, or by the older word for it."""
    kind = block.get("quant_type")
    arguments = block.part("quant_type_kwargs") if block.has("quant_type_kwargs") else None
    if not isinstance(kind, str):
        outer = block.part("quant_type")
        inner = outer.part("default") if outer.has("default") else outer
        kind = inner.text("_type")
        arguments = inner.part("_data") if inner.has("_data") else None
    word = re.sub(r"config$|_", "", kind.lower().replace("quantization", ""))
    if word == "int4weightonly":
        return f"torchao-int4-g{arguments.size('group_size', 128) if arguments else 128}"
    known = {
        "int8weightonly": "int8-channel",
        "int8dynamicactivationint8weight": "w8a8",
        "float8weightonly": "fp8-channel",
        "float8dynamicactivationfloat8weight": "fp8-tensor",
    }
    if word not in known:
        raise block.fail("quant_type", f"{kind!r:.60} is not known; Int4WeightOnly, Int8WeightOnly and others are")
    return known[word]


def _modelopt(block: Fields) -> str:
    inner = block.part("quantization") if block.has("quantization") else block
    algorithm = inner.text("quant_algo").upper()
    known = {"FP8": "fp8-tensor", "NVFP4": "nvfp4", "W4A16_AWQ": "int4-g128-sym", "FP8_PB_WO": "fp8-block"}
    if algorithm not in known:
        raise inner.fail("quant_algo", f"{algorithm!r:.60} is not known; {', '.join(known)} are")
    return known[algorithm]


def _hqq(block: Fields) -> str:
    inner = block.part("quant_config") if block.has("quant_config") else block
    inner = inner.part("weight_quant_params") if inner.has("weight_quant_params") else inner
    return f"hqq-{inner.size('nbits', 4)}bit-g{inner.size('group_size', 64)}"


def _quanto(block: Fields) -> str:
    """Its 4 bits store scale and shift in 16 bits per 128, as torchao's do."""
    known = {"int8": "int8-channel", "float8": "fp8-channel", "int4": "torchao-int4-g128"}
    weights = block.text("weights", "int8")
    if weights not in known:
        raise block.fail("weights", f"{weights!r:.60} is not known; {', '.join(known)} are")
    return known[weights]


def _stated_bits(method: str) -> Callable[[Fields], str]:
    def read(block: Fields) -> str:
        bits = block.get("bits")
        if isinstance(bits, bool) or not isinstance(bits, (int, float)) or not 1 <= bits <= 8:
            raise block.fail("bits", f"{shown(bits)}: bits per weight from 1 to 8 are needed")
        return f"{method}-{float(bits)}bpw"

    return read


def _fixed(format_id: str) -> Callable[[Fields], str]:
    return lambda block: format_id


METHODS: dict[str, Callable[[Fields], str]] = {
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "eetq": _fixed("int8-channel"),
    "exl2": _stated_bits("exl2"),
    "exl3": _stated_bits("exl3"),
    "fbgemm_fp8": _fixed("fp8-channel"),
    "fp8": _fp8,
    "gptq": _gptq,
    "hqq": _hqq,
    "modelopt": _modelopt,
    "modelopt_fp4": _fixed("nvfp4"),
    "mxfp4": _fixed("mxfp4"),
    "quanto": _quanto,
    "torchao": _torchao,
}
"""Each ``quant_method``, and how its block says the format."""
