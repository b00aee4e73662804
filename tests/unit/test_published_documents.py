"""Files that nobody should trust: sizes, encodings, nesting, what is cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from results_files import ENGINE_FILES, llama_row, vllm_serve, written

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.published import document
from pytest_roofline.published.registry import read_results


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is empty"),
        (b" \n\t", r"is empty"),
        (b"[]", r"holds an empty list: no result is in it"),
        (b"[1, 2]", r"row 1: 1 is no JSON object"),
        (b'[{"n_prompt": 1,', r"is not valid JSON: line 1"),
        (b'{"a": 1}\n{"a": ', r"line 2: is not valid JSON"),
        (b'{"a": 1, "a": 2}', r"a: given twice"),
        (b"[" * 200_000, r"is nested too deep|more than .* are not believed"),
        (b'{"a":' * 100_000, r"is nested too deep|more than .* are not believed"),
        (b"\xff\xfe\xff", r"is not UTF-8 text"),
        (b"{\x80}", r"is not UTF-8 text \(byte 1\)"),
        (b"n_prompt,n_gen\x00", r"holds a null character"),
        (b"[" + b"{}," * 10_001 + b"{}]", r"10,002 rows; 10,000 are read at most"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_broken_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    """One line that names the file and what is wrong."""
    path = written(tmp_path, content)
    with pytest.raises(RooflineUsageError, match=message) as caught:
        read_results(path)
    assert str(caught.value).startswith(path)


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the stated size nothing is loaded, and the message says what to take instead."""
    monkeypatch.setattr(document, "LARGEST_BYTES", 100)
    path = written(tmp_path, b" " * 101)
    with pytest.raises(
        RooflineUsageError, match=r"101 bytes; results of over 100 are not read: take the tool's summary"
    ):
        read_results(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_a_byte_order_mark_is_no_error(tmp_path: Path, encoding: str) -> None:
    """What shells of Windows redirect into files; without a mark it is refused."""
    text = (ENGINE_FILES / "llama-bench-f16-depth.csv").read_text(encoding="utf-8")
    path = written(tmp_path, text.encode(encoding), "bench.csv")
    if encoding == "utf-16-le":
        with pytest.raises(RooflineUsageError, match="null character"):
            read_results(path)
    else:
        assert len(read_results(path)) == 4


@pytest.mark.parametrize("path", ["/nowhere/x.json", "/tmp", "a\0b"])
def test_what_is_no_file(path: str) -> None:
    """A missing file, a folder, a name that none can have."""
    with pytest.raises(RooflineUsageError, match=r"cannot be read|is no file"):
        read_results(path)


def test_names_in_a_file_forge_no_output(tmp_path: Path) -> None:
    """Escapes and line ends of a stranger's words are shown as escapes."""
    path = written(tmp_path, [llama_row(backends="\x1b[2J\nPASSED", gpu_info="")])
    assert read_results(path)[0].remarks == ("backend \\x1b[2J\\nPASSED",)


def test_figures_that_are_not_read_may_be_anything(tmp_path: Path) -> None:
    """NaN of a deviation that nobody needs is no reason to refuse a file."""
    content: Any = vllm_serve(std_ttft_ms=float("nan"), request_rate=float("inf"))
    assert len(read_results(written(tmp_path, content))) == 3
