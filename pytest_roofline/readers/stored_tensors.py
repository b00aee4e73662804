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
_APART = re.compile(
    r"(^|\.)(vision\w*|visual|image\w*|audio\w*|mtp|multi_modal_projector|mm_projector|embed_vision|embed_audio|nextn\w*"
    r"|sam_model|projector|merger|connector)(\.|$)"
)
_WRAPPERS = re.compile(r"^((model|language_model|text_model|llm|transformer|backbone)\.)+(?=.)")
"""Checkpoints of one model differ in these: ``language_model.model.layers`` is ``model.language_model.layers``."""
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
    plain_elements: int = 0
    layers: set[int] = field(default_factory=set)
    formats: Counter[str] = field(default_factory=Counter)
    """Bytes by format."""


def module_of(tensor: str) -> tuple[str, bool]:
    """The module's path of a tensor, and whether the tensor is the weight itself rather than a scale of it."""
    match = _SUFFIX.search(tensor)
    if match is None:
        return tensor, True
    return tensor[: match.start()], match[0] in (".weight", ".qweight", ".weight_packed", "_blocks")


def pattern_of(path: str) -> tuple[str, int | None]:
    """``model.layers.3.mlp.experts.7.up_proj`` as ``model.layers.*.mlp.experts.*.up_proj`` and 3."""
    parts = path.split(".")
    numbers = [int(part) for part in parts if part.isdecimal() and part.isascii() and len(part) < 10]
    return ".".join("*" if part.isdecimal() else part for part in parts), numbers[0] if numbers else None


def place(described: Architecture, tensors: Iterable[SafetensorsEntry], file: str) -> Architecture:
    """`described` (by a config) with the bytes and formats of its weights as the files have them.

    Tensors that the config does not account for come as weights of their own, with a note: a vision or audio tower and
    layers that predict further tokens as ``idle``, anything else read whole. A weight of which the files hold
    not every layer or expert is an error that names it; so is one of which they hold nothing, unless it may be among
    the tensors that the config does not account for.
    """
    places: dict[str, list[tuple[int, Weight]]] = defaultdict(list)
    for index, weight in enumerate(described.weights):
        places[pattern_of(_bare(weight.name).replace("*", "0"))[0]].append((index, weight))
    found: defaultdict[int, _Found] = defaultdict(_Found)
    strange: list[SafetensorsEntry] = []
    idle: list[SafetensorsEntry] = []
    for tensor in tensors:
        path, is_weight = module_of(tensor.name)
        path = _bare(path)
        pattern, layer = pattern_of(path)
        position = _place_of(places.get(pattern, ()), path, layer)
        if position is not None:
            _add(found[position], tensor, layer, is_weight, described)
        elif not _BUFFERS.search(tensor.name):
            # What the config gives to other layers only is not read in this one (Gemma 3n's shared keys).
            is_idle = pattern in places or _is_idle(pattern, layer, described)
            (idle if is_idle else strange).append(tensor)
    notes: list[str] = []
    weights = _tied(described.weights, found, strange, notes)
    placed = []
    for index, weight in enumerate(weights):
        if index in found:
            placed.append(_with_bytes(weight, found[index], file, notes))
        elif weight.use != "idle" and (not strange or weight.part in ("embedding", "head")):
            # A matrix under another name is read whole all the same; a table that is looked up is not.
            raise RooflineUsageError(
                f"{file}: {weight.name}: config.json describes it, and the files hold nothing of it: "
                f"a part of a checkpoint, or the config of another"
            )
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


def _bare(path: str) -> str:
    return _WRAPPERS.sub("", path)


def _place_of(candidates: Sequence[tuple[int, Weight]], path: str, layer: int | None) -> int | None:
    """Which of the weights under one pattern a module is: by its numbers where the name has them, by its layer."""
    parts = path.split(".")
    for index, weight in candidates:
        if weight.layers and layer not in weight.layers:
            continue
        if all(wanted in ("*", part) for wanted, part in zip(_bare(weight.name).split("."), parts, strict=True)):
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
        found.plain_elements += tensor.elements
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
    return _APART.search(pattern) is not None or (layer is not None and 0 < described.layers <= layer)


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


def _with_bytes(weight: Weight, found: _Found, file: str, notes: list[str]) -> Weight:
    if found.layers and (missing := sorted(set(weight.layers) - found.layers)):
        name = weight.name.replace("*", str(missing[0]), 1)
        raise RooflineUsageError(f"{file}: {name}: not in the files, while other layers are: a part of a checkpoint")
    if found.tensors not in (weight.count, max(1, len(weight.layers))):
        raise RooflineUsageError(
            f"{file}: {weight.name}: {found.tensors:,} tensors in the files, {weight.count:,} by config.json"
        )
    if found.plain_elements and found.plain_elements != weight.elements:
        notes.append(
            f"{weight.name}: {weight.elements:,} parameters by config.json, {found.plain_elements:,} in the files"
        )
    stored = max(found.formats, key=lambda name: found.formats[name], default=None)
    return dataclasses.replace(weight, stored_bytes=found.size_bytes, stored_format=stored)


def _others(tensors: Iterable[SafetensorsEntry], described: Architecture, *, is_idle: bool) -> list[Weight]:
    """Tensors that the config does not account for, those alike as one weight; experts as routed as the others are."""
    alike: dict[tuple[str, tuple[int, ...], str], list[SafetensorsEntry]] = defaultdict(list)
    for tensor in tensors:
        if tensor.size_bytes:
            alike[pattern_of(tensor.name)[0], tensor.shape or (1,), tensor.dtype].append(tensor)
    routed = next((weight for weight in described.weights if weight.use == "routed"), None)
    weights = []
    for (pattern, shape, dtype), group in alike.items():
        use: Use = "idle" if is_idle else "matrix" if len(shape) > 1 else "vector"
        layers, experts, per_token = len(group), 1, None
        if not is_idle and routed is not None and ".experts." in pattern:
            is_fused = shape[0] == routed.experts and len(shape) > 1
            if is_fused or len(group) % routed.experts == 0:
                use, experts, per_token = "routed", routed.experts, routed.experts_per_token
                layers, shape = (layers, shape[1:]) if is_fused else (layers // experts, shape)
        weights.append(
            Weight(
                name=pattern.removesuffix(".weight"),
                part="vision" if is_idle else "other",
                shape=shape,
                use=use,
                layers=tuple(range(layers)) if layers > 1 else (),
                experts=experts,
                experts_per_token=per_token,
                stored_bytes=sum(tensor.size_bytes for tensor in group),
                stored_format=_WHOLE.get(dtype),
            )
        )
    return weights
