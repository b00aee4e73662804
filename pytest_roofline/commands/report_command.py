"""``roofline report``: a page to look at, or files for others, from what ``pytest --roofline-json=FILE`` left."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_roofline.errors import RooflineUsageError, one_line

if TYPE_CHECKING:
    from pytest_roofline.exports.registry import Export

SCHEMA = 1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        allow_abbrev=False,
        help="A page, or files for other programs, of a finished run, from its file of results",
    )
    parser.add_argument("results", metavar="RESULTS.json", help="What pytest --roofline-json=FILE wrote")
    parser.add_argument("--html", metavar="FILE", help="Write the page to this file")
    parser.add_argument(
        "--export",
        metavar="NAME[=FILE],...",
        help="Write its figures for other programs: the formats of pytest --roofline-export",
    )
    parser.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser


def run(arguments: argparse.Namespace) -> tuple[str, int]:
    """Write what was asked for, and say where it is."""
    from pytest_roofline.exports.registry import parse_exports
    from pytest_roofline.results.reading import cut_off, results_given

    exports = () if arguments.export is None else parse_exports(arguments.export, "--export")
    if arguments.html is None and not exports:
        raise RooflineUsageError("nothing to make of it: --html FILE, or --export NAME=FILE (or both)")
    document, shown = results_given(arguments.results, "RESULTS.json"), one_line(arguments.results, 256)
    cut = cut_off(document)
    said: dict[str, Any] = {"schema": SCHEMA, "tests": len(document["tests"]), "cut_off": cut or None}
    lines = [f"{shown}: {cut}"] if cut else []
    if arguments.html is not None:
        said |= {"html": os.path.abspath(arguments.html), "bytes": _page(document, arguments.html)}
        lines.append(f"report: {arguments.html}")
    if exports:
        lines += _exported(document, exports)
        said["exports"] = [export.format.name for export in exports]
    return (json.dumps(said) if arguments.json else "\n".join(lines)), 0


def _page(document: Mapping[str, Any], path: str) -> int:
    from pytest_roofline.report.html import write_html

    try:
        return write_html(document, path)
    except RooflineUsageError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _unwritable("--html", path, error) from error


def _exported(document: Mapping[str, Any], exports: Sequence[Export]) -> list[str]:
    from pytest_roofline.exports.destination import write_exports

    try:
        return list(write_exports(document, exports, folder=os.getcwd(), environment=os.environ))
    except (OSError, ValueError) as error:
        raise _unwritable("--export", str(getattr(error, "filename", None) or ""), error) from error


def _unwritable(option: str, path: str, error: Exception) -> RooflineUsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return RooflineUsageError(f"{option}: {one_line(path, 256)}: cannot be written: {reason}")
