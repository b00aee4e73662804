"""What the frameworks in use compiled while something was measured."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from pytest_roofline.checks.claimed import CompiledInWindow
from pytest_roofline.protocol import Backend, Compilation, CompileLog


class CompileLogs:
    """One log per backend that keeps one, open until it is left; the entries stay."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        opens = (getattr(backend, "open_compile_log", None) for backend in backends)
        self._logs: list[CompileLog] = [open_log() for open_log in opens if open_log is not None]
        self._closed: tuple[Compilation, ...] = ()

    def __enter__(self) -> CompileLogs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def poll(self) -> None:
        """Notice a compiler that was imported since: its log begins now."""
        for log in self._logs:
            log.poll()

    def entries(self) -> tuple[Compilation, ...]:
        """Everything that was seen so far."""
        return (*self._closed, *(entry for log in self._logs for entry in log.entries()))

    def close(self) -> None:
        """Stop listening; does nothing the second time."""
        self._closed = self.entries()
        while self._logs:
            self._logs.pop().close()


def compiled_within(
    compilations: Sequence[Compilation], bounds: Sequence[tuple[float, float]]
) -> CompiledInWindow | None:
    """What was compiled within these stretches of the clock, and for how long; None for nothing."""
    found, seconds = [], 0.0
    for one in compilations:
        shares = [min(one.end_s, high) - max(one.start_s, low) for low, high in bounds]
        inside = [share for share in shares if share >= 0]
        if inside:
            found.append(one.what)
            seconds += sum(inside)
    return CompiledInWindow(what=tuple(dict.fromkeys(found)), count=len(found), seconds=seconds) if found else None
