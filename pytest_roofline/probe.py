"""What this device does today: its bandwidth by access pattern, and the size from which caches stop helping.

::

    memory   on a CPU one arena for everything, filled until it is large enough or a part of the time is over;
             elsewhere every set has its own
    growth   one window of each size shows roughly where the cache ends
    contest  every kernel that reads, far past that size; the best one goes on
    sweep    all sizes close together in time, then all of them again. A rate is compared with the largest sets of
             the *same* round, because a shared host's bandwidth moves
    knee     the smallest K for which every point satisfies  rate(W) <= 1.05 * plateau / (1 - K / W)
    contest  every kernel that copies, writes and combines

A copy of n bytes counts 2n, a triad 3n. Reads that a plain store causes (write-allocate) are counted nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import Any

from pytest_roofline.contest import Entrant, compete, enlist
from pytest_roofline.device import PATTERNS, Device, Pattern
from pytest_roofline.errors import MeasurementError, RooflineUsageError
from pytest_roofline.growth import CONTEST_BYTES, LEAST_CONTEST_BYTES, SHORT_BYTES, WINDOW_S, Growth
from pytest_roofline.links import Links
from pytest_roofline.meter import Meter, credible_cache_bytes
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.protocol import Backend
from pytest_roofline.roofline import Rates
from pytest_roofline.shortage import KNEES_OF_A_PROBE
from pytest_roofline.sweep import Sweeper, SweepPoint
from pytest_roofline.units import format_bytes, format_ratio

PROBE_VERSION = 1
"""Goes up whenever a probe may find other figures than before: its record is no one else's then."""
CPU_BUDGET_S = 3.0
ACCELERATOR_BUDGET_S = 1.0
_RATE_KNEES = 20
"""The rate of a set of so many knees is that of memory, whatever a cache keeps of it."""
_CONTEST_ROUNDS = 5
_COMPANIONS = 3
_TRIAD_SHARE = 0.95
_PLENTY_BYTES = 2**32
"""With so much free memory the arena is kept for the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The measured bandwidth of a device, bytes/s by pattern, each the best of `kernels` on written, random data.

    `best_bytes_per_s`: the largest rate seen past the knee, in any pattern. `cache_bytes_per_s`: the best
    read of a set that fits a cache. `threads`: what the CPU's own kernels used; None on a device without such
    a setting.
    """

    device: Device
    read_bytes_per_s: float
    copy_bytes_per_s: float
    write_bytes_per_s: float
    triad_bytes_per_s: float
    best_bytes_per_s: float
    cache_knee_bytes: float
    cache_bytes_per_s: float
    sweep: tuple[SweepPoint, ...]
    kernels: dict[Pattern, str]
    threads: int | None
    elapsed_s: float
    is_trusted: bool
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why it is not trusted; empty when it is."""
    excess: float = 1.0
    """How many times the rates may exceed what memory alone gives, because the largest set was still somewhat
    faster than the trend allows: a fraction may be so many times better, never worse."""
    meter: Meter | None = field(default=None, repr=False, compare=False)

    @property
    def rates(self) -> Rates:
        """The four patterns, as the arithmetic of ceilings wants them."""
        return Rates(
            read_bytes_per_s=self.read_bytes_per_s,
            copy_bytes_per_s=self.copy_bytes_per_s,
            write_bytes_per_s=self.write_bytes_per_s,
            triad_bytes_per_s=self.triad_bytes_per_s,
        )

    def peak_flops_per_s(self, dtype: str) -> float:
        """Best measured dense matrix product of this dtype, FLOP/s.

        RooflineUsageError where nothing offers it.
        """
        return self._need_meter().peak_flops_per_s(dtype)

    def measure_peaks_again(self) -> None:
        """Once more for every dtype that was measured; the faster of both times is kept."""
        if self.meter is not None:
            self.meter.measure_peaks_again()

    @property
    def link_bytes_per_s(self) -> float:
        """Best measured rate from host to device. RooflineUsageError where the two share one memory."""
        return self._need_meter().link_bytes_per_s()

    def links(self) -> Links:
        """Rates to and from the host, pinned and pageable, one way and both, and to each peer; measured when asked for.

        RooflineUsageError where host and device share one memory. Takes some seconds.
        """
        return self._need_meter().links()

    def _need_meter(self) -> Meter:
        if self.meter is None:
            raise RooflineUsageError(
                "this probe was not measured by this process: nothing more can be measured on demand"
            )
        return self.meter

    def to_dict(self) -> dict[str, Any]:
        """Builtin types only, no NaN or infinity; peaks and link only when they were measured."""
        return {
            "device": self.device.to_dict(),
            "read_bytes_per_s": self.read_bytes_per_s,
            "copy_bytes_per_s": self.copy_bytes_per_s,
            "write_bytes_per_s": self.write_bytes_per_s,
            "triad_bytes_per_s": self.triad_bytes_per_s,
            "best_bytes_per_s": self.best_bytes_per_s,
            "cache_knee_bytes": self.cache_knee_bytes,
            "cache_bytes_per_s": self.cache_bytes_per_s,
            "sweep": [[point.working_set_bytes, point.pattern, point.bytes_per_s] for point in self.sweep],
            "kernels": dict(self.kernels),
            "threads": self.threads,
            "elapsed_s": self.elapsed_s,
            "is_trusted": self.is_trusted,
            "peak_flops_per_s": dict(self.meter.peaks) if self.meter else {},
            "link_bytes_per_s": self.meter.link if self.meter else None,
            "links": self.meter.all_links.to_dict() if self.meter and self.meter.all_links else None,
            "doubts": list(self.doubts),
            "excess": self.excess,
            "notes": list(self.notes),
        }


def probe_device(
    device: Device, backends: Sequence[Backend], *, max_s: float | None = None, onlooker: Onlooker = NOBODY
) -> Probe:
    """Measure a device with every backend that knows it.

    `max_s`: seconds for everything, allocation included; 3 on a CPU and 1 on an accelerator by default. Sizes that
    do not fit, into memory or into the time, are dropped with a note. InconclusiveMeasurement where memory that
    others have leaves no set of four cache knees. MeasurementError when not even one read could be timed; a probe
    that was measured and cannot be trusted says so in `is_trusted` and `doubts`. A busy machine makes no doubt:
    what moves it also moves the ruler, which every fraction is taken against.
    """
    if not backends:
        raise RooflineUsageError(f"no backend measures {device.id}")
    budget_s = (CPU_BUDGET_S if device.is_cpu else ACCELERATOR_BUDGET_S) if max_s is None else max_s
    if not (isfinite(budget_s) and budget_s > 0):
        raise RooflineUsageError(f"max_s is {budget_s}; a probe needs a positive number of seconds")
    return _Prober(device, backends, budget_s, onlooker).probe()


class _Prober:
    """One measurement: grow the sets, let the kernels compete past the knee, sweep with the winner."""

    def __init__(self, device: Device, backends: Sequence[Backend], budget_s: float, onlooker: Onlooker) -> None:
        self.device = device
        self.backends = backends
        self.onlooker = onlooker
        onlooker.tell(f"probing {device.id}", elapsed_s=0.0, limit_s=budget_s)
        self.growth = Growth(device, backends, budget_s)
        self.arena = self.growth.arena
        self.notes = self.growth.notes
        self.meter = Meter(device, backends)
        self.seen: list[tuple[float, Pattern, float]] = []

    def probe(self) -> Probe:
        growth = self.growth
        kept = growth.run()
        if not all(isfinite(_best(entrant)) for entrant in growth.rates.values()):
            raise MeasurementError(f"{self.device.id}: the clock did not advance while memory was read")
        size = growth.contest_bytes()
        readers = self.contest("read", size)
        if not readers:
            raise growth.failure()
        known: dict[Pattern, str] = {"read": readers[0].name}
        sweeper = Sweeper(
            self.device, growth.rates, partial(self.reader, self.sweep_reader(readers)), growth.until("sweep")
        )
        if self.arena is not None:  # one lucky window must not choose: those that came near go on through the sweep
            sweeper.companions = [one for one in readers[:_COMPANIONS] if _best(one) >= 0.9 * _best(readers[0])]
        del readers
        sweeper.on_round = partial(self.tell, "all sizes")
        sweeper.prepare(growth.sweep_sizes())
        kept.clear()
        sweep = sweeper.run()
        self.notes += sweeper.notes
        known["read"] = sweep.favourite or known["read"]
        self.seen += [(far, "read", rate) for far, rate in sweep.top_rates]
        del sweeper
        for pattern in PATTERNS[1:]:
            if ranking := self.contest(pattern, size):
                known[pattern] = ranking[0].name
            del ranking
        knee = max(sweep.knee_bytes, growth.least_knee_bytes)
        if growth.is_short_of_memory and max(growth.rates) < KNEES_OF_A_PROBE * knee:
            raise growth.shortage(knee)
        rates = self.rates(known, knee)
        doubts = sweep.doubts(
            self.device.last_level_cache_bytes,
            credible_cache_bytes(self.device),
            has_launches=not self.device.is_cpu,
        )
        excess = sweep.excess(credible_cache_bytes(self.device))
        if excess > 1:
            self.notes.append(
                f"the rate was still falling at {format_bytes(growth.largest)}: a cache may have served a part, and "
                f"the rates may be {format_ratio(excess)} what memory gives; fractions allow for it"
            )
        if note := sweep.busy_note():
            self.notes.append(note)
        self.keep_arena(knee)
        threads = [backend.threads(self.device) for backend in self.backends]
        return Probe(
            device=self.device,
            read_bytes_per_s=rates.read_bytes_per_s,
            copy_bytes_per_s=rates.copy_bytes_per_s,
            write_bytes_per_s=rates.write_bytes_per_s,
            triad_bytes_per_s=rates.triad_bytes_per_s,
            best_bytes_per_s=rates.best_bytes_per_s,
            cache_knee_bytes=knee,
            cache_bytes_per_s=max(point.bytes_per_s for point in sweep.points),
            sweep=sweep.points,
            kernels=known,
            threads=max((count for count in threads if count is not None), default=None),
            elapsed_s=growth.clock() - growth.start_s,
            is_trusted=not doubts,
            notes=(*doubts, *self.notes),
            doubts=tuple(doubts),
            excess=excess,
            meter=self.meter,
        )

    def tell(self, what: str) -> None:
        """Let an onlooker know, between two windows."""
        growth = self.growth
        elapsed_s = growth.clock() - growth.start_s
        self.onlooker.tell(f"probing {self.device.id}: {what}", elapsed_s=elapsed_s, limit_s=growth.budget_s)

    def keep_arena(self, knee: float) -> None:
        """For the rulers: for good where memory is plentiful, else while somebody uses it."""
        if self.arena is not None:
            self.arena.trim(max(CONTEST_BYTES, self.growth.plan.contest_knees * knee))
            free = min(backend.free_memory_bytes(self.device) for backend in self.backends)
            self.meter.keep(self.arena, for_good=free > _PLENTY_BYTES)

    def contest(self, pattern: Pattern, size: int) -> list[Entrant]:
        """All kernels of the pattern at one size, the best one first; a smaller size where time is short.

        Only where its memory has yet to come may a pattern be left out for want of time.
        """
        growth, until = self.growth, self.growth.until(pattern)
        while size > LEAST_CONTEST_BYTES and growth.clock() + growth.s_per_byte * size > until:
            size //= 2
        self.tell(f"{pattern} {format_bytes(size)}")
        end_s = growth.start_s + growth.budget_s
        if self.arena is None and pattern != "read" and growth.clock() + growth.s_per_byte * size > end_s:
            self.notes.append(f"no time for {pattern}")
            return []
        entrants, notes = enlist(self.backends, self.device, pattern, size, until_s=until, arena=self.arena)
        self.notes += notes
        compete(entrants, rounds=_CONTEST_ROUNDS, until_s=until)
        self.seen += [(one.kernel.working_set_bytes, pattern, rate) for one in entrants for rate in one.rates]
        return sorted(entrants, key=_best, reverse=True)

    def sweep_reader(self, ranking: Sequence[Entrant]) -> Entrant:
        """One of the best readers: the one that gains most from the cache, or whose sets need no more memory.

        A kernel that computes as long as it reads hardly shows where the cache ends.
        """
        near = [entrant for entrant in ranking if _best(entrant) >= 0.8 * _best(ranking[0])]
        if self.arena is None:
            return next((entrant for entrant in near if entrant.backend is self.backends[0]), ranking[0])
        champion = self.growth.cache_champion
        return next((entrant for entrant in near if entrant.name == champion), ranking[0])

    def reader(self, like: Entrant, size: int) -> Entrant | None:
        """The same kernel over another size."""
        window_s = WINDOW_S if self.device.is_cpu and size > SHORT_BYTES else None
        found, notes = enlist(
            [like.backend], self.device, "read", size, only=[like.name], arena=self.arena, window_s=window_s
        )
        self.notes += notes
        return found[0] if found else None

    def rates(self, known: dict[Pattern, str], knee: float) -> Rates:
        """The best of each pattern past the knee; a pattern without a kernel borrows, and a note says so."""
        best: dict[Pattern, float] = {}
        far = max(size for size, pattern, _ in self.seen if pattern == "read")
        for pattern in PATTERNS:
            # Reads were seen at several sizes, the others at one.
            least = min(_RATE_KNEES * knee, 0.9 * far) if pattern == "read" else 0.0
            past = [rate for size, name, rate in self.seen if name == pattern and size >= least and isfinite(rate)]
            if past:
                best[pattern] = max(past)
        read = best["read"]
        for pattern, other in (("copy", "read"), ("write", "copy")):
            if pattern not in best:
                best[pattern] = best[other]  # type: ignore[index]
                self.notes.append(f"{pattern} was not measured: the rate of {other} stands in for it")
        # A third of a triad is written, and half of a copy: two thirds of the way in seconds per byte.
        # Compiled code with streaming stores does at least that well; a framework's triad may be far below.
        between = 1 / (1 / read + 2 / 3 * (1 / best["copy"] - 1 / read))
        if best.get("triad", 0.0) < _TRIAD_SHARE * between:
            lower = "triad was not measured" if "triad" not in known else "every kernel for triad is slower"
            self.notes.append(f"{lower}: interpolated between read and copy")
            best["triad"] = between
            known.pop("triad", None)
        return Rates(**{f"{pattern}_bytes_per_s": best[pattern] for pattern in PATTERNS})


def _best(entrant: Entrant) -> float:
    return entrant.best_bytes_per_s
