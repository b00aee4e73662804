"""roofline.generate of a Llama of llama-cpp-python, by a stand-in: its ledger, its device, and who is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import llama_stand_in
import pytest
from model_files import F16, F32, GgufWriter, Tensor, llama_gguf, llama_values

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.backends.llama_cpp import LlamaFacts
from pytest_roofline.backends.llama_generation import LlamaGenerationWatch
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.generation import GenerationRequest, generation_request, is_llama
from pytest_roofline.instrument import Instrument
from pytest_roofline.llama_engine import llama_engine
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

BLOCKS, WIDTH, FEED, KV = 16, 2048, 5632, 512
WEIGHTS = 2 * (BLOCKS * (2 * WIDTH * WIDTH + 2 * KV * WIDTH + 3 * WIDTH * FEED) + 128 * WIDTH)
"""Matrices of the file below, without its table."""
NORMS = 4 * WIDTH * (2 * BLOCKS + 1)
TABLE = 2 * 128 * WIDTH
CACHED = 2 * 2 * BLOCKS * KV
"""Of one token, keys and values in 16 bits."""
PROMPT = "Once upon a time"


@pytest.fixture
def llama_cpp(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The stand-in, with a build that supports a GPU."""
    module = llama_stand_in.stand_in(has_gpu=True)
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    return module


@pytest.fixture
def gguf(tmp_path: Path) -> str:
    """A file of 1.4 GB, of which only the head is on the disk."""
    values = llama_values(
        llama__block_count=BLOCKS,
        llama__embedding_length=WIDTH,
        llama__feed_forward_length=FEED,
        llama__attention__head_count=32,
        llama__attention__head_count_kv=8,
    )
    tensors: list[Tensor] = [("token_embd.weight", (128, WIDTH), F16), ("output.weight", (128, WIDTH), F16)]
    tensors.append(("output_norm.weight", (WIDTH,), F32))
    for block in range(BLOCKS):
        shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (KV, WIDTH), "attn_v": (KV, WIDTH), "attn_output": (WIDTH, WIDTH)}
        shapes |= {"ffn_gate": (FEED, WIDTH), "ffn_up": (FEED, WIDTH), "ffn_down": (WIDTH, FEED)}
        tensors += [(f"blk.{block}.{name}.weight", shape, F16) for name, shape in shapes.items()]
        tensors += [(f"blk.{block}.{name}.weight", (WIDTH,), F32) for name in ("attn_norm", "ffn_norm")]
    path = tmp_path / "model.gguf"
    head = GgufWriter().file(values, tensors, data=False)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + WEIGHTS + NORMS + TABLE + 64 * len(tensors))
    return str(path)


def on_fake(
    gguf: str,
    settings: Settings | None = None,
    *,
    make: Callable[..., llama_stand_in.Llama] = llama_stand_in.Llama,
    prompt: Any = PROMPT,
    device: dict[str, Any] | None = None,
    max_time_s: float | None = None,
    max_tokens: int = 33,
    **figures: Any,
) -> Result:
    """Generate on a fake device, whose passes read the file's weights at 80 % of its rate."""
    backend = FakeBackend(**(device or {}))
    model = FakeModel(backend, WEIGHTS + NORMS, efficiency=0.8)
    llama = make(gguf, n_gpu_layers=-1, size_bytes=WEIGHTS + NORMS + TABLE, work=lambda _: model.step(), **figures)
    roofline = Instrument(Session(added_backends=[backend]), settings)
    return roofline.generate(llama, prompt, max_tokens=max_tokens, temperature=0.0, max_time_s=max_time_s)


