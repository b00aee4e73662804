"""The probe of one pytest run, left on disk by the worker that measured it, for the other workers of that run.

A record is read only where everything that a rate depends on agrees: the run, the device and its driver, this probe's
version, the threads, and the frameworks whose kernels competed, with their versions. It never outlives its run:
bandwidth moves, so a new run measures again, and a run without workers writes none at all.

A record that is damaged, of somebody else, or cannot be written costs the record; the worker measures by itself then.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pytest_roofline
from pytest_roofline.device import PATTERNS, Device
from pytest_roofline.meter import Meter
from pytest_roofline.probe import PROBE_VERSION, Probe
from pytest_roofline.protocol import Backend
from pytest_roofline.sweep import SweepPoint
from pytest_roofline.turnstile import token_of
from pytest_roofline.whole_file import replace_whole

_LARGEST_BYTES = 2**20
_KEPT = 8
"""Records of one device that stay: of runs that go on beside each other. Older ones go when a new one is written."""
_RATES = (
    "read_bytes_per_s",
    "copy_bytes_per_s",
    "write_bytes_per_s",
    "triad_bytes_per_s",
    "best_bytes_per_s",
    "cache_bytes_per_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecords:
    """The records of one run, in a folder that its workers share."""

    folder: str
    run_id: str
    """The same in every worker of a run, another one in every run."""

    def read(self, device: Device, backends: Sequence[Backend]) -> Probe | None:
        """What another worker measured under the same circumstances; None where there is none that can be trusted."""
        key = self._key(device, backends)
        try:
            with open(self._path(device, key), "rb") as file:
                owner = os.fstat(file.fileno()).st_uid
                text = file.read(_LARGEST_BYTES + 1)
            if len(text) > _LARGEST_BYTES or (hasattr(os, "getuid") and owner != os.getuid()):
                return None
            found = json.loads(text)
            body = found["body"]
            if found["digest"] != _digest(body) or body["key"] != key:
                return None
            return _restored(body, device, backends)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write(self, probe: Probe, backends: Sequence[Backend]) -> None:
        """Leave the probe for the others, whole or not at all; where that cannot be, they measure by themselves."""
        key = self._key(probe.device, backends)
        body = {"key": key, "pid": os.getpid(), "probe": {**probe.to_dict(), "sweep": _sweep_of(probe)}}
        path = self._path(probe.device, key)
        with suppress(OSError, ValueError):
            text = json.dumps({"body": body, "digest": _digest(body)}, allow_nan=False)
            replace_whole(path, text.encode())
            self._forget_old_ones(probe.device, path)

    def _forget_old_ones(self, device: Device, own: str) -> None:
        """Our own stays however coarse the clock of the file system is."""
        paths = glob.glob(os.path.join(glob.escape(self.folder), f"{glob.escape(token_of(device))}.*.probe.json"))
        aged = []
        for path in paths:
            if path == own:
                continue
            with suppress(OSError):
                aged.append((os.stat(path).st_mtime, path))
        for _, path in sorted(aged)[: 1 - _KEPT]:
            with suppress(OSError):
                os.remove(path)

    def _path(self, device: Device, key: dict[str, Any]) -> str:
        return os.path.join(self.folder, f"{token_of(device)}.{_digest(key)[:16]}.probe.json")

    def _key(self, device: Device, backends: Sequence[Backend]) -> dict[str, Any]:
        """Everything that must agree, as builtin types."""
        return {
            "run": self.run_id,
            "device": token_of(device),
            "name": device.name,
            "driver": device.driver,
            "probe_version": PROBE_VERSION,
            "package": pytest_roofline.__version__,
            "cores": _cores() if device.is_cpu else None,
            "frameworks": [[backend.name, _version_of(backend), backend.threads(device)] for backend in backends],
        }


def _cores() -> list[int] | int | None:
    """The cores that this process may use: pinned elsewhere it may reach another rate."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _version_of(backend: Backend) -> str | None:
    """The framework's own version; the kernels of the bare CPU come with this package."""
    version = getattr(sys.modules.get(backend.name), "__version__", None)
    return None if version is None else str(version)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _sweep_of(probe: Probe) -> list[list[Any]]:
    return [[point.working_set_bytes, point.pattern, point.bytes_per_s, point.kernel] for point in probe.sweep]


def _restored(body: dict[str, Any], device: Device, backends: Sequence[Backend]) -> Probe:
    """The probe of a record, on this process's own device; ValueError and its like where a figure is none."""
    found = body["probe"]
    rates = {name: _positive(found[name]) for name in _RATES}
    doubts = tuple(str(doubt) for doubt in found["doubts"])
    is_trusted = found["is_trusted"] is True
    kernels = {str(pattern): str(name) for pattern, name in found["kernels"].items() if pattern in PATTERNS}
    points = [
        SweepPoint(working_set_bytes=_positive(size), pattern=pattern, bytes_per_s=_positive(rate), kernel=str(kernel))
        for size, pattern, rate, kernel in found["sweep"]
        if pattern in PATTERNS
    ]
    excess = _positive(found["excess"])
    if excess < 1 or not points or "read" not in kernels or (not is_trusted and not doubts):
        raise ValueError("an incomplete record of a probe")
    threads = found["threads"]
    return Probe(
        device=device,
        **rates,
        cache_knee_bytes=0.0 if found["cache_knee_bytes"] == 0 else _positive(found["cache_knee_bytes"]),
        sweep=tuple(points),
        kernels=kernels,  # type: ignore[arg-type]
        threads=None if threads is None else int(threads),
        elapsed_s=_positive(found["elapsed_s"]),
        is_trusted=is_trusted,
        notes=(*(str(note) for note in found["notes"]), f"measured by another worker of this run (pid {body['pid']})"),
        doubts=doubts,
        excess=excess,
        meter=Meter(device, backends),
    )


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
        raise ValueError(f"{value!r} is no figure of a probe")
    return float(value)
