"""The mixes of llama.cpp, against the tensor sizes of the files that it writes, to the byte."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from llama_like import MODELS, Dims, architecture

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.gguf_mix import file_types, is_file_type, mix_plan, near_file_types, read_mix

# Bytes of all tensors, and of the input embedding among them (0: it is the head too), as llama-quantize lays them out
# without an importance matrix. A published file is this plus its header (some megabytes, the vocabulary): 4.92 GB for
# Llama 3.1 8B in Q4_K_M.
with Path(__file__).with_name("gguf_mix_sizes.csv").open(encoding="utf-8") as _file:
    SIZES = [tuple(row) for row in csv.reader(_file)][1:]


@pytest.mark.parametrize(("model", "file_type", "tensor_bytes", "embedding_bytes"), SIZES)
def test_every_mix_of_every_model_comes_out_to_the_byte(
    model: str, file_type: str, tensor_bytes: str, embedding_bytes: str
) -> None:
    """All tensors, and the looked-up embedding among them, for sixteen models in nine file types."""
    made = architecture(MODELS[model])
    plan = mix_plan(file_type, made)
    total = sum(plan(weight) for weight in made.weights)
    looked_up = sum(plan(weight) for weight in made.weights if weight.use == "lookup")
    assert (total, looked_up) == (int(tensor_bytes), int(embedding_bytes))


def test_the_table_of_sizes_is_whole() -> None:
    """Sixteen models in nine file types, and the streamed bytes of Llama 3.1 8B in Q4_K_M that many results rest on."""
    streamed = {(row[0], row[1]): int(row[2]) - int(row[3]) for row in SIZES}
    assert len(SIZES) == len(streamed) == 16 * 9
    assert streamed["Llama-3.1-8B", "Q4_K_M"] == 4_617_396_480


# bits/weight that the README of llama-quantize prints for Llama-3.1-8B.
PRINTED_BITS = {
    "IQ1_S": 2.0042,
    "IQ1_M": 2.1460,
    "IQ2_XXS": 2.3824,
    "IQ2_XS": 2.5882,
    "IQ2_S": 2.7403,
    "IQ2_M": 2.9294,
    "IQ3_XXS": 3.2548,
    "IQ3_XS": 3.4977,
    "IQ3_S": 3.6606,
    "IQ3_M": 3.7628,
    "IQ4_XS": 4.4597,
    "IQ4_NL": 4.6818,
    "Q2_K_S": 2.9697,
    "Q2_K": 3.1593,
    "Q3_K_S": 3.6429,
    "Q3_K_L": 4.2979,
    "Q4_K_S": 4.6672,
    "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704,
    "Q5_K_M": 5.7036,
    "Q6_K": 6.5633,
    "Q8_0": 8.5008,
    "F16": 16.0005,
}


@pytest.mark.parametrize("file_type", PRINTED_BITS)
def test_bits_per_weight_are_those_that_llama_quantize_prints(file_type: str) -> None:
    """The table of the tool's own README, to its four decimals."""
    made = architecture(MODELS["Llama-3.1-8B"])
    total = sum(map(mix_plan(file_type, made), made.weights))
    assert round(8 * total / made.parameters, 4) == PRINTED_BITS[file_type]


def test_a_mixture_of_experts_has_the_size_of_its_published_file() -> None:
    """Qwen3-30B-A3B-Q4_K_M.gguf of its publisher: 18,556,685,824 bytes, of which 6 MB are header (the vocabulary)."""
    dims = Dims(
        layers=48,
        hidden=2048,
        width=768,
        heads=32,
        kv_heads=4,
        vocabulary=151936,
        qk_norm=True,
        experts=128,
        experts_per_token=8,
    )
    made = architecture(dims)
    header_bytes = 18_556_685_824 - sum(map(mix_plan("Q4_K_M", made), made.weights))
    assert 5_900_000 < header_bytes < 6_000_000


def types_of(file_type: str, made: Architecture) -> dict[str, tuple[str, ...]]:
    """The types of each weight by its name."""
    mix = read_mix(file_type, made)
    return {weight.name: mix.types(weight) for weight in made.weights}


def test_half_of_the_down_projections_get_more_bits() -> None:
    """Q4_K_M: the first and the last eighth of the layers, and every third between them."""
    down = types_of("Q4_K_M", architecture(MODELS["Llama-3-8B"]))["ffn_down"]
    assert [layer for layer, kind in enumerate(down) if kind == "Q6_K"] == [
        *(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27),
        *(28, 29, 30, 31),
    ]


def test_eight_experts_have_rules_of_their_own() -> None:
    """Mixtral: keys and values at 8 bits, the attention's output at 5, routers in fp32."""
    types = types_of("Q4_K_M", architecture(MODELS["Mixtral-8x7B"]))
    assert set(types["attn_k"]) == set(types["attn_v"]) == {"Q8_0"}
    assert set(types["attn_output"]) == {"Q5_K"}
    assert set(types["gate"]) == {"F32"}
    assert types["experts.*.ffn_down"].count("Q6_K") == 16


