"""One judge per device: whoever measures holds it against every other process of this machine.

The lock is a file lock of the operating system: a holder that dies, by whatever signal, frees it, and nothing has to
be cleaned up. The note beside it (pid and test of the holder) is for people alone; nobody believes it unless the lock
is held.

The folder of the locks is one per user below the temporary folder. Processes that see different temporary folders
(containers, CI jobs with a ``TMPDIR`` of their own, other users) share one only where it is given.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pytest_roofline.backends.nvml_processes import is_descendant
from pytest_roofline.device import Device
from pytest_roofline.errors import InconclusiveMeasurement, one_line
from pytest_roofline.progress import NOBODY, Onlooker
from pytest_roofline.units import format_seconds
from pytest_roofline.whole_file import replace_whole

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK_WAIT_S = 600.0
_POLL_S = 0.05
_GRACE_S = 0.3
_TURN_S = 1.0
"""How often an onlooker is told that the wait goes on."""
_LONGEST_NOTE = 4096
_LONGEST_TOKEN = 120


class Turnstile:
    """The locks of one process: at most one per device, re-entrant, held only while something is measured.

    `folder`: where lock files lie, for all processes that are to wait for each other; None for the user's own.
    `wait_s`: how long a lock that somebody else holds is waited for. `say` shows a line at once;
    `onlooker` is told how long the wait has taken; `waiting` is entered for as long as it lasts.
    """

    def __init__(
        self,
        *,
        folder: str | None = None,
        wait_s: float = LOCK_WAIT_S,
        say: Callable[[str], None] | None = None,
        onlooker: Onlooker = NOBODY,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._chosen_folder = folder
        self.wait_s = wait_s
        self._say = say
        self._onlooker = onlooker
        self._waiting = waiting
        self._held: set[str] = set()
        self._open: list[tuple[BaseFileLock, int, os.stat_result]] = []
        self._sees_forks = False
        self._told: set[str] = set()

    def folder(self) -> str:
        """The folder that this user's processes share, made if need be; OSError where there can be none."""
        if self._chosen_folder is not None:
            os.makedirs(self._chosen_folder, exist_ok=True)
            return self._chosen_folder
        folder = os.path.join(tempfile.gettempdir(), f"pytest-roofline-{_user()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if hasattr(os, "getuid"):
            # Anybody may make a folder of this name first; a link, or a folder of somebody else, is not used.
            found = os.lstat(folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                raise PermissionError(f"{folder} belongs to somebody else")
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.chmod(folder, 0o700)
        return folder

    @contextmanager
    def hold(self, device: Device) -> Iterator[None]:
        """Hold the device; within itself this waits for nothing.

        InconclusiveMeasurement when somebody else still holds it after `wait_s`. Where no lock file can be made
        nothing is held, and a line says so.
        """
        token = token_of(device)
        if token in self._held:
            yield
            return
        lock = self._acquired(device, token)
        if lock is None:
            yield
            return
        self._held.add(token)
        self._keep_from_children(lock)
        try:
            yield
        finally:
            self._held.discard(token)
            self._open = [entry for entry in self._open if entry[0] is not lock]
            if lock.is_locked:  # not in a child that was forked meanwhile: the note is its parent's
                with suppress(OSError):
                    os.remove(_note_beside(lock.lock_file))
            lock.release()

    def _acquired(self, device: Device, token: str) -> BaseFileLock | None:
        from filelock import FileLock, Timeout

        try:
            path = os.path.join(self.folder(), f"{token}.lock")
            lock = FileLock(path, thread_local=False)  # an audit may be left on another thread
            try:
                # Not worth a word yet; and whoever has just got it may still be about to write its note.
                lock.acquire(timeout=min(_GRACE_S, self.wait_s), poll_interval=_POLL_S)
            except Timeout:
                if _is_held_by_ancestor(path):
                    return None  # the test that started this process holds it, for this very work
                self._tell(device, token, path)
                with self._waiting():
                    self._wait(lock, device)
        except Timeout:
            raise InconclusiveMeasurement(
                f"{device.id} was not free within {format_seconds(self.wait_s)}: {_holder(path)} measures on it\n"
                "  do: raise --roofline-lock-wait, or let fewer processes measure on this device"
            ) from None
        except (OSError, NotImplementedError) as error:
            self._tell_once(
                f"unlocked {token}",
                f"roofline: {device.id} cannot be locked ({one_line(str(error))}): whoever else measures on it "
                "measures beside this run",
            )
            return None
        _write_note(path)
        if self._chosen_folder is not None:
            with suppress(OSError):
                os.chmod(path, 0o666)  # a chosen folder may be shared between users
        return lock

    def _keep_from_children(self, lock: BaseFileLock) -> None:
        """What is forked meanwhile must not hold the device too: a pool of workers outlives a process that is killed.

        The files of filelock before version 4 stay open in children.
        """
        descriptor = getattr(getattr(lock, "_context", None), "lock_file_fd", None)
        if not hasattr(os, "register_at_fork") or not isinstance(descriptor, int):
            return
        self._open.append((lock, descriptor, os.fstat(descriptor)))
        if not self._sees_forks:
            self._sees_forks = True
            close = weakref.WeakMethod(self._close_in_child)
            os.register_at_fork(after_in_child=lambda: method() if (method := close()) is not None else None)

    def _close_in_child(self) -> None:
        for lock, descriptor, opened in self._open:
            with suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), opened):  # filelock may have been here
                    os.close(descriptor)
            context: Any = lock._context
            context.lock_file_fd = None  # else its end in the child would give back what the parent holds
        self._open = []

    def _wait(self, lock: BaseFileLock, device: Device) -> None:
        """Wait for it as long as may be waited, in turns; Timeout after the last one."""
        from filelock import Timeout

        waited_s = 0.0
        while True:
            self._onlooker.tell(f"waiting for {device.id}", elapsed_s=waited_s, limit_s=self.wait_s)
            turn_s = min(_TURN_S, self.wait_s - waited_s)
            waited_s += turn_s
            try:
                lock.acquire(timeout=turn_s, poll_interval=_POLL_S)
            except Timeout:
                if waited_s >= self.wait_s:
                    raise
            else:
                return

    def _tell(self, device: Device, token: str, path: str) -> None:
        self._tell_once(
            token,
            f"roofline: waiting for {device.id} ({device.name}), up to {format_seconds(self.wait_s)}: "
            f"{_holder(path)} measures on it",
        )

    def _tell_once(self, about: str, line: str) -> None:
        if self._say is not None and about not in self._told:
            self._told.add(about)
            self._say(line)


