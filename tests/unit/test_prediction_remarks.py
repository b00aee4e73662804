"""What is said beside a prediction, and what would fit."""

from __future__ import annotations

from typing import Any

import pytest
from models_on_paper import counted, dense, machine, mixture

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.inventory import Inventory, rule_inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import predict
from pytest_roofline.remarks import explained, fewest_devices, largest_batch, largest_context
from pytest_roofline.workload import Draft, Workload


def notes(on: Machine | None = None, smaller: tuple[Inventory, ...] = (), **changes: Any) -> tuple[str, ...]:
    """The notes of a prediction, by default of the dense model on the round machine."""
    workload = Workload(**{"inventory": counted(dense()), **changes})
    return explained(predict(on or machine(), workload), smaller).notes


def rule(**changes: Any) -> Inventory:
    """70B in 16 bits, by the rule of thumb."""
    return rule_inventory(70e9, **{"bytes_per_parameter": 2.0, "weights": "bf16", "kv": "bf16", **changes})


def predicting() -> Architecture:
    """The dense model with a layer for multi-token prediction."""
    model = dense()
    layer = Weight(name="layers.*.eh_proj", part="other", shape=(2000, 2000), use="idle", layers=(2,))
    return dense(weights=(*model.weights, layer))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (notes(), "by the rule of thumb params x bytes: 167 tok/s; exact: 200 tok/s (1.00 MB of tables are looked up"),
        (notes(inventory=counted(mixture())), "params x bytes and the exact count agree: no table"),
        (notes(inventory=rule()), "this is the rule of thumb, params x bytes: every parameter counts as read"),
        (notes(inventory=counted(mixture()), batch=4), "6.19 MB of weights per pass are the expectation for 4 tokens"),
        (notes(inventory=counted(mixture()), batch=4), "only above 833 tok/s is a rate impossible"),
        (notes(inventory=rule(active_parameters=7e9), batch=2), "all of it taken as routed"),
        (notes(context=10_000), "10,000 tokens are beyond the 8,192 that this model was made for"),
        (notes(machine(peak_flops_per_s={})), "no peak for bfloat16 is known of round: compute bounds nothing here"),
        (notes(machine(peak_flops_per_s={"float16": 1e12})), "products run in float16: round has no peak for bfloat16"),
        (notes(prompt=10), "TTFT of one prompt of 10 tokens: 60.0 us is the rule of thumb 2 x params x tokens / peak,"),
        (notes(batch=2), "no context is given (it is 0): the KV cache is left out; add --context"),
        (notes(inventory=rule()), "no KV cache is counted: a number of parameters does not say how large one is"),
        (notes(machine(peak_flops_per_s={}), prompt=10), "no TTFT floor without a peak; give --peak"),
        (notes(tokens_per_pass=2.0), "2 tokens per pass, and the reads of whatever drafts them are not counted"),
        (
            notes(draft=Draft(inventory=counted(dense()), tokens=3), tokens_per_pass=2.5),
            "dense drafts 3 tokens before each pass: 15.0 MB more are read; 2.5 of 4 tokens per pass are taken",
        ),
        (notes(machine(ranks=2)), "bytes, FLOPs and memory of a pass are those of one of 2 devices"),
        (notes(machine(ranks=2)), "how many KV heads there are is not known: the KV cache is divided by the ranks"),
        (notes(machine(ranks=2)), "no link between devices is known of round: bytes of collectives take no time"),
        (notes(machine(ranks=2)), "no latency per all-reduce is counted; give --link-latency"),
        (
            notes(machine(ranks=2, link_bytes_per_s=1e9, link_source="sheet", link_latency_s=1e-5)),
            "4 all-reduces of 16-bit hidden states per pass: 8.00 kB per device at 1.00 GB/s (sheet)",
        ),
        (notes(machine(ranks=2, link_latency_s=1e-5)), "10.0 us of latency per all-reduce"),
        (
            notes(machine(ranks=2, link_bytes_per_s=1e3, link_source="sheet")),
            "the slowest link is the one between devices: 8.00 s of each pass",
        ),
        (notes(machine(ranks=2), inventory=rule()), "layers and width are not known: collectives are not counted"),
        (
            notes(
                machine(ranks=2),
                inventory=counted(dense(caches=(CacheLayers(name="MLA", layers=1, elements_per_token=1, kv_heads=1),))),
            ),
            "MLA: what is cached serves all heads: every rank keeps and reads all of it",
        ),
        (
            notes(
                machine(ranks=8),
                inventory=counted(dense(caches=(CacheLayers(name="a", layers=1, elements_per_token=8, kv_heads=4),))),
            ),
            "a: 4 KV heads on 8 ranks: the fullest keeps and reads 1 of them",
        ),
        (
            notes(inventory=counted(predicting())),
            "8.00 MB of multi-token-prediction layers are left out of the",
        ),
        (
            notes(inventory=counted(predicting()), draft=Draft(inventory=counted(dense()), tokens=1, is_own=True)),
            "8.00 MB of multi-token-prediction layers are part of the memory needed: they draft",
        ),
        (
            notes(machine(ranks=2), prompt=10),
            "TTFT of one prompt of 10 tokens: 30.0 us is the rule of thumb 2 x params x tokens / (2 x peak), which",
        ),
        (
            notes(machine(spill_bytes_per_s=1e8, spill_source="PCIe"), offload=0.25),
            "1.25 MB per pass come through the spill path at 100 MB/s (PCIe), after the rest (layers one after another",
        ),
        (
            notes(machine(spill_bytes_per_s=1e8, spill_source="PCIe"), offload=0.25, is_overlapped=True),
            "at the same time as the rest (overlapped: the slower path counts)",
        ),
        (
            notes(machine(spill_bytes_per_s=1e8, spill_source="PCIe"), offload=0.25),
            "the slowest link is the spill path: 12.5 ms of each pass",
        ),
        (notes(machine(memory_bytes=None)), "the size of the memory is not known: whether this fits is not said"),
        (notes(), "memory needed is weights and caches alone: activations and the runtime come on top"),
        (notes(machine(is_unified_memory=True)), "the 1.00 GB are shared with the system (unified memory)"),
        (notes(machine(memory_bytes=1e6)), "does not fit: 6.60 MB needed, 1.00 MB there (sheet)"),
        (notes(machine(memory_bytes=1e6)), "the weights alone do not fit, at any batch and context"),
        (notes(machine(memory_bytes=1e6)), "would fit: 8 such devices (tensor parallel), 1.00 MB each"),
        (notes(machine(memory_bytes=7e6), context=2000), "would fit: a context of up to 995 tokens at batch 1"),
        (notes(machine(memory_bytes=7e6), context=500, batch=4), "would fit: a batch of up to 1 at 500 tokens"),
        (
            notes(machine(memory_bytes=5e6), smaller=(counted(dense(), weights="tiny"),), context=0),
            "the weights alone do not fit",
        ),
        (
            notes(
                machine(memory_bytes=1e11), smaller=(rule(bytes_per_parameter=0.5, weights="int4"),), inventory=rule()
            ),
            "would fit: weights in int4",
        ),
    ],
)
def test_what_is_said(found: tuple[str, ...], said: str) -> None:
    """Each condition has its note, with figures."""
    assert any(said in note for note in found), found


