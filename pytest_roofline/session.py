"""One test session: its backends and devices, each device's probe (made once), its limit, and its lock."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pytest_roofline.amounts import as_traffic
from pytest_roofline.backends import Backends
from pytest_roofline.checks.evidence import DRIVER_SLACK, MEASURED_SLACK, SHEET_SLACK, Limit
from pytest_roofline.checks.identity import AGREEMENT
from pytest_roofline.device import Device
from pytest_roofline.errors import DeviceUnavailable, InconclusiveMeasurement, RooflineUsageError
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.protocol import Backend
from pytest_roofline.settings import matches
from pytest_roofline.shortage import NO_THREAD, shortage, shortage_of_threads
from pytest_roofline.traffic import Traffic
from pytest_roofline.turns import Turn, Turns
from pytest_roofline.turnstile import Turnstile
from pytest_roofline.units import format_bytes_per_s

if TYPE_CHECKING:
    from pytest_roofline.calibration import Calibrated
    from pytest_roofline.probe import Probe
    from pytest_roofline.probe_record import ProbeRecords


class Session:
    """What measurements of one process share. Nothing is measured or imported before it is asked for.

    `turnstile` holds devices against other processes. `run_id`: the same in all workers of one test run, which then
    share the probe of a device; None where there are no others. `onlooker` is told what is being measured.
    `count(model, batch, context)` is asked first for the traffic of a model: a Traffic, bytes per pass, or None.
    """

    def __init__(
        self,
        *,
        added_backends: Iterable[Backend] = (),
        specs_paths: Sequence[str] = (),
        on_probe: Callable[[Probe], None] | None = None,
        count: Callable[[Any, int | None, int | None], Any] | None = None,
        turnstile: Turnstile | None = None,
        run_id: str | None = None,
        onlooker: Onlooker = NOBODY,
    ) -> None:
        self.backends = Backends(added_backends, specs_paths=specs_paths)
        self._on_probe = on_probe
        self._count = count
        self._probes: dict[str, Probe] = {}
        self._counters: dict[str, Calibrated | None] = {}
        self._found: dict[str, Device] = {}
        self._turnstile = turnstile or Turnstile()
        self._turns = Turns(wait_s=self._turnstile.wait_s)
        self._run_id = run_id
        self.onlooker = onlooker

    def told_of(self, model: Any, *, batch: int | None, context: int | None) -> Traffic | None:
        """What somebody else says of a pass of this model; None where nobody does, and for what is traffic already.

        Raises RooflineUsageError for an answer that is none.
        """
        if self._count is None or as_traffic(model) is not None:
            return None
        answer = self._count(model, batch, context)
        told = as_traffic(answer, batch=batch, context=context)
        if told is None and answer is not None:
            raise RooflineUsageError(
                f"pytest_roofline_traffic returned a {type(answer).__name__} for a {type(model).__name__}; it must "
                "return a Traffic, bytes per pass, or None"
            )
        return told

    # -- devices ------------------------------------------------------------------------------------------------

    def devices(self) -> tuple[Device, ...]:
        """Every device that something loaded can measure on, accelerators first; one entry per device id."""
        found: dict[str, Device] = {}
        for backend in self.backends.loaded():
            for device in backend.devices():
                found.setdefault(device.id, device)
        return tuple(sorted(found.values(), key=lambda device: device.is_cpu))

    def find_device(self, wanted: str | None = None) -> Device:
        """The device that was asked for by id, kind or name pattern; by default the first accelerator, else the CPU.

        Raises DeviceUnavailable, which lists the devices that are here.
        """
        devices = self.devices()
        if not any(not device.is_cpu for device in devices) and (wanted is None or matches_no_cpu(wanted)):
            self._import_torch_for_a_gpu(wanted)
            devices = self.devices()
        for device in devices:
            if wanted is None or matches(wanted, device):
                self._found[device.id] = device
                return device
        here = ", ".join(f"{device.id} ({device.name})" for device in devices)
        raise DeviceUnavailable(f"no device here matches {wanted!r}; here are: {here}")

    def lost_devices(self) -> tuple[Device, ...]:
        """Devices that were found earlier in this session and are not here any more."""
        here = {device.id for device in self.devices()}
        return tuple(device for name, device in self._found.items() if name not in here)

    def _import_torch_for_a_gpu(self, wanted: str | None) -> None:
        """No framework has a device: let torch look, where it is installed and the driver says there is a GPU."""
        if importlib.util.find_spec("torch") is None:
            return
        has_gpu = os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/kfd")
        if has_gpu or wanted is not None:
            __import__("torch")

    def backends_of(self, device: Device) -> tuple[Backend, ...]:
        """Every backend that has this device: their kernels compete in its probe."""
        return tuple(
            backend
            for backend in self.backends.loaded()
            if any(candidate.id == device.id for candidate in backend.devices())
        )

    def backend_of(self, device: Device) -> Backend:
        """The backend that drives a device by default."""
        for backend in self.backends_of(device):
            if backend.name == device.backend:
                return backend
        raise DeviceUnavailable(f"{device.id} was driven by {device.backend}, which is not loaded any more")

    # -- figures of a device ------------------------------------------------------------------------------------

    def probe(self, device: Device) -> Probe:
        """The device's probe, measured on first use by one worker of the run, and remembered for the session."""
        key = device.key
        if key not in self._probes:
            with self.lock(device):
                if key in self._probes:  # by another thread, which this one has waited for
                    return self._probes[key]
                probe = self._probe_of_run(device)
                self._probes[key] = probe
            if self._on_probe is not None:
                self._on_probe(probe)
        return self._probes[key]

    def probes(self) -> tuple[Probe, ...]:
        """Every probe that was made or read so far."""
        return tuple(self._probes.values())

    def _probe_of_run(self, device: Device) -> Probe:
        """What another worker of this run has measured, else our own measurement, left for the others."""
        from pytest_roofline.probe import probe_device

        backends = self.backends_of(device)
        records = self._records()
        if records is not None and (found := records.read(device, backends)) is not None:
            return found
        try:
            probe = probe_device(device, backends, onlooker=self.onlooker)
        except MemoryError as error:
            reason = str(error) or "out of memory"
            raise InconclusiveMeasurement(
                shortage(device, backends, largest_bytes=0.0, knee_bytes=0.0, reasons=[reason])
            ) from error
        except RuntimeError as error:
            if NO_THREAD not in str(error):
                raise
            raise InconclusiveMeasurement(shortage_of_threads(device)) from error
        if records is not None:
            records.write(probe, backends)
        return probe

    def _records(self) -> ProbeRecords | None:
        if self._run_id is None:
            return None
        from pytest_roofline.probe_record import ProbeRecords

        try:
            return ProbeRecords(folder=self._turnstile.folder(), run_id=self._run_id)
        except OSError:
            return None

    def limit(self, device: Device) -> Limit:
        """The largest credible bandwidth: bus width x clock, else the datasheet, else the best of all probes.

        A sheet that the probe itself exceeds is wrong or of another card: then the larger figure counts.
        """
        probe = self.probe(device)
        best = probe.best_bytes_per_s
        sheet: Limit | None = None
        if device.driver_bandwidth_bytes_per_s is not None:
            driver_rate = device.driver_bandwidth_bytes_per_s
            sheet = Limit(
                bytes_per_s=driver_rate,
                slack=DRIVER_SLACK,
                source=f"the driver's bus width x memory clock ({format_bytes_per_s(driver_rate)})",
            )
            if _is_named_faster(device, driver_rate):
                sheet = None
        if sheet is None and device.spec is not None and not device.is_overclocked:
            sheet = Limit(
                bytes_per_s=device.spec.bandwidth_bytes_per_s,
                slack=SHEET_SLACK,
                source=f"datasheet of {device.spec.name} ({format_bytes_per_s(device.spec.bandwidth_bytes_per_s)})",
            )
        if sheet is not None and best <= sheet.with_slack_bytes_per_s:
            return sheet
        exceeded = f"; the probe exceeds {sheet.source}, which is therefore not trusted" if sheet else ""
        return Limit(
            bytes_per_s=best,
            slack=MEASURED_SLACK,
            source=f"the best of all probes ({format_bytes_per_s(best)}), no datasheet is known{exceeded}"
            if sheet is None
            else f"the best of all probes ({format_bytes_per_s(best)}){exceeded}",
            is_measured=True,
        )

    def counter(self, device: Device) -> Calibrated | None:
        """The device's own count of its memory traffic, calibrated on first use; None where it does not hold."""
        key = device.key
        if key not in self._counters:
            from pytest_roofline.calibration import calibrate

            probe = self.probe(device)
            with self.lock(device):
                found = (calibrate(device, backend, probe) for backend in self.backends_of(device))
                self._counters[key] = next((counter for counter in found if counter is not None), None)
        return self._counters[key]

    # -- one judge per device -----------------------------------------------------------------------------------

    @contextmanager
    def lock(self, device: Device) -> Iterator[Turn]:
        """Hold the device against other threads, workers and processes; re-entrant within a thread.

        A device that exists in this process alone (a fake) needs no lock against others.
        """
        drivers = (backend for backend in self.backends.loaded() if backend.name == device.backend)
        is_private = any(getattr(backend, "is_private", False) for backend in drivers)
        with (
            self.onlooker.watching(),
            self._turns.take(device) as turn,
            nullcontext() if is_private else self._turnstile.hold(device),
        ):
            yield turn


def _is_named_faster(device: Device, driver_rate: float) -> bool:
    """Whether name and driver tell of different cards, and the data sheet's is the faster one: nobody is accused."""
    if device.spec is None or device.is_overclocked:
        return False
    return device.spec.bandwidth_bytes_per_s > AGREEMENT * driver_rate


def matches_no_cpu(wanted: str) -> bool:
    """Whether a device pattern asks for something that is not the CPU."""
    return not wanted.lower().startswith("cpu")
