"""What no correct implementation can exceed, what a card holds, and what may differ between engines."""

from __future__ import annotations

from typing import Any

import pytest
from models_on_paper import counted, dense, machine

from pytest_roofline.architecture import Architecture, CacheLayers, Weight
from pytest_roofline.machine import Machine
from pytest_roofline.predict import Given, machine_of
from pytest_roofline.prediction import needed_bytes, predict
from pytest_roofline.readers.config import read_config
from pytest_roofline.remarks import explained, fewest_devices
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.workload import Workload

LATENT = CacheLayers(name="MLA", layers=2, elements_per_token=100, kv_heads=1)
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 100,
    "intermediate_size": 128,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def heads(kv_heads: int | None, elements: int = 100) -> Architecture:
    """The dense model with so many KV heads."""
    cache = CacheLayers(name="attention", layers=2, elements_per_token=elements, kv_heads=kv_heads)
    return dense(caches=(cache,))


def test_the_limit_divides_what_plain_tensor_parallel_copies() -> None:
    """A latent of all heads: read whole by every rank of the prediction, by a quarter each at the limit."""
    inventory = counted(dense(caches=(LATENT,)))
    found = predict(machine(ranks=4), Workload(inventory=inventory, context=10_000))
    weights, cached = 2 * 2_501_000, 10_000 * 400
    assert found.kv_bytes_per_pass == cached
    assert found.least_bytes_per_pass == pytest.approx((weights + cached) / 4)
    assert found.limit_tokens_per_s == pytest.approx(4e9 / (weights + cached))


def test_the_limit_leaves_collectives_out() -> None:
    """Other ways to share the work need fewer of them."""
    found = predict(machine(ranks=2, link_bytes_per_s=1e3, link_source="sheet"), Workload(inventory=counted(dense())))
    assert found.step_bound == "link"
    assert found.limit_tokens_per_s == pytest.approx(2e9 / (2 * 2_501_000))


def test_the_limit_rests_on_the_fastest_units() -> None:
    """Whatever dtype a kernel makes of its operands."""
    peaks = {"bfloat16": 1e12, "int8": 4e12}
    found = predict(machine(peak_flops_per_s=peaks), Workload(inventory=counted(dense()), batch=100_000))
    assert found.compute_s == found.flops_per_pass / 1e12
    assert found.limit_step_floor_s == found.flops_per_pass / 4e12
    notes = explained(found).notes
    assert any("is a rate impossible" in note and "at the largest peak of any dtype" in note for note in notes)


@pytest.mark.parametrize(
    ("dtype", "peaks", "runs_in"),
    [
        ("int8", {"bfloat16": 1.0, "int8": 2.0}, "int8"),
        ("int8", {"bfloat16": 2.0, "int8": 1.0}, "bfloat16"),
        ("int8", {"float16": 1.0}, "float16"),
        ("float8", {"bfloat16": 2.0, "float8": 1.0}, "bfloat16"),
        ("bfloat16", {"bfloat16": 1.0, "float16": 2.0}, "bfloat16"),
    ],
)
def test_quantized_operands_run_in_the_fastest_units(dtype: str, peaks: dict[str, float], runs_in: str) -> None:
    """They may be unpacked; plain ones are what they are."""
    assert machine(peak_flops_per_s=peaks, peak_sources={}).peak(dtype) == (peaks[runs_in], "round", runs_in)


def test_slower_units_are_said() -> None:
    """A device that has them, and has faster ones."""
    on = machine(peak_flops_per_s={"bfloat16": 2e12, "int8": 1e12})
    notes = explained(predict(on, Workload(inventory=counted(dense(), compute_dtype="int8")))).notes
    assert "products run in bfloat16: round is faster in it than in int8" in notes


# -- what a card holds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needed_gb", "fits", "fits_as_printed"), [(12.0, True, True), (12.5, True, False), (13.0, False, False)]
)
def test_a_printed_size_may_be_binary(needed_gb: float, fits: bool, fits_as_printed: bool) -> None:
    """Between 12 GB and 12 GiB it fits, with nothing left, and that is said."""
    on = machine_of("rtx-3060", Given(), Catalogue())
    rows = int(needed_gb * 1e9 / 2000)
    table = Weight(name="w", part="other", shape=(rows, 1000), use="matrix")
    found = explained(predict(on, Workload(inventory=counted(dense(weights=(table,), caches=())))))
    assert (found.fits, found.fits_as_printed) == (fits, fits_as_printed)
    note = "fits only because the 12 GB of a card are 12 GiB; nothing is left for activations"
    assert (note in found.notes) == (fits and not fits_as_printed)


