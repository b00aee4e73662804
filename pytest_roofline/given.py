"""What was given: every setting of a run or a test, read from the first place that names it.

Marker, command line, environment, file of budgets, ini, default, in this order. Nothing here is loaded before something
was given, or a roofline test begins: pytest reads the options in every run of every project.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_roofline.options import MARKER, MARKER_KEYWORDS, MODES, OPTIONS, POLICIES, SELFTEST, Option, sources_of

if TYPE_CHECKING:
    from pytest_roofline.budgets.document import BudgetsFile
    from pytest_roofline.exports.registry import Export
    from pytest_roofline.settings import Budget, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What a test's ``@pytest.mark.roofline(...)`` says, as it was written; None where it is silent."""

    at_least: object = None
    at_most: object = None
    device: object = None
    allow: object = None


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


def read_update(value: Any, where: str) -> str:
    """Whether missed budgets are lowered, too. Without a value a path that follows is taken for one."""
    if value not in ("tighten", "loosen"):
        raise pytest.UsageError(
            f"{where}: {value!r} is neither 'tighten' nor 'loosen'; before a path write "
            "--roofline-update-budgets=tighten"
        )
    return str(value)


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


def read_exports(value: Any, where: str) -> tuple[Export, ...]:
    """Formats to write the results in, some with a file: ``bencher=b.json,github-summary``."""
    from pytest_roofline.errors import RooflineUsageError
    from pytest_roofline.exports.registry import parse_exports

    try:
        return parse_exports(value, where)
    except RooflineUsageError as error:
        raise pytest.UsageError(str(error)) from None


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


READERS: Mapping[str, Callable[[Any, str], Any]] = MappingProxyType(
    {
        "mode": read_mode,
        "policy": read_policy,
        "device": read_device,
        "seconds": read_seconds,
        "path": read_path,
        "budget": read_budget,
        "update": read_update,
        "allow": read_allow,
        "stopping": read_stopping,
        "paths": read_paths,
        "exports": read_exports,
    }
)
"""How each kind of setting is read, by the name that an option has for it."""


BUDGETS: pytest.StashKey[BudgetsFile | str] = pytest.StashKey()
"""The file of budgets, or what is wrong with it."""


def option_of(name: str) -> Option:
    """The option of this name."""
    return next(option for option in OPTIONS if option.name == name)


def resolve(config: pytest.Config, name: str, marker: object = None, before_ini: Any = None) -> Any:
    """The value of a setting: marker, command line, environment, `before_ini`, ini, default, in this order."""
    option = option_of(name)
    if marker is not None:
        return READERS[option.reader](marker, f"{MARKER} marker, {name}")
    for value, where in sources_of(config, option):
        if before_ini is not None and where.startswith("ini "):
            return before_ini
        if value is not None and value != "":
            return READERS[option.reader](_rooted(config, value, where) if name == "specs" else value, where)
    return option.default


def _rooted(config: pytest.Config, value: Any, where: str) -> Any:
    """Paths from an ini file, which names them from its own folder: pytest may be started in another one."""
    if not where.startswith("ini ") or config.inipath is None:
        return value
    paths = (os.path.expanduser(path) for path in str(value).split(os.pathsep) if path)
    return os.pathsep.join(os.path.join(config.inipath.parent, path) for path in paths)


def check_specs(config: pytest.Config) -> None:
    """Read the spec files that were given, when a roofline test begins; other runs read none.

    A wrong one has to be said even where nothing is looked up in it.
    """
    paths = resolve(config, "specs")
    if not paths:
        return
    from pytest_roofline.errors import RooflineUsageError
    from pytest_roofline.specs.own_files import checked_catalogue

    try:
        checked_catalogue(paths)
    except RooflineUsageError as error:
        where = next(where for value, where in sources_of(config, option_of("specs")) if value)
        raise pytest.UsageError(f"{where}: {error}") from None


def check_options(config: pytest.Config) -> None:
    """Read everything that was given, so that a wrong option ends the session before it begins.

    With ``--roofline-selftest`` the canaries take the place of the tests that were asked for.
    """
    for option in OPTIONS:
        resolve(config, option.name)
    check_budgets(config)
    if config.getoption(SELFTEST):
        config.args[:] = [os.path.join(os.path.dirname(__file__), "canaries.py")]


