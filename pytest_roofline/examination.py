"""Looks a runner over: the device, its conditions, short probes over some seconds, the environment.

Every source may be missing, and costs what it would have told; what is made of the facts is `fitness`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from pytest_roofline.backends import cpu_facts
from pytest_roofline.backends.cpu_conditions import cpu_conditions, huge_pages, is_virtual
from pytest_roofline.condition_watch import ConditionWatch
from pytest_roofline.conditions import Conditions
from pytest_roofline.device import Device
from pytest_roofline.errors import DeviceUnavailable, InconclusiveMeasurement, MeasurementError
from pytest_roofline.fitness.facts import RunnerFacts, ShortProbes
from pytest_roofline.fitness.software import KEPT
from pytest_roofline.protocol import Backend
from pytest_roofline.ruler import Ruler
from pytest_roofline.session import Session

PROBES = 24
PAUSE_S = 0.12
"""Two dozen probes of some 30 ms each and the pauses between them take four seconds: most bursts are shorter."""
_CONTAINER_SIGNS = (".dockerenv", "run/.containerenv")
_CONTAINER_WORDS = ("docker", "kubepods", "containerd", "libpod", "lxc")


def examine(
    session: Session,
    wanted: str | None = None,
    *,
    is_quick: bool = False,
    environ: Mapping[str, str] = os.environ,
    root: Path = cpu_facts.ROOT,
) -> RunnerFacts:
    """Everything that can be found out about a device (the first accelerator, else the CPU). Quick measures nothing.

    Raises RooflineUsageError for a device that cannot be meant; one that is not here is a fact.
    """
    facts = _surroundings(environ, root, wanted, is_quick=is_quick)
    try:
        device = session.find_device(wanted)
    except DeviceUnavailable as error:
        return replace(facts, problem=str(error))
    backend = session.backend_of(device)
    conditions = _conditions(backend, device)
    host = cpu_conditions(conditions.threads or 0, root)
    facts = replace(
        facts,
        device=device,
        conditions=_with_host(conditions, host),
        cache_bytes=device.last_level_cache_bytes,
        free_memory_bytes=backend.free_memory_bytes(device),
        sheet_bytes_per_s=_printed(device),
        is_debug_torch=_is_debug_torch(),
        **_threads(environ, host),
    )
    return facts if is_quick else _probed(facts, session, device, backend)


def _probed(facts: RunnerFacts, session: Session, device: Device, backend: Backend) -> RunnerFacts:
    """With the session's probe, and short ones over some seconds."""
    try:
        probe = session.probe(device)
        with (
            session.lock(device),
            Ruler(device, session.backends_of(device), probe, written_share=0.0) as ruler,
            ConditionWatch(backend, device) as watch,
        ):
            found = _short_probes(ruler, backend)
    except (MeasurementError, InconclusiveMeasurement, MemoryError) as error:
        return replace(facts, probe_problem=str(error).split("\n", 1)[0] or type(error).__name__)
    return replace(
        facts,
        conditions=_with_host(watch.readings[-1].conditions, facts.conditions),
        held=watch.stretch(),
        short_probes=found,
        best_bytes_per_s=probe.best_bytes_per_s,
        cache_bytes=probe.cache_knee_bytes,
        is_knee_measured=True,
        probe_doubts=probe.doubts,
    )


def _short_probes(ruler: Ruler, backend: Backend) -> ShortProbes:
    """One short probe after the other, with pauses; a device on a virtual clock lets its own time pass."""
    pause: Callable[[float], Any] = getattr(backend, "host", None) or Event().wait
    start = backend.clock()
    rates = []
    for number in range(PROBES):
        if number:
            pause(PAUSE_S)
        rates.append(ruler.measure())
    return ShortProbes(rates_bytes_per_s=tuple(rates), elapsed_s=backend.clock() - start)


def _surroundings(environ: Mapping[str, str], root: Path, wanted: str | None, *, is_quick: bool) -> RunnerFacts:
    torch: Any = sys.modules.get("torch")
    return RunnerFacts(
        wanted=wanted,
        huge_pages=huge_pages(root),
        is_virtual=is_virtual(root),
        is_container=_is_container(root),
        has_nvidia_driver=(root / "proc/driver/nvidia/version").exists(),
        environment={name: environ[name] for name in KEPT if name in environ},
        is_debug_python=hasattr(sys, "gettotalrefcount"),
        is_watching_gradients=bool(torch is not None and torch.is_anomaly_enabled()),
        is_quick=is_quick,
    )


def _conditions(backend: Backend, device: Device) -> Conditions:
    try:
        return backend.conditions(device)
    except Exception:  # a driver that went away, a backend of somebody else's: its fields stay unknown
        return Conditions()


_OF_THE_HOST = (
    "load_average",
    "usable_cores",
    "quota_cores",
    "memory_limit_bytes",
    "swap_used_bytes",
    "pressure_share",
)


def _with_host(conditions: Conditions, host: Conditions) -> Conditions:
    """What the host tells, where the device's own reading has nothing of it: its steps are launched from there."""
    missing = {name: getattr(host, name) for name in _OF_THE_HOST if getattr(conditions, name) is None}
    return replace(conditions, **missing)


def _threads(environ: Mapping[str, str], host: Conditions) -> dict[str, Any]:
    """How many threads a framework's step will use, and who says so."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        first = environ.get(name, "").split(",")[0].strip()
        if first.isdigit() and int(first) > 0:
            return {"step_threads": int(first), "threads_source": f"{name}={first}"}
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        return {"step_threads": torch.get_num_threads(), "threads_source": "torch.get_num_threads()"}
    return {"step_threads": host.usable_cores, "threads_source": "one per core, as frameworks do by default"}


def _printed(device: Device) -> float | None:
    """Bus width x clock, else the data sheet."""
    sheet = device.spec.bandwidth_bytes_per_s if device.spec is not None else None
    return device.driver_bandwidth_bytes_per_s or sheet


def _is_debug_torch() -> bool | None:
    """Whether torch was built with its checks, by its version file: importing it would take seconds."""
    try:
        found = importlib.util.find_spec("torch")
        if found is None or found.origin is None:
            return None
        text = (Path(found.origin).parent / "version.py").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, ImportError):
        return None
    values = [line.partition("=")[2].strip() for line in text.splitlines() if line.startswith("debug")]
    return values[-1] == "True" if values else None


def _is_container(root: Path) -> bool:
    if any((root / sign).exists() for sign in _CONTAINER_SIGNS):
        return True
    groups = cpu_facts.text_of(root / "proc/self/cgroup") or ""
    return any(word in groups for word in _CONTAINER_WORDS)
