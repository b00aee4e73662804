"""Why a published rate stands above the ceiling: each known mistake on figures small enough to check by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.diagnosis import Cause, Claim, diagnose
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.inventory import Experts, Inventory, rule_inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import Prediction, predict
from pytest_roofline.workload import Workload

GIGABYTE = 10**9


def prediction(
    *,
    dense_bytes: float = 10 * GIGABYTE,
    experts: tuple[Experts, ...] = (),
    lookup_bytes: float = 0.0,
    idle_bytes: float = 0.0,
    kv_bytes_per_token: float = 0.0,
    batch: int = 1,
    context: int = 0,
    memory_bytes: float | None = None,
    peak_flops_per_s: float | None = None,
) -> Prediction:
    """A model of 5e9 weights in 16 bits on 1 TB/s: 100 tok/s where nothing is added."""
    cache = CacheLayers(name="attention", layers=1, elements_per_token=int(kv_bytes_per_token) // 2)
    inventory = Inventory(
        model="model",
        source="by hand",
        weights="bf16",
        kv="bf16",
        parameters=5e9,
        active_parameters=5e9,
        dense_bytes=dense_bytes,
        experts=experts,
        lookup_bytes=lookup_bytes,
        idle_bytes=idle_bytes,
        flops_per_token=1e10,
        caches=(cache,),
    )
    machine = Machine(
        name="card",
        bandwidth_bytes_per_s=1000 * GIGABYTE,
        bandwidth_source="by hand",
        given_peak_flops_per_s=peak_flops_per_s,
        memory_bytes=memory_bytes,
    )
    return predict(machine, Workload(inventory=inventory, batch=batch, context=context))


def names(causes: tuple[Cause, ...]) -> list[str]:
    """What was found, in order."""
    return [cause.name for cause in causes]


def test_a_possible_rate_needs_no_excuse() -> None:
    """Up to the ceiling, that included."""
    assert diagnose(Claim(tokens_per_s=100.0), prediction()) == ()


def test_an_impossible_rate_is_called_so_with_its_figures() -> None:
    """Too fast for a batch to be likely, and not a word about how it was measured."""
    causes = diagnose(
        Claim(tokens_per_s=1150.0), prediction(memory_bytes=10 * GIGABYTE, context=8, kv_bytes_per_token=2e9)
    )
    assert names(causes) == ["impossible"]
    assert causes[0].message == (
        "1,150 tok/s for one sequence is 29.9x the ceiling of 38.5 tok/s (26.0 GB per pass from 1,000 GB/s): "
        "nothing stated explains it, and no known mistake fits"
    )


def test_prompt_tokens_in_the_rate_are_taken_out_again() -> None:
    """900 of prompt and 100 generated make a rate ten times too high."""
    (cause, *_) = diagnose(Claim(tokens_per_s=500.0, prompt_tokens=900, generated_tokens=100), prediction(context=950))
    assert cause.name == "prompt-counted"
    assert cause.is_stated
    assert cause.fraction == pytest.approx(0.5)
    assert (
        "900 of prompt and 100 generated make the rate 10.0x too high; 50.0 tok/s were generated (50 %)"
        in cause.message
    )


def test_the_prompt_follows_from_the_average_context() -> None:
    """The context averages the prompt and half of what is generated."""
    (cause, *_) = diagnose(Claim(tokens_per_s=500.0, generated_tokens=100), prediction(context=950))
    assert cause.name == "prompt-counted"
    assert cause.fraction == pytest.approx(0.5)


def test_too_short_a_prompt_explains_nothing() -> None:
    """10 of prompt and 100 generated make a rate 1.1 times too high, not 5."""
    causes = diagnose(Claim(tokens_per_s=500.0, prompt_tokens=10, generated_tokens=100), prediction(context=60))
    assert "prompt-counted" not in names(causes)
    assert names(causes)[0] == "impossible"


def test_without_counts_a_long_context_leaves_room_for_a_counted_prompt() -> None:
    """It merely fits: at most so many tokens were generated."""
    causes = diagnose(Claim(tokens_per_s=450.0), prediction(context=4000))
    assert names(causes)[0] == "impossible"
    cause = causes[names(causes).index("prompt-counted")]
    assert not cause.is_stated
    assert "generate at most 1,000 tokens" in cause.message  # 4000 / (4.5 - 0.5)
    assert "prompt-counted" not in names(diagnose(Claim(tokens_per_s=450.0), prediction(context=60)))


def test_a_test_of_generation_alone_counts_no_prompt() -> None:
    """llama-bench's tg rows are timed by themselves."""
    causes = diagnose(Claim(tokens_per_s=450.0, words="llama-batched-bench, PP512, tg32"), prediction(context=4000))
    assert not {"prompt-counted", "head-skipped", "several-tokens-per-pass"} & set(names(causes))


