"""What each ATen operation reads of its operands: the rules, and the generic case behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytest_roofline.models.attention import attend, attend_packed
from pytest_roofline.models.calls import Call
from pytest_roofline.models.ledger import Ledger
from pytest_roofline.models.moves import COPIES, MOVES, follow_copy, follow_move, follow_store, stored_rows
from pytest_roofline.models.products import GROUPED, count_flops
from pytest_roofline.models.storages import bytes_of

KNOWN_NAMESPACES = frozenset({"aten", "prims", "prim"})

SMALL_BYTES = 1024
"""Constants and scalars of this size do not make a product of weights an activation."""

_BLANK = frozenset({"aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.new_empty_strided"})
_SHAPES_ONLY = _BLANK | {
    "aten.zeros_like",
    "aten.ones_like",
    "aten.full_like",
    "aten.rand_like",
    "aten.randn_like",
    "aten.randint_like",
    "aten.new_zeros",
    "aten.new_ones",
    "aten.new_full",
}
"""Operations that look at their operand's shape and dtype alone."""
_OVERWRITES = frozenset({"aten.zero_", "aten.fill_", "aten.normal_", "aten.uniform_", "aten.random_", "aten.set_"})
_INDEXED_STORES = frozenset(
    {"aten.index_copy_", "aten.index_put_", "aten.index_fill_", "aten.scatter_", "aten.masked_fill_"}
)
_ATTENTION = frozenset(
    {
        "aten._scaled_dot_product_flash_attention",
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "aten._scaled_dot_product_efficient_attention",
        "aten._scaled_dot_product_cudnn_attention",
        "aten._scaled_dot_product_fused_attention_overrideable",
        "aten._scaled_dot_product_attention_math_for_mps",
    }
)
_PACKED_ATTENTION = frozenset(
    {
        "aten._flash_attention_forward",
        "aten._flash_attention_forward_no_dropout_inplace",
        "aten._efficient_attention_forward",
        "aten._cudnn_attention_forward",
    }
)
_ELEMENTWISE = frozenset(
    {
        "aten.add",
        "aten.sub",
        "aten.mul",
        "aten.div",
        "aten.rsub",
        "aten.bitwise_and",
        "aten.bitwise_or",
        "aten.bitwise_xor",
        "aten.bitwise_right_shift",
        "aten.bitwise_left_shift",
        "aten.__rshift__",
        "aten.__lshift__",
        "aten.__and__",
        "aten.__or__",
        "aten.where",
        "aten.dequantize",
        "aten.clamp",
        "aten.neg",
        "aten.pow",
        "aten.exp2",
        "aten.ldexp",
        "aten.remainder",
        "aten.floor_divide",
    }
)
"""Operations that turn a stored weight into the one that is multiplied: dequantization is made of these."""


def enter(ledger: Ledger, call: Call) -> None:
    """Write one operation into the ledger, by its rule or as arithmetic that reads all of its operands."""
    is_constant = call.name == "aten.lift_fresh"
    for tensor in call.inputs:
        if is_constant and not ledger.storages.knows(tensor):
            ledger.made([tensor], [])  # built from Python numbers, during the step
        ledger.storages.of(tensor)
    written = call.written
    if not written and call.outputs and all(ledger.storages.knows(tensor) for tensor in call.outputs):
        return  # a view
    rule = _RULES.get(call.name)
    if rule is None and call.func.namespace not in KNOWN_NAMESPACES:
        _enter_unknown(ledger, call, written)
    elif rule is not None:
        rule(ledger, call)
    else:
        _compute(ledger, call, written)
    count_flops(ledger, call)


def _enter_unknown(ledger: Ledger, call: Call, written: list[torch.Tensor]) -> None:
    ledger.open(f"{call.name.replace('.', '::', 1)} is not an operation whose reads are known")
    for tensor in written:
        ledger.flows_into(tensor, call.inputs)
        ledger.wrote(tensor)
    ledger.made(call.outputs, call.inputs)


def _compute(ledger: Ledger, call: Call, written: list[torch.Tensor]) -> None:
    """Arithmetic: every operand is read, except what is only overwritten."""
    unread = {id(tensor) for tensor in written} if call.name in _OVERWRITES else set()
    if call.func._overloadname.startswith(("out", "Tensor_out", "Scalar_out")) or "_out" in call.func._overloadname:
        unread |= {id(tensor) for tensor in written}
    read = [tensor for tensor in call.inputs if id(tensor) not in unread]
    for tensor in read:
        ledger.need(tensor)
    for tensor in written:
        ledger.flows_into(tensor, read)
        ledger.wrote(tensor)
    kept = {id(tensor) for tensor in written}
    outputs = [tensor for tensor in call.outputs if id(tensor) not in kept]
    ledger.made(outputs, read)
    if call.name in _ELEMENTWISE and len(outputs) == 1:
        _note_derived(ledger, outputs[0], read)


