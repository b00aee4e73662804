"""``roofline curve``: the same prediction over batch or context, as a table, JSON, a picture or a page to ask."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_roofline.commands.scenario import add_scenario_options, scenario_of, whole
from pytest_roofline.errors import RooflineUsageError

if TYPE_CHECKING:
    from pytest_roofline.commands.scenario import Scenario
    from pytest_roofline.inventory import Inventory
    from pytest_roofline.prediction import Prediction

PICTURE_SUFFIXES = (".png", ".svg")
MOST_POINTS = 1000
_DEFAULTS = {"batch": (1, 256, 9), "context": (1024, 131072, 8)}
_ROW_KEYS = (
    *("batch", "context", "ceiling_tokens_per_s", "ceiling_tokens_per_s_per_user", "expected_tokens_per_s"),
    *("weight_bytes_per_pass", "kv_bytes_per_pass", "bytes_per_pass", "flops_per_pass", "arithmetic_intensity"),
    *("step_floor_s", "bound", "step_bound", "memory_needed_bytes", "fits", "limit_tokens_per_s"),
)

_SHARED_KEYS = (
    *("device", "model", "weights", "kv", "bandwidth_bytes_per_s", "bandwidth_source", "peak_flops_per_s"),
    *("peak_source", "peak_dtype", "ridge_point", "memory_bytes", "memory_source", "weight_bytes_total"),
    *("kv_bytes_per_token", "tokens_per_pass", "ranks", "offload", "notes"),
)


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "curve",
        allow_abbrev=False,
        usage="roofline curve [MODEL] [--device NAME] [--over batch] [options]",
        help="The prediction over batch or context",
        epilog="Example: roofline curve llama-3.1-8b --device h100-sxm --over context --html calculator.html",
    )
    add_scenario_options(parser)
    parser.set_defaults(batch=None, context=None)  # so that it shows whether one was given
    add = parser.add_argument_group("the curve").add_argument
    add("--over", choices=tuple(_DEFAULTS), default="batch", help="What varies (default: batch)")
    add("--from", dest="first", metavar="N", help="Its first value (default: 1; 1024 of context)")
    add("--to", dest="last", metavar="N", help="Its last value (default: 256; 131072 of context)")
    add("--points", metavar="N", help="How many values (default: 9; 8 of context)")
    add("--picture", metavar="FILE", help="Draw the roofline and these points into a .png or .svg file")
    add("--html", metavar="FILE", help="Write a page that predicts offline for every device, format, batch and context")
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Predict every point; picture and page are written first, and the text says where."""
    from pytest_roofline.prediction import predict

    if getattr(arguments, arguments.over) is not None:
        raise RooflineUsageError(
            f"--{arguments.over}: the curve is over {arguments.over}, from --from to --to: give those, or --over "
            f"{'context' if arguments.over == 'batch' else 'batch'}"
        )
    if arguments.batch is None:
        arguments.batch = "1"
    if arguments.context is None:
        arguments.context = "0"
    values = _values(arguments)
    if arguments.picture is not None and not arguments.picture.lower().endswith(PICTURE_SUFFIXES):
        raise RooflineUsageError(f"--picture: {arguments.picture!r} is neither a .png nor a .svg file")
    if arguments.html == "":
        raise RooflineUsageError("--html: which file? such as calculator.html")
    is_taken = arguments.html is not None and arguments.device is None and arguments.bandwidth is None
    if is_taken:
        from pytest_roofline.commands.choices import FIRST_DEVICE

        arguments.device = FIRST_DEVICE
    scenario = scenario_of(arguments)
    points = []
    for value in values:
        workload = (
            replace(scenario.workload, batch=value)
            if arguments.over == "batch"
            else replace(scenario.workload, context=value)
        )
        points.append(predict(scenario.machine, workload))
    notes = _notes(points, arguments.over, scenario.smaller)
    if is_taken:
        notes.insert(0, f"no --device is given: these are the figures of {arguments.device}; the page has all devices")
    if arguments.picture is not None:
        from pytest_roofline.report.picture import draw_roofline

        draw_roofline(points, arguments.over, arguments.picture)
    if arguments.html is not None:
        _write_page(arguments, replace(scenario, workload=points[0].workload))
    if arguments.json:
        return json.dumps(_as_json(points, notes, arguments.over), allow_nan=False), 0
    from pytest_roofline.report.prediction import curve_lines

    lines = list(curve_lines(points, notes))
    if arguments.picture is not None:
        lines.append(f"picture: {arguments.picture}")
    if arguments.html is not None:
        lines.append(f"calculator: {arguments.html}")
    return "\n".join(lines), 0


def _write_page(arguments: argparse.Namespace, scenario: Scenario) -> None:
    from pytest_roofline.commands.choices import calculation_of
    from pytest_roofline.report.calculator import write_calculator

    write_calculator(calculation_of(arguments, scenario), arguments.html)


def _notes(points: list[Prediction], over: str, smaller: Iterable[Inventory]) -> list[str]:
    """Those of the first and the last point alike, then those of the last one alone, which begin with its row."""
    from pytest_roofline.remarks import NO_CONTEXT, explained

    last = points[-1]
    formats = list(smaller) if last.fits is False else []
    about_first, about_last = explained(points[0], formats).notes, explained(last, formats).notes
    about_all = [note for note in about_last if note in about_first or note == NO_CONTEXT]
    row = f"{over} {getattr(last.workload, over):,}"
    return [*about_all, *(f"at {row}: {note}" for note in about_last if note not in about_all)]


def _values(arguments: argparse.Namespace) -> list[int]:
    """Whole numbers from first to last: by a constant factor, or by a constant step when the first is 0."""
    first, last, count = _DEFAULTS[arguments.over]
    least = 1 if arguments.over == "batch" else 0
    if arguments.first is not None:
        first = whole(arguments.first, "--from", least=least)
        last = max(last, first)
    if arguments.last is not None:
        last = whole(arguments.last, "--to", least=least)
        first = first if arguments.first is not None else min(first, last)
    if arguments.points is not None:
        count = whole(arguments.points, "--points", least=1)
    if count > MOST_POINTS:
        raise RooflineUsageError(f"--points: {count:,}; {MOST_POINTS:,} are drawn at most")
    if first > last:
        raise RooflineUsageError(f"--from {first} is beyond --to {last}")
    if count == 1 or first == last:
        return [first]
    share = [index / (count - 1) for index in range(count)]
    if first == 0:
        return sorted({round(last * part) for part in share})
    return sorted({round(first * (last / first) ** part) for part in share})


def _as_json(points: list[Prediction], notes: list[str], over: str) -> dict[str, Any]:
    """One object: what all points share, and a list of what they do not."""
    shared = {**points[-1].to_dict(), "notes": notes}
    rows = []
    for point in points:
        found = point.to_dict()
        rows.append({key: found[key] for key in _ROW_KEYS})
    return {"schema": 1, "over": over, **{key: shared[key] for key in _SHARED_KEYS}, "points": rows}
