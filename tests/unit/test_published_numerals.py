"""Numbers in the files of spreadsheets: points and commas, thousands, delimiters and encodings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from results_files import written

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.numerals import with_points
from pytest_roofline.published.registry import read_results
from pytest_roofline.published.tables import delimiter_of

COLUMNS = "tokens-per-s=tps,batch=bs"
WITH_CONTEXT = f"{COLUMNS},context=ctx"


def refused(folder: Path, content: str | bytes, columns: str = COLUMNS) -> str:
    """What is said of a CSV that is not read, from its name on."""
    path = written(folder, content, "results.csv")
    with pytest.raises(RooflineUsageError) as caught:
        read_results(path, "csv", columns=columns)
    return str(caught.value).removeprefix(path)


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("tps;bs\n150,5;1\n1.024;8\n", COLUMNS,
         ", line 3: tps: '1.024': a thousand or a fraction? '150,5' (line 2) has a decimal comma: write 1024 or "
         "1,0240"),
        ("tps;bs;ctx\n150,5;1;1.024\n", WITH_CONTEXT,
         ", line 2: ctx: '1.024': a thousand or a fraction? '150,5' (line 2) has a decimal comma: write 1024 or "
         "1,0240"),
        ("tps;bs\n1.024;8\n2.048;16\n", COLUMNS,
         ", line 2: tps: '1.024': a thousand or a fraction? write 1024 or 1.0240"),
        ("tps;bs;ctx\n150;1;8.192\n", WITH_CONTEXT,
         ", line 2: ctx: '8.192': a thousand or a fraction? write 8192 or 8.1920"),
        ("tps,bs,ctx\n150.5,1,8.192\n", WITH_CONTEXT,
         ", line 2: ctx: '8.192': a thousand or a fraction? '150.5' (line 2) has a decimal point: write 8192 or "
         "8.1920"),
        ("tps;bs\n150.5;1\n12,25;2\n", COLUMNS,
         ", line 3: tps: '12,25': a decimal comma, and '150.5' (line 2) has a decimal point: write all numbers of the "
         "file in one way"),
        ("tps;bs\n150,5;1\n1.024,25;8\n", COLUMNS,
         ", line 3: tps: '1.024,25': thousands separators are not read: write 1024,25"),
        ('tps,bs\n150.5,1\n"1,024.25",8\n', COLUMNS,
         ", line 3: tps: '1,024.25': thousands separators are not read: write 1024.25"),
        ('tps,bs\n150.5,1\n"1,024",8\n', COLUMNS,
         ", line 3: tps: '1,024': a thousand or a fraction? '150.5' (line 2) has a decimal point: write 1024 or "
         "1.0240"),
        ("tps;bs\n1 024,5;1\n", COLUMNS, ", line 2: tps: '1 024,5': thousands separators are not read: write 1024,5"),
        ("tps;bs\n1.024.000;1\n", COLUMNS,
         ", line 2: tps: '1.024.000': thousands separators are not read: write 1024000"),
        ("tps;bs\nfast;1\n", COLUMNS, ", line 2: tps: 'fast': a number is needed"),
    ],
)  # fmt: skip
def test_what_may_be_a_thousand_is_refused(tmp_path: Path, text: str, columns: str, said: str) -> None:
    """With row, column and the number as it has to be written: nobody guesses a factor of a thousand."""
    assert refused(tmp_path, text, columns) == said


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("tps;bs\n150,5;1\n7,812;8\n", [150.5, 7.812]),
        ("tps;bs\n150.5;1\n7.812;8\n", [150.5, 7.812]),
        ("tps;bs\n0,125;1\n7,812;8\n", [0.125, 7.812]),
        ("tps,bs\n7.812,1\n12.125,8\n", [7.812, 12.125]),
        ('tps,bs\n"150,5",1\n24,8\n', [150.5, 24.0]),
        ("tps\tbs\n1.5e3\t1\n12.125\t8\n", [1500.0, 12.125]),
        ("tps;bs\n1024;1\n2048;8\n", [1024.0, 2048.0]),
    ],
)
def test_one_number_of_a_file_speaks_for_the_others(tmp_path: Path, text: str, rates: list[float]) -> None:
    """A file has one way to write numbers; where commas part its cells, that is with points."""
    found = read_results(written(tmp_path, text, "results.csv"), "csv", columns=COLUMNS)
    assert [one.tokens_per_s for one in found] == rates


def test_a_mean_of_lengths_may_have_a_fraction(tmp_path: Path) -> None:
    """Where another length shows that the column has fractions."""
    text = "tps,bs,ctx\n150.5,1,512.125\n150.5,1,400.5\n"
    found = read_results(written(tmp_path, text, "results.csv"), "csv", columns=WITH_CONTEXT)
    assert [one.context for one in found] == [512.125, 400.5]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(0.001, 1e7).map(lambda value: round(value, 4)), min_size=1), mark=st.sampled_from(".,")
)
def test_a_number_is_read_as_it_was_written_or_refused(values: list[float], mark: str) -> None:
    """By either mark and without thousands; with a fraction of four digits in the file, none is in doubt."""
    texts = ["0.1250", *(f"{value:.4f}" for value in values)]
    rows = [
        Entry(where=f"f, line {line}", values={"x": text.replace(".", mark)}, is_text=True)
        for line, text in enumerate(texts, 2)
    ]
    read = with_points(rows, ["x"], (), is_point=False)
    assert [row.number("x") for row in read] == [float(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "columns", "delimiter"),
    [
        ("Lauf;Tokens/s, gesamt;bs\nA;150,5;1\n", (), ";"),
        ("Lauf;Tokens/s, gesamt;bs\nA;150,5;1\n", ("bs",), ";"),
        ("a, b;c\n1,5;2\n", (), ";"),
        ("tps (a;b),bs\n12.5,1\n", (), ","),
        ("tps\n12.5\n", (), ","),
        ("tps\n12,5\n", (), ";"),
        ("a\tb, c\n1\t2,5\n", (), "\t"),
        ('"a;b",bs\n1,2\n', ("bs",), ","),
        ("", (), ","),
    ],
)
def test_what_parts_the_cells(text: str, columns: tuple[str, ...], delimiter: str) -> None:
    """A comma in a name or in a number is none that parts cells, where the rest of the file says so."""
    assert delimiter_of(text, columns) == delimiter


def test_the_encoding_that_excel_takes_is_named(tmp_path: Path) -> None:
    """With what to do; a file that is no text in that encoding either has no such advice."""
    said = refused(tmp_path, "Lauf;Größe;tps\nA;8B;150,5\n".encode("cp1252"))
    assert said == (
        ": is not UTF-8 text (byte 7): it may be Windows-1252, which Excel takes for 'CSV'; save it as 'CSV UTF-8', or "
        "convert it: iconv -f WINDOWS-1252 -t UTF-8"
    )
    assert refused(tmp_path, b"a;b\n\x81\xff\x01\n") == ": is not UTF-8 text (byte 4)"
