"""Options, their ini and environment twins, and the marker: every setting of a test is resolved here.

Help texts begin with a capital and end without a full stop unless they are several sentences. Everything heavier than
pytest is imported where a value is read, since this room is entered in every run of every project.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_roofline.settings import Budget, Settings

MARKER = "roofline"
FIXTURES = frozenset({"roofline", "roofline_device", "roofline_probe"})
SELFTEST = "--roofline-selftest"
MODES = ("auto", "off", "require")
POLICIES = ("skip", "fail", "pass")


# Plain classes: named tuples and dataclasses are made by running generated code, which every run of pytest would pay.
class Marker:
    """What ``@pytest.mark.roofline(...)`` takes; its keywords are the allow-list, and its help line."""

    KEYWORDS: Mapping[str, object] = {"at_least": None, "at_most": None, "device": None, "allow": ()}

    def __init__(
        self, *, at_least: object = None, at_most: object = None, device: object = None, allow: object = None
    ) -> None:
        self.at_least = at_least
        self.at_most = at_most
        self.device = device
        self.allow = allow

    @classmethod
    def help_line(cls) -> str:
        """The line for ``pytest --markers``."""
        fields = ", ".join(f"{name}={default!r}" for name, default in cls.KEYWORDS.items())
        return (
            f"{MARKER}({fields}): judge every result of the test: at_least and at_most are fractions of the ceiling "
            "(0.6, or by device: {'H200*': 0.7, 'cpu': 0.3}), device names where it runs, allow names checks that "
            "may not decide"
        )


class Option:
    """One setting with its three spellings: ``--roofline-x``, ini ``roofline_x``, ``PYTEST_ROOFLINE_X``."""

    def __init__(self, name: str, read: Callable[[Any, str], Any], default: Any, metavar: str, help_text: str) -> None:
        self.name = name
        self.read = read
        self.default = default
        self.metavar = metavar
        self.help = help_text

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


# -- readers: (value, where) -> value, or a usage error that names where ------------------------------------------


def read_mode(value: Any, where: str) -> str:
    """One of the modes."""
    return _one_of(MODES, value, where)


def read_policy(value: Any, where: str) -> str:
    """What becomes of an inconclusive test."""
    return _one_of(POLICIES, value, where)


def read_device(value: Any, where: str) -> str:
    """A device id, kind or name pattern."""
    if not isinstance(value, str) or not value.strip():
        raise pytest.UsageError(f"{where}: {value!r} is no device; examples: 'cuda:0', 'H200*', 'cpu'")
    return value.strip()


def read_seconds(value: Any, where: str) -> float:
    """A positive, finite number of seconds."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if isinstance(value, bool) or not 0 < seconds < float("inf"):
        raise pytest.UsageError(f"{where}: {value!r} is no positive number of seconds")
    return seconds


