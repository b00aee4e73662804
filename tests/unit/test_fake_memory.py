"""Buffers and the cache of the fake device."""

from __future__ import annotations

import pytest

from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.backends.fake_memory import BestCache, LruCache
from pytest_roofline.errors import RooflineUsageError


def rate(backend: FakeBackend, size_bytes: float, rounds: int = 4, **buffer: str) -> float:
    """Bytes/s of re-reading one buffer, after a first round."""
    held = backend.buffer(size_bytes, **buffer)  # type: ignore[arg-type]
    backend.launch(buffer=held)
    before_s = backend.busy_s()
    for _ in range(rounds):
        backend.launch(buffer=held)
    return rounds * size_bytes / (backend.busy_s() - before_s)


@pytest.mark.parametrize("policy", ["lru", "best"])
def test_small_buffer_reads_at_the_rate_of_the_cache(policy: str) -> None:
    """A buffer that fits the cache is read at four times the rate of memory, whatever the policy."""
    backend = FakeBackend(cache_policy=policy)
    assert rate(backend, 8e6) == pytest.approx(4e12)


def test_lru_scan_over_the_cache_hits_nothing() -> None:
    """Re-reading a buffer slightly larger than an LRU cache runs at the rate of memory."""
    assert rate(FakeBackend(cache_policy="lru"), 41e6) == pytest.approx(1e12)


def test_best_cache_serves_its_size_of_any_buffer() -> None:
    """With the kindest policy 40 of 160 MB come from cache."""
    seconds = 120e6 / 1e12 + 40e6 / 4e12
    assert rate(FakeBackend(cache_policy="best"), 160e6) == pytest.approx(160e6 / seconds)


def test_best_cache_serves_a_loop_over_several_buffers() -> None:
    """A loop over two buffers of one cache each gets one cache of hits per round."""
    backend = FakeBackend(cache_policy="best")
    buffers = [backend.buffer(40e6) for _ in range(2)]
    for _ in range(2):
        for buffer in buffers:
            backend.launch(buffer=buffer)
    before_s = backend.busy_s()
    for buffer in buffers:
        backend.launch(buffer=buffer)
    assert backend.busy_s() - before_s == pytest.approx(40e6 / 1e12 + 40e6 / 4e12)


def test_best_cache_moves_on_to_new_data() -> None:
    """Data that is no longer read loses its place once other data was read twice."""
    cache = BestCache(100)
    assert [cache.scan(1, 100), cache.scan(1, 100)] == [0, 100]
    assert [cache.scan(2, 100), cache.scan(2, 100), cache.scan(2, 100)] == [0, 0, 100]
    assert cache.scan(1, 100) == 0
    cache.forget(2)
    assert [cache.scan(1, 100), cache.scan(1, 100)] == [0, 100]


def test_lru_cache_forgets_what_a_stream_pushed_out() -> None:
    """Reading other data evicts, oldest first; what still fits stays."""
    cache = LruCache(100)
    cache.scan(1, 40)
    cache.scan(2, 40)
    cache.stream(30)
    assert cache.scan(2, 40) == 40
    assert cache.scan(1, 40) == 0


def test_lru_cache_knows_prefixes() -> None:
    """The bytes beyond a re-read prefix age on their own."""
    cache = LruCache(100)
    cache.scan(1, 60)
    assert cache.scan(1, 20) == 20
    cache.scan(2, 50)
    assert cache.scan(1, 60) == 20


def test_small_streams_age_what_is_cached() -> None:
    """A thousand small pieces of other data evict as one large piece does."""
    cache = LruCache(1000)
    cache.scan(1, 10)
    for _ in range(990):
        cache.stream(1)
    assert cache.scan(1, 10) == 10
    for _ in range(991):
        cache.stream(1)
    assert cache.scan(1, 10) == 0


def test_divided_model_fills_the_memory() -> None:
    """Rounding of sizes divided by three does not make a full memory overflow."""
    backend = FakeBackend(memory_bytes=1e9)
    kept = [backend.buffer(1e9 / 3) for _ in range(3)]
    assert backend.free_memory_bytes(backend.devices()[0]) < 1
    with pytest.raises(MemoryError):
        backend.buffer(2)
    assert len(kept) == 3


def test_anonymous_bytes_never_hit() -> None:
    """Bytes without a buffer are fresh data: never cached, and they evict what was."""
    backend = FakeBackend()
    times_s = []
    for _ in range(2):
        before_s = backend.busy_s()
        backend.launch(read_bytes=1e6)
        times_s.append(backend.busy_s() - before_s)
    assert times_s == pytest.approx([1e-6, 1e-6])
    small = backend.buffer(1e6)
    backend.launch(buffer=small)
    backend.launch(read_bytes=40e6)
    before_s = backend.busy_s()
    backend.launch(buffer=small)
    assert backend.busy_s() - before_s == pytest.approx(1e-6)


