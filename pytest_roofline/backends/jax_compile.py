"""What JAX compiled, as its own monitoring tells; nothing here imports JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pytest_roofline.backends.jax_dispatches import JaxDispatches
from pytest_roofline.protocol import Compilation

_COMPILE = "/jax/core/compile/"
_DONE = "backend_compile_duration"


class JaxCompileLog:
    """A listener that is registered once and taken out again; what other threads dispatch is noted as long."""

    def __init__(self, clock: Callable[[], float], dispatches: JaxDispatches | None = None) -> None:
        self._clock = clock
        self._dispatches = dispatches or JaxDispatches()
        self._is_noting = False
        self._entries: list[Compilation] = []
        self._begun_s: float | None = None
        self._is_open = True
        self._monitoring: Any = None
        self.poll()

    def entries(self) -> Sequence[Compilation]:
        """In order."""
        return tuple(self._entries)

    def poll(self) -> None:
        """Register once JAX is there."""
        monitoring = getattr(sys.modules.get("jax"), "monitoring", None)
        if self._monitoring is None and self._is_open and monitoring is not None:
            self._monitoring = monitoring
            monitoring.register_event_duration_secs_listener(self._listen)
        if self._is_open and not self._is_noting:
            self._is_noting = self._dispatches.open()

    def close(self) -> None:
        """Take the listener out; where this JAX has no way to, it stays and does nothing."""
        self._is_open = False
        if self._is_noting:
            self._is_noting = False
            self._dispatches.close()
        if self._monitoring is None:
            return
        inner: Any = sys.modules.get("jax._src.monitoring")
        for owner, name in (
            (self._monitoring, "unregister_event_duration_listener"),
            (inner, "_unregister_event_duration_listener_by_callback"),
        ):
            remove = getattr(owner, name, None)
            if remove is not None:
                with suppress(ValueError, AssertionError):  # somebody cleared all listeners meanwhile
                    remove(self._listen)
                return

    def _listen(self, event: str, duration_s: float, **details: Any) -> None:
        if not self._is_open or not event.startswith(_COMPILE):
            return
        now = self._clock()
        # Tracing and lowering come before the compilation itself, and belong to it.
        begun = now - duration_s
        self._begun_s = begun if self._begun_s is None else min(self._begun_s, begun)
        if event.endswith(_DONE):
            name = details.get("fun_name")
            what = f"jax.jit ({name})" if name else "jax.jit"
            self._entries.append(Compilation(what=what, start_s=self._begun_s, end_s=now))
            self._begun_s = None
