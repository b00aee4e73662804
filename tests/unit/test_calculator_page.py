"""``roofline curve --html``: what the page holds, what it says of bad input, and its arithmetic without a browser."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from calculator_oracle import (
    COMPARED,
    MODELS,
    arguments_for,
    arguments_of,
    disagreements,
    page_of,
    predicted,
    random_settings,
    table_in,
)

from pytest_roofline.cli import main
from pytest_roofline.report.calculator import PAGE
from pytest_roofline.specs.catalogue import Catalogue

SETTINGS_EACH = 15
LARGEST_PAGE_BYTES = 500_000
STATED_BY_PAGE = (
    *("--device", "--bandwidth", "--peak", "--memory", "--weights", "--kv"),
    *("--tp", "--offload", "--prompt", "--context", "--batch"),
)

PREDICT_ALL = """
const arithmetic = require(process.argv[1]);
const { table, asked } = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map((settings) => {
    const { device, inventory, ...found } = arithmetic.predict(table, settings);
    return { ...found, room: arithmetic.room(table, settings) };
})));
"""


def calculated(table: dict[str, Any], asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the page's arithmetic says, run by node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the browser test asks the page itself")
    done = subprocess.run(
        [node, "-e", PREDICT_ALL, str(PAGE / "calculator_arithmetic.js")],
        input=json.dumps({"table": table, "asked": asked}),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def model_of(arguments: list[str]) -> list[str]:
    """The arguments less those that the page has controls for."""
    kept = list(arguments)
    for option in STATED_BY_PAGE:
        if option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    return kept


@pytest.mark.parametrize("name", MODELS)
def test_the_arithmetic_is_that_of_predict(name: str, tmp_path: Path) -> None:
    """At random settings every figure of the page is the one of ``roofline predict``, to 1e-9."""
    arguments = arguments_of(name, tmp_path)
    table = table_in(page_of(arguments, tmp_path / "page.html"))
    model = model_of(arguments)
    asked = list(islice(random_settings(table, random.Random(name)), SETTINGS_EACH))
    wrong = {}
    for settings, found in zip(asked, calculated(table, asked), strict=True):
        said = predicted(arguments_for(table, settings, model))
        differing = disagreements(found, said)
        low_and_high = zip(found["expected_tokens_per_s"], said["expected_tokens_per_s"], strict=True)
        differing += [f"expected {low} {high}" for low, high in low_and_high if low != pytest.approx(high, rel=1e-9)]
        if differing:
            wrong[json.dumps(settings)] = differing
    assert wrong == {}


def test_it_begins_where_the_command_line_says(tmp_path: Path) -> None:
    """Formats, device, ranks and workload of the options; the batch is the first of the curve."""
    options = (
        "--weights",
        "AWQ",
        "--kv",
        "FP8",
        "--tp",
        "2",
        "--context",
        "5000",
        "--prompt",
        "1K",
        "--offload",
        "0.5",
    )
    start = table_in(page_of(["llama-3.1-8b", "--device", "RTX 4090", *options], tmp_path / "page.html"))["start"]
    assert start == {
        "weights": "awq",
        "kv": "fp8",
        "device": "rtx-4090",
        "batch": 1,
        "context": 5000,
        "prompt": 1024,
        "tokens_per_pass": 1.0,
        "ranks": 2,
        "offload": 0.5,
        "is_overlapped": False,
    }


def test_without_a_device_it_begins_on_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page has a list of devices: none has to be named, and the table says on which one it is."""
    file = tmp_path / "page.html"
    assert main(["curve", "llama-3.1-8b", "--html", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("llama-3.1-8b on NVIDIA H100 SXM 80 GB,")
    assert "no --device is given: these are the figures of h100-sxm; the page has all devices" in printed
    assert printed.endswith(f"calculator: {file}\n")
    table = table_in(file.read_text(encoding="utf-8"))
    assert table["start"]["device"] == "h100-sxm"
    assert [device["key"] for device in table["devices"]] == Catalogue().ids("devices")


def test_stated_figures_are_a_device_of_their_own(tmp_path: Path) -> None:
    """Figures in place of a device's are the first entry of the list; the named device keeps its own."""
    options = ["llama-3.1-8b", "--device", "h100-sxm", "--bandwidth", "3TB/s", "--memory", "94GB"]
    table = table_in(page_of(options, tmp_path / "page.html"))
    first = table["devices"][0]
    assert (table["start"]["device"], first["bandwidth_bytes_per_s"], first["memory_bytes"]) == ("", 3e12, 94e9)
    assert first["arguments"] == ["--device", "h100-sxm", "--bandwidth", "3TB/s", "--memory", "94GB"]
    assert {device["key"]: device["bandwidth_bytes_per_s"] for device in table["devices"]}["h100-sxm"] == 3.35e12


def test_a_slice_of_a_card(tmp_path: Path) -> None:
    """What is no entry of the specs, but has a name, is the first of the list."""
    table = table_in(page_of(["llama-3.2-1b", "--device", "h100-sxm MIG 1g.10gb"], tmp_path / "page.html"))
    assert table["devices"][0]["memory_bytes"] == 10e9
    assert table["devices"][0]["arguments"] == ["--device", "'h100-sxm MIG 1g.10gb'"]


def test_what_the_page_is(tmp_path: Path) -> None:
    """One file: small, the same each time, no address in it but SVG's name, scripts allowed by their hashes alone."""
    pages = [page_of(["gpt-oss-120b", "--device", "h100-sxm"], tmp_path / f"{name}.html") for name in ("one", "two")]
    assert pages[0] == pages[1]
    assert len(pages[0].encode()) < LARGEST_PAGE_BYTES
    assert set(re.findall(r"(?:https?:)?//[a-z][\w.]*\.\w+[\w/.]*", pages[0])) == {"http://www.w3.org/2000/svg"}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', pages[0])
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert "<!-- part" not in pages[0]


HOSTILE = '</script><img src=x onerror=alert(1)>"&\u202e<!-- part: data -->'


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """What a model is called ends no element, begins none, and names no part of the page."""
    from model_files import GgufWriter, llama_tensors, llama_values

    folder = tmp_path / "a 'b' $(touch x)"
    folder.mkdir()
    file = folder / "m.gguf"
    file.write_bytes(GgufWriter().file(llama_values(general__name=HOSTILE), llama_tensors()))
    page = page_of([str(file), "--device", "l4"], tmp_path / "page.html")
    assert "<img" not in page
    assert "\u202e" not in page
    assert page.count("</script>") == page.count("<script")
    table = table_in(page)
    assert "onerror=alert(1)" in table["model"]["model"]
    assert table["arguments"] == ["'" + str(file).replace("'", "'\"'\"'") + "'"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("llama-3.1-8b", "--html", "/dev/null/page.html"), "--html: /dev/null/page.html: cannot be written: "),
        (("llama-3.1-8b", "--html", "{folder}"), "--html: {folder}: cannot be written: "),
        (("llama-3.1-8b", "--html", "{folder}/new/p.html"), "cannot be written: there is no folder {folder}/new"),
        (("llama-3.1-8b", "--html", ""), "--html: which file?"),
        (
            ("llama-3.1-8b", "--device", "h1oo-sxm", "--html", "{folder}/p.html"),
            "no device is called 'h1oo-sxm'; nearest: h100-sxm",
        ),
        (("llama-3.1-8bb", "--html", "{folder}/p.html"), "no model is called 'llama-3.1-8bb'; nearest: llama-3.1-8b"),
        (
            ("llama-3.1-8b", "--memory", "80", "--kv", "zip", "--html", "{folder}/p.html"),
            "'zip' is no format of a KV cache",
        ),
    ],
)
def test_bad_input(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be written or found is one line with status 2, and no page is left."""
    folder = str(tmp_path)
    assert main(["curve", *(argument.format(folder=folder) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert complaint.format(folder=folder) in error
    assert list(tmp_path.iterdir()) == []


def test_every_format_of_weights_that_holds_the_model_is_offered(tmp_path: Path) -> None:
    """Each once, those of llama.cpp too, and each with the size that ``predict`` gives it."""
    table = table_in(page_of(["llama-3.1-8b"], tmp_path / "page.html"))
    keys = [entry["key"] for entry in table["weights"]]
    assert len(keys) == len(set(keys))
    assert {"", "bf16", "q4_k_m", "iq3_xs", "int4-g128", "nf4-dq", "hqq-4bit-g64"} <= set(keys)
    for entry in table["weights"][::17]:
        said = predicted(["llama-3.1-8b", "--device", "l4", *entry["arguments"]])
        assert entry["total_bytes"] == said["weight_bytes_total"]


def test_what_would_fit_is_what_predict_notes(tmp_path: Path) -> None:
    """The largest batch and context of the page are those of the notes of ``roofline predict``."""
    table = table_in(page_of(["llama-3.1-70b", "--device", "h200-sxm", "--weights", "fp8"], tmp_path / "page.html"))
    settings = {**table["start"], "batch": 64, "context": 32768}
    (found,) = calculated(table, [settings])
    said = predicted(arguments_for(table, settings, ["llama-3.1-70b"]))
    assert found["fits"] is False
    assert f"would fit: a context of up to {found['room']['context']:,} tokens at batch 64" in said["notes"]
    assert f"would fit: a batch of up to {found['room']['batch']:,} at 32,768 tokens" in said["notes"]
    assert f"would fit: {found['room']['ranks']} such devices" in "\n".join(said["notes"])


def test_compared_keys_are_what_predict_prints(tmp_path: Path) -> None:
    """Every number that ``predict`` prints of a pass is among those compared, but for what the options state."""
    said = predicted(["llama-3.1-8b", "--device", "l4", "--prompt", "9"])
    numbers = {key for key, value in said.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    stated = {"batch", "context", "prompt", "tokens_per_pass", "offload", "ranks", "schema", "link_latency_s"}
    of_model = {"parameters", "active_parameters", "rule_weight_bytes_per_pass", "rule_tokens_per_s"}
    of_device = {"bandwidth_bytes_per_s", "memory_bytes", "link_bytes_per_s", "spill_bytes_per_s"}
    assert numbers <= set(COMPARED) | stated | of_model | of_device
