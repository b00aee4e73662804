"""Kernels timed side by side: one window of launches, closed by a drain, is one rate.

No pattern has one best kernel on every machine, and no framework has the best kernel of every pattern. So all
of them run, in turns, and the best one stands for the pattern: a ceiling that honest code beats is worthless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, isfinite

from pytest_roofline.backends.arena import Arena, ArenaBackend
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import MeasurementError
from pytest_roofline.protocol import Backend, Kernel
from pytest_roofline.units import format_bytes

ASYNCHRONOUS_LAUNCHES = 20
"""Launches per window where the host may run ahead of the device."""
_DRAINS_PER_WINDOW = 20
"""A window is at least so many idle drains long. A drain is never subtracted: the window is made longer."""
_WINDOW_S = 2e-3
_MAX_LAUNCHES = 10_000


@dataclass(slots=True, kw_only=True)
class Entrant:
    """One kernel in a contest, the launches of its windows, and the rates that they showed (bytes/s)."""

    backend: Backend
    kernel: Kernel
    launches: int
    rates: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Backend and kernel: ``cpu:memchr``."""
        return f"{self.backend.name}:{self.kernel.name}"

    @property
    def best_bytes_per_s(self) -> float:
        """The best rate so far; 0 before the first window."""
        return max(self.rates, default=0.0)

    def without_launch(self) -> Entrant:
        """Its name and its rates, without the buffers."""
        return replace(self, kernel=replace(self.kernel, launch=_nothing))

    @property
    def window_s(self) -> float:
        """What a window of this entrant takes by its best rate; 0 before the first one."""
        best = self.best_bytes_per_s
        return self.launches * self.kernel.bytes_per_launch / best if best else 0.0

    def run(self) -> float:
        """Time one window and remember its rate, in bytes/s.

        The drain before it is outside, the one after inside.
        """
        seconds = _window_s(self.backend, self.kernel, self.launches)
        rate = self.launches * self.kernel.bytes_per_launch / seconds if seconds > 0 else float("inf")
        self.rates.append(rate)
        return rate


def _nothing() -> None:
    """The launch of an entrant that has given its buffers back."""


def _window_s(backend: Backend, kernel: Kernel, launches: int) -> float:
    launch = kernel.launch
    backend.drain()
    start = backend.clock()
    for _ in range(launches):
        last = launch()
    backend.drain()
    elapsed = backend.clock() - start
    del last  # a lazy framework may drop a result that nobody holds, and with it the work
    return elapsed


def enter(
    backend: Backend, kernel: Kernel, device: Device, *, window_s: float | None = None, is_warm: bool = False
) -> Entrant:
    """Warm the kernel up, unless it is, and choose how many launches its window needs to be so long, at least."""
    least = 1 if device.is_cpu else ASYNCHRONOUS_LAUNCHES
    if not is_warm:
        _window_s(backend, kernel, 1)  # first launch: compilation, page tables, caches
    once_s = _window_s(backend, kernel, 1)
    start = backend.clock()
    backend.drain()
    idle_s = backend.clock() - start
    wanted_s = max(window_s or _WINDOW_S, _DRAINS_PER_WINDOW * idle_s)
    launches = min(_MAX_LAUNCHES, max(least, ceil(wanted_s / once_s) if once_s > 0 else least))
    entrant = Entrant(backend=backend, kernel=kernel, launches=launches)
    if launches == 1 and once_s > 0:
        entrant.rates.append(kernel.bytes_per_launch / once_s)  # long enough to be a window already
    return entrant


def enlist(
    backends: Sequence[Backend],
    device: Device,
    pattern: Pattern,
    working_set_bytes: float,
    *,
    arena: Arena | None = None,
    only: Sequence[str] | None = None,
    until_s: float | None = None,
    window_s: float | None = None,
) -> tuple[list[Entrant], list[str]]:
    """Every kernel of every backend for a pattern, warmed up, and notes on those that could not be had.

    `arena`: the memory in which they run; without one each backend allocates its own. `only`: names of entrants;
    others are dropped before they run. `until_s`: on the clock of each backend; once it has passed, no further
    backend that allocates is asked as long as there is one entrant.
    """
    entrants: list[Entrant] = []
    notes: list[str] = []
    sharing = [backend for backend in backends if arena is not None and isinstance(backend, ArenaBackend)]
    others = [backend for backend in backends if backend not in sharing]
    for backend in (*sharing, *others):
        if sharing and backend in others and (entrants or pattern == "triad"):
            # JAX and MLX keep their data in memory of their own, which takes longer to come than all else that a
            # probe does; and on a CPU their kernels are no faster. They run only for want of others, and for a
            # triad not even then: without one, read and copy give it.
            break
        if entrants and backend in others and until_s is not None and backend.clock() >= until_s:
            notes.append(f"{pattern}: no time was left for the kernels of {backend.name}")
            continue
        try:
            entrants += [
                enter(backend, kernel, device, window_s=window_s, is_warm=backend in sharing)
                for kernel in _kernels(backend, device, pattern, working_set_bytes, arena)
                if only is None or f"{backend.name}:{kernel.name}" in only
            ]
        except (MemoryError, MeasurementError) as error:
            notes.append(
                f"{pattern} of {format_bytes(working_set_bytes)} left out for {backend.name}: "
                f"{str(error) or 'out of memory'}"
            )
    return entrants, notes


def _kernels(
    backend: Backend, device: Device, pattern: Pattern, working_set_bytes: float, arena: Arena | None
) -> Sequence[Kernel]:
    if arena is not None and isinstance(backend, ArenaBackend):
        return backend.kernels_in(arena, pattern, working_set_bytes)
    return backend.kernels(device, pattern, working_set_bytes)


def compete(
    entrants: Sequence[Entrant], *, rounds: int, until_s: float | None = None, is_quick: bool = False
) -> Entrant | None:
    """Run all of them in turns; the one with the best rate wins. None when there is none.

    From the third round on (the second where it is to be quick) only those within a fifth of the leader go on.
    Every entrant runs at least once; after that no round starts that would end after `until_s`.
    """
    field_ = list(entrants)
    for number in range(rounds):
        if until_s is not None and all(entrant.rates for entrant in field_):
            needed_s = sum(entrant.window_s for entrant in field_)
            if any(entrant.backend.clock() + needed_s > until_s for entrant in field_):
                break
        for entrant in field_:
            entrant.run()
        leader = max((entrant.best_bytes_per_s for entrant in field_), default=0.0)
        if number or is_quick:
            field_ = [entrant for entrant in field_ if entrant.best_bytes_per_s >= 0.8 * leader]
    believable = [entrant for entrant in entrants if isfinite(entrant.best_bytes_per_s)]
    return max(believable, key=lambda entrant: entrant.best_bytes_per_s, default=None)