@pytest.mark.usefixtures("llama_cpp")
def test_the_fraction_is_the_efficiency_and_the_bytes_are_the_files(gguf: str) -> None:
    """32 decode passes a run behind the prompt; the table is looked up, keys and values of the context are read."""
    result = on_fake(gguf)
    assert (result.verdict.outcome, result.kind, result.device.id) == ("passed", "generate", "fake:0")
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert {sample.passes for sample in result.samples} == {32}
    prompt = len(PROMPT) + 1
    assert {sample.context for sample in result.samples} == {prompt + 15.5}
    assert result.traffic is not None
    assert result.traffic.bytes_per_pass == pytest.approx(WEIGHTS + NORMS + CACHED * (prompt + 15.5), rel=1e-5)
    assert result.evidence.batch == 1
    assert result.ttft_s is not None
    assert result.outputs["usage"] == {"prompt_tokens": prompt, "completion_tokens": 33}
    words = " ".join(result.notes)
    assert "32 decode passes from a context of 17 tokens on" in words
    assert "llama.cpp itself counted 32 tokens decoded in" in words


@pytest.mark.usefixtures("llama_cpp")
@pytest.mark.parametrize("prompt", [[1, 5, 6, 7], [{"role": "user", "content": "abc"}]], ids=["ids", "chat"])
def test_ids_and_chats_are_prompts_too(gguf: str, prompt: Any) -> None:
    """Both are four tokens here."""
    result = on_fake(gguf, prompt=prompt)
    assert result.verdict.outcome == "passed"
    assert {sample.context for sample in result.samples} == {4 + 15.5}


@pytest.mark.usefixtures("llama_cpp")
@pytest.mark.parametrize(("budget", "outcome"), [(0.7, "passed"), (0.9, "failed")])
def test_the_budget_decides(gguf: str, budget: float, outcome: str) -> None:
    """By the same court as everything else."""
    assert on_fake(gguf, Settings(at_least=parse_budget(budget, "test"))).verdict.outcome == outcome


@pytest.mark.usefixtures("llama_cpp")
def test_the_id_that_ends_a_sequence_was_computed(gguf: str) -> None:
    """It is the fifth token, of four decode passes, and no text."""
    result = on_fake(gguf, ends_after=5)
    assert {sample.passes for sample in result.samples} == {4}
    assert result.outputs["usage"]["completion_tokens"] == 4
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert on_fake(gguf, ends_after=1).verdict.outcome == "inconclusive"


@pytest.mark.usefixtures("llama_cpp")
@pytest.mark.parametrize("how", [{"verbose": True}, {"no_perf": True}, {"n_batch": 8}, {"type_k": 8, "type_v": 8}])
def test_honest_objects_however_they_were_made(gguf: str, how: dict[str, Any]) -> None:
    """Counters that are set back by each completion, none at all, prompts in several batches, a quantized cache."""
    result = on_fake(gguf, **how)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert ("counters are off" in " ".join(result.notes)) is ("no_perf" in how)


@pytest.mark.usefixtures("llama_cpp")
def test_each_run_computes_its_prompt(gguf: str) -> None:
    """The package would find it in its cache from the second run on, and the first token would be none of a prompt."""
    made: list[llama_stand_in.Llama] = []

    def make(*args: Any, **kwargs: Any) -> llama_stand_in.Llama:
        made.append(llama_stand_in.Llama(*args, **kwargs))
        return made[0]

    on_fake(gguf, make=make, max_time_s=0.001, max_tokens=3)
    assert set(made[0].evaluated) == {17, 1}
    assert made[0].evaluated.count(1) == 2 * made[0].evaluated.count(17)


@pytest.mark.usefixtures("llama_cpp")
def test_remembered_ids_are_refused(gguf: str) -> None:
    """Ids came out and nothing was evaluated; other prompts get the same ones."""
    with pytest.raises(BogusMeasurement, match="the ids are remembered, not generated"):
        on_fake(gguf, make=llama_stand_in.Remembering)


@pytest.mark.usefixtures("llama_cpp")
def test_an_eval_that_computes_nothing_does_not_pass(gguf: str) -> None:
    """It is called as often as it should be, and llama.cpp has counted nothing."""
    result = on_fake(gguf, Settings(at_least=parse_budget(0.1, "test")), kind="idle")
    assert result.verdict.outcome == "inconclusive"
    assert "tokens-disagree" in {finding.check for finding in result.findings}


