"""Reads the conditions of a device before, during and after a measurement, and says what held for each part of it.

*Between the blocks* a reading is taken where the measurement asks for one, outside of what is timed. *While blocks run*
a device that works beside the host is read by a thread, twice a second: its clocks fall back soon after its work ends.
A processor is not: the thread would take a core from the step, and the kernel's counters tell what was in between. Nor
is a device on a virtual clock.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

from pytest_roofline.conditions import Conditions, Reading, Stretch, stretch_of
from pytest_roofline.device import Device
from pytest_roofline.protocol import Backend

PERIOD_S = 0.5
_MOST_READINGS = 2000
"""A quarter of an hour of them: what a measurement that hangs may gather at most."""
_STOP_S = 0.2
"""How long to wait for a reading that is under way when the watch ends; it is a daemon and ends by itself."""


class ConditionWatch:
    """Watches from entry to exit; the thread, if there is one, is stopped on every path.

    ``watch.stretch()`` is what held for the whole, ``watch.since_last()`` since it was asked last (or since entry).
    """

    def __init__(self, backend: Backend, device: Device, *, period_s: float = PERIOD_S) -> None:
        self._backend = backend
        self._device = device
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._during: list[Reading] = []
        self._ends: list[Reading] = []

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Every reading so far, in order."""
        return tuple(sorted([*self._ends, *self._during], key=lambda reading: reading.at_s))

    def __enter__(self) -> ConditionWatch:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> ConditionWatch:
        """Take the first reading, and begin to sample where the device is read while it works."""
        self._ends.append(self._read())
        if not self._device.is_cpu and self._device.kind != "fake":
            thread = threading.Thread(target=self._sample, name="roofline-conditions", daemon=True)
            with suppress(RuntimeError):  # the system allows no further thread: the readings at the ends are left
                thread.start()
                self._thread = thread
        return self

    def close(self) -> None:
        """Stop sampling and take the last reading; a second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
            self._thread = None
        self._ends.append(self._read())

    def since_last(self) -> Stretch:
        """Read now; what held since the reading before."""
        before, after = self._ends[-1], self._read()
        self._ends.append(after)
        return self._between(before, after)

    def stretch(self) -> Stretch:
        """What held from entry to the last reading."""
        return self._between(self._ends[0], self._ends[-1])

    def to_dict(self) -> dict[str, Any]:
        """Before, during and after, of builtin types."""
        return {
            "before": self._ends[0].conditions.to_dict(),
            "during": {**self.stretch().to_dict(), "readings": len(self.readings), **self._extremes()},
            "after": self._ends[-1].conditions.to_dict(),
        }

    def _extremes(self) -> dict[str, Any]:
        """The hottest, the most power, the most crowded that was seen."""
        seen = [reading.conditions for reading in self.readings]
        return {
            "highest_temperature_c": _highest([one.temperature_c for one in seen]),
            "highest_power_w": _highest([one.power_w for one in seen]),
            "highest_pressure_share": _highest([one.pressure_share for one in seen]),
            "highest_load_average": _highest([one.load_average for one in seen]),
        }

    def _between(self, before: Reading, after: Reading) -> Stretch:
        readings = [one.conditions for one in self.readings if before.at_s < one.at_s < after.at_s]
        return stretch_of(
            before.conditions,
            after.conditions,
            readings,
            elapsed_s=after.at_s - before.at_s,
            cores=self._device.compute_units if self._device.is_cpu else None,
            memory_clock_hz=self._device.memory_clock_hz,
        )

    def _read(self) -> Reading:
        try:
            conditions = self._backend.conditions(self._device)
        except Exception:  # a lost device, a backend of somebody else's: it costs this reading, never the run
            conditions = Conditions()
        return Reading(at_s=self._backend.clock(), conditions=conditions)

    def _sample(self) -> None:
        while not self._stop.wait(self._period_s) and len(self._during) < _MOST_READINGS:
            self._during.append(self._read())


def _highest(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