def test_eight_experts_under_three_bits() -> None:
    """Mixtral in IQ2_XS: keys and values at 4 bits, the attention's output at 5, the first eighth of down at Q2_K."""
    types = types_of("IQ2_XS", architecture(MODELS["Mixtral-8x7B"]))
    assert set(types["attn_k"]) == set(types["attn_v"]) == {"Q4_K"}
    assert set(types["attn_output"]) == {"Q5_K"}
    assert types["experts.*.ffn_down"] == ("Q2_K",) * 4 + ("IQ2_XS",) * 28
    assert types["embed_tokens"] == ("Q2_K",)
    assert types["lm_head"] == ("Q5_K",)


def test_a_shared_expert_counts_in_the_order_of_the_file() -> None:
    """Under three bits the rule counts tensors, not layers: with two in a layer it ends after half the layers."""
    layers = tuple(range(16))
    shared = Weight(name="shared", part="ffn_down", shape=(2048, 1024), use="matrix", layers=layers)
    routed = Weight(
        name="routed",
        part="ffn_down",
        shape=(2048, 1024),
        use="routed",
        layers=layers,
        experts=16,
        experts_per_token=2.0,
    )
    made = Architecture(name="two", weights=(routed, shared), layers=16, source="here")
    types = types_of("IQ2_XS", made)
    assert types["routed"] == types["shared"] == ("Q2_K",) * 1 + ("IQ2_XS",) * 15


def test_the_bump_of_the_70b_is_for_grouped_heads_on_eighty_layers() -> None:
    """Llama 2 70B keeps every value projection at 5 bits and more; a model of 79 layers does not."""
    large = MODELS["Llama-2-70B"]
    assert set(types_of("Q4_K_M", architecture(large))["attn_v"]) == {"Q5_K", "Q6_K"}
    fewer = Dims(layers=79, hidden=8192, width=28672, heads=64, kv_heads=8, vocabulary=32000)
    assert set(types_of("Q4_K_M", architecture(fewer))["attn_v"]) == {"Q4_K", "Q6_K"}


def test_rows_that_a_block_does_not_divide_fall_back() -> None:
    """Qwen2.5 0.5B is 896 wide: 132 tensors in Q5_0 and 13 in Q8_0, only its down projections stay K-quants."""
    small = Dims(
        layers=24,
        hidden=896,
        width=4864,
        heads=14,
        kv_heads=2,
        head_dim=64,
        vocabulary=151936,
        tied=True,
        qkv_bias=True,
    )
    counts: dict[str, int] = {}
    for types in types_of("Q4_K_M", architecture(small)).values():
        for kind in types:
            counts[kind] = counts.get(kind, 0) + 1
    assert counts == {"F32": 121, "Q5_0": 132, "Q8_0": 13, "Q4_K": 12, "Q6_K": 12}


@pytest.mark.parametrize(
    ("file_type", "width", "kind"),
    [
        ("Q2_K_S", 96, "Q4_0"),
        ("Q5_K_S", 96, "Q5_1"),
        ("IQ3_S", 96, "IQ4_NL"),
        ("TQ1_0", 96, "Q4_0"),
        ("Q6_K", 96, "Q8_0"),
        ("Q6_K", 100, "F16"),
        ("Q8_0", 100, "F16"),
        ("Q8_0", 96, "Q8_0"),
    ],
)
def test_each_type_has_its_own_fallback(file_type: str, width: int, kind: str) -> None:
    """Where not even 32 divides the rows, 16 bits are left."""
    weight = Weight(name="w", part="other", shape=(8, width), use="matrix")
    mix = read_mix(file_type, Architecture(name="odd", weights=(weight,), layers=1, source="here"))
    assert mix.types(weight) == (kind,)


def test_mxfp4_moe_is_for_experts_alone() -> None:
    """gpt-oss 20B: 10,152,345,600 bytes of experts at 17 bytes per 32, biases and routers in fp32, the rest Q8_0."""
    layers = tuple(range(24))
    expert = [
        Weight(
            name=part,
            part=part,
            shape=(2880, 2880),
            use="routed",
            layers=layers,
            experts=32,
            experts_per_token=4.0,
        )
        for part in ("ffn_gate", "ffn_up", "ffn_down")
    ]
    bias = Weight(name="b", part="bias", shape=(2880,), use="routed", layers=layers, experts=32, experts_per_token=4.0)
    router = Weight(name="r", part="router", shape=(32, 2880), use="matrix", layers=layers)
    query = Weight(name="q", part="attn_q", shape=(4096, 2880), use="matrix", layers=layers)
    head = Weight(name="h", part="head", shape=(201088, 2880), use="matrix")
    made = Architecture(name="oss", weights=(*expert, bias, router, query, head), layers=24, source="here")
    plan = mix_plan("MXFP4_MOE", made)
    assert sum(map(plan, expert)) == 10_152_345_600
    assert plan(bias) == 4 * bias.elements
    assert plan(router) == 4 * router.elements
    assert plan(query) == query.elements * 34 / 32
    assert plan(head) == head.elements * 34 / 32