@pytest.mark.usefixtures("llama_cpp")
def test_logits_that_no_pass_writes_are_refused(gguf: str) -> None:
    """They were overwritten before a pass, and it left them so."""
    with pytest.raises(BogusMeasurement, match="a pass returned an earlier pass's output and did not write it"):
        on_fake(gguf, kind="stuck")


@pytest.mark.usefixtures("llama_cpp")
def test_the_object_is_left_as_it_was(gguf: str) -> None:
    """Also where the measurement ends in an error: nothing of ours is on it."""
    backend = FakeBackend()
    for make in (llama_stand_in.Llama, llama_stand_in.Remembering):
        llama = make(gguf, n_gpu_layers=-1, size_bytes=WEIGHTS + NORMS + TABLE)
        before = set(vars(llama))
        watch = LlamaGenerationWatch(
            GenerationRequest(model=llama, arguments={"prompt": "a"}), lambda: None, clock=backend.clock
        )
        assert {"eval", "generate"} <= set(vars(llama))
        watch.close()
        watch.close()
        assert set(vars(llama)) == before


@pytest.mark.usefixtures("llama_cpp")
def test_off_completes_once_and_measures_nothing(gguf: str) -> None:
    """Every comparison is true, and the completion is there."""
    result = on_fake(gguf, Settings(mode="off"))
    assert result.fraction >= 0.99
    assert not result.fraction.is_measured
    assert result.outputs["usage"]["completion_tokens"] == 33


# -- drafts ------------------------------------------------------------------------------------------------------


class LlamaPromptLookupDecoding:
    """As the package's: four tokens of the text before, and nothing is read for them."""

    def __call__(self, ids: Any, /, **given: Any) -> Any:
        """What is proposed behind these."""
        return ids[:4]


LlamaPromptLookupDecoding.__module__ = "llama_cpp.llama_speculative"


class OfAModel:
    """Four tokens that a model of its own computes, one pass each."""

    def __init__(self, model: llama_stand_in.Llama) -> None:
        self.model = model

    def __call__(self, ids: Any, /, **given: Any) -> Any:
        """What is proposed behind these."""
        tokens = self.model.generate(ids)
        return [next(tokens) for _ in range(4)]


@pytest.mark.usefixtures("llama_cpp")
def test_a_pass_that_verifies_a_draft_reads_the_weights_once(gguf: str) -> None:
    """Of four guesses two are accepted: three tokens a pass, a proposal for each, and no draft's reads."""
    result = on_fake(gguf, draft_model=LlamaPromptLookupDecoding(), max_tokens=25)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction) == pytest.approx(0.8, rel=0.02)
    assert result.evidence.tokens_per_pass == pytest.approx(3.0)
    assert {sample.passes for sample in result.samples} == {8}
    words = " ".join(result.notes)
    assert (
        "LlamaPromptLookupDecoding proposed 32 tokens and 16 were accepted, 24 in 8 passes of the model, over 5 "
        "positions by the mean, whose arithmetic is not in the ceiling; looked up in the text before, so nothing is "
        "read for them"
    ) in words
    assert "llama.cpp itself counted" not in words
    assert "draft's reads are added" not in words


@pytest.mark.usefixtures("llama_cpp")
def test_the_draft_with_a_model_is_read_and_added(gguf: str) -> None:
    """Each of its passes reads its file: one pass of the model and four of the draft are five times the bytes."""
    backend = FakeBackend(cache_bytes=1e6)
    model = FakeModel(backend, WEIGHTS + NORMS, efficiency=0.8)
    figures: dict[str, Any] = {"n_gpu_layers": -1, "size_bytes": WEIGHTS + NORMS + TABLE}
    drafting = llama_stand_in.Llama(gguf, work=lambda _: model.step(), **figures)
    llama = llama_stand_in.Llama(gguf, work=lambda _: model.step(), draft_model=OfAModel(drafting), **figures)
    draft, before = llama.draft_model, set(vars(drafting))
    result = Instrument(Session(added_backends=[backend])).generate(llama, PROMPT, max_tokens=25, temperature=0.0)
    assert llama.draft_model is draft
    assert set(vars(drafting)) == before
    assert result.traffic is not None
    assert result.traffic.least_bytes_per_pass == pytest.approx(2 * (WEIGHTS + NORMS), rel=0.01)
    assert result.traffic.bytes_per_pass > 3 * (WEIGHTS + NORMS)
    assert float(result.fraction) == pytest.approx(0.8, rel=0.05)
    assert "passes of its own, which are added" in " ".join(result.notes)


