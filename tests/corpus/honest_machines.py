"""Honest programs on machines that look wrong: odd mixes, missing sheets, boost, contention, heat, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from corpus.recipe import Recipe, honest
from corpus.scene import Scene
from pytest_roofline.backends.fake import (
    FakeBackend,
    Neighbour,
    Throttle,
    bursts,
    drift,
    gaussian,
    heavy_tail,
    step_change,
)
from pytest_roofline.device import Device
from pytest_roofline.protocol import Conditions


class Unified(FakeBackend):
    """A device with unified memory, whose driver knows neither clocks nor a bandwidth."""

    def devices(self) -> tuple[Device, ...]:
        """As the fake's, with what the driver tells left out."""
        return tuple(
            replace(device, is_unified_memory=True, driver_bandwidth_bytes_per_s=None, last_level_cache_bytes=None)
            for device in super().devices()
        )

    def conditions(self, device: Device) -> Conditions:
        """Nothing."""
        return Conditions()


def _decode(scene: Scene) -> None:
    scene.decode()


def _audit(scene: Scene) -> None:
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


def _both(id_: str, title: str, *checks: str, **arguments: Any) -> tuple[Recipe, Recipe]:
    return (
        honest(id_, *checks, title=title, **arguments)(_decode),
        honest(f"{id_}-audited", *checks, title=f"{title} (audited)", **arguments)(_audit),
    )


def _faster_later(start_s: float, _random: Random) -> float:
    return 0.94 if start_s > 1.0 else 1.0


BEST: dict[str, Any] = {"model": {"efficiency": 0.99}}
QUIET: dict[str, Callable[..., Any]] = {"noise": gaussian(0.003)}

K01 = _both("K01", "Read-only passes above what copy and triad reach", copy_share=0.7, triad_share=0.6, **BEST)
K01_STORES = _both("K15", "Streaming stores faster than reads", write_share=1.08, copy_share=1.05, **BEST)
K06 = _both("K06", "No sheet of this device exists", sheet_bytes_per_s=None, **BEST)
K07 = _both("K07", "The sheet is of a slower card of the same name", "ceiling-unsure", sheet_bytes_per_s=0.2e12, **BEST)
K13 = _both("K13", "Jitter of 3 % in every launch", noise=gaussian(0.03), **BEST)
K14 = _both("K14", "Memory that is 6 % faster than when it was probed", noise=_faster_later, **BEST)
K26 = _both("K26", "Unified memory, whose driver knows nothing", backend=Unified, **BEST)
K27 = _both("K27", "A sheet twice as fast as anybody has measured", "ceiling-unsure", sheet_bytes_per_s=8e12)


@honest("K08")
def boost_clock(scene: Scene) -> None:
    """A product at the very peak, above what a sheet would say."""
    size = 8192 if scene.is_large else 4096
    flops, part = 2.0 * size**3, 2.0 * size**2

    def product() -> Any:
        return scene.backend.launch(read_bytes=2 * part, write_bytes=part, flops=flops, dtype="bfloat16")

    scene.roofline.kernel(product, bytes_read=2 * part, bytes_written=part, flops=flops, dtype="bfloat16")


# Weather may take the verdict away; it neither accuses nor misses a budget that the program meets.
UNSURE = (
    "drifted",
    "too-few-samples",
    "throttled",
    "device-shared",
    "ceiling-unsure",
    "cache-resident",
)

R62 = _both("R62-heat", "Bandwidth that halves within a minute", *UNSURE, noise=drift(60.0, 2.0))
R62_RAMP = _both("R62-tail", "Rare launches take up to fifty times as long", *UNSURE, noise=heavy_tail())
R62_STEP = _both("R62-step", "The machine slows down by a quarter half way", *UNSURE, noise=step_change())
R62_THROTTLE = _both(
    "R62-throttle",
    "The device holds its clocks down for a while and says so",
    *UNSURE,
    throttle=[Throttle(start_s=0.5, end_s=1.5, slowdown=1.5)],
)
R62_SILENT = _both(
    "R62-silent",
    "The same without saying so",
    *UNSURE,
    throttle=[Throttle(start_s=0.5, end_s=1.5, slowdown=1.5, is_visible=False)],
)
R63 = _both("R63-bursts", "Something else takes the memory ten times a second", *UNSURE, noise=bursts(0.1, 0.02, 2.0))
R63_NEIGHBOUR = _both(
    "R63-neighbour",
    "Another process takes half of the device all the time",
    *UNSURE,
    neighbours=[Neighbour(start_s=0.0, end_s=1e4, share=0.5)],
)
R63_COMES = _both(
    "R63-comes-and-goes",
    "Another process comes and goes unseen",
    *UNSURE,
    neighbours=[
        Neighbour(start_s=start / 5, end_s=start / 5 + 0.1, share=0.4, is_visible=False) for start in range(100)
    ],
)
