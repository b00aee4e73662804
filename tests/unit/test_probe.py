"""The probe on a machine of our own making: a virtual clock, a cache, and kernels whose speed is known."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_roofline.contest import ASYNCHRONOUS_LAUNCHES, enter
from pytest_roofline.device import Device, Pattern, Spec
from pytest_roofline.errors import MeasurementError, RooflineUsageError
from pytest_roofline.probe import Probe, probe_device
from pytest_roofline.protocol import Conditions, Forced, Kernel
from pytest_roofline.ruler import Ruler
from pytest_roofline.sweep import plateau_excess

MIB = 2**20
GB = 1e9


@dataclass
class Clock:
    """A clock that moves when work is done."""

    now: float = 0.0


@dataclass
class Machine:
    """A backend whose kernels take the time that its rates say; an in-order queue when it is asynchronous."""

    name: str = "machine"
    kind: str = "cpu"
    rates: dict[Pattern, dict[str, float]] = field(
        default_factory=lambda: {
            "read": {"load": 20 * GB, "scan": 16 * GB},
            "copy": {"move": 24 * GB},
            "write": {"set": 15 * GB},
            "triad": {"add": 23 * GB},
        }
    )
    cache_bytes: float = 16 * MIB
    reported_cache_bytes: float | None = 16 * MIB
    speedup: float = 5.0
    free_bytes: float = 2**34
    room_bytes: float = 2**40
    alloc_bytes_per_s: float = 1e12
    drain_s: float = 0.0
    is_unified: bool | None = None
    spec: Spec | None = None
    threads_set: int | None = 4
    cores: int | None = None
    clock_: Clock = field(default_factory=Clock)
    busy_until: float = 0.0
    launched: int = 0
    mood: Callable[[float], float] = lambda now: 1.0
    allocated: list[float] = field(default_factory=list)

    def device(self) -> Device:
        """The device with this machine's facts."""
        return Device(
            name="Machine",
            kind=self.kind,
            backend=self.name,
            last_level_cache_bytes=self.reported_cache_bytes,
            is_unified_memory=self.is_unified,
            spec=self.spec,
            compute_units=self.cores,
        )

    def devices(self) -> Sequence[Device]:
        """Just the one."""
        return [self.device()]

    def clock(self) -> float:
        """Virtual seconds."""
        return self.clock_.now

    def threads(self, device: Device) -> int | None:
        """As set."""
        return self.threads_set

    def free_memory_bytes(self, device: Device) -> float:
        """As set."""
        return self.free_bytes

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """One kernel per configured rate; takes the time that its memory takes."""
        if working_set_bytes > self.room_bytes:
            raise MemoryError
        self.allocated.append(working_set_bytes)
        self.clock_.now += working_set_bytes / self.alloc_bytes_per_s
        return [
            Kernel(
                name=name,
                pattern=pattern,
                bytes_per_launch=working_set_bytes,
                working_set_bytes=working_set_bytes,
                launch=lambda rate=rate: self.work(working_set_bytes, rate),
            )
            for name, rate in self.rates.get(pattern, {}).items()
        ]

    def work(self, size: float, rate: float) -> None:
        """Move so many bytes: now, or queued behind what was launched before."""
        kept = min(1.0, self.cache_bytes / size) if self.cache_bytes else 0.0
        seconds = size / rate * ((1 - kept) + kept / self.speedup) / self.mood(self.clock_.now)
        self.launched += 1
        self.busy_until = max(self.busy_until, self.clock_.now) + seconds
        if self.kind == "cpu":
            self.clock_.now = self.busy_until

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """A product in float32 alone, faster for larger sizes."""
        if dtype != "float32":
            raise RooflineUsageError(f"{self.name} has no {dtype}")
        return lambda: self.work(2.0 * size**3, min(1.0, size / 2048) * 1e12)

    def has_context(self) -> bool:
        """Always."""
        return True

    def drain(self) -> None:
        """Wait for the queue."""
        self.clock_.now = max(self.clock_.now, self.busy_until) + self.drain_s

    def submit(self, output: Any) -> None:
        """Nothing."""

    def force(self, output: Any) -> Forced:
        """Nothing."""
        return Forced()

    def mark(self) -> None:
        """Nothing can be marked."""
        return

    def device_of(self, obj: Any) -> str | None:
        """Knows no arrays."""
        return None

    def trace(self, request: Any) -> None:
        """Traces nothing."""
        return

    def conditions(self, device: Device) -> Conditions:
        """Knows none."""
        return Conditions()


