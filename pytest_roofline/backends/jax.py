"""JAX: asynchronous on every platform, the CPU included.

Nothing here imports JAX before somebody asks for something that needs it, and `has_context` never creates a
client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pytest_roofline.backends.jax_compile import JaxCompileLog
from pytest_roofline.backends.jax_dispatches import JaxDispatches
from pytest_roofline.backends.private_clock import clock as _clock
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import DeviceUnavailable, MissingDependency, RooflineUsageError
from pytest_roofline.protocol import Backend, Conditions, Forced, Kernel, Marker, Trace, TraceRequest
from pytest_roofline.units import format_bytes
from pytest_roofline.witness import Witness

_UNKNOWN_FREE_BYTES = float(2**30)
"""What buffers may take on an accelerator that does not tell: one GiB."""

_DEPTH = 4
"""How deep plain objects in an output are searched for arrays; registered pytrees have no such limit."""


_HOLDS_NO_OUTPUT = (type, ModuleType, FunctionType, MethodType, str, bytes, int, float)


class JaxBackend:
    """Every device of the JAX clients of this process.

    The CPU is one device, `cpu`, however many host devices were forced upon its client: they share its
    memory. Drain and mark cover each of them. Both stand behind what the *calling thread* has dispatched, and behind
    what others were seen to dispatch: see `jax_queue`.
    """

    name = "jax"
    is_lazy = False
    is_marker_complete = True

    # -- identify --

    def devices(self) -> Sequence[Device]:
        """The devices of JAX's default client; this creates the client."""
        found: list[Device] = []
        for device in self._jax.local_devices():
            if device.platform != "cpu":
                found.append(_accelerator(device))
            elif not found:
                found.append(replace(self._cpu.devices()[0], backend=self.name))
        return found

    def clock(self) -> float:
        """Seconds on the private monotonic clock."""
        return _clock()

    def threads(self, device: Device) -> int | None:
        """None: XLA's pool takes every core of the process's affinity, and it is no setting."""
        return None

    def free_memory_bytes(self, device: Device) -> float:
        """What JAX's own allocator has left: with preallocation of its pool, not of the card."""
        if device.is_cpu:
            return float(self._cpu.free_memory_bytes(device))
        stats = self._find(device).memory_stats() or {}
        limit, used = stats.get("bytes_limit"), stats.get("bytes_in_use", 0)
        return _UNKNOWN_FREE_BYTES if limit is None else float(max(0, limit - used))

    def conditions(self, device: Device) -> Conditions:
        """The CPU's conditions; of an accelerator JAX tells nothing."""
        if device.is_cpu:
            return self._cpu.conditions(device)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        return Conditions(load_average=load)

    def device_of(self, obj: Any) -> str | None:
        """Id of the device of the first JAX array in the object; None when it holds none."""
        if "jax" not in sys.modules:
            return None
        for array in self._arrays(obj):
            if self._is_tracer(array):
                continue
            device = min(array.devices(), key=_number)
            return "cpu" if device.platform == "cpu" else _accelerator(device).id
        return None

    # -- buffers --

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """See `jax_kernels.kernels`; MemoryError when the buffers exceed what is free."""
        target = self._find(device)
        free_bytes = self.free_memory_bytes(device)
        if working_set_bytes > free_bytes:
            asked, free = format_bytes(working_set_bytes), format_bytes(free_bytes)
            raise MemoryError(f"{asked} of buffers, {free} free on {device.id}")
        from pytest_roofline.backends import jax_kernels

        return jax_kernels.kernels(target, pattern, working_set_bytes)

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """See `jax_kernels.matmul`."""
        target = self._find(device)
        from pytest_roofline.backends import jax_kernels

        return jax_kernels.matmul(target, dtype, size)

    # -- the queue --

    def has_context(self) -> bool:
        """Whether this process imported JAX and already has a client."""
        if "jax" not in sys.modules:
            return False
        from pytest_roofline.backends import jax_queue

        return bool(jax_queue.initialised_platforms())

    def prepare(self) -> None:
        """Compile what drain and mark dispatch, and import the trace; nothing where no client exists (none is made)."""
        if self.has_context():
            from pytest_roofline.backends import jax_trace  # noqa: F401

            self._queues.prepare()

    def drain(self) -> None:
        """Wait for every device, every live array and every effect; nothing where JAX is not in use."""
        if self.has_context():
            self._queues.drain()

    def mark(self) -> Marker | None:
        """A marker on every device; None where JAX is not in use."""
        return self._queues.mark() if self.has_context() else None

    def submit(self, output: Any) -> None:
        """Nothing: JAX dispatches as it is called."""

    def force(self, output: Any) -> Forced:
        """Wait for every array of the output and read one element of each to the host."""
        if "jax" not in sys.modules:
            return Forced()
        count = 0
        ids: int | None = None
        id_arrays = 0
        gone = 0
        readable: dict[Any, list[Any]] = {}
        from pytest_roofline.backends import jax_queue

        jax, numpy = self._jax, self._jax.numpy
        for array in self._arrays(output):
            if self._is_tracer(array):
                raise RooflineUsageError(
                    f"the step returned a JAX tracer ({array.aval}), which has no value: call the jitted "
                    "function itself, not the function from inside a transformation"
                )
            if not jax_queue.wait_for(array):
                if not array.is_deleted():
                    array.block_until_ready()  # its computation failed: raised here, where it is read
                gone += 1
                continue
            count += 1
            if numpy.issubdtype(array.dtype, numpy.integer):
                ids = (ids or 0) + int(array.size)
                id_arrays += 1
            # The part that lies here, of an array spread over devices or processes. Not through a view in
            # host memory, which would keep the buffer from being donated to the next step.
            part = array if len(array.devices()) == 1 else array.addressable_shards[0].data
            if part.size and not jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
                readable.setdefault(min(part.devices(), key=_number), []).append(part)
        for parts in readable.values():
            jax.device_get(self._first_elements(parts))
        notes = (f"{gone} deleted or donated JAX arrays were returned and could not be read",) if gone else ()
        return Forced(arrays=count, ids=ids, id_arrays=id_arrays, notes=notes)

    def open_compile_log(self) -> JaxCompileLog:
        """What JAX compiles from now on."""
        return JaxCompileLog(_clock, self._dispatches)

    def witness(self) -> Witness:
        """Compares arrays, and tells old ones from new; see `jax_witness`."""
        from pytest_roofline.backends.jax_witness import JaxWitness

        return JaxWitness(self._jax, self._arrays)

    def trace(self, request: TraceRequest) -> Trace | None:
        """Run the step once, recording what it hands to XLA; None where this JAX cannot be recorded."""
        if not self.has_context():
            return None
        from pytest_roofline.backends import jax_trace

        return jax_trace.trace(request, self.device_of)

    # -- the rest --

    @cached_property
    def _jax(self) -> Any:
        try:
            import jax
        except ImportError as error:
            raise MissingDependency(
                'JAX is needed and not installed: python -m pip install "pytest-roofline[jax]"'
            ) from error
        return jax

    @cached_property
    def _queues(self) -> Any:
        from pytest_roofline.backends.jax_queue import Queues

        return Queues(_clock, self._dispatches)

    @cached_property
    def _dispatches(self) -> JaxDispatches:
        return JaxDispatches()

    @cached_property
    def _cpu(self) -> Backend:
        from pytest_roofline.backends.cpu import CpuBackend

        return CpuBackend()

    @cached_property
    def _first_elements(self) -> Callable[[list[Any]], Any]:
        jax = self._jax

        def first(parts: list[Any]) -> list[Any]:
            return [jax.lax.slice(part, (0,) * part.ndim, (1,) * part.ndim).reshape(()) for part in parts]

        compiled: Callable[[list[Any]], Any] = jax.jit(first)
        return compiled

    def _find(self, device: Device) -> Any:
        """The JAX device behind a `Device`."""
        if device.is_cpu:
            return self._jax.local_devices(backend="cpu")[0]
        for candidate in self._jax.local_devices():
            if candidate.platform != "cpu" and _accelerator(candidate).id == device.id:
                return candidate
        here = ", ".join(known.id for known in self.devices())
        raise DeviceUnavailable(f"JAX has no device {device.id!r} here; it has {here}")

    def _is_tracer(self, array: Any) -> bool:
        return isinstance(array, self._jax.core.Tracer)

    def _arrays(self, obj: Any) -> Iterator[Any]:
        """Every JAX array in an object, once: pytrees, and what plain objects in them hold."""
        return _walk(self._jax, obj, set(), _DEPTH)


