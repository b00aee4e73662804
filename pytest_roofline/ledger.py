"""What an audit saw of one claim, and what the claim was told: the ledger that the judge is handed.

Pure: nothing is measured here. Which stretch of the audit a claim speaks of is found by `closing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_roofline.checks.claimed import Claim, ClockDrift, CompiledInWindow, Window
from pytest_roofline.errors import RooflineUsageError

BEYOND_MARKERS_S = 100e-6
"""Work that no marker covers (a foreign stream) counts only when it outlasts the marked queues by this much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What an audit saw, closed: handed to the judge."""

    claim: Claim
    tokens_claimed: float
    ids_seen: int | None
    window: Window | None
    bounds: tuple[tuple[float, float], ...]
    """The stretches of the private clock that the window covers; empty where they are not known."""
    entry_s: float
    """When the claim was made, on the private clock: what it had to drain and to evaluate ran from then on."""
    is_window_unknown: bool
    likely: Window | None
    """The only stretch that was timed, where nothing ties the claim to it."""
    reads: int
    events_read: int
    compiled: CompiledInWindow | None
    first_pass_s: float | None
    later_pass_s: float | None
    clocks_read: frozenset[str]
    drifts: tuple[ClockDrift, ...]
    whole_audit_s: float
    passes: float
    batch: int
    tokens_per_pass: float
    outputs: Any
    notes: tuple[str, ...]
    not_checked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What `claim` was told, and what closing at that moment showed."""

    tokens: float | None
    tokens_per_s: float | None
    seconds: float | None
    samples_s: tuple[float, ...]
    ids: int | None
    entry_s: float
    drained_s: float
    forced_s: float
    marked_s: float
    idle_drain_s: float
    marker_late_s: float = 0.0
    """How late a marker behind nothing came at worst: by so much an end may be seen too late."""
    outputs: Any

    @property
    def idle_s(self) -> float:
        """What may still look busy on a device that is idle."""
        return 10 * self.idle_drain_s + BEYOND_MARKERS_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A window that the test stated: its start and stop, and when the device had finished."""

    start_s: float
    stop_s: float
    drained_s: float
    finished_s: float
    """When the last watched output had been evaluated too, where work waits for that."""


def tokens_of_a_pass(given: float | Callable[[Any], float], outputs: Any) -> float:
    """Tokens that each sequence gains in a pass: a number, or a function of the pass's output."""
    value = given(outputs) if callable(given) else given
    number = positive(value, "tokens_per_pass")
    if number is None:
        raise RooflineUsageError("tokens_per_pass is None; it must be a positive number, or a function of the output")
    return number


def count_ids(ids: Any) -> int | None:
    """Elements of integer arrays and ints, also in nested lists; None where there is anything else among them."""
    if isinstance(ids, bool):
        return None
    if isinstance(ids, int):
        return 1
    if isinstance(ids, (list, tuple)):
        counts = [count_ids(item) for item in ids]
        if any(count is None for count in counts):
            return None
        return sum(count for count in counts if count is not None)
    if "int" not in str(getattr(ids, "dtype", "")):
        return None
    size: Any = ids.numel() if callable(getattr(ids, "numel", None)) else getattr(ids, "size", None)
    return size if isinstance(size, int) else None


def finite(value: Any, name: str) -> float | None:
    """The figure as a float; None stays None, and what is no finite number is a usage error that names it."""
    if value is None:
        return None
    if not isinstance(value, (int, float)) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a scalar of numpy or of a framework
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RooflineUsageError(f"{name} is {value!r}; it must be a finite number")
    try:
        return float(value)
    except OverflowError:
        raise RooflineUsageError(f"{name} is too large; it must be a finite number") from None


def positive(value: Any, name: str) -> float | None:
    """The same for a figure that must be above zero."""
    number = finite(value, name)
    if number is not None and number <= 0:
        raise RooflineUsageError(f"{name} is {value!r}; it must be positive")
    return number