def probe(machine: Machine, **keywords: Any) -> Probe:
    """Probe it with itself as the only backend."""
    return probe_device(machine.device(), [machine], **keywords)


def test_each_pattern_takes_the_best_of_its_kernels() -> None:
    """The rates are those of the fastest kernel of each pattern, named in `kernels`."""
    found = probe(Machine(cache_bytes=0))
    assert found.read_bytes_per_s == pytest.approx(20 * GB)
    assert found.copy_bytes_per_s == pytest.approx(24 * GB)
    assert found.write_bytes_per_s == pytest.approx(15 * GB)
    assert found.triad_bytes_per_s == pytest.approx(23 * GB)
    assert found.best_bytes_per_s == pytest.approx(24 * GB)
    assert found.kernels == {
        "read": "machine:load",
        "copy": "machine:move",
        "write": "machine:set",
        "triad": "machine:add",
    }
    assert found.rates.best_bytes_per_s == found.best_bytes_per_s
    assert found.threads == 4
    assert found.is_trusted


def test_kernels_of_all_backends_compete() -> None:
    """A second framework's faster kernel wins its pattern, and the first one keeps the others."""
    first = Machine(cache_bytes=0)
    second = Machine(name="other", rates={"read": {"mv": 22 * GB}}, clock_=first.clock_, cache_bytes=0)
    found = probe_device(first.device(), [first, second])
    assert found.read_bytes_per_s == pytest.approx(22 * GB)
    assert found.kernels["read"] == "other:mv"
    assert found.kernels["copy"] == "machine:move"


def test_the_knee_is_near_the_cache() -> None:
    """The knee that the sweep shows lies between half of the true cache and all of it."""
    found = probe(Machine(cache_bytes=24 * MIB))
    assert 12 * MIB <= found.cache_knee_bytes <= 24 * MIB
    assert found.cache_bytes_per_s == pytest.approx(100 * GB, rel=0.05)


def test_the_knee_does_not_follow_a_wrong_report() -> None:
    """A virtual machine that reports its host's 480 MiB is measured, not believed."""
    found = probe(Machine(cache_bytes=8 * MIB, reported_cache_bytes=480 * MIB))
    assert found.cache_knee_bytes <= 8 * MIB
    assert found.is_trusted  # the rate has become flat


def test_a_discrete_accelerator_never_has_a_knee_below_its_cache() -> None:
    """Its cache may show no bend: the driver's figure, or the spec's where that is larger, is the floor."""
    spec = Spec(name="card", memory_bytes=1e11, bandwidth_bytes_per_s=1e12, last_level_cache_bytes=60e6, source="sheet")
    flat = Machine(kind="fake", cache_bytes=0, reported_cache_bytes=50e6)
    assert probe(flat).cache_knee_bytes == 50e6
    flat.spec = spec
    assert probe(flat).cache_knee_bytes == 60e6


def test_unified_memory_has_no_such_floor() -> None:
    """Where host and device share memory the reported cache is no floor."""
    assert probe(Machine(kind="fake", cache_bytes=0, is_unified=True)).cache_knee_bytes == 0


def test_a_host_whose_speed_halves_between_rounds_moves_no_knee() -> None:
    """Rates are compared within a round: a mood that changes each second leaves the knee where it was."""
    moody = Machine(cache_bytes=16 * MIB, mood=lambda now: 0.6 if int(now * 2) % 2 else 1.0)
    calm = Machine(cache_bytes=16 * MIB)
    assert probe(moody).cache_knee_bytes == pytest.approx(probe(calm).cache_knee_bytes, rel=0.5)


