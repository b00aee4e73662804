"""The cards that come with the package: names, sizes and rates as vendors print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_roofline.device import Spec
from pytest_roofline.specs import Catalogue, load_devices, match, specs_folder, validate


@pytest.fixture(scope="module")
def cards() -> tuple[Spec, ...]:
    """The package's own cards, read once."""
    return load_devices(sorted((specs_folder() / "devices").glob("*.yaml")), builtin=False)


@pytest.fixture(scope="module")
def by_id(cards: tuple[Spec, ...]) -> dict[str, Spec]:
    """The same cards by id."""
    return {spec.id: spec for spec in cards}


def test_there_are_many_and_each_id_is_there_once(cards: tuple[Spec, ...], by_id: dict[str, Spec]) -> None:
    """At least 65 cards of every vendor, none twice."""
    assert len(cards) == len(by_id) >= 65
    assert {spec.vendor for spec in cards} == {"NVIDIA", "AMD", "Intel", "Apple"}


def test_all_files_validate() -> None:
    """No file of devices that comes with the package has a fault."""
    problems, counts = validate([])
    assert [problem for problem in problems if "/devices/" in problem.replace("\\", "/")] == []
    assert counts["devices"] >= 65


def test_every_number_has_a_source_that_is_a_document(cards: tuple[Spec, ...]) -> None:
    """A vendor's (or a standard's) document, in words; whatever figure is set names one."""
    for spec in cards:
        figures = {
            name
            for name in (
                "memory_bytes",
                "bandwidth_bytes_per_s",
                "last_level_cache_bytes",
                "link_bidirectional_bytes_per_s",
                "host_link_bytes_per_s",
                "compute_units",
            )
            if getattr(spec, name) is not None
        }
        figures |= {f"dense_peak_flops_per_s.{dtype}" for dtype in spec.dense_peak_flops_per_s}
        figures |= {"mig.memory_slices"} if spec.mig_memory_slices else set()
        assert spec.sources.keys() == figures, spec.id
        assert all(len(text) > 5 for text in spec.sources.values())


@pytest.mark.parametrize(
    ("spec_id", "rate", "memory_bytes", "bfloat16"),
    [
        ("h100-sxm", 3.35e12, 80e9, 989.4e12),
        ("h100-nvl", 3.9e12, 94e9, 835.5e12),
        ("h200-sxm", 4.8e12, 141e9, 989.4e12),
        ("h200-nvl", 4.8e12, 141e9, 835.5e12),
        ("gh200-144", 4.9e12, 144e9, 989.4e12),
        ("a100-40-sxm", 1.555e12, 40e9, 312e12),
        ("a100-80-pcie", 1.935e12, 80e9, 312e12),
        ("a100-80-sxm", 2.039e12, 80e9, 312e12),
        ("b200", 8e12, 180e9, 2250e12),
        ("gb10", 273e9, 128e9, 125e12),
        ("l4", 300e9, 24e9, 121e12),
        ("l40s", 864e9, 48e9, 362.05e12),
        ("rtx-3090-ti", 1.008e12, 24e9, 80e12),
        ("rtx-4090", 1.008e12, 24e9, 165.2e12),
        ("rtx-5090", 1.792e12, 32e9, 209.5e12),
        ("rtx-a6000", 768e9, 48e9, 154.8e12),
        ("mi100", 1.2288e12, 32e9, 92.3e12),
        ("mi250x-gcd", 1.6384e12, 64e9, 191.5e12),
        ("mi300x", 5.3248e12, 192e9, 1307.4e12),
        ("mi355x", 8e12, 288e9, 2516.6e12),
        ("gaudi2", 2.45e12, 96e9, 432e12),
        ("jetson-agx-orin-64", 204.8e9, 64e9, 42.5e12),
        ("v100", 900e9, 16e9, None),
        ("t4", 320e9, 16e9, None),
        ("strix-halo", 256e9, 128e9, 59.392e12),
        ("m1-max", 400e9, 64e9, None),
        ("m3-max-40", 400e9, 128e9, None),
        ("m4-max-40", 546e9, 128e9, None),
        ("rx-6900-xt", 512e9, 16e9, None),
        ("arc-b580", 456e9, 12e9, 116.5e12),
    ],
)
def test_figures_that_people_look_up(
    by_id: dict[str, Spec], spec_id: str, rate: float, memory_bytes: float, bfloat16: float | None
) -> None:
    """Rate, size and the dense peak as the documents print them; a card without bfloat16 units has no such peak."""
    spec = by_id[spec_id]
    assert (spec.bandwidth_bytes_per_s, spec.memory_bytes) == (rate, memory_bytes)
    assert spec.dense_peak_flops_per_s.get("bfloat16") == bfloat16


