"""What holds on the fake device whatever is done with it."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_roofline.backends.fake import FakeBackend, Neighbour, Throttle, bursts, drift, heavy_tail
from pytest_roofline.backends.fake_memory import BestCache, LruCache
from pytest_roofline.protocol import TraceRequest

# Nothing here may depend on the speed or the mood of the machine.
steady = settings(
    deadline=None,
    derandomize=True,
    max_examples=80,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)

STREAMS = st.sampled_from([None, "side", "library"])
SIZES = st.floats(min_value=0, max_value=1e9)
ACTIONS = st.one_of(
    st.tuples(st.just("launch"), SIZES, SIZES, STREAMS),
    st.tuples(st.just("buffer"), st.floats(min_value=0.01, max_value=2.0), STREAMS),
    st.tuples(st.just("host"), st.floats(min_value=0, max_value=1e-2)),
    st.tuples(st.just("synchronize"), st.sampled_from([None, "default", "side", "library"])),
    st.tuples(st.just("drain")),
    st.tuples(st.just("force")),
    st.tuples(st.just("mark")),
    st.tuples(st.just("clock")),
    st.tuples(st.just("replay")),
    st.tuples(st.just("trace")),
)
ADDED_NOISE = st.sampled_from([None, bursts(0.01, 0.002), heavy_tail(0.3), drift(0.1)])
HARDWARE = st.fixed_dictionaries(
    {
        "queue_depth": st.integers(min_value=1, max_value=40),
        "cache_policy": st.sampled_from(["lru", "best"]),
        "sync_lies": st.sampled_from([None, "early", "wrong-stream", "wrong-device"]),
        "noise": ADDED_NOISE,
        "seed": st.integers(min_value=0, max_value=9),
        "throttle": st.sampled_from([(), (Throttle(start_s=1e-3, end_s=5e-3, slowdown=3.0),)]),
        "neighbours": st.sampled_from([(), (Neighbour(start_s=2e-3, end_s=9e-3, share=0.5),)]),
    }
)


class Run:
    """A backend driven by a list of actions, with a running check of what must hold after each."""

    def __init__(self, hardware: dict[str, Any]) -> None:
        self.backend = FakeBackend(**hardware)
        self.queue_depth = hardware["queue_depth"]
        self.buffer = self.backend.buffer(90e6)
        self.graph = self.backend.graph(lambda: self.backend.launch(read_bytes=1e6))
        self.last: Any = None
        self.memory_bytes = 0.0
        self.seen_s = self.backend.now_s()

    def act(self, action: tuple[Any, ...]) -> None:
        """Do one thing, then look at the clock and the queues."""
        backend, (verb, *arguments) = self.backend, action
        if verb == "launch":
            read, written, stream = arguments
            self.memory_bytes += read + written
            self.last = backend.launch(read_bytes=read, write_bytes=written, stream=stream)
        elif verb == "buffer":
            self.last = backend.launch(
                buffer=self.buffer, read_bytes=arguments[0] * self.buffer.size_bytes, stream=arguments[1]
            )
        elif verb == "host":
            backend.host(arguments[0])
        elif verb == "synchronize":
            backend.synchronize(arguments[0])
        elif verb == "force":
            backend.force(self.last)
            assert self.last is None or self.last.is_ready()
        elif verb == "mark":
            marker = backend.mark()
            assert marker.finished_s() <= backend.now_s()
        elif verb == "replay":
            self.memory_bytes += 1e6
            self.graph.replay()
        elif verb == "trace":
            self.memory_bytes += 1e6
            backend.trace(TraceRequest(step=lambda: backend.launch(read_bytes=1e6)))
        else:
            getattr(backend, verb)()
        now_s = backend.now_s()
        assert now_s >= self.seen_s
        self.seen_s = now_s
        for stream in ("default", "side", "library"):
            assert backend.pending(stream) <= self.queue_depth


@steady
@given(hardware=HARDWARE, actions=st.lists(ACTIONS, max_size=60))
def test_time_moves_forward_and_queues_stay_bounded(hardware: dict[str, Any], actions: list[Any]) -> None:
    """Whatever is called, time never goes back, queues keep their depth and a drain empties them."""
    run = Run(hardware)
    for action in actions:
        run.act(action)
    run.backend.drain()
    assert run.backend.pending() == 0
    assert run.backend.pending_s() == 0


@steady
@given(hardware=HARDWARE, actions=st.lists(ACTIONS, max_size=60))
def test_no_bytes_are_moved_faster_than_memory(hardware: dict[str, Any], actions: list[Any]) -> None:
    """The device is busy for at least the bytes that no cache can hold, at the fastest rate there is."""
    run = Run(hardware)
    for action in actions:
        run.act(action)
    run.backend.drain()
    assert run.backend.busy_s() >= run.memory_bytes / 1e12 * (1 - 1e-9) - 1e-12
    assert run.backend.now_s() >= run.backend.busy_s() * (1 - 1e-9) - 1e-12


@steady
@given(hardware=HARDWARE, actions=st.lists(ACTIONS, max_size=30))
def test_the_same_calls_take_the_same_time(hardware: dict[str, Any], actions: list[Any]) -> None:
    """Two backends with the same seed and the same calls end at the same moment, exactly."""
    runs = [Run(hardware), Run(hardware)]
    for run in runs:
        for action in actions:
            run.act(action)
        run.backend.drain()
    assert runs[0].backend.now_s() == runs[1].backend.now_s()
    assert runs[0].backend.busy_s() == runs[1].backend.busy_s()


@steady
@given(
    sizes=st.lists(st.floats(min_value=1e3, max_value=1e9), min_size=1, max_size=30),
    order=st.lists(STREAMS, min_size=30, max_size=30),
)
def test_streams_change_nothing_about_the_total(sizes: list[float], order: list[str | None]) -> None:
    """Work spread over streams occupies the device as long as on a single one."""
    spread, single = FakeBackend(), FakeBackend()
    for size_bytes, stream in zip(sizes, order, strict=False):
        spread.launch(read_bytes=size_bytes, stream=stream)
        single.launch(read_bytes=size_bytes)
    assert spread.pending_s() == single.pending_s()


@steady
@given(parents=st.lists(st.lists(st.integers(min_value=0, max_value=30), max_size=3), min_size=1, max_size=30))
def test_lazy_graph_runs_exactly_what_is_needed(parents: list[list[int]]) -> None:
    """Forcing the last node of any graph runs its ancestors, each once, each after what it depends on."""
    backend = FakeBackend(is_lazy=True)
    nodes: list[Any] = []
    needed: list[set[int]] = []
    for index, wanted in enumerate(parents):
        before = [number % index for number in wanted] if index else []
        nodes.append(backend.launch(seconds=1e-3, inputs=[nodes[number] for number in before]))
        needed.append({index}.union(*(needed[number] for number in before)))
    backend.force(nodes[-1])
    assert backend.launches() == len(needed[-1])
    assert [index for index, node in enumerate(nodes) if node.ready_s is not None] == sorted(needed[-1])
    for index in needed[-1]:
        assert all(nodes[number].ready_s <= nodes[index].ready_s for number in needed[index])


def simulate(scans: list[tuple[int, int]], cache_bytes: int) -> list[int]:
    """Hits of each scan when the least recently used byte goes first; key 0 is new data each time."""
    held: dict[tuple[int, int], None] = {}
    hits = []
    for number, (buffer, length) in enumerate(scans):
        key = buffer or -1 - number
        found = 0
        for byte in range(length):
            found += (key, byte) in held
            held.pop((key, byte), None)
            held[(key, byte)] = None
            if len(held) > cache_bytes:
                del held[next(iter(held))]
        hits.append(found)
    return hits


SCANS = st.lists(st.tuples(st.integers(min_value=0, max_value=3), st.integers(min_value=0, max_value=12)), max_size=40)


@steady
@given(scans=SCANS, cache_bytes=st.integers(min_value=1, max_value=24))
def test_lru_cache_agrees_with_a_simulation(scans: list[tuple[int, int]], cache_bytes: int) -> None:
    """The hits of every scan are those of a cache simulated byte by byte."""
    cache = LruCache(cache_bytes)
    hits = [cache.scan(key, length) if key else cache.stream(length) or 0 for key, length in scans]
    assert hits == simulate(scans, cache_bytes)


@steady
@given(
    lengths=st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=6),
    cache_bytes=st.integers(min_value=1, max_value=60),
)
def test_best_cache_serves_its_size_in_every_round(lengths: list[int], cache_bytes: int) -> None:
    """A loop over any buffers hits as many bytes per round as the cache holds, or all of them."""
    cache = BestCache(cache_bytes)
    rounds = [sum(cache.scan(key, length) for key, length in enumerate(lengths, 1)) for _ in range(4)]
    assert rounds == [0, *[min(cache_bytes, sum(lengths))] * 3]
