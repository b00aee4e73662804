"""Which backends a session has: what is loaded, what was added, and whose work a drain waits for."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from pytest_roofline.backends import Backends, _is_imported
from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.backends.fake import FakeBackend


def names(backends: Backends) -> list[str]:
    """Names in order."""
    return [backend.name for backend in backends.loaded()]


def test_the_bare_cpu_is_always_there_and_comes_last() -> None:
    """Added ones come first."""
    found = names(Backends([FakeBackend()]))
    assert (found[0], found[-1]) == ("fake", "cpu")


def test_a_backend_is_made_once() -> None:
    """Asking again gives the same object, whose compiled and measured state is kept."""
    backends = Backends()
    assert backends.loaded()[-1] is backends.loaded()[-1]


@pytest.mark.parametrize(
    ("module", "is_there"),
    [
        (None, False),
        (ModuleSpec("torch", None), False),
        (ModuleSpec("torch", None, origin="torch/__init__.py"), True),
    ],
)
def test_a_folder_named_like_a_framework_is_none(
    monkeypatch: pytest.MonkeyPatch, module: ModuleSpec | None, is_there: bool
) -> None:
    """An empty namespace is no framework, and a missing one neither."""
    if module is None:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    else:
        stand_in = ModuleType("torch")
        stand_in.__spec__ = module
        monkeypatch.setitem(sys.modules, "torch", stand_in)
    assert _is_imported("torch") is is_there


def test_a_framework_that_is_being_imported_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a framework cannot be asked anything."""
    stand_in = ModuleType("jax")
    stand_in.__spec__ = ModuleSpec("jax", None, origin="jax/__init__.py")
    stand_in.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    assert not _is_imported("jax")


def test_virtual_and_real_time_do_not_mix() -> None:
    """A fake is drained by itself alone, and real backends without it."""
    fake, cpu = FakeBackend(), CpuBackend()
    backends = Backends([fake])
    assert backends.in_use(fake) == (fake,)
    assert fake not in backends.in_use(cpu)
