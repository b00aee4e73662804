"""The library of cards: what the files must hold, and which card a driver's name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.device import Spec
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs import load_devices, match, specs_folder

GOOD = """\
schema: 1
sources:
  sheet: "Maker's data sheet"
devices:
  - id: card-one
    name: Card One
    vendor: Maker
    device_names: ["Maker Card One"]
    memory_bytes: {value: 24_000_000_000, source: sheet}
    bandwidth_bytes_per_s: {value: 300_000_000_000, source: sheet}
    dense_peak_flops_per_s:
      bfloat16: {value: 1.21e+14, source: sheet}
"""
SECOND = """\
  - id: card-two
    name: Card Two
    vendor: Maker
    device_names: ["MAKER card  one"]
    memory_bytes: {value: 26_000_000_000, source: sheet}
    bandwidth_bytes_per_s: {value: 300_000_000_000, source: sheet}
"""


@pytest.fixture(scope="module")
def cards() -> tuple[Spec, ...]:
    """The package's own cards, read once."""
    return load_devices()


def load(tmp_path: Path, text: str) -> tuple[Spec, ...]:
    """Load one file of that text and nothing else."""
    file = tmp_path / "cards.yaml"
    file.write_text(text, encoding="utf-8")
    return load_devices([file], builtin=False)


