"""What is being done, told to whoever looks on: between timed blocks, never inside one. Nothing here draws."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Onlooker(Protocol):
    """Somebody who wants to see how far a measurement is. Telling must cost next to nothing where nobody looks."""

    def watching(self) -> AbstractContextManager[None]:
        """While something is measured; may be nested. However it ends, nothing is left of what was shown."""
        ...

    def tell(
        self,
        stage: str,
        *,
        fractions: Sequence[float] = (),
        elapsed_s: float | None = None,
        limit_s: float | None = None,
    ) -> None:
        """What comes next; `fractions` of the ceiling so far, and how much of the time is over."""
        ...

    def clear(self) -> None:
        """Make room: somebody is about to print."""
        ...


class Nobody:
    """Sees nothing."""

    def watching(self) -> AbstractContextManager[None]:
        """Nothing is shown."""
        return nullcontext()

    def tell(
        self,
        stage: str,
        *,
        fractions: Sequence[float] = (),
        elapsed_s: float | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Nothing is heard."""

    def clear(self) -> None:
        """Nothing was shown."""


NOBODY: Onlooker = Nobody()
