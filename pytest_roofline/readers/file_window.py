"""A file of which only the first bytes are wanted: on this disk, or behind a server that answers range requests."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from pytest_roofline.errors import RooflineUsageError


class FileWindow(Protocol):
    """What readers of headers need of a file."""

    name: str
    """For errors: the path or the URL."""
    size_bytes: int
    """The whole file, weights included."""
    chunk_bytes: int
    """How much to ask for at a time."""

    def read(self, offset: int, size_bytes: int) -> bytes:
        """`size_bytes` from `offset`, fewer only at the end of the file."""


@dataclass(slots=True)
class DiskWindow:
    """A regular file on this disk, as a context manager. Devices, pipes and folders are refused, never waited for."""

    name: str
    size_bytes: int
    descriptor: int
    chunk_bytes: int = 2**18

    @classmethod
    def open(cls, path: Path) -> DiskWindow:
        """Open without blocking; anything but a readable regular file is an error that names it and says why."""
        try:
            # A pipe without a writer would block a plain open for ever.
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise unreadable(path, error) from None
        except ValueError as error:  # a null byte in the name
            raise RooflineUsageError(f"{str(path)!r:.200}: {error}") from None
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            os.close(descriptor)
            raise RooflineUsageError(f"{path}: {_kind(about.st_mode)}, not a regular file: name a file of a model")
        return cls(name=str(path), size_bytes=about.st_size, descriptor=descriptor)

    def __enter__(self) -> DiskWindow:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self.descriptor)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """`size_bytes` from `offset`, fewer only at the end of the file."""
        parts: list[bytes] = []
        try:
            os.lseek(self.descriptor, offset, os.SEEK_SET)
            while size_bytes > 0 and (part := os.read(self.descriptor, size_bytes)):
                parts.append(part)
                size_bytes -= len(part)
        except OSError as error:
            raise RooflineUsageError(f"{self.name}: cannot be read at byte {offset:,}: {error.strerror}") from None
        return b"".join(parts)


def unreadable(path: Path, error: OSError) -> RooflineUsageError:
    """The error for a path that the system would not open or look up."""
    if leads_nowhere(path, error):
        return RooflineUsageError(f"{path}: a symbolic link that leads nowhere")
    if isinstance(error, FileNotFoundError):
        return RooflineUsageError(f"{path}: no such file or folder")
    return RooflineUsageError(f"{path}: cannot be opened: {error.strerror}")


def leads_nowhere(path: Path, error: OSError) -> bool:
    """Whether the system found nothing because of a link: one to what is not there, or one that leads to itself."""
    return error.errno == errno.ELOOP or (isinstance(error, FileNotFoundError) and os.path.islink(path))


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