def marker_of(item: pytest.Item) -> Marker:
    """The marker of a test, the closest one first where function, class and module carry several."""
    given: dict[str, object] = {}
    known = ", ".join(MARKER_KEYWORDS)
    for mark in item.iter_markers(MARKER):
        if mark.args:
            raise pytest.UsageError(
                f"{MARKER} marker: positional argument {mark.args[0]!r}; give it by keyword, known are {known}"
            )
        unknown = [name for name in mark.kwargs if name not in MARKER_KEYWORDS]
        if unknown:
            raise pytest.UsageError(f"{MARKER} marker: unknown {', '.join(unknown)}; known are {known}")
        for name, value in mark.kwargs.items():
            given.setdefault(name, value)
    return Marker(**given)


# -- the file of budgets --------------------------------------------------------------------------------------------


def budgets_path(config: pytest.Config) -> tuple[str, str] | None:
    """Where the file of budgets is, and how messages call it; None where none was given.

    An ini file names it from its own folder, for pytest may be started in another one.
    """
    for value, where in sources_of(config, option_of("budgets")):
        if value is not None and value != "":
            name = read_path(value, where)
            is_ini = where.startswith("ini ") and config.inipath is not None
            folder = config.inipath.parent if is_ini and config.inipath else config.invocation_params.dir
            return os.path.join(folder, name), name
    return None


def check_budgets(config: pytest.Config) -> None:
    """What can be said of budgets without reading them: a file is there, or will be made."""
    where, is_updated = budgets_path(config), resolve(config, "update_budgets") is not None
    if where is None and is_updated:
        raise pytest.UsageError("--roofline-update-budgets: which file? Name it with --roofline-budgets=FILE")
    if where is not None and not is_updated and not os.path.lexists(where[0]):
        raise pytest.UsageError(
            f"--roofline-budgets: {where[1]!r} is not there; --roofline-update-budgets makes it from what is measured"
        )


def budgets_of(config: pytest.Config) -> BudgetsFile | None:
    """The file of budgets, read once, when a roofline test begins; None without one, and while it is to be made."""
    where = budgets_path(config)
    if where is None or (resolve(config, "update_budgets") is not None and not os.path.lexists(where[0])):
        return None
    from pytest_roofline.budgets.document import read_budgets
    from pytest_roofline.errors import RooflineUsageError

    if BUDGETS not in config.stash:
        try:
            config.stash[BUDGETS] = read_budgets(*where)
        except RooflineUsageError as error:
            config.stash[BUDGETS] = str(error)
    found = config.stash[BUDGETS]
    if isinstance(found, str):
        raise pytest.UsageError(found)
    return found


def has_groups(config: pytest.Config) -> bool:
    """Whether pytest-xdist puts the group of a test behind its id: in its controller, and in its workers."""
    return config.getoption("dist", "no") == "loadgroup" or bool(config.getoption("loadgroup", False))


# -- all together ---------------------------------------------------------------------------------------------------


def settings_of(config: pytest.Config, marker: Marker | None = None, test_id: str | None = None) -> Settings:
    """Everything that a measurement is told, in one record; of a test by its id, with what the file of budgets says."""
    from pytest_roofline.settings import Settings

    marker = marker or Marker()
    at_most = read_budget(marker.at_most, f"{MARKER} marker, at_most")
    of_file = {}
    if test_id is not None and (budgets := budgets_of(config)) is not None:
        from pytest_roofline.budgets.patterns import ungrouped

        test_id = ungrouped(test_id) if has_groups(config) else test_id
        of_file = {name: budgets.budget_for(test_id, name) for name in ("at_least", "at_most")}
    at_least = resolve(config, "at_least", marker.at_least, of_file.get("at_least"))
    if at_least is not None and at_most is not None and at_least is not of_file.get("at_least"):
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
        at_most=at_most or of_file.get("at_most"),
        is_budget_explicit=marker.at_least is not None,
        max_time_s=resolve(config, "max_time"),
        stopping=resolve(config, "stopping"),
        inconclusive="fail" if mode == "require" else resolve(config, "inconclusive"),
        allow=resolve(config, "allow", marker.allow),
        specs=resolve(config, "specs"),
    )
