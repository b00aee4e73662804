"""What may be wrong with an accelerator: others on it, clocks, power, heat, memory errors, its driver."""

from __future__ import annotations

from pytest_roofline.conditions import SETTINGS
from pytest_roofline.fitness.facts import Complaint, RunnerFacts
from pytest_roofline.units import format_bytes_per_s, format_fraction

BUSY_SHARE = 0.05
"""From this part of the card's time on, others are in the way of a measurement."""
CAP_SHARE = 0.99
ILL_SHARE = 0.6
"""A card whose probe is under this part of what is printed is not well, or not the card that it is called."""
STEADY_CLOCK_SHARE = 0.85
_CLOCK_STEP_HZ = 15e6
"""Clocks of NVIDIA's cards come in steps of so much."""


def shared_card(facts: RunnerFacts) -> Complaint | None:
    """Other processes compute on it."""
    now, held = facts.conditions, facts.held
    seen = tuple(dict.fromkeys([*now.neighbours, *(held.neighbours if held else ())]))
    use = held.neighbours_share if held is not None and held.neighbours_share is not None else now.neighbours_use
    if facts.is_cpu or facts.device is None or not seen:
        return None
    is_idle = use is not None and use < BUSY_SHARE
    used = "" if use is None else f" and use {format_fraction(use)} of its time"
    return Complaint(
        name="shared-card",
        grade="worth knowing" if is_idle else "blocks judging",
        message=f"other processes are on {facts.device.id}{used}: {'; '.join(seen)}",
        remedy="end them, wait for them, or measure on a card of your own (CUDA_VISIBLE_DEVICES, --roofline-device)",
        figures={"neighbours": list(seen), "use": use},
    )


def throttled_card(facts: RunnerFacts) -> Complaint | None:
    """It holds its own clocks down. A power cap lowers the compute clock alone, and decoding waits for memory."""
    now, held = facts.conditions, facts.held
    reasons = [reason for reason in now.throttle_reasons if reason not in SETTINGS]
    reasons = list(dict.fromkeys([*reasons, *(held.reasons if held else ())]))
    if facts.is_cpu or facts.device is None or not reasons:
        return None
    is_power_alone = all(reason == "power cap" for reason in reasons)
    hot = "" if now.temperature_c is None else f", at {now.temperature_c:.0f} degrees C"
    return Complaint(
        name="throttled",
        grade="widens intervals" if is_power_alone else "blocks judging",
        message=f"{facts.device.id} holds its clocks down: {', '.join(reasons)}{hot}",
        remedy=(
            "raise the power limit, or lock the clock at what it holds under load"
            if is_power_alone
            else "let it cool down; then look at its fans and its power supply (nvidia-smi -q -d PERFORMANCE)"
        ),
        figures={"reasons": reasons, "temperature_c": now.temperature_c},
    )


def unlocked_clocks(facts: RunnerFacts) -> Complaint | None:
    """Nothing says that somebody locked the clocks: they follow heat and load, from run to run."""
    now = facts.conditions
    if not facts.is_nvidia or now.max_clock_hz is None or any(one in SETTINGS for one in now.throttle_reasons):
        return None
    steady_mhz = round(now.max_clock_hz * STEADY_CLOCK_SHARE / _CLOCK_STEP_HZ) * _CLOCK_STEP_HZ / 1e6
    at = "" if now.clock_hz is None else f", at {now.clock_hz / 1e6:,.0f} MHz now"
    return Complaint(
        name="unlocked-clocks",
        grade="worth knowing",
        message=f"the compute clock is not locked: it moves up to {now.max_clock_hz / 1e6:,.0f} MHz with load{at}",
        remedy=(
            f"sudo nvidia-smi -i {facts.card} -lgc {steady_mhz:.0f},{steady_mhz:.0f} (a clock that it holds under "
            "load; -rgc undoes it). Decoding hardly follows this clock, prefill does"
        ),
        figures={"clock_hz": now.clock_hz, "max_clock_hz": now.max_clock_hz},
    )


