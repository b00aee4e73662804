"""Drafts of the real llama-cpp-python: passes, accepted tokens and the draft's own reads are told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any

import pytest

from pytest_roofline.backends.llama_generation import LlamaGenerationWatch
from pytest_roofline.backends.private_clock import clock
from pytest_roofline.generation import generation_request
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session

PROMPT, TOKENS = "once upon a time once upon a time", 24
GUESSES = 4
MakeLlama = Callable[..., Any]


@pytest.fixture(scope="module")
def make(gguf_file: str) -> Iterator[MakeLlama]:
    """Makes a `Llama` with this draft; all are closed at the end."""
    made: list[Any] = []

    def llama(draft: Any = None) -> Any:
        # The package keeps all logits beside a draft, and has room for them only where it is told so.
        one = import_module("llama_cpp").Llama(
            gguf_file, n_ctx=256, n_threads=1, verbose=False, draft_model=draft, logits_all=draft is not None
        )
        made.append(one)
        return one

    yield llama
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def plain_ids(make: MakeLlama) -> tuple[int, ...]:
    """What the model says without a draft, a pass for each."""
    run = watch(make()).run()
    assert run.decode_passes == len(run.ids[0]) - 1
    return run.ids[0]


def watch(llama: Any) -> LlamaGenerationWatch:
    """As `roofline.generate` would make it."""
    request = generation_request(llama, PROMPT, {"max_tokens": TOKENS, "temperature": 0.0})
    return LlamaGenerationWatch(request, lambda: None, clock=clock, device_id="cpu")


def lookup() -> Any:
    """The package's own draft."""
    return import_module("llama_cpp.llama_speculative").LlamaPromptLookupDecoding(num_pred_tokens=GUESSES)


def of_a_model(llama: Any) -> Any:
    """A draft that runs a model of its own."""
    speculative = import_module("llama_cpp.llama_speculative")
    numpy = import_module("numpy")

    class Drafting(speculative.LlamaDraftModel):  # type: ignore[misc]
        def __init__(self, model: Any) -> None:
            self.model = model

        def __call__(self, input_ids: Any, /, **given: Any) -> Any:
            guesses = islice(self.model.generate(input_ids.tolist(), temp=0.0), GUESSES)
            return numpy.array(list(guesses), dtype=numpy.intc)

    return Drafting(llama)


def test_accepted_tokens_are_counted_by_the_passes_that_verified_them(
    make: MakeLlama, plain_ids: tuple[int, ...]
) -> None:
    """The same ids in fewer passes, no more of them than positions, and each proposal is of so many tokens at most."""
    llama = make(lookup())
    before = llama.draft_model
    seen = watch(llama)
    look = seen.look()
    run = look.run
    seen.close()
    assert llama.draft_model is before
    assert run.ids[0][: len(plain_ids)] == plain_ids
    assert 0 < run.decode_passes < len(run.ids[0]) - 1
    assert run.draft_passes == 0
    assert max(one.positions or 0 for one in run.decode) == 1 + GUESSES
    assert run.possible_tokens is not None
    assert run.decode_tokens == len(run.ids[0]) - 1 < run.possible_tokens
    proposed = sum((one.positions or 1) - 1 for one in run.decode)
    (words,) = [note for note in look.notes if "proposed" in note]
    assert words == (
        f"LlamaPromptLookupDecoding proposed {proposed} tokens and {run.decode_tokens - run.decode_passes} were "
        f"accepted, {run.decode_tokens} in {run.decode_passes} passes of the model, over {run.positions_per_pass} "
        "positions by the mean, whose arithmetic is not in the ceiling; looked up in the text before, so nothing is "
        "read for them"
    )
    assert not any("llama.cpp itself counted" in note for note in look.notes)


def test_a_drafted_completion_is_judged_by_its_passes(make: MakeLlama) -> None:
    """A pass reads the weights once, whatever it verifies, and yields what was accepted: nobody is accused."""
    result = Instrument(Session()).generate(
        make(lookup()), PROMPT, max_tokens=TOKENS, temperature=0.0, stopping="fixed:2", max_time_s=240.0
    )
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    assert result.evidence.tokens_per_pass > 1.0
    assert result.step_s is not None
    assert result.tokens_per_s == pytest.approx(result.evidence.tokens_per_pass / result.step_s)
    assert not [one for one in result.findings if one.check in ("tokens-disagree", "stale-output", "work-missing")]
    assert not any("draft's reads are added" in note for note in result.notes)


def test_the_passes_of_a_draft_with_a_model_are_its_own_and_are_added(
    make: MakeLlama, plain_ids: tuple[int, ...]
) -> None:
    """The same model as its own draft: everything is accepted, and every token was read for twice."""
    drafting = make()
    llama = make(of_a_model(drafting))
    seen = watch(llama)
    run = seen.run()
    seen.close()
    assert "eval" not in vars(drafting)
    assert run.ids[0][: len(plain_ids)] == plain_ids
    assert run.decode_passes <= 1 + len(run.ids[0]) // (1 + GUESSES)
    assert run.draft_passes >= run.decode_passes * GUESSES
    result = Instrument(Session()).generate(
        llama, PROMPT, max_tokens=TOKENS, temperature=0.0, stopping="fixed:2", max_time_s=240.0
    )
    assert result.verdict.outcome in ("passed", "inconclusive"), result.findings
    words = " ".join(result.notes)
    assert "passes of its own, which are added" in words
    assert "the draft's reads are added to its bytes" in words
    assert result.traffic is not None
    assert result.traffic.least_bytes_per_pass > 1.9 * drafting._model.size() * 0.99


def test_a_draft_that_nobody_can_look_into_is_said(make: MakeLlama) -> None:
    """A plain function: its proposals are counted, what it reads is not, and the fraction is too low for that."""
    llama = make(lookup())
    inner = llama.draft_model
    llama.draft_model = lambda ids, **given: inner(ids)
    seen = watch(llama)
    notes = seen.look().notes
    seen.close()
    assert any("what was read for them is not known and not counted" in note for note in notes)
