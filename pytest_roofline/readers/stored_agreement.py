"""Whether safetensors files hold the model that their config describes: every layer, every weight, the same shapes.

Half a model is read twice as fast, and the config of another model counts another KV cache: neither may become a
prediction.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.readers.safetensors_header import SafetensorsEntry
from pytest_roofline.readers.tensor_paths import bare, pattern_of

_LAYER = re.compile(r"(layers|h|blocks|block)\.(\d{1,9})\.")
_DRAFTS = re.compile(r"(^|\.)(mtp\w*|nextn\w*|eh_proj|enorm|hnorm|shared_head|embed_tokens)(\.|$)")
"""What only a layer that predicts further tokens has."""
_LEAST_BITS = 1
"""No format stores a weight in fewer: what tensors of unknown packing may hold at most."""


def check_layers(described: Architecture, idle: Iterable[SafetensorsEntry], file: str) -> None:
    """Layers behind the last one of the config predict further tokens, or they are an error."""
    beyond: dict[int, bool] = {}
    for tensor in idle:
        match = _LAYER.match(bare(tensor.name))
        if match is not None and 0 < described.layers <= int(match[2]):
            layer = int(match[2])
            beyond[layer] = beyond.get(layer, False) or _DRAFTS.search(tensor.name) is not None
    ordinary = sorted(layer for layer, drafts in beyond.items() if not drafts)
    if ordinary:
        raise RooflineUsageError(
            f"{file}: num_hidden_layers: {described.layers} by config.json, and the files hold layer {ordinary[0]} as "
            f"well ({len(ordinary)} such): the config of another model"
        )


def check_missing(
    missing: Sequence[Weight], strange: Iterable[SafetensorsEntry], described: Architecture, file: str
) -> None:
    """Weights of which the files hold nothing are an error, unless they can be among the `strange` tensors.

    Those are what the config does not account for: a matrix under another name, which is read whole all the same. In
    each layer they must have room for all that is missing there. A table that is looked up is not read whole: for it
    nothing else will do.
    """
    room: defaultdict[int | None, int] = defaultdict(int)
    for tensor in strange:
        elements = tensor.elements if described.storage is None else 8 * tensor.size_bytes // _LEAST_BITS
        room[pattern_of(bare(tensor.name))[1]] += elements
    needed: defaultdict[int | None, int] = defaultdict(int)
    for weight in missing:
        if weight.use == "idle":
            continue
        for layer in weight.layers or (None,):
            needed[layer] += weight.elements // max(1, len(weight.layers))
            if needed[layer] > room[layer] or weight.part in ("embedding", "head"):
                where = weight.name if layer is None else weight.name.replace("*", str(layer), 1)
                raise RooflineUsageError(
                    f"{file}: {weight.name}: config.json describes it, and the files hold nothing of it ({where}): "
                    f"a part of a checkpoint, or the config of another"
                )


def check_shapes(found: Iterable[tuple[Weight, Iterable[tuple[int, ...]]]], file: str) -> list[str]:
    """Matrices that hold an element for each parameter have the shapes that the config gives them.

    Transposed, fused over the experts, and with axes of one element they are the same. Of vectors and of kernels of
    convolutions only the number of elements counts: those have their own layouts. Answers the notes: on tables and
    heads of a vocabulary that is padded, and on sizes of what text decoding does not touch.
    """
    wrong, notes = [], []
    for weight, shapes in found:
        for shape in shapes:
            if _agree(weight, shape):
                continue
            if weight.use != "idle" and not _is_padded(weight, shape):
                wrong.append((weight, shape))
                continue
            each = weight.elements // weight.count
            notes.append(f"{weight.name}: {each:,} parameters by config.json, {_product(shape):,} in the files")
    if wrong:
        weight, shape = wrong[0]
        names = list(dict.fromkeys(other.name for other, _ in wrong[1:] if other is not weight))
        more = f"; so are {', '.join(map(one_line, names[:5]))}" + (" ..." if len(names) > 5 else "") if names else ""
        raise RooflineUsageError(
            f"{file}: {weight.name}: {list(weight.shape)} by config.json and {list(shape)} in the files: the config of "
            f"another model{more}"
        )
    return notes


def _is_padded(weight: Weight, shape: tuple[int, ...]) -> bool:
    """Whether a table or a head has more rows than the config's vocabulary."""
    return weight.part in ("embedding", "head") and shape[1:] == weight.shape[1:] and shape[0] > weight.shape[0]


def _agree(weight: Weight, shape: tuple[int, ...]) -> bool:
    axes, wanted = _axes(shape), _axes(weight.shape)
    if weight.use == "vector" or len(wanted) != 2:
        return _product(axes) in (_product(wanted), weight.experts * _product(wanted))
    return axes in (wanted, sorted([*wanted, *([weight.experts] if weight.experts > 1 else [])]))


def _axes(shape: Iterable[int]) -> list[int]:
    return sorted(axis for axis in shape if axis != 1)


def _product(axes: Iterable[int]) -> int:
    product = 1
    for axis in axes:
        product *= axis
    return product
