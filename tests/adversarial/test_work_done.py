"""Work that was remembered, replayed, skipped or faked, end to end; and honest programs that look like it."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings


def place(**figures: Any) -> tuple[FakeBackend, Instrument]:
    """A fake device and the instrument."""
    backend = FakeBackend(**figures)
    return backend, Instrument(Session(added_backends=[backend]), Settings())


def bogus_checks(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> set[str]:
    """Names of the checks behind a bogus verdict."""
    verdict = excinfo.value.verdict
    assert verdict is not None
    return {finding.check for finding in verdict.of("bogus")}


def work_findings(result: Result) -> list[str]:
    """What was found of the work, whatever its severity."""
    return [finding.check for finding in result.findings if finding.check in ("stale-output", "work-missing")]


# -- on the fake device -----------------------------------------------------------------------------------------------


def test_a_memo_that_takes_its_time_is_bogus() -> None:
    """At a believable speed only the work can show it: nothing is faster than the limit here."""
    backend, roofline = place()
    made: list[Any] = []

    def remember() -> Any:
        if not made:
            made.append(backend.launch(read_bytes=2e9, value=[0.25] * 64, size=64))
        backend.host(3e-3)
        return made[0]

    with pytest.raises(BogusMeasurement, match="returned an earlier pass's output and did not write it") as excinfo:
        roofline.decode(remember, traffic=2e9, passes_per_reset=100_000)
    assert bogus_checks(excinfo) == {"stale-output"}


def test_a_graph_that_writes_its_static_output_is_honest() -> None:
    """The same array each time, written anew by each replay."""
    backend, roofline = place()
    graph = backend.graph(lambda: backend.launch(read_bytes=2e9, efficiency=0.8, size=64))
    result = roofline.decode(graph.replay, traffic=2e9, passes_per_reset=100_000)
    assert result.verdict.outcome == "passed"
    assert work_findings(result) == []
    assert result.evidence.work is not None
    assert result.evidence.work.overwritten is not None
    assert result.evidence.work.overwritten.fate == "renewed"


def test_a_graph_whose_output_is_written_elsewhere_is_no_pass() -> None:
    """The buffer that is returned was filled once; what the replays do shows nowhere."""
    backend, roofline = place()
    static = backend.launch(read_bytes=2e9, size=64)
    graph = backend.graph(lambda: backend.launch(read_bytes=2e9, efficiency=0.8, size=64))

    def replay() -> Any:
        graph.replay()
        return static

    result = roofline.decode(replay, traffic=2e9, passes_per_reset=100_000)
    assert result.verdict.outcome == "inconclusive"
    assert work_findings(result) == ["stale-output"]


def test_layers_skipped_every_other_pass_are_bogus_beside_a_reference() -> None:
    """The passes in a row are held against the reference's."""
    backend, roofline = place()
    calls = [0]

    def launch(scale: float) -> Any:
        return backend.launch(read_bytes=2e9, value=[scale * index for index in range(64)], size=64)

    def step() -> Any:
        calls[0] += 1
        return launch(1.0 if calls[0] % 2 else 0.5)

    with pytest.raises(BogusMeasurement, match=r"is not the reference's: off by 0\.5 of its magnitude") as excinfo:
        roofline.decode(step, traffic=2e9, reset=lambda: None, reference=lambda: launch(1.0))
    assert bogus_checks(excinfo) == {"work-missing"}
    honest = roofline.decode(lambda: launch(1.0), traffic=2e9, reset=lambda: None, reference=lambda: launch(1.001))
    assert work_findings(honest) == []
    assert "the outputs were not compared with a reference" not in honest.not_checked


def test_the_court_costs_one_pass_and_leaves_the_state_at_its_start() -> None:
    """A reset follows, and a static cache never overflows."""
    backend, roofline = place()
    model = FakeModel(backend, 2e9, kv_bytes_per_token=1e5, context=100, max_context=140)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome != "bogus"
    assert model.context == 100
    assert any("whether the output follows the weights: give tamper=True" in line for line in result.not_checked)
    assert any("whether the output follows its input: give inputs=" in line for line in result.not_checked)


def test_a_full_cache_is_left_alone() -> None:
    """Without a reset no pass runs beyond the room."""
    backend, roofline = place()
    model = FakeModel(backend, 2e9, kv_bytes_per_token=1e5, context=0, max_context=40)
    result = roofline.decode(model.step, model=model)
    assert model.context <= 40
    assert result.verdict.outcome != "bogus"


def test_a_reference_is_asked_without_a_reset_too() -> None:
    """Within the passes that run without one; the state may differ, so that it is a doubt and not an accusation."""
    backend, roofline = place()

    def launch(scale: float) -> Any:
        return backend.launch(read_bytes=2e9, value=[scale * index for index in range(64)], size=64)

    half = roofline.decode(lambda: launch(0.5), traffic=2e9, reference=lambda: launch(1.0))
    assert half.verdict.outcome == "inconclusive"
    assert [finding.severity for finding in half.findings if finding.check == "work-missing"] == ["inconclusive"]
    honest = roofline.decode(lambda: launch(1.0), traffic=2e9, reference=lambda: launch(1.0))
    assert work_findings(honest) == []
    assert "the outputs were not compared with a reference" not in honest.not_checked


def test_a_reference_takes_no_more_than_the_room_of_a_cache() -> None:
    """Step and reference share the passes that are left over for them."""
    backend, roofline = place()
    model = FakeModel(backend, 2e9, kv_bytes_per_token=1e5, context=0, max_context=20)
    result = roofline.decode(model.step, model=model, reference=model.step)
    assert model.context <= 20
    assert result.verdict.outcome != "bogus"


def test_a_reference_must_be_callable() -> None:
    """Wrong use is said at the border."""
    backend, roofline = place()
    with pytest.raises(RooflineUsageError, match="reference is a int; it must be callable"):
        roofline.kernel(lambda: backend.launch(read_bytes=1e9), bytes_read=1e9, reference=5)  # type: ignore[arg-type]


# -- with torch -------------------------------------------------------------------------------------------------------


def test_real_torch_steps(roofline: Instrument) -> None:
    """A memo ends bogus by its output as well as by its speed; the same step without it does not."""
    torch = pytest.importorskip("torch")
    weights, hidden = torch.rand(4096, 2048), torch.rand(2048)

    @functools.lru_cache
    def remember() -> Any:
        return torch.mv(weights, hidden)

    with pytest.raises(BogusMeasurement) as excinfo:
        roofline.decode(remember, traffic=weights.nbytes, passes_per_reset=100_000)
    assert "stale-output" in bogus_checks(excinfo)
    before = weights.clone()
    result = roofline.decode(
        remember.__wrapped__,
        traffic=weights.nbytes,
        reset=lambda: None,
        tamper=True,
        reference=lambda: (weights * hidden).sum(dim=1),
    )
    assert work_findings(result) == []
    assert torch.equal(weights, before)
    assert not any("weights" in line or "reference" in line for line in result.not_checked)


def test_an_output_that_nobody_wrote_is_bogus(roofline: Instrument) -> None:
    """torch.empty may hand out the memory of the reference's result."""
    torch = pytest.importorskip("torch")
    with pytest.raises(BogusMeasurement, match="written by nobody") as excinfo:
        roofline.kernel(lambda: torch.empty(2048, 2048), bytes_read=16e6, bytes_written=16e6)
    assert "stale-output" in bogus_checks(excinfo)
