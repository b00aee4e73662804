"""The bytes of a pass: traced where the framework can, declared where the caller says, counted from a module.

Whoever is judged by a declaration is judged by that: a trace that saw more is a note, for the caller's fraction only
comes out too low; a closed trace that saw less is evidence against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.loop import Loop, check_output
from pytest_roofline.paper import is_on_paper, paper_traffic, with_cache
from pytest_roofline.protocol import Backend, Forced, Trace, TraceRequest
from pytest_roofline.residency import Surveyor
from pytest_roofline.traffic import Traffic, declared_traffic, is_blind
from pytest_roofline.units import format_bytes

LEAST_SHARE_ELSEWHERE = 0.01
"""Of the bytes of a pass: less than that on another device moves no ceiling that is told in percent."""


MOST_BYTES = 1e30
"""Of a pass: whatever is more, and not finite, is no number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What one pass moves and returns, before anything was timed."""

    traffic: Traffic
    declared: Traffic | None
    traced: Traffic | None
    backend: Backend
    device_id: str | None
    """The device whose memory the pass touched; None when nothing was seen."""
    batch: int
    context: int
    outputs: Any
    ids_per_pass: int | None
    surveyor: Surveyor | None = None
    device_ids: tuple[str, ...] = ()
    """Every device whose memory a trace saw the pass touch."""
    elsewhere: tuple[tuple[str, float], ...] = ()
    """Other devices on which a part of what the pass reads lies, and its bytes."""
    notes: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()


def as_traffic(value: Any, *, batch: int | None = None, context: int | None = None) -> Traffic | None:
    """A Traffic as it is, a plain number as bytes per pass; None for anything else."""
    if isinstance(value, Traffic):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 < value <= MOST_BYTES:  # NaN is not either
            raise RooflineUsageError(
                f"traffic is {value!r:.60} bytes per pass; it must be positive and finite (a pass reads its weights)"
            )
        return declared_traffic(value, batch=batch, context=context)
    return None


def traffic_of(
    backends: Sequence[Backend],
    model: Any,
    *,
    batch: int | None = None,
    context: int | None = None,
    step: Callable[..., Any] | None = None,
    weights: str | None = None,
    kv: str | None = None,
    specs_paths: Sequence[str] = (),
) -> Traffic:
    """Traffic of a Traffic, a number, or a model; with `step`, of one traced pass of it (which runs once).

    `weights` and `kv` name formats for a model on paper (a config, a file, a name); a live one has its own.
    """
    given = as_traffic(model, batch=batch, context=context)
    if given is not None:
        return given
    if is_on_paper(model):
        return paper_traffic(model, batch=batch, context=context, weights=weights, kv=kv, specs_paths=specs_paths)
    for backend in backends:
        if backend.device_of(model) is None:
            continue
        if step is not None:
            trace = backend.trace(TraceRequest(step=step, model=model, batch=batch, context=context))
            if trace is not None:
                return trace.traffic
        count = getattr(backend, "count_model", None)
        if count is not None:
            counted: Traffic = count(model, batch=batch, context=context)
            return with_cache(counted, getattr(model, "config", None), batch=batch, context=context)
    raise RooflineUsageError(
        f"no traffic can be taken from a {type(model).__name__}: give a module of a loaded framework, "
        "a config, a GGUF or safetensors file, a model's name, a Traffic, or a number of bytes per pass"
    )


def find_amounts(
    loop: Loop,
    step: Callable[..., Any],
    *,
    backends: Sequence[Backend],
    backend: Backend,
    model: Any,
    declared: Any,
    batch: int | None,
    context: int | None,
    may_return_nothing: bool = False,
) -> Amounts:
    """Run the step once, untimed, traced where possible; the loop is reset after it and knows the cache's room."""
    loop.reset()  # where a reset prefills, the state before the first one is of another length
    said = as_traffic(declared, batch=batch, context=context)
    if declared is not None and said is None:
        said = traffic_of(backends, declared, batch=batch, context=context)
    request = TraceRequest(step=step, args=loop.arguments(), model=model, batch=batch, context=context)
    outputs, trace, backend = _look(loop, request, backend, backends)
    check_output(outputs, may_return_nothing=may_return_nothing)
    notes: list[str] = []
    if trace is not None and trace.context_room is not None:
        loop.set_room(loop.since_reset + trace.context_room)
    elif loop.room is not None and not loop.is_room_known:
        notes.append(
            f"the room of the step's state is not known, so at most {loop.room} passes run "
            f"{'between two resets' if loop.has_reset else 'in all; give reset='} (passes_per_reset= states it)"
        )
    traced = trace.traffic if trace is not None and trace.traffic.bytes_per_pass > 0 else None
    device_id = trace.device_ids[0] if trace is not None and trace.device_ids else backend.device_of(outputs)
    elsewhere = () if trace is None else bytes_elsewhere(trace.bytes_by_device, trace.device_ids)
    if traced is not None and elsewhere:
        spilled = min(traced.bytes_per_pass, sum(size for _, size in elsewhere))
        traced = replace(traced, spilled_bytes_per_pass=spilled)
    if said is None and may_return_nothing:
        _require_traced(traced)
    if said is None:
        traffic = _unsaid(traced, model, backends, batch, context)
    else:
        traffic = said if traced is None else _completed(said, traced, is_plain=not isinstance(declared, Traffic))
    if model is not None and all(other.device_of(model) is None for other in (backend, *backends)):
        notes.append(
            f"model= is of type {type(model).__name__}, which no loaded framework knows: nothing was counted from it"
        )
    if batch is None and traffic.batch is None:
        notes.append("batch is not known and taken as 1")
    if context is None and traffic.context is None:
        notes.append("context is not known and taken as 0")
    forced = backend.force(outputs)
    if loop.has_reset:
        loop.reset()
    chosen = context if context is not None else traffic.context or 0
    return Amounts(
        traffic=traffic if traffic.context is not None else replace(traffic, context=chosen),
        declared=said,
        traced=traced,
        backend=backend,
        device_id=device_id,
        batch=batch or traffic.batch or 1,
        context=chosen,
        outputs=outputs,
        ids_per_pass=generated_ids(forced),
        surveyor=trace.surveyor if trace is not None else None,
        device_ids=trace.device_ids if trace is not None else (),
        elsewhere=elsewhere,
        notes=(*notes, *traffic.notes),
        not_checked=_not_checked(traced),
    )


