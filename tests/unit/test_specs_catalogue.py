"""The catalogue: one entry by what people call it, all of them, and what is wrong with any."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs import Catalogue, load_devices, validate
from pytest_roofline.specs import document as document_module

HEAD = """\
schema: 1
sources:
  sheet: "Maker's data sheet"
devices:
"""
ENTRY = """\
  - id: {id}
    name: {name}
    vendor: Maker
    device_names: ["{driver}"]
    aliases: [{alias}]
    memory_bytes: {{value: 24_000_000_000, source: sheet}}
    bandwidth_bytes_per_s: {{value: 300_000_000_000, source: sheet}}
    mig: {{memory_slices: {{value: 8, source: sheet}}}}
    dense_peak_flops_per_s:
      bfloat16: {{value: 1.4e+14, source: sheet}}
"""


def entry(entry_id: str, name: str = "", driver: str = "", alias: str = "") -> str:
    """One card of that id and those names."""
    return ENTRY.format(
        id=entry_id, name=name or f"Card {entry_id}", driver=driver or f"Driver {entry_id}", alias=alias
    )


def own(tmp_path: Path, text: str, name: str = "cards.yaml") -> Catalogue:
    """A catalogue of one file of that text."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    return Catalogue([tmp_path], builtin=False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100-sxm", "h100-sxm"),
        ("H100_SXM", "h100-sxm"),
        ("h100 sxm", "h100-sxm"),
        ("NVIDIA H100 SXM 80 GB", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("dgx spark", "gb10"),
        ("DGX-Spark", "gb10"),
        ("mi300x", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Apple M4 Pro", "m4-pro"),
        ("A100 80GB PCIe", "a100-80-pcie"),
        ("a100-sxm-80gb", "a100-80-sxm"),
        ("  l4 ", "l4"),
    ],
)
def test_a_card_by_what_people_call_it(name: str, expected: str) -> None:
    """Id, alias, full name and driver's name, whatever the case, spaces, hyphens and underscores."""
    assert Catalogue().device(name).id == expected


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("h100", ["h100-sxm (80.0 GB, 3.35 TB/s)", "h100-pcie (80.0 GB, 2.04 TB/s)", "h100-nvl (94.0 GB, 3.90 TB/s)"]),
        ("A100 80GB", ["a100-80-sxm (80.0 GB, 2.04 TB/s)", "a100-80-pcie (80.0 GB, 1.94 TB/s)"]),
        ("Apple M3 Max", ["m3-max-30 (96.0 GB, 300 GB/s)", "m3-max-40 (128 GB, 400 GB/s)"]),
        ("GTX 1650", ["gtx-1650-gddr5 (4.00 GB, 128 GB/s)", "gtx-1650-gddr6 (4.00 GB, 192 GB/s)"]),
        ("4060 ti", ["rtx-4060-ti-16 (16.0 GB, 288 GB/s)", "rtx-4060-ti-8 (8.00 GB, 288 GB/s)"]),
        ("MI300", ["mi300a (128 GB, 5.32 TB/s)", "mi300x (192 GB, 5.32 TB/s)"]),
        ("r", ["and ", " more; give one of these ids"]),
    ],
)
def test_a_name_that_means_several_cards_names_them(name: str, candidates: list[str]) -> None:
    """It is never the first of them: the error tells them apart by memory and rate."""
    with pytest.raises(RooflineUsageError, match=f"{name!r} means several devices: ") as caught:
        Catalogue().device(name)
    assert all(candidate in str(caught.value) for candidate in candidates)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("H100 SMX", "h100-sxm"), ("rtx 4091", "rtx-4090"), ("mi300z", "mi300x"), ("strix hallo", "strix-halo")],
)
def test_an_unknown_name_gets_the_nearest_ones(name: str, nearest: str) -> None:
    """And the command that lists all."""
    with pytest.raises(RooflineUsageError, match=r"no device is called .*; nearest: ") as caught:
        Catalogue().device(name)
    assert nearest in str(caught.value)
    assert "`roofline specs list`" in str(caught.value)


@pytest.mark.parametrize("name", ["", " ", "-", "MIG 1g.10gb", "?" * 10_000, "\x00", "zzzz"])
def test_a_name_that_is_none_is_a_short_error(name: str) -> None:
    """Whatever is typed, the answer fits a screen."""
    with pytest.raises(RooflineUsageError, match="no device is called") as caught:
        Catalogue().device(name)
    assert len(str(caught.value)) < 400


