"""Name, driver and probe: where they disagree the largest counts, and a note says so."""

from __future__ import annotations

from typing import Any

import pytest
from court import loop

from pytest_roofline.bench import Bench
from pytest_roofline.checks.evidence import Identity, Limit
from pytest_roofline.checks.identity import identity_unsure
from pytest_roofline.device import Device, Spec
from pytest_roofline.probe import Probe
from pytest_roofline.session import Session
from pytest_roofline.verdict import judge

TB = 1e12


def spec(name: str, bytes_per_s: float) -> Spec:
    """A data sheet."""
    return Spec(name=name, memory_bytes=80e9, bandwidth_bytes_per_s=bytes_per_s, source="data sheet")


class Probed(Session):
    """A session in which every device was probed at this rate."""

    def __init__(self, best_bytes_per_s: float) -> None:
        super().__init__()
        self._best = best_bytes_per_s

    def probe(self, device: Device) -> Probe:
        """What would have been measured."""
        return Probe(
            device=device,
            read_bytes_per_s=self._best,
            copy_bytes_per_s=0.9 * self._best,
            write_bytes_per_s=0.9 * self._best,
            triad_bytes_per_s=0.9 * self._best,
            cache_knee_bytes=50e6,
            cache_bytes_per_s=2 * self._best,
            best_bytes_per_s=self._best,
            sweep=(),
            kernels={},
            threads=None,
            elapsed_s=1.0,
            is_trusted=True,
        )


def card(**figures: Any) -> Device:
    """A GPU."""
    return Device(**{"name": "card", "kind": "cuda", "backend": "torch", **figures})


def bench(device: Device, best_bytes_per_s: float) -> tuple[Identity | None, Limit]:
    """What the bench says of a device that was probed at this rate, and the session's limit."""
    session = Probed(best_bytes_per_s)
    limit = session.limit(device)
    made = Bench(
        device=device,
        backend=None,  # type: ignore[arg-type]
        backends=(),
        probe=session.probe(device),
        limit=limit,
    )
    return made.identity, limit


def test_an_h200_taken_for_an_h100_is_not_accused() -> None:
    """Its probe alone exceeds the sheet: then that is the limit, and the report says whose sheet it was."""
    identity, limit = bench(card(spec=spec("H100 SXM", 3.35 * TB)), 4.5 * TB)
    assert limit.bytes_per_s == 4.5 * TB
    assert limit.is_measured
    found = identity_unsure(loop(identity=identity))
    assert found is not None
    assert found.severity == "note"
    assert found.message == (
        "the probe moved 4.50 TB/s, 1.3x what the data sheet of H100 SXM allows (3.35 TB/s): it is another card's; "
        "the largest counts as the limit (the probe, 4.50 TB/s)"
    )
    assert "--roofline-specs" in found.remedy


def test_an_h200_whose_driver_knows_better_keeps_the_drivers_figure() -> None:
    """The sheet that the driver contradicts gives no figure, and is named."""
    device = card(contradicted_spec=spec("H100 SXM", 3.35 * TB), driver_bandwidth_bytes_per_s=4.917 * TB)
    identity, limit = bench(device, 4.5 * TB)
    assert limit.bytes_per_s == 4.917 * TB
    found = identity_unsure(loop(identity=identity))
    assert found is not None
    assert found.message == (
        "the data sheet of H100 SXM says 3.35 TB/s, the driver's bus width x memory clock 4.92 TB/s (1.5x apart); "
        "the largest counts as the limit (the driver, 4.92 TB/s)"
    )


def test_a_laptop_part_under_the_desktops_name_gets_the_larger_limit() -> None:
    """Half the bus of the desktop's sheet: nobody is accused by the smaller figure, and the note tells of both."""
    device = card(spec=spec("RTX 5090", 1.792 * TB), driver_bandwidth_bytes_per_s=0.896 * TB)
    identity, limit = bench(device, 0.82 * TB)
    assert limit.bytes_per_s == 1.792 * TB
    assert limit.slack == 1.05
    found = identity_unsure(loop(identity=identity))
    assert found is not None
    assert "(2x apart)" in found.message
    assert "the largest counts as the limit (the data sheet, 1.79 TB/s)" in found.message


def test_a_laptop_part_without_a_driver_is_seen_by_its_probe() -> None:
    """46 % of the sheet is no probe of that card."""
    identity, limit = bench(card(spec=spec("RTX 5090", 1.792 * TB)), 0.82 * TB)
    assert limit.bytes_per_s == 1.792 * TB
    found = identity_unsure(loop(identity=identity))
    assert found is not None
    assert found.message.startswith(
        "the best probe moved 820 GB/s, 46 % of what the data sheet of RTX 5090 says (1.79 TB/s), where 82 to 94 % is"
    )


def test_the_drivers_figure_is_found_where_the_backend_dropped_it() -> None:
    """Bus width and clock are still there."""
    device = card(spec=spec("RTX 5090", 1.792 * TB), bus_width_bits=256, memory_clock_hz=14e9)
    identity, _ = bench(device, 0.82 * TB)
    assert identity is not None
    assert identity.driver_bytes_per_s == pytest.approx(0.896 * TB)


@pytest.mark.parametrize(
    ("device", "best"),
    [
        (card(spec=spec("H200", 4.8 * TB), driver_bandwidth_bytes_per_s=4.917 * TB), 4.5 * TB),
        (card(spec=spec("RTX 3090", 0.936 * TB)), 0.86 * TB),
        (card(spec=spec("L4", 0.3 * TB), driver_bandwidth_bytes_per_s=0.3 * TB), 0.26 * TB),
        # A slice whose sheet and driver's figure were cut to its share.
        (
            card(
                spec=spec("A100 80 GB, MIG 1g.10gb", 2.039 * TB / 8),
                driver_bandwidth_bytes_per_s=2.039 * TB / 8,
                mig="1g.10gb",
                bus_width_bits=5120,
                memory_clock_hz=1.593e9,
            ),
            0.22 * TB,
        ),
        (card(name="a card that nobody knows"), 1 * TB),
        (card(kind="cpu", spec=spec("a chip whose cores reach half its memory", 0.546 * TB)), 0.2 * TB),
        # Overclocked: the sheet is of another clock.
        (
            card(spec=spec("RTX 4090", 1.008 * TB), driver_bandwidth_bytes_per_s=1.2 * TB, is_overclocked=True),
            1.1 * TB,
        ),
    ],
    ids=["h200", "3090", "l4", "mig", "unknown", "cpu", "overclocked"],
)
def test_a_device_that_is_what_it_seems_gets_no_word(device: Device, best: float) -> None:
    """Within a tenth, a slice of its share, a card without a sheet, a processor, an overclocked one."""
    identity, _ = bench(device, best)
    assert identity_unsure(loop(identity=identity)) is None


def test_a_whole_cards_sheet_on_a_slice_is_seen() -> None:
    """An eighth of the bandwidth that the parent's sheet gives."""
    identity, _ = bench(card(spec=spec("A100 80 GB", 2.039 * TB), mig="1g.10gb"), 0.22 * TB)
    found = identity_unsure(loop(identity=identity))
    assert found is not None
    assert "11 % of what the data sheet of A100 80 GB says" in found.message


def test_no_disagreement_decides_a_verdict() -> None:
    """Only ever a note."""
    wrong = Identity(
        sheet_bytes_per_s=3.35 * TB, sheet_name="H100", driver_bytes_per_s=1 * TB, probe_bytes_per_s=9 * TB
    )
    assert judge(loop(identity=wrong, at_least=0.6), 0.8).outcome == "passed"
