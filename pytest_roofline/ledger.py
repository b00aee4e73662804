"""What an audit saw of one claim, and what the claim was told: the ledger that the judge is handed.

Pure: nothing is measured here. Which stretch of the audit a claim speaks of is found by `closing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_roofline.checks.claimed import Claim, ClockDrift, CompiledInWindow, RankWindow, Window
from pytest_roofline.errors import RooflineUsageError

BEYOND_MARKERS_S = 100e-6
"""Work that no marker covers (a foreign stream) counts only when it outlasts the marked queues by this much."""

SHARED_TOLERANCE = 0.02
"""By so much, or by one token, the counts of ranks may differ that made the same tokens."""


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
    ranks: tuple[RankWindow, ...]
    do_ranks_share_tokens: bool
    are_ranks_borne_out: bool
    """Whether this process timed one of their windows, or all of them lie in the audit by one of its clocks."""
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
    """When the markers that were set at the claim were reached; no earlier than the drain where they cover all."""
    done_s: float | None = None
    """When the device was done, whatever held up this thread; None where only the drain tells."""
    idle_drain_s: float
    marker_late_s: float = 0.0
    """How late a marker behind nothing came at worst: by so much an end may be seen too late."""
    ranks: tuple[RankWindow, ...] = ()
    do_ranks_share_tokens: bool = False
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
    held_up_s: float = 0.0
    """Part of it in which this thread was ready to run, and was not running."""


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


def sample_times(samples: Any) -> tuple[float, ...]:
    """Single timings in seconds; none at all where there are none."""
    if samples is None:
        return ()
    try:
        values = list(samples)
    except TypeError:
        raise RooflineUsageError(
            f"samples is a {type(samples).__name__}; it must be a sequence of seconds, one per sample"
        ) from None
    return tuple(finite(value, "samples") or 0.0 for value in values)


def rank_windows(ranks: Any, *, do_share_tokens: bool = False) -> tuple[RankWindow, ...]:
    """The windows of several ranks, from (start in seconds, stop in seconds, tokens) each; None is no rank."""
    if ranks is None:
        if do_share_tokens:
            raise RooflineUsageError("share_tokens=True is said of ranks, and there are none: pass ranks= too")
        return ()
    try:
        found = [(start_s, stop_s, tokens) for start_s, stop_s, tokens in ranks]
    except (TypeError, ValueError):
        raise RooflineUsageError(
            f"ranks is {ranks!r}; it must be a sequence of (start_s, stop_s, tokens), one for each rank"
        ) from None
    windows = []
    for start_s, stop_s, tokens in found:
        start, stop = finite(start_s, "a rank's start"), finite(stop_s, "a rank's stop")
        made = positive(tokens, "a rank's tokens")
        if start is None or stop is None or made is None or stop <= start:
            raise RooflineUsageError(
                f"a rank started at {start} and stopped at {stop} with {tokens} tokens; it must stop after it starts, "
                "with some tokens made, on the clock of all ranks"
            )
        windows.append(RankWindow(start_s=start, stop_s=stop, tokens=made))
    if not windows:
        raise RooflineUsageError("ranks is empty; it must have (start_s, stop_s, tokens) of each rank")
    made_by = [window.tokens for window in windows]
    if do_share_tokens and max(made_by) - min(made_by) > max(1.0, SHARED_TOLERANCE * max(made_by)):
        raise RooflineUsageError(
            f"share_tokens=True says that all ranks made the same tokens, and they made {min(made_by):g} to "
            f"{max(made_by):g}: leave it out where each rank made its own, or count the same tokens on every rank"
        )
    return tuple(windows)


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
