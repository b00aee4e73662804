"""One fake device as a list of figures: how fast it is, how it queues, what disturbs it and how it lies."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from pytest_roofline.backends.fake_counter import MemoryCounter
from pytest_roofline.backends.fake_memory import CachePolicy
from pytest_roofline.backends.fake_weather import Neighbour, Noise, NoiseTrace, Throttle, resolve_noise
from pytest_roofline.conditions import Conditions
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.roofline import Rates

SyncLie = Literal["early", "wrong-stream", "wrong-device"]
"""How `synchronize` fails to wait: not at all; for the default stream only; for another device."""

_QUIET = Conditions()
_DTYPE_SHARES: tuple[tuple[str, float, int], ...] = (
    ("bfloat16", 1.0, 2),
    ("float16", 1.0, 2),
    ("float32", 0.5, 4),
    ("float64", 0.25, 8),
    ("float8_e4m3fn", 2.0, 1),
    ("int8", 2.0, 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDevice:
    """Figures of one fake device; the defaults are a small GPU.

    Rates are what a kernel of full efficiency reaches. Everything here can also be given to `FakeBackend` by
    keyword::

        FakeBackend(FakeDevice(queue_depth=32))
        FakeBackend(queue_depth=32)                                   # the same
    """

    name: str = "Fake Accelerator"

    read_bytes_per_s: float = 1e12
    copy_share: float = 0.90
    """Rate of a copy (n bytes counted 2n) as a share of the read rate; the next two likewise."""
    write_share: float = 0.92
    triad_share: float = 0.87
    cache_bytes: float = 40e6
    cache_rate_factor: float = 4.0
    """How many times faster than memory the cache reads and writes."""
    cache_policy: CachePolicy = "lru"
    """`lru`: a loop over more than the cache hits nothing. `best`: up to `cache_bytes` of any loop hit."""
    peak_flops_per_s: float | Mapping[str, float] = 100e12
    """Dense peak of bfloat16 (float32 has half, 8-bit types twice of it), or peaks by dtype name."""
    memory_bytes: float = 16e9
    sheet_bytes_per_s: float | Literal["derived"] | None = "derived"
    """Datasheet bandwidth by the driver, 1.1 times the read rate unless given; None: it tells nothing."""
    compresses: bool = False
    """Whether memory traffic costs bytes x entropy: predictable and constant data then beat the read rate."""

    link_bytes_per_s: float | None = 25e9
    """From page-locked memory of the host to the device, and back; None: there is no link."""
    pageable_share: float = 0.4
    """Rate of pageable memory of the host as a share of that."""
    duplex_factor: float = 1.8
    """Both ways at once, counted together, against one way."""
    peer_bytes_per_s: float | None = 100e9
    """To another fake device, and back; None: there is no such path."""

    launch_s: float = 5e-6
    """Host time of one launch, or of replaying one graph."""
    sync_s: float = 2e-6
    """Host time of a synchronize, drain or read of one element that has nothing to wait for."""
    queue_depth: int = 1024
    """Unfinished launches per stream: one more blocks the host until the oldest has finished."""

    noise: str | Noise | NoiseTrace | Sequence[str | Noise | NoiseTrace] | None = None
    """`gaussian`, `drift`, `bursts`, `heavy-tail`, `step-change`, a function, a trace, or several of them."""
    throttle: Sequence[Throttle] = ()
    neighbours: Sequence[Neighbour] = ()
    state: Conditions | Callable[[float], Conditions] = _QUIET
    """Everything else that `conditions()` tells: power, temperature, memory errors, persistence, a governor, counters;
    or a function of the moment of virtual time. One that raises is a driver that went away."""

    sync_lies: SyncLie | None = None
    drain_lies: bool = False
    """Whether the drain of the backend returns early too: only `force` and markers then tell the truth."""
    event_scale: float = 1.0
    """Factor on elapsed times of events: 1e-3 is a unit error, 0 a dead clock, -1 runs backwards."""
    event_at_enqueue: bool = False
    """Whether an event takes its time when it is queued instead of when the device reaches it."""
    counter: MemoryCounter | None = None
    """How the device counts its own memory traffic; None: it has no such counter."""
    lost_at_s: float | None = None
    """From this moment of virtual time on, everything that touches the device raises RuntimeError."""

    def __post_init__(self) -> None:
        for name in (
            "read_bytes_per_s",
            "copy_share",
            "write_share",
            "triad_share",
            "cache_rate_factor",
            "memory_bytes",
            "pageable_share",
            "duplex_factor",
        ):
            self._require(name, getattr(self, name), positive=True)
        for name in ("link_bytes_per_s", "peer_bytes_per_s"):
            if getattr(self, name) is not None:
                self._require(name, getattr(self, name), positive=True)
        for name in ("cache_bytes", "launch_s", "sync_s"):
            self._require(name, getattr(self, name), positive=False)
        if isinstance(self.queue_depth, bool) or not isinstance(self.queue_depth, int) or self.queue_depth < 1:
            raise RooflineUsageError(
                f"fake device: queue_depth is {self.queue_depth!r}; it must be an integer, 1 or more"
            )
        if self.cache_policy not in get_args(CachePolicy):
            raise RooflineUsageError(f"fake device: cache_policy is {self.cache_policy!r}; it must be 'lru' or 'best'")
        if self.sync_lies is not None and self.sync_lies not in get_args(SyncLie):
            raise RooflineUsageError(
                f"fake device: sync_lies is {self.sync_lies!r}; known are {', '.join(get_args(SyncLie))}, or None"
            )
        if isinstance(self.sheet_bytes_per_s, str) and self.sheet_bytes_per_s != "derived":
            raise RooflineUsageError(
                f"fake device: sheet_bytes_per_s is {self.sheet_bytes_per_s!r}; it must be bytes/s, None or 'derived'"
            )
        if isinstance(self.sheet_bytes_per_s, (int, float)):
            self._require("sheet_bytes_per_s", self.sheet_bytes_per_s, positive=True)
        for dtype, peak in self.peaks().items():
            self._require(f"peak_flops_per_s of {dtype}", peak, positive=True)
        resolve_noise(self.noise)

    @staticmethod
    def _require(name: str, value: float, *, positive: bool) -> None:
        if math.isnan(value) or math.isinf(value) or value < 0 or (positive and value == 0):
            allowed = "a positive number" if positive else "0 or more"
            raise RooflineUsageError(f"fake device: {name} is {value}; it must be {allowed}")

    def changed(self, **changes: Any) -> FakeDevice:
        """The same device with other figures; an unknown name is an error that lists the nearest."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3) or known
                raise RooflineUsageError(f"fake device: no parameter {name!r}; did you mean {', '.join(near)}?")
        return replace(self, **changes)

    @property
    def rates(self) -> Rates:
        """Bandwidth by access pattern, bytes/s."""
        return Rates(
            read_bytes_per_s=self.read_bytes_per_s,
            copy_bytes_per_s=self.read_bytes_per_s * self.copy_share,
            write_bytes_per_s=self.read_bytes_per_s * self.write_share,
            triad_bytes_per_s=self.read_bytes_per_s * self.triad_share,
        )

    @property
    def datasheet_bytes_per_s(self) -> float | None:
        """What the driver says that the bus can do."""
        if isinstance(self.sheet_bytes_per_s, str):
            return 1.1 * self.read_bytes_per_s
        return self.sheet_bytes_per_s

    def peaks(self) -> dict[str, float]:
        """Dense peak by the name of the dtype, FLOP/s."""
        if isinstance(self.peak_flops_per_s, Mapping):
            if not self.peak_flops_per_s:
                raise RooflineUsageError("fake device: peak_flops_per_s is empty; give a peak for at least one dtype")
            return dict(self.peak_flops_per_s)
        return {dtype: share * self.peak_flops_per_s for dtype, share, _ in _DTYPE_SHARES}

    def peak(self, dtype: str | None) -> float:
        """Peak of one dtype, FLOP/s; None means bfloat16, or the largest where that has none."""
        peaks = self.peaks()
        if dtype is None:
            return peaks.get("bfloat16", max(peaks.values()))
        if dtype not in peaks:
            raise RooflineUsageError(f"fake device: no products in dtype {dtype!r}; it has {', '.join(sorted(peaks))}")
        return peaks[dtype]

    @staticmethod
    def item_bytes(dtype: str) -> int:
        """Bytes of one element; 4 for a dtype that only `peak_flops_per_s` knows."""
        return {name: size for name, _, size in _DTYPE_SHARES}.get(dtype, 4)
