"""The torch backend on the CPU: its facts, its kernels and its matrix products."""

from __future__ import annotations

import subprocess
import sys
import time
from textwrap import dedent

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.device import PATTERNS, Device, Pattern  # noqa: E402
from pytest_roofline.errors import DeviceUnavailable, RooflineUsageError  # noqa: E402
from pytest_roofline.protocol import Backend, Kernel, TraceRequest  # noqa: E402

SIZE_BYTES = 3 * 2**20


@pytest.fixture
def backend() -> TorchBackend:
    """A backend without an accelerator, also on a machine that has one."""
    made = TorchBackend()
    made._accelerator = None
    return made


@pytest.fixture
def cpu(backend: TorchBackend) -> Device:
    """The CPU as torch's device."""
    return backend.devices()[-1]


def test_it_is_a_backend(backend: TorchBackend) -> None:
    """Every verb of the protocol is there."""
    assert isinstance(backend, Backend)


def test_preparing_imports_what_a_trace_needs() -> None:
    """The first trace imports nothing more, nor does preparing twice change a setting of torch."""
    code = """
        import sys, torch
        from pytest_roofline.backends.torch import TorchBackend
        from pytest_roofline.protocol import TraceRequest

        backend = TorchBackend()
        threads = torch.get_num_threads()
        backend.prepare()
        backend.prepare()
        assert torch.get_num_threads() == threads
        before = set(sys.modules)
        weights, state = torch.ones(8, 8), torch.ones(8)
        assert backend.trace(TraceRequest(step=lambda: weights @ state)) is not None
        assert sorted(set(sys.modules) - before) == []
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True)


def test_the_cpu_comes_last_and_belongs_to_torch(cpu: Device) -> None:
    """Its facts are those of the bare CPU, driven by torch."""
    assert (cpu.id, cpu.backend) == ("cpu", "torch")
    assert cpu.name
    assert cpu.compute_units is not None


def test_the_clock_cannot_be_patched(backend: TorchBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was bound when the module was imported."""
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    first = backend.clock()
    assert backend.clock() >= first > 0.0


def test_threads_are_those_of_torch_now(backend: TorchBackend, cpu: Device) -> None:
    """The figure follows the test's own setting."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert backend.threads(cpu) == 1
        assert backend.conditions(cpu).threads == 1
    finally:
        torch.set_num_threads(before)
    assert backend.threads(Device(name="x", kind="cuda", backend="torch")) is None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_kernels_count_what_they_move(backend: TorchBackend, cpu: Device, pattern: Pattern) -> None:
    """Of its working set a read, a write, a copy and a triad move each byte once: n, n, 2n and 3n."""
    kernels = backend.kernels(cpu, pattern, SIZE_BYTES)
    assert len(kernels) >= 2
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    for kernel in kernels:
        assert kernel.pattern == pattern
        assert kernel.bytes_per_launch == pytest.approx(SIZE_BYTES, rel=0.02)
        assert kernel.working_set_bytes == pytest.approx(SIZE_BYTES, rel=0.02)
        assert kernel.working_set_bytes >= kernel.bytes_per_launch
        kernel.launch()


def tensors(kernel: Kernel) -> list[torch.Tensor]:
    """The tensors that a launch was bound to."""
    launch = kernel.launch
    arguments = [*getattr(launch, "args", ()), *getattr(launch, "keywords", {}).values()]
    owner = getattr(getattr(launch, "func", launch), "__self__", None)
    return [each for each in [*arguments, owner] if isinstance(each, torch.Tensor)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_kernels_share_their_buffers(backend: TorchBackend, cpu: Device, pattern: Pattern) -> None:
    """Another kernel costs no more memory."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for kernel in backend.kernels(cpu, pattern, SIZE_BYTES)
        for tensor in tensors(kernel)
    }
    assert sum(storages.values()) <= SIZE_BYTES * 1.05