def bytes_elsewhere(
    bytes_by_device: Sequence[tuple[str, float]], device_ids: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """What lies on other devices that the pass touched than its own, the first; too little to matter is left out.

    Positions, masks and the like come from the host in every honest program.
    """
    least = LEAST_SHARE_ELSEWHERE * sum(size for _, size in bytes_by_device)
    return tuple((name, size) for name, size in bytes_by_device if name in device_ids[1:] and size > least)


def generated_ids(forced: Forced) -> int | None:
    """How many ids a pass generated; beside logits an integer may be a position or a length, and tells nothing."""
    return forced.ids if forced.id_arrays == forced.arrays else None


def _look(
    loop: Loop, request: TraceRequest, backend: Backend, backends: Sequence[Backend]
) -> tuple[Any, Trace | None, Backend]:
    """One pass under a trace. Where another framework owns what came out, that one is asked to trace the next."""
    trace = backend.trace(request)
    if trace is None:
        outputs = loop.call(request.args)
    else:
        outputs = trace.outputs
        loop.count()
    if outputs is None or backend.device_of(outputs) is not None:
        return outputs, trace, backend
    for other in backends:
        if other is backend or other.device_of(outputs) is None:
            continue
        again = other.trace(replace(request, args=loop.arguments()))
        if again is None:
            return outputs, None, other
        loop.count()
        return again.outputs, again, other
    return outputs, trace, backend


def _unsaid(
    traced: Traffic | None, model: Any, backends: Sequence[Backend], batch: int | None, context: int | None
) -> Traffic:
    """What the fraction is taken from when the caller declared nothing: the trace, else the model's weights."""
    if traced is not None:
        return traced
    if model is not None:
        return traffic_of(backends, model, batch=batch, context=context)
    # Only of a kernel: every other measurement is given a model or its traffic.
    raise RooflineUsageError(
        "no bytes were declared and none could be traced: give bytes_read= and bytes_written= (bytes per call)"
    )


def _require_traced(traced: Traffic | None) -> None:
    """A kernel is its bytes: what a trace saw beside an operation that it cannot look into is not them."""
    if traced is None or traced.is_closed or not traced.notes:
        return
    reason = traced.notes[0].removeprefix("open trace: ")
    seen = (
        "no bytes were seen" if traced.bytes_per_pass <= 1 else f"only {format_bytes(traced.bytes_per_pass)} were seen"
    )
    raise RooflineUsageError(
        f"the bytes of this kernel cannot be traced, {seen} ({reason}): give bytes_read= and bytes_written=\n"
        "  likely: a Triton or CUDA kernel, an extension, or a call into a library, none of which a trace looks into\n"
        "  do: count what one call must read and write, each byte once: for a copy of n bytes, n and n"
    )


def _completed(said: Traffic, traced: Traffic, *, is_plain: bool) -> Traffic:
    """The caller's bytes, with what only the trace knows; a plain number is split into reads and writes as traced."""
    written = said.written_bytes_per_pass
    is_seeing = traced.is_closed and not is_blind(traced, said)
    if is_plain and not written:
        written = traced.written_share * said.bytes_per_pass
    return replace(
        said,
        written_bytes_per_pass=written,
        kv_bytes_per_token=said.kv_bytes_per_token or traced.kv_bytes_per_token,
        flops_per_pass=said.flops_per_pass or traced.flops_per_pass,
        least_flops_per_pass=said.least_flops_per_pass
        or (None if said.flops_per_pass else traced.least_flops_per_pass),
        working_set_bytes=traced.footprint_bytes if is_seeing else said.working_set_bytes,
        extra_bytes_per_pass=traced.extra_bytes_per_pass,
        extra=traced.extra,
        dtype=said.dtype or traced.dtype,
        batch=said.batch or traced.batch,
        context=said.context if said.context is not None else traced.context,
        notes=(*said.notes, *traced.notes),
    )


def _not_checked(traced: Traffic | None) -> tuple[str, ...]:
    """What this result does not rest on, and what would let it."""
    missing = []
    if traced is None:
        missing.append("the bytes were not traced")
    elif not traced.is_closed:
        missing.append("the trace is open (it does not account for every output), so it is a lower bound")
    missing.append("the outputs were not compared with a reference")
    return tuple(missing)


def held_objects(step: Any, depth: int = 3) -> Iterator[Any]:
    """What a step visibly holds: its bound object, closure, defaults, partial arguments and the globals it names.

    Functions are followed `depth` levels deep, so that a step that calls the test's own helper is understood.
    """
    pending: list[tuple[Any, int]] = [(step, depth)]
    seen: set[int] = set()
    while pending:
        current, left = pending.pop(0)
        if id(current) in seen or current is None:
            continue
        seen.add(id(current))
        inner: list[Any] = []
        if isinstance(current, partial):
            inner = [current.func, *current.args, *current.keywords.values()]
        elif isinstance(current, MethodType):
            inner = [current.__self__, current.__func__]
        elif isinstance(current, FunctionType):
            inner = list(_held_by_function(current))
        else:
            yield current
        if left > 0:
            pending += [(item, left - 1) for item in inner]


def _held_by_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from function.__defaults__ or ()
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield wrapped
