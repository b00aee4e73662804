"""Lazy frameworks: a graph that nobody evaluates before the stop has not run, whatever was waited for."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.protocol import Forced
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9
PASSES = 32
LARGE = 768
"""32 products of this size outlast ten idle drains of a busy machine many times over."""


class Program:
    """A lazy fake device, its model and the instrument."""

    def __init__(self) -> None:
        self.backend = FakeBackend(is_lazy=True)
        self.model = FakeModel(self.backend, WEIGHTS, efficiency=0.8)
        self.roofline = Instrument(Session(added_backends=[self.backend]), Settings())

    def passes(self, count: int = PASSES) -> Any:
        """A graph of passes, each of which depends on the one before."""
        output = None
        for _ in range(count):
            output = self.model.step()
        return output


def refused(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> list[str]:
    """Names of the checks behind a bogus verdict."""
    verdict = excinfo.value.verdict
    assert verdict is not None
    return [finding.check for finding in verdict.of("bogus")]


def assert_never_evaluated(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> None:
    """The check, the cause, the line and the remedy."""
    assert refused(excinfo) == ["output-not-forced"]
    first, *rest = str(excinfo.value).split("\n")
    assert "the graph was never evaluated before the clock stopped [output-not-forced]" in first
    assert "test_lazy.py:" in first
    assert any("passes ran when the claim read the output" in line for line in rest)
    assert any("mx.eval(out) belongs before the stop" in line for line in rest)


@pytest.mark.parametrize("passes", [1, 4, 32, 512])
def test_a_synchronize_at_the_right_place_proves_nothing(passes: int) -> None:
    """It waits for what was submitted, and nothing was."""
    program = Program()
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit() as audit:
        start = time.perf_counter()
        output = program.passes(passes)
        program.backend.synchronize()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=passes, seconds=elapsed, outputs=output)
    assert_never_evaluated(excinfo)


def test_an_output_read_after_the_stop_is_left_to_the_limit() -> None:
    """Reading it evaluates the graph after the stop: the claim finds it done, and only the bytes tell."""
    program = Program()
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        output = program.passes()
        program.backend.synchronize()
        elapsed = time.perf_counter() - start
        output.item()
        audit.claim(tokens=PASSES, seconds=elapsed, outputs=output)
    assert refused(excinfo) == ["faster-than-limit"]


def test_starting_the_graph_is_not_waiting_for_it() -> None:
    """Submitted and not waited for: that is a missing drain, and named as one."""
    program = Program()
    with (
        pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo,
        program.roofline.audit() as audit,
    ):
        start = time.perf_counter()
        output = program.passes()
        program.backend.submit(output)
        elapsed = time.perf_counter() - start
        audit.claim(tokens=PASSES, seconds=elapsed, outputs=output)
    assert refused(excinfo) == ["not-drained"]


def test_samples_of_building_a_graph() -> None:
    """Each sample is the time of describing a pass."""
    program = Program()
    samples = []
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit() as audit:
        for _ in range(PASSES):
            start = time.perf_counter()
            output = program.passes(1)
            program.backend.synchronize()
            samples.append(time.perf_counter() - start)
        audit.claim(tokens=PASSES, samples=samples, outputs=output)
    assert_never_evaluated(excinfo)


def test_a_stated_window_around_a_graph() -> None:
    """The tool drains behind the window, which is not enough either: the output is forced at the claim."""
    program = Program()
    with pytest.raises(BogusMeasurement, match="never evaluated") as excinfo, program.roofline.audit() as audit:
        with audit.window():
            start = time.perf_counter()
            output = program.passes()
            elapsed = time.perf_counter() - start
        audit.claim(tokens=PASSES, seconds=elapsed, outputs=output)
    assert refused(excinfo) == ["output-not-forced"]


def test_a_watched_step_is_submitted_pass_by_pass() -> None:
    """A lazy loop that is watched runs, and is found running when its clock stopped."""
    program = Program()
    with (
        pytest.raises(BogusMeasurement, match="missing synchronization") as excinfo,
        program.roofline.audit() as audit,
    ):
        step = audit.watch(program.model.step)
        start = time.perf_counter()
        for _ in range(PASSES):
            step()
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start)
    assert refused(excinfo) == ["not-drained"]


def test_results_dropped_unread_are_said_to_be_unseen() -> None:
    """Nothing of them can be seen, so nobody is accused; the result says what would make them seen."""
    program = Program()
    with program.roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(1000):
            program.model.step()
        audit.claim(tokens=1000, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "passed"
    assert any("dropped unread cannot be seen: pass outputs=" in what for what in audit.result.not_checked)


def test_the_limit_catches_what_was_dropped_unread() -> None:
    """With the bytes of a pass given, a thousand of them in no time are impossible."""
    program = Program()
    with pytest.raises(BogusMeasurement) as excinfo, program.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        for _ in range(1000):
            program.model.step()
        audit.claim(tokens=1000, seconds=time.perf_counter() - start)
    assert refused(excinfo) == ["faster-than-limit"]


class CompilingReads(FakeBackend):
    """A lazy device that compiles a program to read an output with: the first read takes a while, later ones do not."""

    def __init__(self, *, can_evaluate: bool = True) -> None:
        super().__init__(is_lazy=True)
        self.can_evaluate = can_evaluate
        self.has_compiled = False

    def evaluate(self, output: Any) -> bool:
        """Compute it, and read nothing."""
        if self.can_evaluate:
            super().force(output)
        return self.can_evaluate

    def force(self, output: Any) -> Forced:
        """Read it."""
        if not self.has_compiled:
            self.has_compiled = True
            self.host(2.0)
        return super().force(output)


def test_compiling_the_first_read_is_no_work_of_the_test() -> None:
    """An output that was computed before the stop is computed, however long its first read takes."""
    backend = CompilingReads()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    with Instrument(Session(added_backends=[backend]), Settings()).audit() as audit:
        start = time.perf_counter()
        for _ in range(PASSES):
            output = model.step()
        backend.submit(output)
        backend.synchronize()
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start, outputs=output)
    assert audit.result.verdict.outcome == "passed"


@pytest.mark.parametrize("can_evaluate", [True, False])
def test_a_graph_that_is_computed_by_its_first_read_is_bogus(can_evaluate: bool) -> None:
    """Asked to compute it, or, where the device cannot be asked, to read it: that takes the work's time."""
    backend = CompilingReads(can_evaluate=can_evaluate)
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    roofline = Instrument(Session(added_backends=[backend]), Settings())
    with pytest.raises(BogusMeasurement) as excinfo, roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(PASSES):
            output = model.step()
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start, outputs=output)
    assert_never_evaluated(excinfo)


