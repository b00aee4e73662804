"""roofline.kernel around real Triton kernels, which Triton's own interpreter runs on the processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if find_spec("triton") is None:
    # No gap of CI's environments: their torch is the one for processors, which comes without it.
    pytest.skip("triton is not installed", allow_module_level=True)
triton, tl = import_module("triton"), import_module("triton.language")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402
from pytest_roofline.session import Session  # noqa: E402

LENGTH = 2**18
ROWS, WIDTH = 8, 64


@pytest.fixture(scope="module")
def roofline() -> Instrument:
    """One probe for all of them."""
    return Instrument(Session(added_backends=[TorchBackend()]))


@pytest.fixture(scope="module", autouse=True)
def interpreted() -> Iterator[None]:
    """Kernels that are made meanwhile need no GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        yield


@pytest.fixture(scope="module")
def copied(interpreted: None) -> Callable[[Any, Any], None]:
    """Copies one tensor into another."""

    @triton.jit  # type: ignore[misc]
    def copy_kernel(source, target, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)

    return lambda source, target: copy_kernel[(1,)](source, target, LENGTH, block=LENGTH)


@pytest.fixture(scope="module")
def normed(interpreted: None) -> Callable[[Any, Any, Any], None]:
    """RMSNorm, a row for each program."""

    @triton.jit  # type: ignore[misc]
    def rms_norm_kernel(source, gain, target, width: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, width)
        row = tl.load(source + tl.program_id(0) * width + at)
        total = 0.0
        for one in range(width):  # tl.sum is a kernel of its own, and interpreted only where Triton was imported so
            value = tl.load(source + tl.program_id(0) * width + one)
            total += value * value
        scale = 1 / tl.sqrt(total / width + 1e-6)
        tl.store(target + tl.program_id(0) * width + at, row * scale * tl.load(gain + at))

    return lambda source, gain, target: rms_norm_kernel[(ROWS,)](source, gain, target, width=WIDTH)


def measured(roofline: Instrument, kernel: Any, **given: Any) -> Any:
    """A short measurement; an interpreter is slow, so nothing is asked of the fraction."""
    return roofline.kernel(kernel, max_time_s=1.5, device="cpu", **given)


def test_a_copy_with_declared_bytes_is_measured(roofline: Instrument, copied: Callable[..., None]) -> None:
    """n read and n written; nothing of it was traced, and nobody is accused."""
    source, target = torch.randn(LENGTH), torch.empty(LENGTH)

    def step() -> Any:
        copied(source, target)
        return target

    result = measured(roofline, step, bytes_read=source.nbytes, bytes_written=source.nbytes)
    assert torch.equal(source, target)
    assert result.traffic.bytes_per_pass == 2 * source.nbytes
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert not result.evidence.traced.is_closed
    assert any("the trace is open" in line for line in result.not_checked), result.not_checked


def test_a_norm_with_declared_bytes_is_measured(roofline: Instrument, normed: Callable[..., None]) -> None:
    """Its values are those of torch."""
    source, gain, target = torch.randn(ROWS, WIDTH), torch.rand(WIDTH), torch.empty(ROWS, WIDTH)

    def step() -> Any:
        normed(source, gain, target)
        return target

    result = measured(roofline, step, bytes_read=source.nbytes + gain.nbytes, bytes_written=target.nbytes)
    torch.testing.assert_close(target, torch.nn.functional.rms_norm(source, (WIDTH,), gain, eps=1e-6))
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert result.traffic.written_bytes_per_pass == target.nbytes


@pytest.mark.parametrize("made", ["before", "cleared", "copied"])
def test_without_declared_bytes_the_kernel_is_named(
    roofline: Instrument, copied: Callable[..., None], made: str
) -> None:
    """Whether it fills memory of before, memory that torch has just cleared, or a copy that torch made."""
    source, kept = torch.randn(LENGTH), torch.empty(LENGTH)

    def step() -> Any:
        target = {"before": lambda: kept, "cleared": lambda: torch.zeros(LENGTH), "copied": kept.clone}[made]()
        copied(source, target)
        return target

    with pytest.raises(RooflineUsageError) as raised:
        measured(roofline, step)
    first = str(raised.value).splitlines()[0]
    assert first.startswith("the bytes of this kernel cannot be traced, ")
    assert first.endswith(
        "(copy_kernel is a Triton kernel, whose reads are not known): give bytes_read= and bytes_written="
    )


def test_what_a_kernel_reads_unseen_accuses_nobody(roofline: Instrument, copied: Callable[..., None]) -> None:
    """A copy that torch made is overwritten: with the kernel's own bytes twice what a trace can see."""
    source, kept = torch.randn(LENGTH), torch.randn(LENGTH)

    def step() -> Any:
        target = kept.clone()
        copied(source, target)
        return target

    result = measured(roofline, step, bytes_read=6 * source.nbytes, bytes_written=2 * source.nbytes)
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert not any(finding.severity == "bogus" for finding in result.findings)


def test_the_launch_of_kernels_is_left_as_it_was(roofline: Instrument, copied: Callable[..., None]) -> None:
    """Also where the step raises."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    before = InterpretedFunction.run, JITFunction.run

    def broken() -> None:
        copied(torch.zeros(LENGTH), torch.zeros(LENGTH))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measured(roofline, broken)
    assert (InterpretedFunction.run, JITFunction.run) == before


def test_a_kernel_inside_of_a_registered_operation_is_named(roofline: Instrument, copied: Callable[..., None]) -> None:
    """A custom operation of torch.library; declared, it is measured."""

    @torch.library.custom_op("roofline_tests::triton_copy", mutates_args=("target",))  # type: ignore[misc]
    def triton_copy(source: torch.Tensor, target: torch.Tensor) -> None:
        copied(source, target)

    source, target = torch.randn(LENGTH), torch.empty(LENGTH)

    def step() -> Any:
        triton_copy(source, target)
        return target

    with pytest.raises(RooflineUsageError, match=r"copy_kernel is a Triton kernel, whose reads are not known"):
        measured(roofline, step)
    result = measured(roofline, step, bytes_read=source.nbytes, bytes_written=source.nbytes)
    assert result.traffic.written_share == 0.5
    assert torch.equal(source, target)
