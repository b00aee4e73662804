"""Pytest's door: wiring only. It is imported in every run of every project in the environment, so it imports little."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.fixtures import roofline, roofline_device, roofline_probe
from pytest_roofline.options import Marker, add_options, check_options, is_roofline, resolve
from pytest_roofline.tally import Tally

__all__ = ["roofline", "roofline_device", "roofline_probe"]


TALLY: pytest.StashKey[Tally] = pytest.StashKey()
WORDS: dict[str, tuple[str, tuple[str, dict[str, bool]]]] = {
    "bogus": ("B", ("BOGUS", {"red": True})),
    "inconclusive": ("I", ("INCONCLUSIVE", {"yellow": True})),
}
NOT_RUNS = ("collectonly", "showfixtures", "show_fixtures_per_test", "setuponly", "setupplan", "cacheshow")
pytest_addoption = add_options


def is_no_run(config: pytest.Config) -> bool:
    """Whether pytest was asked to list or to show something, and runs no test."""
    return any(config.getoption(name, False) for name in NOT_RUNS)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Hooks that others implement."""
    from pytest_roofline import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """The marker; a wrong option ends the session here."""
    config.addinivalue_line("markers", Marker.help_line())
    check_options(config)
    config.stash[TALLY] = Tally()
    config.pluginmanager.register(config.stash[TALLY], "roofline-tally")
    if not hasattr(config, "workerinput") and resolve(config, "json") is not None and not is_no_run(config):
        from pytest_roofline.run import ResultsLog

        config.pluginmanager.register(ResultsLog(config, resolve(config, "json")), "roofline-results")


def pytest_report_collectionfinish(config: pytest.Config, start_path: Path, items: Sequence[pytest.Item]) -> str | None:
    """Say where will be measured, if anything will be."""
    if config.getoption("collectonly") or config.get_verbosity() < -1 or not any(map(is_roofline, items)):
        return None
    from pytest_roofline.run import header_of

    config.stash[TALLY].is_header_shown = True
    return header_of(config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A wrong marker or an absent device ends the test before anything is made for it."""
    if is_roofline(item):
        from pytest_roofline.item import prepare

        prepare(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge the test by its results, however its body ended; an interruption is no ending."""
    value: object = None
    ending: BaseException | None = None
    try:
        value = yield
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
        raise
    except BaseException as error:
        ending = error
    try:
        if "pytest_roofline.item" in sys.modules:  # else nobody in this run has asked for us yet
            from pytest_roofline.item import judge

            ending = judge(item, ending)
        if ending is not None:
            raise ending
    finally:
        del ending  # its traceback holds this frame
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where we ended a test, let its report speak of the test and not of us."""
    report = yield
    if call.excinfo is not None and call.when != "teardown" and is_roofline(item):
        from pytest_roofline.item import polish

        polish(item, report, call.excinfo)
    return report


def pytest_report_teststatus(report: Any) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
    """Letter and word of a bogus or inconclusive test; outcome and category stay pytest's."""
    if report.when != "call" or report.outcome == "rerun" or hasattr(report, "wasxfail"):
        return None
    standing = dict(report.user_properties).get("roofline.verdict")
    if standing not in WORDS or (standing == "bogus" and not report.failed):
        return None
    letter, word = WORDS[standing]
    # The short summary of pytest before 8.3 knows no word with a colour.
    return report.outcome, letter, word if pytest.version_tuple >= (8, 3) else word[0]


@pytest.hookimpl(trylast=True)  # whoever else changes the exit status of a run without tests has done it by now
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With --roofline=require a run that measured nothing, or did not find its device, is an error."""
    config = session.config
    is_worker = hasattr(config, "workerinput")
    if is_worker or resolve(config, "mode") != "require" or is_no_run(config):
        return
    from pytest_roofline.run import faults_of

    tally = config.stash[TALLY]
    tally.faults = faults_of(config, tally)
    if tally.faults and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, the inconclusive tests, and how many were not judged."""
    tally = config.stash[TALLY]
    if tally.texts and config.get_verbosity() > -2:
        from pytest_roofline.run import summary_of

        terminalreporter.section("roofline")
        for line in summary_of(config, tally.texts, with_header=not tally.is_header_shown):
            terminalreporter.write_line(line)
        # The short summary names the lines of all skipped tests by the word of the first: let that be a plain one.
        terminalreporter.stats.get("skipped", []).sort(key=lambda report: bool(pytest_report_teststatus(report)))
    for fault in tally.faults:
        terminalreporter.write_line(f"ERROR: --roofline=require: {fault}", red=True)
