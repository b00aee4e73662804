"""MLX runs what is submitted, in the order of each stream; drain, mark and force stand behind it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")

from pytest_roofline.backends.mlx import MlxBackend  # noqa: E402
from pytest_roofline.device import PATTERNS  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402
from pytest_roofline.protocol import Backend, TraceRequest  # noqa: E402


class Order:
    """Stamps the end of MLX work by reading it on the backend's clock."""

    def __init__(self) -> None:
        self.backend = MlxBackend()
        self.matrix = mx.random.normal((200, 200))
        mx.eval(self.matrix)

    def work(self, stream: Any = None) -> Any:
        """A graph of some products, not submitted."""
        value = self.matrix
        for _ in range(8):
            value = mx.tanh(mx.matmul(value, self.matrix, stream=stream), stream=stream)
        return value


@pytest.fixture
def order() -> Order:
    """A backend and work for it."""
    return Order()


def test_it_is_a_backend() -> None:
    """Every verb of the protocol is there, and nothing is traced."""
    backend = MlxBackend()
    assert isinstance(backend, Backend)
    assert backend.has_context()
    backend.prepare()  # nothing to do, and nothing that could go wrong
    assert backend.trace(TraceRequest(step=lambda: None)) is None
    assert "cpu" in [device.id for device in backend.devices()]


def test_a_drain_waits_for_the_default_stream(order: Order) -> None:
    """After a drain of submitted work, a marker behind it finds nothing more to wait for than itself."""
    output = order.work()
    order.backend.submit({"logits": [output], "text": "x"})
    marker = order.backend.mark()
    order.backend.drain()
    drained_s = order.backend.clock()
    late = order.backend.mark()
    assert marker is not None
    assert late is not None
    assert marker.finished_s() <= late.finished_s()
    assert drained_s <= late.finished_s()


def test_a_stream_that_the_test_holds_is_drained(order: Order) -> None:
    """A stream with a name in a running function is found, and so is its dropped work."""
    stream = mx.new_stream(mx.cpu)
    assert stream in order.backend._streams()
    order.backend.submit(order.work(stream))
    order.backend.drain()
    before_s = order.backend.clock()
    mx.synchronize(stream)
    assert order.backend.clock() >= before_s


def test_markers_are_stamped_in_order(order: Order) -> None:
    """The stamp behind work lies after its submission, and before the stamp behind later work."""
    start_s = order.backend.clock()
    order.backend.submit(order.work())
    first = order.backend.mark()
    order.backend.submit(order.work())
    second = order.backend.mark()
    assert first is not None
    assert second is not None
    assert start_s < first.finished_s() <= second.finished_s() <= order.backend.clock()


def test_force_runs_a_lazy_graph_and_counts_ids(order: Order) -> None:
    """Arrays in mappings, sequences and plain objects are evaluated; integers are ids."""

    class Holder:
        def __init__(self, inside: Any) -> None:
            self.inside = inside

    forced = order.backend.force({"logits": order.work(), "held": Holder([mx.array([1, 2, 3])]), "none": None})
    assert forced.arrays == 2
    assert forced.ids == 3
    assert order.backend.force([1, "text"]).arrays == 0
    assert order.backend.device_of([order.matrix]) in ("cpu", "gpu:0")
    assert order.backend.device_of([1]) is None


def test_kernels_run_for_every_pattern() -> None:
    """Each pattern has a kernel that counts about the bytes asked for, and can be forced."""
    backend = MlxBackend()
    device = next(device for device in backend.devices() if device.is_cpu)
    for pattern in PATTERNS:
        for kernel in backend.kernels(device, pattern, 2**20):
            assert 0.9 * 2**20 <= kernel.bytes_per_launch <= 2**20
            assert backend.force(kernel.launch()).arrays == 1
    with pytest.raises(MemoryError):
        backend.kernels(device, "read", 1e18)


def test_matmul_refuses_unknown_dtypes() -> None:
    """A product runs in floating dtypes; others are wrong use."""
    backend = MlxBackend()
    device = next(device for device in backend.devices() if device.is_cpu)
    assert backend.force(backend.matmul(device, "float32", 8)()).arrays == 1
    with pytest.raises(RooflineUsageError, match="int8"):
        backend.matmul(device, "int8", 8)


def test_asking_imports_nothing() -> None:
    """Without MLX in the process there is no context, and asking does not import it."""
    code = (
        "import sys; from pytest_roofline.backends.mlx import MlxBackend; b = MlxBackend(); b.drain();"
        "assert b.mark() is None and not b.has_context() and b.force([1]).arrays == 0;"
        "assert b.device_of([1]) is None and 'mlx.core' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=".")
