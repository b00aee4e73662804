"""Traced bytes of transformers models against the count from parameter names, routing and cache geometry."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from pytest_roofline.models.module import trace_module  # noqa: E402
from pytest_roofline.protocol import Trace, TraceRequest  # noqa: E402

LAYERS, KV_HEADS, HEAD_DIM, WINDOW, EXPERTS, CHOSEN, ROOM = 2, 2, 16, 8, 8, 2, 32
ITEM = 4  # float32

COMMON: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 128,
}
SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"], "head_dim": HEAD_DIM}

MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON)),
    "llama-tied": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON, tie_word_embeddings=True)),
    "mixtral": lambda: transformers.MixtralForCausalLM(
        transformers.MixtralConfig(**COMMON, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN)
    ),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**COMMON, head_dim=HEAD_DIM)),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**COMMON, **SLIDING)),
    "gpt-oss": lambda: transformers.GptOssForCausalLM(
        transformers.GptOssConfig(**COMMON, **SLIDING, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN)
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the library's warnings out of these tests, and one thread for models of this size."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(verbosity)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def models() -> Callable[[str], Any]:
    """Each model once, with seeded random weights."""
    made: dict[str, Any] = {}

    def get(name: str) -> Any:
        if name not in made:
            torch.manual_seed(7)
            made[name] = MODELS[name]().eval()
        return made[name]

    return get


def _cache_of(model: Any, kind: str) -> Any:
    if kind == "static":
        return transformers.StaticCache(config=model.config, max_cache_len=ROOM)
    return transformers.DynamicCache(config=model.config)


def _decode(model: Any, kind: str, batch: int, context: int) -> tuple[Trace, Any, list[set[int]]]:
    """Prefill, then trace one decode step; the experts that each layer's router chose in it."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    cache = _cache_of(model, kind)
    torch.manual_seed(batch * 100 + context)
    with torch.no_grad():
        model(torch.randint(0, 512, (batch, context)), **{name: cache})
        ids = torch.randint(0, 512, (batch, 1))
        chosen: list[set[int]] = []

        def hit(_module: Any, _inputs: Any, outputs: Any) -> None:
            # Routers return (logits, weights, indices of the chosen experts).
            chosen.append(set(outputs[-1].reshape(-1).tolist()))

        hooks = [
            part.register_forward_hook(hit) for part in model.modules() if type(part).__name__.endswith("TopKRouter")
        ]
        try:
            trace = trace_module(TraceRequest(step=lambda: model(ids, **{name: cache}).logits, model=model))
        finally:
            for hook in hooks:
                hook.remove()
    return trace, ids, chosen


def _weight_bytes(model: Any, ids: Any, chosen: list[set[int]]) -> int:
    """All parameters; of an untied embedding the rows looked up, of experts those that were hit."""
    total = 0
    is_tied = model.lm_head.weight is model.model.embed_tokens.weight
    for name, parameter in model.named_parameters():
        if "embed_tokens" in name and not is_tied:
            total += len(set(ids.reshape(-1).tolist())) * parameter.shape[1] * ITEM
        elif ".experts." in name:
            layer = int(name.split("layers.")[1].split(".")[0])
            total += parameter.nbytes // EXPERTS * len(chosen[layer])
        else:
            total += parameter.nbytes
    return total


