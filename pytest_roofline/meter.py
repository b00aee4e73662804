"""What outlives a probe: its memory, and what is measured only when somebody asks.

The peak of a matrix product by dtype, and the link to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable
from weakref import ref

from pytest_roofline.backends.arena import Arena, ArenaBackend
from pytest_roofline.contest import compete, enter
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Backend, Kernel
from pytest_roofline.units import format_bytes


def open_arena(
    device: Device, backends: Sequence[Backend], wanted_bytes: float, free_bytes: float, notes: list[str]
) -> Arena | None:
    """Addresses for all that the kernels of a CPU may want, source and half as much target; no memory yet.

    Three quarters of what is free are left alone. None where no backend shares memory, or, with a note, where the
    system has no addresses.
    """
    host = next((backend for backend in backends if isinstance(backend, ArenaBackend)), None)
    if host is None or not device.is_cpu:
        return None
    room = min(wanted_bytes, free_bytes / 6)
    refusal = f"{format_bytes(free_bytes)} of memory are free"
    while room >= _SMALLEST_BYTES:
        try:
            return host.make_arena(device, room, room / 2)
        except MemoryError as error:
            refusal = str(error)
            room /= 2
    notes.append(refusal)
    return None


def credible_cache_bytes(device: Device) -> float:
    """The last-level cache that is reported, or the most that so many cores may have; 0 where none is.

    A virtual machine may report the cache of its host.
    """
    reported, cores = device.last_level_cache_bytes or 0.0, device.compute_units
    return reported if cores is None else min(reported, max(cores * _CORE_CACHE_BYTES, _CHIPLET_CACHE_BYTES))


def _nobody() -> None:
    """No arena was kept."""


_SMALLEST_BYTES = 2**22
_CORE_CACHE_BYTES = 2**24
_CHIPLET_CACHE_BYTES = 96 * 2**20
"""No core has a larger share of the last level than the one, but a few may have a chiplet with the other."""


@runtime_checkable
class LinkBackend(Protocol):
    """What a backend may offer on top: kernels that move bytes between host and device."""

    def link_kernels(self, device: Device, working_set_bytes: float) -> Sequence[Kernel]:
        """Every way to send so many bytes from pinned host memory to the device; counted once."""
        ...


class Meter:
    """Figures of a device that are measured when somebody asks, and then remembered; and a place for the arena."""

    def __init__(self, device: Device, backends: Sequence[Backend]) -> None:
        self.device = device
        self.backends = tuple(backends)
        self.peaks: dict[str, float] = {}
        self.link: float | None = None
        self._kept: Arena | None = None
        self._seen: Callable[[], Arena | None] = _nobody

    def keep(self, arena: Arena, *, for_good: bool) -> None:
        """Remember an arena: `for_good`, or for as long as anybody else holds it."""
        self._kept = arena if for_good else None
        self._seen = ref(arena)

    def arena(self) -> Arena | None:
        """The arena that was kept, if it is still there."""
        return self._seen()

    def peak_flops_per_s(self, dtype: str) -> float:
        """Best dense matrix product of this dtype over several sizes, FLOP/s."""
        if dtype not in self.peaks:
            self.peaks[dtype] = self._measured_peak(dtype)
        return self.peaks[dtype]

    def _measured_peak(self, dtype: str) -> float:
        sizes = (512, 1024, 2048) if self.device.is_cpu else (2048, 4096, 8192)
        refusals: list[str] = []
        best = 0.0
        for backend in self.backends:
            until = backend.clock() + (1.0 if self.device.is_cpu else 0.5)
            for size in sizes:
                try:
                    launch = backend.matmul(self.device, dtype, size)
                except (RooflineUsageError, MemoryError) as error:
                    refusals.append(str(error) or f"{backend.name}: out of memory at {size} x {size}")
                    break
                flops = 2.0 * size**3
                product = Kernel(
                    name="matmul",
                    pattern="read",
                    bytes_per_launch=flops,
                    working_set_bytes=0.0,
                    launch=launch,
                )
                winner = compete([enter(backend, product, self.device)], rounds=5, until_s=until)
                best = max(best, winner.best_bytes_per_s if winner else 0.0)
                # The next size takes eight times as long, warm-up and window.
                if best and backend.clock() + 3 * 8 * flops / best > until:
                    break
        if not best:
            reasons = "; ".join(dict.fromkeys(refusals)) or "no backend multiplies matrices there"
            raise RooflineUsageError(f"no matmul peak of {self.device.id} for {dtype}: {reasons}")
        return best

    def link_bytes_per_s(self) -> float:
        """Best rate from host to device, bytes/s."""
        if self.device.is_cpu or self.device.is_unified_memory:
            raise RooflineUsageError(
                f"{self.device.id} has no link: host and device share one memory, so nothing can be offloaded over it"
            )
        if self.link is None:
            entrants = [
                enter(backend, kernel, self.device)
                for backend in self.backends
                if isinstance(backend, LinkBackend)
                for kernel in backend.link_kernels(self.device, 2**26)
            ]
            winner = compete(entrants, rounds=5)
            if winner is None:
                names = ", ".join(backend.name for backend in self.backends)
                raise RooflineUsageError(f"the link of {self.device.id} cannot be measured by: {names}")
            self.link = winner.best_bytes_per_s
        return self.link
