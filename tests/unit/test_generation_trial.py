"""roofline.generate on the fake device: what it measures, what it refuses, and what it leaves undecided."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeGenerator, FakeModel
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.protocol import Trace, TraceRequest
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_allow, parse_budget
from pytest_roofline.traffic import Traffic

WEIGHTS, KV, PROMPT = 4e9, 1e6, 300


def generate(
    settings: Settings | None = None,
    *,
    sequences: int = 1,
    tokens: int = 33,
    draft_bytes: float | None = None,
    device: dict[str, Any] | None = None,
    **figures: Any,
) -> Result:
    """An honest generator at 80 % of the device, unless told otherwise."""
    backend = FakeBackend(**(device or {}))
    draft = None if draft_bytes is None else FakeModel(backend, draft_bytes, efficiency=0.8)
    model = FakeGenerator(backend, WEIGHTS, kv_bytes_per_token=KV, draft=draft, **figures)
    roofline = Instrument(Session(added_backends=[backend]), settings)
    return roofline.generate(model, {"input_ids": [[5] * PROMPT] * sequences}, max_new_tokens=tokens)


def found(result: Result) -> list[tuple[str, str]]:
    """Checks and severities of a result."""
    return [(finding.check, finding.severity) for finding in result.findings]


def test_the_fraction_is_the_efficiency_and_the_prefill_is_apart() -> None:
    """Each run is a sample of its 32 decode passes, at the mean of their contexts."""
    result = generate()
    assert result.verdict.outcome == "passed"
    assert result.kind == "generate"
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert {sample.passes for sample in result.samples} == {32}
    assert {sample.context for sample in result.samples} == {PROMPT + 15.5}
    assert result.passes == 32 * len(result.samples)
    assert result.traffic is not None
    assert result.traffic.bytes_per_pass == pytest.approx(WEIGHTS + KV * (PROMPT + 15.5 + 1), rel=1e-4)
    assert result.step_s == pytest.approx(result.traffic.bytes_per_pass / 1e12 / 0.8, rel=0.05)
    assert result.tokens_per_s == pytest.approx(1 / result.step_s)
    assert result.ttft_s is not None
    assert len(result.outputs[0]) == PROMPT + 33
    assert "32 decode passes from a context of 300 tokens on; the prefill is not among them" in " ".join(result.notes)


def test_a_batch_multiplies_the_tokens_and_the_cache() -> None:
    """And each sequence is one user."""
    result = generate(sequences=4)
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert result.tokens_per_s is not None
    assert result.tokens_per_s == pytest.approx(4 * (result.tokens_per_s_per_user or 0))
    assert result.traffic is not None
    assert result.traffic.kv_bytes_per_pass == pytest.approx(4 * KV * (PROMPT + 15.5), rel=1e-3)


def test_a_draft_multiplies_the_tokens_and_adds_its_reads() -> None:
    """Four tokens for each pass of the model and three of the draft; the fraction is what both reach."""
    result = generate(draft_bytes=1e9)
    assert result.verdict.outcome == "passed"
    assert result.evidence.tokens_per_pass == pytest.approx(4.0)
    assert {sample.passes for sample in result.samples} == {8}
    assert float(result.fraction) == pytest.approx(0.79, abs=0.02)
    assert "3 passes of the draft and 4 tokens for each pass of the model" in " ".join(result.notes)


@pytest.mark.parametrize(("budget", "outcome"), [(0.7, "passed"), (0.9, "failed")])
def test_the_budget_decides(budget: float, outcome: str) -> None:
    """By the same court as decode's."""
    assert generate(Settings(at_least=parse_budget(budget, "test"))).verdict.outcome == outcome


class Compiling(FakeGenerator):
    """Compiles in every third pass, as a step whose shapes keep changing does."""

    def step(self) -> Any:
        """One pass."""
        if self.context % 3 == 0:
            self._backend.compile(2e-3, "decode pass")
        return super().step()


def test_a_compilation_among_the_decode_passes_is_named() -> None:
    """What is compiled inside of a run is charged to it, and said."""
    backend = FakeBackend()
    roofline = Instrument(Session(added_backends=[backend]))
    result = roofline.generate(Compiling(backend, WEIGHTS), {"input_ids": [[5] * 8]}, max_new_tokens=33)
    finding = next(one for one in result.findings if one.check == "compiled-in-window")
    assert "decode pass" in finding.message
    assert finding.severity == "note"


def test_an_early_end_is_judged_by_its_passes() -> None:
    """Five of 33 tokens: four passes a run, and the fraction is as true."""
    result = generate(ends_after=5)
    assert {sample.passes for sample in result.samples} == {4}
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)


def test_runs_that_end_with_their_first_token_decide_nothing() -> None:
    """There is no decode pass to judge, and the test hears why."""
    result = generate(ends_after=1)
    assert result.verdict.outcome == "inconclusive"
    (finding,) = result.findings
    assert finding.check == "too-few-samples"
    assert finding.message.startswith("0 samples of runs that went on after their first token")
    assert "min_new_tokens" in finding.remedy


def test_remembered_ids_are_refused() -> None:
    """Ids came out and no pass ran; other prompts get the same ones."""
    with pytest.raises(BogusMeasurement, match="the ids are remembered, not generated") as caught:
        generate(remembers=True)
    assert "tokens-disagree" in str(caught.value)


def test_remembered_ids_can_be_allowed_by_their_check() -> None:
    """Each check can be allowed, and what it found is reported."""
    result = generate(Settings(allow=parse_allow("tokens-disagree", "test")), remembers=True)
    assert ("tokens-disagree", "note") in found(result) or result.verdict.allowed