def test_dense_means_dense(by_id: dict[str, Spec]) -> None:
    """Figures that are printed with sparsity (H100 SXM 1,979 and 3,958 TFLOP/s) are nobody's peak."""
    assert by_id["h100-sxm"].dense_peak_flops_per_s["float8"] == 1978.9e12
    assert by_id["gb10"].dense_peak_flops_per_s["float4"] == 500e12
    assert "dense is half" in by_id["gb10"].sources["dense_peak_flops_per_s.float4"]
    for spec in by_id.values():
        peaks = spec.dense_peak_flops_per_s
        if "bfloat16" in peaks and "float8" in peaks:
            assert 1 <= peaks["float8"] / peaks["bfloat16"] <= 4.01, spec.id


# Names whose meaning memory or bus width times clock has to settle: the name alone, then with what settles it.
@pytest.mark.parametrize(
    ("name", "memory_bytes", "rate", "expected"),
    [
        ("NVIDIA GH200 480GB", None, None, None),
        ("NVIDIA GH200 480GB", 102e9, 4.02e12, "gh200-96"),
        ("NVIDIA GH200 480GB", 151e9, 4.9e12, "gh200-144"),
        ("NVIDIA GeForce RTX 3060", None, None, None),
        ("NVIDIA GeForce RTX 3060", 12.6e9, 360e9, "rtx-3060"),
        ("NVIDIA GeForce RTX 3060", 8.5e9, 240e9, "rtx-3060-8"),
        ("NVIDIA GeForce RTX 3080", None, None, None),
        ("NVIDIA GeForce RTX 3080", 10.5e9, None, "rtx-3080"),
        ("NVIDIA GeForce RTX 3080", 12.6e9, None, "rtx-3080-12"),
        ("NVIDIA GeForce RTX 3080", 25.4e9, None, None),
        ("NVIDIA GeForce RTX 4070", 12.6e9, None, None),
        ("NVIDIA GeForce RTX 4070", 12.6e9, 504.05e9, "rtx-4070"),
        ("NVIDIA GeForce RTX 4070", 12.6e9, 480.05e9, "rtx-4070-gddr6"),
        ("NVIDIA GeForce RTX 3060 Ti", 8.5e9, None, None),
        ("NVIDIA GeForce RTX 3060 Ti", 8.5e9, 448e9, "rtx-3060-ti"),
        ("NVIDIA GeForce RTX 3060 Ti", 8.5e9, 608e9, "rtx-3060-ti-gddr6x"),
        ("NVIDIA GeForce GTX 1650", 4.2e9, None, None),
        ("NVIDIA GeForce GTX 1650", 4.2e9, 128.03e9, "gtx-1650-gddr5"),
        ("NVIDIA GeForce GTX 1650", 4.2e9, 192.03e9, "gtx-1650-gddr6"),
        ("NVIDIA GeForce GTX 1650", None, 192.03e9, "gtx-1650-gddr6"),
        ("NVIDIA GeForce GTX 1650 Ti", 4.2e9, 192e9, None),
        ("Tesla V100-SXM2-16GB", 16.9e9, None, "v100"),
        ("Tesla V100-SXM2-16GB", 34e9, None, None),
        ("Orin", None, None, None),
        ("Orin", 65.9e9, None, "jetson-agx-orin-64"),
        ("Orin", 32.9e9, None, "jetson-agx-orin-32"),
        ("Orin", 16.4e9, None, "jetson-orin-nx-16"),
        ("Orin", 8.2e9, None, None),
        ("AMD Instinct MI250X/MI250", 68.7e9, None, "mi250x-gcd"),
        ("AMD Radeon RX 7900 XTX", 25.7e9, None, "rx-7900-xtx"),
        ("Radeon RX 7900 XT", 21.5e9, None, "rx-7900-xt"),
        ("AMD Radeon Graphics", 128e9, 256e9, None),
        ("AMD Radeon 8060S Graphics", 103e9, None, "strix-halo"),
        ("Apple M3 Max", None, None, None),
        ("Apple M3 Max", 38.7e9, None, None),
        ("Apple M3 Max", 137e9, None, "m3-max-40"),
        ("Apple M3 Max", 38.7e9, 307e9, "m3-max-30"),
        ("Apple M4 Max", None, None, None),
        ("Apple M4 Max", 68.7e9, None, "m4-max-40"),
        ("Apple M1 Max", 34.4e9, None, "m1-max"),
        ("Apple M4", 17.2e9, None, "m4"),
    ],
)
def test_names_that_stand_for_several_cards(
    cards: tuple[Spec, ...], name: str, memory_bytes: float | None, rate: float | None, expected: str | None
) -> None:
    """Without what settles it the name means no card, and no namesake ever stands in for another."""
    found = match(name, memory_bytes, rate, cards)
    assert (found.id if found else None) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H20", "h20"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA H20-3e", "h20-3e"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A100", None),
        ("NVIDIA A40", "a40"),
        ("NVIDIA A4000", None),
        ("NVIDIA RTX A4000", "rtx-a4000"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4070 Ti", "rtx-4070-ti"),
        ("NVIDIA GeForce RTX 4070 SUPER", "rtx-4070-super"),
        ("NVIDIA GeForce RTX 4080", "rtx-4080"),
        ("NVIDIA GeForce RTX 4080 SUPER", "rtx-4080-super"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090-d"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb300"),
        ("Quadro RTX 6000", "quadro-rtx-6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-maxq"),
        ("NVIDIA RTX PRO 6000 Blackwell", None),
        ("Apple M1", "m1"),
        ("Apple M1 Pro", "m1-pro"),
        ("AMD Instinct MI300", None),
        ("AMD Instinct MI300A", "mi300a"),
    ],
)
def test_names_that_begin_alike(cards: tuple[Spec, ...], name: str, expected: str | None) -> None:
    """The whole name decides, never how it begins."""
    found = match(name, None, None, cards)
    assert (found.id if found else None) == expected


