"""roofline.kernel on real torch: eager, compiled and opaque kernels, traced and declared, cold and hot."""

from __future__ import annotations

import ctypes
import shutil
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402
from pytest_roofline.session import Session  # noqa: E402

LENGTH = 2**22
SECONDS = 0.3


@pytest.fixture(scope="module")
def roofline() -> Instrument:
    """One probe for all of them."""
    return Instrument(Session(added_backends=[TorchBackend()]))


def measured(roofline: Instrument, kernel: Any, **given: Any) -> Any:
    """A short measurement on the processor; how fast it was is the machine's mood."""
    result = roofline.kernel(kernel, max_time_s=SECONDS, device="cpu", **given)
    assert result.verdict.outcome != "bogus"
    return result


@pytest.fixture(scope="module")
def opaque() -> Any:
    """An operation of an extension: a copy by the C library, of which a trace sees the name."""

    @torch.library.custom_op("roofline_tests::copy_to", mutates_args=("target",))  # type: ignore[misc]
    def copy_to(source: torch.Tensor, target: torch.Tensor) -> None:
        ctypes.memmove(target.data_ptr(), source.data_ptr(), source.nbytes)

    return copy_to


def test_an_eager_kernel_is_traced(roofline: Instrument) -> None:
    """Nothing is declared: a copy reads what it writes, and a product reads its matrix."""
    source, target = torch.randn(LENGTH), torch.empty(LENGTH)
    copied = measured(roofline, lambda: target.copy_(source)).traffic
    assert (copied.bytes_per_pass, copied.written_bytes_per_pass) == (2 * source.nbytes, source.nbytes)
    matrix, vector = torch.randn(2048, 2048), torch.randn(2048)
    product = measured(roofline, lambda: torch.mv(matrix, vector)).traffic
    assert product.bytes_per_pass == pytest.approx(matrix.nbytes, rel=0.01)
    assert product.is_closed


def test_an_extension_that_fills_a_copy_is_not_accused(roofline: Instrument) -> None:
    """It reads what no trace sees: the copy alone is not all that was moved, and undeclared it is refused."""
    source, hidden = torch.randn(LENGTH), torch.randn(LENGTH)

    def kernel() -> Any:
        made = source.clone()
        ctypes.memmove(made.data_ptr(), hidden.data_ptr(), hidden.nbytes)
        return made

    result = measured(roofline, kernel, bytes_read=2 * source.nbytes, bytes_written=2 * source.nbytes)
    assert "bytes-disagree" not in [finding.check for finding in result.findings if finding.severity == "bogus"]
    with pytest.raises(RooflineUsageError, match="written behind the last traced operation"):
        measured(roofline, kernel)


def test_a_small_kernel_is_kept_cold_and_may_be_judged_hot(roofline: Instrument) -> None:
    """Cold, the caches are evicted between calls; hot, it is held against the cache and says so."""
    source, target = torch.randn(2**16), torch.empty(2**16)
    cold = measured(roofline, lambda: target.copy_(source))
    assert any("the caches are evicted between calls" in note for note in cold.notes)
    assert cold.ceiling.bandwidth_source == "copy"
    hot = measured(roofline, lambda: target.copy_(source), cache="hot")
    assert hot.ceiling.bandwidth_source == "cache"
    assert hot.evidence.is_cache_hot


def test_rotated_inputs_are_arguments(roofline: Instrument) -> None:
    """Where they exceed the caches nothing is evicted, and a call has its arguments."""
    given = [(torch.randn(LENGTH),) for _ in range(16)]
    seen: set[int] = set()

    def total(one: Any) -> Any:
        seen.add(one.data_ptr())
        return one.sum()

    result = measured(roofline, total, inputs=given)
    assert result.traffic.bytes_per_pass == pytest.approx(4 * LENGTH, rel=0.01)
    assert len(seen) > 1


def test_a_kernel_that_does_not_read_its_inputs_is_bogus(roofline: Instrument) -> None:
    """Rotated inputs make no cold kernel of one that reads a buffer of its own: its output does not follow them."""
    given = [(torch.randn(LENGTH),) for _ in range(8)]
    own = torch.randn(LENGTH)
    with pytest.raises(BogusMeasurement, match="fresh values at the same address gave the same output"):
        measured(roofline, lambda one: own * 2, inputs=given, bytes_read=own.nbytes, bytes_written=own.nbytes)
    honest = measured(roofline, lambda one: one * 2, inputs=given, bytes_read=own.nbytes, bytes_written=own.nbytes)
    assert honest.evidence.work.fresh_input.is_identical is False


def test_an_opaque_kernel_needs_declared_bytes(roofline: Instrument, opaque: Any) -> None:
    """The message names the operation that no trace looks into, and what to give."""
    source, target = torch.randn(LENGTH), torch.empty(LENGTH)

    def step() -> Any:
        opaque(source, target)
        return target

    with pytest.raises(RooflineUsageError) as raised:
        measured(roofline, step)
    first, *rest = str(raised.value).splitlines()
    assert first == (
        "the bytes of this kernel cannot be traced, only 16.8 MB were seen (roofline_tests::copy_to is not an "
        "operation whose reads are known): give bytes_read= and bytes_written="
    )
    assert "likely: a Triton or CUDA kernel" in rest[0] and "for a copy of n bytes, n and n" in rest[1]
    result = measured(roofline, step, bytes_read=source.nbytes, bytes_written=source.nbytes)
    assert result.traffic.bytes_per_pass == 2 * source.nbytes
    assert not result.evidence.traced.is_closed
    assert any("the trace is open" in text for text in result.not_checked)


def test_a_call_into_a_library_needs_declared_bytes(roofline: Instrument) -> None:
    """Nothing at all is seen of it, and it returns nothing; declared, it is measured."""
    source, target = torch.randn(LENGTH), torch.zeros(LENGTH)

    def step() -> None:
        ctypes.memmove(target.data_ptr(), source.data_ptr(), source.nbytes)

    with pytest.raises(RooflineUsageError, match="cannot be traced, no bytes were seen"):
        measured(roofline, step)
    result = measured(roofline, step, bytes_read=source.nbytes, bytes_written=source.nbytes)
    assert result.traffic.written_share == 0.5
    assert torch.equal(source, target)


@pytest.fixture
def compiles() -> None:
    """Skips where nothing on this machine compiles what torch generates."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("torch.compile needs a compiler")
    try:
        torch.compile(lambda one: one + 1)(torch.ones(8))
    except Exception as error:  # broad: whatever a compiler, its headers or a cache folder may lack
        pytest.skip(f"torch.compile does not work here: {type(error).__name__}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.usefixtures("compiles")
def test_a_compiled_function_is_traced_as_the_eager_one_and_compiled_before_it_is_timed(roofline: Instrument) -> None:
    """Its compulsory bytes are those of the eager program, and no sample holds a compilation."""
    source = torch.randn(LENGTH)
    fused = torch.compile(lambda one: one * 2 + 1)
    result = measured(roofline, lambda: fused(source))
    assert result.traffic.bytes_per_pass == 2 * source.nbytes
    assert [sample.compiled for sample in result.samples if sample.compiled] == []
    assert torch.allclose(result.outputs, source * 2 + 1)
