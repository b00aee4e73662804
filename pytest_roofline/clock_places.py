"""Where a test may hold a clock: under a name, in a closure, in a partial, as a default, or bound before the audit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from pytest_roofline.protocol import WatchedClock


def functions_with_defaults(module: ModuleType | None) -> Iterator[FunctionType]:
    """Functions of a module, and methods of its classes, that have default arguments."""
    if module is None:
        return
    for value in list(vars(module).values()):
        holders = vars(value).values() if isinstance(value, type) and value.__module__ == module.__name__ else [value]
        for function in holders:
            if isinstance(function, FunctionType) and function.__defaults__:
                yield function


def in_place_of(value: object, wrappers: dict[int, Callable[[], float]]) -> Callable[[], float] | None:
    """The wrapper of a clock that was imported by name, also of one inside a `functools.partial`; else None."""
    if type(value) is partial:
        wrapper = wrappers.get(id(value.func))
        return None if wrapper is None else partial(wrapper, *value.args, **value.keywords)
    return wrappers.get(id(value))


def cells(namespace: dict[str, Any]) -> Iterator[Any]:
    """What the functions of a module hold in their closures."""
    for value in list(namespace.values()):
        function = getattr(value, "__wrapped__", value)
        # A wrapper of ours holds the clock that it stands for: putting a wrapper there would call itself for ever.
        if isinstance(function, FunctionType) and function.__closure__ and not hasattr(function, "roofline_watch"):
            yield from function.__closure__


class Monitor:
    """Sees calls of clocks that were bound before the audit, in the code of one test module (Python 3.12+)."""

    def __init__(
        self,
        frame: FrameType,
        clocks: dict[int, WatchedClock],
        note: Callable[[WatchedClock, FrameType], None],
    ) -> None:
        self._codes = list(codes(frame))
        self._clocks = clocks
        self._note = note
        self._tool: int | None = None

    def start(self) -> None:
        """See calls from now on, where a slot is free."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        for tool in (4, 3):
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "pytest-roofline")
                self._tool = tool
                break
        else:
            return  # every free slot is taken by debuggers and profilers; reads bound early stay unseen
        monitoring.register_callback(self._tool, monitoring.events.CALL, self._on_call)
        for code in self._codes:
            monitoring.set_local_events(self._tool, code, monitoring.events.CALL)

    def stop(self) -> None:
        """See none any more, and give the slot back."""
        if self._tool is None:
            return
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        for code in self._codes:
            monitoring.set_local_events(self._tool, code, 0)
        monitoring.register_callback(self._tool, monitoring.events.CALL, None)
        monitoring.free_tool_id(self._tool)
        self._tool = None

    def _on_call(self, code: CodeType, offset: int, function: object, argument: object) -> None:
        clock = self._clocks.get(id(function))
        if clock is not None:
            self._note(clock, sys._getframe(1))


def codes(frame: FrameType) -> Iterator[CodeType]:
    """The running test's code and that of its module's functions, with what they nest."""
    pending = [frame.f_code]
    for value in list(frame.f_globals.values()):
        function = getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType) and function.__module__ == frame.f_globals.get("__name__"):
            pending.append(function.__code__)
    seen: set[int] = set()
    while pending:
        code = pending.pop()
        if id(code) in seen:
            continue
        seen.add(id(code))
        yield code
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
