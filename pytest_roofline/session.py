"""One test session: its backends and devices, each device's probe (made once), its limit, and its lock."""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_roofline.backends import Backends
from pytest_roofline.checks.evidence import DRIVER_SLACK, MEASURED_SLACK, SHEET_SLACK, Limit
from pytest_roofline.checks.identity import AGREEMENT
from pytest_roofline.device import Device
from pytest_roofline.errors import DeviceUnavailable, MeasurementError
from pytest_roofline.protocol import Backend
from pytest_roofline.settings import matches
from pytest_roofline.units import format_bytes_per_s

if TYPE_CHECKING:
    from pytest_roofline.probe import Probe


class Session:
    """What measurements of one process share. Nothing is measured or imported before it is asked for."""

    def __init__(
        self,
        *,
        added_backends: Iterable[Backend] = (),
        specs_paths: Sequence[str] = (),
        on_probe: Callable[[Probe], None] | None = None,
        lock_folder: str | None = None,
    ) -> None:
        self.backends = Backends(added_backends, specs_paths=specs_paths)
        self._on_probe = on_probe
        self._probes: dict[str, Probe] = {}
        self._held: set[str] = set()
        self._lock_folder = lock_folder

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
        if wanted is None:
            return devices[0]
        for device in devices:
            if matches(wanted, device):
                return device
        here = ", ".join(f"{device.id} ({device.name})" for device in devices)
        raise DeviceUnavailable(f"no device here matches {wanted!r}; here are: {here}")

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
        """The device's probe, measured on first use and remembered for the session."""
        key = device.key
        if key not in self._probes:
            from pytest_roofline.probe import probe_device

            with self.lock(device):
                try:
                    probe = probe_device(device, self.backends_of(device))
                except MemoryError as error:
                    raise MeasurementError(
                        f"the probe of {device.id} found no memory for its buffers ({error}); free some, or use "
                        "another device with --roofline-device"
                    ) from error
            self._probes[key] = probe
            if self._on_probe is not None:
                self._on_probe(probe)
        return self._probes[key]

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

    # -- one judge per device -----------------------------------------------------------------------------------

    @contextmanager
    def lock(self, device: Device) -> Iterator[None]:
        """Hold the device against other workers and processes; re-entrant within this session.

        The lock is a file lock of the operating system, so a holder that dies frees it. Where no lock file can be
        made, nothing is held.
        """
        key = re.sub(r"[^A-Za-z0-9_.-]+", "-", device.key)
        if key in self._held or device.kind == "fake":
            yield
            return
        from filelock import FileLock

        folder = self._lock_folder or os.path.join(tempfile.gettempdir(), f"pytest-roofline-{_user()}")
        try:
            os.makedirs(folder, exist_ok=True)
            lock = FileLock(os.path.join(folder, f"{key}.lock"))
            lock.acquire()
        except OSError:
            yield  # nowhere to put a lock file: measuring alone is then up to whoever starts the tests
            return
        self._held.add(key)
        try:
            yield
        finally:
            self._held.discard(key)
            lock.release()


def _is_named_faster(device: Device, driver_rate: float) -> bool:
    """Whether name and driver tell of different cards, and the data sheet's is the faster one: nobody is accused."""
    if device.spec is None or device.is_overclocked:
        return False
    return device.spec.bandwidth_bytes_per_s > AGREEMENT * driver_rate


def matches_no_cpu(wanted: str) -> bool:
    """Whether a device pattern asks for something that is not the CPU."""
    return not wanted.lower().startswith("cpu")


def _user() -> Any:
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
