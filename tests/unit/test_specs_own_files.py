"""A user's own spec files: a fault in one is said at once, whether or not anything is looked up in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_roofline.cli import main
from pytest_roofline.errors import RooflineUsageError
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
L4_LIKE = CARD.replace("[Made-up]", "[NVIDIA L4]").replace("8_000", "24_000").replace("100_", "300_")
NEEDS_NOTHING = ("predict", "--params", "8B", "--bandwidth", "1TB/s")


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
        (f"{HEAD}models:\n  - id: mine\n    name: Mine\n", "models.mine.parameters: missing"),
        (f"{HEAD}models:\n  - id: mine\n    name: Mine\n    aliases: [llama-3.1-8b]\n"
         "    parameters: {value: 1_000_000, source: sheet}\n", "models.mine: the name 'llama-3.1-8b' is taken"),
        (f"{HEAD}formats:\n  - id: mine\n", "formats.mine.name: missing"),
        ("schema: 2\n", "sources: missing"),
        ("[1, 2", "is not valid YAML"),
    ],
    ids=["unknown", "text", "alias", "twice", "driver", "declared", "model", "format", "head", "yaml"],
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
    written(tmp_path / "devices", f"{HEAD}devices:\n{CARD}".replace("[Made-up]", "[NVIDIA L4]"))
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
