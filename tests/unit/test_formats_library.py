"""The library of formats: what the files must hold, which format a name means, and the figures that must come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.architecture import Weight
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.formats import Format
from pytest_roofline.specs.catalogue import Catalogue, validate
from pytest_roofline.specs.formats import format_named, read_format
from pytest_roofline.specs.names import spelling

GOOD = """\
schema: 1
sources:
  paper: "The paper"
  code: "The code"
formats:
  - id: mine-g32
    name: Mine, groups of 32
    aliases: [mine]
    for: [weights, kv]
    payload_bits: {value: 3, source: paper}
    overheads:
      - {bits: {value: 16, source: code}, per: group, elements: 32}
      - {bits: {value: 32, source: code}, per: tensor}
    kept_parts: [head]
    part_bits:
      ffn_down: {value: 6, source: code}
    vector_bytes: {value: 4, source: paper}
    compute_dtype: float8
"""


@pytest.fixture(scope="module")
def formats() -> dict[str, Format]:
    """The package's own formats by id, read once."""
    return {found.id: found for found in read_all(Catalogue())}


def read_all(catalogue: Catalogue) -> tuple[Format, ...]:
    """Every format of a catalogue."""
    return tuple(read_format(*entry, position) for position, entry in enumerate(catalogue.entries("formats")))


def load(tmp_path: Path, text: str) -> tuple[Format, ...]:
    """Load one file of that text and nothing else."""
    file = tmp_path / "formats.yaml"
    file.write_text(text, encoding="utf-8")
    return read_all(Catalogue([file], builtin=False))


def test_a_format_is_loaded_with_every_source_in_words(tmp_path: Path) -> None:
    """Figures become numbers, and the documents behind them are kept."""
    (found,) = load(tmp_path, GOOD)
    assert found.bits_per_element == 3.5
    assert found.tensor_bytes((2, 64)) == (2 * 64 * 3 + 2 * 2 * 16 + 32) / 8
    assert (found.kept_parts, found.part_bits) == (("head",), (("ffn_down", 6.0),))
    assert (found.vector_bytes, found.compute_dtype) == (4.0, "float8")
    assert found.for_weights
    assert found.for_kv
    assert found.source == "The paper"
    assert found.sources == ("The paper", "The code")