def test_no_laptop_part_falls_back_to_the_desktop_card(cards: tuple[Spec, ...]) -> None:
    """`Laptop GPU` and `Max-Q` make another name of every card, listed or not."""
    for spec in cards:
        for name in spec.device_names:
            for suffix in (" Laptop GPU", " with Max-Q Design", " Max-Q"):
                found = match(name + suffix, spec.memory_bytes, None, cards)
                assert found is None or found.name.casefold().endswith(suffix.strip().casefold())
    laptop = match("NVIDIA GeForce RTX 4090 Laptop GPU", 17.2e9, 576e9, cards)
    assert laptop is not None
    assert laptop.bandwidth_bytes_per_s == 576e9


def test_every_card_is_found_by_its_own_figures(cards: tuple[Spec, ...]) -> None:
    """Each name with the printed size and rate means the card that claims it, whatever tools do to the spelling."""
    for spec in cards:
        for name in spec.device_names:
            for spelled in (name, name.upper(), name.replace(" ", "_"), name.removeprefix("NVIDIA ")):
                assert match(spelled, spec.memory_bytes, spec.bandwidth_bytes_per_s, cards) is spec


def test_links_are_printed_both_ways_and_the_hosts_one_way(by_id: dict[str, Spec]) -> None:
    """NVLink as printed (900 GB/s), PCIe 5.0 x16 as 63 GB/s; a card without NVLink has no such figure."""
    assert by_id["h100-sxm"].link_bidirectional_bytes_per_s == 900e9
    assert by_id["h100-sxm"].host_link_bytes_per_s == pytest.approx(63e9, rel=1e-3)
    assert by_id["rtx-4090"].link_bidirectional_bytes_per_s is None
    assert by_id["arc-b580"].host_link_bytes_per_s == pytest.approx(15.75e9, rel=1e-3)
    assert by_id["gb10"].host_link_bytes_per_s is None


def test_the_files_lie_in_the_folder_of_devices() -> None:
    """One file per family, each of them with YAML's own suffix."""
    assert all(isinstance(file, Path) and file.suffix == ".yaml" for file in (specs_folder() / "devices").iterdir())


def test_every_name_is_found_without_reading_all_files(
    cards: tuple[Spec, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids, aliases and full names of all cards are seen by the search in the text."""

    def refuse(library: Catalogue, kind: str) -> None:
        raise AssertionError(f"all {kind} were read")

    monkeypatch.setattr(Catalogue, "entries", refuse)
    library = Catalogue()
    claimed = [name for spec in cards for name in spec.device_names]
    for spec in cards:
        # The full name of a card may be what a driver calls two of them.
        names = [spec.name] if claimed.count(spec.name) < 2 else []
        for name in (spec.id, *spec.aliases, *names):
            assert library.device(name) == spec
