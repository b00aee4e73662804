"""The devices' rooms: one file per framework, each imported only when that framework is in use.

`loaded_backends` is how everything above finds them: a framework counts as in use when it is in `sys.modules`.
Nothing here imports a framework that the process has not imported itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module

from pytest_roofline.protocol import Backend

_ROOMS = (
    ("torch", "pytest_roofline.backends.torch", "TorchBackend"),
    ("jax", "pytest_roofline.backends.jax", "JaxBackend"),
    ("mlx.core", "pytest_roofline.backends.mlx", "MlxBackend"),
)


class Backends:
    """The backends of one session: the bare CPU, every framework that is loaded by now, and added ones (fakes).

    Each is made once. Asking again after an import finds the new framework.
    """

    def __init__(self, added: Iterable[Backend] = (), *, specs_paths: Sequence[str] = ()) -> None:
        self._added = tuple(added)
        self._specs_paths = tuple(specs_paths)
        self._made: dict[str, Backend] = {}

    def loaded(self) -> tuple[Backend, ...]:
        """Added ones first, then frameworks in use, the bare CPU last."""
        frameworks = [self._make(*room) for room in _ROOMS if _is_imported(room[0])]
        bare = self._make("", "pytest_roofline.backends.cpu", "CpuBackend")
        return (*self._added, *frameworks, bare)

    def in_use(self, beside: Backend) -> tuple[Backend, ...]:
        """Those that may have work in flight while `beside` is measured: what a drain covers.

        Backends whose clock is virtual live in a time of their own: real work is none of theirs, nor theirs its.
        """
        if _is_virtual(beside):
            return (beside,)
        return tuple(backend for backend in self.loaded() if backend.has_context() and not _is_virtual(backend))

    def _make(self, framework: str, room: str, name: str) -> Backend:
        if name not in self._made:
            make = getattr(import_module(room), name)
            if name == "TorchBackend" and self._specs_paths:
                from pytest_roofline.specs import load_devices

                make = partial(make, specs=load_devices(self._specs_paths))
            self._made[name] = make()
        return self._made[name]


def _is_imported(framework: str) -> bool:
    """Whether the framework is imported, wholly: half-way through its import it must be left alone.

    A folder that happens to be named like a framework imports as an empty namespace, which has no file.
    """
    module = sys.modules.get(framework)
    if module is None:
        return False
    spec = getattr(module, "__spec__", None)
    is_namespace = spec is not None and spec.origin is None
    return not is_namespace and not getattr(spec, "_initializing", False)


def _is_virtual(backend: Backend) -> bool:
    """Whether the backend brings public clocks of its own, because it runs on a virtual one."""
    return hasattr(backend, "public_clocks")
