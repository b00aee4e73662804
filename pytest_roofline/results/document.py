"""One JSON document that is whole after every test, so that whatever ends the run leaves what was measured before.

::

    {"schema": 1, "kind": "pytest-roofline results", "run": {...},
    "tests": [
    {...},
    {...}
    ],
    "libraries": {...},
    "devices": [...],
    "end": null}

A test takes one line. A new one goes over the closing lines, which follow it again, in a single write; so a test costs
its own length and theirs, not that of the file. `libraries` and `devices` are known once a test has measured; a device
stands there once, with its probe. `end` says how the run ended; it is null while the run goes on, and stays null
where it was killed. Where a write falls short (a full disk) the file is brought back to what it was before, and the
test waits for the next attempt. A document that was cut off all the same loses its closing lines and at most one test.

`schema_1.json`, beside this module, is its JSON Schema. Within a schema keys may be added, which `reading` fills in
where an earlier version wrote none; no key changes its meaning or goes.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

SCHEMA = 1
KIND = "pytest-roofline results"
UNKNOWN_ORIGIN: Mapping[str, Any] = MappingProxyType({"libraries": {}, "devices": []})


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
        self._origin: Mapping[str, Any] = UNKNOWN_ORIGIN
        if self._is_plain:
            self._write(self._closing_of(None))

    @property
    def waiting(self) -> int:
        """Tests that could not be written yet."""
        return len(self._waiting)

    def tell(self, libraries: Mapping[str, str], devices: Sequence[Mapping[str, Any]]) -> None:
        """What became known of where the figures come from; it is written with the next test, or the end."""
        self._origin = {"libraries": dict(libraries), "devices": list(devices)}

    def add(self, test: str) -> None:
        """Put a test on disk, which is JSON text in one line."""
        self._waiting.append(test)
        if self._is_plain:
            self._write(self._closing_of(None))

    def close(self, end: dict[str, Any]) -> None:
        """Say how the run ended, and write whatever still waits; a second call does nothing."""
        if self._file < 0:
            return
        self._write(self._closing_of(end))
        with suppress(OSError):
            os.close(self._file)
        self._file = -1

    def _write(self, closing: bytes) -> None:
        tests = [("," if number else "") + "\n" + test for number, test in enumerate(self._waiting, self.written)]
        body = "".join(["" if self._body_bytes else self._head, *tests]).encode()
        # Closing lines may be shorter than those they go over: white space covers the rest.
        closing = closing.ljust(len(self._closing) - len(body))
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

    def _closing_of(self, end: dict[str, Any] | None) -> bytes:
        lines = ["", "],", *(f"{json.dumps(name)}: {json.dumps(value)}," for name, value in self._origin.items())]
        return "\n".join([*lines, f'"end": {json.dumps(end)}}}\n']).encode()

    def _restore(self) -> None:
        """What was there before: its closing lines lie where a part of the new line may be now, and take its place."""
        with suppress(OSError):
            self._put(self._closing)
            os.ftruncate(self._file, self._body_bytes + len(self._closing))


def line_of(test: Mapping[str, Any]) -> str:
    """One test as a line of the document: builtin types, no NaN and no infinity (ValueError)."""
    return json.dumps(test, allow_nan=False)


def document_of(
    run: Mapping[str, Any], tests: Sequence[str], origin: Mapping[str, Any], end: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The same document without a file: what `reading.read_results` would give."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "run": dict(run),
        "tests": [json.loads(test) for test in tests],
        **UNKNOWN_ORIGIN,
        **origin,
        "end": end,
    }
