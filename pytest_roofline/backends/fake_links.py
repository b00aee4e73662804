"""The links of the fake device: how fast bytes come from and go to its host and its peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_roofline.backends.fake_device import FakeDevice
from pytest_roofline.device import Device
from pytest_roofline.protocol import HOST, Kernel, LinkPath

Send = Callable[[float], Any]
"""Keeps the device busy for so many seconds."""


def fake_link_paths(
    send: Send, hardware: FakeDevice, device: Device, peers: list[Device], size_bytes: float
) -> list[LinkPath]:
    """Every path of one device, by its figures; none to the host where it has no link."""
    rate = hardware.link_bytes_per_s
    paths = []
    for is_pinned in (True, False) if rate is not None else ():
        one_way = (rate or 0.0) * (1.0 if is_pinned else hardware.pageable_share)
        paths += [
            _path(send, HOST, device.id, size_bytes, one_way, is_pinned=is_pinned),
            _path(send, device.id, HOST, size_bytes, one_way, is_pinned=is_pinned),
            _path(
                send,
                HOST,
                device.id,
                2 * size_bytes,
                hardware.duplex_factor * one_way,
                is_pinned=is_pinned,
                is_both_ways=True,
            ),
        ]
    for peer in peers if hardware.peer_bytes_per_s is not None else ():
        for source, target in ((device, peer), (peer, device)):
            paths.append(_path(send, source.id, target.id, size_bytes, hardware.peer_bytes_per_s or 0.0))
    return paths


def _path(
    send: Send,
    source: str,
    target: str,
    size_bytes: float,
    rate: float,
    *,
    is_pinned: bool | None = None,
    is_both_ways: bool = False,
) -> LinkPath:
    kernel = Kernel(
        name="send",
        pattern="copy",
        bytes_per_launch=size_bytes,
        working_set_bytes=size_bytes,
        launch=lambda: send(size_bytes / rate),
    )
    return LinkPath(source=source, target=target, is_pinned=is_pinned, is_both_ways=is_both_ways, kernels=(kernel,))