def test_a_block_says_how_much_of_it_is_overhead(tmp_path: Path) -> None:
    """Beside a payload the rest of the block is overhead; without one all of it is payload; a tight one has none."""
    block = GOOD.replace(
        "payload_bits: {value: 3, source: paper}", "block: {elements: 32, bytes: {value: 18, source: code}}"
    )
    (whole,) = load(tmp_path, block[: block.index("    overheads")])
    assert (whole.payload_bits, whole.overheads) == (4.5, ())
    split = block.replace("    block", "    payload_bits: {value: 4, source: paper}\n    block")
    (parted,) = load(tmp_path, split[: split.index("    overheads")])
    assert (parted.payload_bits, parted.bits_per_element) == (4.0, 4.5)
    assert parted.tensor_bytes((3, 64)) == 3 * 2 * 18


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("payload_bits: {value: 3", "payload_bits: {value: -3", "mine-g32.payload_bits.value", "-3 is not a positive"),
        ("payload_bits: {value: 3", "payload_bits: {value: '3'", "mine-g32.payload_bits.value", "a number in a string"),
        (
            "payload_bits: {value: 3, source: paper}",
            "payload_bits: 3",
            "mine-g32.payload_bits",
            "every number has a source",
        ),
        ("payload_bits: {value: 3", "payload_bits: {value: 5000", "mine-g32", "payload_bits is 5000.0; 1024 at most"),
        (
            "    payload_bits: {value: 3, source: paper}\n",
            "",
            "mine-g32.payload_bits",
            "missing: payload_bits, a block",
        ),
        ("source: code}, per: group", "source: web}, per: group", "overheads[0].bits.source", "'web' is not in the"),
        ("elements: 32}", "elements: 0}", "overheads[0].elements", "a whole number from 1 is needed here, not int 0"),
        ("elements: 32}", "elements: 1.5}", "overheads[0].elements", "a whole number from 1 is needed here, not float"),
        (", elements: 32}", "}", "overheads[0]", "overhead per group: elements is missing"),
        ("per: group", "per: page", "overheads[0].per", "'page' is not known; known ones: block, column, group"),
        ("per: tensor}", "per: tensor, elements: 4}", "overheads[1]", "elements is for group, block and run"),
        ("    for: [weights, kv]\n", "", "mine-g32.for", "missing"),
        ("for: [weights, kv]", "for: []", "mine-g32", "for is empty; weights, kv or both are needed"),
        ("for: [weights, kv]", "for: [cache]", "mine-g32.for", "'cache' is not known; known ones: kv, weights"),
        ("kept_parts: [head]", "kept_parts: [lm_head]", "mine-g32.kept_parts", "'lm_head' is not known"),
        ("ffn_down: {", "down_proj: {", "mine-g32.part_bits.down_proj", "unknown key; known ones: attn_k"),
        ("compute_dtype: float8", "compute_dtype: fp8", "mine-g32.compute_dtype", "'fp8' is not known"),
        ("id: mine-g32", "id: Mine G32", "Mine G32.id", "lower-case words joined by - or _ are needed"),
        ("name: Mine,", "title: Mine,", "mine-g32.title", "unknown key; known ones: aliases"),
        ("overheads:\n", "overheads:\n      - 5\n", "overheads[0]", "a mapping is needed here, not int 5"),
        ("    overheads:\n", "    overheads: none\n    more:\n", "mine-g32.more", "unknown key; known ones: aliases"),
    ],
)
def test_a_fault_names_file_and_key(tmp_path: Path, old: str, new: str, key: str, words: str) -> None:
    """Every strict rule of the loader has its message."""
    assert old in GOOD
    with pytest.raises(RooflineUsageError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'formats.yaml'}: formats.")
    assert key in text
    assert words in text


def test_a_block_that_is_smaller_than_its_numbers_is_refused(tmp_path: Path) -> None:
    """32 numbers of 5 bits do not fit 18 bytes."""
    text = GOOD.replace(
        "payload_bits: {value: 3",
        "block: {elements: 32, bytes: {value: 18, source: code}}\n    payload_bits: {value: 5",
    )
    with pytest.raises(RooflineUsageError, match=r"formats.mine-g32.block.bytes: 144 bits: 32 elements of 5 are more"):
        load(tmp_path, text)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Two formats under one name, however it is spelled, would make one of them unreachable."""
    entry = GOOD[GOOD.index("  - id") :]
    twice = GOOD + entry.replace("mine-g32", "other").replace("aliases: [mine]", "aliases: [MINE_G32]")
    file = tmp_path / "formats.yaml"
    file.write_text(twice, encoding="utf-8")
    problems, counts = Catalogue([file], builtin=False).check({"formats": read_format})
    assert problems == [f"{file}: formats.other: the name 'MINE_G32' is taken, by 'mine-g32' ({file})"]
    assert counts["formats"] == 1


def test_a_sound_library_passes_the_check_of_all_files() -> None:
    """`specs validate` reads every entry by `read_format`, and finds nothing in the package's own."""
    faults, counts = validate((), {"formats": read_format})
    assert [fault for fault in faults if "formats" in fault] == []
    assert counts["formats"] == len(list(Catalogue().entries("formats")))


def test_every_name_finds_its_format(formats: dict[str, Format]) -> None:
    """By id, alias and full name, in capitals and with the other separator too."""
    for found in formats.values():
        if found.stated_bits is None:
            for name in (found.id, *found.aliases):
                assert format_named(name.upper().replace("-", "_")).id == found.id


