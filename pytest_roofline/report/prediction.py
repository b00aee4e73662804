"""A prediction as text: the division with its figures in it, what bounds it, what fits, where each number is from."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.errors import one_line
from pytest_roofline.prediction import Prediction
from pytest_roofline.units import (
    format_bytes,
    format_digits,
    format_flops_per_s,
    format_rate,
    format_seconds,
)

WIDTH = 100
_LABEL = 10
_LONGEST_TEXT = 2000
_WHOLE_FROM = 999.5
_CONSTANT: tuple[tuple[str, Callable[[CacheLayers], bool]], ...] = (
    ("sliding windows in some layers", lambda cache: cache.window is not None and cache.elements_per_token > 0),
    ("chunks that start anew in some layers", lambda cache: cache.chunk is not None),
    ("a selection of what is kept is read", lambda cache: cache.selected is not None),
    ("an image of constant size", lambda cache: cache.fixed_tokens is not None),
    ("a constant state", lambda cache: cache.state_elements > 0),
)
"""What of a cache does not grow with the context, in words."""
CURVE_HEADINGS = ("batch", "context", "tok/s", "per user", "bytes/pass", "FLOP/byte", "bound", "fits")


def prediction_lines(prediction: Prediction, text_rates: Mapping[str, float] | None = None) -> Iterator[str]:
    """A heading, the division, one line per figure, sources, notes. `text_rates`: words or chars per second."""
    machine, inventory = prediction.machine, prediction.workload.inventory
    ranks = "" if machine.ranks == 1 else f"{machine.ranks} x "
    yield f"{one_line(inventory.model)} on {ranks}{one_line(machine.name)}"
    yield f"weights {inventory.weights}, KV cache {inventory.kv}"
    yield ""
    yield f"  {_division(prediction)}"
    yield ""
    rows = [
        ("bound", _bound(prediction)),
        ("weights", _weights(prediction)),
        ("KV cache", _kv(prediction)),
        ("per pass", _together(prediction)),
        ("compute", _compute(prediction)),
        ("memory", _memory(prediction)),
        ("expected", _expected(prediction, text_rates or {})),
        ("TTFT", _ttft(prediction)),
        ("sources", f"bandwidth: {machine.bandwidth_source}"),
        ("", f"peak: {prediction.peak_source}" if prediction.peak_source else ""),
        ("", f"memory: {machine.memory_source}" if machine.memory_source else ""),
        ("", f"model: {inventory.source}"),
    ]
    for label, text in rows:
        if text:
            yield from _wrapped(label, text)
    for note in prediction.notes:
        yield from _wrapped("note", note)


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        one_line(text, _LONGEST_TEXT),
        WIDTH,
        initial_indent=f"  {label:<{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _division(prediction: Prediction) -> str:
    """``3.35 TB/s / 16.06 GB = 209 tok/s``, with whatever multiplies or adds to it."""
    machine, workload = prediction.machine, prediction.workload
    times = []
    if workload.batch > 1:
        times.append(f"{workload.batch:,} sequences")
    if workload.tokens_per_pass != 1:
        times.append(f"{workload.tokens_per_pass:g} tokens per pass")
    per_user = f" ({format_rate(prediction.ceiling_tokens_per_s_per_user)} per user)" if workload.batch > 1 else ""
    result = f"{format_rate(prediction.ceiling_tokens_per_s)} tok/s{per_user}"
    if prediction.step_bound == "compute" and prediction.peak_flops_per_s is not None:
        flops = format_digits(prediction.flops_per_pass, "FLOP")
        left = f"{format_digits(prediction.peak_flops_per_s, 'FLOP/s')} / {flops}"
    elif prediction.step_floor_s == prediction.memory_s:
        left = (
            f"{format_digits(machine.bandwidth_bytes_per_s, 'B/s')} / {format_digits(prediction.bytes_per_pass, 'B')}"
        )
    else:
        left = f"1 / ({_seconds(prediction)})"
    return " x ".join([left, *times]) + f" = {result}"


def _seconds(prediction: Prediction) -> str:
    """The parts of the floor of a pass that some link has a part in."""
    machine, workload = prediction.machine, prediction.workload
    if prediction.step_floor_s == prediction.link_s:
        return f"{format_seconds(prediction.link_s)} between devices"
    path = format_digits(machine.spill_bytes_per_s or 0.0, "B/s")
    spilled = f"{format_digits(prediction.spill_bytes_per_pass, 'B')} / {path}"
    if workload.is_overlapped:
        return spilled
    local = prediction.bytes_per_pass - prediction.spill_bytes_per_pass
    return f"{format_digits(local, 'B')} / {format_digits(machine.bandwidth_bytes_per_s, 'B/s')} + {spilled}"


def _bound(prediction: Prediction) -> str:
    words = {
        "memory": "memory bandwidth",
        "compute": "compute",
        "link": "the link",
    }
    text = words[prediction.step_bound]
    if prediction.bound == "capacity":
        text = f"capacity: it does not fit; if it did, {text}"
    parts = [f"{text} ({format_seconds(prediction.step_floor_s)} per pass"]
    parts.append(f"memory {format_seconds(prediction.memory_s)}")
    if prediction.peak_flops_per_s is not None:
        parts.append(f"compute {format_seconds(prediction.compute_s)}")
    if prediction.spill_s:
        parts.append(f"spill path {format_seconds(prediction.spill_s)}")
    if prediction.machine.ranks > 1:
        parts.append(f"link {format_seconds(prediction.link_s)}")
    return f"{parts[0]}: {', '.join(parts[1:])})"


def _weights(prediction: Prediction) -> str:
    total, ranks = prediction.workload.inventory.total_bytes, prediction.machine.ranks
    stored = f"{format_bytes(total)} stored" + (f" on all {ranks} devices" if ranks > 1 else "")
    return f"{format_bytes(prediction.weight_bytes_per_pass)} per pass{_per_device(prediction)}, {stored}"


def _per_device(prediction: Prediction) -> str:
    """What a figure of one of several devices has to say."""
    return " per device" if prediction.machine.ranks > 1 else ""


def _kv(prediction: Prediction) -> str:
    """A product where it is one; a window, a chunk or a state does not grow with the context."""
    workload, ranks = prediction.workload, prediction.machine.ranks
    inventory = workload.inventory
    sequences = "" if workload.batch == 1 else f" x {workload.batch:,} sequences"
    if not inventory.caches:
        return "none counted" if inventory.is_rule else "none"
    constant = [words for words, is_one in _CONSTANT if any(map(is_one, inventory.caches))]
    growing = [cache for cache in inventory.caches if cache.fixed_tokens is None]
    width = inventory.kv_bytes_per_element
    added = sum(cache.layers * cache.bytes_per_token(width) * cache.share_of_rank(ranks) for cache in growing)
    grown = f"{format_bytes(added)} per token" if added else ""
    text = f"{format_bytes(prediction.kv_bytes_per_pass)} per pass{_per_device(prediction)}: "
    text += f"{workload.context:,} tokens{sequences}"
    if any(cache.window or cache.chunk or cache.selected for cache in growing):
        grown = f"at most {grown}"
    return ", ".join(filter(None, [text, grown, " and ".join(constant)]))


def _together(prediction: Prediction) -> str:
    parts = ["weights", "KV cache"]
    if prediction.draft_bytes_per_pass:
        parts.append(f"{format_bytes(prediction.draft_bytes_per_pass)} that the draft reads")
    return f"{format_bytes(prediction.bytes_per_pass)}{_per_device(prediction)}: {' + '.join(parts)}"


def _intensity(value: float) -> str:
    """FLOP per byte to three digits, without an exponent."""
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.3g}"


def _compute(prediction: Prediction) -> str:
    text = (
        f"{format_digits(prediction.flops_per_pass, 'FLOP')} per pass{_per_device(prediction)}, "
        f"{_intensity(prediction.arithmetic_intensity)} FLOP/byte"
    )
    if prediction.peak_flops_per_s is None or prediction.ridge_point is None:
        return text
    peak = f"{format_flops_per_s(prediction.peak_flops_per_s)} ({prediction.peak_dtype})"
    return f"{text}; ridge {prediction.ridge_point:,.0f} FLOP/byte at {peak}"


def _memory(prediction: Prediction) -> str:
    machine = prediction.machine
    needed = f"{format_bytes(prediction.memory_needed_bytes)} needed{_per_device(prediction)}"
    if machine.memory_bytes is None:
        return needed
    fits = "fits" if prediction.fits_as_printed else "barely fits, see below" if prediction.fits else "does NOT fit"
    return f"{needed} of {format_bytes(machine.memory_bytes)}: {fits}"


def _expected(prediction: Prediction, text_rates: Mapping[str, float]) -> str:
    low, high = prediction.expected_tokens_per_s
    text = f"{format_rate(low)} to {format_rate(high)} tok/s (60 to 85 % of the ceiling: what well-made engines reach)"
    return text + "".join(f"; the ceiling is {format_rate(rate)} {unit}/s" for unit, rate in text_rates.items())


def _ttft(prediction: Prediction) -> str:
    if prediction.ttft_floor_s is None or prediction.prefill_floor_s is None or prediction.prefill_flops is None:
        return ""
    active = f"{prediction.workload.inventory.active_parameters / 1e9:.3g}B"
    return (
        f"rule of thumb {format_seconds(prediction.ttft_floor_s)} = 2 x {active} x "
        f"{prediction.workload.prompt:,} tokens / {prediction.machine.peak_word}; counted exactly at least "
        f"{format_seconds(prediction.prefill_floor_s)} ({format_digits(prediction.prefill_flops, 'FLOP')}"
        f"{_per_device(prediction)})"
    )


def curve_lines(points: Sequence[Prediction], notes: Sequence[str]) -> Iterator[str]:
    """A table, one line per point, and the notes: about all of them, or beginning with the row that they speak of."""
    first = points[0]
    inventory = first.workload.inventory
    model, device = one_line(inventory.model), one_line(first.machine.name)
    yield f"{model} on {device}, weights {inventory.weights}, KV cache {inventory.kv}"
    rows = [CURVE_HEADINGS, *map(_curve_row, points)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(CURVE_HEADINGS))]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for note in notes:
        yield from _wrapped("note", note)


def _curve_row(point: Prediction) -> tuple[str, ...]:
    fits = {True: "yes", False: "no", None: "-"}[point.fits]
    return (
        f"{point.workload.batch:,}",
        f"{point.workload.context:,}",
        format_rate(point.ceiling_tokens_per_s),
        format_rate(point.ceiling_tokens_per_s_per_user),
        format_bytes(point.bytes_per_pass),
        _intensity(point.arithmetic_intensity),
        point.step_bound,
        fits,
    )
