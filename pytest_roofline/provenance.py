"""Whose code is it: the test's own, a library's, or ours?

Code of the standard library and of installed packages is nobody's test; everything else is, helper modules of the
project included.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Any

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CANARIES = os.path.join(_OWN_FOLDER, "canaries.py")
"""Ours, and tests all the same: what they read is what a test reads."""
_DEPTH = 40
"""How many callers up the line of a test is looked for."""


class Provenance:
    """Tells files of the test's code from others; remembers each answer."""

    def __init__(self) -> None:
        self._libraries = (*_library_folders(), _OWN_FOLDER)
        self._known: dict[str, bool] = {}
        self._ours: dict[str, bool] = {}

    def is_of_test(self, filename: str) -> bool:
        """Whether code of this file is the test's, or its project's."""
        known = self._known.get(filename)
        if known is None:
            path = os.path.abspath(filename)
            is_library = path.startswith(self._libraries) or filename.startswith("<frozen")
            is_library = is_library and path != _CANARIES
            known = self._known[filename] = not is_library
        return known

    def is_ours(self, filename: str) -> bool:
        """Whether it is code of this package."""
        known = self._ours.get(filename)
        if known is None:
            path = os.path.abspath(filename)
            known = self._ours[filename] = path.startswith(_OWN_FOLDER) and path != _CANARIES
        return known

    def caller(self, frame: FrameType | None) -> FrameType | None:
        """The nearest frame of the test's code, from this one outwards; None when there is none near."""
        for _ in range(_DEPTH):
            if frame is None or self.is_of_test(frame.f_code.co_filename):
                return frame
            frame = frame.f_back
        return None

    def namespaces(self) -> Iterator[dict[str, Any]]:
        """Globals of the loaded modules that are the test's or its project's."""
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if not isinstance(names, dict):
                continue
            filename = names.get("__file__")
            if isinstance(filename, str) and self.is_of_test(filename):
                yield names


def place_of(frame: FrameType) -> str:
    """``file.py:12``: where a frame is now."""
    return place_at(frame.f_code.co_filename, frame.f_lineno)


def place_at(file: str, line: int) -> str:
    """``file.py:12``, of a place that was noted while there was no time for words."""
    return f"{os.path.basename(file)}:{line}"


def _library_folders() -> tuple[str, ...]:
    """Where code lives that is not the test's: the standard library and installed packages."""
    paths = sysconfig.get_paths()
    folders = {
        os.path.abspath(paths[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib") if key in paths
    }
    return tuple(sorted(folders))
