"""What lies in the tensors of a traced step: pages on the CPU, values on an accelerator, and real verdicts on both."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.errors import BogusMeasurement  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402
from pytest_roofline.models.surveyor import TensorSurveyor, _survey_values  # noqa: E402
from pytest_roofline.protocol import TraceRequest  # noqa: E402
from pytest_roofline.residency import Survey  # noqa: E402
from pytest_roofline.session import Session  # noqa: E402
from pytest_roofline.settings import Settings, parse_budget  # noqa: E402

SIDE = 2048
BYTES = 4 * SIDE * SIDE
needs_pagemap = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not os.access("/proc/self/pagemap", os.R_OK), reason="needs a pagemap"
)


def untouched(rows: int = SIDE) -> Any:
    """A matrix that was never written: memory of its own, where calloc may hand out what was written before."""
    mapping = mmap.mmap(-1, 4 * rows * SIDE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(mapping, dtype=torch.float32).view(rows, SIDE)


def survey(weights: Any) -> Any:
    """Trace a product with these weights, run it again, look."""
    hidden = torch.randn(SIDE)
    trace = TorchBackend().trace(TraceRequest(step=lambda: weights @ hidden))
    assert trace is not None
    assert trace.traffic.is_closed
    assert trace.surveyor is not None
    weights @ hidden
    return trace.surveyor.survey()


@needs_pagemap
def test_weights_that_were_never_written_are_found() -> None:
    """All of them, to a page at either end."""
    assert survey(untouched()).untouched_bytes == pytest.approx(BYTES, rel=0.01)


def from_file(folder: Path, *, shared: bool) -> Any:
    """Weights mapped from a file, as safetensors has them."""
    path = folder / "weights.bin"
    path.write_bytes(torch.randn(SIDE, SIDE).numpy().tobytes())
    return torch.from_file(str(path), shared=shared, size=SIDE * SIDE).view(SIDE, SIDE)


def written_late(_: Path) -> Any:
    """Allocated empty, and filled afterwards."""
    return torch.empty(SIDE, SIDE).normal_()


@needs_pagemap
@pytest.mark.parametrize(
    "made",
    [
        lambda _: torch.randn(SIDE, SIDE),
        lambda _: torch.zeros(SIDE, SIDE),  # torch writes its zeros
        written_late,
        lambda folder: from_file(folder, shared=False),
        lambda folder: from_file(folder, shared=True),
        lambda _: torch.randn(SIDE, SIDE).share_memory_(),
        lambda _: untouched().share_memory_(),  # copied, hence written
        lambda _: untouched() + 0.0,
        lambda _: torch.randn(SIDE, SIDE).t(),
    ],
    ids=["drawn", "zeros", "empty-filled", "file", "file-shared", "shared", "shared-zeros", "computed", "transposed"],
)
def test_honest_weights_are_not_accused(made: Callable[[Path], Any], tmp_path: Path) -> None:
    """Drawn, written zeros, filled late, mapped, shared, computed, transposed."""
    assert survey(made(tmp_path)).untouched_bytes == 0


@needs_pagemap
def test_weights_that_are_gone_are_not_looked_at() -> None:
    """The trace keeps nothing alive, and what replaced them is another tensor."""
    held = {"w": untouched()}
    hidden = torch.randn(SIDE)
    trace = TorchBackend().trace(TraceRequest(step=lambda: held["w"] @ hidden))
    assert trace is not None
    assert trace.surveyor is not None
    held["w"] = torch.randn(SIDE, SIDE)
    found = trace.surveyor.survey()
    assert found is None or found.untouched_bytes == 0


def test_without_a_look_at_pages_nothing_is_known() -> None:
    """The tracer alone knows no kernel."""
    from pytest_roofline.models.module import trace_module

    weights, hidden = untouched(), torch.randn(SIDE)
    trace = trace_module(TraceRequest(step=lambda: weights @ hidden))
    assert trace.surveyor is not None
    assert trace.surveyor.survey() is None


# -- values, as they are looked at on an accelerator ---------------------------------------------------------------


def values(*tensors: Any) -> Survey:
    """Survey whole tensors by their values; on the CPU here, which a real survey does not do."""
    found = _survey_values([(each.untyped_storage(), [(0, each.nbytes)]) for each in tensors])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("made", "share", "words"),
    [
        (lambda: [torch.zeros(SIDE, SIDE, dtype=torch.bfloat16)], 1.0, "zeros"),
        (lambda: [torch.full((SIDE, SIDE), 0.02, dtype=torch.bfloat16)], 1.0, "one value"),
        (lambda: [torch.arange(SIDE * SIDE, dtype=torch.int32)], 1.0, "a regular pattern"),
        (lambda: [torch.randn(SIDE, SIDE, dtype=torch.bfloat16)], 0.0, ""),
        (lambda: [torch.randn(SIDE, SIDE).half()], 0.0, ""),
        (lambda: [torch.randint(-128, 127, (SIDE, SIDE), dtype=torch.int8)], 0.0, ""),
        (lambda: [torch.randint(-1, 2, (SIDE, SIDE), dtype=torch.int8)], 0.0, ""),
        (lambda: [torch.randn(SIDE, SIDE), torch.zeros(SIDE)], 0.0, ""),  # with a bias of zeros
        (lambda: [torch.randn(SIDE, SIDE), torch.zeros(SIDE, SIDE)], 0.5, "zeros"),
    ],
)
def test_values_are_told_from_patterns(made: Callable[[], list[Any]], share: float, words: str) -> None:
    """Constants and sequences, and weights of several kinds."""
    tensors = made()
    found = values(*tensors)
    total = sum(each.nbytes for each in tensors)
    assert found.predictable_bytes == pytest.approx(share * total, abs=0.08 * total)
    assert found.pattern == words
    assert found.sampled <= 32


def test_what_cannot_be_looked_into_is_not_known() -> None:
    """A storage without data."""
    ghost = torch.empty(SIDE, device="meta")
    assert _survey_values([(ghost.untyped_storage(), [(0, ghost.nbytes)])]) is None
    assert TensorSurveyor([]).survey() is None


# -- verdicts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session() -> Session:
    """One session, and so one probe."""
    return Session()


@needs_pagemap
def test_a_decode_of_untouched_weights_never_passes(session: Session) -> None:
    """Real zero pages on this machine: no verdict or a bogus one, and untouched memory is why."""
    weights, hidden = untouched(8 * SIDE), torch.randn(SIDE)
    settings = Settings(max_time_s=2.0, at_least=parse_budget({"cpu": 0.05}, "test"), device="cpu")
    roofline = Instrument(session, settings)
    try:
        verdict = roofline.decode(lambda: torch.mv(weights, hidden), traffic=weights.nbytes).verdict
    except BogusMeasurement as error:
        verdict = error.verdict  # type: ignore[assignment]
    assert verdict.outcome in ("bogus", "inconclusive")
    found = next(finding for finding in verdict.findings if finding.check == "untouched-memory")
    assert found.severity == verdict.outcome
    assert "never written" in found.message


def test_a_decode_of_written_weights_hears_nothing_of_it(session: Session) -> None:
    """The same, once written."""
    weights, hidden = untouched(8 * SIDE).normal_(), torch.randn(SIDE)
    result = Instrument(session, Settings(max_time_s=2.0)).decode(
        lambda: torch.mv(weights, hidden), traffic=weights.nbytes
    )
    assert not {"untouched-memory", "predictable-data"} & {finding.check for finding in result.findings}
    assert result.verdict.outcome != "bogus"
