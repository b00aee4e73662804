"""Spec files that nobody means well with: a clear error that names the file, in little time and memory."""

from __future__ import annotations

import contextlib
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs import Catalogue, load_devices, match
from pytest_roofline.specs.plain_data import LARGEST_BYTES

HEAD = 'schema: 1\nsources: {s: "Sheet"}\n'
CARD = (
    "  - {id: one, name: One, vendor: Maker, device_names: [One], memory_bytes: {value: 9000000000, source: s}, "
    "bandwidth_bytes_per_s: {value: 9000000000, source: s}}\n"
)


@pytest.fixture(scope="module")
def cards() -> tuple[Spec, ...]:
    """The package's own cards, read once."""
    return load_devices()


def read(file: Path) -> list[Callable[[], object]]:
    """Every way to read a file."""
    library = Catalogue([file], builtin=False)
    return [
        lambda: load_devices([file], builtin=False),
        library.devices,
        lambda: library.device("one"),
        lambda: library.describe("devices", "one"),
    ]


def written(tmp_path: Path, content: str | bytes) -> Path:
    """A file of that content."""
    file = tmp_path / "hostile.yaml"
    file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEAD + "devices: &all\n  - *all\n", "anchors and aliases are not allowed"),
        (HEAD + "devices: *nowhere\n", "anchors and aliases are not allowed"),
        ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\none: 1\n", "anchors and aliases are not allowed"),
        (HEAD + "devices:\n  - !!python/object/apply:os.getcwd []\n", "tags are not allowed"),
        (HEAD + "devices: !!set {one}\n", "tags are not allowed"),
        (
            HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: 1:30,"),
            "line 4: 1:30: YAML reads a number of base 8",
        ),
        (
            HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: 0_100,"),
            "0_100: YAML reads a number of base 8 or 60",
        ),
        (HEAD + "devices:\n  - {<<: {id: one}, id: one}\n", "devices[0]: line 4: a key is a word"),
        (HEAD + "devices:\n  - {[one]: 1}\n", "a key is a word"),
        (HEAD + "devices: " + "[" * 900, "nested deeper than 30 levels"),
        (HEAD + "devices: " + "[" * 100_000, "nest"),
        (HEAD + "devices: " + '{"one":' * 100_000, "nest"),
        (HEAD + "devices:\n" + "- " * 100_000, "nest"),
        (HEAD + "devices: [" + "one," * 200_000 + "]\n", "more than 100,000 values"),
        (HEAD + "devices:\n  - " + "    ".join(f"k{at}: 1\n" for at in range(60_000)), "more than 100,000 values"),
        (HEAD + "devices:\n  - id: one\n    name: " + "n" * 100_000 + "\n", "a value of 100,000 characters"),
        (
            HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: " + "9" * 5000 + ","),
            "a value of 5,000 characters",
        ),
        (
            HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: " + "9" * 400 + ",", 1),
            "memory_bytes.value: 9",
        ),
        (
            HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: 0x" + "f" * 1990 + ",", 1),
            "memory_bytes.value: ",
        ),
        (HEAD + "devices:\n" + CARD.replace("Maker", "0x" + "f" * 1990), "vendor: a text is needed here, not int"),
        (
            HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: .inf,", 1),
            "is not a positive, finite number",
        ),
        (HEAD + "devices:\n" + CARD.replace("value: 9000000000,", "value: 2001-99-99,", 1), "is not valid YAML"),
        (HEAD + "devices:\n" + CARD.replace("{value: 9000000000", "{1: 1", 1), "memory_bytes.1: unknown key"),
        ("sources: {s: Sheet}\ndevices:\n" + CARD, "schema: missing"),
        ("schema: 1\ndevices:\n" + CARD, "sources: missing"),
        ("schema: true\nsources: {s: Sheet}\ndevices:\n" + CARD, "schema: True is not known; this version reads 1"),
        ("schema: 1\nsources: [Sheet]\ndevices:\n" + CARD, "sources: a mapping of short names to documents"),
        (HEAD, "devices or models or formats: missing: a spec file holds at least one"),
        (HEAD + "devices: one\n", "devices: a list of devices is needed"),
        (HEAD + "devices: [one]\n", "devices[0]: a mapping is needed here, not str"),
        (HEAD + "devices:\n" + CARD + "devices:\n" + CARD, "devices: given twice"),
        (HEAD + "devices:\n" + CARD + "---\n" + HEAD, "is not valid YAML"),
        (HEAD.replace("Sheet", "") + "devices:\n" + CARD, "sources.s: a text is needed"),
        (b"\xff\xfe" + "one".encode("utf-16-le"), "cannot be read"),
        (b"one\x80", "cannot be read"),
        (b"one: \x00", "is not valid YAML"),
        (b"one\n" * (LARGEST_BYTES // 4 + 1), "no spec file is over 1,048,576 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 50 else "",
)
def test_a_hostile_file_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    """Whoever reads it gets the same kind of error, short, with file and key."""
    for attempt in read(written(tmp_path, content)):
        with pytest.raises(RooflineUsageError, match=r"hostile\.yaml: ") as caught:
            attempt()
        assert words in str(caught.value)
        assert len(str(caught.value)) < 600


def test_memory_is_bounded(tmp_path: Path) -> None:
    """A megabyte of the densest YAML is refused before anything is built of it."""
    file = written(tmp_path, HEAD + "devices: [" + "[]," * ((LARGEST_BYTES - 100) // 3) + "one]\n")
    tracemalloc.start()
    try:
        with pytest.raises(RooflineUsageError, match="more than 100,000 values"):
            load_devices([file], builtin=False)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_many_entries_of_one_name_are_parsed_once(tmp_path: Path) -> None:
    """A thousand entries that hold the name do not cost a thousand documents."""
    file = written(tmp_path, HEAD + "devices:\n" + CARD * 1000)
    with pytest.raises(RooflineUsageError, match=r"'one' means several devices: .*; and 988 more"):
        Catalogue([file], builtin=False).device("one")


def test_a_folder_that_is_named_like_a_file(tmp_path: Path) -> None:
    """It is not skipped, and it is no crash."""
    (tmp_path / "x.yaml").mkdir()
    for attempt in read(tmp_path):
        with pytest.raises(RooflineUsageError, match=r"x\.yaml: is not a file"):
            attempt()


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links and pipes are not for every user there")
def test_what_is_no_plain_file_is_never_opened(tmp_path: Path) -> None:
    """A loop of links, a dangling link, a pipe that nobody writes to and an endless device."""
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / "a.yaml").symlink_to(loop / "b.yaml")
    (loop / "b.yaml").symlink_to(loop / "a.yaml")
    dangling = tmp_path / "dangling"
    dangling.mkdir()
    (dangling / "gone.yaml").symlink_to(tmp_path / "nowhere")
    pipe = tmp_path / "pipe"
    pipe.mkdir()
    os.mkfifo(pipe / "pipe.yaml")
    endless = tmp_path / "endless"
    endless.mkdir()
    (endless / "zero.yaml").symlink_to("/dev/zero")
    for path in (loop, dangling, pipe, endless, loop / "a.yaml", pipe / "pipe.yaml", tmp_path / ("n" * 300)):
        for attempt in read(path):
            with pytest.raises(RooflineUsageError, match=r"is not a file|cannot be read|no such spec file"):
                attempt()


def test_a_link_to_its_own_folder_is_not_followed_round(tmp_path: Path) -> None:
    """Folders are read one level deep."""
    (tmp_path / "devices").symlink_to(tmp_path, target_is_directory=True)
    written(tmp_path, HEAD + "devices:\n" + CARD)
    with pytest.raises(RooflineUsageError, match="this id is taken"):
        load_devices([tmp_path], builtin=False)
    assert len(load_devices([tmp_path / "devices"], builtin=False)) == 1


PIECES = st.sampled_from(
    [
        *(
            "schema: 1\n",
            'sources: {s: "S"}\n',
            "devices:\n",
            "models:\n",
            "formats: ",
            "\n",
            "  ",
            "- ",
            "  - id: one\n",
        ),
        *("    memory_bytes: {value: 1, source: s}\n", "    name: One\n", "    vendor: V\n", "    aliases: [one]\n"),
        *(
            "    device_names: [One]\n",
            "    bandwidth_bytes_per_s: {value: 2e+9, source: s}\n",
            "[",
            "]",
            "{",
            "}",
            ",",
        ),
        *(
            "one",
            ": ",
            "? ",
            "&a ",
            "*a",
            "!!int ",
            "<<: ",
            '"',
            "'",
            "|\n",
            ">-\n",
            "# one\n",
            "---\n",
            "...\n",
            "%YAML",
        ),
        *("0x1", "1e+5", ".nan", "2001-01-01", "~", "true", "\t", "\r", "\u2028", "\x85", "\u00e9", "mig: {}\n", CARD),
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
    | st.lists(PIECES, max_size=25).map(lambda pieces: "".join(pieces).encode("utf-8"))
    | st.lists(PIECES, max_size=25).map(lambda pieces: (HEAD + "devices:\n" + CARD + "".join(pieces)).encode("utf-8")),
    st.sampled_from(["one", "One", "two", "s", "", "one MIG 1g.10gb", "null"]),
)
@example((HEAD + "devices:\n" + CARD).encode(), "one")
@example((HEAD + "devices:\n- id: 1\n- 0x" + "f" * 1000 + ": one\n").encode(), "one")
def test_no_file_raises_anything_but_a_usage_error(tmp_path: Path, content: bytes, name: str) -> None:
    """Random bytes and random pieces of specs, read in every way there is."""
    file = written(tmp_path, content)
    library = Catalogue([file], builtin=False)
    for attempt in (
        *read(file),
        lambda: library.device(name),
        lambda: library.raw("models", name),
        lambda: library.rows("formats"),
        lambda: library.describe("models", name),
    ):
        with contextlib.suppress(RooflineUsageError):
            attempt()
    problems, counts = library.check()
    assert all(isinstance(problem, str) for problem in problems)
    assert counts.keys() == {"devices", "models", "formats"}


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.floats(1e9, 1e12) | st.none(), st.floats(1e9, 1e13) | st.none())
def test_no_name_of_a_driver_raises(
    cards: tuple[Spec, ...], name: str, memory_bytes: float | None, rate: float | None
) -> None:
    """`match` answers with a card that bears the name, or with none."""
    found = match(name, memory_bytes, rate, cards)
    assert found is None or found in cards