def test_every_ggml_type_has_the_size_that_gguf_says(formats: dict[str, Format]) -> None:
    """Elements and bytes of a block, for each type of the gguf package, under ``ggml-TYPE``; vectors in fp32."""
    constants = pytest.importorskip("gguf.constants")
    names = {spelling(word): found for found in formats.values() for word in (found.id, *found.aliases)}
    for kind, (elements, size) in constants.GGML_QUANT_SIZES.items():
        found = names[spelling(f"ggml-{kind.name}")]
        assert found.tensor_bytes((5, 3 * elements)) == 5 * 3 * size, kind.name
        assert found.bits_per_element == 8 * size / elements, kind.name
        assert found.vector_bytes == 4.0


# Bits per element as the formats' own documents add them up.
BITS = {
    "fp32": 32.0,
    "fp16": 16.0,
    "bf16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.0,
    "int4-g128": 4 + 20 / 128,
    "gptq": 4.15625,
    "awq-int4-g128": 4.15625,
    "int4-g64": 4 + 20 / 64,
    "gptq-int4-g32": 4.625,
    "marlin": 4.125,
    "w4a16": 4.125,
    "w4a16-asym": 4.15625,
    "gptq-int8": 8 + 24 / 128,
    "nf4": 4.5,
    "bnb-fp4": 4.5,
    "nf4-dq": 4.126953125,
    "fp4-double-quant": 4.126953125,
    "bnb-int8": 8.0,
    "int4wo": 4.25,
    "torchao-int4-g32": 5.0,
    "torchao-int4-g64": 4.5,
    "torchao-int4-g256": 4.125,
    "int8-channel": 8.0,
    "fp8-tensor": 8.0,
    "fp8-rowwise": 8.0,
    "fp8-block": 8.001953125,
    "mxfp8": 8.25,
    "mxfp6": 6.25,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
    "int4-g64-sym": 4.25,
    "int4-g32-sym": 4.5,
    "int4-channel": 4.0,
    "int8-g32": 8.75,
    "int3-g128": 3 + 19 / 128,
    "int2-g64": 2 + 18 / 64,
    "hqq": 4.5,
    "hqq-4bit-g32": 5.0,
    "hqq-8bit-g64": 8.5,
    "hqq-3bit-g64": 3.7,
    "hqq-4bit-g128": 4.25,
    "hqq-2bit-g16": 4.0,
    "q4f16_1": 4.5,
    "quip#": 2.0,
    "kivi-2bit": 3.0,
    "kivi-4bit": 5.0,
    "q8_0": 8.5,
    "q5_1": 6.0,
    "q5_0": 5.5,
    "q4_1": 5.0,
    "q4_0": 4.5,
    "iq4_nl": 4.5,
}


@pytest.mark.parametrize("name", BITS)
def test_bits_per_element_are_exact(name: str) -> None:
    """Payload and scales, as the sources in the files give them."""
    assert format_named(name).bits_per_element == BITS[name]


