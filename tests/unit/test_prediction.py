"""The division, with everything that goes into it, on round figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from models_on_paper import counted, dense, machine, mixture

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.prediction import predict
from pytest_roofline.workload import Draft, Workload

CONTRACT = (
    *("device", "model", "weights", "kv", "batch", "context", "bandwidth_bytes_per_s", "bandwidth_source"),
    *("weight_bytes_total", "weight_bytes_per_pass", "kv_bytes_per_token", "kv_bytes_per_pass", "bytes_per_pass"),
    *("flops_per_pass", "arithmetic_intensity", "ridge_point", "bound", "memory_needed_bytes", "fits"),
    *("tokens_per_pass", "ceiling_tokens_per_s", "ceiling_tokens_per_s_per_user", "expected_tokens_per_s"),
    *("ttft_floor_s", "notes"),
)
WEIGHTS = 2 * 2_501_000
"""Bytes that a pass of the dense model reads."""


def work(**changes: Any) -> Workload:
    """The dense model, one sequence, no context."""
    return Workload(**{"inventory": counted(dense()), **changes})


def test_memory_bounds_a_single_sequence() -> None:
    """Bytes over bandwidth."""
    found = predict(machine(), work(context=100))
    assert found.bytes_per_pass == WEIGHTS + 100 * 2 * 100 * 2
    assert found.step_floor_s == found.bytes_per_pass / 1e9
    assert (found.bound, found.fits) == ("memory", True)
    assert found.ceiling_tokens_per_s == 1 / found.step_floor_s
    assert found.expected_tokens_per_s == (0.6 * found.ceiling_tokens_per_s, 0.85 * found.ceiling_tokens_per_s)


def test_compute_bounds_a_large_batch() -> None:
    """FLOPs over peak, beyond the ridge."""
    found = predict(machine(), work(batch=2000))
    assert found.bound == "compute"
    assert found.step_floor_s == found.flops_per_pass / 1e12
    assert found.arithmetic_intensity > found.ridge_point == 1000.0
    assert found.ceiling_tokens_per_s_per_user == found.ceiling_tokens_per_s / 2000


@pytest.mark.parametrize(
    ("dtype", "peaks", "runs_in"),
    [
        ("bfloat16", {"bfloat16": 1.0, "float8": 2.0}, "bfloat16"),
        ("float8", {"bfloat16": 1.0, "float8": 2.0}, "float8"),
        ("float8", {"bfloat16": 1.0}, "bfloat16"),
        ("bfloat16", {"float16": 1.0, "float32": 0.1}, "float16"),
        ("float4", {"float8": 2.0, "bfloat16": 1.0}, "float8"),
        ("float32", {"bfloat16": 1.0}, None),
    ],
)
def test_the_peak_of_the_format(dtype: str, peaks: dict[str, float], runs_in: str | None) -> None:
    """A device without the format's units computes in the next wider ones that it has."""
    peak = machine(peak_flops_per_s=peaks).peak(dtype)
    assert (peak and peak[2]) == runs_in
    assert peak is None or peak[0] == peaks[peak[2]]


def test_a_given_peak_replaces_all() -> None:
    """Whatever the dtype, with the option as its source."""
    assert machine(given_peak_flops_per_s=5e12).peak("float32") == (5e12, "given: --peak", "float32")


def test_no_peak_means_no_compute_bound() -> None:
    """Nothing is invented: no ridge, no floor of the first token."""
    found = predict(machine(peak_flops_per_s={}), work(batch=10**6, prompt=10))
    assert found.step_bound == "memory"
    assert (found.ridge_point, found.ttft_floor_s, found.prefill_floor_s) == (None, None, None)


def test_the_first_token() -> None:
    """The rule counts every parameter; beside it the exact FLOPs, and the weights read once."""
    found = predict(machine(), work(prompt=1000))
    assert found.ttft_floor_s == 2 * 3_001_000 * 1000 / 1e12
    assert found.prefill_flops == found.workload.inventory.prefill_flops(1000)
    assert found.prefill_floor_s == WEIGHTS / 1e9 < found.ttft_floor_s
    short = predict(machine(bandwidth_bytes_per_s=1e15), work(prompt=1000))
    assert short.prefill_floor_s == short.prefill_flops / 1e12


def test_experts_of_a_batch() -> None:
    """Expected for the ceiling; only the least for what is impossible."""
    found = predict(machine(), Workload(inventory=counted(mixture()), batch=4))
    assert found.weight_bytes_per_pass > found.least_bytes_per_pass
    assert found.limit_tokens_per_s == 4 / (found.least_bytes_per_pass / 1e9)
    assert found.limit_tokens_per_s > found.ceiling_tokens_per_s
    alone = predict(machine(), Workload(inventory=counted(mixture())))
    assert alone.limit_tokens_per_s == alone.ceiling_tokens_per_s