def test_buffers_hold_ordinary_random_numbers(backend: TorchBackend, cpu: Device) -> None:
    """Finite, never zero or subnormal, of both signs, and never the same in a row: in each reading of the
    bits."""
    kernel = next(each for each in backend.kernels(cpu, "copy", SIZE_BYTES) if each.name == "torch-copy_")
    buffer = max(tensors(kernel), key=torch.numel)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        values = buffer.view(dtype).float()
        assert bool(torch.isfinite(values).all())
        assert float(values.abs().min()) > 0.1
        assert float(values.abs().max()) < 4.0
        assert 0.4 < float((values > 0).float().mean()) < 0.6
        assert values.unique().numel() > 50


def test_a_read_reads_and_a_copy_copies(backend: TorchBackend, cpu: Device) -> None:
    """The results are those of the data: no kernel is free."""
    kernels = {kernel.name: kernel for kernel in backend.kernels(cpu, "read", SIZE_BYTES)}
    kernels["torch-sum-float32"].launch()
    buffer, result = sorted(tensors(kernels["torch-sum-float32"]), key=torch.numel, reverse=True)
    assert float(result) == pytest.approx(float(buffer.double().sum()), rel=1e-3, abs=1.0)
    copy = next(each for each in backend.kernels(cpu, "copy", SIZE_BYTES) if each.name == "torch-mul-out")
    copy.launch()
    first, second = tensors(copy)
    assert torch.equal(first, second)


def test_the_random_state_of_the_test_is_left_alone(backend: TorchBackend, cpu: Device) -> None:
    """The probe may run in the middle of a seeded test."""
    before = torch.get_rng_state()
    backend.kernels(cpu, "read", SIZE_BYTES)
    backend.matmul(cpu, "float32", 32)
    assert torch.equal(torch.get_rng_state(), before)


def test_kernels_made_inside_inference_mode_work_outside(backend: TorchBackend, cpu: Device) -> None:
    """A probe is made on first use, which may be inside a step."""
    with torch.inference_mode():
        kernels = [kernel for pattern in PATTERNS for kernel in backend.kernels(cpu, pattern, SIZE_BYTES)]
        product = backend.matmul(cpu, "float32", 32)
    for kernel in kernels:
        kernel.launch()
    product()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_kernels_in_an_arena_are_views_of_it(backend: TorchBackend, cpu: Device, pattern: Pattern) -> None:
    """Without a copy: all that is read lies in its source, all that is written in its target; larger ones are cut."""
    arena = backend.make_arena(cpu, 2 * SIZE_BYTES, SIZE_BYTES)
    arena.fill(2 * SIZE_BYTES, SIZE_BYTES)
    inside = [range(part.address, part.address + part.filled_bytes) for part in (arena.source, arena.target)]
    for size_bytes, expected in ((SIZE_BYTES, SIZE_BYTES), (2**40, arena.room_bytes(pattern))):
        kernels = backend.kernels_in(arena, pattern, size_bytes)
        assert [kernel.name for kernel in kernels] == [
            kernel.name for kernel in backend.kernels(cpu, pattern, SIZE_BYTES)
        ]
        for kernel in kernels:
            assert kernel.bytes_per_launch == pytest.approx(expected, rel=0.02)
            kernel.launch()
            for tensor in tensors(kernel):
                if tensor.numel() > 2**16:
                    last = tensor.data_ptr() + tensor.numel() * tensor.element_size() - 1
                    assert any(tensor.data_ptr() in part and last in part for part in inside)


def test_an_arena_keeps_its_data_whatever_torch_writes(backend: TorchBackend, cpu: Device) -> None:
    """No kernel of any pattern writes into the source, which other backends search and compare."""
    arena = backend.make_arena(cpu, SIZE_BYTES, SIZE_BYTES)
    arena.fill(SIZE_BYTES, SIZE_BYTES)
    for pattern in PATTERNS:
        for kernel in backend.kernels_in(arena, pattern, 2**40):
            kernel.launch()
    for kernel in backend._cpu.kernels_in(arena, "read", 2**40):
        kernel.launch()  # raises if the data had changed


def test_kernels_outlive_their_arena(backend: TorchBackend, cpu: Device) -> None:
    """A view holds the memory."""
    arena = backend.make_arena(cpu, SIZE_BYTES, SIZE_BYTES)
    arena.fill(SIZE_BYTES, SIZE_BYTES)
    kernels = [kernel for pattern in PATTERNS for kernel in backend.kernels_in(arena, pattern, SIZE_BYTES)]
    del arena
    for kernel in kernels:
        kernel.launch()


