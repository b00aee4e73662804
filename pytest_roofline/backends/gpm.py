"""NVIDIA's count of memory traffic, through NVML's GPM samples: Hopper and later, no special rights needed.

The driver gives the mean use of the memory between two samples, as a percentage of what the memory can move:
``bytes = percent / 100 * bus width * clock * time``. It renews its samples every tenth of a second, so the moment of
a sample is known to that only. Everything may be refused (an older card, an old driver or pynvml, a container
without the rights, a slice), or not answered at all: that is no counter or no reading, and no word about it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from contextlib import suppress
from time import sleep as _sleep
from typing import Any

from pytest_roofline.backends.nvml import Nvml
from pytest_roofline.protocol import CounterReading

# Values from nvml.h, where they never change.
_DRAM_BANDWIDTH_PERCENT = 10
_SUCCESS = 0

_REFRESH_S = 0.1
_SETTLE_S = 1.2 * _REFRESH_S
_STEP = 0.01
"""Of the peak. How fine the percentage is stands nowhere, so it is taken as if it came in whole percents."""


class GpmCounter:
    """Memory traffic of one card, or of one MIG instance of it; made by `open_gpm`."""

    source = "NVML GPM samples, use of the memory's bandwidth"
    refresh_s = _REFRESH_S

    def __init__(
        self,
        nvml: Nvml,
        card: Any,
        instance: int | None,
        *,
        peak_bytes_per_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Any] = _sleep,
    ) -> None:
        self._nvml = nvml
        self._card = card
        self._instance = instance
        self._peak = peak_bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self.step_bytes_per_s = _STEP * peak_bytes_per_s

    def settle(self) -> None:
        """Wait until the driver has renewed its samples."""
        self._sleep(_SETTLE_S)

    def read(self) -> CounterReading | None:
        """A sample of the driver; its buffer is freed with the reading."""
        return self._nvml.answer(self._read)

    def _read(self) -> CounterReading:
        library = self._nvml.library
        buffer = library.nvmlGpmSampleAlloc()
        held = _Sample(buffer)
        weakref.finalize(held, _free, library, buffer).atexit = False
        before_s = self._clock()
        if self._instance is None:
            library.nvmlGpmSampleGet(self._card, buffer)
        else:
            library.nvmlGpmMigSampleGet(self._card, self._instance, buffer)
        return CounterReading(before_s=before_s, after_s=self._clock(), held=held)

    def bytes_per_s(self, first: CounterReading, second: CounterReading) -> float | None:
        """Percent of the peak, times the peak."""
        percent = self._nvml.answer(lambda: self._percent(first, second))
        if percent is None or not math.isfinite(percent) or percent < 0:
            return None
        return percent / 100 * self._peak

    def _percent(self, first: CounterReading, second: CounterReading) -> float | None:
        library = self._nvml.library
        question = library.c_nvmlGpmMetricsGet_t()
        question.version = library.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = 1
        question.sample1, question.sample2 = first.held.buffer, second.held.buffer
        question.metrics[0].metricId = _DRAM_BANDWIDTH_PERCENT
        answer = library.nvmlGpmMetricsGet(question).metrics[0]
        return float(answer.value) if answer.nvmlReturn == _SUCCESS else None


class _Sample:
    """A buffer of the driver."""

    __slots__ = ("__weakref__", "buffer")

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


def _free(library: Any, buffer: Any) -> None:
    with suppress(Exception):  # in a finalizer, of a driver that may have gone
        library.nvmlGpmSampleFree(buffer)


def open_gpm(
    nvml: Nvml,
    uuid: str | None,
    pci_bus_id: str | None,
    *,
    peak_bytes_per_s: float | None,
    clock: Callable[[], float],
    sleep: Callable[[float], Any] = _sleep,
) -> GpmCounter | None:
    """The counter of a device; None where its peak is not known, or where driver, card or pynvml have none."""

    def find() -> tuple[Any, int | None] | None:
        place, library = nvml.place(uuid, pci_bus_id), nvml.library
        if place is None or not library.nvmlGpmQueryDeviceSupport(place[1]).isSupportedDevice:
            return None
        handle, card = place
        return card, None if handle is card else int(library.nvmlDeviceGetGpuInstanceId(handle))

    found = nvml.answer(find) if peak_bytes_per_s else None
    if found is None or not peak_bytes_per_s:
        return None
    card, instance = found
    return GpmCounter(nvml, card, instance, peak_bytes_per_s=peak_bytes_per_s, clock=clock, sleep=sleep)
