"""One step of a JAX program, run once for real while everything that it hands to XLA is written down.

The step is not traced abstractly: a loop that keeps its cache in a closure would be left holding tracers. Instead a
recording interpreter stands where JAX's eager one does; it notes each operation and each jitted call with the arrays
that went in, and lets the eager interpreter run it. Programs compiled ahead of time, and foreign calls inside
jitted ones, are not seen: the trace is then open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from pytest_roofline.backends.jax_ledger import Ledger
from pytest_roofline.backends.jax_surveyor import JaxSurveyor
from pytest_roofline.backends.jax_views import Root, Value, known_of
from pytest_roofline.protocol import Trace, TraceRequest
from pytest_roofline.traffic import TRACED, Traffic


def trace(request: TraceRequest, device_of: Callable[[Any], str | None]) -> Trace | None:
    """Run the step once; None, and the step not run, where this JAX has no interpreter to stand in for."""
    core: Any = getattr(getattr(jax, "_src", None), "core", None)
    if not all(hasattr(core, name) for name in ("Trace", "set_current_trace", "eval_trace")):
        return None
    existing = [array for name in _platforms() for array in jax.live_arrays(name)]
    book = _Book(request.context, {id(array) for array in existing})
    with core.set_current_trace(_recorder(core, book)):
        outputs = request.step(*request.args)
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(outputs) if isinstance(leaf, jax.Array)]
    traffic = book.traffic(request, leaves)
    if traffic is None:
        return None
    device = device_of(leaves) or device_of(book.arrays)
    return Trace(
        traffic=traffic,
        outputs=outputs,
        device_ids=() if device is None else (device,),
        surveyor=JaxSurveyor(existing, book.ledger.roots),
    )


def _platforms() -> tuple[str, ...]:
    from pytest_roofline.backends.jax_queue import initialised_platforms

    return initialised_platforms()


class _Atom:
    """Shape and dtype of a concrete argument, in the form in which the ledger reads them from a jaxpr."""

    def __init__(self, argument: Any) -> None:
        self.aval = self
        self.shape: tuple[int, ...] = tuple(getattr(argument, "shape", ()))
        self.dtype = getattr(argument, "dtype", None)


class _Book:
    """What the recorder writes down: the ledger, and what every array made by the step consists of."""

    def __init__(self, context: int | None, existing: set[int]) -> None:
        self._existing = existing
        self.ledger = Ledger(context=context)
        self.made: dict[int, Value] = {}
        self.arrays: list[Any] = []
        self.is_sharded = False

    def value_of(self, argument: Any) -> Value:
        """What an argument consists of: made by the step, or there before it."""
        if id(argument) in self.made:
            return self.made[id(argument)]
        if not isinstance(argument, jax.Array):  # comes from the host
            return Value(known=known_of(argument))
        if id(argument) not in self._existing:
            self.ledger.unknown.add("an array that no recorded operation wrote")
            return Value(known=known_of(argument))
        return self.ledger.value_of(argument)

    def note_inputs(self, primitive: Any, arguments: list[Any], params: dict[str, Any]) -> list[Value]:
        """Look at the arguments before they are used: afterwards the donated ones are gone."""
        donated = params.get("donated_invars") or (False,) * len(arguments)
        values = []
        for argument, is_donated in zip(arguments, donated, strict=True):
            value = self.value_of(argument)
            for view in value.views:
                view.root.is_donated = view.root.is_donated or bool(is_donated)
            if isinstance(argument, jax.Array):
                self.is_sharded = self.is_sharded or len(argument.devices()) > 1
            values.append(value)
        return values

    def note_call(
        self, primitive: Any, arguments: list[Any], params: dict[str, Any], values: list[Value], results: list[Any]
    ) -> None:
        """Account for one operation that has been handed to XLA."""
        ins = [_Atom(argument) for argument in arguments]
        outs = [_Atom(result) for result in results]
        made = self.ledger.apply(primitive.name, params, values, ins, outs, [True] * len(outs), primitive)
        inputs = {id(argument) for argument in arguments}
        for result, value in zip(results, made, strict=True):
            if not isinstance(result, jax.Array) or id(result) in inputs:
                continue
            self.made[id(result)] = self.ledger.materialised(value)
            self.arrays.append(result)  # kept, or its id could come back for another array

    def note_host_value(self, array: Any) -> None:
        """An array made from a value of the host: its transfer is not traffic of the pass."""
        self.made[id(array)] = Value(known=known_of(array))
        self.arrays.append(array)

    def traffic(self, request: TraceRequest, leaves: list[Any]) -> Traffic | None:
        """The sums; None when the step handed nothing to XLA that could be accounted for."""
        ledger = self.ledger
        roots = [root for root in ledger.roots.values() if root.expected_bytes > 0]
        written_bytes = ledger.update_bytes
        unknown = set(ledger.unknown)
        for leaf in {id(leaf): leaf for leaf in leaves}.values():
            value = self.made.get(id(leaf))
            if value is None:
                if id(leaf) not in self._existing:
                    unknown.add("an array that no recorded operation wrote")
            elif value.is_computed and not value.is_update:
                written_bytes += float(leaf.nbytes)
        if not leaves:
            unknown.add("no output is a JAX array")
        if self.is_sharded:
            unknown.add("arrays sharded over several devices")
        least_bytes = sum(root.least_bytes for root in roots) + written_bytes
        expected_bytes = sum(root.expected_bytes for root in roots) + written_bytes
        if expected_bytes <= 0:
            return None
        caches = [root for root in roots if root.is_cache]
        for root in caches:
            if root.filled_bytes is not None and root.nbytes > root.filled_bytes:
                ledger.note_extra("cache room that is not filled yet", root.nbytes - root.filled_bytes)
        extra = tuple(sorted(ledger.extra.items(), key=lambda item: -item[1]))
        return Traffic(
            bytes_per_pass=expected_bytes,
            least_bytes_per_pass=least_bytes,
            weight_bytes_per_pass=sum(root.expected_bytes for root in roots if not root.is_cache),
            kv_bytes_per_pass=sum(root.expected_bytes for root in caches),
            written_bytes_per_pass=written_bytes,
            extra_bytes_per_pass=sum(nbytes for _, nbytes in extra),
            extra=extra,
            flops_per_pass=ledger.flops or None,
            dtype=_largest_dtype(roots),
            batch=request.batch,
            context=request.context,
            source=TRACED,
            is_closed=not unknown and least_bytes >= 0.99 * expected_bytes,
            notes=(f"a lower bound: {', '.join(sorted(unknown))}",) if unknown else (),
        )


def _largest_dtype(roots: list[Root]) -> str | None:
    totals: dict[str, float] = {}
    for root in roots:
        totals[root.dtype] = totals.get(root.dtype, 0.0) + root.expected_bytes
    return max(totals, key=lambda name: totals[name], default=None)


def _recorder(core: Any, book: _Book) -> Any:
    """An interpreter that notes what passes and has JAX's eager one run it."""

    eager: Any = type(core.eval_trace)

    class Recorder(eager):  # type: ignore[misc]  # a class of a library that is seen without types
        def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
            arguments = list(args)
            with core.set_current_trace(core.eval_trace):
                values = book.note_inputs(primitive, arguments, params)
                results = primitive.bind(*arguments, **params)
                many = list(results) if primitive.multiple_results else [results]
                book.note_call(primitive, arguments, params, values, many)
            return results

        def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, **_: Any) -> Any:
            with core.set_current_trace(self):
                return fun.call_wrapped(*tracers)

        def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, **_: Any) -> Any:
            with core.set_current_trace(self):
                return fun.call_wrapped(*tracers)

        def stage_value(self, val: Any) -> Any:
            result = super().stage_value(val)
            book.note_host_value(result)
            return result

    return Recorder()