def test_what_is_never_quantized() -> None:
    """Vectors, routers and convolutions stay in fp32; a vision tower and Gemma 3n's small matrices in 16 bits."""
    plain = {
        "norm": Weight(name="n", part="norm", shape=(512,), use="vector", layers=(0, 1)),
        "decay": Weight(name="A_log", part="state", shape=(512, 16), use="vector", layers=(0, 1)),
        "conv": Weight(name="conv1d", part="conv", shape=(512, 4), use="matrix", layers=(0, 1)),
        "router": Weight(name="gate", part="router", shape=(8, 512), use="matrix", layers=(0, 1)),
    }
    vision = Weight(name="vision.proj", part="vision", shape=(512, 512), use="idle")
    laurel = Weight(name="layers.*.laurel.linear_left", part="other", shape=(64, 512), use="matrix", layers=(0, 1))
    made = Architecture(name="m", weights=(*plain.values(), vision, laurel), layers=2, source="here")
    plan = mix_plan("Q4_K_M", made)
    assert [plan(weight) / weight.elements for weight in plain.values()] == [4.0] * 4
    assert [plan(weight) / weight.elements for weight in (vision, laurel)] == [2.0, 2.0]


def test_a_fused_projection_goes_by_the_rule_of_values() -> None:
    """Phi-3: attn_qkv gets more bits in half of the layers, and its heads are counted from its rows."""
    layers = tuple(range(32))
    fused = Weight(name="qkv", part="attn_qkv", shape=(9216, 3072), use="matrix", layers=layers)
    output = Weight(name="o", part="attn_output", shape=(3072, 3072), use="matrix", layers=layers)
    made = Architecture(name="phi", weights=(fused, output), layers=32, source="here")
    mix = read_mix("Q4_K_M", made)
    assert mix.gqa == 1.0
    assert mix.types(fused).count("Q6_K") == 16


@pytest.mark.parametrize("rows", [None, 3072])
def test_heads_that_cannot_be_told_are_not_grouped(rows: int | None) -> None:
    """Without a projection of values, apart or fused, each query head is taken to have its own."""
    output = Weight(name="o", part="attn_output", shape=(3072, 3072), use="matrix", layers=(0,))
    fused = [Weight(name="qkv", part="attn_qkv", shape=(rows, 3072), use="matrix", layers=(0,))] if rows else []
    assert read_mix("Q4_K_M", Architecture(name="m", weights=(output, *fused), layers=1, source="here")).gqa == 1.0


def test_layers_without_a_feed_forward_do_not_count() -> None:
    """A hybrid's down projections are counted in their own order: the first of them is early wherever it stands."""
    down = Weight(name="d", part="ffn_down", shape=(1024, 2048), use="matrix", layers=(10, 20, 30, 31))
    made = Architecture(name="hybrid", weights=(down,), layers=32, source="here")
    assert read_mix("Q4_K_S", made).types(down) == ("Q5_K",) * 4


def test_plain_file_types_have_no_rules() -> None:
    """F32, F16 and BF16 hold every matrix alike, the head too, and vectors in fp32."""
    made = architecture(MODELS["Llama-3.2-1B"])
    for file_type, size in (("F32", 4), ("F16", 2), ("BF16", 2)):
        plan = mix_plan(file_type, made)
        matrices = [weight for weight in made.weights if weight.use == "matrix"]
        assert sum(map(plan, matrices)) == size * sum(weight.elements for weight in matrices)


def test_names_are_taken_as_people_write_them() -> None:
    """Case and hyphens do not matter, and llama-quantize's short names mean its _M mixes."""
    made = architecture(MODELS["TinyLlama-1.1B"])
    assert read_mix("q4-k-m", made) == read_mix("Q4_K_M", made) == read_mix("q4_k", made) == read_mix("q4km", made)
    assert read_mix("IQ4XS", made).file_type == "IQ4_XS"
    assert is_file_type("iq3-xs")
    assert near_file_types("q4kx")[:2] == ["q4_k_s", "q4_k_m"]
    assert not near_file_types("int8-channel")
    assert not is_file_type("q4_k")
    assert not is_file_type("int4")
    assert {"Q4_K_M", "MXFP4_MOE", "TQ2_0"} <= set(file_types())


@pytest.mark.parametrize(("name", "nearest"), [("Q4_K_X", "Q4_K_"), ("IQ3", "IQ3_"), ("zzz", "known ones: BF16")])
def test_an_unknown_file_type_names_the_nearest(name: str, nearest: str) -> None:
    """A wrong name is wrong use, with what was perhaps meant."""
    made = architecture(MODELS["TinyLlama-1.1B"])
    with pytest.raises(RooflineUsageError, match=f"{name!r} is not a file type of llama.cpp; .*{nearest}"):
        mix_plan(name, made)
