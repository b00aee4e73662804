"""Is this the device that it is taken for? Its name, its driver and its probe must tell one story.

A sheet found by name may be another card's: a laptop part under the desktop's name, a chip's name before the
product's, a slice taken for the card. The largest of the three figures counts as the limit, so that nobody is accused
by a sheet that is too low; and the report says so, since a sheet that is too high lets more pass than it should.
"""

from __future__ import annotations

from pytest_roofline.checks.evidence import Evidence, Finding, Identity
from pytest_roofline.units import format_bytes_per_s, format_fraction, format_ratio

AGREEMENT = 1.10
PROBE_SHARE = 0.80
"""The best kernels reach 82 to 94 % of what is printed; under this the printed figure is doubtful."""


def identity_unsure(evidence: Evidence) -> Finding | None:
    """Data sheet, driver and probe disagree by more than a tenth: which counts, and why. Only ever a note."""
    identity = evidence.identity
    if identity is None:
        return None
    reason = disagreement(identity)
    if reason is None:
        return None
    named = [(rate, text) for rate, text in _witnesses(identity) if rate is not None]
    largest, witness = max(named)
    return Finding(
        check="ceiling-unsure",
        severity="note",
        message=f"{reason}; the largest counts as the limit ({witness}, {format_bytes_per_s(largest)})",
        figures={
            "sheet_bytes_per_s": identity.sheet_bytes_per_s,
            "driver_bytes_per_s": identity.driver_bytes_per_s,
            "probe_bytes_per_s": identity.probe_bytes_per_s,
            "largest_bytes_per_s": largest,
        },
        remedy=(
            "check which card this is (roofline doctor, the driver's own tool), and name it in a spec file of yours "
            "(--roofline-specs) where the data sheet found is another card's"
        ),
    )


def disagreement(identity: Identity) -> str | None:
    """What of the three figures does not fit, in words; None when they agree or fewer than two are known."""
    sheet, driver, probe = identity.sheet_bytes_per_s, identity.driver_bytes_per_s, identity.probe_bytes_per_s
    name = identity.sheet_name or "this device"
    if sheet is not None and driver is not None and not 1 / AGREEMENT <= sheet / driver <= AGREEMENT:
        return (
            f"the data sheet of {name} says {format_bytes_per_s(sheet)}, the driver's bus width x memory clock "
            f"{format_bytes_per_s(driver)} ({format_ratio(max(sheet, driver) / min(sheet, driver))} apart)"
        )
    printed = max((rate for rate in (sheet, driver) if rate is not None), default=None)
    if printed is None or probe is None:
        return None
    whose = f"the data sheet of {name}" if printed == sheet else "the driver's bus width x memory clock"
    if probe > printed * AGREEMENT:
        return (
            f"the probe moved {format_bytes_per_s(probe)}, {format_ratio(probe / printed)} what {whose} allows "
            f"({format_bytes_per_s(printed)}): it is another card's"
        )
    if probe < printed * PROBE_SHARE:
        return (
            f"the best probe moved {format_bytes_per_s(probe)}, {format_fraction(probe / printed)} of what {whose} "
            f"says ({format_bytes_per_s(printed)}), where 82 to 94 % is usual"
        )
    return None


def _witnesses(identity: Identity) -> tuple[tuple[float | None, str], ...]:
    return (
        (identity.sheet_bytes_per_s, "the data sheet"),
        (identity.driver_bytes_per_s, "the driver"),
        (identity.probe_bytes_per_s, "the probe"),
    )
