"""Programs that compile, capture or set up inside of what is measured: named, on the fake and on real compilers."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.compile_logs import CompileLogs
from pytest_roofline.errors import BelowCeiling
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

WEIGHTS = 4e9
ASKING = Settings(at_least=parse_budget(0.6, "test"))


def place(settings: Settings = ASKING) -> tuple[FakeBackend, FakeModel, Instrument]:
    """A fake device, a model at 80 % of it, and an instrument that asks for 60 %."""
    backend = FakeBackend()
    return backend, FakeModel(backend, WEIGHTS), Instrument(Session(added_backends=[backend]), settings)


def messages(result: Result, check: str = "compiled-in-window") -> list[tuple[str, str]]:
    """Severity and message of what one check found."""
    return [(finding.severity, finding.message) for finding in result.findings if finding.check == check]


def test_a_compilation_inside_the_window_of_an_audit_is_unsure() -> None:
    """32 passes take 160 ms, and the window 660: the budget is missed by what was compiled."""
    backend, model, roofline = place()
    with roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        backend.compile(0.5, "forward")
        for _ in range(32):
            model.step()
        backend.synchronize()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "inconclusive"
    ((severity, message),) = messages(audit.result)
    assert severity == "inconclusive"
    assert message.startswith("1 compilation (fake compiler (forward)) inside the window: 500 ms, 76 % of the window")
    assert message.endswith("without it the fraction is 80 %, the test asks for 60 %")


def test_a_compilation_before_the_window_is_nobodys() -> None:
    """Warmed up first: nothing to say."""
    backend, model, roofline = place()
    with roofline.audit(traffic=WEIGHTS) as audit:
        backend.compile(0.5)
        start = time.perf_counter()
        for _ in range(32):
            model.step()
        backend.synchronize()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "passed"
    assert messages(audit.result) == []


def test_a_graph_captured_inside_the_window_is_noted() -> None:
    """A capture costs little here, and is named all the same."""
    backend, model, roofline = place()
    with roofline.audit(traffic=WEIGHTS) as audit:
        start = time.perf_counter()
        graph = backend.graph(model.step)
        for _ in range(32):
            graph.replay()
        backend.synchronize()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "passed"
    ((severity, message),) = messages(audit.result)
    assert severity == "note"
    assert "graph capture" in message


def test_a_first_pass_that_sets_up_is_seen_without_a_log() -> None:
    """A watched step whose first call autotunes for half a second; no compiler tells of it."""
    backend, model, roofline = place()
    calls: list[int] = []

    def step() -> object:
        if not calls:
            backend.host(0.5)
        calls.append(1)
        return model.step().item()

    with roofline.audit(traffic=WEIGHTS) as audit:
        watched = audit.watch(step)
        start = time.perf_counter()
        for _ in range(32):
            watched()
        audit.claim(tokens=32, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome == "inconclusive"
    ((_, message),) = messages(audit.result)
    assert message.startswith("the first pass of the window took 505 ms, the later ones 5.0")


def test_decode_warms_up_past_the_compilation() -> None:
    """What the first call compiles is over when the samples are taken."""
    backend, model, roofline = place()
    calls: list[int] = []

    def step() -> object:
        if not calls:
            backend.compile(0.5)
        calls.append(1)
        return model.step()

    result = roofline.decode(step, traffic=WEIGHTS, reset=model.reset)
    assert result.verdict.outcome == "passed"
    assert messages(result) == []


def test_decode_marks_samples_that_compiled() -> None:
    """One pass in a while compiles for long: its samples are marked, and a note says so."""
    backend, model, roofline = place(Settings())
    calls: list[int] = []

    def step() -> object:
        calls.append(1)
        if len(calls) % 97 == 0:
            backend.compile(0.01, "new length")
        return model.step()

    result = roofline.decode(step, traffic=WEIGHTS, reset=model.reset)
    assert result.verdict.outcome == "passed"
    ((severity, message),) = messages(result)
    assert severity == "note"
    assert "fake compiler (new length)" in message
    assert any(sample.compiled is not None for sample in result.samples)
    assert any(sample.compiled is None for sample in result.samples)


def test_a_step_that_compiles_each_pass_is_slow_by_itself() -> None:
    """Every sample compiled: the budget is missed, and the note names the cause."""
    backend, model, roofline = place()

    def step() -> object:
        backend.compile(0.02, "growing length")
        return model.step()

    with pytest.raises(BelowCeiling, match="compiling is what this step does"):
        raise_of(roofline, step, model)


def raise_of(roofline: Instrument, step: Any, model: FakeModel) -> None:
    """Measure, and raise what the verdict calls for."""
    from pytest_roofline.verdict import error_of

    result = roofline.decode(step, traffic=WEIGHTS, reset=model.reset)
    error = error_of(result.evidence, result.verdict)
    assert error is not None
    raise error


# -- real compilers -----------------------------------------------------------------------------------------------


def test_jax_tells_what_it_compiled() -> None:
    """A new shape compiles, the same shape does not; after the log nothing is left listening."""
    jax = pytest.importorskip("jax")
    from pytest_roofline.backends.jax import JaxBackend

    backend = JaxBackend()
    double = jax.jit(lambda value: value * 2 + 1)
    monitoring = sys.modules["jax._src.monitoring"]
    listeners = list(getattr(monitoring, "_event_duration_secs_listeners", []))
    with CompileLogs([backend]) as logs:
        value = jax.numpy.ones(37)
        value.block_until_ready()
        before = len(logs.entries())
        start = backend.clock()
        double(value).block_until_ready()
        end = backend.clock()
        first = logs.entries()[before:]
        double(value).block_until_ready()
        assert len(logs.entries()) == before + len(first)
    assert len(first) == 1
    assert start <= first[0].start_s < first[0].end_s <= end
    assert first[0].what.startswith("jax.jit")
    assert list(getattr(monitoring, "_event_duration_secs_listeners", [])) == listeners
    count = len(logs.entries())
    double(jax.numpy.ones(38)).block_until_ready()
    assert len(logs.entries()) == count


def test_torch_tells_what_it_compiled() -> None:
    """A compiled function compiles at its first call and again for another type; the callbacks are taken out."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo")
    from pytest_roofline.backends.torch import TorchBackend

    handler = sys.modules["torch._dynamo.callback"].callback_handler
    callbacks = (list(handler.start_callbacks), list(handler.end_callbacks))
    backend = TorchBackend()
    double = torch.compile(lambda value: value * 2 + 1, backend="eager")
    with CompileLogs([backend]) as logs:
        start = backend.clock()
        double(torch.ones(4))
        end = backend.clock()
        (first,) = logs.entries()
        double(torch.ones(4))
        assert len(logs.entries()) == 1
        double(torch.ones(4, dtype=torch.int64))
        again = logs.entries()[1:]
    assert start <= first.start_s <= first.end_s <= end
    assert first.what.startswith("torch.compile (graph ")
    assert len(again) == 1
    assert "compiled again" in again[0].what
    assert (list(handler.start_callbacks), list(handler.end_callbacks)) == callbacks


def test_captures_of_cuda_graphs_are_seen_and_the_class_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a device the two methods are replaced by some that do nothing."""
    torch = pytest.importorskip("torch")
    from pytest_roofline.backends.torch import TorchBackend

    owner = torch.cuda.CUDAGraph
    monkeypatch.setattr(owner, "capture_begin", lambda graph, *args, **kwargs: None)
    monkeypatch.setattr(owner, "capture_end", lambda graph: "ended")
    before = (owner.capture_begin, owner.capture_end)

    class Graph:
        """Stands in for a graph, which cannot be made here."""

    graph: Any = Graph()
    with CompileLogs([TorchBackend()]) as logs:
        owner.capture_begin(graph)
        assert owner.capture_end(graph) == "ended"
        (entry,) = logs.entries()
    assert entry.what == "CUDA graph capture"
    assert (owner.capture_begin, owner.capture_end) == before
