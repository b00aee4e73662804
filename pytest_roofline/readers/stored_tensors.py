"""The tensors of safetensors files given to the weights that a config describes, at the bytes they have in the files.

A quantized matrix is several tensors: GPTQ and AWQ hold ``qweight, qzeros, scales, g_idx``, bitsandbytes ``weight,
weight.absmax, weight.quant_map``, block fp8 ``weight, weight_scale_inv``, MXFP4 ``_blocks, _scales``, and
compressed-tensors ``weight_packed, weight_scale, weight_shape``. All of them are counted to the module they belong to.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_roofline.architecture import Architecture, Use, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.safetensors_header import SafetensorsEntry
from pytest_roofline.readers.stored_agreement import check_layers, check_missing, check_shapes
from pytest_roofline.readers.tensor_paths import bare, pattern_of
from pytest_roofline.units import format_bytes

_SUFFIX = re.compile(
    r"(\.qweight|\.qzeros|\.scales|\.g_idx|\.SCB|\.weight_format"
    r"|\.weight(_packed|_scale(_inv|_2)?|_shape|_zero_point|_global_scale|_g_idx)?"
    r"(\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\.[\w]+|SCB|weight_format))?"
    r"|\.(input|output|activation|k|v|q)_(scale|zero_point|global_scale)(_inv)?"
    r"|_blocks|_scales|_scale_inv)$"
)
"""What stands behind a module's path: the weight itself, or one of the tensors of a quantized one."""
_PLAIN = {"F64": "f64", "F32": "fp32", "F16": "fp16", "BF16": "bf16"}
_WHOLE = {**_PLAIN, "F8_E4M3": "fp8", "F8_E5M2": "fp8", "I8": "int8"}
"""Dtypes that hold an element each, and the format's name in the library of formats."""
_TOWERS = re.compile(
    r"(^|\.)(vision\w*|visual|image\w*|audio\w*|multi_modal_projector|mm_projector|embed_vision|embed_audio"
    r"|sam_model|projector|merger|connector)(\.|$)"
)
_PREDICTING = re.compile(r"(^|\.)(mtp\w*|nextn\w*)(\.|$)")
_COPIES = {"embed_tokens": "embedding", "head": "head"}
"""Of the model's embedding and head, beside the layers that predict further tokens."""
_HEADS = ("lm_head", "output", "embed_out")
_BUFFERS = re.compile(
    r"\.(inv_freq|(attn\.)?masked_bias|attn\.bias|num_batches_tracked|rotary_emb\.\w+|act_fn\.\w+"
    r"|e_score_correction_bias)$"
)
"""No parameters: computed again at load, or (the correction of a router) of a kilobyte per layer."""


@dataclass(slots=True)
class _Found:
    """What the files hold of one weight."""

    size_bytes: int = 0
    tensors: int = 0
    """Without those of scales and zeros."""
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    """Of those that hold an element each."""
    layers: set[int] = field(default_factory=set)
    formats: Counter[str] = field(default_factory=Counter)
    """Bytes by format."""


def module_of(tensor: str) -> tuple[str, bool]:
    """The module's path of a tensor, and whether the tensor is the weight itself rather than a scale of it."""
    match = _SUFFIX.search(tensor)
    if match is None:
        return tensor, True
    return tensor[: match.start()], match[0] in (".weight", ".qweight", ".weight_packed", "_blocks")


