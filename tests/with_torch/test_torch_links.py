"""Links in torch, on stand-ins for a device, and modules whose weights are sent to where they are used."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.backends.torch_links import make_link_kernels, make_link_paths  # noqa: E402
from pytest_roofline.device import Device  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402
from pytest_roofline.models.module import trace_module  # noqa: E402
from pytest_roofline.models.outcome import needed_bytes_by_device, touched_devices  # noqa: E402
from pytest_roofline.models.storages import Storage  # noqa: E402
from pytest_roofline.protocol import HOST, TraceRequest  # noqa: E402

SIZE = 2**20


class Streams:
    """What ``torch.cuda`` has for streams, and what ran on which."""

    def __init__(self) -> None:
        self.used: list[int] = []
        self.made = 0

    def Stream(self, device: Any) -> int:
        """A number for a stream."""
        self.made += 1
        return self.made

    @contextmanager
    def stream(self, number: int) -> Any:
        """Work inside is on that stream."""
        self.used.append(number)
        yield


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device that is no CPU, whose tensors are on the CPU all the same, with a host that locks pages."""
    real = torch.device
    monkeypatch.setattr(torch, "device", lambda *_: real("cpu"))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())
    return Device(name="Stand", kind="stand", backend="torch")


def named(paths: list[Any]) -> dict[tuple[str, str, bool | None, bool], Any]:
    """Each path's one kernel."""
    return {(p.source, p.target, p.is_pinned, p.is_both_ways): p.kernels[0] for p in paths}


def test_every_path_counts_what_it_sends(stand: Device) -> None:
    """Both kinds of memory, one way and both; both ways count twice, and a launch runs."""
    streams = Streams()
    kernels = named(make_link_paths(stand, SIZE, [], streams))
    assert set(kernels) == {
        (source, target, is_pinned, is_both_ways)
        for is_pinned in (True, False)
        for source, target, is_both_ways in (
            (HOST, stand.id, False),
            (stand.id, HOST, False),
            (HOST, stand.id, True),
        )
    }
    for (_, _, _, is_both_ways), kernel in kernels.items():
        assert kernel.bytes_per_launch == SIZE * (2 if is_both_ways else 1)
        kernel.launch()
    assert streams.used == [1, 2]  # pinned memory goes both ways on two streams, pageable memory from two threads


def test_a_kind_without_streams_goes_one_way_at_a_time(stand: Device) -> None:
    """Then pinned memory has no path for both ways, and nothing is claimed."""
    kernels = named(make_link_paths(stand, SIZE, [], SimpleNamespace()))
    assert (HOST, stand.id, True, True) not in kernels
    assert (HOST, stand.id, False, True) in kernels


def test_peers_are_paths_too(stand: Device) -> None:
    """To each other device of the kind and back, beside no memory of the host."""
    peer = Device(name="Stand", kind="stand", index=1, backend="torch")
    kernels = named(make_link_paths(stand, SIZE, [peer], Streams()))
    for way in ((stand.id, peer.id), (peer.id, stand.id)):
        kernel = kernels[(*way, None, False)]
        assert kernel.bytes_per_launch == SIZE
        kernel.launch()


def test_memory_that_is_not_to_be_had(stand: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page-locked memory at all leaves the pageable paths; too little of it is a MemoryError."""

    def refuse(self: Any) -> Any:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.Tensor, "pin_memory", refuse)
    assert make_link_kernels(stand, SIZE) == []
    assert {path.is_pinned for path in make_link_paths(stand, SIZE, [])} == {False}

    def exhausted(self: Any) -> Any:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.Tensor, "pin_memory", exhausted)
    with pytest.raises(MemoryError, match="of page-locked memory are not to be had"):
        make_link_paths(stand, SIZE, [])


# -- weights that are sent to where they are used


class Offloaded(torch.nn.Module):  # type: ignore[misc]
    """As libraries offload: the parameter is on no device between two passes, and its data in a table on the host."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(size, size, bias=False)
        self.table = {"weight": self.inner.weight.detach().clone()}
        self._leave()
        self.inner.register_forward_pre_hook(lambda *_: self._fetch())
        self.inner.register_forward_hook(lambda *_: self._leave())

    def _fetch(self) -> None:
        self.inner.weight = torch.nn.Parameter(self.table["weight"].to("cpu"), requires_grad=False)

    def _leave(self) -> None:
        self.inner.weight = torch.nn.Parameter(self.inner.weight.to("meta"), requires_grad=False)

    def forward(self, hidden: Any) -> Any:
        """One product."""
        return self.inner(hidden)


def test_offloaded_weights_are_counted_where_they_lie() -> None:
    """The trace follows them to the memory that holds them; the place of their absence is no device of the pass."""
    model = Offloaded(256)
    with torch.no_grad():
        found = trace_module(TraceRequest(step=lambda: model(torch.ones(1, 256)), model=model))
    assert found.device_ids == ("cpu",)
    assert dict(found.bytes_by_device)["cpu"] == pytest.approx(256 * 256 * 4, rel=0.01)
    assert found.traffic.bytes_per_pass == pytest.approx(256 * 256 * 4, rel=0.02)


def test_offloaded_weights_need_a_step_to_be_counted() -> None:
    """A module that holds no bytes has no ceiling by itself, and the message says what to give."""
    with pytest.raises(RooflineUsageError, match=r"262 kB of the 262 kB of a Offloaded are in no memory"):
        TorchBackend().count_model(Offloaded(256))


def storage(number: int, device: str, nbytes: int, *, existed: bool, needed: int = 0) -> Storage:
    """One storage of a trace, of which so much was read."""
    made = Storage(number=number, weak=None, nbytes=nbytes, device=device, existed=existed, is_written=not existed)
    if needed:
        made.needed.update([(0, needed)])
    return made


def test_weights_sent_to_a_device_belong_to_a_pass_of_that_device() -> None:
    """Most of them lie with the host, all of them are used on the card: the card is the device of the pass."""
    storages = [
        storage(0, "cpu", 4000, existed=True, needed=4000),
        storage(1, "cuda:0", 1000, existed=True, needed=1000),
        storage(2, "cuda:0", 4000, existed=False),
        storage(3, "meta", 9000, existed=False),
    ]
    ledger: Any = SimpleNamespace(storages=storages)
    assert touched_devices(ledger) == ("cuda:0", "cpu")
    assert needed_bytes_by_device(ledger) == (("cpu", 4000.0), ("cuda:0", 1000.0))
