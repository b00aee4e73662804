"""The traffic of a PyTorch step: run it once, watch every operation, count what it had to move.

The step runs as it always does, under the caller's grad mode, and its exceptions pass unchanged. Nothing of it is
kept: the ledger knows storages by weak references.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.models.accounts import Circumstances, account
from pytest_roofline.models.attention import visible
from pytest_roofline.models.belongings import (
    is_wrapper,
    register_arguments,
    register_caches,
    register_modules,
    used_caches,
)
from pytest_roofline.models.caches import Reachable, reach, room_of
from pytest_roofline.models.calls import Call, tensors_in
from pytest_roofline.models.imprints import Imprints
from pytest_roofline.models.launches import launches_seen
from pytest_roofline.models.ledger import Ledger
from pytest_roofline.models.operands import KNOWN_NAMESPACES, enter
from pytest_roofline.models.outcome import (
    close,
    needed_bytes_by_device,
    outliving_bytes,
    returned_tensors,
    touched_devices,
)
from pytest_roofline.models.surveyor import TensorSurveyor
from pytest_roofline.protocol import Trace, TraceRequest
from pytest_roofline.traffic import Traffic

UNACCOUNTABLE = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""What goes wrong with an operation that cannot be accounted for: it must cost the trace, never the user's step."""


def trace_module(request: TraceRequest) -> Trace:
    """Run ``request.step(*request.args)`` once and account for its bytes.

    `Trace.traffic` holds what the step must read and write (bytes), its extra bytes by name and its FLOPs; it is
    closed when everything that was returned is accounted for. Its `context` is what the caches held *before* the
    step, whose new rows are written and not read from memory. `Trace.context_room` is what is left *after* this
    step, in tokens. Not counted: intermediate results (they may stay in cache), and whatever runs outside PyTorch's
    dispatcher, which makes the trace open. Exceptions of the step propagate unchanged; where it cannot be accounted
    for, the trace says so in its notes and raises nothing.
    """
    found = reach(request.step, request.args, request.model)
    modules = _modules_of(request, found)
    ledger = Ledger(has_model=bool(modules))
    imprints = Imprints(ledger)
    experts = register_modules(ledger, modules)
    register_arguments(ledger, request.args)
    states = register_caches(ledger, found)
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:
            # Without it nothing has been compiled yet, and loading it takes seconds.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(launches_seen(ledger))
        stack.enter_context(_AttentionCalls(ledger))
        stack.enter_context(_Watch(ledger, imprints))
        outputs = request.step(*request.args)
    with torch.no_grad():
        with suppress(*UNACCOUNTABLE):
            imprints.compare(returned_tensors(outputs))
            imprints.close()
        used = used_caches(ledger, states)
        traffic = account(
            ledger,
            Circumstances(
                batch=request.batch,
                context=request.context,
                cached_tokens=max((state.tokens for state in used if state.tokens is not None), default=None),
                cached_batch=max((state.batch for state in used if state.batch is not None), default=None),
                output_bytes=close(ledger, outputs),
                appended_bytes=outliving_bytes(ledger, used),
                experts=experts,
                is_compiled=found.is_compiled,
            ),
        )
    return Trace(
        traffic=traffic,
        outputs=outputs,
        device_ids=touched_devices(ledger),
        bytes_by_device=needed_bytes_by_device(ledger),
        context_room=room_of([state.cache for state in used]),
        surveyor=TensorSurveyor(ledger.storages),
    )


def module_traffic(
    model: torch.nn.Module,
    step: Callable[..., Any],
    *args: Any,
    batch: int | None = None,
    context: int | None = None,
) -> Traffic:
    """What one call of ``step(*args)`` moves; see `trace_module`. RooflineUsageError when `step` is no callable."""
    if not callable(step):
        raise RooflineUsageError(f"traffic of a module needs a step to run once, not {type(step).__name__}")
    return trace_module(TraceRequest(step=step, args=args, model=model, batch=batch, context=context)).traffic


def _modules_of(request: TraceRequest, found: Reachable) -> list[torch.nn.Module]:
    """The model: the one given, else the modules that the step holds, each tree once."""
    if isinstance(request.model, torch.nn.Module):
        return [request.model]
    inside = {id(child) for module in found.modules for child in module.modules() if child is not module}
    return [module for module in found.modules if id(module) not in inside]


class _Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Shows every operation to the ledger, after it has run."""

    supports_higher_order_operators = True

    def __init__(self, ledger: Ledger, imprints: Imprints) -> None:
        super().__init__()
        self._ledger = ledger
        self._imprints = imprints

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._ledger.is_paused:
            return func(*args, **kwargs)
        if any(is_wrapper(kind) for kind in types):
            return NotImplemented  # the wrapper unwraps itself, and its inner operations come by here
        if getattr(func, "_schema", None) is None:
            result = func(*args, **kwargs)
            self._ledger.open(f"{func} is not an operation whose reads are known")
            self._ledger.came_about(tensors_in(result))
            return result
        if func.namespace in KNOWN_NAMESPACES and func._can_decompose():
            # Inference mode hands over composite operations whole.
            with self:
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        with suppress(*UNACCOUNTABLE), torch.no_grad():
            self._imprints.compare((args, kwargs))
        result = func(*args, **kwargs)
        call = Call(name=str(func.overloadpacket), func=func, args=args, kwargs=kwargs, result=result)
        try:
            with torch.no_grad():
                enter(self._ledger, call)
                self._imprints.take(call)
        except UNACCOUNTABLE as e:
            reason = str(e).partition("\n")[0]
            self._ledger.open(f"{call.name} could not be accounted for ({type(e).__name__}: {reason})")
            self._ledger.came_about(call.outputs)
        return result


class _AttentionCalls(TorchFunctionMode):  # type: ignore[misc]  # torch is not followed
    """Notes the mask of each attention call, which is lost where PyTorch takes the call apart into products."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is not torch.nn.functional.scaled_dot_product_attention or self._ledger.attended is not None:
            return func(*args, **kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        self._ledger.is_paused = True  # what is looked up here is no operation of the step
        try:
            with suppress(*UNACCOUNTABLE), torch.no_grad():
                self._ledger.attended = visible(self._ledger, {**dict(zip(names, args, strict=False)), **kwargs})
            self._ledger.is_paused = False
            return func(*args, **kwargs)
        finally:
            self._ledger.is_paused = False
            self._ledger.attended = None