def test_one_look_up_parses_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other cards' text is searched, not parsed: that is most of a look-up's time."""
    parsed: list[int] = []
    original = document_module._parse

    def count(file: Path, text: str) -> object:
        made = original(file, text)
        parsed.extend([len(made["devices"])])
        return made

    monkeypatch.setattr(document_module, "_parse", count)
    assert Catalogue().device("rtx-5090").id == "rtx-5090"
    assert parsed == [1]


def test_an_excerpt_reads_as_the_whole_file_does() -> None:
    """Every card is the same, found alone or among all."""
    library = Catalogue()
    for spec in load_devices():
        assert library.device(spec.id) == spec


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 1, "sources": {"sheet": "Sheet"}, "devices": [{"id": "one", "name": "One", "vendor": "Maker", '
        '"device_names": ["One"], "memory_bytes": {"value": 1000000000, "source": "sheet"}, '
        '"bandwidth_bytes_per_s": {"value": 1000000000, "source": "sheet"}}]}',
        HEAD + entry("spelled").replace("id: spelled", 'id: "\\x6fne"'),
        HEAD + entry("one").replace("  - id", "  -\n    id"),
        HEAD + entry("two") + "# a comment\n\n" + entry("one").rstrip(),
        "devices:\n" + entry("one") + HEAD.replace("devices:\n", ""),
        "\ufeff" + HEAD + entry("one"),
        (HEAD + entry("two") + entry("one")).replace("\n", "\r\n"),
        HEAD + entry("two").replace("name: Card two", 'name: "a\n  - id: one\n    b"') + entry("one"),
    ],
    ids=["json", "escaped", "dash alone", "comments", "lists first", "mark", "dos", "text like an entry"],
)
def test_any_style_of_yaml_is_read(tmp_path: Path, text: str) -> None:
    """What is not written as blocks is found too, only slower."""
    assert own(tmp_path, text).device("one").id == "one"


def test_a_fault_in_the_entry_names_its_file_and_key(tmp_path: Path) -> None:
    """The one entry is as strict as the whole file, and its line is the file's."""
    library = own(tmp_path, HEAD + entry("one") + entry("two").replace("24_000_000_000", '"24"'))
    assert library.device("one").id == "one"
    with pytest.raises(
        RooflineUsageError, match=r"cards\.yaml: devices\.two\.memory_bytes\.value: a number in a string"
    ):
        library.device("two")
    broken = own(tmp_path, HEAD + entry("one") + entry("two").replace("vendor: Maker", "vendor: [}"))
    with pytest.raises(RooflineUsageError, match=r"(?s)cards\.yaml: is not valid YAML: .*line 17"):
        broken.device("two")


def test_ids_come_before_aliases_and_aliases_before_names(tmp_path: Path) -> None:
    """A name that is one card's id is never ambiguous for being another's driver name."""
    library = own(
        tmp_path, HEAD + entry("one", driver="Two") + entry("two") + entry("three", alias="tres", driver="four")
    )
    assert library.device("two").id == "two"
    assert library.device("tres").id == "three"
    assert library.device("FOUR").id == "three"


def test_an_id_that_two_files_claim_is_ambiguous(tmp_path: Path) -> None:
    """A user's file does not override: it says so."""
    own(tmp_path, HEAD + entry("l4"), "mine.yaml")
    with pytest.raises(RooflineUsageError, match="'l4' means several devices"):
        Catalogue([tmp_path]).device("l4")
    with pytest.raises(RooflineUsageError, match="this id is taken"):
        Catalogue([tmp_path]).devices()


def test_an_alias_that_is_anothers_id_is_ambiguous(tmp_path: Path) -> None:
    """Neither the user's card nor the package's is chosen in silence, whichever has it for an id."""
    own(tmp_path, HEAD + entry("mine", alias="h100-sxm") + entry("h200-sxm5"), "mine.yaml")
    with pytest.raises(RooflineUsageError, match=r"'h100-sxm' means several devices: h100-sxm .*; mine "):
        Catalogue([tmp_path]).device("h100-sxm")