@pytest.mark.usefixtures("llama_cpp")
@pytest.mark.parametrize("how", ["a function", "a model without a file", "a model elsewhere"])
def test_what_a_draft_reads_unseen_is_said(gguf: str, how: str) -> None:
    """Its proposals are counted; its bytes are not, and accuse nobody."""
    drafts: dict[str, Any] = {
        "a function": lambda ids: ids[:4],
        "a model without a file": OfAModel(llama_stand_in.Llama("gone.gguf", n_gpu_layers=-1)),
        "a model elsewhere": OfAModel(llama_stand_in.Llama(gguf, n_gpu_layers=0)),
    }
    result = on_fake(gguf, draft_model=drafts[how], max_tokens=25)
    assert result.verdict.outcome == "passed"
    assert "what was read for them is not known and not counted, so the fraction is too low" in " ".join(result.notes)


@pytest.mark.usefixtures("llama_cpp")
def test_drafted_ids_that_no_pass_verified_are_no_speed(gguf: str) -> None:
    """More tokens than the positions of all passes: the draft's guesses were handed out as they were."""

    class Handing(llama_stand_in.Llama):
        def generate(self, tokens: Any, *, reset: bool = True) -> Any:
            for token in super().generate(tokens, reset=reset):
                yield token
                yield from [token] * 9

    result = on_fake(
        gguf, Settings(at_least=parse_budget(0.1, "test")), make=Handing, draft_model=LlamaPromptLookupDecoding()
    )
    assert result.verdict.outcome == "inconclusive"
    assert "tokens-disagree" in {finding.check for finding in result.findings}


# -- where it is measured, and on which bytes --------------------------------------------------------------------


def engine_of(llama: Any, *, device: str | None = None, backends: tuple[Any, ...] = ()) -> Any:
    """What would be measured."""
    session = Session(added_backends=backends)
    return llama_engine(generation_request(llama, "a", {}), session=session, settings=Settings(), wanted=device)


@pytest.mark.usefixtures("llama_cpp")
def test_a_model_on_the_processor_is_held_against_its_threads(gguf: str) -> None:
    """With no layers on a GPU the ruler has as many threads as the object decodes with."""
    engine = engine_of(llama_stand_in.Llama(gguf, n_threads=1), backends=(FakeBackend(),))
    assert engine.device.is_cpu
    assert engine.backend.threads(engine.device) == 1
    assert engine.traffic_at(100).bytes_per_pass == WEIGHTS + NORMS + 100 * CACHED
    assert engine.traffic_at(100).least_bytes_per_pass == WEIGHTS + NORMS + 100 * CACHED


