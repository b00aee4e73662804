"""The file of budgets: which entry speaks for a test on a device, and what is refused."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_roofline.budgets.document import budgets_in, read_budgets
from pytest_roofline.budgets.patterns import PatternIndex, rank, ungrouped
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError

H100 = Device(name="NVIDIA H100 80GB HBM3", kind="cuda", backend="torch", vendor="NVIDIA")
A100 = Device(name="NVIDIA A100-SXM4-80GB", kind="cuda", backend="torch", vendor="NVIDIA")
CPU = Device(name="AMD EPYC 9B45", kind="cpu", backend="cpu")
FILE = """\
schema: 1
default: 0.6
tests:
  "tests/test_decode.py::*":
    H100*: 0.70
    cpu: {at_least: 0.3, at_most: 0.9}
  "tests/test_decode.py::test_long[x-1]": 0.65
  "tests/test_decode.py::test_short*":
    "*": {at_most: 0.8}
    A100*: none
  "*::test_free": none
"""


def figure(text: str, test_id: str, device: Device = H100, name: str = "at_least") -> float | None:
    """What the text asks of a test on a device."""
    budget = budgets_in(text, "budgets.yaml").budget_for(test_id, name)
    return budget.for_device(device) if budget is not None else None


def place(text: str, test_id: str, device: Device = H100, name: str = "at_least") -> str:
    """Where that stands."""
    budget = budgets_in(text, "budgets.yaml").budget_for(test_id, name)
    assert budget is not None
    bar = budget.bar_for(device)
    assert bar is not None
    return bar.place


def refused(text: str) -> str:
    """The error that the text ends with."""
    with pytest.raises(RooflineUsageError) as caught:
        budgets_in(text, "budgets.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("test_id", "device", "least", "most"),
    [
        ("tests/test_decode.py::test_it", H100, 0.7, None),
        ("tests/test_decode.py::test_it", A100, 0.6, None),
        ("tests/test_decode.py::test_it", CPU, 0.3, 0.9),
        ("tests/test_decode.py::test_long[x-1]", H100, 0.65, None),
        ("tests/test_decode.py::test_long[x-1]", CPU, 0.3, 0.9),  # a plain figure does not go before one for the CPU
        ("tests/test_decode.py::test_longx", H100, 0.7, None),  # brackets are no choice of characters
        ("tests/test_decode.py::test_short[2]", H100, 0.7, 0.8),  # for each figure the first that has one
        ("tests/test_decode.py::test_short", A100, None, None),  # none ends the search
        ("tests/test_other.py::test_it", H100, 0.6, None),
        ("tests/test_other.py::test_free", H100, None, None),
        ("tests/TEST_DECODE.py::test_it", H100, 0.6, None),
    ],
)
def test_the_most_specific_entry_speaks(test_id: str, device: Device, least: float | None, most: float | None) -> None:
    """Test first, then device, then the default; for at_least and at_most each."""
    assert figure(FILE, test_id, device) == least
    assert figure(FILE, test_id, device, "at_most") == most


def test_without_a_default_it_is_55_percent() -> None:
    """On accelerators; a CPU that no entry names is not judged by it, and `default: none` takes it away."""
    budget = budgets_in("schema: 1\n", "b.yaml").budget_for("test_it.py::test_it", "at_least")
    assert budget is not None
    assert budget.for_device(H100) == 0.55
    assert budget.judges(H100)
    assert not budget.judges(CPU)
    assert budgets_in("schema: 1\ndefault: none\n", "b.yaml").budget_for("test_it.py::test_it", "at_least") is None
    assert figure("schema: 1\ndefault: {H100*: 0.7}\n", "t.py::t", A100) is None
    assert figure("schema: 1\ndefault: {cpu: {at_least: 0.2, at_most: 1.4}}\n", "t.py::t", CPU, "at_most") == 1.4


def test_the_place_of_a_figure_is_its_line() -> None:
    """File, line, test pattern and device pattern, or that the file names none."""
    assert place(FILE, "tests/test_decode.py::a") == "budgets.yaml:5 (tests/test_decode.py::*, H100*)"
    assert place(FILE, "x.py::a") == "budgets.yaml:2 (default, *)"
    assert place("schema: 1", "x.py::a") == "budgets.yaml (its default, 0.55, where the file names none)"


def test_device_names_go_before_patterns() -> None:
    """The whole name, with or without the vendor, then the longest pattern."""
    text = 'schema: 1\ntests: {"*": {NVIDIA H100 80GB HBM*: 0.1, h100 80gb hbm3: 0.2, cuda: 0.3, "*": 0.4}}'
    assert figure(text, "t.py::t") == 0.2
    assert figure(text, "t.py::t", A100) == 0.3
    bracketed = Device(name="Card [16 GB]", kind="cuda", backend="torch")
    assert figure('schema: 1\ntests: {"*": {"Card [16 GB]": 0.2}}', "t.py::t", bracketed) == 0.2


@pytest.mark.parametrize(
    "text",
    [
        'schema: 1\ntests:\n  "*decode*": 0.6\n  "*kernel*": 0.7\n',
        'schema: 1\ntests:\n  "*":\n    "*H100*": 0.6\n    "*HBM3*": 0.7\n',
    ],
)
def test_patterns_that_tie_are_refused(text: str) -> None:
    """Where both fit and neither is more specific; not for a test that one of them fits, or that has its own entry."""
    with pytest.raises(
        RooflineUsageError, match=r"budgets\.yaml:\d+ \(.*\): ties with budgets\.yaml:\d+ \(.*neither is more specific"
    ):
        figure(text, "t.py::test_decode_kernel")
    assert figure(text + '  "t.py::test_decode_kernel": 0.5\n', "t.py::test_decode_kernel") == 0.5
    assert figure(text, "t.py::test_decode", A100) in (0.6, 0.55)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "budgets.yaml: is empty: a budgets file begins with 'schema: 1'"),
        ("# nothing\n", "budgets.yaml: is empty"),
        ("[1]", "budgets.yaml:1: file: a mapping with schema, default and tests is needed here, not a list"),
        ("tests: {}", "budgets.yaml:1: schema: missing; this version reads schema: 1"),
        ("schema: 2", "budgets.yaml:1: schema: '2' is not known; this version reads 1"),
        ("schema: '1'", "budgets.yaml:1: schema: '1' is not known"),
        ("schema: true", "budgets.yaml:1: schema: 'true' is not known"),
        ("schema: 1\ntest: {}", "budgets.yaml:2: test: unknown key; known ones: schema, default, tests"),
        ("schema: 1\ndefault: '0.5'", "budgets.yaml:2: default: a number in a string: '0.5'; write a plain number"),
        ("schema: 1\ndefault: 50 %", "budgets.yaml:2: default: a number in a string: '50 %'"),
        ("schema: 1\ndefault: 1e-1", "budgets.yaml:2: default: a number in a string: '1e-1'"),
        ("schema: 1\ndefault: nothing", "budgets.yaml:2: default: 'nothing'; write a plain number as 0.7, or none"),
        ("schema: 1\ndefault: 'none'", "budgets.yaml:2: default: 'none'; write a plain number"),
        ("schema: 1\ndefault:", "budgets.yaml:2: default: nothing is no plain number"),
        ("schema: 1\ndefault: .nan", "budgets.yaml:2: default: '.nan' is no plain number"),
        ("schema: 1\ndefault: .inf", "budgets.yaml:2: default: '.inf' is no plain number"),
        ("schema: 1\ndefault: true", "budgets.yaml:2: default: 'true' is no plain number"),
        ("schema: 1\ndefault: -0.1", "budgets.yaml:2: default: '-0.1' is no plain number"),
        ("schema: 1\ndefault: 0:0.5", "budgets.yaml:2: default: '0:0.5' is no plain number"),
        ("schema: 1\ndefault: 0", "default: '0' is no fraction of the ceiling; at_least is above 0 and up to 1"),
        ("schema: 1\ndefault: 1.01", "default: '1.01' is no fraction of the ceiling; at_least is above 0 and up to 1"),
        ("schema: 1\ndefault: {cpu: {at_most: 1.51}}", "default.cpu.at_most: '1.51' is no fraction of the ceiling; at"),
        ("schema: 1\ndefault: [0.5]", "budgets.yaml:2: default: a mapping from device patterns to figures is needed"),
        ("schema: 1\ndefault: {}", "budgets.yaml:2: default: an empty mapping budgets nothing"),
        ("schema: 1\ndefault: {at_least: 0.5}", 'default.at_least: of which device? For all of them write "*": {...}'),
        ("schema: 1\ndefault: {cpu: {}}", "budgets.yaml:2: default.cpu: an empty mapping budgets nothing; give at_le"),
        (
            "schema: 1\ndefault: {cpu: {at_lest: 0.5}}",
            "default.cpu.at_lest: unknown key; known ones: at_least, at",
        ),
        ("schema: 1\ndefault: {cpu: {at_least: 0.5, at_most: 0.4}}", "at_least=0.5 is above at_most=0.4, so nothing"),
        ("schema: 1\ndefault: {cpu: [0.5]}", "default.cpu: a mapping with at_least, at_most is needed here, not a li"),
        ("schema: 1\ndefault: {cpu: {at_least: [1]}}", "default.cpu.at_least: a number is needed here, not a list"),
        ("schema: 1\ndefault: {'': 0.5}", "default: an empty device pattern"),
        ("schema: 1\ntests: {'': 0.5}", "budgets.yaml:2: tests: an empty test pattern"),
        ("schema: 1\ntests: 0.5", "budgets.yaml:2: tests: a mapping from test patterns to figures is needed here"),
        ("schema: 1\ntests:\n  a: 0.5\n  a: 0.6\n", "budgets.yaml: tests.a: given twice (line 4)"),
        ("schema: 1\ntests:\n  a:\n    H100: 0.5\n    h100: 0.6\n", "budgets.yaml:5: tests.a.h100: given twice"),
        ("schema: 1\nschema: 1\n", "budgets.yaml: schema: given twice (line 2)"),
        ("schema: 1\ndefault: {*H: 0.5}", "budgets.yaml: line 2: YAML anchors and aliases are not allowed: a patte"),
        ("schema: 1\ndefault: {*: 0.5}", 'a pattern that begins with * stands in quotes, as in "*": 0.7'),
        ("schema: 1\ntests: &a {x: 0.5}", "anchors and aliases are not allowed"),
        ("schema: 1\ntests: {<<: {x: 0.5}}", "a key is a word, not a collection or <<"),
        ("schema: !!int 1", "YAML tags are not allowed: a budgets file is plain data"),
        ("schema: 1\ntests:\n\ta: 0.5\n", "budgets.yaml: is not valid YAML"),
        ("schema: 1\n---\nschema: 1\n", "budgets.yaml: is not valid YAML"),
        ("schema: 1\ntests: " + "[" * 900, "nested deeper than 30 levels: no budgets file is"),
        ("schema: 1\ntests: {" + "a," * 70_000 + "}", "more than 100,000 values: no budgets file has so many"),
        ("schema: 1\ntests: {" + "a" * 3000 + ": 1}", "a value of 3,000 characters"),
        ("schema: 1\ndefault: " + "9" * 1500, "is no fraction of the ceiling"),
        ("schema: 1\ntests: {? {a: 1} : 1}", "a key is a word"),
    ],
    ids=lambda value: value if len(value) < 60 else "",
)
def test_a_wrong_file_is_an_error_with_file_line_and_key(text: str, message: str) -> None:
    """Nothing is guessed, and the message stays short whatever the file holds."""
    said = refused(text)
    assert message in said
    assert said.startswith("budgets.yaml:")
    assert len(said) < 600


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"schema: 1\ndefault: 0.5 # \xff\n", "cannot be read"),
        ("schema: 1\n".encode("utf-16"), "cannot be read"),
        (b"schema: 1\x00", "is not valid YAML"),
        (b"# long\n" * 150_000, "no budgets file is over 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_text_of_a_person_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """Other encodings, zero bytes, a megabyte."""
    file = tmp_path / "budgets.yaml"
    file.write_bytes(content)
    with pytest.raises(RooflineUsageError, match=rf"mine\.yaml: {message}"):
        read_budgets(str(file), "mine.yaml")


def test_the_example_of_the_docs_is_read() -> None:
    """And asks for what the text around it says."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(# budgets.yaml\n.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    test_id = "tests/performance/test_decode.py::test_it"
    h200 = replace(A100, name="NVIDIA H200")
    assert (figure(text, test_id, h200), figure(text, test_id, A100), figure(text, test_id, CPU, "at_most")) == (
        0.7,
        0.55,
        0.95,
    )
    assert figure(text, "tests/performance/test_decode.py::test_long[x-1]") == 0.62


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are not for every user there")
def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    """A folder, a pipe that nobody writes to, an endless device, nothing at all."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero"), tmp_path / "gone", tmp_path / ("n" * 300)):
        with pytest.raises(RooflineUsageError, match=r"is not a file|cannot be read"):
            read_budgets(str(path))


def test_line_ends_and_a_byte_order_mark_make_no_difference(tmp_path: Path) -> None:
    """A file that was saved on Windows."""
    file = tmp_path / "budgets.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + FILE.replace("\n", "\r\n").encode())
    assert read_budgets(str(file), "b.yaml").flat() == budgets_in(FILE, "b.yaml").flat()


PIECES = st.sampled_from(
    [
        *(
            "schema: 1\n",
            "default: ",
            "tests:\n",
            "  ",
            '"a*"',
            ": ",
            "0.5",
            "none",
            "cpu",
            "at_least: 0.5",
            "at_most: ",
        ),
        *("&a ", "*a", "!!int ", "<<: ", "? ", "|\n", "#x", "---\n", *"{},[]\n\t\r\x85\ufeff"),
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
    | st.lists(PIECES, max_size=25).map(lambda pieces: ("schema: 1\n" + "".join(pieces)).encode())
)
def test_no_file_raises_anything_but_a_usage_error(tmp_path: Path, content: bytes) -> None:
    """Random bytes and random pieces of budgets."""
    file = tmp_path / "budgets.yaml"
    file.write_bytes(content)
    with contextlib.suppress(RooflineUsageError):
        found = read_budgets(str(file))
        found.budget_for("a.py::test", "at_least")
        found.flat()


# -- patterns of tests ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(test_id=st.text(alphabet="ab[]-!\\.*?/:x1", max_size=12), others=st.lists(st.text("ab[]*?", max_size=6)))
def test_an_id_fits_itself_before_every_pattern(test_id: str, others: list[str]) -> None:
    """Whatever characters of patterns it holds."""
    patterns = list(dict.fromkeys([*others, test_id]))
    assert patterns[PatternIndex(patterns).fitting(test_id)[0]] == test_id


@settings(max_examples=60, deadline=None)
@given(test_id=st.text(alphabet="ab[]-", min_size=1, max_size=8), data=st.data())
def test_stars_stand_for_any_characters_and_brackets_for_themselves(test_id: str, data: st.DataObject) -> None:
    """A pattern made by cutting an id fits that id; with another character in place of one that is left it does not."""
    low = data.draw(st.integers(0, len(test_id)))
    high = data.draw(st.integers(low, len(test_id)))
    pattern = test_id[:low] + "*" + test_id[high:]
    assert PatternIndex([pattern]).fitting(test_id) == [0]
    if low:
        at = data.draw(st.integers(0, low - 1))
        other = pattern[:at] + "z" + pattern[at + 1 :]
        assert PatternIndex([other]).fitting(test_id) == []


def test_order_of_patterns() -> None:
    """The id itself, then characters that stand for themselves, then fewer stars."""
    patterns = ["*", "t.py::*", "t.py::test_?", "t.py::test_*", "t.py::test_**", "t.py::test_a", "*::test_b"]
    found = [patterns[at] for at in PatternIndex(patterns).fitting("t.py::test_a")]
    assert found == ["t.py::test_a", "t.py::test_?", "t.py::test_*", "t.py::test_**", "t.py::*", "*"]
    assert rank("a*", "a*") < rank("a*", "ab")


def test_many_stars_cost_little() -> None:
    """No pattern makes matching explode."""
    index = PatternIndex(["*a" * 40 + "b"])
    begin = time.process_time()
    assert index.fitting("a" * 500) == []
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("grouped", "plain"),
    [
        ("t.py::a@gpu", "t.py::a"),
        ("t.py::a[x@y]", "t.py::a[x@y]"),
        ("t.py::a[x@y]@gpu", "t.py::a[x@y]"),
        ("a@b/t.py::a",) * 2,
    ],
)
def test_groups_of_xdist_are_no_part_of_an_id(grouped: str, plain: str) -> None:
    """With --dist=loadgroup they stand behind it."""
    assert ungrouped(grouped) == plain