def test_an_id_written_out_is_one_card(tmp_path: Path) -> None:
    """The short name of a driver that two cards share is refused like the long one, and each id is taken."""
    library = Catalogue()
    assert (library.device("rtx-4070").id, library.device("RTX-4070").id) == ("rtx-4070", "rtx-4070")
    assert library.device("arc-a770").id == "arc-a770"
    for name in ("RTX 4070", "GeForce RTX 4070", "nvidia geforce rtx 4070", "Arc A770", "RTX 3080"):
        with pytest.raises(RooflineUsageError, match="means several devices"):
            library.device(name)


def test_an_empty_path_of_specs_is_an_error() -> None:
    """It is not the folder that one happens to stand in."""
    with pytest.raises(RooflineUsageError, match="an empty path of specs"):
        Catalogue([""])


def test_a_users_folder_is_searched_too(tmp_path: Path) -> None:
    """Beside the package's own cards, from a file, a folder or its subfolder `devices`."""
    (tmp_path / "devices").mkdir()
    own(tmp_path / "devices", HEAD + entry("mine", alias="my card"))
    for path in (tmp_path, tmp_path / "devices", tmp_path / "devices" / "cards.yaml"):
        library = Catalogue([str(path)])
        assert library.device("My Card").id == "mine"
        assert library.device("l4").id == "l4"
        assert library.ids("devices")[-1] == "mine"


def test_raw_entries_of_another_kind(tmp_path: Path) -> None:
    """Models and formats are found the same way; their meaning is somebody else's."""
    library = own(
        tmp_path,
        'schema: 1\nsources: {s: Sheet}\nmodels:\n- id: llama\n  aliases: ["Llama 3"]\n- id: qwen\n'
        "formats:\n  - id: q4\n    bits: {value: 4.5, source: s}\n",
    )
    reader, found = library.raw("models", "llama-3")
    assert (found["id"], reader.sources) == ("llama", {"s": "Sheet"})
    assert library.ids("models") == ["llama", "qwen"]
    assert library.rows("formats") == [{"id": "q4", "name": "q4"}]
    assert library.describe("formats", "Q4")["figures"] == {"bits": {"value": 4.5, "source": "Sheet"}}
    with pytest.raises(RooflineUsageError, match="no model is called 'lama'; nearest: llama"):
        library.raw("models", "lama")
    with pytest.raises(RooflineUsageError, match="'planes' is no kind of spec; there are devices, models, formats"):
        library.raw("planes", "one")


def test_all_that_is_known_of_a_card() -> None:
    """Every number with its source, in builtin types."""
    described = Catalogue().describe("devices", "h100 sxm")
    assert json.loads(json.dumps(described)) == described
    assert described["id"] == "h100-sxm"
    assert described["figures"]["bandwidth_bytes_per_s"] == {
        "value": 3_350_000_000_000,
        "source": "NVIDIA H100 Tensor Core GPU data sheet",
    }
    assert described["figures"]["dense_peak_flops_per_s.bfloat16"]["value"] == 989_400_000_000_000
    assert described["figures"]["mig.memory_slices"]["value"] == 8


def test_all_that_is_known_of_a_slice() -> None:
    """A slice's figures are its own."""
    described = Catalogue().describe("devices", "h100-sxm MIG 1g.10gb")
    assert described["name"] == "NVIDIA H100 SXM 80 GB, MIG 1g.10gb"
    assert described["figures"]["bandwidth_bytes_per_s"]["value"] == 418.75e9
    assert "1 of 8 memory slices" in described["figures"]["bandwidth_bytes_per_s"]["source"]


def test_the_rows_of_a_list(tmp_path: Path) -> None:
    """Id, name, memory, rate and its source."""
    assert own(tmp_path, HEAD + entry("one")).rows("devices") == [
        {
            "id": "one",
            "name": "Card one",
            "memory_bytes": 24e9,
            "bandwidth_bytes_per_s": 300e9,
            "source": "Maker's data sheet",
        }
    ]


