"""Compilations of the fake host: a list of them, and a log that is open for a while."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_roofline.protocol import Compilation


class FakeCompileLog:
    """What a fake host compiled since the log was opened."""

    def __init__(self, everything: Sequence[Compilation]) -> None:
        self._everything = everything
        self._first = len(everything)
        self._end: int | None = None

    def poll(self) -> None:
        """Nothing: the fake's compiler is always there."""

    def entries(self) -> Sequence[Compilation]:
        """In order."""
        return self._everything[self._first : self._end]

    def close(self) -> None:
        """What is compiled from now on belongs to nobody."""
        self._end = len(self._everything)
