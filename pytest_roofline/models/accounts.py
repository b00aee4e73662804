"""The figures of a traced step: the ledger summed into a `Traffic`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_roofline.models.byte_ranges import Range, RangeSet
from pytest_roofline.models.ledger import FLOOR_BYTES, Ledger
from pytest_roofline.models.storages import CopyNote, Storage
from pytest_roofline.traffic import TRACED, Traffic

STATE_FLOOR_BYTES = 64
"""Counters and positions are state too, but no KV cache."""

_VERBS = {
    "concatenated": "copied each step (concatenated anew)",
    "shifted": "shifted each step",
    "repeated": "repeated in memory each step",
    "cast": "cast each step",
    "copied": "copied each step",
    "gathered": "gathered into a copy each step",
    "dequantized": "dequantized each step",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertTable:
    """Where each expert's share of one kind of weight lies."""

    experts: int
    parts: tuple[tuple[int, tuple[Range, ...]], ...]
    """Storage number and ranges of each expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of the step beside its operations."""

    batch: int | None = None
    context: int | None = None
    cached_tokens: int | None = None
    """Tokens in the caches that were found, before the step."""
    cached_batch: int | None = None
    """Sequences in those caches."""
    output_bytes: int = 0
    appended_bytes: int = 0
    """New rows of state that was made anew and outlives the step."""
    experts: Sequence[ExpertTable] = ()
    is_compiled: bool = False
    notes: tuple[str, ...] = field(default=())


def account(ledger: Ledger, circumstances: Circumstances) -> Traffic:
    """Sum a ledger: least and expected bytes, KV apart from weights, extra bytes by name, FLOPs."""
    batch, tokens = _shape(ledger, circumstances)
    passed_tokens = (batch or 1) * tokens
    state = [storage for storage in ledger.storages if _is_state(storage)]
    kv_bytes = 0.0
    kv_bytes_per_token = 0.0
    longest = 0.0
    for storage in state:
        if storage.allowed is not None:
            storage.needed = storage.needed.common(storage.allowed)
        needed_bytes = float(storage.needed.total_bytes)
        token_bytes = max(storage.written.total_bytes, storage.appended_bytes) / passed_tokens
        if storage.written.total_bytes >= storage.nbytes:
            token_bytes = 0.0  # rewritten whole: a recurrent state, which does not grow with the context
        if token_bytes and circumstances.context is not None:
            needed_bytes = min(needed_bytes, circumstances.context * (batch or 1) * token_bytes)
        if token_bytes:
            longest = max(longest, needed_bytes / ((batch or 1) * token_bytes))
        if not storage.is_full_window:
            kv_bytes_per_token += token_bytes
        kv_bytes += needed_bytes
    weights = [storage for storage in ledger.storages if storage.existed and not _is_state(storage)]
    weight_bytes = float(sum(storage.needed.total_bytes for storage in weights if not storage.is_argument))
    argument_bytes = float(sum(storage.needed.total_bytes for storage in weights if storage.is_argument))
    stored_bytes = sum(storage.written.total_bytes for storage in ledger.storages if storage.existed)
    written_bytes = float(stored_bytes + circumstances.output_bytes + circumstances.appended_bytes)
    expected = weight_bytes + argument_bytes + kv_bytes + written_bytes
    spare_bytes = sum(_spare_expert_bytes(ledger, table) for table in circumstances.experts)
    extra = _extra(ledger, state)
    context = circumstances.cached_tokens
    if context is None:
        context = round(longest) if longest >= 1 else circumstances.context
    flops, least_flops = _flops(ledger, batch or 1, passed_tokens)
    notes = [*circumstances.notes, *ledger.notes]
    notes += [f"open trace: {reason}" for reason in ledger.open_reasons]
    if expected <= 0:
        notes.append("the trace saw no bytes move")
    if circumstances.is_compiled:
        extra = [(f"{name} (eager program; the compiled one may not have them)", size) for name, size in extra]
    return Traffic(
        bytes_per_pass=max(expected, 1.0),
        least_bytes_per_pass=max(0.0, expected - spare_bytes),
        weight_bytes_per_pass=weight_bytes,
        kv_bytes_per_pass=kv_bytes,
        kv_bytes_per_token=kv_bytes_per_token if kv_bytes_per_token and context is not None else None,
        written_bytes_per_pass=written_bytes,
        repeated_bytes_per_pass=float(ledger.repeated_bytes),
        extra_bytes_per_pass=sum(size for _, size in extra),
        extra=tuple(extra),
        flops_per_pass=flops,
        least_flops_per_pass=least_flops,
        dtype=_dtype(weights),
        batch=batch,
        context=context,
        source=TRACED,
        is_closed=not ledger.open_reasons,
        notes=tuple(notes),
    )