def test_a_build_without_a_gpu_ignores_its_layers(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As llama.cpp does."""
    monkeypatch.setitem(sys.modules, "llama_cpp", llama_stand_in.stand_in(has_gpu=False))
    assert engine_of(llama_stand_in.Llama(gguf, n_gpu_layers=-1)).device.is_cpu


@pytest.mark.usefixtures("llama_cpp")
def test_keys_and_values_in_two_types(gguf: str) -> None:
    """Half of them takes 2 bytes, half 34 / 32."""
    engine = engine_of(llama_stand_in.Llama(gguf, type_k=8, type_v=1))
    assert engine.traffic_at(64).kv_bytes_per_pass == pytest.approx(64 * CACHED * (0.5 + 0.5 * 34 / 64))


@pytest.mark.usefixtures("llama_cpp")
@pytest.mark.parametrize(
    ("how", "device", "message"),
    [
        ({"n_gpu_layers": 1}, None, r"n_gpu_layers is 1, of 2 and the output: a pass reads two memories"),
        ({}, "fake:0", r"the model is on cpu \(n_gpu_layers is 0, .*\), but 'fake:0' was asked for"),
        ({"n_gpu_layers": -1}, "cpu", r"the layers of the model are on a GPU .* import torch"),
        ({"model_path": "gone.gguf"}, None, r"model_path of the Llama is 'gone.gguf', which is no file here"),
        ({"size_bytes": 10**9}, None, r"holds 1.4\d GB of tensors, and the model that is loaded has 1.00 GB"),
    ],
)
def test_what_cannot_be_measured_is_wrong_use(gguf: str, how: dict[str, Any], device: str | None, message: str) -> None:
    """Two memories, another device than asked, no framework for the GPU, a file that is gone or was replaced."""
    llama = llama_stand_in.Llama(**{"model_path": gguf, **how})
    with pytest.raises(RooflineUsageError, match=message):
        engine_of(llama, device=device, backends=(FakeBackend(),))


@pytest.mark.usefixtures("llama_cpp")
@pytest.mark.parametrize(
    ("prompt", "arguments", "message"),
    [
        ("a", {"stream": True}, r"a streamed completion is not run by the call that returns it: drop stream="),
        ("a", {"max_tokens": 1}, r"max_tokens is 1: the prefill yields the first token"),
        ("a", {"prompt": "b"}, r"the prompt is given twice: as inputs and as prompt="),
        (None, {}, r"roofline.generate of a Llama needs a prompt"),
        ("", {}, r"roofline.generate of a Llama needs a prompt"),
        (3, {}, r"roofline.generate of a Llama needs a prompt"),
        ("a", {"messages": [{}]}, r"roofline.generate of a Llama needs a prompt"),
    ],
)
def test_wrong_arguments_say_what_is_needed(gguf: str, prompt: Any, arguments: dict[str, Any], message: str) -> None:
    """Before anything runs."""
    with pytest.raises(RooflineUsageError, match=message):
        generation_request(llama_stand_in.Llama(gguf), prompt, arguments)


@pytest.mark.usefixtures("llama_cpp")
def test_a_handler_that_generates_several_times_is_wrong_use(gguf: str) -> None:
    """Each answer has a prefill of its own."""

    class Twice(llama_stand_in.Llama):
        def create_completion(self, *args: Any, **kwargs: Any) -> Any:
            super().create_completion(*args, **kwargs)
            return super().create_completion(*args, **kwargs)

    with pytest.raises(RooflineUsageError, match="one call generates several answers"):
        on_fake(gguf, make=Twice)


def test_only_a_llama_is_one(llama_cpp: Any, tmp_path: Path) -> None:
    """By its class, or one that it was made from; nothing is imported to find out."""
    path = tmp_path / "m.gguf"
    path.write_bytes(llama_gguf())

    class Mine(llama_cpp.Llama):  # type: ignore[misc]
        pass

    class Llama:
        pass

    assert is_llama(Mine(str(path)))
    assert not is_llama(Llama())


def test_an_older_version_is_not_held_to_what_it_lacks(
    gguf: str, llama_cpp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No counters, no logits, no size: less is checked, and the result says what."""
    for name in ("llama_perf_context", "llama_get_logits_ith", "llama_model_size", "llama_synchronize"):
        monkeypatch.delattr(llama_cpp, name)
    result = on_fake(gguf)
    assert result.verdict.outcome == "passed"
    assert (
        "whether the passes follow the prompt: this version of llama-cpp-python does not show its logits"
        in " ".join(result.not_checked)
    )
    facts = LlamaFacts(llama_stand_in.Llama(gguf))
    assert (facts.counted(), facts.logits(), facts.stored_bytes) == (None, None, None)
