"""``roofline specs``: what is known of devices, models and formats, and whether spec files are sound."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from pytest_roofline.commands.scenario import add_specs_option, catalogue_of, spec_paths
from pytest_roofline.errors import RooflineUsageError

if TYPE_CHECKING:
    from pytest_roofline.specs.catalogue import Catalogue

KINDS = ("devices", "models", "formats")
SCHEMA = 1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "specs",
        allow_abbrev=False,
        help="List, show or validate specs of devices, models and formats",
        epilog="Examples: roofline specs list devices; roofline specs show h100-sxm; roofline specs validate my.yaml. "
        "Exit status: 0 fine, 1 where a file is not sound, 2 wrong use.",
    )
    parser.add_argument("action", choices=("list", "show", "validate"), help="What to do")
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="list: devices, models or formats; show: a name; validate: files"
    )
    add_specs_option(parser)
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """The list, the entry or the faults; status 1 when there are faults."""
    if arguments.action == "validate":
        return _validate(arguments)
    catalogue = catalogue_of(arguments)
    return _list(arguments, catalogue) if arguments.action == "list" else _show(arguments, catalogue)


def _list(arguments: argparse.Namespace, catalogue: Catalogue) -> tuple[str, int]:
    kinds = tuple(arguments.names) or KINDS
    for kind in kinds:
        if kind not in KINDS:
            raise RooflineUsageError(f"specs list: no kind {kind!r}; known are {', '.join(KINDS)}")
    rows = {kind: catalogue.rows(kind) for kind in kinds}
    if arguments.json:
        return json.dumps({"schema": SCHEMA, **rows}, allow_nan=False), 0
    from pytest_roofline.report.specs import list_lines

    return "\n".join(list_lines(rows)), 0


def _show(arguments: argparse.Namespace, catalogue: Catalogue) -> tuple[str, int]:
    if len(arguments.names) != 1:
        raise RooflineUsageError("specs show: one NAME is needed, of a device, a model or a format")
    described = _described(arguments.names[0], catalogue)
    if arguments.json:
        return json.dumps({"schema": SCHEMA, **described}, allow_nan=False), 0
    from pytest_roofline.report.specs import entry_lines

    return "\n".join(entry_lines(described)), 0


def _described(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """The entry of whatever kind that bears the name, or a mix of llama.cpp; of an unknown name what each kind has
    nearest."""
    problems = []
    for kind in KINDS:
        try:
            return catalogue.describe(kind, name)
        except RooflineUsageError as error:
            problems.append(str(error))
    from pytest_roofline.gguf_mix import is_file_type

    if is_file_type(name):
        return _mix(name, catalogue)
    raise RooflineUsageError("\n".join(problems))


def _mix(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """What is said of a file type of llama.cpp, as `Catalogue.describe` says it of a format."""
    from pytest_roofline.predict import mixed_example

    mixed = mixed_example(name, catalogue)
    return {
        "kind": "formats",
        "id": mixed.weights,
        "name": f"{mixed.weights.upper()}, a file type of llama.cpp: a mix of formats by tensor and layer",
        "for": ["weights"],
        "compute_dtype": mixed.compute_dtype,
        "figures": {
            "bits_per_weight": {
                "value": round(8 * mixed.total_bytes / mixed.parameters, 3),
                "source": f"the average over {mixed.model}, by the rules of llama-quantize; of other models it differs",
            }
        },
    }


def _validate(arguments: argparse.Namespace) -> tuple[str, int]:
    from pytest_roofline.specs.catalogue import validate
    from pytest_roofline.specs.own_files import READERS, check_is_specs

    paths = [*arguments.names, *spec_paths(arguments)]
    for path in paths:
        if not os.path.exists(path):
            raise RooflineUsageError(f"specs validate: {path!r}: no such spec file or folder")
        try:
            check_is_specs(path)
        except RooflineUsageError as error:
            raise RooflineUsageError(f"specs validate: {error}") from error
    problems, counts = validate(paths, READERS)
    status = 1 if problems else 0
    if arguments.json:
        return json.dumps({"schema": SCHEMA, "problems": problems, **counts}, allow_nan=False), status
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    # A fault may go on to say what to do; a list of many has a line for each.
    lines = [problem.split("\n", 1)[0] for problem in problems]
    return "\n".join([*lines, f"{len(problems)} faults; {said}" if problems else f"sound: {said}"]), status