def test_a_card_is_loaded_with_every_source_in_words(tmp_path: Path) -> None:
    """Numbers become floats and each keeps the document that it came from."""
    (spec,) = load(tmp_path, GOOD)
    assert spec.memory_bytes == 24e9
    assert spec.dense_peak_flops_per_s == {"bfloat16": 1.21e14}
    assert spec.source == "Maker's data sheet"
    assert spec.sources["dense_peak_flops_per_s.bfloat16"] == "Maker's data sheet"


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("vendor: Maker", "vendor: Maker\n    colour: red", "devices.card-one.colour", "unknown key"),
        ("schema: 1", "schema: 1\nextra: 1", "file.extra", "unknown key"),
        ("bfloat16:", "bf16:", "dense_peak_flops_per_s.bf16", "unknown key"),
        ("24_000_000_000, source: sheet", "24_000_000_000", "memory_bytes.source", "missing"),
        (
            "{value: 24_000_000_000, source: sheet}",
            "24_000_000_000",
            "memory_bytes",
            "every number has a source",
        ),
        ("24_000_000_000", '"24e9"', "memory_bytes.value", "a number in a string"),
        ("1.21e+14", "1.21e14", "bfloat16.value", "a number in a string"),
        ("24_000_000_000", "-1", "memory_bytes.value", "not a positive"),
        ("24_000_000_000", ".nan", "memory_bytes.value", "not a positive"),
        ("24_000_000_000", "true", "memory_bytes.value", "a number is needed"),
        ("1.21e+14, source: sheet", "1.21e+14, source: rumour", "bfloat16.source", "not in the sources"),
        ("    vendor: Maker\n", "", "devices.card-one.vendor", "missing"),
        ("vendor: Maker", "vendor: Maker\n    vendor: Maker", "devices[0].vendor", "given twice"),
        ("memory_bytes: {", "memory_bytes: &m {", "line 9", "anchors"),
        ("schema: 1", "schema: 2", "schema", "not known"),
        ("id: card-one", "id: Card One", ".id", "lower-case"),
        ("vendor: Maker", "vendor: Maker\n    aliases: one", "aliases", "a list of texts is needed"),
        ("vendor: Maker", "vendor: Maker\n    aliases: [4090]", "aliases", "a text is needed here, not int 4090"),
        ("vendor: Maker", "vendor: Maker\n    has_memory_options: often", "has_memory_options", "true or false"),
        ("vendor: Maker", "vendor: Maker\n    mig: {}", "mig.memory_slices", "every number has a source"),
        (
            "vendor: Maker",
            "vendor: Maker\n    mig: {memory_slices: {value: 7, source: sheet}}",
            "mig.memory_slices.value",
            "8 slices, or into 4",
        ),
        ("vendor: Maker", "vendor: Maker\n    compute_units: 132", "compute_units", "every number has a source"),
        ('["Maker Card One"]', "[]", "device_names", "at least one name"),
        ("devices:", "devices: [}", "", "not valid YAML"),
        ("vendor: Maker", "vendor: Maker\n    is_unified_memory: 1", "is_unified_memory", "true or false"),
    ],
)
def test_a_fault_names_the_file_and_the_key(tmp_path: Path, old: str, new: str, key: str, words: str) -> None:
    """Every fault is a usage error with the file, the key and what is wrong."""
    assert old in GOOD
    with pytest.raises(RooflineUsageError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    message = str(caught.value)
    assert "cards.yaml" in message
    assert key in message
    assert words in message


@pytest.mark.parametrize("text", ["", "- 1\n", "just words\n", "a: &a [*a]\n", "\x00"])
def test_a_file_that_is_no_spec_is_an_error(tmp_path: Path, text: str) -> None:
    """An empty file, another shape, a cycle and binary data end in the same clear way."""
    with pytest.raises(RooflineUsageError, match=r"cards\.yaml"):
        load(tmp_path, text)


def test_two_cards_cannot_claim_one_device(tmp_path: Path) -> None:
    """The same name and nearly the same memory: nobody could tell the cards apart."""
    with pytest.raises(RooflineUsageError, match="claimed by 'card-one' too"):
        load(tmp_path, GOOD + SECOND)


def test_cards_of_one_name_with_different_memory_live_together(tmp_path: Path) -> None:
    """Memory tells them apart, and without it the name alone means neither."""
    specs = load(tmp_path, GOOD + SECOND.replace("26_000", "96_000"))
    assert match("Maker Card One", 96e9, None, specs) is specs[1]
    assert match("Maker Card One", 24e9, None, specs) is specs[0]
    assert match("Maker Card One", None, None, specs) is None


def test_cards_of_one_name_and_size_are_told_apart_by_their_rates(tmp_path: Path) -> None:
    """A card whose driver gives no bus width and clock is then neither of them, never the first one."""
    specs = load(tmp_path, GOOD + SECOND.replace("300_000", "200_000"))
    assert match("Maker Card One", 24e9, 301e9, specs) is specs[0]
    assert match("Maker Card One", 24e9, 199e9, specs) is specs[1]
    assert match("Maker Card One", 24e9, None, specs) is None
    assert match("Maker Card One", 24e9, 250e9, specs) is None


def test_two_near_rates_are_told_apart_only_by_a_rate_that_is_nearly_one_of_them(tmp_path: Path) -> None:
    """300 and 285 GB/s: what lies between them is in doubt."""
    specs = load(tmp_path, GOOD + SECOND.replace("300_000", "285_000"))
    assert match("Maker Card One", 24e9, 300.1e9, specs) is specs[0]
    assert match("Maker Card One", 24e9, 285.1e9, specs) is specs[1]
    assert match("Maker Card One", 24e9, 292e9, specs) is None


def test_a_card_with_memory_options_is_matched_by_less_memory_and_never_by_more(tmp_path: Path) -> None:
    """Its printed size is the most that it is sold with."""
    specs = load(tmp_path, GOOD + "    has_memory_options: true\n")
    assert match("Maker Card One", 8e9, None, specs) is specs[0]
    assert match("Maker Card One", 24.9e9, None, specs) is specs[0]
    assert match("Maker Card One", 48e9, None, specs) is None


def test_memory_tells_no_card_with_memory_options_from_a_smaller_one(tmp_path: Path) -> None:
    """The larger one may be bought as small as the other."""
    with pytest.raises(RooflineUsageError, match="is claimed by 'card-one' too"):
        load(tmp_path, GOOD + SECOND.replace("26_000", "96_000") + "    has_memory_options: true\n")


@pytest.mark.parametrize("alias", ["card-two", "Card_Two", "card-one"])
def test_an_alias_is_taken_once(tmp_path: Path, alias: str) -> None:
    """Two cards under one short name would make a guess of every use; another card's id is such a name too."""
    first = GOOD + "    aliases: [card-two]\n"
    second = SECOND.replace("card-two", "card-three").replace("MAKER card  one", "Maker Card Two")
    with pytest.raises(RooflineUsageError, match=r"devices\.card-three\.aliases: .* means 'card-one' too"):
        load(tmp_path, first + second + f"    aliases: [{alias}]\n")


def test_an_id_is_given_once(tmp_path: Path) -> None:
    """A second card under a taken id is an error even across files."""
    other = tmp_path / "other.yaml"
    other.write_text(GOOD.replace("Maker Card One", "Maker Card Nine"), encoding="utf-8")
    with pytest.raises(RooflineUsageError, match="this id is taken"):
        load_devices([other, other], builtin=False)


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    """A folder that is not there is wrong use, not an empty library."""
    with pytest.raises(RooflineUsageError, match="no such spec file"):
        load_devices([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("name", "memory_bytes", "rate", "expected"),
    [
        ("NVIDIA H200", 150.1e9, 4.917e12, "h200-sxm"),
        ("NVIDIA H100 80GB HBM3", 85.0e9, 3.352e12, "h100-sxm"),
        ("NVIDIA H100 PCIe", 85.0e9, 2.039e12, "h100-pcie"),
        ("NVIDIA H100 NVL", 100.0e9, 3.94e12, "h100-nvl"),
        ("A100-SXM4-40GB", 42.3e9, 1.555e12, "a100-40-sxm"),
        ("NVIDIA A100-PCIe-40GB", 42.3e9, None, "a100-40-pcie"),
        ("NVIDIA_A100-SXM4-80GB", 85.0e9, 2.039e12, "a100-80-sxm"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 85.0e9, None, "a100-80-sxm"),
        ("NVIDIA L4", 23.6e9, 300e9, "l4"),
        ("NVIDIA L40S", 47.7e9, 864e9, "l40s"),
        ("NVIDIA GeForce RTX 4090", 25.4e9, 1.008e12, "rtx-4090"),
        ("NVIDIA B200", 191.5e9, 8.18e12, "b200"),
        ("NVIDIA GB10", 128.5e9, None, "gb10"),
        ("AMD Instinct MI300X", 206e9, None, "mi300x"),
        ("NVIDIA L40", 47.7e9, 864e9, "l40"),
        ("NVIDIA H20", 102e9, 4.0e12, "h20"),
        ("NVIDIA GeForce RTX 4090 D", 25.4e9, 1.008e12, "rtx-4090-d"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 17.1e9, 576e9, "rtx-4090-laptop"),
        ("NVIDIA H100 80GB HBM3", 42.0e9, None, None),
        ("NVIDIA H200", 150.1e9, 3.35e12, None),
        ("", None, None, None),
    ],
)
def test_the_names_of_drivers(
    cards: tuple[Spec, ...], name: str, memory_bytes: float | None, rate: float | None, expected: str | None
) -> None:
    """A name matches whole and its memory agrees, or there is no card; a neighbour never stands in."""
    found = match(name, memory_bytes, rate, cards)
    assert (found.id if found else None) == expected


def test_without_a_library_the_packages_own_is_taken() -> None:
    """`match` alone is enough for a name."""
    found = match("NVIDIA L4")
    assert found is not None
    assert found.bandwidth_bytes_per_s == 300e9


def test_the_files_of_the_package_are_sound() -> None:
    """Every card has a source for every number, and its memory is no peak's."""
    specs = load_devices()
    assert len(specs) >= 65
    for spec in specs:
        assert spec.sources["memory_bytes"]
        assert 1e9 < spec.memory_bytes < 1e12
        assert 5e10 < spec.bandwidth_bytes_per_s < 2e13
        assert all(1e12 < peak < 2e16 for peak in spec.dense_peak_flops_per_s.values())


def test_a_file_or_a_folder_with_specs_can_be_named(tmp_path: Path) -> None:
    """`--roofline-specs PATH` may name the file, its folder, or one that has `devices` in it."""
    inner = tmp_path / "devices"
    inner.mkdir()
    (inner / "mine.yaml").write_text(GOOD, encoding="utf-8")
    assert load_devices([tmp_path], builtin=False) == load_devices([inner], builtin=False)
    assert load_devices([inner / "mine.yaml"], builtin=False) == load_devices([inner], builtin=False)
    assert load_devices([tmp_path])[-1].id == "card-one"


def test_the_folder_of_the_wheel_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installed, the specs lie inside the package; in a checkout, beside it; in neither place it says so."""
    package = tmp_path / "pytest_roofline"
    (tmp_path / "specs" / "devices").mkdir(parents=True)
    monkeypatch.setattr("pytest_roofline.specs.folders.__file__", str(package / "specs" / "folders.py"))
    assert specs_folder() == tmp_path / "specs"
    (package / "specs_data" / "devices").mkdir(parents=True)
    assert specs_folder() == package / "specs_data"
    monkeypatch.setattr(
        "pytest_roofline.specs.folders.__file__", str(tmp_path / "else" / "where" / "specs" / "folders.py")
    )
    with pytest.raises(RooflineUsageError, match="installation is incomplete"):
        specs_folder()
