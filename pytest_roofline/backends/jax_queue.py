"""Behind everything that JAX has queued: how to wait there, and how to stamp when the device gets there.

JAX dispatches asynchronously, on CPUs too (up to 32 computations a device). What was measured decides the
shape of this room:

- `jax.effects_barrier()` and waiting on live arrays both miss a computation whose output was dropped. A tiny
  operation dispatched behind it and waited for does not: a device runs what *one thread* gives it in order.
- Each device has its own queue, and a computation sharded over several devices of the CPU client stands in
  yet another one, in which only a sharded tiny operation queues up.
- On a CPU the order holds per dispatching thread. What another thread dispatched is therefore covered by its
  live arrays, and by the last output that JAX handed to it while somebody listens: see `jax_dispatches`.
  Accelerators have one compute stream per device, and no such gap.
- `is_ready()` of an array that was asked before its computation ended turns true some 0.2 ms after the end, whatever
  the size of the work. Here it is only asked of operations that have just been dispatched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from pytest_roofline.backends.jax_dispatches import JaxDispatches
from pytest_roofline.backends.stamps import StampedMarker, Stamper
from pytest_roofline.errors import MeasurementError, RooflineUsageError


def initialised_platforms() -> tuple[str, ...]:
    """Platforms whose JAX client already exists; asking creates none."""
    bridge = getattr(getattr(jax, "_src", None), "xla_bridge", None)
    is_up = getattr(bridge, "backends_are_initialized", None)
    if is_up is None:
        # A JAX that hides its bridge. Asking it for devices or arrays would create a client, so nothing is
        # claimed.
        return ()
    if not is_up():
        return ()
    clients = getattr(bridge, "backends", None)
    return tuple(clients()) if clients is not None else (jax.default_backend(),)


def _add_one(value: Any) -> Any:
    return value + 1


class Queues:
    """A tiny compiled operation for every queue of every device whose client exists."""

    def __init__(self, clock: Callable[[], float], dispatches: JaxDispatches) -> None:
        self._clock = clock
        self._dispatches = dispatches
        self._devices: tuple[Any, ...] = ()
        self._calls: list[tuple[Callable[[Any], Any], Any]] = []
        self._platforms: tuple[str, ...] = ()
        self._stamper = Stamper("roofline-jax-markers", clock)

    def prepare(self) -> None:
        """Compile for every device in use: once, and again only when JAX has gained or lost devices."""
        platforms = initialised_platforms()
        devices = tuple(device for name in platforms for device in jax.local_devices(backend=name))
        if devices == self._devices:
            return
        calls: list[tuple[Callable[[Any], Any], Any]] = []
        by_platform: dict[str, list[Any]] = {}
        for device in devices:
            by_platform.setdefault(device.platform, []).append(device)
            calls.append(self._compile(jax.sharding.SingleDeviceSharding(device), 1))
        for platform, group in by_platform.items():
            if platform == "cpu" and len(group) > 1:
                mesh = jax.sharding.Mesh(group, ("devices",))
                sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
                calls.append(self._compile(sharding, len(group)))
        for call, argument in calls:
            call(argument).block_until_ready()
        self._devices, self._platforms, self._calls = devices, platforms, calls

    @staticmethod
    def _compile(sharding: Any, size: int) -> tuple[Callable[[Any], Any], Any]:
        # Compiled ahead of time: a later change of the user's JAX configuration cannot make a drain compile.
        host = memoryview(bytearray(4 * size)).cast("f")
        argument = jax.device_put(jax.numpy.asarray(list(host), dtype=jax.numpy.float32), sharding)
        return jax.jit(_add_one).lower(argument).compile(), argument

    def dispatch(self) -> list[Any]:
        """Put the tiny operation behind what this thread has dispatched; it blocks only on a full queue."""
        if not _is_outside_tracing():
            raise RooflineUsageError(
                "JAX cannot be drained while it traces a function: the work is only being described here. "
                "Measure around the call of the jitted function, not inside it"
            )
        self.prepare()
        return [call(argument) for call, argument in self._calls]

    def drain(self) -> None:
        """Wait for every queue, every live array, what other threads dropped, and every ordered effect."""
        behind = self.dispatch()
        others = self._dispatches.outputs()
        try:
            for array in behind:
                array.block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            raise MeasurementError(f"JAX could not finish what was queued: {_first_line(error)}") from error
        for platform in self._platforms:
            arrays = [array for array in jax.live_arrays(platform) if not array.is_deleted()]
            try:
                jax.block_until_ready(arrays)
            except RuntimeError:  # one was donated in between, or failed: wait for the others one by one
                for array in arrays:
                    wait_for(array)
        for array in arrays_of(others):
            wait_for(array)
        self._dispatches.forget(others)
        jax.effects_barrier()

    def mark(self) -> StampedMarker | None:
        """A marker behind what this thread dispatched, and others were seen to; None when no device is in use."""
        marker = StampedMarker(self._clock, "JAX")
        behind = self.dispatch()
        if not behind:
            return None
        others = [array for array in arrays_of(self._dispatches.outputs()) if not _is_done(array)]
        if not others and all(array.is_ready() for array in behind):
            # Nothing was pending: stamped on the spot, or an honest loop would be charged for a wake-up.
            marker.stamp()
        else:
            self._stamper.watch(marker, partial(_wait_for_all, behind, others))
        return marker


def arrays_of(outputs: list[Any]) -> list[Any]:
    """The arrays in what jitted functions returned."""
    return [leaf for leaf in jax.tree_util.tree_leaves(outputs) if isinstance(leaf, jax.Array)]


def _wait_for_all(behind: list[Any], others: list[Any]) -> None:
    jax.block_until_ready(behind)
    for array in others:
        wait_for(array)


def _is_done(array: Any) -> bool:
    """Computed, or given away since."""
    try:
        return bool(array.is_deleted() or array.is_ready())
    except RuntimeError:  # donated between the two questions
        return True


def wait_for(array: Any) -> bool:
    """Wait until an array is computed; False where there is nothing to read: deleted, donated, or failed."""
    try:
        if array.is_deleted():
            return False
        array.block_until_ready()
    except RuntimeError:
        # JAX's runtime errors derive from it. An array donated in between, or whose computation failed, has
        # no work left to wait for; its owner meets the failure when reading it.
        return False
    return True


def _is_outside_tracing() -> bool:
    is_clean = getattr(jax.core, "trace_state_clean", None)
    if is_clean is None:
        is_clean = getattr(getattr(getattr(jax, "_src", None), "core", None), "trace_state_clean", None)
    return True if is_clean is None else bool(is_clean())


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
