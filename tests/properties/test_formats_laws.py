"""Laws of formats: bytes grow with the shape, are never under the payload, and add up over splits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.architecture import Architecture, Weight
from pytest_roofline.formats import Format, Overhead
from pytest_roofline.ggml import BLOCKS
from pytest_roofline.gguf_mix import file_types, read_mix
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.specs.formats import read_format

few = settings(deadline=None, derandomize=True, max_examples=60, database=None)

# The types of GGML, which alone keep vectors in fp32.
LIBRARY = [
    found
    for found in (read_format(*entry, 0) for entry in Catalogue().entries("formats"))
    if found.vector_bytes == 4.0 and found.id != "fp32"
]
SIZES = st.integers(min_value=1, max_value=5000)
BITS = st.integers(min_value=0, max_value=64).map(float)
OVERHEADS = st.one_of(
    st.builds(Overhead, bits=BITS, per=st.sampled_from(("row", "column", "tensor"))),
    st.builds(Overhead, bits=BITS, per=st.sampled_from(("group", "block", "run")), elements=st.integers(1, 300)),
)
FORMATS = st.builds(
    Format,
    id=st.just("any"),
    name=st.just("any"),
    payload_bits=st.integers(min_value=1, max_value=64).map(float),
    overheads=st.lists(OVERHEADS, max_size=3).map(tuple),
    source=st.just("here"),
)
BY_ROW = st.builds(
    Format,
    id=st.just("rows"),
    name=st.just("rows"),
    payload_bits=st.integers(min_value=1, max_value=64).map(float),
    overheads=st.lists(
        st.one_of(
            st.builds(Overhead, bits=BITS, per=st.just("row")),
            st.builds(Overhead, bits=BITS, per=st.just("group"), elements=st.integers(1, 300)),
        ),
        max_size=3,
    ).map(tuple),
    source=st.just("here"),
)


@few
@given(FORMATS, SIZES, SIZES, SIZES)
def test_bytes_grow_with_rows_and_columns(any_format: Format, rows: int, columns: int, more: int) -> None:
    """A larger matrix never takes less."""
    size = any_format.tensor_bytes((rows, columns))
    assert any_format.tensor_bytes((rows + more, columns)) >= size
    assert any_format.tensor_bytes((rows, columns + more)) >= size


@few
@given(FORMATS, SIZES, SIZES)
def test_bytes_are_never_under_the_payload(any_format: Format, rows: int, columns: int) -> None:
    """Overheads only add, and the average bits are never under the payload's."""
    assert any_format.tensor_bytes((rows, columns)) >= rows * columns * any_format.payload_bits / 8
    assert any_format.bits_per_element >= any_format.payload_bits


@few
@given(BY_ROW, st.lists(SIZES, min_size=1, max_size=8), SIZES)
def test_rows_add_up_over_splits(by_row: Format, parts: list[int], columns: int) -> None:
    """Split by rows (as tensor parallel ranks do) the parts take what the whole takes."""
    assert sum(by_row.tensor_bytes((rows, columns)) for rows in parts) == by_row.tensor_bytes((sum(parts), columns))


@few
@given(FORMATS, SIZES, SIZES, SIZES)
def test_splits_never_take_less(any_format: Format, rows: int, columns: int, more: int) -> None:
    """A scale per tensor or block comes again in each part."""
    whole = any_format.tensor_bytes((rows + more, columns))
    assert any_format.tensor_bytes((rows, columns)) + any_format.tensor_bytes((more, columns)) >= whole


@few
@given(st.data(), SIZES, st.integers(1, 100))
def test_whole_blocks_of_every_ggml_type_are_exact(data: st.DataObject, rows: int, blocks: int) -> None:
    """Rows of whole blocks take so many blocks, to the byte."""
    library = {found.id.removeprefix("ggml-"): found for found in LIBRARY}
    name = data.draw(st.sampled_from(sorted(BLOCKS)))
    elements, size = BLOCKS[name]
    assert library[name.lower()].tensor_bytes((rows, blocks * elements)) == rows * blocks * size


@few
@given(st.data(), SIZES, SIZES, st.integers(1, 40))
def test_a_mix_counts_whole_blocks_for_any_shape(data: st.DataObject, rows: int, columns: int, layers: int) -> None:
    """Whatever the shape, each tensor is a whole number of its type's blocks, and never over fp32."""
    part = data.draw(st.sampled_from(("attn_q", "attn_k", "attn_v", "attn_output", "ffn_down", "ffn_up", "head")))
    weight = Weight(name="w", part=part, shape=(rows, columns), use="matrix", layers=tuple(range(layers)))
    made = Architecture(name="m", weights=(weight,), layers=layers, source="here")
    mix = read_mix(data.draw(st.sampled_from(file_types())), made)
    expected = 0
    for kind in mix.types(weight):
        elements, size = BLOCKS[kind]
        assert columns % elements == 0
        expected += rows * (columns // elements) * size
    assert mix.weight_bytes(weight) == expected <= 4 * weight.elements