def _note_derived(ledger: Ledger, output: torch.Tensor, read: list[torch.Tensor]) -> None:
    """A tensor made from weights alone is the same on every pass: making it anew is extra."""
    flows = [ledger.storages.of(tensor) for tensor in read]
    stored = [flow for flow in flows if flow.reaches_memory and flow.nbytes > SMALL_BYTES]
    if not stored or not all(ledger.is_stored(flow) or flow.is_weights_only or flow.note for flow in stored):
        return
    numbers: set[int] = set()
    for tensor in read:
        numbers |= ledger.sources_of(tensor)
    origins = [ledger.storages[number] for number in numbers]
    if all(ledger.is_stored(origin) or origin.nbytes <= SMALL_BYTES for origin in origins):
        ledger.storages.of(output).is_weights_only = True
        kind = "dequantized" if ledger.attended is None else "copied"
        ledger.copied(kind, output, bytes_of(output), numbers)


def _make_blank(ledger: Ledger, call: Call) -> None:
    ledger.made(call.outputs, [], is_blank=call.name in _BLANK)


def _attend(ledger: Ledger, call: Call) -> None:
    outputs = call.outputs
    attend(ledger, call.arguments, outputs[0])
    ledger.made(outputs[1:], call.inputs)


def _multiply_groups(ledger: Ledger, call: Call) -> None:
    """A grouped product reads the matrices of those groups that have rows."""
    arguments = call.arguments
    groups = arguments.get("offs")
    left = arguments.get("self", arguments.get("input"))
    right = arguments.get("mat2", arguments.get("weight"))
    if groups is None or left is None or right is None or left.dim() != 2 or right.dim() != 3:
        _compute(ledger, call, call.written)
        return
    ends = groups.cpu().tolist()
    ledger.need(groups)
    ledger.need(left[: ends[-1]] if ends else left)
    extras = [arguments[name] for name in ("scale_a", "scale_b", "bias", "scale_result") if name in arguments]
    hit = [group for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)) if end > start]
    for group in hit:
        ledger.need(right[group])
    for tensor in extras:
        if tensor is not None:
            per_group = tensor.dim() > 1 and tensor.shape[0] == right.shape[0]
            for part in [tensor[group] for group in hit] if per_group else [tensor]:
                ledger.need(part)
    ledger.made(call.outputs, [left, right])


def _store_rows(ledger: Ledger, call: Call) -> None:
    target: torch.Tensor = call.args[0]
    for tensor in call.inputs[1:]:
        ledger.need(tensor)
    ledger.flows_into(target, call.inputs[1:])
    is_sum = call.name == "aten.index_put_" and call.arguments.get("accumulate", False)
    if is_sum or "reduce" in call.arguments:
        ledger.need(target)
    ranges = stored_rows(call)
    if ranges is None:
        ledger.note(f"rows stored by {call.name} could not be told; they count neither as written nor as new")
        ranges = []
    ledger.wrote(target, ranges)


def _add_rows(ledger: Ledger, call: Call) -> None:
    target: torch.Tensor = call.args[0]
    for tensor in call.inputs[1:]:
        ledger.need(tensor)
    ledger.flows_into(target, call.inputs[1:])
    ranges = stored_rows(call) or []
    storage = ledger.storages.of(target)
    if storage.existed and storage.lineage is None:
        ledger.require(storage.number, ranges)
        storage.touched.update(ranges)
    ledger.wrote(target, ranges)


def _choose(ledger: Ledger, call: Call) -> None:
    """A top-k over few candidates is how a router picks its experts."""
    _compute(ledger, call, call.written)
    arguments = call.arguments
    candidates = arguments["self"].shape[-1] if arguments["self"].dim() else 0
    ledger.experts_per_token[candidates] = max(ledger.experts_per_token.get(candidates, 0), int(arguments["k"]))


def _look_up(ledger: Ledger, call: Call) -> None:
    ids = call.args[1]
    if ids.dim() == 2:
        ledger.token_shapes.append((ids.shape[0], ids.shape[1]))
    follow_move(ledger, call)


_RULES: dict[str, Callable[[Ledger, Call], Any]] = {
    **dict.fromkeys(_SHAPES_ONLY, _make_blank),
    **dict.fromkeys(MOVES, follow_move),
    **dict.fromkeys(COPIES, follow_copy),
    **dict.fromkeys(_ATTENTION, _attend),
    **dict.fromkeys(_PACKED_ATTENTION, attend_packed),
    **dict.fromkeys(GROUPED, _multiply_groups),
    **dict.fromkeys(_INDEXED_STORES, _store_rows),
    "aten.index_add_": _add_rows,
    "aten.copy_": follow_store,
    "aten.embedding": _look_up,
    "aten.topk": _choose,
}
