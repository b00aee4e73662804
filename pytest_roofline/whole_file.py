"""A file that is written as a whole or not at all, and what is known beforehand of whether it can be."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress


def write_whole(path: str, content: bytes) -> None:
    """Put `content` at `path`, making its folder where there is none; links are followed, so that they stay links.

    What is no plain file (a pipe, a terminal) is written into: nothing may take its place. OSError, which names `path`,
    where it cannot be written: then what was there is there still.
    """
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as file:
                file.write(content)
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        replace_whole(target, content)
    except OSError as error:
        error.filename, error.filename2 = path, None  # what was asked for; nobody knows the draft
        raise


def replace_whole(path: str, content: bytes) -> None:
    """Put a new file in the place of whatever is at `path`, a link too: what it points at may be somebody else's."""
    draft = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        with open(draft, "xb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def obstacle_of(path: str) -> str:
    """Why it is known already that no file can be put there, in the system's words; else empty. Nothing is changed."""
    reason = 0
    target = os.path.realpath(path)
    if os.path.isdir(target):
        reason = errno.EISDIR
    elif os.path.exists(target):
        reason = 0 if os.access(target, os.W_OK) else errno.EACCES
    if not reason and (os.path.isfile(target) or not os.path.exists(target)):
        folder = os.path.dirname(target)
        while not os.path.lexists(folder):  # those that are not there are made
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            reason = errno.ENOTDIR
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = errno.EACCES
    return os.strerror(reason) if reason else ""
