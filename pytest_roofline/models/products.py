"""FLOPs of one operation, by the formulas of `torch.utils.flop_counter` and those that it lacks."""

from __future__ import annotations

import torch
from torch.utils import flop_counter

from pytest_roofline.models.calls import Call
from pytest_roofline.models.ledger import Ledger, Product

GROUPED = frozenset({"aten._grouped_mm", "aten._scaled_grouped_mm", "transformers.grouped_mm_fallback"})
_UNLISTED = frozenset(
    {
        "aten._int_mm",
        "aten._weight_int8pack_mm",
        "aten._weight_int4pack_mm",
        "aten._weight_int4pack_mm_for_cpu",
        "aten._weight_int4pack_mm_with_scales_and_zeros",
    }
)
_WITH_WEIGHT = frozenset({"aten.mm", "aten.addmm", "aten._scaled_mm"})
_ATTENTION = "aten._scaled_dot_product"


def count_flops(ledger: Ledger, call: Call) -> None:
    """Enter the FLOPs of an operation; most operations have none that count, and attention enters its own."""
    if call.name.startswith(_ATTENTION):
        return
    if call.name in GROUPED or call.name in _UNLISTED:
        flops = 2.0 * call.result.numel() * call.args[0].shape[-1]
        rows = None if call.name in GROUPED else _rows(call.result)
        ledger.products.append(Product(flops=flops, least_flops=flops, rows=rows))
        return
    formula = flop_counter.flop_registry.get(getattr(call.func, "overloadpacket", None))
    if formula is None:
        return
    flops = float(formula(*call.args, **call.kwargs, out_val=call.result))
    if call.name in _WITH_WEIGHT:
        ledger.products.append(Product(flops=flops, least_flops=flops, rows=_rows(call.result)))
        return
    least = flops
    if call.name in ("aten.bmm", "aten.baddbmm") and _is_attention(ledger, call):
        least = flops / 2  # attention written out: a causal mask would hide half of it
    ledger.products.append(Product(flops=flops, least_flops=least))


def _rows(result: torch.Tensor) -> int:
    return int(result.numel() // max(1, result.shape[-1]))


def _is_attention(ledger: Ledger, call: Call) -> bool:
    operands = call.inputs[-2:]
    return call.result.shape[-2] > 1 and not any(
        ledger.is_weight(ledger.storages.of(operand)) or ledger.storages.of(operand).note for operand in operands
    )
