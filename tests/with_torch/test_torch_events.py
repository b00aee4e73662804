"""Torch's event classes under an audit's watch, and lazy devices of an eager framework; no accelerator is needed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.backends.torch_accelerator import Accelerator  # noqa: E402
from pytest_roofline.event_watch import EventWatch  # noqa: E402


def test_the_cpu_has_no_events() -> None:
    """Nothing is pending there, so nothing is timed by events."""
    if torch.accelerator.is_available():
        pytest.skip("an accelerator is here")
    assert TorchBackend().event_classes() == ()


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mps"])
def test_an_accelerator_has_its_own_events_and_the_shared_ones(kind: str) -> None:
    """Both tell milliseconds."""
    classes = TorchBackend(accelerator=Accelerator(kind)).event_classes()
    assert [watched.name for watched in classes] == [f"torch.{kind}.Event", "torch.Event"]
    assert {watched.seconds_per_unit for watched in classes} == {1e-3}
    assert all(callable(getattr(watched.owner, watched.elapsed)) for watched in classes)


def test_the_classes_are_put_back() -> None:
    """`torch.cuda.Event` has its methods replaced meanwhile; a subclass takes the place of `torch.Event`."""
    shared, own = torch.Event, torch.cuda.Event
    before = (own.record, own.elapsed_time)
    classes = TorchBackend(accelerator=Accelerator("cuda")).event_classes()
    watch = EventWatch(private=lambda: 0.0, mark=tuple, classes=classes)
    watch.start()
    try:
        assert own.record is not before[0]
        assert torch.cuda.Event is own
        assert torch.Event is not shared
        assert issubclass(torch.Event, shared)
        assert issubclass(shared, torch.Event)
    finally:
        watch.stop()
    assert torch.Event is shared
    assert (own.record, own.elapsed_time) == before


def test_lazy_devices_are_told_from_eager_ones() -> None:
    """A tensor on the CPU or on no device at all is not lazy."""
    backend = TorchBackend()
    assert not backend.holds_lazy([torch.ones(2), {"cache": torch.ones(2, device="meta")}])
    assert not backend.holds_lazy(None)
