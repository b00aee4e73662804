"""Sums over the weights and caches of a model."""

from __future__ import annotations

from typing import Any

import pytest
from models_on_paper import counted, dense, mixture, plain

from pytest_roofline.architecture import CacheLayers, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.inventory import own_draft, rule_inventory


def test_what_a_pass_reads_and_what_memory_holds() -> None:
    """Matrices and vectors are read; the looked-up table and the vision tower are only kept."""
    found = counted(dense())
    assert found.weight_bytes_per_pass(1.0) == 2 * (2 * 1_000_000 + 1_000 + 500_000)
    assert found.lookup_bytes == 1_000_000
    assert found.idle_bytes == 600_000
    assert found.total_bytes == found.weight_bytes_per_pass(7.0) + 1_600_000
    assert (found.parameters, found.active_parameters) == (3_001_000, 3_001_000)


def test_flops_of_decode_and_prefill() -> None:
    """Two per matrix element and token; a prompt needs the head once, and attention only backwards."""
    found = counted(dense())
    assert found.flops_per_pass(3.0, 10.0) == 3 * (2 * 2_500_000 + 2 * 400 * 10)
    assert found.prefill_flops(4) == 4 * 2 * 2_000_000 + 2 * 500_000 + 2 * 400 * (1 + 2 + 3 + 4)


def test_experts_by_the_batch() -> None:
    """k of E for one token; then the expected distinct ones; never more than all."""
    found = counted(mixture())
    experts = 2 * 2 * 8 * 100_000
    assert found.weight_bytes_per_pass(1.0) == pytest.approx(4_000_000 + experts * 2 / 8)
    assert found.weight_bytes_per_pass(4.0) == pytest.approx(4_000_000 + experts * (1 - 0.75**4))
    assert found.least_weight_bytes_per_pass() == found.weight_bytes_per_pass(1.0)
    assert found.weight_bytes_per_pass(1e9) == pytest.approx(found.total_bytes)
    assert found.flops_per_token == 2 * (2_000_000 + 2 * 8 * 100_000 * 2 / 8)


@pytest.mark.parametrize(
    ("cache", "read", "kept"),
    [
        (CacheLayers(name="full", layers=3, elements_per_token=10), 3 * 10 * 100 * 2, 3 * 10 * 100 * 2),
        (CacheLayers(name="window", layers=3, elements_per_token=10, window=40), 3 * 10 * 40 * 2, 3 * 10 * 40 * 2),
        (CacheLayers(name="chunk", layers=3, elements_per_token=10, chunk=64), 3 * 10 * 36 * 2, 3 * 10 * 64 * 2),
        (CacheLayers(name="image", layers=3, elements_per_token=10, fixed_tokens=7), 3 * 10 * 7 * 2, 3 * 10 * 7 * 2),
        (CacheLayers(name="selection", layers=3, elements_per_token=10, selected=8), 3 * 10 * 8 * 2, 3 * 10 * 100 * 2),
        (CacheLayers(name="keys", layers=3, elements_per_token=8, bytes_per_element=1.5), 3 * 12 * 100, 3 * 12 * 100),
        (CacheLayers(name="state", layers=3, state_elements=50), 2 * 3 * 50 * 2, 3 * 50 * 2),
        (
            CacheLayers(name="Mamba", layers=3, state_elements=50, state_bytes_per_element=4.0),
            2 * 3 * 50 * 4,
            3 * 50 * 4,
        ),
    ],
)
def test_what_each_kind_of_cache_reads_and_keeps(cache: CacheLayers, read: float, kept: float) -> None:
    """100 tokens along: windows and chunks stop growing, a state is read and written, and kept once."""
    found = counted(dense(caches=(cache,)))
    assert found.kv_bytes_read(100) == read
    assert found.kv_bytes_kept(100) == kept


@pytest.mark.parametrize(
    "limits",
    [{}, {"window": 3}, {"chunk": 4}, {"window": 3, "chunk": 4}, {"selected": 3}, {"selected": 3, "window": 2}],
)
def test_causal_attention_is_the_sum_over_its_tokens(limits: dict[str, Any]) -> None:
    """The closed forms agree with adding up what each token of the prompt sees, in a window or of its choice."""
    cache = CacheLayers(name="c", layers=1, elements_per_token=1, flops_per_position=1, **limits)
    found = counted(dense(caches=(cache,)))
    without = counted(dense(caches=()))
    chunk, most = limits.get("chunk"), [limits[name] for name in ("window", "selected") if name in limits]
    for tokens in range(1, 12):
        seen = 0
        for position in range(1, tokens + 1):
            seen += min(position if chunk is None else (position - 1) % chunk + 1, *most, 99)
        assert found.prefill_flops(tokens) - without.prefill_flops(tokens) == seen


