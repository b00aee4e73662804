"""What code under test holds of a fake device: arrays, events and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

from pytest_roofline.backends.fake_queue import DEFAULT_STREAM, Launch


class Runtime(Protocol):
    """What arrays, events and graphs ask of the host that made them."""

    def now_s(self) -> float:
        """The private clock, not advanced."""
        ...

    def settle(self, launch: Launch) -> None:
        """Submit a launch if nobody has, and wait until it is done."""
        ...

    def tail_s(self, stream: str, device: int) -> float:
        """When what is queued on a stream is done, or now."""
        ...

    def wait_until(self, moment_s: float, device: int) -> None:
        """Let virtual time pass."""
        ...

    def event_figures(self, device: int) -> tuple[float, bool]:
        """Scale of event times, and whether they are taken at enqueue."""
        ...

    def replay(self, graph: FakeGraph) -> None:
        """Run every launch of a graph for the host cost of one."""
        ...


class FakeArray:
    """An array on a fake device: the promise of a launch, or data that was put there.

    Like the arrays of an asynchronous framework it is handed out before the device has written it. `item()`
    and `block_until_ready()` wait; `value` is what the simulation knows already, and reading it waits for
    nothing. `ready_s` is the moment of virtual time at which the device has written it, None while a lazy one
    has not run.
    """

    __slots__ = ("_runtime", "device_index", "is_deleted", "is_int", "launch", "serial", "size", "value")

    def __init__(
        self,
        runtime: Runtime,
        launch: Launch | None,
        device_index: int,
        serial: int,
        size: int,
        is_int: bool,
        value: Any,
    ) -> None:
        self._runtime = runtime
        self.launch = launch
        self.device_index = device_index
        self.serial = serial
        self.size = size
        self.is_int = is_int
        self.value = value
        self.is_deleted = False

    @property
    def device(self) -> str:
        """Id of its device: ``fake:0``."""
        return f"fake:{self.device_index}"

    @property
    def ready_s(self) -> float | None:
        """When the device has written it, on the private clock; None when that was never submitted."""
        return 0.0 if self.launch is None else self.launch.finished_s

    def is_ready(self) -> bool:
        """Whether the device has written it by now."""
        ready_s = self.ready_s
        return ready_s is not None and ready_s <= self._runtime.now_s()

    def block_until_ready(self) -> FakeArray:
        """Run it where it is lazy, wait for it, return it."""
        self._require_alive()
        if self.launch is not None:
            self._runtime.settle(self.launch)
        return self

    def item(self) -> Any:
        """Its value, read to the host once the device has written it."""
        self.block_until_ready()
        return self.value

    def delete(self) -> None:
        """Give it up, as donation does: reading it becomes an error; the work that writes it still runs."""
        self.is_deleted = True

    def _require_alive(self) -> None:
        if self.is_deleted:
            raise RuntimeError("fake array has been deleted: it was donated or freed")

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted else "ready" if self.is_ready() else "pending"
        return f"FakeArray(size={self.size}, is_int={self.is_int}, {self.device}, {state})"


class FakeEvent:
    """A time stamp on a stream. Its elapsed times lie as the device's `event_scale` and `event_at_enqueue`
    say.

    ::

        start, end = backend.event(), backend.event()
        start.record()
        model.step()
        end.record()
        end.synchronize()
        seconds = start.elapsed_s(end)
    """

    __slots__ = ("_device", "_reached_s", "_runtime", "_stamp_s")

    def __init__(self, runtime: Runtime, device: int) -> None:
        self._runtime = runtime
        self._device = device
        self._reached_s: float | None = None
        self._stamp_s = 0.0

    def record(self, stream: str | None = None) -> None:
        """Queue the stamp behind what one stream holds now, seeing no other; costs the host nothing."""
        self._reached_s = self._runtime.tail_s(stream or DEFAULT_STREAM, self._device)
        at_enqueue = self._runtime.event_figures(self._device)[1]
        self._stamp_s = self._runtime.now_s() if at_enqueue else self._reached_s

    def query(self) -> bool:
        """Whether the device has reached it; True for an event that was never recorded."""
        return self._reached_s is None or self._reached_s <= self._runtime.now_s()

    def synchronize(self) -> None:
        """Wait until the device has reached it."""
        if self._reached_s is not None:
            self._runtime.wait_until(self._reached_s, self._device)

    def elapsed_s(self, end: FakeEvent) -> float:
        """Seconds from this event to `end`; RuntimeError unless both were recorded and reached."""
        if self._reached_s is None or end._reached_s is None:
            raise RuntimeError("fake event: elapsed time of an event that was never recorded")
        if not (self.query() and end.query()):
            raise RuntimeError("fake event: not reached yet; synchronize the event before asking for a time")
        scale = self._runtime.event_figures(self._device)[0]
        return (end._stamp_s - self._stamp_s) * scale


class FakeGraph:
    """Launches captured once and replayed for the host cost of a single launch; made by `FakeBackend.graph`.

    `outputs` is what the captured function returned. Its arrays are static: every replay writes the same ones
    anew.
    """

    __slots__ = ("_runtime", "launches", "outputs")

    def __init__(self, runtime: Runtime, launches: Sequence[Launch], outputs: Any) -> None:
        self._runtime = runtime
        self.launches = tuple(launches)
        self.outputs = outputs

    def replay(self) -> Any:
        """Run the captured launches once; the same outputs every time."""
        self._runtime.replay(self)
        return self.outputs


class FakeMarker:
    """A point behind everything that was queued when it was set."""

    __slots__ = ("_moment_s", "_wait")

    def __init__(self, moment_s: float, wait: Callable[[float], Any]) -> None:
        self._moment_s = moment_s
        self._wait = wait

    def finished_s(self) -> float:
        """Wait until the device has reached the marker; when that was, on the private clock, exactly."""
        self._wait(self._moment_s)
        return self._moment_s


def arrays_in(output: Any) -> Iterator[FakeArray]:
    """Every fake array in mappings, sequences, sets and dataclasses, each once, in order."""
    seen: set[int] = set()
    stack: list[Any] = [output]
    while stack:
        part = stack.pop()
        if isinstance(part, (str, bytes, int, float, type(None))) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, FakeArray):
            yield part
        elif isinstance(part, Mapping):
            stack.extend(reversed(list(part.values())))
        elif isinstance(part, (list, tuple, set, frozenset)):
            stack.extend(reversed(list(part)))
        elif is_dataclass(part) and not isinstance(part, type):
            stack.extend(getattr(part, field.name) for field in reversed(fields(part)))