class Skipping(FakeGenerator):
    """Reads its weights while it is looked at, and none of them later."""

    steps = 0

    def step(self) -> Any:
        """One pass, or what looks like one."""
        self.steps += 1
        if self.steps <= 33:
            return super().step()
        self.context += 1
        return self._backend.launch(read_bytes=1e3, value=[7] * self.batch, size=self.batch, is_int=True)


def test_faster_than_the_device_is_refused() -> None:
    """The limit holds for generate as for decode, after the same confrontation."""
    backend = FakeBackend()
    roofline = Instrument(Session(added_backends=[backend]))
    with pytest.raises(BogusMeasurement, match="faster-than-limit"):
        roofline.generate(Skipping(backend, WEIGHTS), {"input_ids": [[5] * 8]}, max_new_tokens=33)


def test_one_token_is_wrong_use() -> None:
    """The prefill yields it."""
    with pytest.raises(RooflineUsageError, match="no decode pass runs and there is nothing to hold against the memory"):
        generate(tokens=1)


def test_off_runs_once_and_measures_nothing() -> None:
    """Every comparison is true, and the ids are there."""
    result = generate(Settings(mode="off"))
    assert result.fraction >= 0.99
    assert not result.fraction.is_measured
    assert len(result.outputs[0]) == PROMPT + 33


class Counting(FakeBackend):
    """Counts parameters, as torch does: of a model and of its output table, a quarter of it. May see no pass."""

    is_blind = False

    def trace(self, request: TraceRequest) -> Trace | None:
        """None where it cannot look."""
        return None if self.is_blind else super().trace(request)

    def count_model(self, model: Any, *, batch: int | None = None, context: int | None = None) -> Traffic:
        """All of them."""
        size = WEIGHTS / 4 if model == "table" else WEIGHTS
        return Traffic(bytes_per_pass=size, least_bytes_per_pass=size, batch=batch, context=context, source="counted")


class Hidden(FakeGenerator):
    """Works where no trace can look; or not at all, where the trace would have seen it."""

    works = True

    def get_output_embeddings(self) -> str:
        """As models of transformers have it."""
        return "table"

    def step(self) -> Any:
        """One pass."""
        if self.works:
            return super().step()
        self.context += 1
        return self._backend.launch(read_bytes=1e3, value=[7] * self.batch, size=self.batch, is_int=True)


def counted(*, works: bool) -> Result:
    """A generation whose passes were not traced, or whose traced passes did nothing."""
    backend = Counting()
    backend.is_blind = works
    model = Hidden(backend, WEIGHTS, efficiency=0.8)
    model.works = works
    return Instrument(Session(added_backends=[backend])).generate(model, {"input_ids": [[5] * 8]}, max_new_tokens=33)


def test_work_that_no_trace_sees_is_judged_by_the_parameters_and_never_accused() -> None:
    """Kernels outside the framework: the fraction is of all parameters, and no byte of them is held against it."""
    result = counted(works=True)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert result.traffic is not None
    assert result.traffic.least_bytes_per_pass == 0
    assert "were counted from the parameters" in " ".join(result.notes)


def test_passes_that_are_seen_to_do_nothing_owe_the_output_table() -> None:
    """The trace accounts for every output and saw nothing read: the table alone is more than that time allows."""
    with pytest.raises(BogusMeasurement, match="faster-than-limit"):
        counted(works=False)


def test_a_long_run_is_taken_once_and_says_so() -> None:
    """Two seconds a run, and a tenth is allowed: too few samples, with what to do."""
    backend = FakeBackend(read_bytes_per_s=1e11)
    model = FakeGenerator(backend, WEIGHTS)
    result = Instrument(Session(added_backends=[backend])).generate(
        model, {"input_ids": [[5] * 10]}, max_new_tokens=41, max_time_s=3.0
    )
    assert result.verdict.outcome == "inconclusive"
    assert [finding.check for finding in result.findings] == ["too-few-samples"]
    assert "ask for fewer tokens (max_new_tokens=, max_tokens=)" in " ".join(result.notes)


def test_no_run_fits_the_time_and_that_is_said() -> None:
    """The untimed look alone took longer: nothing was timed, which is no sign of runs that never decode."""
    backend = FakeBackend(read_bytes_per_s=1e11)
    model = FakeGenerator(backend, WEIGHTS)
    result = Instrument(Session(added_backends=[backend])).generate(
        model, {"input_ids": [[5] * 10]}, max_new_tokens=41, max_time_s=0.1
    )
    assert result.verdict.outcome == "inconclusive"
    words = " ".join(result.notes)
    assert "no run was timed: the one before them took longer than the time that is allowed" in words
    assert "ask for fewer tokens (max_new_tokens=, max_tokens=)" in words


def test_a_model_that_no_backend_watches_is_wrong_use() -> None:
    """The message says what measures it instead."""
    backend = FakeBackend()
    backend.watch_generation = None  # type: ignore[assignment,method-assign]
    with pytest.raises(RooflineUsageError, match="cannot watch the passes of a FakeGenerator"):
        Instrument(Session(added_backends=[backend])).generate(
            FakeGenerator(backend, WEIGHTS), {"input_ids": [[5]]}, max_new_tokens=4
        )


def test_the_model_is_left_as_it_was() -> None:
    """Also where the measurement ends in an error."""
    backend = FakeBackend()
    model = FakeGenerator(backend, WEIGHTS, remembers=True)
    before = model.around
    with pytest.raises(BogusMeasurement):
        Instrument(Session(added_backends=[backend])).generate(model, {"input_ids": [[5] * 8]}, max_new_tokens=8)
    assert model.around is before


def test_a_record_of_it_is_plain() -> None:
    """Kind, first token and passes are in the JSON of the results."""
    record = generate().to_dict()
    assert record["kind"] == "generate"
    assert record["ttft_s"] > 0
    assert record["passes"] > 0
