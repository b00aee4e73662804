"""One JSON document that is whole after every test, so that whatever ends the run leaves what was measured before.

::

    {"schema": 1, "kind": "pytest-roofline results", "run": {...},
    "tests": [
    {...},
    {...}
    ],
    "end": null}

A test takes one line. A new one goes over the closing lines, which follow it again, in a single write; so a test costs
its own length, not that of the file. `end` says how the run ended; it is null while the run goes on, and stays null
where it was killed. Where a write falls short (a full disk) the file is brought back to what it was before, and the
test waits for the next attempt. A document that was cut off all the same loses its last line and no other.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import Any

SCHEMA = 1
KIND = "pytest-roofline results"


class ResultsDocument:
    """Writes the document; OSError from the constructor alone, where the file cannot be made at all.

    `run` describes the run, in builtin types. What is no plain file (a pipe, a terminal) gets everything at the end.
    """

    def __init__(self, path: str, run: dict[str, Any]) -> None:
        self.path = path
        self.written = 0
        """Tests that are in the file."""
        self.error: str | None = None
        """Why the last write failed; None when it did not."""
        self._head = json.dumps({"schema": SCHEMA, "kind": KIND, "run": run}, allow_nan=False)[:-1] + ',\n"tests": ['
        self._waiting: list[str] = []
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
        self._is_plain = stat.S_ISREG(os.fstat(self._file).st_mode)
        self._body_bytes = 0
        self._closing = b""
        if self._is_plain:
            self._write(_closing(None))

    @property
    def waiting(self) -> int:
        """Tests that could not be written yet."""
        return len(self._waiting)

    def add(self, test: dict[str, Any]) -> None:
        """Put a test on disk: builtin types, no NaN and no infinity (ValueError)."""
        self._waiting.append(json.dumps(test, allow_nan=False))
        if self._is_plain:
            self._write(_closing(None))

    def close(self, end: dict[str, Any]) -> None:
        """Say how the run ended, and write whatever still waits; a second call does nothing."""
        if self._file < 0:
            return
        self._write(_closing(end))
        with suppress(OSError):
            os.close(self._file)
        self._file = -1

    def _write(self, closing: bytes) -> None:
        tests = [("," if number else "") + "\n" + test for number, test in enumerate(self._waiting, self.written)]
        body = "".join(["" if self._body_bytes else self._head, *tests]).encode()
        try:
            self._put(body + closing)
        except OSError as error:
            self.error = error.strerror or str(error)
            self._restore()
            return
        self.error = None
        self.written += len(tests)
        self._waiting.clear()
        self._body_bytes += len(body)
        self._closing = closing

    def _put(self, text: bytes) -> None:
        with suppress(OSError):  # a pipe has no places
            os.lseek(self._file, self._body_bytes, os.SEEK_SET)
        while text:
            text = text[os.write(self._file, text) :]

    def _restore(self) -> None:
        """What was there before: its closing lines lie where a part of the new line may be now."""
        with suppress(OSError):
            os.ftruncate(self._file, self._body_bytes)
            self._put(self._closing)


def _closing(end: dict[str, Any] | None) -> bytes:
    return f'\n],\n"end": {json.dumps(end)}}}\n'.encode()


def read_results(path: str) -> dict[str, Any]:
    """The document at `path`; one that was cut off without its last, unfinished line, and with `end` null.

    OSError where it cannot be read, ValueError where it is none of ours or of a later schema.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        found = json.loads(text)
    except ValueError:
        found = _salvaged(text)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise ValueError(f"{path} is no results file of pytest-roofline")
    if found.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {found.get('schema')!r}; this version reads {SCHEMA}")
    return found


def _salvaged(text: str) -> Any:
    head, *lines = text.split("\n")
    try:
        found = json.loads(head.removesuffix(",") + "}")
    except ValueError:
        return None
    if not isinstance(found, dict) or "run" not in found:
        return None
    tests = []
    for line in lines[1:]:
        try:
            tests.append(json.loads(line.removesuffix(",")))
        except ValueError:
            break
    return {**found, "tests": tests, "end": None}
