"""The session of a command that measures: it waits for whoever measures here, as tests do, and says for whom."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING

from pytest_roofline.errors import RooflineUsageError

if TYPE_CHECKING:
    from pytest_roofline.session import Session

FOLDER_VARIABLE = "PYTEST_ROOFLINE_LOCK_FOLDER"
WAIT_VARIABLE = "PYTEST_ROOFLINE_LOCK_WAIT"


def open_session() -> Session:
    """A session whose locks lie where the environment says, as for tests; RooflineUsageError for a wrong wait."""
    from pytest_roofline.session import Session
    from pytest_roofline.turnstile import LOCK_WAIT_S, Turnstile

    folder, wait = os.environ.get(FOLDER_VARIABLE, "").strip(), os.environ.get(WAIT_VARIABLE, "").strip()
    wait_s = _seconds(wait) if wait else LOCK_WAIT_S
    return Session(turnstile=Turnstile(folder=folder or None, wait_s=wait_s, say=_say))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise RooflineUsageError(f"{WAIT_VARIABLE}: {text!r} is no positive number of seconds")
    return seconds


def _say(line: str) -> None:
    """Beside the answer, which stays whole."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