def place(described: Architecture, tensors: Iterable[SafetensorsEntry], file: str) -> Architecture:
    """`described` (by a config) with the bytes and formats of its weights as the files have them.

    Tensors that the config does not account for come as weights of their own, with a note: a vision or audio tower and
    layers that predict further tokens as ``idle``, anything else read whole. A weight of which the files hold
    not every layer or expert is an error that names it; so is one of which they hold nothing, unless the tensors of the
    same layer that the config does not account for have room for it; and one of another shape than the config gives
    it, and a layer that the config does not have.
    """
    places: dict[str, list[_Place]] = defaultdict(list)
    for index, weight in enumerate(described.weights):
        path = bare(weight.name)
        words = tuple(path.split(".")) if any(word.isdecimal() for word in path.split(".")) else None
        places[pattern_of(path.replace("*", "0"))[0]].append((index, frozenset(weight.layers), words))
    found: defaultdict[int, _Found] = defaultdict(_Found)
    strange: list[SafetensorsEntry] = []
    idle: list[SafetensorsEntry] = []
    for tensor in tensors:
        path, is_weight = module_of(tensor.name)
        path = bare(path)
        pattern, layer = pattern_of(path)
        position = _place_of(places.get(pattern, ()), path, layer)
        if position is not None:
            _add(found[position], tensor, layer, is_weight, described)
        elif not _BUFFERS.search(tensor.name):
            # What the config gives to other layers only is not read in this one (Gemma 3n's shared keys).
            is_idle = pattern in places or _is_idle(pattern, layer, described)
            (idle if is_idle else strange).append(tensor)
    check_layers(described, idle, file)
    notes: list[str] = []
    weights = _tied(described.weights, found, strange, notes)
    check_missing([weight for index, weight in enumerate(weights) if index not in found], strange, described, file)
    notes += check_shapes([(weights[index], each.shapes) for index, each in found.items()], file)
    placed = [_with_bytes(weight, found[index], file) for index, weight in enumerate(weights) if index in found]
    others = [*_others(idle, described, is_idle=True), *_others(strange, described, is_idle=False)]
    if idle:
        notes.append(
            f"{format_bytes(sum(each.size_bytes for each in idle))} of the files are not touched by decoding text"
        )
    if strange:
        names = sorted({pattern_of(tensor.name)[0] for tensor in strange})
        notes.append(
            f"not described by config.json, and read whole: {', '.join(names[:5])}" + (" ..." if len(names) > 5 else "")
        )
    return dataclasses.replace(described, weights=(*placed, *others), notes=(*described.notes, *notes))


_Place = tuple[int, frozenset[int], "tuple[str, ...] | None"]
"""A weight's number, its layers, and the words of its path where it has numbers of its own."""


def _place_of(candidates: Sequence[_Place], path: str, layer: int | None) -> int | None:
    """Which of the weights under one pattern a module is: by its numbers where the name has them, by its layer."""
    for index, layers, words in candidates:
        if layers and layer not in layers:
            continue
        if words is None or all(wanted in ("*", part) for wanted, part in zip(words, path.split("."), strict=True)):
            return index
    return None


def _add(found: _Found, tensor: SafetensorsEntry, layer: int | None, is_weight: bool, described: Architecture) -> None:
    found.size_bytes += tensor.size_bytes
    if not is_weight:
        return
    found.tensors += 1
    if (stored := _format_of(tensor, described)) is not None:
        found.formats[stored] += tensor.size_bytes
    if tensor.dtype in _WHOLE:
        found.shapes.add(tensor.shape)
    if layer is not None:
        found.layers.add(layer)


def _format_of(tensor: SafetensorsEntry, described: Architecture) -> str | None:
    """The format's name; None for packed numbers of which the config does not say what they are."""
    if tensor.dtype in _PLAIN:
        return _PLAIN[tensor.dtype]
    return _WHOLE.get(tensor.dtype) if described.storage is None else described.storage.format


def _is_idle(pattern: str, layer: int | None, described: Architecture) -> bool:
    """A tower, layers behind the last (they predict further tokens), a copy of a tied head."""
    if pattern in _HEADS:
        return any(weight.part == "embedding" and weight.use == "matrix" for weight in described.weights)
    return _TOWERS.search(pattern) is not None or _predicts(pattern, layer, described)