def test_a_format_that_is_still_too_large_is_no_advice() -> None:
    """Only what fits is named."""
    found = notes(machine(memory_bytes=1e6), smaller=(counted(dense(), weights="fp8"),))
    assert not any("weights in" in note for note in found)


def test_the_largest_that_fit_do_and_one_more_does_not() -> None:
    """Contexts, batches and devices are exact."""
    small = machine(memory_bytes=9e6)
    workload = Workload(inventory=counted(dense()), batch=3, context=1000)
    context = largest_context(small, workload)
    assert context is not None
    for tokens, fits in ((context, True), (context + 1, False)):
        assert predict(small, Workload(inventory=workload.inventory, batch=3, context=tokens)).fits is fits
    batch = largest_batch(small, workload)
    for sequences, fits in ((batch, True), (batch + 1, False)):
        assert predict(small, Workload(inventory=workload.inventory, batch=sequences, context=1000)).fits is fits


def test_no_number_of_devices_holds_what_each_has_to_hold_whole() -> None:
    """A latent cache larger than the memory stays so, however many ranks."""
    latent = counted(dense(caches=(CacheLayers(name="MLA", layers=1, elements_per_token=1000, kv_heads=1),)))
    assert fewest_devices(machine(memory_bytes=1e6), Workload(inventory=latent, context=10_000)) is None