@pytest.mark.parametrize(("words", "is_stated"), [("MLPerf Offline", True), ("", False)])
def test_a_batch_is_found_with_its_least_size(words: str, is_stated: bool) -> None:
    """1,150 tok/s need 12 sequences at 100 each; words of a batch speak for it."""
    causes = diagnose(Claim(tokens_per_s=1150.0, words=words), prediction())
    cause = causes[names(causes).index("batch-aggregate")]
    assert "at least 12 sequences at once, whose ceiling together is 1,200 tok/s" in cause.message
    assert cause.fraction == pytest.approx(1150 / 1200)
    assert cause.is_stated is is_stated
    assert (names(causes)[0] == "impossible") is not is_stated


def test_no_batch_is_found_where_the_units_are_too_slow_or_the_memory_too_small() -> None:
    """Its sequences must be computed and kept."""
    claim = Claim(tokens_per_s=1150.0, words="a batch")
    assert "batch-aggregate" not in names(diagnose(claim, prediction(peak_flops_per_s=5e12)))  # 500 tok/s
    small = prediction(memory_bytes=11 * GIGABYTE, context=1000, kv_bytes_per_token=200_000)
    assert "batch-aggregate" not in names(diagnose(claim, small))
    large = prediction(memory_bytes=20 * GIGABYTE, context=1000, kv_bytes_per_token=200_000)
    assert "batch-aggregate" in names(diagnose(claim, large))


def test_a_batch_that_was_stated_is_not_multiplied() -> None:
    """The ceiling is that of the batch already."""
    assert "batch-aggregate" not in names(diagnose(Claim(tokens_per_s=1150.0), prediction(batch=4)))


def test_a_cache_of_fewer_bits_explains_a_rate_that_the_cache_decides() -> None:
    """30 GB of KV beside 10 GB of weights: 25 tok/s at 16 bits, 40 at 8."""
    causes = diagnose(Claim(tokens_per_s=36.0), prediction(context=1000, kv_bytes_per_token=30_000_000))
    assert causes[0].name == "kv-format"
    assert causes[0].is_stated
    assert causes[0].fraction == pytest.approx(0.9)
    assert "75 % of the bytes of a pass: at 8 bits instead of 16" in causes[0].message


def test_a_small_cache_explains_nothing() -> None:
    """Half of 1 GB does not make 11 GB 5."""
    causes = diagnose(Claim(tokens_per_s=200.0), prediction(context=1000, kv_bytes_per_token=1_000_000))
    assert "kv-format" not in names(causes)


def test_uniform_routing_is_an_expectation_and_no_bound() -> None:
    """Four tokens of a mixture of 1 in 4 are expected to read 68 % of it, and may read 25 %."""
    mixture = prediction(dense_bytes=0, experts=(Experts(weight_bytes=16e9, share=0.25),), batch=4)
    ceiling = mixture.ceiling_tokens_per_s
    (cause, *_) = diagnose(Claim(tokens_per_s=1.25 * ceiling), mixture)
    assert cause.name == "uniform-routing"
    assert cause.is_stated
    assert cause.fraction == pytest.approx(1.25 * ceiling / 1000)  # 4 tokens of 4 GB
    assert "expects a pass to read 68 % of the experts and the step has time for 55 %" in cause.message
    assert "impossible" not in names(diagnose(Claim(tokens_per_s=2.5 * ceiling), mixture))
    assert names(diagnose(Claim(tokens_per_s=1001.0), mixture))[0] == "impossible"


def test_the_whole_file_of_a_mixture_is_no_ceiling() -> None:
    """Of 42 GB a token reads 12: 60 tok/s are 2.5 times the file's ceiling, and true."""
    mixture = prediction(dense_bytes=2e9, experts=(Experts(weight_bytes=40e9, share=0.25),))
    (cause,) = diagnose(Claim(tokens_per_s=60.0), mixture)
    assert cause.name == "whole-file"
    assert cause.fraction == pytest.approx(0.72)
    assert cause.message.startswith("2.52x the whole file's ceiling of 23.8 tok/s: a pass reads 12.0 GB of 42.0 GB")


def test_a_table_that_is_looked_up_is_no_traffic() -> None:
    """Nor the output projection, while a prompt is fed token by token."""
    model = prediction(lookup_bytes=1e9)
    (cause,) = diagnose(Claim(tokens_per_s=95.0), model)
    assert cause.name == "embedding-counted"
    assert "the embedding (1.00 GB) is looked up row by row" in cause.message
    causes = diagnose(Claim(tokens_per_s=95.0, words="pp512 with ubatch 1"), model, head_bytes=1e9)
    assert names(causes) == ["embedding-counted", "head-skipped"]
    assert causes[1].fraction == pytest.approx(0.855)
    above = diagnose(Claim(tokens_per_s=105.0, words="pp512 with ubatch 1"), model, head_bytes=1e9)
    assert names(above)[0] == "head-skipped"


@pytest.mark.parametrize("words", ["pp512", "pp 512, flash attention", "prefill", "prompt processing"])
def test_the_rate_of_a_prompt_is_none_of_generation(words: str) -> None:
    """512 tokens in one pass of 10.24 ms at 500 TFLOP/s: up to 50,000 tok/s, and no faster."""
    model = prediction(peak_flops_per_s=5e14)
    found = diagnose(Claim(tokens_per_s=20_000.0, words=words), model)
    assert names(found)[0] == "prefill-rate"
    assert "512 tokens go through the weights in one pass, whose ceiling is 50,000 tok/s" in found[0].message
    assert found[0].fraction == pytest.approx(0.4)
    assert "prefill-rate" not in names(diagnose(Claim(tokens_per_s=60_000.0, words=words), model))


