"""What a card is asked beside its memory: its links, weights that come over them, and a kernel no trace looks into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.links import Links
from pytest_roofline.protocol import HOST
from pytest_roofline.units import format_bytes_per_s, format_fraction

Report = tuple[str, dict[str, Any], list[str]]
"""A line, its figures, and what is wrong with them."""


def examine_links(device: Device, links: Links) -> Report:
    """Pinned memory is no slower than pageable, both ways no slower than one, and nothing beats the printed link."""
    faults = []

    def rate(source: str, target: str, **kind: bool) -> float:
        found = links.bytes_per_s(source, target, **kind)
        if found is None:
            faults.append(f"no rate from {source} to {target} ({kind})")
        return found or 0.0

    up, down = rate(HOST, device.id, is_pinned=True), rate(device.id, HOST, is_pinned=True)
    pageable = rate(HOST, device.id, is_pinned=False)
    both = rate(HOST, device.id, is_pinned=True, is_both_ways=True)
    printed = device.spec.host_link_bytes_per_s if device.spec else None
    if pageable > 1.1 * up:
        faults.append("pageable memory is faster than pinned memory")
    if both < 0.9 * max(up, down):
        faults.append("both ways at once are slower than one way")
    if printed and max(up, down) > 1.05 * printed:
        faults.append(f"faster than the printed {format_bytes_per_s(printed)}")
    words = [f"{name} {format_bytes_per_s(value)}" for name, value in (("to", up), ("from", down), ("both", both))]
    line = ", ".join([*words, f"pageable {format_bytes_per_s(pageable)}"])
    return line, links.to_dict() | {"printed_bytes_per_s": printed}, faults


def examine_offload(device: Device, tool: Instrument, max_time_s: float) -> Report:
    """Half of the weights are sent from pinned memory in each pass; the trace sees them, and the link is the bound."""
    rows, columns = 16_384, 16_384
    place = torch.device(device.kind, device.index)
    own = torch.randn(rows, columns, device=place, dtype=torch.bfloat16)
    sent = torch.empty(rows, columns, dtype=torch.bfloat16).copy_(own).pin_memory()
    vector = torch.randn(columns, device=place, dtype=torch.bfloat16)

    def step() -> Any:
        fetched = sent.to(place, non_blocking=True)
        return torch.mv(own, vector) + torch.mv(fetched, vector)

    result = tool.decode(
        step, traffic=float(own.nbytes + sent.nbytes), passes_per_reset=10**6, max_time_s=max_time_s, label="offloaded"
    )
    fraction, spilled = float(result.fraction), result.traffic.spilled_bytes_per_pass if result.traffic else 0.0
    faults = [] if result.verdict.outcome in ("passed", "inconclusive") else [f"{result.verdict.outcome}"]
    if abs(spilled / sent.nbytes - 1) > 0.02:
        faults.append(f"{spilled / 1e6:.0f} MB of {sent.nbytes / 1e6:.0f} MB were seen with the host")
    if result.ceiling is None or result.ceiling.bound != "link":
        faults.append(f"bound by {result.ceiling and result.ceiling.bound}, not by the link")
    if not 0.5 < fraction < 1.1:
        faults.append("a pinned copy and two products reach most of both paths, and no more than all")
    line = f"{format_fraction(fraction)} of memory and link in turn, {spilled / 1e6:.0f} MB over the link"
    return line, result.to_dict(), faults


def examine_opaque_kernel(device: Device, tool: Instrument, max_time_s: float) -> Report:
    """A Triton copy: without declared bytes an error that says so, with them a fraction. ImportError without Triton."""
    source = torch.randn(2**28, device=torch.device(device.kind, device.index))
    target = torch.empty_like(source)
    copy = _triton_copy(source, target)
    faults = []
    try:
        tool.kernel(copy, max_time_s=max_time_s, label="triton-undeclared", device=device.id)
        faults.append("bytes that no trace can see were measured")
    except RooflineUsageError as error:
        if "cannot be traced" not in str(error):
            faults.append(f"an error of another kind: {error}")
    result = tool.kernel(
        copy,
        bytes_read=source.nbytes,
        bytes_written=source.nbytes,
        max_time_s=max_time_s,
        label="triton",
        device=device.id,
    )
    if not torch.equal(source, target):
        faults.append("the kernel did not copy")
    if result.verdict.outcome != "passed" or not 0.5 < float(result.fraction) < 1.1:
        faults.append(f"{result.verdict.outcome} with {float(result.fraction):.2f}: {result.findings}")
    return f"{format_fraction(float(result.fraction))} of the copy ceiling", result.to_dict(), faults


def _triton_copy(source: Any, target: Any) -> Callable[[], Any]:
    import triton
    from triton import language as tl

    @triton.jit  # type: ignore[misc]
    def copied(read, written, length, block: tl.constexpr):  # type: ignore[no-untyped-def]
        offsets = tl.program_id(0) * block + tl.arange(0, block)
        inside = offsets < length
        tl.store(written + offsets, tl.load(read + offsets, mask=inside), mask=inside)

    copied.fn.__globals__.setdefault("tl", tl)
    length, block = source.numel(), 4096

    def launch() -> Any:
        copied[(triton.cdiv(length, block),)](source, target, length, block=block)
        return target

    return launch
