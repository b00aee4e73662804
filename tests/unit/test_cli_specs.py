"""``roofline specs``: lists, entries, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.cli import main

CARD = """
schema: 1
sources: {sheet: "Data sheet"}
devices:
  - id: made-up
    name: Made-up card
    vendor: Nobody
    device_names: ["Made-up"]
    memory_bytes: {value: 10_000_000_000, source: sheet}
    bandwidth_bytes_per_s: {value: %s, source: sheet}
"""


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """Status, stdout and stderr of ``roofline specs``."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["specs", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A sound spec file with one card."""
    file = tmp_path / "card.yaml"
    file.write_text(CARD % "100_000_000_000", encoding="utf-8")
    return file


def test_a_list_of_devices(card: Path, said: Any) -> None:
    """Id, memory, rate and name; the user's own are among them."""
    status, out, _ = said("list", "devices", "--specs", str(card))
    assert status == 0
    assert out.startswith("devices (")
    (line,) = [line for line in out.splitlines() if "made-up" in line]
    assert line.split() == ["made-up", "10.0", "GB", "100", "GB/s", "Made-up", "card"]


def test_lists_as_json(said: Any) -> None:
    """Every kind under its name, unless one is asked for."""
    _, out, _ = said("list", "--json")
    everything = json.loads(out)
    assert everything.keys() == {"schema", "devices", "models", "formats"}
    _, out, _ = said("list", "formats", "--json")
    assert json.loads(out) == {"schema": 1, "formats": everything["formats"]}
    assert "int4" in [row["id"] for row in everything["formats"]]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "h100-sxm",
            ("kind         devices", "bandwidth_bytes_per_s: 3.35 TB/s (NVIDIA H100 Tensor Core GPU data sheet)"),
        ),
        ("H100 SXM 80 GB", ("id           h100-sxm", "memory_bytes: 80.0 GB (NVIDIA H100 Tensor Core GPU data sheet)")),
        (
            "llama-3.1-8b",
            (
                "kind         models",
                "name         Llama 3.1 8B",
                "parameters: 8,030,261,248 (LlamaForCausalLM of transformers 5.24, built from the config and counted); "
                "published as 8B",
            ),
        ),
        ("q4_k", ("kind         formats", "name         GGML Q4_K")),
        ("int4-g128", ("overheads    16 bits per group of 128; 4 bits per group of 128",)),
        ("fp8-tensor", ("overheads    32 bits per tensor",)),
        (
            "Q4_K_M",
            (
                "name         Q4_K_M, a file type of llama.cpp: a mix of formats by tensor and layer",
                "bits_per_weight: 4.894 (the average over llama-3.1-8b, by the rules of llama-quantize; of other "
                "models it differs)",
            ),
        ),
    ],
)
def test_one_entry(name: str, lines: tuple[str, ...], said: Any) -> None:
    """Of whatever kind bears the name, each figure with its source."""
    status, out, _ = said("show", name)
    assert status == 0
    assert set(lines) <= set(out.splitlines())


def test_one_entry_as_json(said: Any) -> None:
    """Figures with value and source."""
    _, out, _ = said("show", "h100-sxm", "--json")
    found = json.loads(out)
    assert (found["schema"], found["kind"], found["id"]) == (1, "devices", "h100-sxm")
    assert found["figures"]["bandwidth_bytes_per_s"]["value"] == 3.35e12


def test_a_sound_file(card: Path, said: Any) -> None:
    """Status 0 from the files that are named; others are checked with them."""
    status, out, _ = said("validate", str(card), "--json")
    found = json.loads(out)
    assert not [problem for problem in found["problems"] if str(card) in problem]
    assert status == (1 if found["problems"] else 0)
    assert found["devices"] > 60


def test_a_fault_is_status_1(tmp_path: Path, said: Any) -> None:
    """File and key, one line for each."""
    file = tmp_path / "card.yaml"
    file.write_text(CARD % "-1", encoding="utf-8")
    status, out, _ = said("validate", str(file))
    assert status == 1
    fault = f"{file}: devices.made-up.bandwidth_bytes_per_s.value: -1 is not a positive, finite number"
    assert fault in out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "cards"), "specs list: no kind 'cards'; known are devices, models, formats"),
        (("show",), "specs show: one NAME is needed, of a device, a model or a format"),
        (("show", "a", "b"), "specs show: one NAME is needed, of a device, a model or a format"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str, said: Any) -> None:
    """One line, status 2."""
    assert said(*arguments) == (2, "", f"roofline specs: {message}\n")


def test_an_unknown_name(said: Any) -> None:
    """The nearest of every kind."""
    status, out, err = said("show", "h100-sx")
    assert (status, out) == (2, "")
    assert "no device is called 'h100-sx'; nearest: h100-sxm" in err
