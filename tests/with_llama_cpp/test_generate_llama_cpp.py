"""roofline.generate of the real llama-cpp-python: what it counts, and that its object stays what it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from pytest_roofline.backends.llama_cpp import LlamaFacts
from pytest_roofline.backends.llama_generation import LlamaGenerationWatch
from pytest_roofline.backends.private_clock import clock
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.generation import generation_request
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

PROMPT, TOKENS = "once upon a time", 9
THREE_RUNS = {"stopping": "fixed:3", "max_time_s": 240.0}
LAYERS, WIDTH, FEED, KV, VOCABULARY = 12, 1024, 2816, 256, 286
WEIGHTS = 2 * (LAYERS * (2 * WIDTH * WIDTH + 2 * KV * WIDTH + 3 * WIDTH * FEED) + VOCABULARY * WIDTH)
NORMS = 4 * WIDTH * (2 * LAYERS + 1)
CACHED = 2 * 2 * LAYERS * KV


@pytest.fixture(scope="module")
def llama(gguf_file: str) -> Iterator[Any]:
    """One thread: those of llama.cpp wait for each other busily, which on a busy machine takes seconds a pass."""
    made = import_module("llama_cpp").Llama(gguf_file, n_ctx=256, n_batch=16, n_threads=1, verbose=False)
    yield made
    made.close()


def watch(llama: Any, prompt: Any = PROMPT, **arguments: Any) -> LlamaGenerationWatch:
    """As `roofline.generate` would make it."""
    request = generation_request(llama, prompt, {"max_tokens": TOKENS, "temperature": 0.0, **arguments})
    return LlamaGenerationWatch(request, lambda: None, clock=clock, device_id="cpu")


def test_a_run_is_counted_by_its_passes_its_ids_and_its_counters(llama: Any) -> None:
    """A prompt in two batches, eight decode passes of one token each, and llama.cpp counts the same.

    A completion may have a few tokens more than were asked for: the package ends none within a character.
    """
    seen = watch(llama)
    run = seen.run()
    counted = LlamaFacts(llama).counted()
    seen.close()
    prompt = run.outputs["usage"]["prompt_tokens"]
    assert prompt > llama.n_batch
    new = len(run.ids[0])
    assert (run.prompt_tokens, len(run.prefill), run.decode_passes) == (prompt, 2, new - 1)
    assert new == run.outputs["usage"]["completion_tokens"] == run.possible_tokens >= TOKENS
    assert counted is not None
    assert abs(counted.decoded - (new - 1)) <= 1 + (prompt % llama.n_batch == 1)
    assert 0 < counted.decode_s <= run.end_s - run.start_s
    assert run.ttft_s is not None
    assert 0 < run.ttft_s < run.end_s - run.start_s
    assert vars(llama).keys().isdisjoint({"eval", "generate"})


def test_the_same_call_gives_the_same_ids_and_computes_its_prompt_again(llama: Any) -> None:
    """Also where the package would have found it in its cache."""
    seen = watch(llama)
    first, second = seen.run(), seen.run()
    seen.close()
    assert first.ids == second.ids
    assert len(second.prefill) == len(first.prefill) == 2
    text = llama.create_completion(PROMPT, max_tokens=TOKENS, temperature=0.0)["choices"][0]["text"]
    assert text == first.outputs["choices"][0]["text"]


def test_an_end_of_text_is_computed_and_counted(llama: Any) -> None:
    """With its bias raised the first token is the end: no decode pass, and an early end."""
    seen = watch(llama, logit_bias={2: 1000.0})
    run = seen.run()
    seen.close()
    assert (run.ids, run.is_ended_early, run.decode_passes) == (((2,),), True, 0)


def test_another_prompt_gives_other_logits_and_each_pass_writes_them(llama: Any) -> None:
    """What the court asks of the passes, answered by the real thing."""
    seen = watch(llama)
    seen.look()
    other = seen.with_other_prompt(1)
    whole = seen.with_other_prompt(2, is_whole=True).run
    seen.close()
    assert (other.elements, other.is_identical, other.reason) == (VOCABULARY, False, "")
    assert other.overwritten.fate == "renewed"
    assert whole is not None
    assert whole.decode_passes == len(whole.ids[0]) - 1


@pytest.mark.parametrize("prompt", [[1, 5, 6, 7], [{"role": "user", "content": "abc"}]], ids=["ids", "chat"])
def test_ids_and_chats(llama: Any, prompt: Any) -> None:
    """Both run, and are counted."""
    seen = watch(llama, prompt)
    run = seen.look().run
    seen.close()
    assert run.decode_passes == len(run.ids[0]) - 1 >= TOKENS - 1
    assert run.prompt_tokens == run.outputs["usage"]["prompt_tokens"]


def test_it_is_judged_on_the_processor_with_its_threads(llama: Any) -> None:
    """Bytes are the file's without its table, the ruler has its one thread, and nothing honest is accused."""
    settings = Settings(at_least=parse_budget({"cpu": 0.01}, "test"))
    roofline = Instrument(Session(), settings)
    result = roofline.generate(llama, PROMPT, max_tokens=TOKENS, temperature=0.0, **THREE_RUNS)
    assert result.device.is_cpu
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert result.traffic is not None
    usage = result.outputs["usage"]
    context = usage["prompt_tokens"] + (usage["completion_tokens"] - 2) / 2
    assert result.traffic.bytes_per_pass == pytest.approx(WEIGHTS + NORMS + CACHED * context, rel=1e-3)
    assert {sample.passes for sample in result.samples} == {usage["completion_tokens"] - 1}
    assert result.step_s is not None
    assert result.tokens_per_s == pytest.approx(1 / result.step_s)
    assert "llama.cpp itself counted" in " ".join(result.notes)
    assert not [finding for finding in result.findings if finding.check in ("tokens-disagree", "stale-output")]


def test_a_generate_that_remembers_is_refused(llama: Any) -> None:
    """The ids of the first call, without a pass behind them."""
    remembered: list[int] = []
    honest = llama.generate

    def remembering(tokens: Any, *args: Any, **kwargs: Any) -> Iterator[int]:
        if remembered:
            yield from list(remembered)
            return
        for token in honest(tokens, *args, **kwargs):
            remembered.append(token)
            yield token

    llama.generate = remembering
    try:
        with pytest.raises(BogusMeasurement, match="the ids are remembered, not generated"):
            Instrument(Session()).generate(llama, PROMPT, max_tokens=TOKENS, temperature=0.0, **THREE_RUNS)
        assert llama.generate is remembering
    finally:
        del llama.generate


def test_the_names_that_are_read_are_the_packages_own(llama: Any) -> None:
    """Each of them: one that was renamed would be taken for one that is missing."""
    facts = LlamaFacts(llama)
    module = sys.modules["llama_cpp"]
    assert {"t_eval_ms", "n_p_eval", "n_eval"} <= {name for name, _ in module.llama_perf_context_data._fields_}
    assert facts.has_counters
    assert (facts.threads, facts.vocabulary, facts.layers, facts.cache_types) == (1, VOCABULARY, LAYERS, (1, 1))
    assert facts.stored_bytes == WEIGHTS + NORMS + 2 * VOCABULARY * WIDTH
    assert facts.device_layers == 0 or module.llama_supports_gpu_offload()
    logits = facts.logits()
    assert logits is not None
    assert len(logits) == VOCABULARY
