"""The state of a device around a measurement, and what two readings of it tell of the stretch between them.

Pure records: backends fill them in. A field that a system does not tell is None or empty, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """One reading; None means not known. `COUNTERS` run since the start of the machine, the driver or the cgroup: two
    readings give what was between them.
    """

    clock_hz: float | None = None
    max_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Why the clocks are held down now, in words."""
    held_s: tuple[tuple[str, float], ...] = ()
    """Seconds that the device was held down so far, by reason: the counters of a driver, or of a cgroup's quota."""
    neighbours: tuple[str, ...] = ()
    """Other processes on this device, as text."""
    neighbours_use: float | None = None
    """Part of the device's time that others use now, 0 to 1, by its driver; of a processor see `machine_busy_s`."""
    has_ecc: bool | None = None
    uncorrected_errors: int | None = None
    """Memory errors since the driver was loaded that ECC could not correct."""
    is_repair_pending: bool | None = None
    """Whether pages or rows wait to be retired or remapped, which the next reset does."""
    is_persistent: bool | None = None
    """Whether the driver stays loaded while nobody uses the device."""
    mig: str | None = None
    load_average: float | None = None
    threads: int | None = None
    usable_cores: int | None = None
    """Logical processors of this process's affinity."""
    quota_cores: float | None = None
    """Processors' worth of time that the tightest cgroup allows; None without a quota."""
    governor: str | None = None
    """Of the kernel's frequency scaling; several, where processors differ, are joined by commas."""
    memory_limit_bytes: float | None = None
    """Of the tightest cgroup; None without a limit."""
    swap_used_bytes: float | None = None
    """Of the machine: pages on a disk, of whomever."""
    pressure_share: float | None = None
    """Part of the last ten seconds in which some task waited for a processor (pressure stall information), 0 to 1."""
    machine_busy_s: float | None = None
    """Processor seconds that anybody used since the machine started, on the cores that this process may use."""
    process_busy_s: float | None = None
    """Processor seconds that this process used, and those that it started."""
    steal_s: float | None = None
    """Processor seconds, part of `machine_busy_s`, that the hypervisor gave to other guests."""

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only; counters are left out, for only their differences mean something."""
        record: dict[str, Any] = {}
        for one in fields(self):
            if one.name not in COUNTERS:
                value = getattr(self, one.name)
                record[one.name] = list(value) if isinstance(value, tuple) else value
        return record


COUNTERS = ("held_s", "machine_busy_s", "process_busy_s", "steal_s")
"""Fields that only grow."""

SETTINGS = ("application clocks setting", "sync boost")
"""Reasons for low clocks that hold for the probe as well, because somebody set them: no throttling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Conditions at a moment of the backend's clock."""

    at_s: float
    conditions: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What readings at both ends of a stretch, and inside of it, tell of it. None is not known."""

    reasons: tuple[str, ...] = ()
    """Why the device was held down, at any moment of the stretch that was seen or by its counters."""
    compute_share: float | None = None
    """The lowest clock of the compute units that was seen with a reason, of their highest."""
    memory_share: float | None = None
    """The same of the memory's clock."""
    held_share: float | None = None
    """Part of the cores' time in which a quota kept this process from running, 0 to 1."""
    neighbours_share: float | None = None
    """Part of the device's time that others used, 0 to 1: of a processor, of this process's cores."""
    steal_share: float | None = None
    """The part of it that the hypervisor took."""
    neighbours: tuple[str, ...] = ()

    @property
    def is_throttled(self) -> bool:
        """Whether the device admits that it was held down."""
        return bool(self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only."""
        return {
            "throttled": list(self.reasons),
            "compute_clock_share": self.compute_share,
            "memory_clock_share": self.memory_share,
            "held_share": self.held_share,
            "neighbours_share": self.neighbours_share,
            "steal_share": self.steal_share,
            "neighbours": list(self.neighbours),
        }


WORTH_A_WORD = 0.01
"""Counters tick now and then on a device that is well: under this part of the time they are not mentioned."""
QUOTA = "processor quota of the cgroup"
"""The reason under which the time that a cgroup's quota held the process back is counted."""


def stretch_of(
    before: Conditions,
    after: Conditions,
    between: Sequence[Conditions] = (),
    *,
    elapsed_s: float,
    cores: int | None = None,
    memory_clock_hz: float | None = None,
) -> Stretch:
    """What is known of the stretch between two readings, `elapsed_s` apart.

    Clocks count only where a reading gives a reason for them: an idle device lowers them too. `memory_clock_hz` is the
    highest clock of the memory, where the readings do not have it. A reading that failed (all None) costs its part.
    """
    reasons: list[str] = []
    compute: list[float] = []
    memory: list[float] = []
    seen: list[str] = []
    for one in (before, *between, after):
        seen += one.neighbours
        held = [reason for reason in one.throttle_reasons if reason not in SETTINGS]
        if not held:
            continue
        reasons += held
        if one.clock_hz and one.max_clock_hz:
            compute.append(one.clock_hz / one.max_clock_hz)
        top = memory_clock_hz or one.max_memory_clock_hz
        if one.memory_clock_hz and top:
            memory.append(one.memory_clock_hz / top)
    counted = _held_between(before, after, WORTH_A_WORD * elapsed_s)
    return Stretch(
        reasons=tuple(dict.fromkeys([*reasons, *counted])),
        compute_share=min(compute, default=None),
        memory_share=min(memory, default=None),
        held_share=_share(counted.get(QUOTA), elapsed_s * (cores or 1)),
        neighbours_share=_neighbours_share((before, *between, after), elapsed_s, cores),
        steal_share=_share(_grown(before.steal_s, after.steal_s), elapsed_s * (cores or 0)),
        neighbours=tuple(dict.fromkeys(seen)),
    )


def _neighbours_share(readings: Sequence[Conditions], elapsed_s: float, cores: int | None) -> float | None:
    """Part of the device's time that others used, 0 to 1: by its driver, the mean of the readings; of a processor by
    what the kernel counted. None where nobody says.
    """
    uses = [one.neighbours_use for one in readings if one.neighbours_use is not None]
    if uses:
        return min(1.0, max(0.0, sum(uses) / len(uses)))
    before, after = readings[0], readings[-1]
    machine_s = _grown(before.machine_busy_s, after.machine_busy_s)
    own_s = _grown(before.process_busy_s, after.process_busy_s)
    if machine_s is None or own_s is None or not cores:
        return None
    return _share(machine_s - own_s, elapsed_s * cores)


def _held_between(before: Conditions, after: Conditions, least_s: float) -> dict[str, float]:
    """Seconds held down in between, by reason; a counter that was not there before, or ran backwards, says nothing."""
    earlier = dict(before.held_s)
    grown = {reason: _grown(earlier.get(reason), seconds) for reason, seconds in after.held_s if reason not in SETTINGS}
    return {reason: seconds for reason, seconds in grown.items() if seconds is not None and seconds > least_s}


def _grown(before: float | None, after: float | None) -> float | None:
    if before is None or after is None or after < before:
        return None
    return after - before


def _share(seconds: float | None, elapsed_s: float) -> float | None:
    if seconds is None or elapsed_s <= 0:
        return None
    return min(1.0, max(0.0, seconds / elapsed_s))