@pytest.mark.parametrize("passes", [1, 32])
def test_an_evaluated_graph_is_believed(passes: int) -> None:
    """Forced before the stop: forcing it again takes what an idle one takes."""
    program = Program()
    with program.roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        output = program.passes(passes)
        output.item()
        audit.claim(tokens=passes, seconds=time.perf_counter() - start, outputs=output)
    assert audit.result.verdict.outcome == "passed"
    assert float(audit.result.fraction or 0) == pytest.approx(0.8, rel=0.02)


def test_one_pass_of_look_ahead_is_honest() -> None:
    """The next pass is described while this one is evaluated; it is read when the claim is made."""
    program = Program()
    with program.roofline.audit() as audit:
        start = time.perf_counter()
        output = program.passes()
        ahead = program.passes(1)
        output.item()
        audit.claim(tokens=PASSES, seconds=time.perf_counter() - start, outputs=(output, ahead))
    assert audit.result.verdict.outcome == "passed"


def test_decode_submits_each_pass() -> None:
    """The tool's own loop measures a lazy model at its efficiency."""
    program = Program()
    result = program.roofline.decode(program.model.step, model=program.model, reset=program.model.reset)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction or 0) == pytest.approx(0.8, rel=0.03)


# -- real frameworks ----------------------------------------------------------------------------------------------


def test_mlx_synchronize_proves_nothing(roofline: Instrument) -> None:
    """32 products and a synchronize; evaluating them takes the time."""
    mx = pytest.importorskip("mlx.core")
    weights = mx.random.normal((LARGE, LARGE))
    mx.eval(weights)
    with pytest.raises(BogusMeasurement) as excinfo, roofline.audit() as audit:
        state = mx.ones((LARGE, LARGE))
        start = time.perf_counter()
        for _ in range(32):
            state = mx.tanh(weights @ state)
        mx.synchronize()
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed, outputs=state)
    assert_never_evaluated(excinfo)


@pytest.fixture(scope="module")
def lazy_device() -> str:
    """The TorchScript device of torch, which this process may start once."""
    backend = pytest.importorskip("torch._lazy.ts_backend")
    try:
        backend.init()
    except RuntimeError as error:
        pytest.skip(f"no lazy device here: {str(error).splitlines()[0]}")
    return "lazy"


def test_a_lazy_device_of_torch(roofline: Instrument, lazy_device: str) -> None:
    """An eager framework with a lazy device: its tensors are evaluated when their values are asked for."""
    torch = pytest.importorskip("torch")
    weights = torch.randn(LARGE, LARGE, device=lazy_device)
    torch._lazy.mark_step(wait=True)
    with pytest.raises(BogusMeasurement) as excinfo, roofline.audit() as audit:
        state = torch.ones(LARGE, LARGE, device=lazy_device)
        start = time.perf_counter()
        for _ in range(32):
            state = torch.tanh(weights @ state)
        elapsed = time.perf_counter() - start
        audit.claim(tokens=32, seconds=elapsed, outputs=state)
    assert_never_evaluated(excinfo)


def test_a_lazy_device_of_torch_that_was_stepped(roofline: Instrument, lazy_device: str) -> None:
    """The same with a step of the device before the stop is believed."""
    torch = pytest.importorskip("torch")
    weights = torch.randn(256, 256, device=lazy_device)
    torch._lazy.mark_step(wait=True)
    with roofline.audit() as audit:
        state = torch.ones(256, 256, device=lazy_device)
        start = time.perf_counter()
        for _ in range(32):
            state = torch.tanh(weights @ state)
        torch._lazy.mark_step(wait=True)
        audit.claim(tokens=32, seconds=time.perf_counter() - start, outputs=state)
    assert audit.result.verdict.outcome == "passed"
