"""The names of every setting: options with their ini and environment twins, and the marker.

This room is entered in every run of every project, so it holds names and nothing that reads them: `given` does, once
there is something to read. Help texts begin with a capital and end without a full stop unless they are several
sentences.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

MARKER = "roofline"
MARKER_KEYWORDS: Mapping[str, object] = {"at_least": None, "at_most": None, "device": None, "allow": ()}
"""What ``@pytest.mark.roofline(...)`` takes, each with its default."""
FIXTURES = frozenset({"roofline", "roofline_device", "roofline_probe"})
SELFTEST = "--roofline-selftest"
MODES = ("auto", "off", "require")
POLICIES = ("skip", "fail", "pass")


def marker_line() -> str:
    """The line for ``pytest --markers``."""
    keywords = ", ".join(f"{name}={default!r}" for name, default in MARKER_KEYWORDS.items())
    return (
        f"{MARKER}({keywords}): judge every result of the test. at_least and at_most: fractions of the ceiling, 0.6 or "
        "by device {'H200*': 0.7, 'cpu': 0.3}. device: where it runs. allow: checks that may not decide, "
        "('cache-resident',)."
    )


# A plain class: named tuples and dataclasses are made by running generated code, which every run of pytest would pay.
class Option:
    """One setting with its three spellings: ``--roofline-x``, ini ``roofline_x``, ``PYTEST_ROOFLINE_X``."""

    def __init__(
        self, name: str, reader: str, default: Any, metavar: str, help_text: str, bare: str | None = None
    ) -> None:
        self.name = name
        self.reader = reader  # which of `given`'s reads it
        self.default = default
        self.metavar = metavar
        self.help = help_text
        self.bare = bare  # what the option says by itself; None where it has to have a value

    @property
    def flag(self) -> str:
        """The spelling on the command line."""
        return f"--{self.ini.replace('_', '-')}"

    @property
    def ini(self) -> str:
        """The spelling in an ini file, which is the `dest` too: always prefixed, so that no other plugin shares it."""
        return "roofline" if self.name == "mode" else f"roofline_{self.name}"

    @property
    def environment(self) -> str:
        """The spelling in the environment."""
        return f"PYTEST_{self.ini.upper()}"


OPTIONS: tuple[Option, ...] = (
    Option(
        "mode",
        "mode",
        "auto",
        "{auto,off,require}",
        "Whether tests measure. auto (default): on the accelerator, or on the CPU where there is none. "
        "off: steps run once and nothing is measured. "
        "require: for CI, an error when there is no accelerator or no test measured anything; "
        "the CPU counts only where --roofline-device or the marker names it.",
    ),
    Option(
        "device",
        "device",
        None,
        "DEVICE",
        "Measure on this device, by id, kind or name pattern: cuda:1, cpu, 'H200*'",
    ),
    Option(
        "at_least",
        "budget",
        None,
        "FRACTION",
        "Least fraction of the ceiling for tests whose marker gives none: 0.6, or by device 'H200*=0.7,cpu=0.3'",
    ),
    Option(
        "max_time",
        "seconds",
        10.0,
        "SECONDS",
        "Longest time of one measurement, plus one pass (default: 10)",
    ),
    Option(
        "stopping",
        "stopping",
        "decided",
        "CRITERION",
        "What ends a measurement before its time is over (default: decided). "
        "decided: as soon as the interval of the fraction clears the budget; precision:0.02: once it is that narrow; "
        "fixed:30: after 30 samples.",
    ),
    Option(
        "inconclusive",
        "policy",
        "skip",
        "{skip,fail,pass}",
        "What becomes of a test whose evidence decides nothing (default: skip). With --roofline=require it fails.",
    ),
    Option(
        "allow",
        "allow",
        frozenset(),
        "CHECKS",
        "Checks that may not decide, for tests whose marker names none: cache-resident,drifted. "
        "What they find is still reported, as allowed.",
    ),
    Option(
        "budgets",
        "path",
        None,
        "FILE",
        "Fractions of the ceiling by test and device, in a YAML file. --roofline-update-budgets makes the first one.",
    ),
    Option(
        "update_budgets",
        "update",
        None,
        "{tighten,loosen}",
        "Raise the figures of the budgets file to what was measured, less a margin, and add those of new tests that "
        "reach its default. With =loosen figures that were missed are lowered, too, and a new test below the default "
        "gets a lower one of its own; the default itself is never changed.",
        "tighten",
    ),
    Option(
        "json",
        "path",
        None,
        "FILE",
        "Write the results to this file, test by test: whatever ends the run, what was measured before is in it",
    ),
    Option(
        "html",
        "path",
        None,
        "FILE",
        "Write a page to look at to this file: the roofline with every test, the probe, samples, traffic and findings",
    ),
    Option(
        "export",
        "exports",
        (),
        "NAME[=FILE],...",
        "Write the figures of the run for other programs: github-summary, github-annotations, gitlab-metrics, "
        "openmetrics, github-action-benchmark, github-action-benchmark-smaller, bencher, pytest-benchmark. "
        "Several are separated by commas.",
    ),
    Option(
        "compare",
        "path",
        None,
        "OLD.json",
        "Say at the end what changed since the run that wrote this file with --roofline-json. "
        "Slower tests do not fail by it: roofline compare has an exit status.",
    ),
    Option(
        "lock_wait",
        "seconds",
        600.0,
        "SECONDS",
        "How long a test waits for a device that another process measures on, before it is inconclusive (default: 600)",
    ),
    Option(
        "lock_folder",
        "path",
        None,
        "FOLDER",
        "Where processes that must not measure beside each other find their locks (default: a folder of the user's, "
        "below the temporary one). Give one that all of them see: containers, jobs, users.",
    ),
    Option(
        "specs",
        "paths",
        (),
        "PATH",
        "Specs of devices, models and formats, a file or a folder of them, beside those that come with the package",
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin; a name that another plugin holds already is a usage error."""
    group = parser.getgroup("roofline", "roofline")
    try:
        for option in OPTIONS:
            alone = {} if option.bare is None else {"nargs": "?", "const": option.bare}
            group.addoption(
                option.flag, dest=option.ini, default=None, metavar=option.metavar, help=option.help, **alone
            )
            parser.addini(option.ini, f"The same as {option.flag}, which goes before it", default=None)
        group.addoption(
            SELFTEST,
            action="store_true",
            help="Run cheats on this device instead of the project's tests: each has to be refused as bogus",
        )
    except (argparse.ArgumentError, ValueError) as error:
        raise pytest.UsageError(
            f"pytest-roofline cannot add its options, another plugin holds a name of theirs: {error}; "
            "leave one of the two out with -p no:NAME"
        ) from None


def sources_of(config: pytest.Config, option: Option) -> Iterator[tuple[Any, str]]:
    """What the command line, the environment and the ini file say, in this order, each with the place."""
    yield config.getoption(option.ini), option.flag
    yield os.environ.get(option.environment), f"environment {option.environment}"
    yield config.getini(option.ini), f"ini {option.ini}"


def is_anything_given(config: pytest.Config) -> bool:
    """Whether any of our options was given, by command line, environment or ini file."""
    return config.getoption(SELFTEST) or any(
        value is not None and value != "" for option in OPTIONS for value, _ in sources_of(config, option)
    )


def is_roofline(item: pytest.Item) -> bool:
    """Whether a test measures: it uses one of the fixtures, or carries the marker."""
    return not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) or item.get_closest_marker(MARKER) is not None
