"""What the tests beside other plugins share: how one is loaded, and what is run beside it."""

from __future__ import annotations

import pytest
from inner_runs import FAKE

MANY = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_many(roofline, model, number):
    assert roofline.decode(model.step, model=model).fraction >= 0.6

def test_doubt(roofline, small):
    assert roofline.decode(small.step, model=small).fraction >= 0.85

def test_bogus(roofline, model):
    roofline.decode(model.step, traffic=5e9)

def test_plain():
    pass
"""
# A device that is locked against other processes; the fake proper is not, for no two processes share one.
LOCKED = FAKE.replace(
    "BACKEND = FakeBackend()",
    """
from dataclasses import replace
from pytest_roofline.backends import Backends

class Processor(FakeBackend):
    is_private = False

    def devices(self):
        (device,) = super().devices()
        return (replace(device, kind="cpu", name="Locked Processor", uuid="locked"),)

    def device_of(self, obj):
        return "cpu" if super().device_of(obj) else None

    def trace(self, request):
        found = super().trace(request)
        return None if found is None else replace(found, device_ids=("cpu",))

Backends.loaded = lambda self: self._added
BACKEND = Processor()
""",
)
LOCK = ("--roofline-lock-folder=locks", "--roofline-lock-wait=1")


@pytest.fixture(autouse=True)
def not_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner runs are no part of the outer one: other plugins change their ways where a worker of xdist is."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)


def beside(module: str, *names: str) -> tuple[str, ...]:
    """Arguments that load a plugin by the names of its entry points; the test is skipped where it is not installed."""
    pytest.importorskip(module)
    return tuple(argument for name in names for argument in ("-p", name))
