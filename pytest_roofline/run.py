"""What a whole run says of itself: where it measures, its table at the end, and what it lacks where all is required."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

import pytest_roofline
from pytest_roofline import outputs
from pytest_roofline.errors import RooflineError, RooflineUsageError
from pytest_roofline.given import budgets_of, check_specs, resolve, settings_of
from pytest_roofline.item import session_of
from pytest_roofline.outcome import UNMEASURED
from pytest_roofline.report.terminal import header_line, header_lines, summary_lines
from pytest_roofline.reruns import RERUN, is_run_again
from pytest_roofline.results.document import ResultsDocument, document_of, line_of
from pytest_roofline.results.origin import commit_of, merged, message_of, place_of
from pytest_roofline.tally import ORIGIN, RECORD, status_of, tally_of

if TYPE_CHECKING:
    from pytest_roofline.tally import Tally


class ResultsLog:
    """Keeps the results of a run and has everything made of them that was asked for, by the names of the options.

    With ``--roofline-json`` they are on disk test by test; for every other output they are kept until the run is over.
    Under xdist the controller does this, which gets the reports of all workers.
    """

    def __init__(self, config: pytest.Config, asked: Sequence[str]) -> None:
        try:
            self._outputs = {
                name: make(config, resolve(config, name)) for name, make in outputs.MAKERS.items() if name in asked
            }
        except RooflineUsageError as error:
            raise pytest.UsageError(str(error)) from None
        folder = str(config.invocation_params.dir)
        self._run = {
            "version": pytest_roofline.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "arguments": [str(argument) for argument in config.invocation_params.args],
            "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": commit_of(str(config.rootpath), os.environ),
        }
        self._libraries = {"pytest": pytest.__version__, "pytest-roofline": pytest_roofline.__version__}
        for _, package in config.pluginmanager.list_plugin_distinfo():
            self._libraries.setdefault(str(package.project_name), str(package.version))
        self._devices: list[dict[str, Any]] = []
        self._tests: list[str] = []
        self._shown: list[tuple[str | None, Sequence[str]]] = []
        self._faults: list[str] = []
        self._document: ResultsDocument | None = None
        if "json" in asked:
            path = resolve(config, "json")
            try:
                self._document = ResultsDocument(os.path.join(folder, path), self._run)
            except OSError as error:
                raise pytest.UsageError(
                    f"--roofline-json: {path!r} cannot be written: {error.strerror or error}"
                ) from None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a test that measured, and one that its worker did not survive."""
        if told := getattr(report, ORIGIN, None):
            self._learn(json.loads(told), getattr(report, "worker_id", None))
        text = next((value for name, value in report.user_properties if name == RECORD), None)
        has_crashed = report.when not in ("setup", "call", "teardown")
        if (text is None or report.when != "call") and not has_crashed:
            return
        crashed: dict[str, Any] = {
            "mode": None,
            "verdict": None,
            "reason": str(report.longrepr),
            "budget_error": None,
            "results": [],
        }
        record = json.loads(text) if text is not None else crashed
        file, line = place_of(report.location)
        test = line_of(
            {
                "node_id": report.nodeid,
                "outcome": RERUN if is_run_again(report.outcome) else report.outcome,
                "duration_s": report.duration,
                "worker": getattr(report, "worker_id", None),
                "file": file,
                "line": line,
                "message": message_of(report.longrepr),
                **{name: value for name, value in record.items() if name != "schema"},
                "attempts": record.get("attempts", []),
            }
        )
        if self._outputs:
            self._tests.append(test)
        if self._document is not None:
            self._document.add(test)

    def _learn(self, told: Mapping[str, Any], worker: str | None) -> None:
        self._libraries.update(told["libraries"])
        for device in told["devices"]:
            self._devices = merged(self._devices, device, worker)
        if self._document is not None:
            self._document.tell(self._libraries, self._devices)

    @pytest.hookimpl(trylast=True)  # after whoever else changes the exit status; we are registered after the plugin
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The end: what was asked for is made; with --roofline=require what could not be is an error."""
        end = {"exit_status": int(session.exitstatus)}
        origin = {"libraries": self._libraries, "devices": self._devices}
        if self._outputs:
            document = document_of(self._run, self._tests, origin, end)
            for name, output in self._outputs.items():
                self._make(name, output, document)
        if self._faults:
            self._require(session)
        if self._document is not None:
            self._document.tell(self._libraries, self._devices)
            self._document.close({"exit_status": int(session.exitstatus)})
            if self._document.error is not None:
                self._require(session)

    def _make(self, name: str, output: outputs.Output, document: Mapping[str, Any]) -> None:
        lines: list[str] = []
        self._shown.append((output.section, lines))
        try:
            lines.extend(output.write(document))  # what is said before it fails is kept
        except (OSError, RooflineError) as error:
            where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
            reason = error.strerror or error if isinstance(error, OSError) else error
            self._faults.append(f"--roofline-{name.replace('_', '-')}: {where}{reason}")
        except Exception as error:  # a fault of ours in a report must not cost the run its other ones
            self._faults.append(f"--roofline-{name.replace('_', '-')}: {type(error).__name__}: {error}")

    @staticmethod
    def _require(session: pytest.Session) -> None:
        """With --roofline=require the run is red, whatever its tests ended with."""
        is_fine = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if is_fine and resolve(session.config, "mode") == "require":
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)  # below the table
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What was made, and what could not be and why."""
        for section, lines in self._shown:
            if section is not None and lines:
                terminalreporter.section(section)
            for line in lines:
                terminalreporter.write_line(line)
        for fault in self._faults:
            terminalreporter.write_line(f"ERROR: {fault}", red=True)
        document = self._document
        if document is None or document.error is None:
            return
        terminalreporter.write_line(
            f"ERROR: --roofline-json: {document.waiting} of {document.waiting + document.written} tests are not in "
            f"{document.path}: {document.error}",
            red=True,
        )


def header_of(config: pytest.Config) -> str | None:
    """The line before the first test: where will be measured. With --no-header the summary says it."""
    tally = tally_of(config)
    budgets_of(config)  # one that cannot be read ends the run before its first test
    check_specs(config)
    if config.getoption("no_header", False):
        return None
    tally.is_header_shown = True
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
        for line in header:
            terminalreporter.write_line(line)
        for spans in summary_lines(records, config.get_terminal_writer().fullwidth):
            for text, colour in spans:
                terminalreporter.write(text, **({colour: True} if colour else {}))
            terminalreporter.write("\n")
    for fault in tally.faults:
        terminalreporter.write_line(f"ERROR: --roofline=require: {fault}", red=True)
    # The short summary names the lines of all skipped tests by the word of the first: let that be a plain one.
    terminalreporter.stats.get("skipped", []).sort(key=lambda report: status_of(report) is not None)


def faults_of(config: pytest.Config, tally: Tally) -> list[str]:
    """What makes a run with --roofline=require red, whatever its tests ended with; empty where nothing does."""
    faults = []
    for message in dict.fromkeys(tally.absent.values()):
        tests = [node_id for node_id, found in tally.absent.items() if found == message]
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        faults.append(f"{message.splitlines()[0].removeprefix('--roofline=require ')} ({tests[0]}{more})")
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
