"""Laws of predictions: what grows, what divides, what never exceeds what."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import steady

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.inventory import Experts, Inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import predict
from pytest_roofline.remarks import explained
from pytest_roofline.workload import Workload

few = settings(steady, max_examples=60)
sizes = st.floats(min_value=1e3, max_value=1e13)
caches = st.builds(
    CacheLayers,
    name=st.sampled_from(["attention", "MLA"]),
    layers=st.integers(1, 100),
    elements_per_token=st.integers(0, 10_000),
    window=st.none() | st.integers(1, 10_000),
    state_elements=st.integers(0, 10_000),
    flops_per_position=st.integers(0, 10**6),
)
inventories = st.builds(
    Inventory,
    model=st.just("model"),
    source=st.just("made up"),
    weights=st.just("bf16"),
    kv=st.just("bf16"),
    parameters=sizes,
    active_parameters=sizes,
    dense_bytes=sizes,
    experts=st.lists(
        st.builds(Experts, weight_bytes=sizes, share=st.floats(min_value=1e-3, max_value=1.0)), max_size=2
    ).map(tuple),
    lookup_bytes=sizes,
    idle_bytes=sizes,
    flops_per_token=sizes,
    caches=st.lists(caches, max_size=3).map(tuple),
    kv_bytes_per_element=st.floats(min_value=0.25, max_value=4.0),
    layers=st.integers(0, 200),
    hidden=st.integers(1, 20_000),
)
machines = st.builds(
    Machine,
    name=st.just("machine"),
    bandwidth_bytes_per_s=st.floats(min_value=1e9, max_value=1e14),
    bandwidth_source=st.just("made up"),
    given_peak_flops_per_s=st.none() | st.floats(min_value=1e9, max_value=1e17),
    memory_bytes=st.none() | st.floats(min_value=1e6, max_value=1e14),
    memory_source=st.just("made up"),
    ranks=st.integers(1, 16),
    link_bytes_per_s=st.none() | st.floats(min_value=1e9, max_value=1e13),
    link_latency_s=st.floats(min_value=0, max_value=1e-3),
    spill_bytes_per_s=st.floats(min_value=1e8, max_value=1e12),
)
workloads = st.builds(
    Workload,
    inventory=inventories,
    batch=st.integers(1, 10_000),
    context=st.integers(0, 10**6),
    prompt=st.none() | st.integers(1, 10**6),
    tokens_per_pass=st.floats(min_value=1.0, max_value=8.0),
    offload=st.floats(min_value=0.0, max_value=1.0),
    is_overlapped=st.booleans(),
)


@few
@given(machine=machines, workload=workloads)
def test_the_parts_make_the_whole(machine: Machine, workload: Workload) -> None:
    """The floor is at least every part of it, the least is the least, and what is expected lies below the ceiling."""
    found = predict(machine, workload)
    assert found.step_floor_s >= max(found.memory_s, found.spill_s, found.compute_s, found.link_s)
    assert found.step_floor_s <= found.memory_s + found.spill_s + found.compute_s + found.link_s
    assert found.least_bytes_per_pass <= found.bytes_per_pass * (1 + 1e-9)
    assert found.limit_tokens_per_s >= found.ceiling_tokens_per_s * (1 - 1e-9)
    assert found.rule_tokens_per_s <= found.ceiling_tokens_per_s * (1 + 1e-9)
    assert found.weight_bytes_per_pass * machine.ranks <= workload.inventory.total_bytes * (1 + 1e-9)
    low, high = found.expected_tokens_per_s
    assert 0 < low < high < found.ceiling_tokens_per_s


@few
@given(machine=machines, workload=workloads)
def test_whatever_is_predicted_is_json(machine: Machine, workload: Workload) -> None:
    """No NaN, no infinity, notes and all."""
    record = explained(predict(machine, workload)).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record


@few
@given(machine=machines, workload=workloads, more=st.integers(1, 10_000))
def test_more_sequences_never_make_one_faster(machine: Machine, workload: Workload, more: int) -> None:
    """The batch as a whole gains, each of it does not."""
    one, many = predict(machine, workload), predict(machine, replace(workload, batch=workload.batch + more))
    assert many.ceiling_tokens_per_s_per_user <= one.ceiling_tokens_per_s_per_user * (1 + 1e-9)
    assert many.memory_needed_bytes >= one.memory_needed_bytes


@few
@given(machine=machines, workload=workloads, more=st.integers(1, 10**6))
def test_more_context_never_is_faster(machine: Machine, workload: Workload, more: int) -> None:
    """Caches grow or stay."""
    short, long = predict(machine, workload), predict(machine, replace(workload, context=workload.context + more))
    assert long.ceiling_tokens_per_s <= short.ceiling_tokens_per_s * (1 + 1e-9)
    assert long.memory_needed_bytes >= short.memory_needed_bytes


@few
@given(machine=machines, workload=workloads, factor=st.floats(min_value=1.0, max_value=100.0))
def test_a_faster_memory_never_is_slower(machine: Machine, workload: Workload, factor: float) -> None:
    """And at most by its factor faster."""
    slow = predict(machine, workload)
    fast = predict(replace(machine, bandwidth_bytes_per_s=factor * machine.bandwidth_bytes_per_s), workload)
    gain = fast.ceiling_tokens_per_s / slow.ceiling_tokens_per_s
    assert 1 - 1e-9 <= gain <= factor * (1 + 1e-9)


@few
@given(machine=machines, workload=workloads)
def test_overlapping_never_is_slower(machine: Machine, workload: Workload) -> None:
    """And at most twice as fast."""
    taken_in_turn = predict(machine, replace(workload, is_overlapped=False)).step_floor_s
    overlapped = predict(machine, replace(workload, is_overlapped=True)).step_floor_s
    assert overlapped <= taken_in_turn <= 2 * overlapped * (1 + 1e-9)


@few
@given(
    inventory=inventories, tokens=st.floats(min_value=1.0, max_value=1e6), more=st.floats(min_value=1.0, max_value=1e6)
)
def test_more_tokens_hit_more_experts(inventory: Inventory, tokens: float, more: float) -> None:
    """Never fewer, never more than all."""
    read = inventory.weight_bytes_per_pass(tokens)
    assert inventory.least_weight_bytes_per_pass() <= read * (1 + 1e-9)
    assert read <= inventory.weight_bytes_per_pass(tokens + more) * (1 + 1e-9)
    assert read <= inventory.total_bytes * (1 + 1e-9)
