"""Server-sent events out of the bytes of an answer, however they were cut on the way.

Pure: bytes in, events out. By the HTML standard's section 9.2.6 a line ends with LF, CRLF or CR, a line that begins
with a colon is a comment (servers send them to keep a connection alive), and an empty line ends an event. What is
stricter here: a line and an event have a largest size, because nothing else bounds what a broken server makes us hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_LINE_BYTES = 2**22
"""Of a line, and of an event: 4 MB hold the log probabilities of some thousand alternatives."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class BrokenStream(ValueError):
    """What came is no stream of events; the message says what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One event: its data (lines joined by LF), and its name where the server gave it one."""

    data: str
    name: str = ""


class EventReader:
    """Takes the bytes of one answer as they come, and gives each event once it is whole.

    Lines are cut before they are decoded, so a character that arrives in two parts is one character.
    """

    def __init__(self, *, longest_bytes: int = LONGEST_LINE_BYTES) -> None:
        self._longest_bytes = longest_bytes
        self._rest = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = ""
        self._is_first = True
        self._ends_with_cr = False
        self.comments = 0
        """Lines that only keep the connection alive."""

    @property
    def has_rest(self) -> bool:
        """Whether an event was begun and not ended: the connection was cut, or the last empty line is missing."""
        return bool(self._rest or self._data)

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that these bytes complete. BrokenStream for a line or an event beyond the largest size."""
        if self._ends_with_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a CRLF, whose line has been read
        if chunk:
            self._ends_with_cr = chunk.endswith(b"\r")
        self._rest += chunk
        events: list[ServerEvent] = []
        begin = 0
        for match in _LINE_END.finditer(self._rest, self._searched):
            self._bound(match.start() - begin)
            event = self._line(bytes(self._rest[begin : match.start()]))
            begin = match.end()
            if event is not None:
                events.append(event)
        del self._rest[:begin]
        self._searched = len(self._rest)
        self._bound(len(self._rest))
        return events

    def close(self) -> list[ServerEvent]:
        """The last event, where its empty line is missing: many servers end an answer so."""
        events = self.feed(b"\n") if self._rest else []
        last = self._event()
        return [*events, last] if last is not None else events

    def _line(self, line: bytes) -> ServerEvent | None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not field:
            self.comments += 1
        elif field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            self._bound(self._data_bytes)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")[:100]
        return None

    def _event(self) -> ServerEvent | None:
        """What was gathered since the last empty line; None where there was no data."""
        data, name = self._data, self._name
        self._data, self._name, self._data_bytes = [], "", 0
        return ServerEvent(data=b"\n".join(data).decode("utf-8", "replace"), name=name) if data else None

    def _bound(self, size_bytes: int) -> None:
        if size_bytes > self._longest_bytes:
            raise BrokenStream(f"an event of over {self._longest_bytes:,} bytes without an end")
