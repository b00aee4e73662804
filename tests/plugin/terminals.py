"""Runs of pytest on a terminal of their own, and what is on its screen at the end."""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from inner_runs import FAKE, PLUGIN, ROOT

DRAWS_ALWAYS = """
from pytest_roofline.report.progress import TerminalOnlooker
TerminalOnlooker.least_s = 0.0
"""
DRAWS_NEVER = """
from pytest_roofline.report.progress import TerminalOnlooker
TerminalOnlooker.tell = lambda *arguments, **figures: None
"""
_LONGEST_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a run wrote, and the screen that it left; its time and addresses are cut out of the rows."""

    raw: bytes
    rows: list[str]
    status: int


def run_on_terminal(
    pytester: pytest.Pytester,
    source: str,
    *arguments: str,
    conftest: str = FAKE + DRAWS_ALWAYS,
    size: tuple[int, int] = (80, 200),
    **environment: str,
) -> Shown:
    """Run pytest on `source` with a terminal of `size` (columns, rows) for its input, output and errors."""
    import fcntl
    import termios

    import pyte

    pytester.makeconftest(conftest)
    pytester.makepyfile(source)
    ours, theirs = os.openpty()
    columns, rows = size
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    decides = ("CI", "BUILD_NUMBER", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS")
    ambient = {
        name: value
        for name, value in os.environ.items()
        if name not in decides and not name.startswith(("PYTEST_ROOFLINE", "PYTEST_XDIST"))
    }
    settings: dict[str, Any] = {"TERM": "xterm", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *PLUGIN, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=pytester.path,
        env={**ambient, **settings, **environment},
        start_new_session=True,
    )
    os.close(theirs)
    raw = _read(ours, process)
    screen = pyte.Screen(columns, rows)
    pyte.ByteStream(screen).feed(raw)
    text = "\n".join(row.rstrip() for row in screen.display).rstrip()
    text = re.sub(r"=* .* in \d+\.\d+s.*", "in some time", text)
    return Shown(raw=raw, rows=re.sub(r"\b0x[0-9a-f]+", "0x0", text).split("\n"), status=process.returncode)


def _read(ours: int, process: subprocess.Popen[bytes]) -> bytes:
    """All that it writes until it ends; it is killed where it stays silent."""
    raw = b""
    try:
        while select.select([ours], [], [], _LONGEST_S)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not piece:
                break
            raw += piece
        else:
            process.send_signal(signal.SIGKILL)
    finally:
        process.wait(timeout=_LONGEST_S)
        os.close(ours)
    return raw
