"""The links of a device: what moves between its memory and the host's, and to its peers, measured on demand.

Page-locked ("pinned") host memory is read by the device itself; pageable memory goes through a buffer of the driver
first, which takes two to five times as long. Both ways at once need not be twice one way. A rate counts what arrives:
n bytes sent are n, and both ways at once are the sum of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pytest_roofline.contest import compete, enter
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import HOST, Backend, Kernel, LinkPath
from pytest_roofline.units import format_bytes

LINK_BYTES = 2**25
"""Sent per launch: long against a launch, and small enough for any host's page-locked memory."""
_ROUNDS = 3


@runtime_checkable
class LinkBackend(Protocol):
    """What a backend may offer on top: kernels that move bytes between host and device."""

    def link_kernels(self, device: Device, working_set_bytes: float) -> Sequence[Kernel]:
        """Every way to send so many bytes from pinned host memory to the device; counted once."""
        ...


@runtime_checkable
class LinkPathsBackend(Protocol):
    """What a backend may offer on top of that: every path to and from the device."""

    def link_paths(self, device: Device, working_set_bytes: float) -> Sequence[LinkPath]:
        """Paths of so many bytes to and from the host, one way and both, and to each peer; MemoryError for too many."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """The best rate of one path, in bytes/s that arrive (both ways: the sum)."""

    source: str
    """``host``, or the id of a device."""
    target: str
    is_pinned: bool | None
    """Whether the host's memory is page-locked; None between devices."""
    is_both_ways: bool
    bytes_per_s: float
    kernel: str

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "source": self.source,
            "target": self.target,
            "is_pinned": self.is_pinned,
            "is_both_ways": self.is_both_ways,
            "bytes_per_s": self.bytes_per_s,
            "kernel": self.kernel,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Every path of one device that could be measured; what could not is in the notes."""

    device: Device
    rates: tuple[LinkRate, ...]
    notes: tuple[str, ...] = ()

    def bytes_per_s(
        self, source: str, target: str, *, is_pinned: bool | None = None, is_both_ways: bool = False
    ) -> float | None:
        """The rate of one path (without `is_pinned` the better of the two kinds of memory); None where it has none."""
        found = [
            rate.bytes_per_s
            for rate in self.rates
            if rate.is_both_ways == is_both_ways
            and (is_pinned is None or rate.is_pinned is is_pinned)
            and ((rate.source, rate.target) == (source, target) or (is_both_ways and rate.source == target))
        ]
        return max(found, default=None)

    @property
    def from_host_bytes_per_s(self) -> float | None:
        """One way, the best of pinned and pageable memory: what weights in the host's memory may come at."""
        return self.bytes_per_s(HOST, self.device.id)

    @property
    def to_host_bytes_per_s(self) -> float | None:
        """One way, the best of pinned and pageable memory."""
        return self.bytes_per_s(self.device.id, HOST)

    @property
    def slowest(self) -> LinkRate:
        """The path with the smallest rate."""
        return min(self.rates, key=lambda rate: rate.bytes_per_s)

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only, no NaN or infinity."""
        return {
            "device": self.device.id,
            "rates": [rate.to_dict() for rate in self.rates],
            "notes": list(self.notes),
        }


def require_link(device: Device) -> None:
    """RooflineUsageError for a device that shares the host's memory: nothing crosses a link there."""
    if device.is_cpu or device.is_unified_memory:
        raise RooflineUsageError(
            f"{device.id} has no link: host and device share one memory, so nothing can be offloaded over it"
        )


def measure_link(device: Device, backends: Sequence[Backend]) -> float:
    """Best rate from host to device, bytes/s. RooflineUsageError where there is no link, or nobody measures it."""
    require_link(device)
    entrants = [
        enter(backend, kernel, device)
        for backend in backends
        if isinstance(backend, LinkBackend)
        for kernel in backend.link_kernels(device, 2**26)
    ]
    winner = compete(entrants, rounds=5)
    if winner is None:
        raise _unmeasured(device, backends)
    return winner.best_bytes_per_s


def measure_links(device: Device, backends: Sequence[Backend]) -> Links:
    """Every path that some backend offers; of several kernels for one path the best. Takes about a second a path.

    RooflineUsageError where there is no link, or nobody measures one.
    """
    require_link(device)
    best: dict[tuple[str, str, bool | None, bool], LinkRate] = {}
    notes: list[str] = []
    for backend in backends:
        if not isinstance(backend, LinkPathsBackend):
            continue
        try:
            paths = backend.link_paths(device, LINK_BYTES)
        except MemoryError as error:
            notes.append(f"{backend.name}: no memory for links of {format_bytes(LINK_BYTES)} ({error})")
            continue
        for path in paths:
            winner = compete([enter(backend, kernel, device) for kernel in path.kernels], rounds=_ROUNDS)
            if winner is None:
                continue
            key = (path.source, path.target, path.is_pinned, path.is_both_ways)
            rate = LinkRate(
                source=path.source,
                target=path.target,
                is_pinned=path.is_pinned,
                is_both_ways=path.is_both_ways,
                bytes_per_s=winner.best_bytes_per_s,
                kernel=winner.name,
            )
            if key not in best or best[key].bytes_per_s < rate.bytes_per_s:
                best[key] = rate
    if not best:
        raise _unmeasured(device, backends, notes)
    return Links(device=device, rates=tuple(best.values()), notes=tuple(notes))


def _unmeasured(device: Device, backends: Sequence[Backend], notes: Sequence[str] = ()) -> RooflineUsageError:
    names = ", ".join(backend.name for backend in backends)
    reason = f" ({'; '.join(notes)})" if notes else ""
    return RooflineUsageError(f"the link of {device.id} cannot be measured by: {names}{reason}")
