"""What is said where a probe finds too little memory: how much there is, who may have it, and how to get it back."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pytest_roofline.device import Device
from pytest_roofline.errors import one_line
from pytest_roofline.protocol import Backend
from pytest_roofline.units import format_bytes

NO_TIME = "no time for sets over"
NO_THREAD = "can't start new thread"
"""What Python says where the system allows none."""
KNEES_OF_A_PROBE = 4
"""Sets of fewer cache knees than this tell of the cache as much as of memory: nothing is judged by them."""


def shortage_of_threads(device: Device) -> str:
    """Why a processor cannot be probed where this process may start no thread: it takes one per core."""
    return (
        f"{device.id} cannot be probed: this process may start no more threads\n"
        "  likely: a limit on processes (ulimit -u; pids of the container, docker --pids-limit, podPidsLimit)\n"
        "  do: raise it, or run fewer workers in it"
    )


def shortage(
    device: Device, backends: Sequence[Backend], *, largest_bytes: float, knee_bytes: float, reasons: Sequence[str] = ()
) -> str:
    """Why the device cannot be probed now. `largest_bytes`: the largest set that could be read, 0 for none."""
    free = min(backend.free_memory_bytes(device) for backend in backends)
    of_all = f" of {format_bytes(device.memory_bytes)}" if device.memory_bytes else ""
    sets = f"sets of up to {format_bytes(largest_bytes)}" if largest_bytes else "no set"
    needed = f"{KNEES_OF_A_PROBE} cache knees are {format_bytes(KNEES_OF_A_PROBE * knee_bytes)}" if knee_bytes else ""
    missing = f"has too little free memory to be probed: {format_bytes(free)}{of_all} are free, room for {sets}"
    if any(reason.startswith(NO_TIME) for reason in reasons):
        missing = f"took too long to be probed: time for {sets}, {format_bytes(free)}{of_all} are free"
    lines = [f"{device.id} {missing}{', ' if needed else ''}{needed}"]
    lines += [f"  found: {one_line(reason)}" for reason in dict.fromkeys(reasons)]
    neighbours = [name for backend in backends for name in _neighbours(backend, device)]
    if neighbours:
        lines.append(f"  also on the device: {one_line(', '.join(dict.fromkeys(neighbours)))}")
    if _jax_preallocates(device):
        lines.append(
            "  likely: JAX, which this process has imported, takes three quarters of a GPU when it first uses it"
        )
    lines.append(
        "  do: free memory; where JAX has taken it, set XLA_PYTHON_CLIENT_PREALLOCATE=false before it is imported, or "
        "have the device probed first (the fixture roofline_probe, before JAX or an engine in another process takes it)"
    )
    return "\n".join(lines)


def _neighbours(backend: Backend, device: Device) -> Sequence[str]:
    try:
        return backend.conditions(device).neighbours
    except Exception:  # what a driver does not say is no reason to say less
        return ()


def _jax_preallocates(device: Device) -> bool:
    setting = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true").lower()
    return not device.is_cpu and "jax" in sys.modules and setting not in ("0", "false")
