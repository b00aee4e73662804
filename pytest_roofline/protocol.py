"""What the workshop knows of a framework: a few verbs, which a fake can implement as well as a GPU can.

A backend owns the clock. Everything above it asks `clock()` and never `time`, so that the same code runs on a
virtual clock. All times are seconds on that clock; it never goes backwards and nobody outside can patch it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from pytest_roofline.conditions import Conditions as Conditions
from pytest_roofline.device import Device, Pattern
from pytest_roofline.residency import Surveyor
from pytest_roofline.traffic import Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One way to run an access pattern over buffers that hold written, random data.

    `launch()` does it once and may return before the device has finished. `bytes_per_launch` counts a read of n as
    n, a write as n, a copy as 2n, a triad as 3n (write-allocate is not counted). `working_set_bytes` is the distinct
    memory that one launch touches.
    """

    name: str
    pattern: Pattern
    bytes_per_launch: float
    working_set_bytes: float
    launch: Callable[[], object]


HOST = "host"
"""One end of a link: the memory of the processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPath:
    """One way to move bytes between two memories, and the kernels that do it; n bytes sent count n.

    `is_both_ways`: the same number of bytes goes back at the same time, and is counted too.
    """

    source: str
    """``host``, or the id of a device."""
    target: str
    is_pinned: bool | None
    """Whether the host's memory is page-locked; None between devices."""
    is_both_ways: bool
    kernels: tuple[Kernel, ...]


class Marker(Protocol):
    """A tiny operation queued behind everything that was submitted before it.

    A marker may have a method ``since(moment_s)``, which tells it that its thread submitted nothing from that moment
    until it was made: a device that had nothing to do then was there as early.
    """

    def finished_s(self) -> float:
        """Wait until the device has reached the marker; when that was, on the backend's clock.

        Where that can only be bounded, the earliest moment that is possible.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """What forcing the outputs of a pass showed."""

    arrays: int = 0
    ids: int | None = None
    """Number of integer ids among the outputs; None when none were returned."""
    id_arrays: int = 0
    """Arrays that those ids are in. Where other arrays were returned too, the integers may be positions."""
    notes: tuple[str, ...] = ()
    """Arrays that were deleted or donated, and so could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """One step to look at: called once, not timed."""

    step: Callable[..., Any]
    args: tuple[Any, ...] = ()
    model: Any = None
    batch: int | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one traced step did: its traffic, what it returned, and the devices whose memory it touched."""

    traffic: Traffic
    outputs: Any = None
    device_ids: tuple[str, ...] = ()
    bytes_by_device: tuple[tuple[str, float], ...] = ()
    """Of what was there before the step and had to be read: on which device it lies. Empty where that is not known."""
    context_room: int | None = None
    """Tokens that still fit into a static cache seen in the step; None when no such cache was seen."""
    surveyor: Surveyor | None = None
    """Looks, later, at what lies where the step read; None where this framework cannot tell."""


@runtime_checkable
class Backend(Protocol):
    """One framework, or the bare CPU, or a fake."""

    name: str
    is_lazy: bool
    """Whether work waits until its output is asked for: then each pass is submitted, and forcing it is its work.

    An eager backend may have a method ``holds_lazy(output) -> bool`` for devices on which it is lazy all the same.
    Either may have ``evaluate(output) -> bool``, which has an output computed without reading it (False: it could not).
    """

    is_marker_complete: bool
    """Whether a marker covers every queue; where side streams exist that it cannot know of, a drain may outlast it."""

    def devices(self) -> Sequence[Device]:
        """Every device that this backend can measure on, its preferred one first."""
        ...

    def clock(self) -> float:
        """Seconds on the private monotonic clock, bound when the backend was imported."""
        ...

    def threads(self, device: Device) -> int | None:
        """Threads that the framework uses now on this device; None where threads are not a setting."""
        ...

    def free_memory_bytes(self, device: Device) -> float:
        """Memory that buffers may take now."""
        ...

    def kernels(self, device: Device, pattern: Pattern, working_set_bytes: float) -> Sequence[Kernel]:
        """Every kernel for the pattern, over buffers of that total size; raises MemoryError when they do not fit.

        Buffers live as long as the kernels do. Kernels differ in code, not in what they count.
        """
        ...

    def matmul(self, device: Device, dtype: str, size: int) -> Callable[[], object]:
        """A square matrix product (2 * size**3 FLOPs) on random data; raises RooflineUsageError for no such dtype."""
        ...

    def has_context(self) -> bool:
        """Whether this process already uses the framework: only then is it drained, and none is ever created."""
        ...

    def prepare(self) -> None:
        """Import and compile whatever the other verbs need, so that none of it is taken for the step's own time.

        Called before the step is looked at, once per measurement, on every backend that may trace the pass or be
        drained around it: a second call must cost next to nothing. It must neither create a context, start a client
        or submit work of the test's, nor change a setting of the framework; where the framework is not in use yet
        there is nothing to do.
        """
        ...

    def drain(self) -> None:
        """Wait until every stream of every device in use is idle, and anything dropped unread has run too.

        Raises RooflineUsageError inside graph capture, where waiting is not possible.
        """
        ...

    def submit(self, output: Any) -> None:
        """Hand a lazy framework the graph of this pass without waiting; eager frameworks do nothing."""
        ...

    def force(self, output: Any) -> Forced:
        """Evaluate every array of this framework in the output and read one element of each to the host."""
        ...

    def mark(self) -> Marker | None:
        """Queue a marker behind what was submitted so far, without waiting; None where nothing can be pending."""
        ...

    def device_of(self, obj: Any) -> str | None:
        """Id of the device that holds this model or array (a list: its first); None when it is of another framework."""
        ...

    def trace(self, request: TraceRequest) -> Trace | None:
        """Run the step once and account for its bytes; None when this framework cannot."""
        ...

    def conditions(self, device: Device) -> Conditions:
        """Clocks, power, neighbours: whatever can be read within a millisecond or so, and never an error.

        Where a driver does not answer the fields stay None. Readings are taken around a measurement and between its
        blocks; of a device that works beside the host also while blocks run, from a thread of their own.
        """
        ...


@dataclass(frozen=True, slots=True)
class WatchedClock:
    """A public clock that test code may read: where it lives and what its readings are worth in seconds.

    A backend on a virtual clock may have a method ``public_clocks() -> Sequence[WatchedClock]``, the clocks of its
    host: an audit puts their `read` in the place of the real ones for as long as it lasts. The method is no part of
    `Backend`, and others lack it: ``getattr(backend, "public_clocks", None)``.
    """

    module: str
    name: str
    seconds_per_unit: float
    read: Callable[[], float] = field(compare=False)


@dataclass(frozen=True, slots=True)
class WatchedEvents:
    """A class of device events that test code may time with: ``start.record()``, ``end.record()``, their difference.

    A backend may have a method ``event_classes() -> Sequence[WatchedEvents]``; like `public_clocks` it is no part of
    `Backend`. An audit sees calls of the two methods for as long as it lasts.
    """

    name: str
    owner: type
    record: str
    """Method that queues the event."""
    elapsed: str
    """Method of the start event that takes the end event and returns the time between the two."""
    seconds_per_unit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """One reading of a counter: it was taken between two moments of the backend's clock, and may be older still."""

    before_s: float
    after_s: float
    held: Any = field(compare=False)
    """Whatever the counter needs to compare it with another one."""


