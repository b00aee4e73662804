"""Was the work done, on real models: caches, model outputs, tied heads and compiled steps are honest."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from work_bench import accused, fate, prove  # noqa: E402

CONTEXT, ROOM = 8, 48


def llama(**figures: Any) -> Any:
    """Two layers with random weights."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **{
            "vocab_size": 128,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            **figures,
        }
    )
    return transformers.LlamaForCausalLM(config).eval()


class Decoder:
    """A static cache with a prompt in it, and one decode pass."""

    def __init__(self, model: Any, *, returns: str) -> None:
        self.model = model
        self.returns = returns
        self.start()

    @torch.inference_mode()
    def start(self) -> None:
        """A fresh cache that holds the prompt."""
        self.cache = transformers.StaticCache(config=self.model.config, max_cache_len=ROOM)
        self.ids = torch.ones((1, 1), dtype=torch.long)
        self.model(torch.ones((1, CONTEXT), dtype=torch.long), cache=self.cache)

    @torch.inference_mode()
    def step(self) -> Any:
        """One token."""
        output = self.model(self.ids, cache=self.cache)
        if self.returns == "output":
            return output
        return output.logits if self.returns == "logits" else output.logits[:, -1].argmax(-1)


@pytest.mark.parametrize("returns", ["output", "logits", "ids"])
@pytest.mark.parametrize("has_reset", [True, False])
def test_a_static_cache_is_honest(returns: str, has_reset: bool) -> None:
    """With every check asked for, the same model as its reference, and every weight as it was."""
    model = llama(tie_word_embeddings=returns == "logits")
    decoder = Decoder(model, returns=returns)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    proof = prove(
        decoder.step,
        model=model,
        reset=decoder.start if has_reset else None,
        room=ROOM - CONTEXT,
        tamper=True,
        reference=decoder.step,
    )
    assert accused(proof) == []
    assert fate(proof) == ("unknown" if returns == "ids" else "renewed")
    assert proof.work is not None
    assert proof.work.tampered is not None
    if has_reset and returns != "ids":
        assert proof.work.tampered.is_changed
        assert proof.work.compared is not None
        assert proof.work.compared.rms_error == 0.0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_growing_cache_is_honest() -> None:
    """A model output with its cache; the cache is exactly what so many honest passes make of it."""
    model, ids, calls = llama(), torch.ones((1, 1), dtype=torch.long), [0]
    cache = transformers.DynamicCache(config=model.config)

    def step() -> Any:
        calls[0] += 1
        with torch.no_grad():
            return model(ids, cache=cache)

    assert accused(prove(step, model=model)) == []
    other = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        for _ in range(calls[0]):
            model(ids, cache=other)
    for one, two in zip(cache.layers, other.layers, strict=True):
        assert torch.equal(one.keys, two.keys)


def test_a_compiled_step_is_honest() -> None:
    """It runs as it was compiled; only what it reads is seen in the eager program."""
    model, ids = llama(), torch.ones((1, 4), dtype=torch.long)
    compiled = torch.compile(model, backend="eager")

    def step() -> Any:
        with torch.no_grad():
            return compiled(ids, use_cache=False).logits

    def reference() -> Any:
        with torch.no_grad():
            return model(ids, use_cache=False).logits

    proof = prove(step, model=model, reset=lambda: None, tamper=True, reference=reference)
    assert accused(proof) == []
    assert proof.work is not None
    assert proof.work.tampered is not None
    assert proof.work.tampered.is_changed


def test_experts_that_were_hit_are_changed_and_put_back() -> None:
    """A weight that no token was routed to would prove nothing."""
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=16,
        num_experts_per_tok=1,
    )
    model = transformers.MixtralForCausalLM(config).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ids = torch.ones((1, 1), dtype=torch.long)

    def step() -> Any:
        with torch.no_grad():
            return model(ids, use_cache=False).logits

    for _ in range(3):
        proof = prove(step, model=model, reset=lambda: None, tamper=True)
        assert accused(proof) == []
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