@pytest.mark.parametrize(
    ("device", "given", "most"),
    [
        ("rtx-3060", Given(), 12 * 2**30),
        ("rtx-3060", Given(memory_bytes=12e9), None),
        ("dgx-spark", Given(), None),
        (None, Given(bandwidth_bytes_per_s=1e12, memory_bytes=12e9), None),
    ],
)
def test_only_a_vendors_gb_are_read_as_gib(device: str | None, given: Given, most: float | None) -> None:
    """Neither what the user states nor what the system shares."""
    assert machine_of(device, given, Catalogue()).most_memory_bytes == most


def test_a_divided_cache_that_fits_is_said() -> None:
    """Plain tensor parallel does not fit; data-parallel attention does, on these devices or on more of them."""
    inventory = counted(dense(caches=(LATENT,)))
    workload = Workload(inventory=inventory, context=20_000)
    on = machine(ranks=4, memory_bytes=5e6)
    found = explained(predict(on, workload))
    assert found.fits is False
    assert needed_bytes(on, workload, is_divided=True) == (inventory.total_bytes + 20_000 * 400) / 4
    assert "with data-parallel attention, which divides the cache, 3.65 MB are needed on each device: fits" in (
        found.notes
    )
    alone = explained(predict(machine(memory_bytes=5e6), workload)).notes
    assert "would fit: 4 such devices with data-parallel attention, which divides the cache" in alone


@pytest.mark.parametrize(
    ("kv_heads", "devices"),
    [(12, 12), (8, 8), (10, 10), (None, 8), (1, 8), (3, 12)],
)
def test_devices_that_share_heads_evenly(kv_heads: int | None, devices: int) -> None:
    """Seven would do: the next that divides the heads, or copies them a power of two times."""
    assert fewest_devices(machine(memory_bytes=6.6e6 / 6.5), Workload(inventory=counted(heads(kv_heads)))) == devices


# -- states, collectives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "dtype", "read", "least"), [(4.0, "bfloat16", 4, 2), (None, "bfloat16", 2, 2)])
def test_a_state_does_not_follow_the_kv_format(own: float | None, dtype: str, read: int, least: int) -> None:
    """fp32 or the model's dtype, whatever the keys are stored in; the limit takes the smaller."""
    cache = CacheLayers(name="state", layers=2, state_elements=50, state_bytes_per_element=own)
    inventory = counted(dense(caches=(cache,), dtype=dtype), kv_bytes_per_element=0.5)
    assert inventory.kv_bytes_read(0) == 2 * 2 * 50 * read
    assert inventory.at_least().kv_bytes_read(0) == 2 * 2 * 50 * least


def test_a_plain_state_of_a_float32_model() -> None:
    """Four bytes."""
    cache = CacheLayers(name="state", layers=1, state_elements=50)
    assert counted(dense(caches=(cache,), dtype="float32")).kv_bytes_kept(0) == 200


def test_layers_for_images_are_not_in_the_least() -> None:
    """Weights, arithmetic and cache."""
    only = Weight(name="cross", part="attn_q", shape=(10, 10), use="matrix", needs_image=True)
    image = CacheLayers(name="cross", layers=1, elements_per_token=10, fixed_tokens=5, needs_image=True)
    model = dense()
    with_image = counted(dense(weights=(*model.weights, only), caches=(*model.caches, image)))
    least, without = with_image.at_least(), counted(model)
    assert with_image.dense_bytes == without.dense_bytes + 200
    assert with_image.least_weight_bytes_per_pass() == least.dense_bytes == without.dense_bytes
    assert least.kv_bytes_read(7) == without.kv_bytes_read(7)
    assert least.flops_per_pass(1, 7) == without.flops_per_pass(1, 7)


@pytest.mark.parametrize(
    ("config", "reductions"),
    [
        ({"model_type": "llama"}, 6),
        ({"model_type": "gpt_neox"}, 3),
        ({"model_type": "gpt_neox", "use_parallel_residual": False}, 6),
        ({"model_type": "falcon", "multi_query": True}, 3),
        ({"model_type": "falcon", "parallel_attn": False}, 6),
        ({"model_type": "phi"}, 3),
        ({"model_type": "cohere"}, 3),
        ({"model_type": "cohere2"}, 3),
        ({"model_type": "stablelm", "use_parallel_residual": True}, 3),
        ({"model_type": "stablelm", "use_parallel_residual": False}, 6),
        ({"model_type": "mamba", "state_size": 16}, 3),
    ],
)
def test_all_reduces_of_a_pass(config: dict[str, Any], reductions: int) -> None:
    """One where attention and feed-forward are added together, or where there is only one of them; else two."""
    inventory = counted(read_config({**SMALL, **config}))
    assert inventory.reductions == reductions
    on: Machine = machine(ranks=2, link_latency_s=1.0)
    assert predict(on, Workload(inventory=inventory)).link_s == reductions
