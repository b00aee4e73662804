"""What options ask for around the tests of a run: before the first of them, and after the last."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_roofline.given import budgets_path, check_options, has_groups, resolve
from pytest_roofline.options import OPTIONS, SELFTEST

OUTPUTS = ("json", "html", "export", "compare", "update_budgets")
"""Options for which the results of a run are kept; what is made of them stands in `outputs`."""
NOT_RUNS = ("collectonly", "showfixtures", "show_fixtures_per_test", "setuponly", "setupplan", "cacheshow")


def begin(config: pytest.Config) -> None:
    """Read the options, and prepare what is made of the results; a wrong option ends the session here."""
    check_options(config)
    if resolve(config, "mode") == "require" and is_controller(config):
        config.pluginmanager.register(Requirement(config), "roofline-requirement")
    asked = [option.name for option in OPTIONS if option.name in OUTPUTS and resolve(config, option.name)]
    if asked and is_controller(config):
        from pytest_roofline.run import ResultsLog

        config.pluginmanager.register(ResultsLog(config, asked), "roofline-results")
    if config.getoption(SELFTEST) and is_controller(config):
        config.pluginmanager.register(SelftestWatch(), "roofline-selftest")
    budgets = budgets_path(config)
    if budgets is not None and is_controller(config):
        from pytest_roofline.budgets.coverage import BudgetsCoverage

        watch = BudgetsCoverage(*budgets, is_grouped=has_groups(config))
        config.pluginmanager.register(watch, "roofline-budgets")


class Requirement:
    """With --roofline=require a run that measured nothing, or did not find its device, is an error."""

    def __init__(self, config: pytest.Config) -> None:
        from pytest_roofline.tally import tally_of

        self._tally = tally_of(config)  # tests may run where this process sees no more of them than their reports

    @pytest.hookimpl(trylast=True)  # whoever else changes the exit status of a run without tests has done it by now
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The end: a run that was green so far is red by it."""
        from pytest_roofline.run import faults_of

        self._tally.faults = faults_of(session.config, self._tally)
        if self._tally.faults and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


class SelftestWatch:
    """With --roofline-selftest a run whose canaries were all skipped has shown nothing: it ends red and says why."""

    def __init__(self) -> None:
        self._is_shown = False
        self._reasons: list[str] = []
        self._fault: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """What became of a canary; a report of a worker of xdist, too."""
        if report.skipped:
            where = report.longrepr
            said = where[2] if isinstance(where, tuple) else str(where)
            self._reasons.append(said.removeprefix("Skipped: ").splitlines()[0])
        elif report.when == "call" or report.failed:
            self._is_shown = True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A green run is red where no canary ran."""
        if self._is_shown or not self._reasons or session.exitstatus != pytest.ExitCode.OK:
            return
        why = "; ".join(dict.fromkeys(self._reasons))
        self._fault = f"nothing was shown, every canary was skipped: {why}"
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One red line."""
        if self._fault is not None:
            terminalreporter.write_line(f"ERROR: {SELFTEST}: {self._fault}", red=True)


def is_controller(config: pytest.Config) -> bool:
    """Whether this process answers for the run: no worker of xdist does, and no run that only lists or shows."""
    return not hasattr(config, "workerinput") and not any(config.getoption(name, False) for name in NOT_RUNS)