def test_a_busy_machine_is_noted_and_trusted() -> None:
    """When the largest sets move by over 30 % between rounds the note gives the figure, and nothing is in doubt."""
    wild = Machine(cache_bytes=0, mood=lambda now: 1.0 if int(now * 7) % 2 else 0.3)
    found = probe(wild)
    assert found.is_trusted
    assert found.doubts == ()
    assert any("busy" in note and "moved by" in note and "%" in note for note in found.notes)


@pytest.mark.parametrize(("cached", "reported"), [(300 * MIB, None), (450 * MIB, 450 * MIB)])
def test_sets_that_never_leave_the_cache_are_not_trusted(cached: float, reported: float | None) -> None:
    """With a real cache near the largest set, the probe says first of all that it saw no plateau."""
    found = probe(Machine(cache_bytes=cached, reported_cache_bytes=reported, speedup=3))
    assert not found.is_trusted
    assert "had not become flat" in found.doubts[0]
    assert found.notes[0] == found.doubts[0]
    assert found.to_dict()["doubts"] == list(found.doubts)


@pytest.mark.parametrize("cached", [150 * MIB, 200 * MIB, 300 * MIB, 350 * MIB])
def test_a_rate_that_still_falls_past_the_cache_tells_how_much_it_overstates(cached: float) -> None:
    """Two sets larger than the cache give the rate of memory alone, to 1 %, and the probe is trusted with it."""
    found = probe(Machine(cache_bytes=cached, reported_cache_bytes=cached, speedup=3))
    alone = probe(Machine(cache_bytes=0))
    assert found.is_trusted
    assert found.excess == pytest.approx(found.read_bytes_per_s / alone.read_bytes_per_s, rel=0.01)
    assert any("still falling" in note for note in found.notes)
    assert found.to_dict()["excess"] == found.excess


def test_rates_that_fall_by_chance_overstate_nothing() -> None:
    """On a machine whose every reading is off by half, no probe of fifty believes in a fall before a second look."""
    for seed in range(50):
        noise = random.Random(seed)
        found = probe(Machine(reported_cache_bytes=200 * MIB, mood=lambda now, r=noise: r.lognormvariate(0.0, 0.8)))
        assert found.excess == 1.0
        assert found.is_trusted


@pytest.mark.parametrize(("ratio", "excess"), [(0.9, 1.0), (1.0, 1.0), (1.1, 1 / (1 - 0.1 / 1.2)), (50.0, 2.0 * 0.99)])
def test_the_excess_follows_the_model_of_the_knee(ratio: float, excess: float) -> None:
    """A flat or rising rate overstates nothing; one that falls as cached sets do is solved for memory's own."""
    assert plateau_excess(100.0, 200.0, ratio) == pytest.approx(excess, rel=0.02)


def test_sets_that_show_no_cache_at_all_are_not_trusted_where_one_is_reported() -> None:
    """All sets equally fast, and all smaller than the cache: they may lie in it."""
    found = probe(Machine(cache_bytes=2**40, reported_cache_bytes=2**30))
    assert not found.is_trusted
    assert "all of them may have been in the cache" in found.doubts[0]


def test_a_cache_that_few_cores_cannot_have_makes_no_doubt() -> None:
    """A virtual machine of two cores reports the 1 GiB of its host: what is flat from the start is memory."""
    found = probe(Machine(cache_bytes=0, reported_cache_bytes=2**30, cores=2))
    assert found.is_trusted


def test_buffers_shrink_to_the_memory_that_is_free() -> None:
    """With 256 MiB free no set exceeds an eighth of it, and a note says so."""
    small = Machine(free_bytes=256 * MIB)
    found = probe(small)
    assert max(small.allocated) <= 32 * MIB
    assert any("of memory are free" in note for note in found.notes)


def test_a_size_that_does_not_fit_is_dropped_with_a_note() -> None:
    """A MemoryError at 128 MiB costs that size, not the probe."""
    found = probe(Machine(room_bytes=100 * MIB))
    assert max(point.working_set_bytes for point in found.sweep) <= 100 * MIB
    assert any("out of memory" in note for note in found.notes)
    assert found.read_bytes_per_s == pytest.approx(20 * GB, rel=0.3)