def token_of(device: Device) -> str:
    """What a device is called in the names of files: its uuid, the same in every process and framework.

    A device without one (a CPU, mostly) is told by its name and the machine: by the kernel's boot id where there is
    one, which containers of a machine have in common, else by the host's name. Processes that are pinned to different
    cores still share the memory, so the cores are no part of it.
    """
    key = device.uuid or f"{device.key}-{_machine()}"
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", key)
    if len(plain) > _LONGEST_TOKEN:
        plain = f"{plain[:_LONGEST_TOKEN]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    return plain


def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()[:8]
    except (OSError, ValueError):
        return platform.node()


def _note_beside(path: str) -> str:
    return f"{path.removesuffix('.lock')}.holder.json"


def _write_note(path: str) -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    with suppress(OSError):
        replace_whole(_note_beside(path), json.dumps({"pid": os.getpid(), "test": test}).encode())


def _holder(path: str) -> str:
    """Who holds the lock and since when, as far as the note tells."""
    found = _note_of(path)
    if found is None:
        return "another process"
    pid, test, since = found
    return f"pid {pid}{f' ({one_line(test)})' if test else ''}, since {since:%H:%M:%S},"


def _note_of(path: str) -> tuple[int, str, datetime] | None:
    """The pid of the note, its test, and when it was written; None where it does not tell, or is no plain file."""
    note = _note_beside(path)
    try:
        if not os.path.isfile(note):  # a pipe would have to be waited for
            return None
        with open(note, encoding="utf-8", errors="replace") as file:
            found: Any = json.loads(file.read(_LONGEST_NOTE))
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime)
        return int(found["pid"]), str(found["test"]), written
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _is_held_by_ancestor(path: str) -> bool:
    """Whether the process of the note started this one, or an ancestor of it: waiting for it would never end."""
    found = _note_of(path)
    return found is not None and is_descendant(os.getpid(), of=found[0])


def _user() -> Any:
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
