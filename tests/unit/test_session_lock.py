"""One judge per device: the lock is held once, given back however the measurement ended, and never in the way."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from pytest_roofline.backends.fake import FakeBackend
from pytest_roofline.device import Device
from pytest_roofline.errors import InconclusiveMeasurement
from pytest_roofline.hearing import Hearing
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.turnstile import Turnstile, token_of

DEVICE = Device(name="Some CPU", kind="cpu", backend="cpu")


def session_in(folder: Path) -> Session:
    """A session whose locks lie there."""
    return Session(turnstile=Turnstile(folder=str(folder)))


def is_free(folder: Path) -> bool:
    """Whether somebody else could take the device's lock now."""
    try:
        with FileLock(str(folder / f"{token_of(DEVICE)}.lock")).acquire(timeout=0):
            return True
    except Timeout:
        return False


def test_the_lock_is_held_and_given_back(tmp_path: Path) -> None:
    """Also inside itself: probing within a measurement does not wait for the measurement."""
    session = session_in(tmp_path)
    with session.lock(DEVICE), session.lock(DEVICE):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


@pytest.mark.parametrize("error", [OSError("mine"), KeyboardInterrupt()])
def test_an_error_gives_it_back_and_comes_through(tmp_path: Path, error: BaseException) -> None:
    """Whatever the measurement raised, also an OSError, is not taken for a failing lock."""
    session = session_in(tmp_path)
    with pytest.raises(type(error)), session.lock(DEVICE):
        raise error
    assert is_free(tmp_path)


def test_an_audit_gives_it_back_whatever_breaks_at_its_end(tmp_path: Path) -> None:
    """A ruler whose device is lost cannot be closed: the next test measures all the same."""

    class Broken:
        def close(self) -> None:
            raise RuntimeError("device lost")

    session = session_in(tmp_path)
    hearing = Hearing(
        device=DEVICE,
        bench_of=lambda: pytest.fail("nothing is to be measured"),
        lock=lambda: session.lock(DEVICE),
        traffic=None,
        label="audit",
        settings=Settings(),
        keep=lambda result: result,
    )
    hearing.enter()
    assert not is_free(tmp_path)
    hearing._ruler = Broken()  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="device lost"):
        hearing.leave()
    assert is_free(tmp_path)


def elsewhere(session: Session, device: Device) -> str:
    """What another thread of this process gets that wants to measure now."""
    told: list[str] = []

    def want() -> None:
        try:
            with session.lock(device):
                told.append("its turn")
        except InconclusiveMeasurement as error:
            told.append(str(error))

    thread = threading.Thread(target=want)
    thread.start()
    thread.join()
    return told[0]


@pytest.mark.parametrize("is_private", [True, False], ids=["private", "shared"])
def test_threads_of_a_process_measure_one_after_the_other(tmp_path: Path, is_private: bool) -> None:
    """The lock between processes is one for all of them; also a fake is measured by one at a time."""
    backend = FakeBackend()
    device = backend.devices()[0] if is_private else DEVICE
    session = Session(added_backends=[backend], turnstile=Turnstile(folder=str(tmp_path), wait_s=0.01))
    with session.lock(device):
        with session.lock(device):
            assert elsewhere(session, device) == (
                f"{device.id} was not free within 10.0 ms: another thread of this process measures on it\n"
                "  do: let one thread measure at a time, or raise --roofline-lock-wait"
            )
        assert elsewhere(session, device) != "its turn"
    assert elsewhere(session, device) == "its turn"


def test_a_turn_may_end_on_another_thread(tmp_path: Path) -> None:
    """As that of an audit that is entered on one and left on another."""
    session = Session(turnstile=Turnstile(folder=str(tmp_path), wait_s=0.01))
    held = session.lock(DEVICE)
    held.__enter__()
    thread = threading.Thread(target=held.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert elsewhere(session, DEVICE) == "its turn"
    assert is_free(tmp_path)


def test_an_audit_that_is_left_on_another_thread_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged there, in its own turn, whatever that has to probe, and gives the device back."""
    session = Session(turnstile=Turnstile(folder=str(tmp_path), wait_s=0.01))
    hearing = Hearing(
        device=DEVICE,
        bench_of=lambda: pytest.fail("nothing is to be measured"),
        lock=lambda: session.lock(DEVICE),
        traffic=None,
        label="audit",
        settings=Settings(),
        keep=lambda result: result,
    )
    ends: list[object] = []

    def judged(ledger: object) -> None:
        with session.lock(DEVICE):
            ends.append(ledger)

    def end() -> None:
        hearing.judge("its ledger")  # type: ignore[arg-type]
        hearing.leave()

    monkeypatch.setattr(hearing, "_judged", judged)
    hearing.enter()
    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert ends == ["its ledger"]
    assert elsewhere(session, DEVICE) == "its turn"
    assert is_free(tmp_path)


def test_nowhere_to_put_a_lock_stops_nobody(tmp_path: Path) -> None:
    """A file where the folder should be: the measurement runs all the same."""
    (tmp_path / "taken").write_text("")
    with session_in(tmp_path / "taken").lock(DEVICE):
        pass


def test_a_device_of_this_process_alone_takes_no_lock(tmp_path: Path) -> None:
    """The fake exists nowhere else, so that no file is made for it."""
    backend = FakeBackend()
    session = Session(added_backends=[backend], turnstile=Turnstile(folder=str(tmp_path / "locks")))
    with session.lock(backend.devices()[0]):
        assert not (tmp_path / "locks").exists()
