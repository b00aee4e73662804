"""Figures of another device: another card's sheet, sparse peaks, parents of slices, a host's clock (R36, R37, R64)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from corpus.recipe import Program, bogus, honest, undecidable
from corpus.scene import Scene
from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.device import Device, Spec

TIMES_THE_BYTES = 4.0
DTYPE = "bfloat16"


def sheeted(bandwidth: float, *, peak: float | None = None, driver: float | None = None) -> type[FakeBackend]:
    """A device whose data sheet says so many times its true figures; the driver tells nothing unless given."""

    class Sheeted(FakeBackend):
        def devices(self) -> tuple[Device, ...]:
            """As the fake's, with a sheet."""
            return tuple(self._with_sheet(device) for device in super().devices())

        def _with_sheet(self, device: Device) -> Device:
            hardware = self._hardware[device.index]
            rate = hardware.read_bytes_per_s
            spec = Spec(
                name="Fake Accelerator (another edition)",
                memory_bytes=hardware.memory_bytes,
                bandwidth_bytes_per_s=bandwidth * rate,
                dense_peak_flops_per_s={} if peak is None else {DTYPE: peak * hardware.peak(DTYPE)},
                source="a table of names",
            )
            told = None if driver is None else driver * rate
            return replace(device, spec=spec, driver_bandwidth_bytes_per_s=told)

    return Sheeted


class HostClock(FakeBackend):
    """A guest whose clocks all run at half speed, the private one too."""

    def clock(self) -> float:
        """Half of the time."""
        return super().clock() / 2


# -- R36: the row of another card -------------------------------------------------------------------------------------


def _audited(times: float) -> Program:
    def program(scene: Scene) -> None:
        with scene.audit(traffic=times * scene.weight_bytes) as audit:
            seconds = scene.timed()
            audit.claim(tokens=scene.passes, seconds=seconds)

    return program


def _decoded(scene: Scene) -> None:
    scene.decode()


FASTER, SLOWER = sheeted(3.0), sheeted(0.4)
ROWS = (
    honest("R36-slower-row", title="The row of a slower card was found by name", backend=SLOWER)(_decoded),
    honest("R36-slower-row-audited", title="The row of a slower card (audited)", backend=SLOWER)(_audited(1.0)),
    bogus(
        "R36-slower-row-exceeded",
        "faster-than-limit",
        title="A slower card's row, four times the bytes declared",
        backend=SLOWER,
    )(_audited(TIMES_THE_BYTES)),
    honest("R36-faster-row", title="The row of a faster card was found by name", backend=FASTER)(_decoded),
    undecidable(
        "R36-faster-row-exceeded",
        "ceiling-unsure",
        title="A faster card's row lets twice the bytes pass it",
        backend=FASTER,
    )(_audited(2.0)),
    honest(
        "R36-driver-knows-better",
        title="A laptop part under the desktop's name, whose driver knows its bus",
        backend=sheeted(2.0, driver=1.1),
    )(_decoded),
    honest(
        "R36-driver-is-wrong", title="A driver that halves its bus, and the right row", backend=sheeted(1.1, driver=0.5)
    )(_decoded),
)

# -- R37: peaks with sparsity -----------------------------------------------------------------------------------------


def _product(counted: float, *, efficiency: float = 0.95) -> Program:
    """A dense product of which so many times its FLOPs are declared."""

    def program(scene: Scene) -> None:
        size = 8192 if scene.is_large else 4096
        flops, part = 2.0 * size**3, 2.0 * size**2

        def product() -> Any:
            return scene.backend.launch(
                read_bytes=2 * part, write_bytes=part, flops=flops, dtype=DTYPE, efficiency=efficiency
            )

        scene.roofline.kernel(product, bytes_read=2 * part, bytes_written=part, flops=counted * flops, dtype=DTYPE)

    return program


DENSE, HEADLINE = sheeted(1.1, peak=1.1), sheeted(1.1, peak=2.2)
PEAKS = (
    honest("R37-dense", title="A dense product against the dense peak", backend=DENSE)(_product(1.0)),
    honest("R37-headline", title="A dense product where the sheet gives the sparse peak", backend=HEADLINE)(
        _product(1.0)
    ),
    bogus(
        "R37-zeros-counted", "faster-than-limit", title="The zeros of a sparse product counted as FLOPs", backend=DENSE
    )(_product(2.0)),
    undecidable(
        "R37-zeros-counted-against-the-headline",
        "ceiling-unsure",
        title="Zeros counted, against the sparse peak: both wrong in the same direction",
        backend=HEADLINE,
    )(_product(2.0)),
    honest(
        "K09",
        "ceiling-unsure",
        title="A device that issues twice what its sheet knows",
        backend=sheeted(1.1, peak=0.75),
    )(_product(1.0)),
    honest("K09-far", "ceiling-unsure", title="A sheet that knows half of the peak", backend=sheeted(1.1, peak=0.5))(
        _product(1.0)
    ),
)

# -- R64: capacities of something else --------------------------------------------------------------------------------


class WholeSocket(FakeBackend):
    """A driver that reports the last-level cache of the whole socket."""

    def devices(self) -> tuple[Device, ...]:
        """Twelve times the cache there is."""
        return tuple(replace(device, last_level_cache_bytes=480e6) for device in super().devices())


PARENT = sheeted(2.1)
CAPACITIES = (
    honest(
        "R64-parent-card", "ceiling-unsure", title="A slice of a card, and the figures of the whole", backend=PARENT
    )(_decoded),
    undecidable(
        "R64-parent-card-exceeded",
        "ceiling-unsure",
        title="Twice the bytes on a slice, inside what the whole card could move",
        backend=PARENT,
    )(_audited(2.0)),
    honest(
        "R64-socket-wide-cache", "cache-resident", title="A cache reported twelve times too large", backend=WholeSocket
    )(_decoded),
    undecidable(
        "R64-host-clock", title="All clocks of a guest run at half speed: no clock inside can tell", backend=HostClock
    )(_decoded),
)


# -- K02: what lies there and is not read -----------------------------------------------------------------------------


@honest("K02", sheet_bytes_per_s=6e12)
def resident_and_not_read(scene: Scene) -> None:
    """Far from the advertised figure, beside gigabytes that are resident and never read."""
    resident = scene.backend.buffer(scene.weight_bytes / 2, role="weights")
    scene.decode()
    assert not resident.is_freed