def _number(device: Any) -> int:
    return int(device.id)


def _walk(jax: Any, obj: Any, seen: set[int], depth: int) -> Iterator[Any]:
    try:
        leaves = jax.tree_util.tree_leaves(obj)
    except (TypeError, ValueError):  # a mapping whose keys cannot be sorted
        leaves = list(obj.values()) if isinstance(obj, Mapping) else []
    for leaf in leaves:
        if id(leaf) in seen:
            continue
        seen.add(id(leaf))
        if isinstance(leaf, jax.Array):
            yield leaf
        elif depth > 0 and not isinstance(leaf, _HOLDS_NO_OUTPUT):
            held: Any = getattr(leaf, "__dict__", None)
            if held is None and is_dataclass(leaf):
                held = {field.name: getattr(leaf, field.name, None) for field in fields(leaf)}
            if held:
                yield from _walk(jax, list(held.values()), seen, depth - 1)


def _accelerator(device: Any) -> Device:
    """A GPU or TPU as JAX describes it; `memory_bytes` is None where JAX only tells its own pool."""
    kind = device.platform
    vendor = {"tpu": "Google"}.get(kind)
    driver = getattr(getattr(device, "client", None), "platform_version", None)
    if kind == "gpu":
        is_rocm = "rocm" in (driver or "").lower()
        kind, vendor = ("rocm", "AMD") if is_rocm else ("cuda", "NVIDIA")
    index = getattr(device, "local_hardware_id", None)
    return Device(
        name=device.device_kind,
        kind=kind,
        index=device.id if index is None else index,
        backend=JaxBackend.name,
        vendor=vendor,
        compute_units=getattr(device, "core_count", None),
        driver=driver,
        notes=("memory, clocks and bus width: JAX does not tell",),
    )