def _kv_bytes(model: Any, batch: int, context: int) -> int:
    """Keys and values of the tokens before this one; a sliding window also holds the new token itself."""
    types = getattr(model.config, "layer_types", None) or ["full_attention"] * LAYERS
    tokens = sum(min(context, WINDOW - 1) if kind == "sliding_attention" else context for kind in types)
    return 2 * KV_HEADS * HEAD_DIM * ITEM * tokens * batch


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("context", [5, 12])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_traced_bytes_equal_the_count_from_names(
    models: Callable[[str], Any], name: str, kind: str, batch: int, context: int
) -> None:
    """Weights and KV of a decode step agree with parameter names, routing and cache geometry to within 1 %."""
    model = models(name)
    trace, ids, chosen = _decode(model, kind, batch, context)
    traffic = trace.traffic
    assert traffic.weight_bytes_per_pass == pytest.approx(_weight_bytes(model, ids, chosen), rel=0.01)
    assert traffic.kv_bytes_per_pass == pytest.approx(_kv_bytes(model, batch, context), rel=0.01)
    assert (traffic.batch, traffic.context) == (batch, context)
    assert traffic.is_closed, traffic.notes
    assert trace.device_ids == ("cpu",)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_attention_written_out_needs_the_same_bytes(models: Callable[[str], Any], name: str, kind: str) -> None:
    """Attention as two matrix products, which see no mask, needs no more than the fused call."""
    model = models(name)
    fused, _, _ = _decode(model, kind, 2, 12)
    model.set_attn_implementation("eager")
    try:
        written_out, _, _ = _decode(model, kind, 2, 12)
    finally:
        model.set_attn_implementation("sdpa")
    assert written_out.traffic.kv_bytes_per_pass == fused.traffic.kv_bytes_per_pass
    assert written_out.traffic.weight_bytes_per_pass == fused.traffic.weight_bytes_per_pass


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("implementation", ["eager", "batched_mm", "grouped_mm"])
def test_experts_count_alike_however_they_are_multiplied(models: Callable[[str], Any], implementation: str) -> None:
    """A loop over experts, a gather of their weights and a grouped product read the same experts."""
    model = models("mixtral")
    model.set_experts_implementation(implementation)
    try:
        trace, ids, chosen = _decode(model, "dynamic", 3, 5)
    finally:
        model.set_experts_implementation("grouped_mm")
    assert trace.traffic.weight_bytes_per_pass == pytest.approx(_weight_bytes(model, ids, chosen), rel=0.01)
    copies = [label for label, _ in trace.traffic.extra if "gathered" in label]
    assert bool(copies) == (implementation == "batched_mm")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_limit_counts_the_experts_of_one_token(models: Callable[[str], Any]) -> None:
    """Tokens of another pass may all choose the same experts, so the least bytes hold only those of one token."""
    model = models("mixtral")
    trace, _, chosen = _decode(model, "dynamic", 3, 5)
    spare = sum(len(hit) - CHOSEN for hit in chosen)
    expert_bytes = sum(p.nbytes for n, p in model.named_parameters() if ".experts." in n) // LAYERS // EXPERTS
    traffic = trace.traffic
    assert spare > 0
    assert traffic.bytes_per_pass - traffic.least_bytes_per_pass == pytest.approx(spare * expert_bytes)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_latent_attention_reads_its_latents(kind: str) -> None:
    """Multi-head latent attention reads the latent and the rotary key of each token, not the heads made of them."""
    latent, rotary = 16, 8
    torch.manual_seed(7)
    config = transformers.DeepseekV3Config(
        **{**COMMON, "num_key_value_heads": 4},
        kv_lora_rank=latent,
        q_lora_rank=32,
        qk_rope_head_dim=rotary,
        qk_nope_head_dim=8,
        v_head_dim=HEAD_DIM,
        n_routed_experts=EXPERTS,
        num_experts_per_tok=CHOSEN,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        moe_intermediate_size=48,
    )
    trace, _, _ = _decode(transformers.DeepseekV3ForCausalLM(config).eval(), kind, 2, 12)
    per_token = trace.traffic.kv_bytes_per_token
    assert per_token == LAYERS * (latent + rotary) * ITEM
    assert trace.traffic.kv_bytes_per_pass == per_token * 12 * 2


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_room_of_a_static_cache_is_what_is_left_after_the_step(models: Callable[[str], Any]) -> None:
    """The room in a static cache is read where it is visible; a growing cache has none to speak of."""
    trace, _, _ = _decode(models("llama"), "static", 1, 5)
    assert trace.context_room == ROOM - 6
    trace, _, _ = _decode(models("llama"), "dynamic", 1, 5)
    assert trace.context_room is None


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_kv_per_token_stops_at_the_window(models: Callable[[str], Any]) -> None:
    """A full sliding window adds nothing per further token of context; the other layers do."""
    per_layer = 2 * KV_HEADS * HEAD_DIM * ITEM
    short, _, _ = _decode(models("gemma3"), "static", 1, 5)
    long, _, _ = _decode(models("gemma3"), "static", 1, 12)
    assert short.traffic.kv_bytes_per_token == 2 * per_layer
    assert long.traffic.kv_bytes_per_token == per_layer
