"""One transient line below pytest's own, while something is measured on a terminal that a person looks at.

The cursor stays where pytest has left it: the line is drawn on the row below and the cursor put back, all in one write,
so whatever is printed next is printed where it would have been. There is no thread and no timer: the line changes when
it is told something, between timed blocks, at most `DRAWS_PER_S` times a second, and not at all while the terminal
takes no more.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from pytest_roofline.backends.private_clock import clock as private_clock
from pytest_roofline.report.cells import printable, shortened, width_of
from pytest_roofline.samples import median
from pytest_roofline.units import format_fraction

DRAWS_PER_S = 5.0
_ROW_BELOW = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[J\x1b[?7l"
"""Scroll where this is the last row, remember the place, go below and clear it; a line that is too long is cut off."""
_BACK = "\x1b[?7h\x1b8"
_CLEAR = "\x1b[?7h\x1b[J"
_LEAST_NAME = 8
"""With fewer cells for the name of the test it is left out."""


class Writer(Protocol):
    """What is asked of pytest's terminal writer."""

    hasmarkup: bool
    """Whether it writes colours."""

    @property
    def fullwidth(self) -> int:
        """Columns of the terminal."""
        ...

    @property
    def width_of_current_line(self) -> int:
        """Cells written since the last end of a line."""
        ...


def is_looked_at(stream: Any, environment: Mapping[str, str]) -> bool:
    """Whether a person sees what is drawn on this stream, and its terminal can draw."""
    is_log = any(environment.get(name) for name in ("CI", "BUILD_NUMBER"))  # as pytest tells a CI system
    if is_log or os.name == "nt" or environment.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    try:
        return bool(stream.isatty()) and stream.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False


class TerminalOnlooker:
    """Draws on a duplicate of the terminal's descriptor, so that capturing is left alone; `close` when the run ends."""

    least_s = 1 / DRAWS_PER_S
    """Between two drawings."""

    def __init__(
        self,
        stream: Any,
        writer: Writer,
        *,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = private_clock,
    ) -> None:
        stream.flush()
        self._fd = os.dup(stream.fileno())
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._writer = writer
        self._environment = environment
        self._clock = clock
        self._depth = 0
        self._drawn_s: float | None = None
        self._is_shown = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While something is measured: what was drawn is cleared at the end, however that comes."""
        if not self._depth:
            __import__("rich.console")  # now, and not between two blocks
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.clear()

    def tell(
        self,
        stage: str,
        *,
        fractions: Sequence[float] = (),
        elapsed_s: float | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Draw it, unless the last drawing was a moment ago or the terminal is not ready for more.

        A stage without a time is drawn whatever came before: nothing more may be told for a long while.
        """
        now_s = self._clock()
        is_soon = self._drawn_s is not None and now_s - self._drawn_s < self.least_s
        if not self._depth or (is_soon and elapsed_s is not None):
            return
        width = self._writer.fullwidth
        if self._writer.width_of_current_line and not self._writer.width_of_current_line % width:
            return  # the cursor hangs behind the last column, and no terminal brings it back to just there
        self._drawn_s = now_s
        if not self._is_ready():
            return
        words = [stage]
        if fractions:
            words.append(f"{format_fraction(median(fractions))} so far")
        if elapsed_s is not None:
            of = "" if limit_s is None else f" of {limit_s:.3g}"
            words.append(f"{elapsed_s:.{int(elapsed_s < 10)}f}{of} s")
        self._is_shown = True
        self._write(f"{_ROW_BELOW}{self._painted(', '.join(map(printable, words)), width - 1)}{_BACK}")

    def clear(self) -> None:
        """Leave nothing below the cursor."""
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def close(self) -> None:
        """Give the descriptor back."""
        self.clear()
        fd, self._fd = self._fd, -1
        with suppress(OSError):
            os.close(fd)

    def _painted(self, words: str, width: int) -> str:
        """The line, in colours where pytest writes them."""
        from rich.console import Console
        from rich.text import Text

        line = Text().append("roofline ", style="cyan")
        room = width - width_of(f"roofline : {words}")
        test = printable(self._environment.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].split("::", 1)[-1])
        if test and room >= min(width_of(test), _LEAST_NAME):
            line.append(f"{shortened(test, room)}: ", style="bold")
        line.append(words)
        line.truncate(width)
        console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard" if self._writer.hasmarkup else None,
            no_color=not self._writer.hasmarkup,
            width=width + 1,
            legacy_windows=False,
        )
        with console.capture() as captured:
            console.print(line, end="", no_wrap=True, overflow="crop", highlight=False)
        return captured.get()

    def _is_ready(self) -> bool:
        """Whether writing would wait for nobody: a terminal may be stopped, or at the end of a slow line."""
        try:
            return bool(select.select([], [self._fd], [], 0)[1])
        except (OSError, ValueError):
            return False

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._fd, text.encode(self._encoding, "backslashreplace"))