def test_no_memory_at_all_is_an_error() -> None:
    """When not even the smallest set fits there is no probe to return."""
    with pytest.raises(MeasurementError, match="out of memory"):
        probe(Machine(room_bytes=0))


@pytest.mark.parametrize("alloc_bytes_per_s", [1e12, 1e9, 2e8])
def test_the_budget_holds_even_where_memory_is_slow_to_come(alloc_bytes_per_s: float) -> None:
    """Three seconds on a CPU, allocation included, whether fresh memory comes at 1 TB/s or at 200 MB/s."""
    slow = Machine(alloc_bytes_per_s=alloc_bytes_per_s)
    found = probe(slow)
    assert found.elapsed_s <= 3.0
    assert slow.clock() <= 3.0


def test_an_accelerator_takes_at_most_a_second() -> None:
    """The default budget of an accelerator is one second."""
    assert probe(Machine(kind="fake")).elapsed_s <= 1.0


def test_max_s_sets_the_budget() -> None:
    """A caller may ask for less, and is refused nonsense."""
    assert probe(Machine(), max_s=0.5).elapsed_s <= 0.6
    for nonsense in (0, -1, float("nan"), float("inf")):
        with pytest.raises(RooflineUsageError, match="max_s"):
            probe(Machine(), max_s=nonsense)


def test_a_missing_triad_lies_between_read_and_copy() -> None:
    """Without a kernel it is interpolated in seconds per byte, two thirds of the way, and a note says so."""
    machine = Machine(cache_bytes=0)
    del machine.rates["triad"]
    found = probe(machine)
    assert 1 / found.triad_bytes_per_s == pytest.approx(1 / (20 * GB) / 3 + 2 / (24 * GB) / 3)
    assert "triad" not in found.kernels
    assert any("triad" in note and "interpolated" in note for note in found.notes)


def test_a_triad_slower_than_its_neighbours_is_not_the_ceiling() -> None:
    """A framework whose triad runs at a third of copy does not lower the ruler of mixed traffic."""
    machine = Machine(cache_bytes=0)
    machine.rates["triad"] = {"add": 8 * GB}
    found = probe(machine)
    assert found.triad_bytes_per_s > 20 * GB
    assert "triad" not in found.kernels


def test_a_backend_that_only_reads_still_gives_a_probe() -> None:
    """Copy stands in for write, and read for copy; each is said."""
    found = probe(Machine(cache_bytes=0, rates={"read": {"load": 20 * GB}}))
    assert found.copy_bytes_per_s == found.write_bytes_per_s == found.triad_bytes_per_s == pytest.approx(20 * GB)
    assert sum("stands in" in note for note in found.notes) == 2


def test_a_backend_without_a_read_is_an_error() -> None:
    """There is no ceiling without a read."""
    with pytest.raises(MeasurementError, match="no backend reads"):
        probe(Machine(rates={}))


def test_no_backends_is_wrong_use() -> None:
    """An empty list names the device."""
    with pytest.raises(RooflineUsageError, match="no backend measures cpu"):
        probe_device(Machine().device(), [])


def test_a_frozen_clock_is_a_clear_error() -> None:
    """A clock that never advances gives no rate, and the message says what happened."""
    frozen = Machine()
    frozen.clock = lambda: 1.0  # type: ignore[method-assign]
    with pytest.raises(MeasurementError, match="clock"):
        probe(frozen)


def test_windows_of_an_asynchronous_device_have_many_launches() -> None:
    """At least twenty, and more where a drain is long: it is never subtracted."""
    quick = Machine(kind="fake")
    kernel = quick.kernels(quick.device(), "read", 512 * MIB)[0]
    assert enter(quick, kernel, quick.device()).launches == ASYNCHRONOUS_LAUNCHES
    slow_drain = Machine(kind="fake", drain_s=0.1)
    kernel = slow_drain.kernels(slow_drain.device(), "read", 512 * MIB)[0]
    entrant = enter(slow_drain, kernel, slow_drain.device())
    assert entrant.run() == pytest.approx(20 * GB, rel=0.2)


