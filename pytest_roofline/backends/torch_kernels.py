"""The probe's kernels in torch: ways to read, copy, write and combine buffers of random data, and matrix
products.

Every kernel writes into buffers that it was made with, so that nothing is allocated when it is launched,
autocast does not touch it and it fits into a graph. Vectors beside a matrix are not counted as traffic: they
stay in cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from pytest_roofline.backends.arena import Arena, Region
from pytest_roofline.backends.torch_accelerator import DRIVER_ERRORS, Accelerator, first_line
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.protocol import Kernel
from pytest_roofline.units import format_bytes

_SEED = 0x5EED
_BLOCK_BYTES = 2**20
"""Random data is made once in this size and then repeated: generating it is slower than the memory is."""
_ROW_BYTES = 2**14
_ALIGNMENT_BYTES = 4096
_FAST_BYTES_PER_S = 8e12
"""Rate assumed of a device about which nothing is known, to guess how long a launch takes."""

# What torch says when memory runs out, where it does not raise its own OutOfMemoryError.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "invalid buffer size")

_FLOATS = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
_FLOAT8 = ("float8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
DTYPES = (*_FLOATS, "int8", *_FLOAT8)


def make_kernels(
    device: Device, pattern: Pattern, working_set_bytes: float, accelerator: Accelerator | None
) -> list[Kernel]:
    """Every kernel that this device has for the pattern, over shared buffers of that total size.

    Raises MemoryError when the buffers do not fit. On an accelerator each kernel ran once before it is
    returned, those that the device refuses are left out, and short ones are repeated inside a graph where
    there are graphs.
    """
    target = torch.device(device.kind) if device.is_cpu else torch.device(device.kind, device.index)
    parts = _PARTS[pattern]
    part_bytes = _part_bytes(pattern, working_set_bytes)
    try:
        # Made inside a user's inference mode, the buffers could not be written to outside of it.
        with torch.inference_mode(False):
            buffers = [random_buffer(part_bytes, target) for _ in range(parts)]
            kernels = _MAKERS[pattern](buffers, accelerator is not None)
            if accelerator is None:
                return kernels
            return [kernel for each in kernels for kernel in _settled(each, accelerator, device)]
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise MemoryError(f"{device.id}: buffers of {format_bytes(part_bytes * parts)} do not fit") from error
        raise


def make_arena_kernels(arena: Arena, pattern: Pattern, working_set_bytes: float) -> list[Kernel]:
    """Every kernel of the CPU for the pattern, over parts of the arena."""
    working_set_bytes = min(working_set_bytes, arena.room_bytes(pattern))
    part_bytes = _part_bytes(pattern, working_set_bytes)
    source, target = arena.source, arena.target
    with torch.inference_mode(False):
        # As many parts as fit beside each other: all that is read comes from the source.
        buffers = {
            "read": lambda: [_view(source, 0, part_bytes)],
            "copy": lambda: [_view(target, 0, part_bytes), _view(source, 0, part_bytes)],
            "write": lambda: [_view(target, 0, part_bytes)],
            "triad": lambda: [
                _view(source, 0, part_bytes),
                _view(source, part_bytes, part_bytes),
                _view(target, 0, part_bytes),
            ],
        }[pattern]()
        return _MAKERS[pattern](buffers, False)


def _view(region: Region, start: int, length: int) -> torch.Tensor:
    memory = region.memory
    return torch.frombuffer(memory.mapping, dtype=torch.float32, count=length // 4, offset=memory.offset + start)


def _part_bytes(pattern: Pattern, working_set_bytes: float) -> int:
    """The size of each buffer of a pattern: whole pages, at least one."""
    return part_length(working_set_bytes / _PARTS[pattern])


def part_length(wanted_bytes: float) -> int:
    """Bytes of a buffer of about that size: whole pages, and at least one."""
    return max(int(wanted_bytes) // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES, _ALIGNMENT_BYTES)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether this is what torch says when memory runs out."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def random_buffer(size_bytes: int, device: torch.device) -> torch.Tensor:
    """float32 numbers of which each half, read as bfloat16 or float16, is an ordinary number too.

    No zeros, infinities or subnormals in any of the three readings: those take other times than data does.
    """
    generator = torch.Generator(device=device).manual_seed(_SEED)  # the user's own random state stays as it is
    count = min(_BLOCK_BYTES, size_bytes) // 2
    block = torch.empty(count, dtype=torch.float32, device=device).uniform_(0.5, 1.5, generator=generator)
    signs = torch.empty(count, dtype=torch.float32, device=device).uniform_(-1.0, 1.0, generator=generator)
    block = torch.copysign(block, signs).to(torch.bfloat16).view(torch.float32)
    buffer = torch.empty(size_bytes // 4, dtype=torch.float32, device=device)
    whole = buffer.numel() // block.numel() * block.numel()
    buffer[:whole].view(-1, block.numel()).copy_(block)
    buffer[whole:].copy_(block[: buffer.numel() - whole])
    return buffer


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _reads(buffers: list[torch.Tensor], on_accelerator: bool) -> list[Kernel]:
    (buffer,) = buffers
    dtypes = [torch.float32, *((torch.bfloat16, torch.float16) if on_accelerator else ())]
    kernels = []
    for dtype in dtypes:
        matrix, vector = _matrix(buffer, dtype)
        name = str(dtype).removeprefix("torch.")
        result = torch.empty(matrix.shape[0], dtype=dtype, device=buffer.device)
        launch = partial(torch.mv, matrix, vector, out=result)
        kernels.append(_kernel(f"mv-{name}", "read", _bytes(matrix), launch, _bytes(matrix, vector, result)))
        if dtype is torch.bfloat16:  # a linear layer at batch 1 takes another path through the libraries
            launch = partial(torch.mm, vector.view(1, -1), matrix.t(), out=result.view(1, -1))
            kernels.append(_kernel(f"linear-{name}", "read", _bytes(matrix), launch, _bytes(matrix, vector, result)))
    scalar = torch.empty((), dtype=torch.float32, device=buffer.device)
    half = buffer.numel() // 2
    launch = partial(torch.dot, buffer[:half], buffer[half : 2 * half], out=scalar)
    kernels.append(_kernel("dot-float32", "read", 2 * half * 4, launch))
    launch = partial(torch.sum, buffer, dim=0, out=scalar)
    kernels.append(_kernel("sum-float32", "read", _bytes(buffer), launch))
    return kernels


def _matrix(buffer: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The buffer as a matrix with rows as long as those of a weight, and a vector that fits it."""
    elements = buffer.view(dtype)
    columns = min(_ROW_BYTES // elements.element_size(), 2 ** int(math.log2(elements.numel()) / 2))
    rows = elements.numel() // columns
    matrix = elements[: rows * columns].view(rows, columns)
    return matrix, matrix[0].clone()


def _copies(buffers: list[torch.Tensor], on_accelerator: bool) -> list[Kernel]:
    target, source = buffers
    moved = _bytes(target, source)
    return [
        _kernel("copy_", "copy", moved, partial(target.copy_, source)),
        _kernel("mul-out", "copy", moved, partial(torch.mul, source, 1.0, out=target)),
    ]


def _writes(buffers: list[torch.Tensor], on_accelerator: bool) -> list[Kernel]:
    (target,) = buffers
    return [
        _kernel("fill_", "write", _bytes(target), partial(target.fill_, 0.7)),
        _kernel("zero_", "write", _bytes(target), target.zero_),
    ]


def _triads(buffers: list[torch.Tensor], on_accelerator: bool) -> list[Kernel]:
    first, second, target = buffers
    moved = _bytes(*buffers)
    return [
        _kernel("add-alpha-out", "triad", moved, partial(torch.add, first, second, alpha=0.5, out=target)),
        _kernel(
            "addcmul-out",
            "triad",
            moved,
            partial(torch.addcmul, first, second, second, value=0.5, out=target),
        ),
    ]


_PARTS: dict[Pattern, int] = {"read": 1, "copy": 2, "write": 1, "triad": 3}
_MAKERS: dict[Pattern, Callable[[list[torch.Tensor], bool], list[Kernel]]] = {
    "read": _reads,
    "copy": _copies,
    "write": _writes,
    "triad": _triads,
}


def _kernel(
    name: str,
    pattern: Pattern,
    moved_bytes: float,
    launch: Callable[[], object],
    memory_bytes: float | None = None,
) -> Kernel:
    return Kernel(
        name=f"torch-{name}",
        pattern=pattern,
        bytes_per_launch=float(moved_bytes),
        working_set_bytes=float(moved_bytes if memory_bytes is None else memory_bytes),
        launch=launch,
    )


def _settled(kernel: Kernel, accelerator: Accelerator, device: Device) -> list[Kernel]:
    """The kernel after a first run, repeated if it is short; nothing if the device does not have it."""
    try:
        kernel.launch()
    except DRIVER_ERRORS as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        return []
    rates = [device.driver_bandwidth_bytes_per_s, device.spec.bandwidth_bytes_per_s if device.spec else None]
    rate = max((known for known in rates if known), default=_FAST_BYTES_PER_S)
    launch, times = accelerator.repeated(kernel.launch, device.index, kernel.bytes_per_launch / rate)
    if times == 1:
        return [kernel]
    return [
        Kernel(
            name=kernel.name,
            pattern=kernel.pattern,
            bytes_per_launch=kernel.bytes_per_launch * times,
            working_set_bytes=kernel.working_set_bytes,
            launch=launch,
        )
    ]


def make_matmul(device: Device, dtype: str, size: int) -> Callable[[], object]:
    """A product of two random square matrices, 2 * size**3 operations; see `DTYPES` for the names.

    float32 follows the process's own setting for TF32. Raises RooflineUsageError for an unknown dtype and for
    one that the device does not multiply, MemoryError when the operands do not fit.
    """
    if dtype not in DTYPES:
        raise RooflineUsageError(f"no matrix product for dtype {dtype!r}; known: {', '.join(DTYPES)}")
    if size < 1:
        raise RooflineUsageError(f"a matrix product needs a size of 1 or more, not {size}")
    target = torch.device(device.kind) if device.is_cpu else torch.device(device.kind, device.index)
    try:
        with torch.inference_mode(False):
            launch = _product(target, dtype, size)
            launch()
    except DRIVER_ERRORS as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise MemoryError(f"{device.id}: matrices of {size} x {size} {dtype} do not fit") from error
        reason = first_line(error)
        raise RooflineUsageError(f"{device.id} does not multiply {dtype} at size {size}: {reason:.200}") from error
    return launch


def _product(device: torch.device, dtype: str, size: int) -> Callable[[], object]:
    generator = torch.Generator(device=device).manual_seed(_SEED)

    def random(kind: torch.dtype) -> torch.Tensor:
        return torch.empty(size, size, dtype=kind, device=device).normal_(generator=generator)

    if dtype in _FLOATS:
        kind = _FLOATS[dtype]
        left, right = random(kind), random(kind)
        return partial(torch.mm, left, right, out=torch.empty_like(left))
    if dtype == "int8":
        left, right = ((random(torch.float32) * 40).clamp(-127, 127).to(torch.int8) for _ in range(2))
        return partial(torch._int_mm, left, right)
    kind = getattr(torch, "float8_e4m3fn" if dtype == "float8" else dtype)
    left, right = (random(torch.float32).to(kind) for _ in range(2))
    one: Any = torch.ones((), dtype=torch.float32, device=device)
    # The second operand lies in columns: the only layout that 8 bit tensor cores take.
    return partial(torch._scaled_mm, left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
