"""A GGUF file, or all shards of one, as an `Architecture`: every tensor at the size it has in the file.

Only headers are read, by `gguf_header`; see there for why the ``gguf`` package does not do it.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_roofline.architecture import Architecture, CacheLayers, Use, Weight
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.ggml import TYPES
from pytest_roofline.readers.fields import Fields
from pytest_roofline.readers.file_window import DiskWindow
from pytest_roofline.readers.gguf_blocks import check_blocks
from pytest_roofline.readers.gguf_caches import KNOWN, Metadata, read_caches
from pytest_roofline.readers.gguf_header import GgufHeader, read_gguf_header
from pytest_roofline.readers.shards import all_there, shard_names
from pytest_roofline.readers.tensor_names import TensorName, take_apart
from pytest_roofline.units import format_bytes

_DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def read_gguf(path: str | Path, *, caches: Sequence[CacheLayers] | None = None) -> Architecture:
    """Read the header of a GGUF file; naming one shard reads them all.

    `caches`: what the layers keep per token, for an architecture that is not known here. Sizes are those of the file,
    so a file that ends before its last tensor does is an error. Padding between tensors is not counted. Errors are
    `RooflineUsageError` and name file and key.
    """
    headers = []
    source = Path(path)
    for shard in all_there(source, source.parent, shard_names(source.name)):
        with DiskWindow.open(shard) as window:
            headers.append(read_gguf_header(window))
    return gguf_architecture(headers, caches=caches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """One tensor at its true size."""

    name: str
    apart: TensorName
    shape: tuple[int, ...]
    format: str
    size_bytes: int


def gguf_architecture(headers: Sequence[GgufHeader], *, caches: Sequence[CacheLayers] | None = None) -> Architecture:
    """The model of the headers of all shards, in order; the first has the metadata."""
    first = headers[0]
    _check_split(headers)
    stored = [tensor for header in headers for tensor in _stored_tensors(header)]
    if not stored:
        raise RooflineUsageError(f"{first.file}: no tensors: a vocabulary or a part of a model; name the model's file")
    if len({tensor.name for tensor in stored}) < len(stored):
        raise RooflineUsageError(f"{first.file}: a tensor stands in two of its shards")
    fields = Fields(file=first.file, values=first.values)
    architecture = fields.text("general.architecture")
    metadata = Metadata(fields=fields, architecture=architecture)
    if caches is None and architecture not in KNOWN:
        raise fields.fail("general.architecture", _what_can_be_told(architecture, stored))
    blocks: dict[int, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for tensor in stored:
        if tensor.apart.block is not None:
            blocks[tensor.apart.block][tensor.name.split(".", 2)[2]] = tensor.shape
    notes: list[str] = []
    weights = _weights(stored, metadata, notes)
    if caches is None:
        read, found = read_caches(metadata, blocks)
        caches, notes = read, [*notes, *found]
    check_blocks(metadata, blocks, (tensor.name for tensor in stored))
    return Architecture(
        name=fields.text("general.name", Path(first.file).stem),
        weights=tuple(weights),
        caches=tuple(caches),
        dtype=_plain_dtype(stored),
        layers=metadata.blocks,
        hidden=metadata.size("embedding_length"),
        max_context=metadata.size("context_length") if metadata.has("context_length") else None,
        source=first.file if len(headers) == 1 else f"{first.file} and {len(headers) - 1} more shards",
        notes=tuple(notes),
    )


def _check_split(headers: Sequence[GgufHeader]) -> None:
    """Shards that say how many they are must be all here, each once and in its place."""
    first = headers[0]
    count = first.values.get("split.count", 1)
    if count not in (0, 1) and len(headers) != count:
        raise first.fail("split.count", f"{count}, but {len(headers)} shards are here: keep the names the shards had")
    if len(headers) == 1:
        return
    for place, header in enumerate(headers):
        if (number := header.values.get("split.no")) != place:
            raise header.fail("split.no", f"{number}; by its name it is {place}")
    total, found = first.values.get("split.tensors.count"), sum(len(header.tensors) for header in headers)
    if total is not None and total != found:
        raise first.fail("split.tensors.count", f"{total}, but the shards hold {found} tensors")


def _stored_tensors(header: GgufHeader) -> list[_Stored]:
    """Every tensor with its size; one that overlaps its neighbour or ends beyond the file is an error."""
    stored = []
    spans = []
    for entry in header.tensors:
        kind = TYPES.get(entry.type)
        if kind is None:
            raise header.fail(entry.name, f"GGML type {entry.type} is not known here")
        if entry.shape[-1] % kind.elements:
            raise header.fail(
                entry.name, f"rows of {entry.shape[-1]} are no whole blocks of {kind.elements} ({kind.name})"
            )
        size_bytes = math.prod(entry.shape) // kind.elements * kind.size_bytes
        if entry.offset % header.alignment:
            raise header.fail(entry.name, f"offset {entry.offset:,} is no multiple of the alignment {header.alignment}")
        spans.append((entry.offset, entry.offset + size_bytes, entry.name))
        apart = take_apart(entry.name)
        stored.append(
            _Stored(name=entry.name, apart=apart, shape=entry.shape, format=kind.format, size_bytes=size_bytes)
        )
    spans.sort()
    for (_, end, name), (start, _, following) in itertools.pairwise(spans):
        if end > start:
            raise header.fail(following, f"begins at byte {start:,} of the data, where {name} ends at {end:,}: overlap")
    if spans and header.data_start + spans[-1][1] > header.size_bytes:
        _, end, name = spans[-1]
        raise header.fail(
            name,
            f"ends at byte {header.data_start + end:,}, the file has {header.size_bytes:,} bytes: truncated, "
            f"{format_bytes(header.data_start + end - header.size_bytes)} are missing",
        )
    return stored


def _weights(stored: Iterable[_Stored], metadata: Metadata, notes: list[str]) -> list[Weight]:
    """Tensors that are alike but for their block, as one `Weight` each."""
    stored = list(stored)
    alike: dict[tuple[str, tuple[int, ...], str, Use], list[_Stored]] = defaultdict(list)
    names = {tensor.name for tensor in stored}
    unknown: list[str] = []
    for tensor in stored:
        use = _use(tensor, metadata, names)
        alike[tensor.apart.pattern, tensor.shape, tensor.format, use].append(tensor)
        if not tensor.apart.is_known and use == "matrix":
            unknown.append(tensor.apart.pattern)
    if unknown:
        patterns = sorted(set(unknown))
        more = " ..." if len(patterns) > 5 else ""
        notes.append(f"read whole, since not known: {', '.join(map(one_line, patterns[:5]))}{more}")
    weights = [_weight(group, use, metadata) for (_, _, _, use), group in alike.items()]
    idle_bytes = sum(weight.stored_bytes or 0 for weight in weights if weight.use == "idle")
    if idle_bytes:
        notes.append(f"{format_bytes(idle_bytes)} of the file are not touched by decoding text")
    return weights


def _use(tensor: _Stored, metadata: Metadata, names: set[str]) -> Use:
    apart = tensor.apart
    if apart.is_apart or (apart.block is not None and apart.block >= metadata.blocks) or ".nextn." in tensor.name:
        return "idle"
    if apart.pattern == "blk.*.attn_kv_b" and tensor.name.replace("attn_kv_b", "attn_k_b") in names:
        return "idle"  # the same numbers stand there split, and those are read
    if apart.block is not None and apart.block >= metadata.keeping_blocks and apart.part in ("attn_k", "attn_v"):
        return "idle"  # converted along with the rest, and multiplied by nothing
    if apart.is_routed:
        return "routed"
    if apart.is_table:
        tied = tensor.name == "token_embd.weight" and "output.weight" not in names
        return "matrix" if tied else "lookup"
    return "vector" if apart.is_vector or len(tensor.shape) < 2 else "matrix"


def _weight(group: list[_Stored], use: Use, metadata: Metadata) -> Weight:
    tensor = group[0]
    apart, shape, experts = tensor.apart, tensor.shape, 1
    layers = tuple(sorted({member.apart.block for member in group if member.apart.block is not None}))
    per_token: float | None = None
    if use == "routed":
        experts, per_token = metadata.size("expert_count"), float(metadata.size("expert_used_count"))
        if apart.expert is not None:
            if len(group) != experts * len(layers):
                raise metadata.fields.fail(
                    tensor.name, f"{len(group)} tensors for {len(layers)} blocks of {experts} experts"
                )
        elif len(shape) < 2 or shape[0] != experts:
            raise metadata.fields.fail(
                tensor.name, f"shape {shape}, where {metadata.key('expert_count')} says {experts} experts"
            )
        else:
            shape = shape[1:]
    return Weight(
        name=apart.pattern,
        part=apart.part,
        shape=shape,
        use=use,
        # Towers count their own blocks: theirs are no layers of the decoder.
        layers=layers if not apart.is_apart else tuple(range(len(group))),
        experts=experts,
        experts_per_token=per_token,
        stored_bytes=sum(member.size_bytes for member in group),
        stored_format=tensor.format,
    )


def _plain_dtype(stored: Iterable[_Stored]) -> str:
    """What the matrices that are not quantized are stored in; float16 where all are."""
    sizes: dict[str, int] = defaultdict(int)
    for tensor in stored:
        if tensor.format in _DTYPES and len(tensor.shape) > 1:
            sizes[tensor.format] += tensor.size_bytes
    with contextlib.suppress(ValueError):
        if any(tensor.format not in _DTYPES for tensor in stored):
            sizes.pop("f32", None)  # routers and states stay in fp32 whatever the rest is
        return _DTYPES[max(sizes, key=lambda name: sizes[name])]
    return "float16"


def _what_can_be_told(architecture: str, stored: Sequence[_Stored]) -> str:
    if architecture == "clip":
        return "a projector for pictures or sound (mmproj); name the model's own file"
    elements = sum(math.prod(tensor.shape) for tensor in stored)
    size_bytes = sum(tensor.size_bytes for tensor in stored)
    blocks = len({tensor.apart.block for tensor in stored if tensor.apart.block is not None})
    return (
        f"{architecture!r:.60} is not known here. Its tensors can be told: {elements / 1e9:.2f} billion parameters in "
        f"{format_bytes(size_bytes)} and {blocks} blocks; what its layers keep per token cannot. Declare that: "
        f"read_gguf(..., caches=[CacheLayers(...)]) or --kv-per-token BYTES"
    )
