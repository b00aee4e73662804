"""The read pattern over growing sets: how fast, how steady, and up to which size caches help.

All sizes are read close together in time, then all of them again. A rate is compared with the largest sets of
the *same* round, because the bandwidth of a shared host moves by half within a minute; pair by pair it hardly
does. Windows of all sizes are about equally long: on a busy processor a short one slips through between two
interruptions, and a size that is read in short windows would look like a cached one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from statistics import median

from pytest_roofline.contest import Entrant
from pytest_roofline.device import Device, Pattern
from pytest_roofline.errors import MeasurementError
from pytest_roofline.meter import credible_cache_bytes
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction

_TOLERANCE = 1.05
_RISE = 1.2
"""A set of twice the size whose rate is so much higher was not bound by memory; noise does not do that twice."""
_FAR_OVER = 1.3
_FALLING = 1.1
_MOST_EXCESS = 4.0
_SPREAD = 0.30
_CACHES = 4
"""A set of so many caches is read from memory, even if smaller ones were faster still."""
_ROUNDS = 15
_LEAST_ROUNDS = 2
_SECOND_LOOK = 9
"""Alternations of the two largest sets before a rate that seems to fall is believed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """The rate of one pattern over one working set, bytes/s.

    The median over the rounds; see `settled_ratio` and `without_rises` for what noise may not do to it.
    """

    working_set_bytes: float
    pattern: Pattern
    bytes_per_s: float
    kernel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The points by size, the median rate of the two largest sets, and how steady that was.

    `spread` is what the middle half of the rounds covers, as a fraction of the plateau. `is_falling`: whether the
    second largest set was still clearly faster than the largest one.
    """

    points: tuple[SweepPoint, ...]
    plateau_bytes_per_s: float
    spread: float
    is_falling: bool
    top_rates: tuple[tuple[float, float], ...]
    """Size and rate of every window of the two largest sets, and of the companions."""
    favourite: str | None
    """The companion that was the fastest in the middle round; None where there was none."""

    @property
    def knee_bytes(self) -> float:
        """The knee of these points."""
        return knee_bytes(
            [(point.working_set_bytes, point.bytes_per_s) for point in self.points], self.plateau_bytes_per_s
        )

    def doubts(
        self, reported_cache_bytes: float | None, credible_cache_bytes: float, *, has_launches: bool = False
    ) -> list[str]:
        """Why it cannot be trusted that the largest sets show what memory gives; empty when it can.

        `has_launches`: the host launches reads on another device, which takes time of its own.
        """
        largest = format_bytes(self.points[-1].working_set_bytes)
        known = (
            "of unknown size" if reported_cache_bytes is None else f"reported as {format_bytes(reported_cache_bytes)}"
        )
        start = f"not trusted: the largest set was {largest}, the cache is {known}, and"
        past = self.points[-1].working_set_bytes / credible_cache_bytes if credible_cache_bytes else 0.0
        doubts = []
        if self.is_falling and not self._is_past(credible_cache_bytes):
            doubts.append(f"{start} the rate had not become flat")
        elif not self.knee_bytes and credible_cache_bytes and past < 1:
            doubts.append(f"{start} no set was slower than another: all of them may have been in the cache")
        if has_launches and self._is_rising():
            doubts.append(f"{start} the rate was still rising: launches took longer than the reads")
        if not all(isfinite(point.bytes_per_s) for point in self.points):
            doubts.append("not trusted: a rate was not finite, so the clock did not advance")
        return doubts

    def _is_rising(self) -> bool:
        """Whether each of the three largest sets was read clearly faster than the one before."""
        rates = [point.bytes_per_s for point in self.points[-3:]]
        return len(rates) == 3 and all(larger > _RISE * smaller for smaller, larger in pairwise(rates))

    def _is_past(self, credible_cache_bytes: float) -> bool:
        """Whether both of the largest sets are larger than the cache: only then do they tell how much it serves."""
        return len(self.points) > 1 and 0 < credible_cache_bytes <= self.points[-2].working_set_bytes

    def excess(self, credible_cache_bytes: float) -> float:
        """How many times the largest set's rate may exceed that of memory alone: 1 where it had become flat.

        Also 1 where that set was so many caches that it came from memory, even if smaller ones were faster still.
        """
        if not self.is_falling or not self._is_past(credible_cache_bytes):
            return 1.0
        smaller, larger = self.points[-2:]
        if larger.working_set_bytes >= _CACHES * credible_cache_bytes:
            return 1.0
        ratio = smaller.bytes_per_s / larger.bytes_per_s
        return plateau_excess(smaller.working_set_bytes, larger.working_set_bytes, ratio)

    def busy_note(self) -> str | None:
        """That the machine did other things besides, where it shows; what is judged by the ruler does not mind."""
        if self.spread <= _SPREAD:
            return None
        return (
            f"busy: the rate of the largest sets moved by {format_fraction(self.spread)} between rounds around "
            f"{format_bytes_per_s(self.plateau_bytes_per_s)}; a fraction is taken against readings from just before "
            "and after, so this decides nothing"
        )


def knee_bytes(points: Iterable[tuple[float, float]], plateau_bytes_per_s: float) -> float:
    """The smallest K, in bytes, for which every (size W, rate) satisfies ``rate <= 1.05 * plateau / (1 - K / W)``.

    Of a set W at most K bytes can have come from a cache if no set was ever read faster than that allows. 0
    when no point exceeds the plateau by over 5 %. For W <= K the inequality bounds nothing: any rate
    satisfies it. MeasurementError when the plateau is no positive finite rate.
    """
    if not (isfinite(plateau_bytes_per_s) and plateau_bytes_per_s > 0):
        raise MeasurementError(f"a plateau of {plateau_bytes_per_s} bytes/s has no cache knee")
    bound = _TOLERANCE * plateau_bytes_per_s
    return max((size * (1 - bound / rate) for size, rate in points if rate > bound), default=0.0)


def settled_ratio(ratios: Iterable[float]) -> float:
    """What the ratios of a size to the largest sets, one per round, come to: their median.

    But no more than 5 % over the largest sets where it was less in a quarter of the rounds, unless half of them are
    far over that: then a cache cannot be told from bad moments of the largest sets.
    """
    ordered = sorted(ratios)
    middle = median(ordered)
    is_cached = ordered[len(ordered) // 4] > _TOLERANCE or middle > _FAR_OVER
    return middle if is_cached else min(middle, _TOLERANCE)


def without_rises(ratios: Sequence[float]) -> list[float]:
    """Rates by growing size, with what rises after the fastest of them averaged away.

    Of a larger set a cache holds no larger part. So where a larger set seems faster than a smaller one (both beyond
    the size that is fastest of all: before it, starting a launch costs more than the reading), it was measured in a
    better moment, and both get the mean of the two (isotonic regression). Without this, one bad moment of a busy
    machine would make a cache.
    """
    peak = max(range(len(ratios)), key=ratios.__getitem__)
    pools: list[tuple[float, int]] = []
    for ratio in ratios[peak:]:
        mean, count = ratio, 1
        while pools and mean > pools[-1][0]:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    return [*ratios[:peak], *(mean for mean, count in pools for _ in range(count))]


def plateau_excess(smaller_bytes: float, larger_bytes: float, ratio: float) -> float:
    """How many times the larger set's rate exceeds that of memory, when the smaller one was `ratio` times as fast.

    Both sets follow ``rate = memory / (1 - K / W)`` with one K, the model that the knee is defined by; solved for
    memory. At most 4: beyond that no cache of this form explains what was seen.
    """
    if ratio <= 1 or not smaller_bytes < larger_bytes:
        return 1.0
    # 1 - K/larger = ratio * (1 - K/smaller)
    cached = (ratio - 1) / (ratio * larger_bytes / smaller_bytes - 1)
    return min(_MOST_EXCESS, 1 / (1 - cached))


def _is_falling(smaller: Sequence[float], larger: Sequence[float]) -> bool:
    """Whether the smaller of two sets was clearly faster: in the middle round, and somewhat in three of four."""
    ratios = sorted(one / other for one, other in zip(smaller, larger, strict=True))
    return median(ratios) > _FALLING and ratios[len(ratios) // 4] > _TOLERANCE


def _nothing() -> None:
    """Nobody is told of a round."""


class Sweeper:
    """One kernel per size, run in rounds until the time is used up.

    `add` makes the kernel for a size, or None when it cannot be had. `grown`: one rate by size, from when the sets
    grew. It stands for the sizes that are not read again.
    """

    def __init__(
        self, device: Device, grown: Mapping[int, Entrant], add: Callable[[int], Entrant | None], until_s: float
    ) -> None:
        self.device = device
        self.grown = grown
        self.until_s = until_s
        self.notes: list[str] = []
        self.runners: dict[int, Entrant] = {}
        self.companions: list[Entrant] = []
        """Run once in every round: against the largest sets of the same round, the best of them shows."""
        self.on_round: Callable[[], None] = _nothing
        self._add = add
        self._clock = next(iter(grown.values())).backend.clock

    def has_time(self, needed_s: float = 0.0) -> bool:
        """Whether so many seconds are left."""
        return self._clock() + needed_s <= self.until_s

    def prepare(self, sizes: Iterable[int]) -> None:
        """Make the sets, the largest first; the two largest ones whatever the time."""
        wanted = sorted(sizes, reverse=True)
        for size in wanted:
            if len(self.runners) < 2 or self.has_time():
                self._enter(size)
        if len(self.runners) < len(wanted):
            self.notes.append(f"{len(wanted) - len(self.runners)} sizes of the sweep were read only once: no time")

    def _enter(self, size: int) -> None:
        entrant = self._add(size)
        if entrant is not None:
            self.runners[size] = entrant

    def run(self) -> Sweep:
        """Rounds over all sizes; two of them at least, then as many as there is time for."""
        if not self.runners:
            raise MeasurementError("; ".join(self.notes) or f"no set could be read on {self.device.id}")
        top = sorted(self.runners)[-2:]
        ratios: dict[int, list[float]] = {}
        plateaus: list[float] = []
        beside: list[tuple[float, float]] = []
        # By entrant: two backends may have kernels of one name.
        standings: list[list[float]] = [[] for _ in self.companions]
        for number in range(_ROUNDS):
            needed_s = sum(entrant.window_s for entrant in (*self.runners.values(), *self.companions))
            if number >= _LEAST_ROUNDS and not self.has_time(needed_s):
                break
            self.on_round()
            rates = {size: runner.run() for size, runner in self.runners.items()}
            for companion, standing in zip(self.companions, standings, strict=True):
                standing.append(companion.run())
                beside.append((companion.kernel.working_set_bytes, standing[-1]))
            plateaus.append(sum(rates[size] for size in top) / len(top))
            for size, rate in rates.items():
                ratios.setdefault(size, []).append(rate / plateaus[-1])
            if number == 0:
                self._refine(rates)
        plateau = median(plateaus)
        if not (isfinite(plateau) and plateau > 0):
            raise MeasurementError(f"{self.device.id}: the clock did not advance while memory was read")
        is_falling = len(top) < 2 or _is_falling(*(ratios[size] for size in top))
        # Of many caches a set comes from memory, whatever smaller ones do: nobody asks.
        is_asked = not 0 < _CACHES * credible_cache_bytes(self.device) <= top[-1]
        if is_falling and is_asked and len(top) == 2:
            second = self._look_again(top)
            is_falling = _is_falling(*(second[size] for size in top))
            for size in top:
                ratios[size] += second[size]
        ordered = sorted(plateaus)
        quarter = len(ordered) // 4
        sizes = sorted(ratios)
        fitted = without_rises([settled_ratio(ratios[size]) for size in sizes])
        points = [self._point(self.runners[size], ratio * plateau) for size, ratio in zip(sizes, fitted, strict=True)]
        largest = self.grown[max(self.grown)].best_bytes_per_s
        points += [
            self._point(entrant, entrant.best_bytes_per_s / largest * plateau)
            for size, entrant in self.grown.items()
            if size not in ratios
        ]
        return Sweep(
            points=tuple(sorted(points, key=lambda point: point.working_set_bytes)),
            plateau_bytes_per_s=plateau,
            spread=(ordered[-1 - quarter] - ordered[quarter]) / plateau,
            is_falling=is_falling,
            top_rates=(
                *(
                    (self.runners[size].kernel.working_set_bytes, rate)
                    for size in top
                    for rate in self.runners[size].rates
                ),
                *beside,
            ),
            favourite=self._favourite(standings, plateaus),
        )

    def _favourite(self, standings: Sequence[Sequence[float]], plateaus: Sequence[float]) -> str | None:
        """The companion that did best against the largest sets of the same round."""
        ranks = [median(one / other for one, other in zip(rates, plateaus, strict=True)) for rates in standings]
        return self.companions[ranks.index(max(ranks))].name if ranks else None

    def _look_again(self, top: Sequence[int]) -> dict[int, list[float]]:
        """Rates of the two largest sets against their mean, in alternations of their own.

        A few rounds of a busy machine fall by chance, and everything would be judged with that much less certainty.
        What made us look decides nothing: only these readings do. Each pair is read in the other order.
        """
        second: dict[int, list[float]] = {size: [] for size in top}
        for number in range(_SECOND_LOOK):
            order = top if number % 2 else top[::-1]
            rates = {size: self.runners[size].run() for size in order}
            for size in top:
                second[size].append(rates[size] * len(top) / sum(rates.values()))
        return second

    def _point(self, entrant: Entrant, rate: float) -> SweepPoint:
        return SweepPoint(
            working_set_bytes=entrant.kernel.working_set_bytes, pattern="read", bytes_per_s=rate, kernel=entrant.name
        )

    def _refine(self, rates: Mapping[int, float]) -> None:
        """Half-way sizes around the bend that the first round showed."""
        largest = max(rates)
        knee = knee_bytes([(float(size), rate) for size, rate in rates.items()], rates[largest])
        for size in sorted(rates):
            between = size * 3 // 2
            if knee / 2 < size < min(4 * knee, largest) and between not in rates and self.has_time():
                self._enter(between)
