"""roofline.generate on this CPU, from the call to the verdict: what is refused, and that honest code is not."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from pytest_roofline.errors import BogusMeasurement  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402
from pytest_roofline.session import Session  # noqa: E402

NEW, MAX_TIME_S = 8, 1.5


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the library's warnings out of these tests."""
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(verbosity)


@pytest.fixture(scope="module")
def roofline() -> Instrument:
    """One session, so that the CPU is probed once, and what a first generate imports is there."""
    make().generate(prompt(), max_new_tokens=2)
    return Instrument(Session())


def make(width: int = 64, words: int = 512) -> Any:
    """A Llama with random weights."""
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=128,
        num_hidden_layers=2,
        head_dim=16,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=words > 512,
    )
    return transformers.LlamaForCausalLM(config).eval()


def prompt() -> Any:
    """Ids that are no special ones."""
    return torch.randint(5, 512, (1, 12), generator=torch.Generator().manual_seed(1))


ASKED: dict[str, Any] = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "max_time_s": MAX_TIME_S}


@pytest.mark.parametrize("arguments", [{}, {"num_beams": 2}, {"prompt_lookup_num_tokens": 3}])
def test_an_honest_call_is_not_accused(roofline: Instrument, arguments: dict[str, Any]) -> None:
    """A model of this size lies in cache, so nothing is decided; every figure is there and makes sense."""
    result = roofline.generate(make(), prompt(), **ASKED, **arguments)
    assert not [finding for finding in result.findings if finding.severity == "bogus"]
    assert result.verdict.outcome == "inconclusive"
    assert "cache-resident" in [finding.check for finding in result.findings]
    assert 0 < float(result.fraction) < 1.25
    assert result.ttft_s is not None
    assert result.step_s is not None
    assert result.ttft_s > 0
    assert result.tokens_per_s == pytest.approx(result.evidence.tokens_per_pass / result.step_s)
    assert result.evidence.generated is not None
    assert result.evidence.generated.tokens == NEW
    assert result.outputs.shape == (1, 12 + NEW)
    assert result.to_dict()["kind"] == "generate"


def test_remembered_ids_are_refused(roofline: Instrument) -> None:
    """The same ids for every prompt, and no pass."""
    model = make()
    kept = model.generate(prompt(), max_new_tokens=NEW, do_sample=False)
    model.generate = lambda *_args, **_kwargs: kept.clone()
    with pytest.raises(BogusMeasurement, match="the ids are remembered, not generated") as caught:
        roofline.generate(model, prompt(), **ASKED)
    assert "3 other prompts of the same shape gave the same ids" in str(caught.value)


def test_ids_remembered_by_their_prompt_are_refused(roofline: Instrument) -> None:
    """A new prompt runs its passes, the one that is measured does not."""
    model = make()
    original: Any = model.generate
    kept: dict[tuple[int, ...], Any] = {}

    def generate(inputs: Any, **kwargs: Any) -> Any:
        key = tuple(inputs.flatten().tolist())
        if key not in kept:
            kept[key] = original(inputs, **kwargs)
        return kept[key]

    model.generate = generate
    with pytest.raises(BogusMeasurement, match="another prompt of the same shape runs its passes, this one does not"):
        roofline.generate(model, prompt(), **ASKED)


def test_an_engine_behind_generate_is_not_accused(roofline: Instrument) -> None:
    """Its passes are not this model's, so nothing can be said; it answers each prompt anew."""
    model, engine = make(), make()
    original: Any = engine.generate
    model.generate = lambda inputs, **kwargs: original(inputs, **kwargs)
    result = roofline.generate(model, prompt(), **ASKED)
    assert result.verdict.outcome == "inconclusive"
    assert ("tokens-disagree", "inconclusive") in [(one.check, one.severity) for one in result.findings]


def remembering(model: Any, *, is_copied: bool) -> Any:
    """The model with a forward that is skipped after the prefill."""
    original: Any = model.forward
    kept: dict[str, Any] = {}

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if not kept or kwargs["input_ids"].shape[1] > 1:
            kept["output"] = original(*args, **kwargs)
        output = kept["output"]
        return type(output)(logits=output.logits.clone(), cache=output.cache) if is_copied else output

    model.forward = forward
    return model


def test_a_skipped_forward_is_refused(roofline: Instrument) -> None:
    """The logits of the prefill are returned again and again: nobody writes them."""
    with pytest.raises(BogusMeasurement, match="stale-output"):
        roofline.generate(remembering(make(), is_copied=False), prompt(), **ASKED)


def test_a_skipped_forward_whose_output_is_copied_does_not_pass(roofline: Instrument) -> None:
    """The trace sees nothing read, so the output table is held against the time: no memory is that fast.

    An accusation takes five turns that all exceed the probes beside them; a host that stops for long in one of them
    leaves it undecided.
    """
    session = roofline._session
    knee = session.probe(session.find_device("cpu")).cache_knee_bytes
    words = int(max(8 * knee, 3e8) / (4096 * 4))  # many times what a slow host does between two passes
    if words > 200_000:
        pytest.skip(f"a model of eight times the cache of this machine ({knee:.3g} bytes) is too large for a test")
    model = remembering(make(width=4096, words=words), is_copied=True)
    try:
        result = roofline.generate(model, prompt(), **ASKED)
    except BogusMeasurement as error:
        assert "faster-than-limit" in str(error)  # noqa: PT017 - what it says where it is sure
    else:
        assert result.verdict.outcome == "inconclusive"
        assert "ceiling-unsure" in [finding.check for finding in result.findings]


def test_a_pass_that_is_skipped_every_other_time_has_no_verdict(roofline: Instrument) -> None:
    """The bytes of the others are read, so the fraction is sound; but half of the tokens are nobody's."""
    model = make()
    original, kept = model.forward, []

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        ids = kwargs.get("input_ids")
        if ids is not None and ids.shape[1] == 1 and len(kept) % 2:
            kept.append(kept[-1])
        else:
            kept.append(original(*args, **kwargs))
        return kept[-1]

    model.forward = forward
    result = roofline.generate(model, prompt(), **ASKED)
    assert result.verdict.outcome == "inconclusive"
    (found,) = [finding for finding in result.findings if "read next to nothing" in finding.message]
    assert (found.check, found.severity) == ("work-missing", "inconclusive")
    assert found.figures["idle_passes"] in (1, 2)
    assert found.figures["traced_passes"] == 3