def _predicts(pattern: str, layer: int | None, described: Architecture) -> bool:
    """Whether it belongs to a layer for multi-token prediction: named so, or behind the last layer of the model."""
    if _TOWERS.search(pattern) is not None:
        return False
    return _PREDICTING.search(pattern) is not None or (layer is not None and 0 < described.layers <= layer)


def _tied(
    weights: Sequence[Weight], found: Mapping[int, _Found], strange: Sequence[SafetensorsEntry], notes: list[str]
) -> list[Weight]:
    """Where the files hold a table and no head, nor anything of its shape, the table is the head."""
    shapes = {tensor.shape for tensor in strange}
    for index, head in enumerate(weights):
        if head.part != "head" or index in found or head.shape in shapes:
            continue
        for place, table in enumerate(weights):
            if table.use == "lookup" and table.shape == head.shape and place in found:
                notes.append(f"{head.name} is not in the files: the table {table.name} is read as the head")
                swapped = {
                    place: dataclasses.replace(table, use="matrix"),
                    index: dataclasses.replace(head, use="idle"),
                }
                return [swapped.get(position, weight) for position, weight in enumerate(weights)]
    return list(weights)


def _with_bytes(weight: Weight, found: _Found, file: str) -> Weight:
    if found.layers and (missing := sorted(set(weight.layers) - found.layers)):
        name = weight.name.replace("*", str(missing[0]), 1)
        raise RooflineUsageError(f"{file}: {name}: not in the files, while other layers are: a part of a checkpoint")
    if found.tensors not in (weight.count, max(1, len(weight.layers))):
        raise RooflineUsageError(
            f"{file}: {weight.name}: {found.tensors:,} tensors in the files, {weight.count:,} by config.json"
        )
    stored = max(found.formats, key=lambda name: found.formats[name], default=None)
    return dataclasses.replace(weight, stored_bytes=found.size_bytes, stored_format=stored)


def _others(tensors: Iterable[SafetensorsEntry], described: Architecture, *, is_idle: bool) -> list[Weight]:
    """Tensors that the config does not account for, those alike as one weight; experts as routed as the others are."""
    alike: dict[tuple[str, tuple[int, ...], str, bool], list[SafetensorsEntry]] = defaultdict(list)
    for tensor in tensors:
        if tensor.size_bytes:
            pattern, layer = pattern_of(tensor.name)
            predicts = is_idle and _predicts(bare(pattern), layer, described)
            alike[pattern, tensor.shape or (1,), tensor.dtype, predicts].append(tensor)
    routed = next((weight for weight in described.weights if weight.use == "routed"), None)
    weights = []
    for (pattern, shape, dtype, predicts), group in alike.items():
        use: Use = "idle" if is_idle else "matrix" if len(shape) > 1 else "vector"
        part, count, experts, per_token = "vision" if is_idle else "other", len(group), 1, None
        layers = tuple(range(count)) if count > 1 else ()
        if predicts:
            part = _COPIES.get(pattern.removesuffix(".weight").rpartition(".")[2], "other")
            layers = tuple(sorted({layer for tensor in group if (layer := pattern_of(tensor.name)[1]) is not None}))
            if count % max(1, len(layers)):
                layers = layers[:1]
            experts = count // max(1, len(layers))
        elif not is_idle and routed is not None and ".experts." in pattern:
            is_fused = shape[0] == routed.experts and len(shape) > 1
            if is_fused or count % routed.experts == 0:
                use, experts, per_token = "routed", routed.experts, routed.experts_per_token
                count, shape = (count, shape[1:]) if is_fused else (count // experts, shape)
                layers = tuple(range(count)) if count > 1 else ()
        weights.append(
            Weight(
                name=pattern.removesuffix(".weight"),
                part=part,
                shape=shape,
                use=use,
                layers=layers,
                experts=experts,
                experts_per_token=per_token,
                stored_bytes=sum(tensor.size_bytes for tensor in group),
                stored_format=_WHOLE.get(dtype),
            )
        )
    return weights