@pytest.mark.parametrize(
    ("name", "extra_bytes"),
    [
        ("bnb-int8", 4 * 4096),
        ("int8-channel", 2 * 4096),
        ("fp8-channel", 4 * 4096),
        ("fp8-tensor", 4),
        ("fp8-block", 4 * 32 * 112),
        ("nvfp4", 4096 * 14336 // 16 + 4 - 4096 * 14336 // 2),
    ],
)
def test_scales_per_row_block_and_tensor_are_counted(name: str, extra_bytes: int) -> None:
    """What a matrix of 4096 x 14336 takes beyond a byte per element."""
    assert format_named(name).tensor_bytes((4096, 14336)) == 4096 * 14336 + extra_bytes


@pytest.mark.parametrize(
    ("name", "printed_bytes"),
    [("fp8-rowwise", 9.1e9), ("int8-channel", 9.1e9), ("mxfp8", 9.32e9), ("nvfp4", 6.05e9), ("bf16", 16.1e9)],
)
def test_checkpoints_have_the_size_that_torchao_prints(name: str, printed_bytes: float) -> None:
    """Llama 3.1 8B with head and embedding in bfloat16, from the table in torchao's inference documentation."""
    layers = tuple(range(32))
    shapes = {
        "attn_q": (4096, 4096),
        "attn_k": (1024, 4096),
        "attn_v": (1024, 4096),
        "attn_output": (4096, 4096),
        "ffn_gate": (14336, 4096),
        "ffn_up": (14336, 4096),
        "ffn_down": (4096, 14336),
    }
    weights = [Weight(name=part, part=part, shape=shapes[part], use="matrix", layers=layers) for part in shapes]
    weights += [Weight(name=part, part=part, shape=(128256, 4096), use="matrix") for part in ("embedding", "head")]
    found = format_named(name)
    assert sum(map(found.weight_bytes, weights)) == pytest.approx(printed_bytes, rel=0.005)


def test_every_format_that_a_checkpoint_can_declare_is_here(formats: dict[str, Format]) -> None:
    """Bits and groups as GPTQ, AWQ, compressed-tensors, torchao and HQQ offer them."""
    wanted = {f"int{bits}-g{group}" for bits in (2, 3, 4, 8) for group in (32, 64, 128)}
    wanted |= {f"int4-g{group}-sym" for group in (32, 64, 128)} | {"int4-channel", "int8-channel", "w8a8"}
    wanted |= {f"torchao-int4-g{group}" for group in (32, 64, 128, 256)}
    wanted |= {f"hqq-{bits}bit-g{group}" for bits in (2, 3, 4, 8) for group in (64, 128)}
    wanted |= {"nf4", "nf4-dq", "bnb-fp4", "bnb-fp4-dq", "bnb-int8", "fp8-tensor", "fp8-channel", "fp8-block"}
    wanted |= {"mxfp8", "mxfp6", "mxfp4", "nvfp4", "exl2", "exl3"}
    assert wanted <= formats.keys()


def test_a_payload_rule_keeps_nothing() -> None:
    """int4, int8 and fp8 alone mean every matrix, the head and the tables too."""
    head = Weight(name="head", part="head", shape=(1000, 64), use="matrix")
    assert [format_named(name).weight_bytes(head) for name in ("int4", "int8", "fp8")] == [32_000, 64_000, 64_000]


@pytest.mark.parametrize(
    "name",
    ["gptq", "awq", "marlin", "nf4", "bnb-int8", "int4wo", "fp8-tensor", "fp8-channel", "fp8-block", "mxfp4", "nvfp4"],
)
def test_checkpoints_keep_head_embedding_and_router(name: str) -> None:
    """Their 16 bits are counted whatever the rest is stored in."""
    found = format_named(name)
    for part in ("head", "embedding", "router"):
        weight = Weight(name=part, part=part, shape=(1000, 64), use="matrix")
        assert found.weight_bytes(weight) == 1000 * 64 * 2


def test_formats_say_what_their_products_run_in() -> None:
    """Weight-only formats compute in 16 bits, GGML's in 8 (llama.cpp's activations), MXFP4 beside MXFP8."""
    dtypes = {name: format_named(name).compute_dtype for name in ("gptq", "q4_k", "mxfp4", "fp8", "fp8-block", "nvfp4")}
    assert dtypes == {
        "gptq": "bfloat16",
        "q4_k": "int8",
        "mxfp4": "float8",
        "fp8": "float8",
        "fp8-block": "float8",
        "nvfp4": "float4",
    }


def test_caches_have_formats_of_their_own(formats: dict[str, Format]) -> None:
    """What engines keep a KV cache in, and what they do not; a scale per token and head is a scale per row."""
    kept = {found.id for found in formats.values() if found.for_kv}
    assert {"fp16", "bf16", "fp8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "nvfp4", "kivi-2bit"} <= kept
    assert not kept & {"int4-g128", "nf4", "q4_k", "exl2"}
    assert not formats["kivi-2bit"].for_weights
    assert formats["int8-token-head"].tensor_bytes((1, 128)) == 128 * (8 + 16 / 128) / 8
    assert formats["int8-per-token-head"].tensor_bytes((1, 128)) == 128 + 4


@pytest.mark.parametrize(
    ("name", "format_id", "bits"),
    [
        ("exl2-4.65bpw", "exl2-4.65bpw", 4.65),
        ("EXL2_4.65_bpw", "exl2-4.65bpw", 4.65),
        ("exl2-5", "exl2-5bpw", 5.0),
        ("exl3-3.0", "exl3-3bpw", 3.0),
        ("4.65bpw", "4.65bpw", 4.65),
        ("4.65 bpw", "4.65bpw", 4.65),
        ("5bpw", "5bpw", 5.0),
    ],
)
def test_bits_may_be_stated(name: str, format_id: str, bits: float) -> None:
    """ExLlama's formats and a plain average take their bits from the name."""
    found = format_named(name)
    assert (found.id, found.bits_per_element, found.stated_bits) == (format_id, bits, None)


def test_exllama_keeps_six_bits_for_the_head() -> None:
    """The average is for the layers; the embedding stays in 16 bits; EXL3 adds a vector per row and per column."""
    head = Weight(name="head", part="head", shape=(1000, 64), use="matrix")
    table = Weight(name="table", part="embedding", shape=(1000, 64), use="lookup")
    assert format_named("exl2-4bpw").weight_bytes(head) == 1000 * 64 * 6 / 8
    assert format_named("exl2-4bpw").weight_bytes(table) == 1000 * 64 * 2
    assert format_named("exl3-4bpw").tensor_bytes((1000, 64)) == 1000 * 64 / 2 + 2 * (1000 + 64)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exl2", "format 'exl2' has no number of bits of its own: state them, as in exl2-4.65bpw"),
        ("bpw", "format 'bpw' has no number of bits of its own: state them, as in 4.65bpw"),
        ("exl2-9bpw", "'exl2-9bpw': 9 bits per weight cannot be; exl2 has 2 to 8"),
        ("exl3-16", "'exl3-16': 16 bits per weight cannot be; exl3 has 1 to 8"),
        ("0bpw", "'0bpw': 0 bits per weight cannot be; bpw has 1 to 32"),
    ],
)
def test_bits_that_are_missing_or_impossible_are_refused(name: str, words: str) -> None:
    """The message says what may be stated."""
    with pytest.raises(RooflineUsageError) as caught:
        format_named(name)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("q4_kk", "q4_k"),
        ("int4-g12", "int4-g128"),
        ("nf5", "nf4"),
        ("gptq-4.5", "gptq"),
        ("fp8-chanel", "fp8-channel"),
        ("nf4-4.5", "nf4"),
    ],
)
def test_an_unknown_format_names_the_nearest(name: str, nearest: str) -> None:
    """A wrong name is wrong use; the message has what was perhaps meant."""
    with pytest.raises(RooflineUsageError, match=f"no format is called {name!r}") as caught:
        format_named(name)
    nearest_id = format_named(nearest).id
    assert nearest_id in str(caught.value)


def test_a_look_up_reads_one_entry(tmp_path: Path) -> None:
    """A fault elsewhere in a user's file does not stand in the way of a sound entry."""
    file = tmp_path / "mine.yaml"
    entry = GOOD[GOOD.index("  - id") :]
    file.write_text(GOOD + entry.replace("mine", "broken").replace("value: 3", "value: -3"), encoding="utf-8")
    library = Catalogue([file], builtin=False)
    assert format_named("MINE", library).bits_per_element == 3.5
    with pytest.raises(RooflineUsageError, match=r"broken-g32.payload_bits.value: -3 is not a positive"):
        format_named("broken", library)