def test_a_check_tells_every_fault_and_counts_the_rest(tmp_path: Path) -> None:
    """Not only the first one, and a file that cannot be read hides no other."""
    own(tmp_path, HEAD + entry("one") + entry("two").replace("vendor", "colour") + entry("three", driver="Driver one"))
    own(tmp_path, "not a spec", "words.yaml")
    own(tmp_path, "schema: 1\nsources: {s: Sheet}\nmodels:\n- id: one\n- id: One\n- aliases: [x]\n- 7\n", "m.yaml")
    own(tmp_path, "schema: 1\nsources: {s: Sheet}\nformats:\n- id: q\n  bits: {value: -1, source: s}\n", "f.yaml")
    problems, counts = Catalogue([tmp_path], builtin=False).check()
    assert counts == {"devices": 1, "models": 0, "formats": 0}
    text = "\n".join(problems)
    for words in (
        "devices.two.colour: unknown key",
        "'driver one' is claimed by 'one' too",
        "words.yaml: file: a mapping is needed here",
        "models[3]: a mapping is needed here",
        "bits.value: -1 is not a positive",
    ):
        assert words in text
    assert len(problems) == len(set(problems))


def test_names_are_taken_once_in_every_kind(tmp_path: Path) -> None:
    """Two models under one alias are a fault, and so is an entry without an id."""
    library = own(
        tmp_path, 'schema: 1\nsources: {s: S}\nmodels:\n- id: one\n- id: two\n  aliases: ["One"]\n- aliases: []\n'
    )
    problems, counts = library.check()
    assert counts["models"] == 1
    assert [problem.split("cards.yaml: ")[1].split(" (")[0] for problem in problems] == [
        "models.two: the name 'One' is taken, by 'one'",
        "models.id: a text is needed here, not nothing",
    ]


def test_a_check_reads_entries_as_it_is_told(tmp_path: Path) -> None:
    """The reader of a kind says what is wrong with its entries."""

    def read(reader: object, value: object, position: int) -> object:
        raise RooflineUsageError(f"entry {position} is wrong")

    own(tmp_path, "schema: 1\nsources: {s: S}\nmodels:\n- id: one\n- id: two\n")
    problems, _ = Catalogue([tmp_path], builtin=False).check({"models": read})
    assert problems == ["entry 0 is wrong", "entry 1 is wrong"]


def test_validate_adds_files_to_the_packages_own(tmp_path: Path) -> None:
    """A file that claims a known card is a fault only beside the package's own."""
    own(tmp_path, HEAD + entry("l4", driver="NVIDIA L4"))
    problems, counts = validate([tmp_path])
    assert any("devices.l4: this id is taken" in problem for problem in problems)
    assert counts["devices"] == len(load_devices())
    assert validate([tmp_path / "nowhere"])[0][0].endswith("nowhere: no such spec file or folder")


# -- packages that announce themselves ------------------------------------------------------------------------------


def announce(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    """Pretend that installed packages announce these."""
    points = [EntryPoint(name=f"p{at}", value=value, group="pytest_roofline.specs") for at, value in enumerate(values)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **asked: points if asked else None)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package on the path, holding one card."""
    folder = tmp_path / "cards_of_maker"
    (folder / "devices").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemError('nobody needs to run this')", encoding="utf-8")
    own(folder / "devices", HEAD + entry("announced"))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return folder.name


def test_an_announced_package_adds_its_cards(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Its folder is read; it is not run."""
    announce(monkeypatch, package)
    assert Catalogue().device("announced").id == "announced"
    assert "announced" in {spec.id for spec in load_devices()}
    assert "announced" in Catalogue().ids("devices")
    assert package not in sys.modules
    with pytest.raises(RooflineUsageError, match="no device is called 'announced'"):
        Catalogue(builtin=False).device("announced")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_package_here", "which is not installed"),
        ("no_such_package_here.inner", "which cannot be found: ModuleNotFoundError"),
        ("json.decoder", "which has no folder on the disk"),
        ("..", "which cannot be found"),
        ("", "which cannot be found"),
    ],
)
def test_a_broken_announcement_is_named(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    """The entry point and its package stand in the error."""
    announce(monkeypatch, value)
    with pytest.raises(
        RooflineUsageError, match=r"entry point 'p0' of pytest_roofline\.specs names the package"
    ) as caught:
        Catalogue().devices()
    assert words in str(caught.value)
    assert repr(value) in str(caught.value)


def test_who_finds_a_card_in_the_package_never_looks_at_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of an environment costs 60 ms, and a broken announcement would cost the answer."""
    announce(monkeypatch, "no_such_package_here")
    assert Catalogue().device("l4").id == "l4"