def test_a_device_that_runs_behind_is_timed_to_its_end() -> None:
    """The launches return at once; the rate is that of the work all the same."""
    assert probe(Machine(kind="fake", cache_bytes=0)).read_bytes_per_s == pytest.approx(20 * GB)


def test_to_dict_is_plain_json() -> None:
    """Builtin types only, without NaN or infinity, and all that the contract names."""
    found = probe(Machine())
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert {"read_bytes_per_s", "cache_knee_bytes", "sweep", "kernels", "notes"} <= set(json.loads(text))


def test_the_peak_is_measured_once_and_remembered() -> None:
    """The best of several sizes; a second question costs no launch."""
    machine = Machine(cache_bytes=0)
    found = probe(machine)
    assert found.peak_flops_per_s("float32") == pytest.approx(1e12, rel=0.01)
    before = machine.launched
    assert found.peak_flops_per_s("float32") == pytest.approx(1e12, rel=0.01)
    assert machine.launched == before
    assert found.to_dict()["peak_flops_per_s"] == {"float32": pytest.approx(1e12, rel=0.01)}


def test_a_dtype_that_nobody_multiplies_is_wrong_use() -> None:
    """The message names the dtype and what each backend said."""
    with pytest.raises(RooflineUsageError, match="no matmul peak of cpu for int4: machine has no int4"):
        probe(Machine()).peak_flops_per_s("int4")


def test_a_cpu_has_no_link() -> None:
    """Asking for it is wrong use, said plainly."""
    with pytest.raises(RooflineUsageError, match="cpu has no link"):
        _ = probe(Machine()).link_bytes_per_s


def test_a_link_that_no_backend_measures_is_wrong_use() -> None:
    """On an accelerator whose backend offers none, the message names the backends."""
    with pytest.raises(RooflineUsageError, match="cannot be measured by: machine"):
        _ = probe(Machine(kind="fake")).link_bytes_per_s


def test_a_backend_may_offer_the_link() -> None:
    """The optional verb is found, timed, and remembered."""

    class Linked(Machine):
        def link_kernels(self, device: Device, working_set_bytes: float) -> Sequence[Kernel]:
            return [
                Kernel(
                    name="send",
                    pattern="copy",
                    bytes_per_launch=working_set_bytes,
                    working_set_bytes=working_set_bytes,
                    launch=lambda: self.work(working_set_bytes, 12 * GB),
                )
            ]

    found = probe(Linked(kind="fake", cache_bytes=0))
    assert found.link_bytes_per_s == pytest.approx(12 * GB)
    assert found.to_dict()["link_bytes_per_s"] == pytest.approx(12 * GB)


# -- the arena


@dataclass
class Shelf:
    """Stands in for an arena: memory that takes time to fill and none to use."""

    clock: Clock
    fill_bytes_per_s: float
    capacity: tuple[float, float]
    source: float = 0.0
    target: float = 0.0
    trimmed: float | None = None

    def fill(self, source_bytes: float, target_bytes: float, has_time: Callable[[], bool] = lambda: True) -> None:
        """Step by step."""
        for name, wanted in (("source", source_bytes), ("target", target_bytes)):
            wanted = min(wanted, self.capacity[name == "target"])
            while getattr(self, name) < wanted and has_time():
                self.clock.now += 8 * MIB / self.fill_bytes_per_s
                setattr(self, name, min(wanted, getattr(self, name) + 8 * MIB))

    def room_bytes(self, pattern: Pattern) -> int:
        """As of an arena."""
        rooms = {
            "read": self.source,
            "write": self.target,
            "copy": 2 * min(self.source, self.target),
            "triad": 3 * min(self.source / 2, self.target),
        }
        return int(rooms[pattern])

    def trim(self, source_bytes: float) -> None:
        """Remembers it."""
        self.trimmed = source_bytes