def test_the_rule_counts_tables_as_read() -> None:
    """Slower than the exact count by the embedding."""
    found = predict(machine(), work())
    assert found.rule_weight_bytes_per_pass == WEIGHTS + 1_000_000
    assert found.rule_tokens_per_s == pytest.approx(1e9 / (WEIGHTS + 1_000_000))


def test_tokens_per_pass_multiply_the_tokens() -> None:
    """The bytes stay, the arithmetic grows with what is verified."""
    one, two = predict(machine(), work()), predict(machine(), work(tokens_per_pass=2.5))
    assert two.bytes_per_pass == one.bytes_per_pass
    assert two.ceiling_tokens_per_s == pytest.approx(2.5 * one.ceiling_tokens_per_s)
    assert two.flops_per_pass == 2.5 * one.flops_per_pass


def test_a_draft_adds_its_reads() -> None:
    """Its weights and its KV once for each drafted token; its weights take memory too."""
    plain = predict(machine(), work(context=10, batch=2))
    drafting = Draft(inventory=counted(dense()), tokens=3)
    found = predict(machine(), work(context=10, batch=2, draft=drafting, tokens_per_pass=2.0))
    assert found.draft_bytes_per_pass == 3 * (WEIGHTS + 2 * 10 * 400)
    assert found.bytes_per_pass == plain.bytes_per_pass + found.draft_bytes_per_pass
    assert found.flops_per_pass == plain.flops_per_pass * 4 + 3 * plain.flops_per_pass
    assert found.memory_needed_bytes == 2 * plain.memory_needed_bytes
    own = predict(machine(), work(draft=replace(drafting, is_own=True), tokens_per_pass=2.0))
    assert own.memory_needed_bytes == predict(machine(), work()).memory_needed_bytes


def test_verified_tokens_choose_experts_too() -> None:
    """A draft of three makes four tokens that route."""
    inventory = counted(mixture())
    found = predict(machine(), Workload(inventory=inventory, draft=Draft(inventory=counted(dense()), tokens=3)))
    assert found.weight_bytes_per_pass == inventory.weight_bytes_per_pass(4.0)


def test_ranks_divide_the_bytes_and_exchange_hidden_states() -> None:
    """Two all-reduces per layer, by a ring: 2 * (n - 1) / n of 16-bit hidden states, and a latency for each."""
    alone = predict(machine(), work(batch=8, context=10))
    found = predict(
        machine(ranks=4, link_bytes_per_s=1e9, link_source="sheet", link_latency_s=1e-6), work(batch=8, context=10)
    )
    for name in ("weight_bytes_per_pass", "kv_bytes_per_pass", "flops_per_pass", "memory_needed_bytes"):
        assert getattr(found, name) == pytest.approx(getattr(alone, name) / 4)
    assert found.link_bytes_per_pass == 2 * 2 * 1.5 * 8 * 1000 * 2
    assert found.link_s == pytest.approx(found.link_bytes_per_pass / 1e9 + 4e-6)
    assert found.step_floor_s == max(found.memory_s, found.link_s)


def test_a_slow_link_bounds() -> None:
    """And the bound says so."""
    found = predict(machine(ranks=2, link_bytes_per_s=1e3, link_source="sheet"), work())
    assert found.bound == "link"
    assert found.step_floor_s == found.link_s


def test_a_latent_is_not_divided() -> None:
    """Every rank reads all of what all heads share."""
    latent = CacheLayers(name="MLA", layers=2, elements_per_token=100, kv_heads=1)
    found = predict(machine(ranks=4), work(inventory=counted(dense(caches=(latent,))), context=10))
    assert found.kv_bytes_per_pass == 10 * 400
    assert found.memory_needed_bytes == counted(dense()).total_bytes / 4 + 10 * 400


@pytest.mark.parametrize(
    ("kv_heads", "ranks", "share"),
    [(8, 4, 1 / 4), (8, 3, 3 / 8), (4, 8, 1 / 4), (8, 8, 1 / 8), (1, 2, 1.0), (None, 8, 1 / 8)],
)
def test_the_fullest_rank_holds_whole_heads(kv_heads: int | None, ranks: int, share: float) -> None:
    """Read, kept and drafted with: 3 of 8 heads on 3 ranks, one of 4 on 8; a state divides whatever the heads are."""
    cache = CacheLayers(name="attention", layers=2, elements_per_token=100, kv_heads=kv_heads, state_elements=30)
    inventory = counted(dense(caches=(cache,)))
    found = predict(machine(ranks=ranks), work(inventory=inventory, context=10))
    assert found.kv_bytes_per_pass == pytest.approx(10 * 400 * share + 2 * 2 * 30 * 2 / ranks)
    kept = 10 * 400 * share + 2 * 30 * 2 / ranks
    assert found.memory_needed_bytes == pytest.approx(inventory.total_bytes / ranks + kept)
    drafted = predict(
        machine(ranks=ranks), work(inventory=inventory, context=10, draft=Draft(inventory=inventory, tokens=1))
    )
    assert drafted.draft_bytes_per_pass == pytest.approx(WEIGHTS / ranks + found.kv_bytes_per_pass)