def test_tokens_of_a_prompt_one_by_one_are_no_prefill_rate() -> None:
    """A micro-batch of one token reads the weights for each."""
    found = diagnose(Claim(tokens_per_s=105.0, words="pp512 with ubatch 1"), prediction(), head_bytes=1e9)
    assert "prefill-rate" not in names(found)


def test_a_tower_in_the_file_needs_no_excuse() -> None:
    """A possible rate above the ceiling of a file whose vision tower no pass reads: nobody takes it for traffic."""
    assert diagnose(Claim(tokens_per_s=95.0), prediction(idle_bytes=GIGABYTE)) == ()


def test_speculative_decoding_is_believed_by_its_word_and_weighed_without() -> None:
    """Tokens per pass beyond any draft's reach are no candidate."""
    assert (
        names(diagnose(Claim(tokens_per_s=250.0, words="EAGLE-3 draft"), prediction()))[0] == "several-tokens-per-pass"
    )
    plain = diagnose(Claim(tokens_per_s=250.0), prediction())
    assert names(plain)[0] == "impossible"
    assert "passes that yield at least 2.50 tokens each" in plain[-2].message
    assert "several-tokens-per-pass" not in names(diagnose(Claim(tokens_per_s=450.0), prediction()))


def test_a_smaller_file_is_named_with_its_bits() -> None:
    """200 tok/s leave 5 GB for 5e9 weights: 8 bits each; 1.6 are nobody's format."""
    causes = diagnose(Claim(tokens_per_s=200.0), prediction())
    assert causes[-1].name == "smaller-file"
    assert (
        causes[-1].message == "a file of which a pass reads at most 5.00 GB, 8.0 bits per weight; 10.0 GB were assumed"
    )
    assert "smaller-file" not in names(diagnose(Claim(tokens_per_s=1000.0), prediction()))
    assert names(diagnose(Claim(tokens_per_s=200.0, words="ollama, file assumed"), prediction()))[0] == "smaller-file"


def test_a_number_of_parameters_may_be_that_of_a_mixture() -> None:
    """117e9 parameters of half a byte on 1 TB/s are 17 tok/s; 150 leave time for 13e9 of them, 1,000 for too few."""
    rule = rule_inventory(117e9, bytes_per_parameter=0.5, weights="int4", kv="bf16")
    machine = Machine(name="card", bandwidth_bytes_per_s=1e12, bandwidth_source="by hand")
    model = predict(machine, Workload(inventory=rule))
    causes = diagnose(Claim(tokens_per_s=150.0), model)
    assert next(cause for cause in causes if cause.name == "mixture-of-experts").message == (
        "a mixture of experts: all 117B parameters were counted, and a pass that reads at most 13.3B of them could do "
        "it (--active)"
    )
    assert names(diagnose(Claim(tokens_per_s=150.0, words="117B-A5B, tg128"), model))[0] == "mixture-of-experts"
    assert "mixture-of-experts" not in names(diagnose(Claim(tokens_per_s=1000.0), model))
    assert "mixture-of-experts" not in names(diagnose(Claim(tokens_per_s=200.0), prediction()))


@pytest.mark.parametrize("name", ["tokens_per_s", "prompt_tokens", "generated_tokens"])
def test_a_claim_of_nothing_is_wrong_use(name: str) -> None:
    """A rate or a count of zero."""
    with pytest.raises(RooflineUsageError, match=f"{name} is 0; it must be positive"):
        Claim(**{"tokens_per_s": 1.0, name: 0})  # type: ignore[arg-type]


@given(
    rate=st.floats(0.01, 1e7),
    context=st.integers(0, 100_000),
    batch=st.integers(1, 512),
    share=st.one_of(st.none(), st.floats(0.01, 1.0)),
    generated=st.one_of(st.none(), st.floats(1, 1e5)),
    words=st.sampled_from(["", "offline", "tg128", "pp512", "mtp", "8-bit KV assumed"]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_diagnosed_always_fits(
    rate: float, context: int, batch: int, share: float | None, generated: float | None, words: str
) -> None:
    """A claim above the ceiling is never left without a word, and no mistake is named that does not undo it."""
    experts = () if share is None else (Experts(weight_bytes=40e9, share=share),)
    model = prediction(experts=experts, lookup_bytes=1e9, kv_bytes_per_token=100_000, batch=batch, context=context)
    causes = diagnose(Claim(tokens_per_s=rate, generated_tokens=generated, words=words), model, head_bytes=5e8)
    assert causes or rate <= model.ceiling_tokens_per_s
    assert all(cause.fraction is None or cause.fraction <= 1 + 1e-9 for cause in causes)
    assert "impossible" not in names(causes) or rate > model.limit_tokens_per_s
    assert sorted(causes, key=lambda cause: cause.name != "impossible" and not cause.is_stated) == list(causes)