@pytest.mark.parametrize("size_bytes", [1, 4096, 50_000])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_tiny_working_sets_work(backend: TorchBackend, cpu: Device, pattern: Pattern, size_bytes: float) -> None:
    """At least a page per buffer."""
    for kernel in backend.kernels(cpu, pattern, size_bytes):
        assert kernel.bytes_per_launch > 0
        kernel.launch()


def test_buffers_that_cannot_fit_are_a_memory_error(backend: TorchBackend, cpu: Device) -> None:
    """Asked before anything is allocated, since an overcommitted process is killed instead of told."""
    with pytest.raises(MemoryError, match="do not fit"):
        backend.kernels(cpu, "read", 1e18)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("Invalid buffer size: 8.00 GB"),
    ],
)
def test_every_way_of_running_out_is_a_memory_error(
    backend: TorchBackend, cpu: Device, monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    """Torch says it in several words."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(MemoryError, match="do not fit"):
        backend.kernels(cpu, "read", SIZE_BYTES)
    with pytest.raises(MemoryError, match="do not fit"):
        backend.matmul(cpu, "float32", 16)


def test_another_error_of_torch_comes_through(
    backend: TorchBackend, cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the device is not taken for a lack of memory."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("device-side assert triggered")

    monkeypatch.setattr(torch, "empty", fail)
    with pytest.raises(RuntimeError, match="device-side assert"):
        backend.kernels(cpu, "read", SIZE_BYTES)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_matrix_products_of_floats(backend: TorchBackend, cpu: Device, dtype: str) -> None:
    """A product of two square matrices of that dtype, of another value than zero."""
    result = backend.matmul(cpu, dtype, 32)()
    assert isinstance(result, torch.Tensor)
    assert result.shape == (32, 32)
    assert result.dtype is getattr(torch, dtype)
    assert bool(result.any())


@pytest.mark.parametrize("dtype", ["int8", "float8", "float8_e4m3fn"])
def test_narrow_products_work_or_say_why_not(backend: TorchBackend, cpu: Device, dtype: str) -> None:
    """Not every device has them: then it is a usage error that names the device."""
    try:
        product = backend.matmul(cpu, dtype, 64)
    except RooflineUsageError as error:
        assert "cpu does not multiply" in str(error)  # noqa: PT017 - either end is right
    else:
        product()


def test_an_unknown_dtype_lists_the_known_ones(backend: TorchBackend, cpu: Device) -> None:
    """Wrong use, with what is right."""
    with pytest.raises(RooflineUsageError, match=r"'fp32'; known: float64, float32, bfloat16"):
        backend.matmul(cpu, "fp32", 32)
    with pytest.raises(RooflineUsageError, match="size of 1 or more"):
        backend.matmul(cpu, "float32", 0)


def test_on_the_cpu_nothing_is_ever_pending(backend: TorchBackend) -> None:
    """No context, no marker, and a drain that returns."""
    assert backend.has_context() is False
    assert backend.mark() is None
    backend.drain()
    backend.submit(torch.ones(1))


def test_a_device_that_this_build_cannot_drive_is_an_error(backend: TorchBackend) -> None:
    """A CPU build says so when an accelerator is asked for."""
    device = Device(name="x", kind="cuda", backend="torch")
    for ask in (
        lambda: backend.kernels(device, "read", 4096),
        lambda: backend.matmul(device, "float32", 4),
        lambda: backend.conditions(device),
        lambda: backend.free_memory_bytes(device),
    ):
        with pytest.raises(DeviceUnavailable, match="built without accelerators"):
            ask()


def test_the_trace_is_left_to_the_models_room(backend: TorchBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes there unchanged, and the answer comes back."""
    import sys
    from types import ModuleType

    room = ModuleType("pytest_roofline.models.module")
    room.trace_module = lambda request: ("traced", request)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pytest_roofline.models.module", room)
    request = TraceRequest(step=lambda: None)
    assert backend.trace(request) == ("traced", request)
