"""``roofline compare``: what changed between two runs of the same tests, from their results files."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pytest_roofline.errors import RooflineUsageError

SCHEMA = 1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    from pytest_roofline.comparison.speeds import THRESHOLD

    parser: argparse.ArgumentParser = commands.add_parser(
        "compare",
        allow_abbrev=False,
        help="Say what changed between two runs, from the files that --roofline-json wrote",
        epilog="Exit status: 0 fine, 1 where a test became slower by more than the threshold, beyond what noise "
        "explains, or where nothing could be compared, 2 wrong use.",
    )
    parser.add_argument("old", metavar="OLD.json", help="Results of the run to compare with")
    parser.add_argument("new", metavar="NEW.json", help="Results of the run that is judged")
    parser.add_argument(
        "--threshold",
        metavar="SHARE",
        default=str(THRESHOLD),
        help=f"Change that is too small to be called one, 0 to 1 (default: {THRESHOLD})",
    )
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """The comparison as text or as JSON; status 1 where something became slower, or nothing could be compared."""
    from pytest_roofline.commands.scenario import share_of
    from pytest_roofline.comparison.runs import compare_runs
    from pytest_roofline.results.reading import cut_off, results_given

    threshold = share_of(arguments.threshold, "--threshold")
    if threshold >= 1:
        raise RooflineUsageError(f"--threshold: {arguments.threshold!r}: nothing becomes slower by all of its speed")
    old, new = results_given(arguments.old, "OLD.json"), results_given(arguments.new, "NEW.json")
    cuts = cut_off(old), cut_off(new)
    for document, cut, path in ((old, cuts[0], arguments.old), (new, cuts[1], arguments.new)):
        if cut and not document["tests"]:
            where = "OLD.json" if document is old else "NEW.json"
            raise RooflineUsageError(f"{where}: {path!r}: {cut}")
    found = compare_runs(old, new, threshold=threshold)
    status = 1 if found.regressions or found.nothing_compared else 0
    if arguments.json:
        record = {
            "schema": SCHEMA,
            "old": {"file": arguments.old, "run": old["run"], "cut_off": cuts[0] or None},
            "new": {"file": arguments.new, "run": new["run"], "cut_off": cuts[1] or None},
            **found.to_dict(),
        }
        return json.dumps(record, allow_nan=False), status
    from pytest_roofline.report.comparison import comparison_lines

    notes = [f"{path}: {cut}" for path, cut in ((arguments.old, cuts[0]), (arguments.new, cuts[1])) if cut]
    lines = comparison_lines(found, old_name=arguments.old, notes=notes)
    if found.nothing_compared:
        lines.append(found.nothing_compared)
    return "\n".join(lines), status
