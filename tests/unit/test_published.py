"""The published rates: every shipped row comes out as it was worked out by hand, and the flagged ones with a cause."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.catalogue import Catalogue

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "published.py"

FIRST_CAUSES = {
    "v150": "uniform-routing",
    "v151": "uniform-routing",
    "v209": "embedding-counted",
    "v222": "kv-format",
    "v246": "prompt-counted",
    "v252": "batch-aggregate",
    "v255": "impossible",
}


def load() -> ModuleType:
    """The program, as a module."""
    spec = importlib.util.spec_from_file_location("published", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["published"] = module
    spec.loader.exec_module(module)
    return module


published: Any = load()
ROWS = {row.id: row for row in published.read_rows(published.SHIPPED)}


@pytest.fixture(autouse=True)
def _module_goes_away() -> Iterator[None]:
    yield
    sys.modules.pop("published", None)


def shipped() -> dict[str, Any]:
    """The shipped document."""
    document: dict[str, Any] = yaml.safe_load(published.SHIPPED.read_text(encoding="utf-8"))
    return document


def write(tmp_path: Path, *rows: dict[str, Any]) -> str:
    """A file of these rows."""
    file = tmp_path / "rows.yaml"
    file.write_text(yaml.safe_dump({"validation_rows": list(rows)}), encoding="utf-8")
    return str(file)


def raw(row_id: str, **changes: Any) -> dict[str, Any]:
    """A shipped row with some keys changed."""
    return next(row for row in shipped()["validation_rows"] if row["id"] == row_id) | changes


def test_the_shipped_rows_are_many_and_each_has_its_source() -> None:
    """Kinds of models, formats and devices, every one from a public document."""
    document = shipped()
    assert len(ROWS) == len(document["validation_rows"]) >= 25
    assert {row.source for row in ROWS.values()} == document["sources"].keys()


@pytest.mark.parametrize("row_id", [row.id for row in ROWS.values() if row.flag is None])
def test_a_row_comes_out_as_stated(row_id: str) -> None:
    """Within 2 % of the fraction worked out by hand, and below the ceiling."""
    outcome = published.recompute(ROWS[row_id], Catalogue())
    assert outcome.fault is None
    assert outcome.fraction < 1
    # Layers split over two cards: stated of both together, computed of the one that works.
    stated = outcome.row.fraction * (outcome.row.devices if outcome.row.is_split else 1)
    assert outcome.fraction == pytest.approx(stated, rel=0.02)


@pytest.mark.parametrize("row_id", [row.id for row in ROWS.values() if row.flag is not None])
def test_a_flagged_row_is_above_a_ceiling_and_its_cause_is_found(row_id: str) -> None:
    """From the figures alone: the words of the flag are not read."""
    outcome = published.recompute(replace(ROWS[row_id], flag=None), Catalogue())
    assert outcome.causes[0].name == FIRST_CAUSES[row_id] == published.cause_of(ROWS[row_id].flag)
    assert outcome.fraction == pytest.approx(outcome.row.fraction, rel=0.02)
    assert outcome.fraction > 1 or "whole file" in outcome.causes[0].message


def test_the_shipped_rows_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """The program ends well, and its last line counts."""
    assert published.main([]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{len(ROWS)} rows: ")
    assert f"{len(FIRST_CAUSES)} of {len(FIRST_CAUSES)} flagged rows with the cause that they state" in last


@pytest.mark.parametrize(
    ("row", "remark"),
    [
        (raw("v001", fraction=0.72), "off by over 2 %"),
        (raw("v001", measured_tok_s=120.0, fraction=1.246), "usable, and above the ceiling"),
        (raw("v222", measured_tok_s=4000.0, fraction=0.79), "flagged, and above no ceiling"),
        (raw("v222", flag="prompt tokens counted"), "flagged as prompt-counted, and kv-format is found"),
        (raw("v222", flag="too good"), "flagged in words of which FLAGS knows none"),
        (raw("v001", hardware="rtx-0000"), "v001: not computed: no device is called 'rtx-0000'"),
        (raw("v001", quant="Q?"), "v001: not computed: 'Q?': no pattern of FORMATS fits"),
    ],
)
def test_a_faulty_row_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: dict[str, Any], remark: str
) -> None:
    """And the line of the row says why."""
    assert published.main([write(tmp_path, row)]) == 1
    assert remark in capsys.readouterr().out


def test_rows_that_assume_something_are_shown_and_not_judged(tmp_path: Path) -> None:
    """Nor those of several devices."""
    rows = (raw("v215", fraction=0.9), raw("v052", fraction=0.9))
    assert published.main([write(tmp_path, *rows)]) == 0


def test_a_rows_own_figures_of_bytes_are_not_read(tmp_path: Path) -> None:
    """Names alone decide."""
    row = raw("v001", weight_bytes_per_step=1, kv_bytes_per_sequence=1, bandwidth_bytes_s=1, ceiling_tok_s=1.0)
    (read,) = published.read_rows(Path(write(tmp_path, row)))
    assert read == ROWS["v001"]


@pytest.mark.parametrize(
    ("quant", "expected"),
    [
        ("GGUF Q4_K_M (deepseek-r1:14b)", ("Q4_K_M", "")),
        ("GGUF F16", ("F16", "")),
        ("QAT GGUF Q4_0", ("Q4_0", "table")),
        ("MXFP4 experts + Q8_0 (llama.cpp file assumed)", ("mxfp4_moe", "")),
        ("HQQ 4 bit g64", ("hqq-4bit-g64", "")),
        ("EXL2 2.5 bpw", ("exl2-2.5bpw", "")),
        ("GPTQ (TheBloke main branch, g128)", ("int4-g128", "")),
        ("AWQ g128 GEMV (Vicuna 7B), 64 in / 64 out", ("int4-g128", "")),
        ("int4 g32 (bf16 scale+zero, 5.0 bpw)", ("torchao-int4-g32", "every")),
        ("int8, tensor parallel 8", ("int8-channel", "every")),
        ("FP8 block 128x128", ("fp8-block", "")),
        ("FP8, FP8 KV assumed", ("fp8-tensor", "")),
        ("fp8 rowwise", ("fp8-channel", "")),
        ("fp16 (Hugging Face baseline)", ("fp16", "")),
        ("bf16, TP 8", ("bf16", "")),
        ("bf16, FP8 KV", ("bf16", "")),
        ("QTIP 2 bit", ("2bpw", "kept")),
        ("MXFP4 experts + BF16", ("as stored", "checkpoint")),
        ("int8 rowwise", ("int8-channel", "")),
        ("GPTQ-Int8", ("int8-g128", "")),
    ],
)
def test_a_published_format_has_one_meaning(quant: str, expected: tuple[str, str]) -> None:
    """What publications call it, as the catalogue does."""
    assert published.format_of(quant) == expected


def test_rows_need_no_stated_fraction(tmp_path: Path) -> None:
    """Then there is nothing to judge, and the computed one is shown."""
    assert published.main([write(tmp_path, raw("v001", fraction=None))]) == 0


def test_an_unknown_format_is_an_error() -> None:
    """Nothing is assumed."""
    with pytest.raises(RooflineUsageError, match="'ternary': no pattern of FORMATS fits"):
        published.format_of("ternary")