@dataclass
class Sharing(Machine):
    """A machine whose kernels are views."""

    fill_bytes_per_s: float = 1e10
    addresses: float = 2**40
    shelves: list[Shelf] = field(default_factory=list)

    def make_arena(self, device: Device, source_bytes: float, target_bytes: float) -> Shelf:
        """As many addresses as there are."""
        if source_bytes > self.addresses:
            raise MemoryError(f"{source_bytes:g} bytes could not be mapped")
        self.shelves.append(Shelf(self.clock_, self.fill_bytes_per_s, (source_bytes, target_bytes)))
        return self.shelves[-1]

    def kernels_in(self, arena: Shelf, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """The same kernels, in no time."""
        assert arena in self.shelves
        before, found = self.clock_.now, self.kernels(self.device(), pattern, working_set_bytes)
        self.clock_.now = before
        assert working_set_bytes <= arena.room_bytes(pattern) or pattern != "read"
        return found


def test_an_arena_serves_all_sizes_and_patterns() -> None:
    """Filled once; the probe is as it would be without, and the arena stays for the rulers."""
    shared = Sharing(cache_bytes=0, alloc_bytes_per_s=1e6)
    found = probe(shared)
    assert found.elapsed_s <= 3.0
    assert found.read_bytes_per_s == pytest.approx(20 * GB)
    assert set(found.kernels) == {"read", "copy", "write", "triad"}
    (shelf,) = shared.shelves
    assert (shelf.source, shelf.target) == (256 * MIB, 128 * MIB)
    assert found.meter is not None
    assert found.meter.arena() is shelf
    for share in (0.0, 0.2, 0.5, 1.0):
        Ruler(shared.device(), [shared], found, written_share=share).measure()
    assert len(shared.shelves) == 1


def test_two_backends_may_have_kernels_of_one_name() -> None:
    """A backend that was added beside the same one that was found: both of its kernels go through the sweep."""
    first = Sharing(cache_bytes=0)
    second = Sharing(cache_bytes=0, clock_=first.clock_, shelves=first.shelves)
    found = probe_device(first.device(), [first, second])
    assert found.read_bytes_per_s == pytest.approx(20 * GB)
    assert found.kernels["read"] == "machine:load"


@pytest.mark.parametrize("fill_bytes_per_s", [1.5e8, 4e8, 1e11])
@pytest.mark.parametrize("slowness", [1.0, 4.0])
def test_the_budget_holds_and_no_pattern_is_dropped(fill_bytes_per_s: float, slowness: float) -> None:
    """However slowly memory comes, and however slow it is: three seconds, all four patterns, and trust."""
    shared = Sharing(fill_bytes_per_s=fill_bytes_per_s, mood=lambda now: 1 / slowness)
    found = probe(shared)
    assert found.elapsed_s <= 3.0
    assert set(found.kernels) == {"read", "copy", "write", "triad"}
    assert found.is_trusted
    assert 8 * MIB <= found.cache_knee_bytes <= 16 * MIB
    assert found.read_bytes_per_s == pytest.approx(20 * GB / slowness, rel=0.15)


def test_a_large_cache_asks_for_more_memory() -> None:
    """A knee of 80 MiB makes the arena grow, as far as time and memory allow; what is over is given back."""
    shared = Sharing(cache_bytes=80 * MIB, reported_cache_bytes=80 * MIB)
    found = probe(shared)
    assert shared.shelves[0].source >= 512 * MIB
    assert found.is_trusted
    assert shared.shelves[0].trimmed == pytest.approx(max(256 * MIB, 8 * found.cache_knee_bytes))


def test_a_reported_cache_is_filled_twice_where_the_cores_may_have_it() -> None:
    """64 cores may have 512 MiB, and two cores may not."""
    for cores, wanted in ((64, 1024 * MIB), (2, 256 * MIB)):
        shared = Sharing(cache_bytes=0, reported_cache_bytes=512 * MIB, cores=cores, fill_bytes_per_s=1e11)
        probe(shared)
        assert shared.shelves[0].source == wanted


def test_little_memory_makes_a_small_arena_that_is_not_kept() -> None:
    """A sixth of what is free; afterwards it is gone, and the rulers of one moment share a new one."""
    shared = Sharing(cache_bytes=0, free_bytes=384 * MIB)
    found = probe(shared)
    assert shared.shelves[0].source == 64 * MIB
    assert any("of memory are free" in note for note in found.notes)
    shared.shelves.clear()
    assert found.meter is not None
    assert found.meter.arena() is None
    with (
        Ruler(shared.device(), [shared], found, written_share=0.0) as one,
        Ruler(shared.device(), [shared], found, written_share=0.5) as other,
    ):
        assert one.measure() == pytest.approx(20 * GB)
        assert other.measure() == pytest.approx(24 * GB)
    assert len(shared.shelves) == 1


def test_a_limit_on_addresses_halves_the_arena() -> None:
    """And where there are none at all each backend allocates for itself, as a note says."""
    limited = Sharing(cache_bytes=0, addresses=512 * MIB)
    assert probe(limited).is_trusted
    assert 128 * MIB <= limited.shelves[0].capacity[0] <= 512 * MIB
    without = Sharing(cache_bytes=0, addresses=0)
    found = probe(without)
    assert found.read_bytes_per_s == pytest.approx(20 * GB)
    assert any("could not be mapped" in note for note in found.notes)


def test_a_framework_with_memory_of_its_own_runs_only_for_want_of_others() -> None:
    """Beside a backend that shares memory, one that allocates is asked for what the other lacks, and else not.

    Nor for a triad, which read and copy give.
    """
    shared = Sharing(cache_bytes=0)
    del shared.rates["write"], shared.rates["triad"]
    other = Machine(name="other", clock_=shared.clock_, cache_bytes=0)
    other.rates = {"read": {"mv": 30 * GB}, "write": {"full": 14 * GB}, "triad": {"add": 30 * GB}}
    found = probe_device(shared.device(), [other, shared])
    assert found.kernels == {"read": "machine:load", "copy": "machine:move", "write": "other:full"}


def test_an_accelerator_has_no_arena() -> None:
    """Even where its backend could make one for the CPU."""
    shared = Sharing(kind="fake", cache_bytes=0)
    assert probe(shared).read_bytes_per_s == pytest.approx(20 * GB)
    assert shared.shelves == []


def test_a_cache_that_keeps_its_share_of_every_set_does_not_raise_the_rate() -> None:
    """On an accelerator the contest is large against the knee: at most 5 % come from the cache."""
    quick = Machine(kind="fake", cache_bytes=40e6, reported_cache_bytes=40e6)
    quick.rates = {"read": {"load": 1e12}, "copy": {"move": 0.9e12}, "write": {"set": 0.8e12}, "triad": {"add": 0.9e12}}
    found = probe(quick)
    assert found.cache_knee_bytes == pytest.approx(40e6, rel=0.1)
    for pattern, kernels in quick.rates.items():
        (rate,) = kernels.values()
        assert getattr(found, f"{pattern}_bytes_per_s") == pytest.approx(rate, rel=0.05)


# -- the ruler


def ruler(machine: Machine, written_share: float, **keywords: Any) -> Ruler:
    """A ruler for the machine after a probe of it."""
    return Ruler(machine.device(), [machine], probe(machine), written_share=written_share, **keywords)


@pytest.mark.parametrize(
    ("share", "patterns", "rate"),
    [
        (0.0, {"read"}, 20.0),
        (1 / 3, {"triad"}, 23.0),
        (0.5, {"copy"}, 24.0),
        (1.0, {"write"}, 15.0),
        (0.25, {"read", "triad"}, 1 / (0.25 / 20 + 0.75 / 23)),
        (0.75, {"copy", "write"}, 1 / (0.5 / 24 + 0.5 / 15)),
    ],
)
def test_the_ruler_measures_only_the_patterns_of_its_mix(share: float, patterns: set[str], rate: float) -> None:
    """One pattern at an anchor, the two around it elsewhere.

    Seconds per byte are interpolated between them.
    """
    measured = ruler(Machine(cache_bytes=0), share)
    assert set(measured.kernels) == patterns
    assert measured.measure() == pytest.approx(rate * GB)


def test_a_ruler_without_a_triad_spans_read_to_copy() -> None:
    """The line between the two neighbours is the mix."""
    machine = Machine(cache_bytes=0)
    del machine.rates["triad"]
    measured = ruler(machine, 0.25)
    assert set(measured.kernels) == {"read", "copy"}
    assert measured.measure() == pytest.approx(GB / (0.5 / 20 + 0.5 / 24))


def test_a_ruler_without_a_write_takes_the_nearest_pattern() -> None:
    """Where nothing is beyond, the pattern below stands alone."""
    machine = Machine(cache_bytes=0)
    del machine.rates["write"]
    assert ruler(machine, 0.9).measure() == pytest.approx(24 * GB)


def test_the_ruler_follows_the_mood_of_the_host() -> None:
    """A reading taken while the host is half as fast is half as high."""
    machine = Machine(cache_bytes=0)
    measured = ruler(machine, 0.0)
    before = measured.measure()
    machine.mood = lambda now: 0.5
    assert measured.measure() == pytest.approx(before / 2)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_a_reading_is_quick(share: float) -> None:
    """Between 20 and 50 ms on the clock of the device, whatever the mix."""
    machine = Machine(cache_bytes=0)
    measured = ruler(machine, share)
    start = machine.clock()
    measured.measure()
    assert 20e-3 <= machine.clock() - start <= 50e-3


def test_a_reading_moves_the_same_bytes_in_any_mood() -> None:
    """A quarter as fast takes four times as long: ending by the clock would be ending behind what held it up."""
    machine = Machine(cache_bytes=0)
    measured = ruler(machine, 0.0)
    start = machine.clock()
    measured.measure()
    middle = machine.clock()
    machine.mood = lambda now: 0.25
    measured.measure()
    assert machine.clock() - middle == pytest.approx(4 * (middle - start), rel=0.01)


def test_the_rulers_buffers_are_past_the_knee() -> None:
    """At least four knees when memory allows; else smaller, and a note says that it may read high."""
    machine = Machine(cache_bytes=64 * MIB)
    found = probe(machine)
    machine.allocated.clear()
    Ruler(machine.device(), [machine], found, written_share=0.0)
    assert min(machine.allocated) >= 4 * found.cache_knee_bytes
    machine.free_bytes = 512 * MIB
    short = Ruler(machine.device(), [machine], found, written_share=0.0)
    assert any("may read high" in note for note in short.notes)


def test_the_ruler_halves_its_buffers_until_they_fit() -> None:
    """A MemoryError shrinks them; nothing at all is an error."""
    machine = Machine()
    found = probe(machine)
    machine.room_bytes = 20 * MIB
    assert Ruler(machine.device(), [machine], found, written_share=0.0).measure() > 0
    machine.room_bytes = 0
    with pytest.raises(MeasurementError, match="out of memory"):
        Ruler(machine.device(), [machine], found, written_share=0.0)


def test_threads_reach_the_backends_that_can_be_set() -> None:
    """The ruler of a framework that runs one thread is a backend with one thread."""

    class Settable(Machine):
        def with_threads(self, threads: int) -> Machine:
            one = Settable(clock_=self.clock_, cache_bytes=0, name=f"{threads} thread")
            one.rates = {"read": {"load": 9 * GB}}
            return one

    machine = Settable(cache_bytes=0)
    measured = ruler(machine, 0.0, threads=1)
    assert measured.kernels == {"read": "1 thread:load"}
    assert measured.measure() == pytest.approx(9 * GB)


def test_a_closed_ruler_refuses() -> None:
    """Its buffers are gone; the context manager closes it."""
    with ruler(Machine(), 0.0) as measured:
        assert measured.measure() > 0
    with pytest.raises(RooflineUsageError, match="closed"):
        measured.measure()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_zero_to_one_is_wrong_use(share: float) -> None:
    """The message gives the share."""
    machine = Machine()
    found = probe(machine)
    with pytest.raises(RooflineUsageError, match="written share"):
        Ruler(machine.device(), [machine], found, written_share=share)