class TrafficCounter(Protocol):
    """A device's own count of what moves through its memory: reads and writes, of everybody, none from cache.

    A backend may have a method ``traffic_counter(device) -> TrafficCounter | None``; like `public_clocks` it is no
    part of `Backend`. None where the device has no counter. No method raises because the device refuses an answer.
    """

    source: str
    """Which counter this is, as text."""
    refresh_s: float
    """A reading may be that old: the device does not renew it more often."""
    step_bytes_per_s: float
    """What the rate between two readings may be off by, because it comes in steps."""

    def settle(self) -> None:
        """Wait until a reading holds everything that moved before."""
        ...

    def read(self) -> CounterReading | None:
        """A reading now, which costs little; None when it is refused."""
        ...

    def bytes_per_s(self, first: CounterReading, second: CounterReading) -> float | None:
        """The mean rate between two readings, in the counter's own unit; None when it is refused."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Something was compiled, or captured into a graph, between two moments of the backend's clock."""

    what: str
    start_s: float
    end_s: float


class CompileLog(Protocol):
    """What a framework compiled since the log was opened.

    A backend may have a method ``open_compile_log() -> CompileLog``; like `public_clocks` it is no part of `Backend`.
    """

    def entries(self) -> Sequence[Compilation]:
        """What was seen so far, in order."""
        ...

    def poll(self) -> None:
        """Notice a compiler that was imported since the log was opened; costs next to nothing."""
        ...

    def close(self) -> None:
        """Stop listening and leave nothing behind in the framework."""
        ...