@pytest.mark.parametrize("is_overlapped", [False, True])
def test_spilled_weights_come_through_the_spill_path(is_overlapped: bool) -> None:
    """A quarter of them at a tenth of the rate: added up, or the slower of the two."""
    found = predict(
        machine(spill_bytes_per_s=1e8, spill_source="PCIe"), work(offload=0.25, is_overlapped=is_overlapped)
    )
    local_s, spill_s = 0.75 * WEIGHTS / 1e9, 0.25 * WEIGHTS / 1e8
    assert found.step_floor_s == pytest.approx(max(local_s, spill_s) if is_overlapped else local_s + spill_s)
    assert found.bound == "link"
    assert found.memory_needed_bytes == 0.75 * counted(dense()).total_bytes


def test_a_fast_spill_path_leaves_memory_the_bound() -> None:
    """A hundredth of the weights hardly matters."""
    found = predict(machine(spill_bytes_per_s=1e8, spill_source="PCIe"), work(offload=0.01))
    assert found.bound == "memory"


def test_a_spill_path_has_to_be_known() -> None:
    """The error says how to give it."""
    with pytest.raises(
        RooflineUsageError, match=r"25% of the weights .* of round.*give --spill-bandwidth, such as 64GB/s"
    ):
        predict(machine(), work(offload=0.25))


def test_capacity() -> None:
    """All weights, and the cache at the longer of context and prompt."""
    found = predict(machine(memory_bytes=7e6), work(context=100, prompt=1000, batch=3))
    assert found.memory_needed_bytes == counted(dense()).total_bytes + 3 * 1000 * 400
    assert (found.fits, found.bound, found.step_bound) == (False, "capacity", "memory")
    assert predict(machine(memory_bytes=None), work()).fits is None


def test_the_json_has_the_keys_of_the_contract() -> None:
    """First those, in their order, then more; builtin types only, and nothing that JSON cannot say."""
    for found in (
        predict(machine(), work(prompt=5)),
        predict(machine(peak_flops_per_s={}, memory_bytes=None), work()),
        predict(machine(ranks=2), Workload(inventory=counted(mixture()), batch=7)),
    ):
        record = found.to_dict()
        assert list(record)[: len(CONTRACT) + 1] == ["schema", *CONTRACT]
        assert json.loads(json.dumps(record, allow_nan=False)) == record


LEAST = "a pass yields a token of the model's own at least, and 10,000 are the most that are believed"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch is 0; it must be 1 or more"),
        ({"context": -1}, "context is -1; it must be 0 or more"),
        ({"prompt": 0}, "prompt is 0; it must be 1 or more tokens"),
        ({"tokens_per_pass": 0.0}, f"tokens_per_pass is 0: {LEAST}"),
        ({"tokens_per_pass": 0.5}, f"tokens_per_pass is 0.5: {LEAST}"),
        ({"tokens_per_pass": 20_000}, f"tokens_per_pass is 20000: {LEAST}"),
        ({"tokens_per_pass": math.nan}, f"tokens_per_pass is nan: {LEAST}"),
        ({"offload": 1.5}, "offload is 1.5; a share of the weights from 0 to 1 is needed"),
        ({"draft": Draft(inventory=counted(dense()), tokens=0)}, "0 draft tokens; 1 or more are needed"),
        (
            {"draft": Draft(inventory=counted(dense()), tokens=1), "tokens_per_pass": 3.0},
            "tokens_per_pass is 3: 1 drafted tokens and one of the model's own make at most 2",
        ),
    ],
)
def test_impossible_workloads(changes: dict[str, Any], message: str) -> None:
    """Named with their figures."""
    with pytest.raises(RooflineUsageError) as caught:
        work(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidth_bytes_per_s": 0.0}, "round: the bandwidth is 0.0 bytes/s; a positive one is needed"),
        ({"bandwidth_bytes_per_s": math.inf}, "round: the bandwidth is inf bytes/s; a positive one is needed"),
        ({"ranks": 0}, "round: 0 ranks; 1 or more are needed"),
    ],
)
def test_impossible_machines(changes: dict[str, Any], message: str) -> None:
    """Named with their figures."""
    with pytest.raises(RooflineUsageError) as caught:
        machine(**changes)
    assert str(caught.value) == message
