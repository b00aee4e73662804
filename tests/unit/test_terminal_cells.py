"""How text is made to fit, in cells of a terminal."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_roofline.report.cells import padded, printable, prose, shortened, told_apart, width_of, wrapped

TEXTS = st.text(st.sampled_from("ab[]-_ 解é\u0301👩"), max_size=60).map(printable)


def test_short_texts_stay_as_they_are() -> None:
    """Nothing is cut that fits."""
    assert shortened("test_it", 7) == "test_it"
    assert told_apart(["test_a", "test_b"], 80) == {"test_a": "test_a", "test_b": "test_b"}


def test_the_middle_goes() -> None:
    """The end, where the parameters are, keeps more than the beginning."""
    assert shortened("test_decodes_with_static_cache[bf16]", 20).startswith("test_de...")
    assert shortened("test_decodes_with_static_cache[bf16]", 20).endswith("[bf16]")
    assert shortened("abcdef", 2) == ".."


def test_names_that_differ_in_the_middle_are_cut_elsewhere() -> None:
    """The cut moves until what differs is shown."""
    names = [f"test_decode_{dtype}_with_a_long_common_end" for dtype in ("bf16", "fp16", "fp32")]
    assert len(set(told_apart(names, 24).values())) == 3


def test_names_that_no_cut_tells_apart_are_numbered() -> None:
    """Two differences at both sides of any cut."""
    names = [f"a{'x' * 50}{digit}{'x' * 50}b" for digit in "123"]
    short = told_apart(names, 12)
    assert [short[name][-2:] for name in names] == ["#1", "#2", "#3"]
    assert len(set(short.values())) == 3


def test_printable_is_whole() -> None:
    """Every control character is written as its escape, and nothing is cut for that."""
    assert printable("a\x1b[2J\n\u202eb") == r"a\x1b[2J\n\u202eb"
    assert printable("\U000e0001" * 50) == r"\U000e0001" * 50
    assert prose("two\nlines\tand \x1b") == r"two lines and \x1b"


def test_cells_not_characters() -> None:
    """Wide ones take two, marks none."""
    assert width_of("解码") == 4
    assert width_of("e\u0301") == 1
    assert padded("解", 4) == "解  "
    assert padded("解", 4, is_right=True) == "  解"
    assert list(wrapped("解码 解码 解码", 10, rest="  ")) == ["解码 解码", "  解码"]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, max_size=6), st.integers(min_value=8, max_value=30))
def test_shortened_names_fit_and_differ(names: list[str], width: int) -> None:
    """Whatever the names: within the width, and no two of them alike."""
    short = told_apart(names, width)
    assert set(short) == set(names)
    assert all(width_of(text) <= width for text in short.values())
    assert len(set(short.values())) == len(short)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(min_value=6, max_value=30))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    """No line is too wide, and no word is lost."""
    lines = list(wrapped(text, width, first="  ", rest="   "))
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_mountain_of_marks_takes_no_time() -> None:
    """A hundred thousand of them on one letter: cut like everything else."""
    name = "a" + "\u0301" * 100_000 + "b" * 50
    assert width_of(shortened(name, 20)) <= 20
    assert sum(map(len, wrapped(name, 20))) == len(name)