def test_fixed_tokens_are_seen_by_every_token() -> None:
    """Cross-attention to an image does not grow with the prompt."""
    cache = CacheLayers(name="c", layers=1, elements_per_token=1, fixed_tokens=7, flops_per_position=1)
    assert counted(dense(caches=(cache,))).prefill_flops(3) - counted(dense(caches=())).prefill_flops(3) == 21


def test_the_rule_of_thumb() -> None:
    """Every parameter is one that is read, or a share of them for a mixture."""
    whole = rule_inventory(70e9, bytes_per_parameter=0.5, weights="int4", kv="bf16", kv_bytes_per_token=1000.0)
    assert whole.weight_bytes_per_pass(32.0) == whole.total_bytes == 35e9
    assert whole.kv_bytes_read(10) == whole.kv_bytes_per_token * 10 == 10_000
    assert whole.flops_per_token == 140e9
    part = rule_inventory(400e9, active_parameters=40e9, bytes_per_parameter=0.5, weights="int4", kv="bf16")
    assert part.weight_bytes_per_pass(1.0) == pytest.approx(20e9)
    assert part.weight_bytes_per_pass(2.0) == pytest.approx(200e9 * (1 - 0.9**2))
    assert (part.model, part.kv_bytes_per_token) == ("400B parameters, 40B active", 0.0)


def test_more_active_parameters_than_there_are() -> None:
    """That is wrong use."""
    with pytest.raises(RooflineUsageError, match=r"40B active parameters of 7B: more than there are"):
        rule_inventory(7e9, active_parameters=40e9, bytes_per_parameter=2.0, weights="bf16", kv="bf16")


@pytest.mark.parametrize("is_fused", [False, True])
def test_multi_token_prediction_layers_as_a_draft(is_fused: bool) -> None:
    """Idle layers past the last one: read as what they are, with experts as the model routes, a cache, and the head."""
    model = mixture()
    own = (
        Weight(name="layers.*.eh_proj", part="other", shape=(10, 1000), use="idle", layers=(2,)),
        Weight(
            name="layers.*.experts.up",
            part="ffn_up",
            shape=(8, 100, 1000) if is_fused else (100, 1000),
            use="idle",
            layers=(2,),
            experts=1 if is_fused else 8,
        ),
        Weight(name="layers.*.norm", part="norm", shape=(1000,), use="idle", layers=(2,)),
        Weight(name="layers.*.embed", part="embedding", shape=(500, 1000), use="idle", layers=(2,)),
    )
    head = Weight(name="lm_head", part="head", shape=(500, 1000), use="matrix")
    model = dense(weights=(*model.weights, *own, head))
    found = own_draft(model, plain, counted(model))
    assert found.weight_bytes_per_pass(1.0) == pytest.approx(2 * (10_000 + 800_000 * 2 / 8 + 1_000 + 500_000))
    assert found.kv_bytes_read(10) == 100 * 10 * 2
    assert found.model == "dense MTP"
    whole = counted(model)
    assert whole.prediction_bytes == 2 * (10_000 + 800_000 + 1_000)
    without = [weight for weight in model.weights if weight not in own[:3]]
    assert whole.total_bytes == counted(dense(weights=tuple(without))).total_bytes


def test_prediction_layers_attend_to_the_whole_context() -> None:
    """Beside windows and recurrent states theirs is the cache that never stops growing, one for each that attends."""
    attention = CacheLayers(name="attention", layers=2, elements_per_token=100)
    others = (
        CacheLayers(name="sliding", layers=9, elements_per_token=40, window=4),
        CacheLayers(name="image", layers=1, elements_per_token=40, fixed_tokens=9),
        CacheLayers(name="state", layers=9, state_elements=40),
    )
    own = (
        Weight(name="mtp.layers.*.k_proj", part="attn_k", shape=(10, 1000), use="idle", layers=(0,)),
        Weight(name="mtp.layers.*.up_proj", part="ffn_up", shape=(10, 1000), use="idle", layers=(1,)),
    )
    model = dense(weights=(*dense().weights, *own), caches=(others[0], attention, *others[1:]))
    assert own_draft(model, plain, counted(model)).kv_bytes_read(10) == 100 * 10 * 2
    sliding = dense(weights=model.weights, caches=others)
    assert own_draft(sliding, plain, counted(sliding)).kv_bytes_read(10) == 40 * 4 * 2


def test_a_model_without_prediction_layers() -> None:
    """A vision tower is idle too, and no draft."""
    with pytest.raises(
        RooflineUsageError, match=r"dense: no multi-token-prediction layers are known \(made for tests\)"
    ):
        own_draft(dense(), plain, counted(dense()))
