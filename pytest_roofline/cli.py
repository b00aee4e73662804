"""The street door: the command ``roofline``. Exit 0 fine, 1 a measurement that failed, 2 wrong use.

Neither pytest nor a framework is imported unless the subcommand has to measure with it.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pytest_roofline.probe import Probe

SCHEMA = 1
COMMANDS = ("probe",)


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaints name what comes nearest."""

    def error(self, message: str) -> NoReturn:
        """Say it in one line on stderr, and exit with 2."""
        self.exit(2, f"{self.prog}: {message}\n")

    def options(self) -> list[str]:
        """Every option of this parser, as it is typed."""
        return [name for action in self._actions for name in action.option_strings]


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"


def _parsers() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(prog="roofline", allow_abbrev=False, description="Judge inference code against its roofline.")
    parser.add_argument("--version", action="store_true", help="Show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    probe = commands.add_parser("probe", allow_abbrev=False, help="Measure what this machine's memory does today")
    probe.add_argument("--device", metavar="DEVICE", help="Id, kind or name pattern: cuda:0, cpu, 'H200*'")
    probe.add_argument("--json", action="store_true", help="Print one JSON object")
    return parser, {"probe": probe}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser, commands = _parsers()
    word = next((argument for argument in given if not argument.startswith("-")), None)
    if word is not None and word not in COMMANDS and given[0] == word:
        parser.error(f"no command {word!r}; {_nearest(word, COMMANDS)}")
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        known = commands.get(parsed.command, parser).options()
        parser.error(f"unknown argument {unknown[0]!r}; {_nearest(unknown[0], known)}")
    if parsed.version:
        from pytest_roofline import __version__

        print(f"roofline {__version__}")
        return 0
    if parsed.command is None:
        parser.error(f"which command? known are {', '.join(COMMANDS)}; roofline --help says more")
    return _probe(parsed)


def _probe(parsed: argparse.Namespace) -> int:
    from pytest_roofline.errors import MeasurementError, RooflineUsageError
    from pytest_roofline.session import Session

    try:
        session = Session()
        probe = session.probe(session.find_device(parsed.device))
    except RooflineUsageError as error:
        print(f"roofline probe: {error}", file=sys.stderr)
        return 2
    except MeasurementError as error:
        print(f"roofline probe: {error}", file=sys.stderr)
        return 1
    if parsed.json:
        print(json.dumps({"schema": SCHEMA, **probe.to_dict()}))
    else:
        print("\n".join(f"{name:<12} {text}" for name, text in _probe_lines(probe)))
    return 0


def _probe_lines(probe: Probe) -> list[tuple[str, str]]:
    from pytest_roofline.device import PATTERNS
    from pytest_roofline.units import format_bytes, format_bytes_per_s, format_seconds

    def rate(value: float, kernel: Any = None) -> str:
        return f"{format_bytes_per_s(value):>10}" + (f"   {kernel}" if kernel else "")

    lines = [("device", f"{probe.device.id} ({probe.device.name})")]
    lines += [
        (pattern, rate(getattr(probe, f"{pattern}_bytes_per_s"), probe.kernels.get(pattern))) for pattern in PATTERNS
    ]
    lines += [
        ("best", rate(probe.best_bytes_per_s)),
        ("in cache", rate(probe.cache_bytes_per_s)),
        ("cache knee", f"{format_bytes(probe.cache_knee_bytes):>10}"),
        ("measured in", f"{format_seconds(probe.elapsed_s):>10}"),
        ("trusted", "yes" if probe.is_trusted else "no"),
    ]
    return lines + [("note", note) for note in probe.notes]


if __name__ == "__main__":
    sys.exit(main())
