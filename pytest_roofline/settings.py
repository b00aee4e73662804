"""What a measurement may be told, in one frozen record: options, ini, environment and marker all end here."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal

from pytest_roofline.checks.evidence import CHECK_NAMES
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.stopping import DEFAULT as DEFAULT_STOPPING

Mode = Literal["auto", "off", "require"]
Policy = Literal["skip", "fail", "pass"]
MAX_TIME_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The entry of a budget that speaks for one device: its figure, None where it exempts the device, and its place."""

    pattern: str
    figure: float | None
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A fraction of the ceiling, for every device or by device pattern: ``{"H200*": 0.7, "cpu": 0.3}``.

    A figure that is None asks for nothing on the devices of its pattern.
    """

    by_pattern: tuple[tuple[str, float | None], ...] = ()
    places: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Where each entry was given, in their order."""
    tiers: tuple[int, ...] = field(default=(), repr=False, compare=False)
    """Of entries that were written for several groups of tests: which go first; all are equal where it is empty."""

    def bar_for(self, device: Device) -> Bar | None:
        """The entry for this device; None when no pattern fits.

        The lowest tier wins, in it the whole name of the device, then the longest pattern. On a CPU an entry for every
        device speaks only where none names the CPU. With tiers, two that tie are a RooflineUsageError.
        """
        tiers = self.tiers or (0,) * len(self.by_pattern)
        fits = [at for at, (pattern, _) in enumerate(self.by_pattern) if matches(pattern, device)]
        if device.is_cpu:
            fits = [at for at in fits if self.by_pattern[at][0] != "*"] or fits
        if not fits:
            return None

        def rank(at: int) -> tuple[int, bool, int]:
            pattern = self.by_pattern[at][0]
            return tiers[at], pattern.lower() not in names_of(device), -len(pattern)

        first = min(fits, key=rank)
        tied = [at for at in fits if self.tiers and at != first and rank(at) == rank(first)]
        if tied:
            raise RooflineUsageError(
                f"{self._place(first)}: ties with {self._place(tied[0])}: on {device.name!r} neither is more specific "
                "than the other; make one pattern longer, or give the test an entry of its own"
            )
        return Bar(pattern=self.by_pattern[first][0], figure=self.by_pattern[first][1], place=self._place(first))

    def for_device(self, device: Device) -> float | None:
        """The figure for this device, as `bar_for` finds it; None where nothing is asked."""
        bar = self.bar_for(device)
        return bar.figure if bar is not None else None

    def place_of(self, figure: float | None, device: Device) -> str | None:
        """Where this figure was given, judged or not (None); None where it is not this budget's."""
        bar = self.bar_for(device)
        return bar.place if bar is not None and figure in (bar.figure, None) else None

    def judges(self, device: Device) -> bool:
        """Whether the figure may be judged here: a CPU is judged only where an entry names it.

        A plain ``at_least=0.6`` was written with an accelerator in mind; on a runner without one it is reported.
        """
        if not device.is_cpu:
            return True
        bar = self.bar_for(device)
        return bar is not None and bar.pattern != "*"

    def _place(self, at: int) -> str:
        return self.places[at] if at < len(self.places) else ""


def names_of(device: Device) -> frozenset[str]:
    """The device's name with and without its vendor, in small letters."""
    name = device.name.lower()
    if device.vendor and name.startswith(device.vendor.lower()):
        return frozenset({name, name[len(device.vendor) :].strip()})
    return frozenset({name})


def matches(pattern: str, device: Device) -> bool:
    """Whether a device pattern fits: its id, its kind, its name, or its name without the vendor; case is ignored.

    A name with brackets is met by itself, too, although a pattern reads them as a choice of characters.
    """
    pattern = pattern.lower()
    names = {device.id, device.kind, *names_of(device)}
    return pattern in names or any(fnmatchcase(candidate, pattern) for candidate in names)


def parse_budget(value: object, where: str) -> Budget | None:
    """Read `at_least` or `at_most`: a number, a mapping from device pattern to number, or None.

    `where` names the place for the error text. Fractions are between 0 and 1 (1.0 is 100 % of the ceiling); an
    `at_least` above 1 could never pass, so it is refused.
    """
    if value is None:
        return None
    items = value.items() if isinstance(value, Mapping) else [("*", value)]
    pairs = []
    for pattern, figure in items:
        if isinstance(figure, bool) or not isinstance(figure, (int, float)) or not 0 < figure <= 1:
            raise RooflineUsageError(
                f"{where}: {figure!r} is no fraction of the ceiling; it must be a number above 0 and up to 1 "
                "(0.6 is 60 %), or a mapping from device pattern to such numbers"
            )
        if not isinstance(pattern, str) or not pattern:
            raise RooflineUsageError(f"{where}: {pattern!r} is no device pattern; examples: 'H200*', 'cuda:0', 'cpu'")
        pairs.append((pattern, float(figure)))
    if not pairs:
        raise RooflineUsageError(f"{where}: an empty mapping budgets nothing; give at least one device pattern")
    return Budget(by_pattern=tuple(pairs), places=(where,) * len(pairs))


def parse_allow(value: object, where: str) -> frozenset[str]:
    """Names of checks that may not decide, as a tuple or as text with commas; an unknown one is an error.

    The error lists the names that are nearest to it, and all of them.
    """
    names = (
        [name.strip() for name in value.split(",") if name.strip()]
        if isinstance(value, str)
        else list(value)
        if isinstance(value, (tuple, list, set, frozenset))
        else None
    )
    if names is None:
        raise RooflineUsageError(f"{where}: allow is {value!r}; give a tuple of names of checks")
    unknown = sorted(str(name) for name in names if name not in CHECK_NAMES)
    if unknown:
        near = list(dict.fromkeys(name for word in unknown for name in get_close_matches(word, CHECK_NAMES, n=2)))
        nearest = f"did you mean {' or '.join(near)}? " if near else ""
        raise RooflineUsageError(
            f"{where}: no check is named {', '.join(unknown)}; {nearest}known: {', '.join(CHECK_NAMES)}"
        )
    return frozenset(names)


def whole_number(name: str, value: Any, least: int, most: int = sys.maxsize) -> int | None:
    """An argument that is a whole number in these bounds; None stays None. RooflineUsageError that names it."""
    if value is None:
        return None
    if not isinstance(value, (bool, str, bytes)) and hasattr(value, "__index__"):
        value = operator.index(value)  # also the integers of numpy
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f"{least} or more" if most == sys.maxsize else f"from {least} to {most:,}"
        raise RooflineUsageError(f"{name} is {value!r:.60}; it must be a whole number, {bounds}")
    return value


def positive_number(name: str, value: Any, of: str = "") -> float:
    """An argument that is a positive, finite number, `of` seconds, say. RooflineUsageError that names it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise RooflineUsageError(f"{name} is {value!r:.60}; it must be a positive number{of}")
    return float(value)


def positive_seconds(name: str, value: Any) -> float:
    """An argument that is a positive, finite number of seconds. RooflineUsageError that names it."""
    return positive_number(name, value, " of seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How measurements are made and judged in one test."""

    mode: Mode = "auto"
    device: str | None = None
    at_least: Budget | None = None
    at_most: Budget | None = None
    is_budget_explicit: bool = False
    """Whether `at_least` came from a marker, so that a test without any result is an error."""
    max_time_s: float = MAX_TIME_S
    stopping: str = DEFAULT_STOPPING
    """Name of the criterion that ends a measurement, see `stopping`."""
    inconclusive: Policy = "skip"
    allow: frozenset[str] = field(default_factory=frozenset)
    specs: tuple[str, ...] = ()
