"""A user's own spec files: a fault in one is said at once, whether or not anything is looked up in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_roofline.cli import main
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.folders import specs_folder
from pytest_roofline.specs.own_files import checked_catalogue

HEAD = "schema: 1\nsources: {sheet: A data sheet}\n"
CARD = """\
  - id: made-up
    name: Made-up card
    vendor: Nobody
    device_names: [Made-up]
    memory_bytes: {value: 8_000_000_000, source: sheet}
    bandwidth_bytes_per_s: {value: 100_000_000_000, source: sheet}
"""
L4_LIKE = (
    CARD.replace("[Made-up]", "[NVIDIA L4]")
    .replace("vendor: Nobody", "vendor: NVIDIA")
    .replace("8_000", "24_000")
    .replace("100_", "300_")
)
NEEDS_NOTHING = ("predict", "--params", "8B", "--bandwidth", "1TB/s")


OTHERS = CARD.replace("[Made-up]", "[NVIDIA L4]")  # of another vendor, and of another size
SLOW = CARD.replace("100_000_000_000", "500")


def written(folder: Path, text: str) -> str:
    """The path of a spec file with this text."""
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}devices:\n{CARD}    colour: red\n", "devices.made-up.colour: unknown key"),
        (f"{HEAD}devices:\n{CARD}".replace("8_000_000_000", "'8 GB'"), "devices.made-up.memory_bytes.value: a number"),
        (f"{HEAD}devices:\n{CARD}    aliases: [h100-sxm]\n", "devices.made-up.aliases: 'h100sxm' means 'h100-sxm' too"),
        (f"{HEAD}devices:\n{CARD}{CARD}", "devices.made-up: this id is taken"),
        (f"{HEAD}devices:\n{L4_LIKE}", "devices.made-up.device_names: 'l4' is claimed by 'l4' too"),
        (f"{HEAD}devices:\n{OTHERS}", "devices.made-up.device_names: 'l4' is claimed by 'l4' of NVIDIA too"),
        (f"{HEAD}devices:\n{SLOW}", "devices.made-up.bandwidth_bytes_per_s.value: 500 B/s is outside of what"),
        (f"{HEAD}models:\n  - id: mine\n    name: Mine\n", "models.mine.parameters: missing"),
        (f"{HEAD}models:\n  - id: mine\n    name: Mine\n    aliases: [llama-3.1-8b]\n"
         "    parameters: {value: 1_000_000, source: sheet}\n", "models.mine: the name 'llama-3.1-8b' is taken"),
        (f"{HEAD}formats:\n  - id: mine\n", "formats.mine.name: missing"),
        ("schema: 2\n", "sources: missing"),
        ("[1, 2", "is not valid YAML"),
    ],
    ids=["unknown", "text", "alias", "twice", "driver", "vendor", "slow", "declared", "model", "format", "top", "yaml"],
)  # fmt: skip
def test_a_fault_names_file_and_key_though_nothing_is_looked_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    """By ``--specs`` and by the environment, and in an entry that nobody asks for."""
    path = written(tmp_path, text)
    for arguments in ((*NEEDS_NOTHING, "--specs", path), ("predict", "phi-4", "--device", "l4", "--specs", path)):
        assert main(list(arguments)) == 2
        assert f"{path}: {said}" in capsys.readouterr().err
    monkeypatch.setenv("PYTEST_ROOFLINE_SPECS", path)
    assert main(list(NEEDS_NOTHING)) == 2
    assert f"{path}: {said}" in capsys.readouterr().err


def test_a_folder_without_specs_is_an_error(tmp_path: Path) -> None:
    """What was given for a folder of specs, and holds none, is another folder than was meant."""
    with pytest.raises(RooflineUsageError, match="no spec file was found there"):
        checked_catalogue([tmp_path])
    with pytest.raises(RooflineUsageError, match="no such spec file or folder"):
        checked_catalogue([tmp_path / "missing"])


def test_sound_files_are_found_beside_those_of_the_package(tmp_path: Path) -> None:
    """Alone or in a folder by kind; a card may share a driver's name where its memory tells it apart."""
    (tmp_path / "devices").mkdir()
    same_vendor = CARD.replace("[Made-up]", "[NVIDIA L4]").replace("vendor: Nobody", "vendor: NVIDIA")
    written(tmp_path / "devices", f"{HEAD}devices:\n{same_vendor}")
    catalogue = checked_catalogue([tmp_path])
    assert catalogue.device("made-up").memory_bytes == 8e9
    assert catalogue.device("h100-sxm").memory_bytes == 80e9
    assert checked_catalogue([]).device("l4").name == "NVIDIA L4"


def test_every_file_of_several_is_looked_over(tmp_path: Path) -> None:
    """The second one of a list, and one that clashes with the first."""
    for name, text in (("a", CARD), ("b", CARD.replace("id: made-up", "id: other"))):
        (tmp_path / name).mkdir()
        written(tmp_path / name, f"{HEAD}devices:\n{text}")
    with pytest.raises(RooflineUsageError, match=r"devices\.other\.device_names: .* is claimed by 'made-up' too"):
        checked_catalogue([tmp_path / "a", os.fspath(tmp_path / "b")])


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        ("memory_bytes: {value: 80, source: sheet}",
         "memory_bytes.value: 80 bytes is outside of what devices have, 100 MB to 1.00 PB; the unit is bytes"),
        ("bandwidth_bytes_per_s: {value: 3_350_000_000_000_000, source: sheet}",
         "bandwidth_bytes_per_s.value: 3.35 PB/s is outside of what devices have, 1.00 GB/s to 1.00 PB/s; the unit is "
         "bytes per second"),
        ("dense_peak_flops_per_s: {bfloat16: {value: 989, source: sheet}}",
         "dense_peak_flops_per_s.bfloat16.value: 989 FLOP/s is outside"),
        ("host_link_bytes_per_s: {value: 64, source: sheet}", "host_link_bytes_per_s.value: 64 B/s is outside"),
    ],
    ids=["memory", "bandwidth", "peak", "link"],
)  # fmt: skip
def test_a_figure_that_no_device_has_is_a_slip_of_the_unit(tmp_path: Path, figure: str, said: str) -> None:
    """Named with the unit that the key has."""
    lines = [line for line in CARD.splitlines() if line.split(":")[0].strip() != figure.split(":")[0]]
    path = written(tmp_path, "\n".join([HEAD + "devices:", *lines, f"    {figure}", ""]))
    with pytest.raises(RooflineUsageError) as caught:
        checked_catalogue([path])
    assert said in str(caught.value)


def test_the_packages_own_specs_are_no_faults_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Given once more, the folder or a file in it, they are said to come with the package; a copy clashes as ever."""
    own = specs_folder()
    file = next(iter(sorted((own / "devices").glob("*.yaml"))))
    for path in (own, own / "devices", file):
        with pytest.raises(RooflineUsageError, match="these specs come with the package and are read anyway"):
            checked_catalogue([path])
    assert main(["specs", "validate", str(own)]) == 2
    assert "come with the package" in capsys.readouterr().err
    (tmp_path / "copy.yaml").write_bytes(file.read_bytes())
    with pytest.raises(RooflineUsageError, match="this id is taken"):
        checked_catalogue([tmp_path / "copy.yaml"])
