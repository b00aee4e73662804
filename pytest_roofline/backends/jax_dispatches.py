"""What other threads got from JAX and may have dropped: on a CPU nothing else leads to it.

A CPU device runs in order what *one thread* gives it, so an operation queued behind everything says nothing of another
thread's work, and waiting on live arrays misses what was dropped. While this room is open JAX calls it after each
call of a compiled function, with what that returned; the last of each thread is kept, which is done when everything
before it is. The very first call of a function, which compiles it, is not seen. Nothing here imports JAX.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any


class JaxDispatches:
    """The last outputs of every thread but the one that opened it; opened and closed as often as one likes."""

    def __init__(self) -> None:
        self._latest: dict[int, Any] = {}
        self._home: int | None = None
        self._opened = 0
        self._state: Any = None
        self._before: Callable[..., Any] | None = None
        self._hook = self._note

    def open(self) -> bool:
        """Have JAX tell; False, and nothing done, where it is not imported or has no such hook."""
        state: Any = getattr(getattr(sys.modules.get("jax._src"), "api", None), "_post_hook_state", None)
        if not all(hasattr(state, name) for name in ("get_global", "set_global")):
            return False
        self._opened += 1
        if self._opened == 1:
            self._home = threading.get_ident()
            self._state, self._before = state, state.get_global()
            state.set_global(self._hook)
        return True

    def close(self) -> None:
        """Leave JAX as it was, unless somebody has put another hook in front by now; what is kept stays."""
        self._opened -= 1
        if self._opened == 0 and self._state.get_global() is self._hook:
            self._state.set_global(self._before)

    def outputs(self) -> list[Any]:
        """What each other thread got last; of the thread that asks nothing, for its work has an order of its own."""
        own = threading.get_ident()
        return [output for ident, output in list(self._latest.items()) if ident != own]

    def forget(self, outputs: list[Any]) -> None:
        """Let go of outputs that have been waited for."""
        for ident, output in list(self._latest.items()):
            if any(output is done for done in outputs):
                self._latest.pop(ident, None)

    def _note(self, function: Any, arguments: Any, keywords: Any, output: Any) -> None:
        before = self._before
        if before is not None:  # JAX's own, which looks for NaN
            before(function, arguments, keywords, output)
        ident = threading.get_ident()
        if ident != self._home and self._opened > 0:
            self._latest[ident] = output