def test_written_data_stays_in_cache() -> None:
    """What was just written is read from cache."""
    backend = FakeBackend()
    buffer = backend.buffer(4e6)
    backend.launch(writes=buffer)
    before_s = backend.busy_s()
    backend.launch(buffer=buffer)
    assert backend.busy_s() - before_s == pytest.approx(1e-6)


def test_reading_more_than_the_buffer_goes_round_again() -> None:
    """A kernel that reads a buffer three times hits in the second and third round when it fits."""
    backend = FakeBackend()
    buffer = backend.buffer(4e6)
    backend.launch(buffer=buffer, read_bytes=12e6)
    assert backend.busy_s() == pytest.approx(4e-6 + 2e-6)
    large = backend.buffer(100e6)
    before_s = backend.busy_s()
    backend.launch(buffer=large, read_bytes=250e6)
    assert backend.busy_s() - before_s == pytest.approx(250e-6)


def test_untouched_memory_reads_at_the_rate_of_the_cache() -> None:
    """Zero pages are read four times too fast at any size, until they are written."""
    backend = FakeBackend()
    buffer = backend.buffer(4e9, data="untouched")
    backend.launch(buffer=buffer)
    assert backend.busy_s() == pytest.approx(1e-3)
    backend.launch(writes=buffer)
    assert buffer.data == "random"
    before_s = backend.busy_s()
    backend.launch(buffer=buffer)
    assert backend.busy_s() - before_s == pytest.approx(4e-3)


@pytest.mark.parametrize(("data", "factor"), [("random", 1), ("predictable", 3), ("constant", 4)])
def test_compressing_device_moves_fewer_bytes(data: str, factor: float) -> None:
    """With `compresses`, memory costs bytes x entropy; random data gains nothing."""
    assert rate(FakeBackend(compresses=True), 1e9, data=data) == pytest.approx(factor * 1e12)
    assert rate(FakeBackend(), 1e9, data=data) == pytest.approx(1e12)


def test_memory_is_taken_and_given_back() -> None:
    """A buffer takes memory until it is freed or dropped; freeing twice counts once."""
    backend = FakeBackend(memory_bytes=1e9)
    (device,) = backend.devices()
    first = backend.buffer(6e8)
    assert backend.free_memory_bytes(device) == pytest.approx(4e8)
    with pytest.raises(MemoryError, match="6e\\+08 bytes wanted, 4e\\+08 of 1e\\+09"):
        backend.buffer(6e8)
    first.free()
    first.free()
    assert first.is_freed
    second = backend.buffer(6e8)
    assert backend.free_memory_bytes(device) == pytest.approx(4e8)
    del second
    assert backend.free_memory_bytes(device) == pytest.approx(1e9)


def test_output_does_not_keep_its_inputs_alive() -> None:
    """Holding the result of a launch does not hold the buffers that it read."""
    backend = FakeBackend()
    (device,) = backend.devices()
    buffer = backend.buffer(1e9)
    kept = backend.launch(buffer=buffer)
    del buffer
    assert backend.free_memory_bytes(device) == 16e9
    kept.item()


def test_freed_buffer_cannot_be_used() -> None:
    """Reading a freed buffer is an error of the device."""
    backend = FakeBackend()
    buffer = backend.buffer(1e6, name="gone")
    buffer.free()
    with pytest.raises(RuntimeError, match=r"'gone'.*was freed"):
        backend.launch(buffer=buffer)


def test_buffer_lives_on_one_device() -> None:
    """A launch on another device cannot read it."""
    backend = FakeBackend(devices=2)
    with pytest.raises(RooflineUsageError, match="is not on fake:0"):
        backend.launch(buffer=backend.buffer(1e6, device=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size_bytes": -1}, "size is -1"),
        ({"size_bytes": float("nan")}, "size is nan"),
        ({"size_bytes": 1, "data": "zeros"}, "data is 'zeros'"),
        ({"size_bytes": 1, "role": "bias"}, "role is 'bias'"),
    ],
)
def test_impossible_buffers_are_usage_errors(arguments: dict[str, object], message: str) -> None:
    """Each wrong argument of a buffer is named with its value."""
    with pytest.raises(RooflineUsageError, match=message):
        FakeBackend().buffer(**arguments)  # type: ignore[arg-type]