def _shape(ledger: Ledger, circumstances: Circumstances) -> tuple[int | None, int]:
    """Sequences of the pass (None when nothing shows them) and new tokens of each."""
    shapes = ledger.token_shapes or ledger.query_shapes
    if not shapes:
        return circumstances.batch or circumstances.cached_batch, 1
    seen_batch, tokens = max(shapes)
    batch = circumstances.batch or seen_batch
    return batch, max(1, seen_batch * tokens // batch)


def _is_state(storage: Storage) -> bool:
    """Whether a storage holds the KV cache, or any other state that one step leaves to the next."""
    if not storage.existed or storage.is_parameter or storage.nbytes <= STATE_FLOOR_BYTES:
        return False
    if storage.is_attended or storage.is_cache or storage.appended_bytes:
        return True
    return bool(storage.written) and bool(storage.needed)


def _spare_expert_bytes(ledger: Ledger, table: ExpertTable) -> float:
    """Bytes of experts hit beyond those that one token chooses: another pass may route all its tokens alike."""
    chosen = ledger.experts_per_token.get(table.experts)
    if chosen is None:
        return 0.0
    hit_bytes = []
    for number, ranges in table.parts:
        read = ledger.storages[number].needed.common(RangeSet(ranges)).total_bytes
        if read:
            hit_bytes.append(read)
    spare = len(hit_bytes) - chosen
    return sum(hit_bytes) / len(hit_bytes) * spare if spare > 0 else 0.0


def _extra(ledger: Ledger, state: Sequence[Storage]) -> list[tuple[str, float]]:
    sizes: dict[str, float] = {}
    for note in ledger.copies:
        name = _name(ledger, note)
        sizes[name] = sizes.get(name, 0.0) + note.copied_bytes * (2 if note.is_read else 1)
    beyond = sum(storage.touched.minus(storage.needed).minus(storage.written).total_bytes for storage in state)
    sizes["KV buffer read beyond the context"] = float(beyond)
    large = [(name, size) for name, size in sizes.items() if size >= FLOOR_BYTES]
    return sorted(large, key=lambda item: (-item[1], item[0]))


def _name(ledger: Ledger, note: CopyNote) -> str:
    sources = [ledger.storages[number] for number in note.sources]
    if any(_is_state(source) for source in sources):
        owner = "KV cache"
    elif any(source.is_argument for source in sources):
        owner = "inputs"
    else:
        owner = "weights"
    return f"{owner} {_VERBS.get(note.kind, f'{note.kind} each step')}"


def _flops(ledger: Ledger, batch: int, passed_tokens: int) -> tuple[float | None, float | None]:
    if not ledger.products:
        return None, None
    flops = sum(product.flops for product in ledger.products)
    least = sum(product.least_flops for product in ledger.products)
    with_weight = [product for product in ledger.products if product.rows is not None]
    if with_weight and passed_tokens > batch and with_weight[-1].rows == passed_tokens:
        # The head comes last, and only the last position of each sequence needs it.
        least -= with_weight[-1].least_flops * (1 - batch / passed_tokens)
    return flops, least


def _dtype(weights: Sequence[Storage]) -> str | None:
    sizes: dict[str, int] = {}
    for storage in weights:
        sizes[storage.dtype] = sizes.get(storage.dtype, 0) + storage.needed.total_bytes
    return max(sizes, key=lambda name: sizes[name]) if any(sizes.values()) else None
