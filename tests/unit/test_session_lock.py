"""One judge per device: the lock is held once, given back however the measurement ended, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from pytest_roofline.device import Device
from pytest_roofline.session import Session

DEVICE = Device(name="Some CPU", kind="cpu", backend="cpu")


def is_free(folder: Path) -> bool:
    """Whether somebody else could take the device's lock now."""
    try:
        with FileLock(str(folder / "cpu-Some-CPU.lock")).acquire(timeout=0):
            return True
    except Timeout:
        return False


def test_the_lock_is_held_and_given_back(tmp_path: Path) -> None:
    """Also inside itself: probing within a measurement does not wait for the measurement."""
    session = Session(lock_folder=str(tmp_path))
    with session.lock(DEVICE), session.lock(DEVICE):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


@pytest.mark.parametrize("error", [OSError("mine"), KeyboardInterrupt()])
def test_an_error_gives_it_back_and_comes_through(tmp_path: Path, error: BaseException) -> None:
    """Whatever the measurement raised, also an OSError, is not taken for a failing lock."""
    session = Session(lock_folder=str(tmp_path))
    with pytest.raises(type(error)), session.lock(DEVICE):
        raise error
    assert is_free(tmp_path)


def test_nowhere_to_put_a_lock_stops_nobody(tmp_path: Path) -> None:
    """A file where the folder should be: the measurement runs all the same."""
    (tmp_path / "taken").write_text("")
    with Session(lock_folder=str(tmp_path / "taken")).lock(DEVICE):
        pass
