"""What outlives a probe: its memory, and what is measured only when somebody asks.

The peak of a matrix product by dtype, and the links to the host and to other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import ref

from pytest_roofline.backends.arena import Arena, ArenaBackend
from pytest_roofline.contest import compete, enter
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.links import Links, measure_link, measure_links
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


class Meter:
    """Figures of a device that are measured when somebody asks, and then remembered; and a place for the arena."""

    def __init__(self, device: Device, backends: Sequence[Backend]) -> None:
        self.device = device
        self.backends = tuple(backends)
        self.peaks: dict[str, float] = {}
        self.link: float | None = None
        self.all_links: Links | None = None
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

    def measure_peaks_again(self) -> None:
        """Once more for every dtype that was measured; the faster of both times is kept."""
        for dtype, peak in self.peaks.items():
            self.peaks[dtype] = max(peak, self._measured_peak(dtype))

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
        if self.link is None:
            self.link = measure_link(self.device, self.backends)
        return self.link

    def links(self) -> Links:
        """Every path to and from the device."""
        if self.all_links is None:
            self.all_links = measure_links(self.device, self.backends)
        return self.all_links
