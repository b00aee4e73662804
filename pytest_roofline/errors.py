"""Every exception of the package.

::

    RooflineError
      RooflineUsageError      wrong use: an argument, a marker, a step that cannot be measured
        MissingDependency     an optional library is needed and not installed
        DeviceUnavailable     the device that was asked for is not here
      MeasurementError        the world did not play along: memory ran out, a probe could not be trusted
      BogusMeasurement        a figure that cannot be true, or was not measured
      BelowCeiling            true, and below the budget
      AboveBand               true, and above the `at_most` of the test: ask for a new number
      InconclusiveMeasurement may be true; the evidence does not carry a verdict

The last four are verdicts. They are distinct names so that `pytest.raises`, reruns and reports can tell them
apart. The budget ones are AssertionErrors, because a budget is something that a test asserts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_roofline.verdict import Verdict

LONGEST_NAME = 120
"""Characters of a stranger's name that are printed; the rest says nothing to a person."""


def one_line(text: str, longest: int = LONGEST_NAME) -> str:
    """A text of somebody else's (of a file, a config, a spec) as a part of one printed line, cut at `longest`.

    What is not printable (line ends, escapes that clear a terminal or turn the direction of writing, lone surrogates)
    is written as Python writes it in a string, so that a name can forge no output.
    """
    begin = text[:longest]
    if not begin.isprintable():
        begin = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
            for character in begin
        )[:longest]
    return begin if len(text) <= longest else f"{begin} ..."


class RooflineError(Exception):
    """Base of everything that this package raises on purpose."""


class RooflineUsageError(RooflineError, ValueError):
    """Wrong use: the message names what was given, what is allowed and what to do."""


class MissingDependency(RooflineUsageError):
    """An optional library is needed and not installed: the message holds the command that installs it."""


class DeviceUnavailable(RooflineUsageError):
    """The device that was asked for is not on this machine: the message lists those that are."""


class MeasurementError(RooflineError):
    """A measurement could not be made, for a reason that is nobody's verdict (memory, a lost device)."""


class _VerdictError(RooflineError):
    """An outcome of the court; `verdict` holds the findings behind the message."""

    def __init__(self, message: str, verdict: Verdict | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict


class BogusMeasurement(_VerdictError):
    """A figure that cannot be true, or was not measured; the message names the cause with its figures."""


class BelowCeiling(_VerdictError, AssertionError):
    """The measurement is believed, and it misses the budget."""


class AboveBand(_VerdictError, AssertionError):
    """The measurement is believed, and it is better than `at_most`: the budget wants a new number."""


class InconclusiveMeasurement(_VerdictError):
    """The evidence carries no verdict; the message says what is missing and what would supply it."""
