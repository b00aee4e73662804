"""The street door: the command ``roofline``. Exit 0 fine, 1 a verdict that is not passed, 2 wrong use.

Neither pytest nor a framework is imported unless the subcommand has to measure with it, and only the subcommand that
was asked for is imported at all.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

COMMANDS = ("predict", "curve", "check", "probe", "doctor", "specs", "report", "compare")
_LONGEST_LINE = 4000
_NEGATIVE = re.compile(r"-\.?\d|-(inf|nan)", re.IGNORECASE)


class _Help(argparse.HelpFormatter):
    """Help as wide as this: argparse would load shutil and ask for the terminal's width once for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=110, max_help_position=32)


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line each."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **words})

    def error(self, message: str) -> NoReturn:
        """Say it in one line on stderr, and exit with 2."""
        self.exit(2, f"{self.prog}: {message}\n")

    def options(self) -> list[str]:
        """Every option of this parser, as it is typed."""
        return [name for action in self._actions for name in action.option_strings]


class _Commands:
    """Where commands declare themselves; the help of each begins with its line in the list of all."""

    def __init__(self, commands: Any) -> None:
        self._commands = commands

    def add_parser(self, name: str, *, help: str, **words: Any) -> Any:
        """As argparse has it."""
        return self._commands.add_parser(name, help=help, description=f"{help}.", **words)


def _nearest(word: str, known: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word.split("=", 1)[0], known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"


def _command(name: str) -> Any:
    return import_module(f"pytest_roofline.commands.{name}_command")


def _parsers(names: Sequence[str]) -> tuple[_Parser, dict[str, Any]]:
    parser = _Parser(
        prog="roofline",
        allow_abbrev=False,
        description="Predict and judge inference code by its roofline.",
        epilog="roofline COMMAND --help says more. Exit status: 0 fine, 1 a verdict that is not passed, 2 wrong use.",
    )
    parser.add_argument("--version", action="store_true", help="Show the version and exit")
    added = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser, prog="roofline")
    commands = _Commands(added)
    return parser, {name: _command(name).add_parser(commands) for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); the exit status.

    Wrong use is 2, and so is a stdout that cannot be written to; Ctrl-C is 130, as shells have it.
    """
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        print("roofline: interrupted", file=sys.stderr)
        return 130


def _main(arguments: Sequence[str] | None) -> int:
    given = _joined(sys.argv[1:] if arguments is None else arguments)
    word = given[0] if given and given[0] in COMMANDS else None
    parser, commands = _parsers(COMMANDS if word is None else (word,))
    if word is None and given and not given[0].startswith("-"):
        parser.error(f"no command {given[0]!r}; {_nearest(given[0], COMMANDS)}")
    parsed, unknown = parser.parse_known_args(given)
    if unknown:
        known = commands.get(parsed.command, parser).options()
        hint = _nearest(unknown[0], known)
        if hasattr(parsed, "model") and not unknown[0].startswith("-"):
            hint = f"one MODEL is taken, and a device is named by --device {unknown[0]!r:.60}"
        parser.error(f"unknown argument {unknown[0]!r}; {hint}")
    if parsed.version:
        from pytest_roofline import __version__

        return _print(f"roofline {__version__}", 0)
    if parsed.command is None:
        parser.error(f"which command? known are {', '.join(COMMANDS)}; roofline --help says more")
    return _run(parsed)


def _joined(arguments: Sequence[str]) -> list[str]:
    """``--memory -3GB`` as ``--memory=-3GB``: a negative figure is a value to complain of, not an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and _NEGATIVE.match(argument) and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _run(parsed: argparse.Namespace) -> int:
    from pytest_roofline.errors import RooflineError, RooflineUsageError

    try:
        text, status = _command(parsed.command).run(parsed)
    except RooflineUsageError as error:
        return _complain(parsed.command, error, 2)
    except RooflineError as error:
        return _complain(parsed.command, error, 1)
    return _print(text, status)


def _complain(command: str, error: Exception, status: int) -> int:
    """Say what is wrong on stderr, whatever a file's names hold; lines behind the first are set in."""
    from pytest_roofline.errors import one_line

    first, *others = str(error).split("\n")
    print(f"roofline {command}: {one_line(first, _LONGEST_LINE)}", file=sys.stderr)
    for line in others:
        print(f"  {one_line(line, _LONGEST_LINE)}", file=sys.stderr)
    return status


def _print(text: str, status: int) -> int:
    """Print, and be silent where nobody reads on (``roofline specs list | head``).

    Characters that the encoding of stdout lacks are written as escapes. A stdout that takes nothing (a full disk) is a
    line on stderr, and status 2.
    """
    if sys.stdout is None:  # closed before the process began (>&-)
        print("roofline: stdout is closed", file=sys.stderr)
        return 2
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # The interpreter flushes stdout once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return status
        print(f"roofline: stdout cannot be written to: {error.strerror or error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
