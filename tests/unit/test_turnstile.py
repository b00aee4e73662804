"""The locks between processes: whom one waits for, for how long, and that the dead hold nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_roofline.device import Device
from pytest_roofline.errors import InconclusiveMeasurement
from pytest_roofline.options import OPTIONS
from pytest_roofline.turnstile import LOCK_WAIT_S, Turnstile, token_of

CARD = Device(name="Card", kind="cuda", backend="torch", uuid="GPU-1")
HOLDER = """
import sys
from pytest_roofline.device import Device
from pytest_roofline.turnstile import Turnstile
with Turnstile(folder=sys.argv[1]).hold(Device(name="Card", kind="cuda", backend="torch", uuid="GPU-1")):
    print("held", flush=True)
    sys.stdin.readline()
print("given back", flush=True)
sys.stdin.readline()
"""


@contextmanager
def holder(folder: Path, test: str = "") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the card until it gets a line, and lives until it gets another."""
    variables = {**os.environ, "PYTEST_CURRENT_TEST": f"{test} (call)" if test else ""}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def answer_of(process: subprocess.Popen[str]) -> str:
    """What it says to a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_waiting_is_said_once_and_has_a_bound(tmp_path: Path) -> None:
    """The line and the reason name the device, the process, its test and the time; the second wait is quiet."""
    said: list[str] = []
    turnstile = Turnstile(folder=str(tmp_path), wait_s=0.01, say=said.append)
    with holder(tmp_path, "test_x.py::test_long") as process:
        for _ in range(2):
            with pytest.raises(InconclusiveMeasurement) as caught, turnstile.hold(CARD):
                pytest.fail("measured beside somebody else")
    who = f"pid {process.pid} (test_x.py::test_long), since "
    (line,) = said
    assert line.startswith(f"roofline: waiting for cuda:0 (Card), up to 10.0 ms: {who}")
    assert str(caught.value).startswith(f"cuda:0 was not free within 10.0 ms: {who}")
    assert "do: raise --roofline-lock-wait" in str(caught.value)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_holder_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    """No pid file is left to be cleaned up: the next one measures at once, and the dead one's note misleads nobody."""
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        said: list[str] = []
        with Turnstile(folder=str(tmp_path), wait_s=0.01, say=said.append).hold(CARD):
            pass
    assert said == []


# The child stands for a pool of workers, which wait for work for ever when their parent is killed.
FORKING = HOLDER.replace(
    'print("held", flush=True)',
    """import os, signal
    if (child := os.fork()) == 0:
        while True:
            signal.pause()
    print(child, flush=True)""",
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ended"])
def test_the_children_of_a_holder_hold_nothing(tmp_path: Path, is_killed: bool) -> None:
    """Neither when it was killed nor when its measurement has ended, however long they live."""
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            if is_killed:
                process.kill()
                process.wait()
            else:
                assert answer_of(process) == "given back\n"
            said: list[str] = []
            with Turnstile(folder=str(tmp_path), wait_s=30, say=said.append).hold(CARD):
                os.kill(child, 0)  # it is there
                assert said == []
        finally:
            os.kill(child, signal.SIGKILL)
            process.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_that_ends_gives_nothing_back(tmp_path: Path) -> None:
    """Whatever its interpreter tidies up on the way out: the parent measures on, alone."""
    program = HOLDER.replace(
        'print("held", flush=True)',
        """import os
    if (child := os.fork()) == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print("held", flush=True)""",
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        said: list[str] = []
        turnstile = Turnstile(folder=str(tmp_path), wait_s=0.01, say=said.append)
        with pytest.raises(InconclusiveMeasurement), turnstile.hold(CARD):
            pytest.fail("measured beside somebody else")
        assert f": pid {process.pid} " in said[0]
        process.kill()


def test_a_holder_that_lives_on_gives_it_back(tmp_path: Path) -> None:
    """The lock lasts as long as the measurement, not as long as the process."""
    with holder(tmp_path) as process:
        assert answer_of(process) == "given back\n"
        with Turnstile(folder=str(tmp_path), wait_s=0.01).hold(CARD):
            pass
        assert process.poll() is None


def test_other_devices_are_not_waited_for(tmp_path: Path) -> None:
    """Another card of the machine is free."""
    with holder(tmp_path), Turnstile(folder=str(tmp_path), wait_s=0.01).hold(replace(CARD, uuid="GPU-2")):
        pass


@pytest.mark.parametrize("note", [b"", b"{", b'{"pid": "x", "test": 1}', b"\xff\x00", b"[" * 100_000])
def test_a_note_that_says_nothing_costs_the_name_alone(tmp_path: Path, note: bytes) -> None:
    """It is for people: what is in it decides nothing."""
    said: list[str] = []
    with holder(tmp_path):
        (tmp_path / "GPU-1.holder.json").write_bytes(note)
        turnstile = Turnstile(folder=str(tmp_path), wait_s=0.01, say=said.append)
        with pytest.raises(InconclusiveMeasurement), turnstile.hold(CARD):
            pass
    assert said == ["roofline: waiting for cuda:0 (Card), up to 10.0 ms: another process measures on it"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
def test_a_pipe_in_the_place_of_a_note_holds_nobody_up(tmp_path: Path) -> None:
    """Nobody reads or writes at its other end: it is neither read nor written into."""
    note = tmp_path / "GPU-1.holder.json"
    said: list[str] = []
    with holder(tmp_path):
        note.unlink()
        os.mkfifo(note)
        turnstile = Turnstile(folder=str(tmp_path), wait_s=0.01, say=said.append)
        with pytest.raises(InconclusiveMeasurement), turnstile.hold(CARD):
            pass
    assert said == ["roofline: waiting for cuda:0 (Card), up to 10.0 ms: another process measures on it"]
    with Turnstile(folder=str(tmp_path)).hold(CARD):
        assert note.is_file()
    assert not note.exists()


def test_no_lock_is_said_once(tmp_path: Path) -> None:
    """Where no file can be made nothing is held, and one line says so."""
    said: list[str] = []
    (tmp_path / "file").write_text("")
    turnstile = Turnstile(folder=str(tmp_path / "file" / "locks"), say=said.append)
    for _ in range(2):
        with turnstile.hold(CARD):
            pass
    (line,) = said
    assert line.startswith("roofline: cuda:0 cannot be locked (")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files here")
def test_the_folder_of_a_user_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made for its user alone, closed where it is open to others, and a link of that name is not followed."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = Path(Turnstile().folder())
    assert folder.name == f"pytest-roofline-{os.getuid()}"
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    assert Path(Turnstile().folder()).stat().st_mode & 0o077 == 0
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="belongs to somebody else"):
        Turnstile().folder()


def test_a_device_has_one_name_in_every_process_and_framework() -> None:
    """Its uuid where it has one; else its name, with what tells machines apart; always one that a file may have."""
    assert token_of(CARD) == "GPU-1"
    assert token_of(replace(CARD, backend="jax", index=3, name="NVIDIA Card")) == "GPU-1"
    processor = Device(name="CPU @ 2.4/3 GHz", kind="cpu", backend="cpu")
    assert token_of(processor).startswith("cpu-CPU-2.4-3-GHz-")
    assert token_of(processor) == token_of(replace(processor, compute_units=2))
    long = token_of(replace(CARD, uuid="x" * 1000))
    assert len(long) < 150
    assert long != token_of(replace(CARD, uuid="x" * 1001))


def test_the_option_has_the_same_bound() -> None:
    """Options are read without importing what they are for, so the figure stands twice."""
    assert next(option.default for option in OPTIONS if option.name == "lock_wait") == LOCK_WAIT_S
