"""Entries of a budgets file that no test fits any more: renamed tests, files that are gone.

Never said because only a part of the suite ran: an entry is looked for among all tests that were collected, deselected
ones too, and only where they were: below the paths that pytest was given, in files whose collection neither failed nor
was skipped. Which tests the workers of pytest-xdist left out is not known, nor what --lf and --ignore pass over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_roofline.options import is_roofline

if TYPE_CHECKING:
    import pytest

    from pytest_roofline.budgets.document import BudgetsFile

LONGEST_LIST = 10


class BudgetsCoverage:
    """Watches a collection; below the table it says which entries are unused."""

    def __init__(self, path: str, name: str, *, is_grouped: bool = False) -> None:
        self._path, self._name = path, name
        self._is_grouped = is_grouped
        self._ids: set[str] = set()
        self._uncollected: list[str] = []
        self._has_measured = False

    def pytest_itemcollected(self, item: Any) -> None:
        """Before anything is deselected."""
        self._ids.add(item.nodeid)
        self._has_measured = self._has_measured or is_roofline(item)

    def pytest_collectreport(self, report: Any) -> None:
        """A module that could not be imported, or skipped itself, has tests that nobody sees."""
        if not report.passed:
            self._uncollected.append(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """The controller of xdist collects nothing; it sees what the workers ran."""
        self._ids.add(report.nodeid)
        self._has_measured = self._has_measured or any(name == "roofline" for name, _ in report.user_properties)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """A line for each entry that is unused; with -v how many could not be looked for."""
        if not self._has_measured or config.get_verbosity() < 0 or not os.path.lexists(self._path):
            return
        from pytest_roofline.budgets.document import read_budgets
        from pytest_roofline.budgets.patterns import ungrouped
        from pytest_roofline.errors import RooflineUsageError

        try:
            budgets = read_budgets(self._path, self._name)
        except RooflineUsageError:
            return  # the tests have said so
        ids = {ungrouped(one) for one in self._ids} if self._is_grouped else self._ids
        part = part_of_suite(config)
        for line in coverage_lines(
            budgets, ids, roots=roots_of(config), uncollected=self._uncollected, part=part, root=str(config.rootpath)
        ):
            if not line.startswith(f"{self._name}: ") or config.get_verbosity() > 0:
                terminalreporter.write_line(line)


def coverage_lines(
    budgets: BudgetsFile,
    ids: Iterable[str],
    *,
    roots: Sequence[str] = (".",),
    uncollected: Sequence[str] = (),
    part: str | None = None,
    root: str = "",
) -> list[str]:
    """A line for each unused entry, and one for those that could not be looked for.

    `roots` are the files and folders that were collected, from the root of the tests, `uncollected` the ids of modules
    that could not be; `part` says why the ids are a part of the suite, None where they are all.
    """
    from pytest_roofline.errors import one_line

    known = list(ids)
    used = {entry.pattern for test_id in known for entry in budgets.fitting(test_id)}
    unfit = [entry for entry in budgets.tests if entry.pattern not in used]
    files = {one.partition("::")[0] for one in known}
    unused = [
        entry for entry in unfit if part is None and _was_looked_for(entry.pattern, roots, uncollected, files, root)
    ]
    lines = [
        f"{budgets.name}:{entry.line}: unused: none of the {len(known)} tests that were collected fits "
        f"{one_line(entry.pattern)}"
        for entry in unused[:LONGEST_LIST]
    ]
    if len(unused) > LONGEST_LIST:
        lines.append(f"{budgets.name}:{unused[LONGEST_LIST].line}: unused, and {len(unused) - LONGEST_LIST} more")
    if rest := len(unfit) - len(unused):
        why = f" ({part})" if part else ""
        lines.append(f"{budgets.name}: {rest} of its entries fit no test here, but only a part of the suite ran{why}")
    return lines


def _was_looked_for(
    pattern: str, roots: Sequence[str], uncollected: Sequence[str], files: Iterable[str], root: str
) -> bool:
    """Whether the tests of a pattern would have been seen, if there were any."""
    begin = pattern[: min((at for at in map(pattern.find, "*?") if at >= 0), default=len(pattern))]
    is_one_file = "::" in begin
    place = begin.partition("::")[0] if is_one_file else begin.rpartition("/")[0]
    if not any(base == "." or place == base or place.startswith(f"{base}/") for base in roots):
        return False
    if is_one_file:
        if any(one.partition("::")[0] == place for one in uncollected):
            return False
        # One that is there and shows no test was passed over by something else, a conftest.py perhaps.
        return place in files or not os.path.lexists(os.path.join(root, place))
    return not uncollected


def part_of_suite(config: pytest.Config) -> str | None:
    """What lets a run see a part of the suite only, beside the paths that it was given; None where nothing does."""
    if config.pluginmanager.hasplugin("dsession"):
        return "pytest-xdist"
    given = {"--lf": "lf", "--ignore": "ignore", "--ignore-glob": "ignore_glob"}
    return next((flag for flag, name in given.items() if config.getoption(name, None)), None)


def roots_of(config: pytest.Config) -> list[str]:
    """The files and folders that were collected, from the root of the tests, with slashes; no single tests."""
    roots = []
    for argument in config.args:
        path = os.path.realpath(os.path.join(config.invocation_params.dir, argument))
        if "::" in argument or not os.path.lexists(path):
            continue
        parts = os.path.relpath(path, os.path.realpath(config.rootpath)).split(os.sep)
        # From above the root all of it is collected.
        roots.append("." if set(parts) <= {os.curdir, os.pardir} else "/".join(parts))
    return roots
