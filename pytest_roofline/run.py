"""What a whole run says of itself: where it measures, its table at the end, and what it lacks where all is required."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

import pytest_roofline
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.given import resolve, settings_of
from pytest_roofline.item import session_of
from pytest_roofline.outcome import UNMEASURED
from pytest_roofline.report.terminal import header_line, header_lines, summary_lines
from pytest_roofline.results.document import ResultsDocument
from pytest_roofline.tally import RECORD, tally_of

if TYPE_CHECKING:
    from pytest_roofline.tally import Tally


class ResultsLog:
    """Keeps the file of ``--roofline-json``; under xdist the controller does, which gets the reports of all workers."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        run = {
            "version": pytest_roofline.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "arguments": [str(argument) for argument in config.invocation_params.args],
        }
        try:
            self._document = ResultsDocument(os.path.join(config.invocation_params.dir, path), run)
        except OSError as error:
            raise pytest.UsageError(f"--roofline-json: {path!r} cannot be written: {error.strerror or error}") from None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Put a test that measured on disk, and one that its worker did not survive."""
        text = next((value for name, value in report.user_properties if name == RECORD), None)
        has_crashed = report.when not in ("setup", "call", "teardown")
        if (text is None or report.when != "call") and not has_crashed:
            return
        record = json.loads(text) if text is not None else {"verdict": None, "reason": str(report.longrepr)}
        self._document.add(
            {
                "node_id": report.nodeid,
                "outcome": report.outcome,
                "duration_s": report.duration,
                "worker": getattr(report, "worker_id", None),
                **{name: value for name, value in record.items() if name != "schema"},
            }
        )

    @pytest.hookimpl(trylast=True)  # after whoever else changes the exit status; we are registered after the plugin
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The end; with --roofline=require a file that lacks tests is an error."""
        self._document.close({"exit_status": int(session.exitstatus)})
        is_fine = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self._document.error and is_fine and resolve(session.config, "mode") == "require":
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Where the results are, or how many are missing there and why."""
        document = self._document
        if document.error is None:
            return
        terminalreporter.write_line(
            f"ERROR: --roofline-json: {document.waiting} of {document.waiting + document.written} tests are not in "
            f"{document.path}: {document.error}",
            red=True,
        )


def header_of(config: pytest.Config) -> str:
    """The line before the first test: where will be measured."""
    tally_of(config).is_header_shown = True
    settings = settings_of(config)
    if settings.mode == "off":
        return header_line("off")
    try:
        device = session_of(config).find_device(settings.device)
    except (pytest.UsageError, RooflineUsageError) as error:
        return f"roofline: {error}"  # the tests themselves fail by it, each at its own place
    return header_line(settings.mode, device.id, device.name, is_named=settings.device is not None)


def summarise(config: pytest.Config, terminalreporter: Any) -> None:
    """Print the table, the inconclusive tests, how many were not judged, and what the run is red for besides."""
    tally = tally_of(config)
    if tally.texts and config.get_verbosity() > -2:
        records = _records(tally.texts)
        is_named = resolve(config, "device") is not None
        terminalreporter.section("roofline")
        header = [] if tally.is_header_shown else header_lines(records, is_named=is_named)
        for line in (*header, *summary_lines(records)):
            terminalreporter.write_line(line)
    for fault in tally.faults:
        terminalreporter.write_line(f"ERROR: --roofline=require: {fault}", red=True)


def faults_of(config: pytest.Config, tally: Tally) -> list[str]:
    """What makes a run with --roofline=require red, whatever its tests ended with; empty where nothing does."""
    faults = []
    for message in dict.fromkeys(tally.absent.values()):
        tests = [node_id for node_id, found in tally.absent.items() if found == message]
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        faults.append(f"{message} ({tests[0]}{more})")
    results = (result for text in tally.texts.values() for result in json.loads(text)["results"])
    if all(result["standing"] == UNMEASURED for result in results):
        faults.append(f"no roofline test measured anything{_instead(config)}")
    return faults


def _instead(config: pytest.Config) -> str:
    """What became of the tests of a run that measured nothing, as far as the terminal has counted."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    stats = reporter.stats if reporter is not None else {}
    ends = {word: len(stats.get(word, ())) for word in ("deselected", "skipped", "error", "failed", "passed")}
    said = ", ".join(f"{count} {word}" for word, count in ends.items() if count)
    return f" ({said or 'nothing was collected'})" if reporter is not None else ""


def _records(texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {node_id: json.loads(text) for node_id, text in texts.items()}