def read_path(value: Any, where: str) -> str:
    """A file or folder, which need not be there."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).strip():
        raise pytest.UsageError(f"{where}: {value!r} is no path")
    return os.fspath(value)


def read_budget(value: Any, where: str) -> Budget | None:
    """A fraction, or fractions by device pattern: a mapping, or text such as ``H200*=0.7,cpu=0.3``."""
    from pytest_roofline.errors import RooflineUsageError
    from pytest_roofline.settings import parse_budget

    try:
        return parse_budget(_budget_of_text(value) if isinstance(value, str) else value, where)
    except RooflineUsageError as error:
        raise pytest.UsageError(str(error)) from None


def read_allow(value: Any, where: str) -> frozenset[str]:
    """Names of checks that may not decide."""
    from pytest_roofline.errors import RooflineUsageError
    from pytest_roofline.settings import parse_allow

    try:
        return parse_allow(value, where)
    except RooflineUsageError as error:
        raise pytest.UsageError(str(error)) from None


def read_stopping(value: Any, where: str) -> str:
    """The name of a stopping criterion, some with a figure behind a colon."""
    from pytest_roofline.errors import RooflineUsageError
    from pytest_roofline.stopping import checked_stopping

    try:
        return checked_stopping(value, where)
    except RooflineUsageError as error:
        raise pytest.UsageError(str(error)) from None


def read_paths(value: Any, where: str) -> tuple[str, ...]:
    """Spec files and folders of them, several separated as in the variable PATH."""
    paths = tuple(part for part in str(value).split(os.pathsep) if part)
    for path in paths:
        if not (os.path.isdir(path) or os.path.isfile(path)):
            raise pytest.UsageError(f"{where}: {path!r} is no file and no folder")
    return paths


def _one_of(allowed: tuple[str, ...], value: Any, where: str) -> str:
    if value not in allowed:
        raise pytest.UsageError(f"{where}: {value!r} is not one of {', '.join(allowed)}")
    return str(value)


def _budget_of_text(text: str) -> object:
    """``0.6`` becomes a number, ``H200*=0.7,cpu=0.3`` a mapping; anything else stays, to be refused as it is."""
    try:
        if "=" not in text:
            return float(text)
        pairs = (part.rsplit("=", 1) for part in text.split(","))
        return {pattern.strip(): float(figure) for pattern, figure in pairs}
    except ValueError:
        return text


OPTIONS: tuple[Option, ...] = (
    Option(
        "mode",
        read_mode,
        "auto",
        "{auto,off,require}",
        "Whether tests measure. auto (default): on the accelerator, or on the CPU where there is none. "
        "off: steps run once and nothing is measured. "
        "require: for CI, an error when there is no accelerator or no test measured anything; "
        "the CPU counts only where --roofline-device or the marker names it.",
    ),
    Option(
        "device",
        read_device,
        None,
        "DEVICE",
        "Measure on this device, by id, kind or name pattern: cuda:1, cpu, 'H200*'",
    ),
    Option(
        "at_least",
        read_budget,
        None,
        "FRACTION",
        "Least fraction of the ceiling for tests whose marker gives none: 0.6, or by device 'H200*=0.7,cpu=0.3'",
    ),
    Option(
        "max_time",
        read_seconds,
        10.0,
        "SECONDS",
        "Longest time of one measurement, plus one pass (default: 10)",
    ),
    Option(
        "stopping",
        read_stopping,
        "decided",
        "CRITERION",
        "What ends a measurement before its time is over (default: decided). "
        "decided: as soon as the interval of the fraction clears the budget; precision:0.02: once it is that narrow; "
        "fixed:30: after 30 samples.",
    ),
    Option(
        "inconclusive",
        read_policy,
        "skip",
        "{skip,fail,pass}",
        "What becomes of a test whose evidence decides nothing (default: skip). With --roofline=require it fails.",
    ),
    Option(
        "allow",
        read_allow,
        frozenset(),
        "CHECKS",
        "Checks that may not decide, for tests whose marker names none: cache-resident,drifted. "
        "What they find is still reported, as allowed.",
    ),
    Option(
        "json",
        read_path,
        None,
        "FILE",
        "Write the results to this file, test by test: whatever ends the run, what was measured before is in it",
    ),
    Option(
        "lock_wait",
        read_seconds,
        600.0,
        "SECONDS",
        "How long a test waits for a device that another process measures on, before it is inconclusive (default: 600)",
    ),
    Option(
        "lock_folder",
        read_path,
        None,
        "FOLDER",
        "Where processes that must not measure beside each other find their locks (default: a folder of the user's, "
        "below the temporary one). Give one that all of them see: containers, jobs, users.",
    ),
    Option(
        "specs",
        read_paths,
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
            group.addoption(option.flag, dest=option.ini, default=None, metavar=option.metavar, help=option.help)
            parser.addini(option.ini, f"{option.help.split('. ')[0]} (twin of {option.flag})", default=None)
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


def _sources(config: pytest.Config, option: Option) -> Iterator[tuple[Any, str]]:
    yield config.getoption(option.ini), option.flag
    yield os.environ.get(option.environment), f"environment {option.environment}"
    yield config.getini(option.ini), f"ini {option.ini}"


def resolve(config: pytest.Config, name: str, marker: object = None) -> Any:
    """The value of a setting: marker, command line, environment, ini, default, in this order."""
    option = next(option for option in OPTIONS if option.name == name)
    if marker is not None:
        return option.read(marker, f"{MARKER} marker, {name}")
    for value, where in _sources(config, option):
        if value is not None and value != "":
            return option.read(value, where)
    return option.default


def check_options(config: pytest.Config) -> None:
    """Read everything that was given, so that a wrong option ends the session before it begins.

    With ``--roofline-selftest`` the canaries take the place of the tests that were asked for.
    """
    for option in OPTIONS:
        resolve(config, option.name)
    if config.getoption(SELFTEST):
        config.args[:] = [os.path.join(os.path.dirname(__file__), "canaries.py")]


def is_roofline(item: pytest.Item) -> bool:
    """Whether a test measures: it uses one of the fixtures, or carries the marker."""
    return not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) or item.get_closest_marker(MARKER) is not None


def marker_of(item: pytest.Item) -> Marker:
    """The marker of a test, the closest one first where function, class and module carry several."""
    given: dict[str, object] = {}
    known = ", ".join(Marker.KEYWORDS)
    for mark in item.iter_markers(MARKER):
        if mark.args:
            raise pytest.UsageError(
                f"{MARKER} marker: positional argument {mark.args[0]!r}; give it by keyword, known are {known}"
            )
        unknown = [name for name in mark.kwargs if name not in Marker.KEYWORDS]
        if unknown:
            raise pytest.UsageError(f"{MARKER} marker: unknown {', '.join(unknown)}; known are {known}")
        for name, value in mark.kwargs.items():
            given.setdefault(name, value)
    return Marker(**given)


def settings_of(config: pytest.Config, marker: Marker | None = None) -> Settings:
    """Everything that a measurement is told, in one record."""
    from pytest_roofline.settings import Settings

    marker = marker or Marker()
    at_most = read_budget(marker.at_most, f"{MARKER} marker, at_most")
    at_least = resolve(config, "at_least", marker.at_least)
    if at_least is not None and at_most is not None:
        ceilings = dict(at_most.by_pattern)
        for pattern, figure in at_least.by_pattern:
            if figure > ceilings.get(pattern, 1.0):
                raise pytest.UsageError(
                    f"{MARKER} marker: at_least={figure:g} is above at_most={ceilings[pattern]:g}, so nothing can pass"
                )
    mode = resolve(config, "mode")
    return Settings(
        mode=mode,
        device=resolve(config, "device", marker.device),
        at_least=at_least,
        at_most=at_most,
        is_budget_explicit=marker.at_least is not None,
        max_time_s=resolve(config, "max_time"),
        stopping=resolve(config, "stopping"),
        inconclusive="fail" if mode == "require" else resolve(config, "inconclusive"),
        allow=resolve(config, "allow", marker.allow),
        specs=resolve(config, "specs"),
    )
