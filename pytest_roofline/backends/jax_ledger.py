"""Which bytes a JAX program must move, from its jaxpr: views are free until something reads them.

Two figures are kept for every array that existed before the step. *Least*: what no implementation can avoid. It is
never above the truth; where a program decides at run time (indices that are not known, a select, a branch) it
counts nothing. *Expected*: what the program as written reads, once per byte range.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_roofline.backends.jax_views import Root, Value, View, known_of

# fmt: off
_VIEWS = frozenset((
    "reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "rev", "copy", "copy_p",
    "convert_element_type", "bitcast_convert_type", "reduce_precision", "optimization_barrier",
    "sharding_constraint", "device_put",
))
_ELEMENTWISE = frozenset((
    "add", "sub", "mul", "div", "neg", "exp", "exp2", "log", "log1p", "expm1", "tanh", "logistic", "max",
    "min", "pow", "integer_pow", "sqrt", "rsqrt", "cbrt", "square", "erf", "erf_inv", "erfc", "abs",
    "sign", "floor", "ceil", "round", "and", "or", "not", "xor", "eq", "ne", "lt", "le", "gt", "ge",
    "clamp", "add_any", "sin", "cos", "tan", "is_finite", "rem", "shift_left", "shift_right_logical",
    "shift_right_arithmetic",
))
_READERS = frozenset((
    "dot_general", "conv_general_dilated", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod",
    "reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin",
    "cumlogsumexp", "sort", "top_k",
))
_SOURCES = frozenset((
    "iota", "empty", "create_token", "random_seed", "random_wrap", "random_unwrap", "random_bits",
    "threefry2x32",
))
_CALLS = frozenset((
    "jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_jvp_call",
    "custom_vjp_call", "custom_vjp_call_jaxpr",
))
_FOLDABLE = frozenset((
    "add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "select_n", "convert_element_type",
    "broadcast_in_dim", "reshape", "squeeze", "concatenate", "max", "min", "rem", "clamp", "and", "or",
    "not", "neg", "sign", "transpose",
))
# fmt: on


def _size(shaped: Any) -> int:
    return math.prod(shaped.aval.shape) if hasattr(shaped.aval, "shape") else 1


def _item_bytes(shaped: Any) -> float:
    return float(getattr(getattr(shaped.aval, "dtype", None), "itemsize", 0) or 0)


class Ledger:
    """Reads, writes and FLOPs of the programs that a step ran, in their order."""

    def __init__(self, *, context: int | None) -> None:
        self.roots: dict[int, Root] = {}
        self.update_bytes = 0.0
        self.extra: dict[str, float] = {}
        self.flops = 0.0
        self.unknown: set[str] = set()
        """Why the count is a lower bound only: operations that are not understood, or decided at run time."""
        self._context = context
        self._times = 1.0
        self._held: list[Any] = []

    # -- arrays --

    def root_of(self, array: Any) -> Root:
        """The root of an array that existed before the step, one per array."""
        if id(array) not in self.roots:
            self._held.append(array)  # or its id could come back for another array
            self.roots[id(array)] = Root(nbytes=float(array.nbytes), shape=tuple(array.shape), dtype=str(array.dtype))
        return self.roots[id(array)]

    def value_of(self, array: Any) -> Value:
        """An array from before the step, all of it and nothing read yet."""
        known = known_of(array)
        if not hasattr(array, "nbytes") or not hasattr(array, "shape") or (known is not None and known.ndim == 0):
            return Value(known=known)
        root = self.root_of(array)
        view = View(root=root, least_bytes=root.nbytes, expected_bytes=root.nbytes)
        return Value(views=(view,), known=known)

    def _read(self, value: Value) -> None:
        for view in value.views:
            view.root.read(view, self._times)

    # -- programs --

    def run(self, jaxpr: Any, consts: Any, inputs: list[Value], live: list[bool] | None = None) -> list[Value]:
        """Account for a jaxpr; what its outputs are made of. Equations that no live output needs do not count."""
        env: dict[Any, Value] = {}
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            env[var] = const if isinstance(const, Value) else self.value_of(const)
        env.update(zip(jaxpr.invars, inputs, strict=True))

        def look(atom: Any) -> Value:
            if hasattr(atom, "val"):
                return Value(known=known_of(atom.val))
            return env.get(atom, Value())

        needed = _needed(jaxpr, live)
        for equation, wanted in zip(jaxpr.eqns, needed, strict=True):
            if wanted is None:
                continue
            results = self.apply(
                equation.primitive.name,
                equation.params,
                [look(atom) for atom in equation.invars],
                equation.invars,
                equation.outvars,
                wanted,
                equation.primitive,
            )
            env.update(zip(equation.outvars, results, strict=True))
        return [look(atom) for atom in jaxpr.outvars]

    def apply(
        self,
        name: str,
        params: dict[str, Any],
        values: list[Value],
        ins: Any,
        outs: Any,
        live: list[bool],
        primitive: Any,
    ) -> list[Value]:
        """Account for one operation; what its outputs are made of."""
        computed = [Value(is_computed=True) for _ in outs]
        if name in _FOLDABLE and all(value.known is not None for value in values):
            known = known_of(primitive.bind(*(value.known for value in values), **params))
            views = tuple(view for value in values for view in value.views)
            return [Value(views=views, is_exact=False, is_computed=True, known=known)]
        if name in _CALLS:
            return self._call(params, values, live) or self._give_up(name, values, computed)
        if name in _VIEWS:
            return [self._viewed(name, value, params) for value in values[: len(outs)]]
        if name in _ELEMENTWISE:
            views = tuple(view for value in values for view in value.views)
            return [Value(views=views, is_exact=all(v.is_exact for v in values), is_computed=True)]
        if name in _READERS:
            for value in values:
                self._read(value)
            if name == "dot_general":
                self._count_product(params, ins, outs[0])
            return computed
        if name in _SOURCES:
            return computed
        if name == "slice":
            return [self._sliced(values[0], params["start_indices"], params["limit_indices"], ins[0])]
        if name == "dynamic_slice":
            return [self._dynamically_sliced(values, params["slice_sizes"], ins[0])]
        if name == "gather":
            return [self._gathered(values, params, ins, outs[0])]
        if name == "dynamic_update_slice":
            starts = [value.known for value in values[2:]]
            whole, rows = ins[0].aval.shape, ins[1].aval.shape
            short = [axis for axis in range(len(whole)) if rows[axis] < whole[axis]]
            return [self._updated(values[0], values[1], starts, ins[0], ins[1], short)]
        if name in ("scatter", "scatter-update"):
            return [self._scattered(values, params, ins)]
        if name == "concatenate":
            return [self._joined(values, ins, outs[0])]
        if name == "pad":
            return [Value(views=values[0].views, is_exact=False, is_computed=True)]
        if name == "split":
            share = [_size(out) / max(1, _size(ins[0])) for out in outs]
            return [replace(self._part(values[0], part), is_computed=True) for part in share]
        if name == "select_n":
            self._read(values[0])
            if any(value.views for value in values[1:]):
                self.unknown.add("select_n")  # which operand an element comes from is decided at run time
            return computed
        if name == "scan":
            return self._scan(params, values, live)
        return self._give_up(name, values, computed)

    def _give_up(self, name: str, values: list[Value], computed: list[Value]) -> list[Value]:
        if any(value.views for value in values):
            self.unknown.add(name)
        return computed

    def _call(self, params: dict[str, Any], values: list[Value], live: list[bool]) -> list[Value] | None:
        inner = next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)
        if inner is None:
            return None
        return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), values, live)

    def _scan(self, params: dict[str, Any], values: list[Value], live: list[bool]) -> list[Value]:
        consts, carry, length = params["num_consts"], params["num_carry"], params["length"]
        carried, scanned = values[consts : consts + carry], values[consts + carry :]
        if any(value.views for value in carried):
            self.unknown.add("scan over a carried array")  # only what its first iteration reads is counted
        # A scanned operand is one slice per iteration: all of it, if the body reads its slice.
        body_inputs = [
            *values[:consts],
            *(replace(value, known=None) for value in carried),
            *(replace(value, known=None, views=_spread(value.views)) for value in scanned),
        ]
        if length < 1:
            return [Value(is_computed=True) for _ in live]
        before = self._times
        self._times = before * length
        try:
            # Outputs that the loop stacks are all live: a slice that one iteration reads may feed the next one.
            self.run(params["jaxpr"].jaxpr, params["jaxpr"].consts, body_inputs)
        finally:
            self._times = before
        return [Value(is_computed=True) for _ in live]

    # -- parts of arrays --

    def _viewed(self, name: str, value: Value, params: dict[str, Any]) -> Value:
        keeps_axes = name in ("copy", "copy_p", "convert_element_type", "reduce_precision", "device_put")
        keeps_axes = keeps_axes or name in ("optimization_barrier", "sharding_constraint")
        if not keeps_axes:
            value = replace(value, views=tuple(replace(view, is_intact=False) for view in value.views))
        return replace(value, known=None, is_computed=value.is_computed or name == "convert_element_type")

    def _part(self, value: Value, share: float) -> Value:
        if not value.is_exact:
            if value.views:
                self.unknown.add("slice of a concatenation")
            return Value(is_computed=value.is_computed)
        return replace(value, known=None, views=tuple(view.scaled(share) for view in value.views))

    def _sliced(self, value: Value, starts: Any, limits: Any, operand: Any) -> Value:
        shape = operand.aval.shape
        cut = [axis for axis, (a, b) in enumerate(zip(starts, limits, strict=True)) if (a, b) != (0, shape[axis])]
        share = math.prod(b - a for a, b in zip(starts, limits, strict=True)) / max(1, math.prod(shape))
        if len(cut) == 1 and value.is_exact:
            axis = cut[0]
            views = tuple(
                view.within(axis, starts[axis], limits[axis])
                if view.is_intact and view.root.shape == shape
                else view.scaled(share)
                for view in value.views
            )
            return replace(value, known=None, views=views)
        return self._part(value, share)

    def _dynamically_sliced(self, values: list[Value], sizes: Any, operand: Any) -> Value:
        shape = operand.aval.shape
        starts = [value.known for value in values[1:]]
        if any(start is None and size != whole for start, size, whole in zip(starts, sizes, shape, strict=True)):
            return self._part(values[0], math.prod(sizes) / max(1, math.prod(shape)))
        begins = [
            0 if start is None else min(max(int(start), 0), whole - size)
            for start, size, whole in zip(starts, sizes, shape, strict=True)
        ]
        return self._sliced(values[0], begins, [a + b for a, b in zip(begins, sizes, strict=True)], operand)

    def _gathered(self, values: list[Value], params: dict[str, Any], ins: Any, out: Any) -> Value:
        operand, indices = values[0], values[1]
        self._read(indices)
        share = min(1.0, _size(out) / max(1, _size(ins[0])))
        slice_share = math.prod(params["slice_sizes"]) / max(1, _size(ins[0]))
        distinct = 1
        if indices.known is not None and indices.known.ndim > 0 and indices.known.size:
            rows = indices.known.reshape(-1, indices.known.shape[-1])
            distinct = len(np.unique(rows, axis=0))
        if not operand.is_exact:
            return self._part(operand, share)
        least = min(share, slice_share * distinct)
        result = Value(views=tuple(view.scaled(share, least) for view in operand.views), is_computed=True)
        self._read(result)
        return Value(is_computed=True)

    def _scattered(self, values: list[Value], params: dict[str, Any], ins: Any) -> Value:
        numbers = params["dimension_numbers"]
        whole = ins[0].aval.shape
        starts: list[Any] = [0] * len(whole)
        indices = values[1].known
        for position, axis in enumerate(numbers.scatter_dims_to_operand_dims):
            starts[axis] = None
            if indices is not None and indices.ndim > 0 and indices.size:
                starts[axis] = int(indices.reshape(-1, indices.shape[-1])[:, position].min())
        indexed = [axis for axis in numbers.scatter_dims_to_operand_dims if whole[axis] > 1]
        return self._updated(values[0], values[2], starts, ins[0], ins[2], indexed)

    def _updated(
        self, target: Value, update: Value, starts: list[Any], operand: Any, rows: Any, short: list[int]
    ) -> Value:
        """A buffer with rows replaced: they are written; of the rest, what lies before them may be read later."""
        self._read(update)
        self.update_bytes += _size(rows) * _item_bytes(operand) * self._times
        if not target.is_exact:
            return replace(target, known=None, is_computed=True)
        # The buffer fills up along the longest of the axes that the new rows do not span.
        axis = max(short, key=lambda candidate: int(operand.aval.shape[candidate]), default=None)
        views = tuple(
            view if axis is None or view.root.is_cache else self._filled(view, starts[axis], axis, operand)
            for view in target.views
        )
        return Value(views=views, is_computed=True, is_update=bool(views))

    def _filled(self, view: View, start: Any, axis: int, operand: Any) -> View:
        """What a cache holds before the rows that were just written: those need no reading from memory."""
        root, room = view.root, max(1, operand.aval.shape[axis])
        root.is_cache = True
        if not root.is_donated:
            self.note_extra("buffer updated but not donated: copied each step", 2 * root.nbytes)
        filled = self._context if start is None else int(start)
        if filled is None:
            self.unknown.add("the position in a cache")
            return view.scaled(1.0, 0.0)
        share = min(1.0, max(0, filled) / room)
        root.filled_bytes = root.nbytes * share
        return view.scaled(share)

    def _joined(self, values: list[Value], ins: Any, out: Any) -> Value:
        """A concatenation; a cache with new rows appended when one operand is an array and the others are computed."""
        old = [value for value in values if value.views and not value.is_computed]
        if len(old) != 1 or len(values) < 2:
            views = tuple(view for value in values for view in value.views)
            return Value(views=views, is_exact=False, is_computed=True)
        views = old[0].views
        for value, atom in zip(values, ins, strict=True):
            if value is not old[0]:
                self._read(value)
                self.update_bytes += _size(atom) * _item_bytes(out) * self._times
        for view in views:
            if not view.root.is_cache:
                view.root.is_cache = True
                self.note_extra("buffer concatenated anew each step", 2 * view.root.nbytes)
        return Value(views=views, is_exact=False, is_computed=True, is_update=True)

    # -- figures --

    def materialised(self, value: Value) -> Value:
        """A result as XLA leaves it in memory: computing it has read what it is made of."""
        if not value.is_computed or value.is_update:
            return value
        self._read(value)
        return Value(is_computed=True, known=None)

    def note_extra(self, what: str, nbytes: float) -> None:
        """Bytes that a better implementation would not move."""
        self.extra[what] = self.extra.get(what, 0.0) + nbytes

    def _count_product(self, params: dict[str, Any], ins: Any, out: Any) -> None:
        (contracted, _), _ = params["dimension_numbers"]
        depth = math.prod(ins[0].aval.shape[axis] for axis in contracted)
        self.flops += 2.0 * depth * _size(out) * self._times


def _spread(views: tuple[View, ...]) -> tuple[View, ...]:
    return tuple(replace(view, range=None, is_intact=False, is_spread=True) for view in views)


def _needed(jaxpr: Any, live: list[bool] | None) -> list[list[bool] | None]:
    """For every equation which of its outputs are needed, None when it is not needed at all."""
    flags_out = live or [True] * len(jaxpr.outvars)
    pairs = zip(jaxpr.outvars, flags_out, strict=True)
    wanted = {out for out, is_live in pairs if is_live and not hasattr(out, "val")}
    result: list[list[bool] | None] = []
    for equation in reversed(jaxpr.eqns):
        flags = [out in wanted for out in equation.outvars]
        if not any(flags) and not equation.effects:
            result.append(None)
            continue
        wanted.update(atom for atom in equation.invars if not hasattr(atom, "val"))
        result.append(flags)
    return result[::-1]
