"""Sees the passes of a generation: every call of the model, and of its draft, from whichever loop calls them.

Eager calls are seen by forward hooks. Compiled ones are counted around the compiled call: inside of it the hooks do
nothing, so they neither break its graph nor make it compile anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from pytest_roofline.generation import Pass

SHAPED = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
"""Arguments whose first two dimensions are sequences and positions, the decoder's before the encoder's."""

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class PassRecorder:
    """Records the passes of one run after the other; what it hooks and replaces is put back by `close`."""

    def __init__(self, model: torch.nn.Module, draft: torch.nn.Module | None) -> None:
        self.passes: list[Pass] = []
        self.around: Around | None = None
        """While `looking`: runs a pass, given how to and its arguments."""
        ours = generating(model)
        self._drafts = [] if draft is None or draft is model else generating(draft)
        self._modules = [*ours, *(one for one in self._drafts if not any(one is other for other in ours))]
        self._generating: list[tuple[Any, bool]] = [(model, False)]
        self._depth = 0
        self._pending: tuple[int | None, int | None] = (None, None)
        self._held = ExitStack()
        try:
            for module in self._modules:
                self._attach(module)
        except BaseException:
            self.close()
            raise

    @property
    def is_drafting(self) -> bool:
        """Whether a draft is being generated now: by another model, or by the same one from within itself."""
        return self._generating[-1][1]

    def begin(self) -> None:
        """Forget the run before, also one that was broken off."""
        self.passes = []
        self._depth = 0
        del self._generating[1:]

    def close(self) -> None:
        """Remove the hooks."""
        self._held.close()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While it lasts passes run through `around`, eagerly."""
        with ExitStack() as stack:
            for module in self._modules:
                run = functools.partial(self._looked_at, module.forward)
                # Whoever asks what the model accepts asks the signature of its forward.
                stack.enter_context(replaced(module, "forward", functools.wraps(module.forward)(run)))
                # What was compiled runs as it was written, and nothing is compiled for a look.
                if vars(module).get("_compiled_call_impl") is not None:
                    stack.enter_context(replaced(module, "_compiled_call_impl", None))
                if callable(getattr(module, "get_compiled_call", None)):
                    stack.enter_context(replaced(module, "get_compiled_call", functools.partial(_uncompiled, module)))
            yield

    def _looked_at(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.around is None or self._depth != 1:
            return original(*args, **kwargs)
        return self.around(original, args, kwargs)

    # -- hooks --------------------------------------------------------------------------------------------------

    def _attach(self, module: torch.nn.Module) -> None:
        before = module.register_forward_pre_hook(self._before, with_kwargs=True)
        self._held.callback(before.remove)
        after = module.register_forward_hook(self._after)
        self._held.callback(after.remove)
        generate = getattr(module, "generate", None)
        if callable(generate):
            nested = functools.partial(self._nested, module, generate)
            self._held.enter_context(replaced(module, "generate", functools.wraps(generate)(nested)))
        compiled = vars(module).get("_compiled_call_impl")
        if compiled is not None:
            self._held.enter_context(replaced(module, "_compiled_call_impl", self._counted(module, compiled)))
        get_compiled = getattr(module, "get_compiled_call", None)
        if callable(get_compiled):

            def counted(*args: Any, **kwargs: Any) -> Any:
                return self._counted(module, get_compiled(*args, **kwargs))

            self._held.enter_context(replaced(module, "get_compiled_call", counted))

    def _nested(self, module: torch.nn.Module, generate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A generate within the generate that is watched."""
        is_draft = (
            self.is_drafting
            or any(module is one for one in self._drafts)
            or any(module is one for one, _ in self._generating)
        )
        self._generating.append((module, is_draft))
        try:
            return generate(*args, **kwargs)
        finally:
            self._generating.pop()

    def _counted(self, module: torch.nn.Module, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._enter(args, kwargs)
            try:
                output = call(*args, **kwargs)
            except BaseException:
                self._depth -= 1
                raise
            self._leave(module)
            return output

        return counted

    def _before(self, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            self._enter(args, kwargs)

    def _after(self, module: Any, _args: Any, _output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._leave(module)

    def _enter(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self._depth == 0:
            self._pending = shape_of(args, kwargs)
        self._depth += 1

    def _leave(self, module: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        is_draft = self.is_drafting or any(module is one for one in self._drafts)
        rows, positions = self._pending
        self.passes.append(Pass(rows=rows, positions=positions, is_draft=is_draft))


def _uncompiled(module: torch.nn.Module, *_args: Any, **_kwargs: Any) -> Callable[..., Any]:
    return module.__call__  # type: ignore[no-any-return]  # torch is not followed


def generating(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The model, and the modules in it that can be the one that generates (a language model behind an encoder)."""
    inner = [one for one in model.modules() if callable(getattr(type(one), "prepare_inputs_for_generation", None))]
    return [model, *(one for one in inner if one is not model)]


def shape_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Sequences and positions of a pass by its arguments; None where they do not show them."""
    named = [kwargs.get(name) for name in SHAPED]
    for tensor in (*named, *args[:1]):
        if isinstance(tensor, torch.Tensor) and tensor.dim() >= 2:
            return int(tensor.shape[0]), int(tensor.shape[1])
    return None, None


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of this one object replaced; its class, and every other object of it, stay as they are."""
    held = vars(owner)
    is_own, before = name in held, held.get(name)
    held[name] = value
    try:
        yield
    finally:
        if is_own:
            held[name] = before
        else:
            held.pop(name, None)
