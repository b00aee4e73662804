"""A device whose memory somebody else has: probed while there is enough for four cache knees, else not judged."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pytest_roofline.backends.fake import FakeBackend, Neighbour
from pytest_roofline.errors import InconclusiveMeasurement
from pytest_roofline.probe import probe_device
from pytest_roofline.session import Session

MEMORY_BYTES = 80e9
CACHE_BYTES = 40e6


def crowded(free_bytes: float, **figures: object) -> FakeBackend:
    """A card of 80 GB and 40 MB of cache on which somebody has taken all but so much."""
    backend = FakeBackend(memory_bytes=MEMORY_BYTES, cache_bytes=CACHE_BYTES, **figures)
    backend.taken = backend.buffer(MEMORY_BYTES - free_bytes, name="preallocated")  # type: ignore[attr-defined]
    return backend


def test_enough_for_four_knees_is_enough() -> None:
    """The sets are smaller, the figures are those of the empty card, and a note says what there was."""
    backend = crowded(4e9)
    found = probe_device(backend.devices()[0], [backend])
    empty = FakeBackend(memory_bytes=MEMORY_BYTES, cache_bytes=CACHE_BYTES)
    assert found.read_bytes_per_s == pytest.approx(probe_device(empty.devices()[0], [empty]).read_bytes_per_s, rel=0.05)
    assert max(point.working_set_bytes for point in found.sweep) >= 4 * found.cache_knee_bytes
    assert any("4.00 GB of memory are free" in note for note in found.notes)


@pytest.mark.parametrize(("free_bytes", "room"), [(0.8e9, "sets of up to 67.1 MB"), (1000.0, "no set")])
def test_less_is_inconclusive_with_the_remedy(free_bytes: float, room: str) -> None:
    """The figures in the first line, and how to get the memory back."""
    backend = crowded(free_bytes)
    with pytest.raises(InconclusiveMeasurement) as caught:
        probe_device(backend.devices()[0], [backend])
    first, *rest = str(caught.value).split("\n")
    assert first.startswith("fake:0 has too little free memory to be probed: ")
    assert f"of 80.0 GB are free, room for {room}" in first
    if free_bytes > 1e6:
        assert first.endswith(", 4 cache knees are 160 MB")
    assert "set XLA_PYTHON_CLIENT_PREALLOCATE=false before it is imported" in rest[-1]
    assert "the fixture roofline_probe" in rest[-1]
    assert not any("likely: JAX" in line for line in rest) or "jax" in sys.modules


def test_who_has_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes on the device by name, and JAX where this process has imported it without the setting."""
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    backend = crowded(0.8e9, neighbours=[Neighbour(start_s=0, end_s=1e9, share=0.01, name="pid 7 (trainer)")])
    with pytest.raises(InconclusiveMeasurement, match=r"(?s)also on the device: pid 7 \(trainer\).*likely: JAX, which"):
        probe_device(backend.devices()[0], [backend])
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with pytest.raises(InconclusiveMeasurement) as caught:
        probe_device(backend.devices()[0], [backend])
    assert "likely: JAX" not in str(caught.value)


@pytest.mark.parametrize("is_threads", [True, False], ids=["threads", "another"])
def test_no_threads_is_the_runners_business(monkeypatch: pytest.MonkeyPatch, is_threads: bool) -> None:
    """Where a container allows no further process nothing is judged, and it is said why; other errors come through."""

    def probe(*arguments: object, **more: object) -> None:
        raise RuntimeError("can't start new thread" if is_threads else "device lost")

    monkeypatch.setattr("pytest_roofline.probe.probe_device", probe)
    backend = FakeBackend()
    session = Session(added_backends=[backend])
    if not is_threads:
        with pytest.raises(RuntimeError, match="device lost"):
            session.probe(backend.devices()[0])
        return
    with pytest.raises(InconclusiveMeasurement) as caught:
        session.probe(backend.devices()[0])
    assert str(caught.value).split("\n") == [
        "fake:0 cannot be probed: this process may start no more threads",
        "  likely: a limit on processes (ulimit -u; pids of the container, docker --pids-limit, podPidsLimit)",
        "  do: raise it, or run fewer workers in it",
    ]
