"""MLX: a lazy framework. What is never evaluated never runs, so each pass has to be submitted.

Waiting (`mx.synchronize`) covers one stream, and only what was submitted to it: a graph that nobody evaluates is not
pending work. Streams belong to the thread that made them. Drained are the default streams of every device and the
streams found in modules that use MLX and in the frames of the calling thread (`with mx.stream(s)`); a stream that
only another thread knows is not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cached_property, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pytest_roofline.backends.private_clock import clock as _clock
from pytest_roofline.backends.stamps import StampedMarker, Stamper
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import MissingDependency, RooflineUsageError
from pytest_roofline.protocol import (
    Backend,
    Conditions,
    Forced,
    Kernel,
    Marker,
    Trace,
    TraceRequest,
)
from pytest_roofline.units import format_bytes
from pytest_roofline.witness import Witness

_COLUMNS = 4096
_ITEM_BYTES = 4
_DEPTH = 4
_HOLDS_NO_OUTPUT = (type, ModuleType, FunctionType, MethodType, str, bytes, int, float)


class MlxBackend:
    """The GPU of an Apple machine, and the CPU. Traces nothing yet; conditions are those of the CPU."""

    name = "mlx"
    is_lazy = True
    is_marker_complete = True

    def __init__(self) -> None:
        self._stamper = Stamper("roofline-mlx-markers", _clock)
        self._idle_streams = threading.local()
        self._modules_seen = 0
        self._namespaces: list[dict[str, Any]] = []

    def devices(self) -> Sequence[Device]:
        """The GPU first where there is one: it shares the memory of the CPU."""
        mx = self._mx
        processor = replace(self._cpu.devices()[0], backend=self.name)
        if not mx.is_available(mx.gpu):
            return [processor]
        facts = mx.device_info(mx.gpu)
        chip = Device(
            name=str(facts.get("device_name", "GPU")),
            kind="gpu",
            backend=self.name,
            vendor="Apple" if sys.platform == "darwin" else None,
            memory_bytes=_number(facts.get("memory_size", facts.get("total_memory"))),
            is_unified_memory=True if sys.platform == "darwin" else None,
            notes=("clocks and bus width: MLX does not tell",),
        )
        return [chip, processor]

    def clock(self) -> float:
        """Seconds on the private monotonic clock."""
        return _clock()

    def threads(self, device: Device) -> int | None:
        """None: MLX has no setting for it."""
        return None

    def free_memory_bytes(self, device: Device) -> float:
        """The CPU's free memory; on a GPU no more than MLX's own limit has left."""
        free_bytes = float(self._cpu.free_memory_bytes(self._cpu.devices()[0]))
        if device.is_cpu:
            return free_bytes
        limit = _number(self._mx.device_info(self._mx.gpu).get("max_recommended_working_set_size"))
        left = free_bytes if limit is None else max(0.0, limit - self._mx.get_active_memory())
        return min(left, free_bytes) if sys.platform == "darwin" else left

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Kernels over float32 buffers of that total size; what they write is a fresh array each time."""
        free_bytes = self.free_memory_bytes(device)
        if working_set_bytes > free_bytes:
            asked, free = format_bytes(working_set_bytes), format_bytes(free_bytes)
            raise MemoryError(f"{asked} of buffers, {free} free on {device.id}")
        mx, stream = self._mx, self._stream(device)
        items = max(int(working_set_bytes) // _ITEM_BYTES, 6)
        half, third = items // 2, items // 3
        launches: list[tuple[str, int, Callable[[], Any]]]
        if pattern == "read":
            columns = min(_COLUMNS, items)
            rows = items // columns
            matrix, vector = self._random((rows, columns), stream), self._random((columns,), stream)
            launches = [
                ("mlx sum", rows * columns, partial(mx.sum, matrix, stream=stream)),
                ("mlx matmul(m, v)", rows * columns, partial(mx.matmul, matrix, vector, stream=stream)),
            ]
        elif pattern == "copy":
            source = self._random((half,), stream)
            launches = [("mlx add(x, 1)", 2 * half, partial(mx.add, source, 1.0, stream=stream))]
        elif pattern == "write":
            launches = [("mlx full", items, partial(self._filled, items, stream))]
        elif pattern == "triad":
            left, right = self._random((third,), stream), self._random((third,), stream)
            launches = [("mlx a + s * b", 3 * third, partial(self._triad(device), left, right, self._one, stream))]
        else:
            raise RooflineUsageError(f"pattern {pattern!r} is not one of read, copy, write, triad")
        return [
            Kernel(
                name=name,
                pattern=pattern,
                bytes_per_launch=float(moved * _ITEM_BYTES),
                working_set_bytes=float(moved * _ITEM_BYTES),
                launch=partial(self._launch, make),
            )
            for name, moved, make in launches
        ]

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """A square product of random operands in a floating dtype."""
        mx, stream = self._mx, self._stream(device)
        if dtype not in ("float32", "float16", "bfloat16"):
            raise RooflineUsageError(f"matmul dtype {dtype!r}: MLX multiplies float32, float16 and bfloat16")
        if size < 1:
            raise RooflineUsageError(f"matmul size is {size}; it must be 1 or more")
        operands = [self._random((size, size), stream).astype(getattr(mx, dtype), stream=stream) for _ in "ab"]
        mx.eval(operands)
        return partial(self._launch, partial(mx.matmul, *operands, stream=stream))

    def has_context(self) -> bool:
        """Whether this process imported MLX: it has no separate initialisation."""
        return "mlx.core" in sys.modules

    def prepare(self) -> None:
        """Nothing: a drain and a mark run no kernel of their own that MLX would compile first."""

    def drain(self) -> None:
        """Wait for every known stream; nothing where MLX is not in use."""
        if not self.has_context():
            return
        for stream in self._streams():
            with suppress(RuntimeError, ValueError):  # a stream of another thread: nobody else may wait for it
                self._mx.synchronize(stream)

    def submit(self, output: Any) -> None:
        """Hand the graph of this pass to the device without waiting."""
        if self.has_context():
            self._mx.async_eval(list(self._arrays(output)))

    def force(self, output: Any) -> Forced:
        """Evaluate every array of the output and read one element of each to the host."""
        if not self.has_context():
            return Forced()
        mx = self._mx
        arrays = list(self._arrays(output))
        mx.eval(arrays)
        ids: int | None = None
        id_arrays = 0
        for array in arrays:
            if mx.issubdtype(array.dtype, mx.integer):
                ids = (ids or 0) + int(array.size)
                id_arrays += 1
            if array.size:
                array[(0,) * array.ndim].item()
        return Forced(arrays=len(arrays), ids=ids, id_arrays=id_arrays)

    def evaluate(self, output: Any) -> bool:
        """Evaluate every array of the output, and read none; false where MLX is not in use."""
        if self.has_context():
            self._mx.eval(list(self._arrays(output)))
        return self.has_context()

    def mark(self) -> Marker | None:
        """A tiny operation on every known stream; None where MLX is not in use."""
        if not self.has_context():
            return None
        marker = StampedMarker(_clock, "MLX")
        behind = []
        for stream in self._streams():
            with suppress(RuntimeError, ValueError):  # a stream of another thread
                behind.append(self._tiny(stream))
        control = self._tiny(self._idle_stream())
        self._stamper.watch(marker, partial(self._mx.eval, behind), partial(self._mx.eval, control))
        return marker

    def device_of(self, obj: Any) -> str | None:
        """Id of the default device when the object holds an MLX array: with unified memory arrays have none."""
        if not self.has_context() or next(self._arrays(obj), None) is None:
            return None
        return "cpu" if self._mx.default_device() == self._mx.Device(self._mx.cpu) else "gpu:0"

    def witness(self) -> Witness:
        """Copies, compares and overwrites arrays; see `mlx_witness`."""
        from pytest_roofline.backends.mlx_witness import MlxWitness

        return MlxWitness(self._mx, self._arrays)

    def trace(self, request: TraceRequest) -> Trace | None:
        """None: MLX offers no way to see the operations of a step, so its traffic has to be stated."""
        return None

    def conditions(self, device: Device) -> Conditions:
        """Those of the CPU, which a GPU with unified memory shares its memory and its power with."""
        return self._cpu.conditions(self._cpu.devices()[0])

    # -- the rest --

    @cached_property
    def _mx(self) -> Any:
        try:
            import mlx.core as mx
        except ImportError as error:
            raise MissingDependency(
                'MLX is needed and not installed: python -m pip install "pytest-roofline[mlx]" '
                '(on Linux also "mlx[cpu]")'
            ) from error
        return mx

    @cached_property
    def _cpu(self) -> Backend:
        from pytest_roofline.backends.cpu import CpuBackend

        return CpuBackend()

    @cached_property
    def _one(self) -> Any:
        one = self._mx.array([1.0])
        self._mx.eval(one)
        return one

    def _tiny(self, stream: Any) -> Any:
        """An operation that has been handed to a stream."""
        tiny = self._mx.add(self._one, self._one, stream=stream)
        self._mx.async_eval(tiny)
        return tiny

    def _idle_stream(self) -> Any:
        """A stream of the calling thread on which nothing but markers' controls ever ran.

        How late they come back says how long this machine takes just now to run and to notice anything at all.
        """
        idle = getattr(self._idle_streams, "stream", None)
        if idle is None:
            idle = self._idle_streams.stream = self._mx.new_stream(self._mx.cpu)
        return idle

    def _launch(self, make: Callable[[], Any]) -> object:
        result = make()
        self._mx.async_eval(result)
        return result

    def _filled(self, items: int, stream: Any) -> Any:
        return self._mx.full((items,), self._one[0], stream=stream)

    def _triad(self, device: Device) -> Callable[..., Any]:
        mx = self._mx

        def triad(left: Any, right: Any, factor: Any, stream: Any) -> Any:
            return mx.add(left, mx.multiply(right, factor, stream=stream), stream=stream)

        if device.is_cpu:  # fusing would start a C++ compiler here; unfused, the figure is only a low one
            return triad
        fused = mx.compile(lambda left, right, factor: left + factor * right)

        def fused_triad(left: Any, right: Any, factor: Any, stream: Any) -> Any:
            with mx.stream(stream):
                return fused(left, right, factor)

        return fused_triad

    def _random(self, shape: tuple[int, ...], stream: Any) -> Any:
        array = self._mx.random.uniform(-0.5, 0.5, shape, stream=stream)
        try:
            self._mx.eval(array)
        except RuntimeError as error:
            if "alloc" in str(error).lower() or "memory" in str(error).lower():
                raise MemoryError(str(error).splitlines()[0]) from error
            raise
        return array

    def _stream(self, device: Device) -> Any:
        return self._mx.default_stream(self._mx.cpu if device.is_cpu else self._mx.gpu)

    def _streams(self) -> list[Any]:
        mx = self._mx
        streams = [mx.default_stream(mx.cpu)]
        if mx.is_available(mx.gpu):
            streams.append(mx.default_stream(mx.gpu))
        for stream in self._named_streams():
            if stream not in streams:
                streams.append(stream)
        return streams

    def _named_streams(self) -> Iterator[Any]:
        """Streams that a module using MLX, or a function that is now running, has a name for."""
        kinds = tuple(
            kind for kind in (getattr(self._mx, name, None) for name in ("Stream", "ThreadLocalStream")) if kind
        )
        if len(sys.modules) != self._modules_seen:
            self._modules_seen = len(sys.modules)
            spaces = [getattr(module, "__dict__", None) for module in list(sys.modules.values())]
            self._namespaces = [
                space
                for space in spaces
                if isinstance(space, dict) and any(value is self._mx for value in list(space.values()))
            ]
        for names in self._namespaces:
            yield from (value for value in list(names.values()) if isinstance(value, kinds))
        frame = sys._getframe(1)
        while frame is not None:
            yield from (value for value in list(frame.f_locals.values()) if isinstance(value, kinds))
            frame = frame.f_back  # type: ignore[assignment]

    def _arrays(self, obj: Any) -> Iterator[Any]:
        return _walk(self._mx.array, obj, set(), _DEPTH)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _walk(array: type, obj: Any, seen: set[int], depth: int) -> Iterator[Any]:
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, array):
        yield obj
    elif isinstance(obj, Mapping):
        for value in list(obj.values()):
            yield from _walk(array, value, seen, depth)
    elif isinstance(obj, (list, tuple, set, frozenset)):
        for value in obj:
            yield from _walk(array, value, seen, depth)
    elif depth > 0 and obj is not None and not isinstance(obj, _HOLDS_NO_OUTPUT):
        held: Any = getattr(obj, "__dict__", None)
        if held is None and is_dataclass(obj):
            held = {field.name: getattr(obj, field.name, None) for field in fields(obj)}
        for value in list((held or {}).values()):
            yield from _walk(array, value, seen, depth - 1)
