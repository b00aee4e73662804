"""Links in torch: copies between a device and the host's memory, pinned and pageable, one way and both, and to peers.

A copy from pageable memory holds its thread until it is done, so that both ways at once takes two threads; from
page-locked memory two streams do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from pytest_roofline.backends.crew import Crew
from pytest_roofline.backends.torch_kernels import is_out_of_memory, part_length, random_buffer
from pytest_roofline.device import Device
from pytest_roofline.protocol import HOST, Kernel, LinkPath
from pytest_roofline.units import format_bytes


def make_link_kernels(device: Device, size_bytes: float) -> list[Kernel]:
    """Ways to send so many bytes of page-locked host memory to the device, counted once; none where that is
    not had.

    Raises MemoryError when they do not fit.
    """
    return [
        kernel
        for path in _host_paths(device, size_bytes, is_pinned=True)
        if path.source == HOST and not path.is_both_ways
        for kernel in path.kernels
    ]


def make_link_paths(
    device: Device, size_bytes: float, peers: Sequence[Device], module: Any | None = None
) -> list[LinkPath]:
    """Every path of so many bytes; `module` is the framework's own (``torch.cuda``), whose streams go both ways.

    Paths that are not to be had are left out; MemoryError when the buffers do not fit.
    """
    paths = [
        path for is_pinned in (True, False) for path in _host_paths(device, size_bytes, is_pinned=is_pinned, own=module)
    ]
    for peer in peers:
        paths += _peer_paths(device, peer, size_bytes)
    return paths


def _host_paths(device: Device, size_bytes: float, *, is_pinned: bool, own: Any | None = None) -> list[LinkPath]:
    length = part_length(size_bytes)
    try:
        with torch.inference_mode(False):
            sent, back = (random_buffer(length, torch.device("cpu")) for _ in range(2))
            if is_pinned:
                sent, back = sent.pin_memory(), back.pin_memory()
            sink, origin = (torch.empty_like(sent, device=_place(device)) for _ in range(2))
            origin.copy_(sent)
    except RuntimeError as error:
        if is_out_of_memory(error):
            kind = "page-locked memory" if is_pinned else "memory"
            raise MemoryError(f"{device.id}: {format_bytes(length)} of {kind} are not to be had") from error
        return []
    up = partial(sink.copy_, sent, non_blocking=is_pinned)
    down = partial(back.copy_, origin, non_blocking=is_pinned)
    kind = "pinned" if is_pinned else "pageable"
    paths = [
        _path(HOST, device.id, f"copy_-from-{kind}-host", length, up, is_pinned=is_pinned),
        _path(device.id, HOST, f"copy_-to-{kind}-host", length, down, is_pinned=is_pinned),
    ]
    both = _on_two_streams(own, device, up, down) if is_pinned else _on_two_threads(up, down)
    if both is not None:
        name = f"copy_-both-{kind}-host"
        paths.append(_path(HOST, device.id, name, 2 * length, both, is_pinned=is_pinned, is_both_ways=True))
    return paths


def _peer_paths(device: Device, peer: Device, size_bytes: float) -> list[LinkPath]:
    length = part_length(size_bytes)
    try:
        with torch.inference_mode(False):
            own = random_buffer(length, _place(device))
            other = torch.empty_like(own, device=_place(peer))
            other.copy_(own)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise MemoryError(f"{peer.id}: {format_bytes(length)} do not fit") from error
        return []
    return [
        _path(device.id, peer.id, "copy_-to-peer", length, partial(other.copy_, own, non_blocking=True)),
        _path(peer.id, device.id, "copy_-from-peer", length, partial(own.copy_, other, non_blocking=True)),
    ]


def _on_two_streams(
    module: Any | None, device: Device, up: Callable[[], object], down: Callable[[], object]
) -> Callable[[], object] | None:
    """Each way on a stream of its own; None where this kind of device has no streams to choose."""
    if not hasattr(module, "Stream") or not hasattr(module, "stream"):
        return None
    chosen: Any = module
    ways = [(chosen.Stream(device=_place(device)), way) for way in (up, down)]

    def launch() -> None:
        for stream, way in ways:
            with chosen.stream(stream):
                way()

    return launch


def _on_two_threads(up: Callable[[], object], down: Callable[[], object]) -> Callable[[], object]:
    crew = Crew(2)
    return lambda: crew.run((up, down))


def _path(
    source: str,
    target: str,
    name: str,
    sent_bytes: int,
    launch: Callable[[], object],
    *,
    is_pinned: bool | None = None,
    is_both_ways: bool = False,
) -> LinkPath:
    kernel = Kernel(name=name, pattern="copy", bytes_per_launch=sent_bytes, working_set_bytes=sent_bytes, launch=launch)
    return LinkPath(source=source, target=target, is_pinned=is_pinned, is_both_ways=is_both_ways, kernels=(kernel,))


def _place(device: Device) -> torch.device:
    return torch.device(device.kind, device.index)