def power_cap(facts: RunnerFacts) -> Complaint | None:
    """Somebody set its power limit below what it is made for."""
    limit, usual = facts.conditions.power_limit_w, facts.conditions.default_power_limit_w
    if limit is None or usual is None or limit >= CAP_SHARE * usual:
        return None
    command = f"sudo nvidia-smi -i {facts.card} -pl {usual:.0f}" if facts.is_nvidia else "set it back to its default"
    return Complaint(
        name="power-cap",
        grade="widens intervals",
        message=f"the power limit is {limit:.0f} W, {format_fraction(limit / usual)} of the default of {usual:.0f} W",
        remedy=f"{command}, or keep budgets that were made under this cap",
        figures={"power_limit_w": limit, "default_power_limit_w": usual},
    )


def memory_errors(facts: RunnerFacts) -> Complaint | None:
    """Errors that ECC could not correct, or a repair that waits for a reset."""
    errors, is_pending = facts.conditions.uncorrected_errors or 0, bool(facts.conditions.is_repair_pending)
    if not errors and not is_pending:
        return None
    found = [f"{errors} memory errors that ECC could not correct"] if errors else []
    found += ["a repair of its memory that waits for a reset"] if is_pending else []
    return Complaint(
        name="memory-errors",
        grade="blocks judging",
        message=f"the device reports {' and '.join(found)}",
        remedy="reset it while nobody uses it (nvidia-smi -q -d ECC,ROW_REMAPPER says more); replace it if they return",
        figures={"uncorrected_errors": errors, "is_repair_pending": is_pending},
    )


def persistence_off(facts: RunnerFacts) -> Complaint | None:
    """The driver goes away with its last user, and locked clocks with it."""
    if facts.conditions.is_persistent is not False or not facts.is_nvidia:
        return None
    return Complaint(
        name="persistence-off",
        grade="worth knowing",
        message="persistence mode is off: the driver is unloaded with its last process, and forgets locked clocks",
        remedy=f"sudo nvidia-smi -i {facts.card} -pm 1",
    )


def mig_slice(facts: RunnerFacts) -> Complaint | None:
    """A slice has a part of the bandwidth, and shares power and heat with the others."""
    mig = facts.conditions.mig or (facts.device.mig if facts.device is not None else None)
    if mig is None:
        return None
    return Complaint(
        name="mig-slice",
        grade="worth knowing",
        message=f"this is a MIG slice ({mig}): a share of the bandwidth, beside others that share its power and heat",
        remedy="judge it by its own fraction (that is done), and keep the other slices idle while budgets are made",
        figures={"mig": mig},
    )


def silent_driver(facts: RunnerFacts) -> Complaint | None:
    """A card of which nothing is known but what a framework says."""
    if not facts.is_nvidia or facts.device is None or facts.conditions.clock_hz is not None:
        return None
    why = next((note for note in facts.device.notes if note.startswith("NVML")), "NVML tells nothing of it")
    where = "this container has" if facts.is_container else "there are"
    return Complaint(
        name="no-driver-library",
        grade="widens intervals",
        message=f"{where} no clocks, throttling or other users of the card to be read ({why}): none can explain a miss",
        remedy=(
            "start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            if facts.is_container
            else "pip install nvidia-ml-py, and see that nvidia-smi works here"
        ),
    )


def below_sheet(facts: RunnerFacts) -> Complaint | None:
    """The device's own bandwidth is far under what is printed."""
    best, sheet = facts.best_bytes_per_s, facts.sheet_bytes_per_s
    if best is None or sheet is None or best >= ILL_SHARE * sheet:
        return None
    return Complaint(
        name="below-data-sheet",
        grade="widens intervals",
        message=(
            f"the probe reaches {format_bytes_per_s(best)}, {format_fraction(best / sheet)} of the "
            f"{format_bytes_per_s(sheet)} that are printed for it: it is not well, not alone, or another device"
        ),
        remedy="compare with another card of its kind (roofline probe); look at heat, power and memory errors",
        figures={"best_bytes_per_s": best, "sheet_bytes_per_s": sheet},
    )


CARD = (
    shared_card,
    throttled_card,
    memory_errors,
    silent_driver,
    below_sheet,
    power_cap,
    unlocked_clocks,
    persistence_off,
    mig_slice,
)
