"""One test in pytest's hands: whether it is ours, what it is told, and what its results make of its ending."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_roofline.given import check_specs, marker_of, resolve, settings_of
from pytest_roofline.tally import ABSENT, ORIGIN, RECORD, tally_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_roofline.device import Device
    from pytest_roofline.instrument import Instrument
    from pytest_roofline.outcome import Outcome
    from pytest_roofline.probe import Probe
    from pytest_roofline.progress import Onlooker
    from pytest_roofline.reruns import Attempt
    from pytest_roofline.session import Session
    from pytest_roofline.settings import Settings

SESSION: pytest.StashKey[Session] = pytest.StashKey()
SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
INSTRUMENT: pytest.StashKey[Instrument] = pytest.StashKey()
ENDING: pytest.StashKey[BaseException] = pytest.StashKey()
"""The exception that we end the test with; absent where its ending is its own."""
TOLD: pytest.StashKey[str] = pytest.StashKey()
"""What the reports of this process have said of its origin."""
JUDGED: pytest.StashKey[bool] = pytest.StashKey()
"""Whether the body has ended; a report that is made before that is one of its subtests."""
ATTEMPTS: pytest.StashKey[list[Attempt]] = pytest.StashKey()
"""What is left of each time that the test was run. The results of the last one are in its properties only."""


# -- before the test ------------------------------------------------------------------------------------------------


def session_of(config: pytest.Config) -> Session:
    """The one session of this process, with the backends that hooks add; made when it is first asked for."""
    if SESSION not in config.stash:
        check_specs(config)
        from pytest_roofline.protocol import Backend
        from pytest_roofline.session import Session
        from pytest_roofline.turnstile import Turnstile

        def on_probe(probe: Probe) -> None:
            config.hook.pytest_roofline_probe_finished(probe=probe)

        def count(model: object, batch: int | None, context: int | None) -> Any:
            return config.hook.pytest_roofline_traffic(config=config, model=model, batch=batch, context=context)

        onlooker = _onlooker_of(config)

        def say(line: str) -> None:
            onlooker.clear()
            say_at_once(config, line)

        answers = config.hook.pytest_roofline_backends(config=config)
        backends = added("pytest_roofline_backends", answers, lambda value: isinstance(value, Backend), "a backend")
        worker: dict[str, Any] = getattr(config, "workerinput", {})
        timers: Any = config.pluginmanager.get_plugin("roofline-timers")
        config.stash[SESSION] = Session(
            added_backends=backends,
            specs_paths=resolve(config, "specs"),
            on_probe=on_probe,
            count=count,
            turnstile=Turnstile(
                folder=resolve(config, "lock_folder"),
                wait_s=resolve(config, "lock_wait"),
                say=say,
                onlooker=onlooker,
                waiting=nullcontext if timers is None else timers.paused,
            ),
            onlooker=onlooker,
            run_id=worker.get("testrunuid"),
        )
    return config.stash[SESSION]


def _onlooker_of(config: pytest.Config) -> Onlooker:
    """A line of progress where a person looks at pytest's own terminal output, and nobody else writes there meanwhile.

    Without capturing, and with live logs, the tests do.
    """
    from pytest_roofline.progress import NOBODY

    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if capture is None or reporter is None or hasattr(config, "workerinput") or config.get_verbosity() < 0:
        return NOBODY
    has_live_logs = config.getini("log_cli") or config.getoption("log_cli_level", None) is not None
    is_pytests_own = type(reporter).__module__ == "_pytest.terminal"
    if config.getoption("capture") not in ("fd", "sys") or has_live_logs or not is_pytests_own:
        return NOBODY
    from pytest_roofline.report.progress import TerminalOnlooker, is_looked_at

    with past_capture(config):
        if not is_looked_at(sys.stdout, os.environ):
            return NOBODY
        onlooker = TerminalOnlooker(sys.stdout, config.get_terminal_writer())
    config.add_cleanup(onlooker.close)
    return onlooker


@contextmanager
def past_capture(config: pytest.Config) -> Iterator[None]:
    """What is written meanwhile reaches the terminal. The test's own redirections are as they were behind it."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    streams = sys.stdout, sys.stderr
    try:
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            yield
    finally:  # pytest puts its own files there again, also in the place of a redirect_stdout or a doctest's
        sys.stdout, sys.stderr = streams


def say_at_once(config: pytest.Config, line: str) -> None:
    """Show a line in the middle of a test. A worker of xdist prints to nowhere; its error stream is the run's."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    with past_capture(config):
        if reporter is not None and not hasattr(config, "workerinput"):
            reporter.ensure_newline()
            reporter.write_line(line)
        else:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


def added(hook: str, answers: Sequence[Any], is_right: Any, what: str) -> list[Any]:
    """The answers of all implementations of a hook in one list, each one validated."""
    values = []
    for answer in answers:
        if not isinstance(answer, (list, tuple)):
            raise pytest.UsageError(f"{hook} returned a {type(answer).__name__}; it must return a list, or None")
        for value in answer:
            if not is_right(value):
                raise pytest.UsageError(f"{hook} returned {value!r}, which is not {what}")
            values.append(value)
    return values


def prepare(item: pytest.Item) -> Settings:
    """Settle what a test is told, before its fixtures are made: a wrong marker or an absent device ends it here."""
    from pytest_roofline.errors import DeviceUnavailable, RooflineUsageError

    tally_of(item.config)
    try:
        marker = marker_of(item)
        settings = settings_of(item.config, marker, item.nodeid)
        item.stash[SETTINGS] = settings
        if settings.mode != "off":
            find_device(item.config, settings, is_marked=marker.device is not None)
    except pytest.skip.Exception as skipped:
        item.stash[ENDING] = skipped
        raise
    except (pytest.UsageError, RooflineUsageError) as error:
        if isinstance(error, DeviceUnavailable):
            item.user_properties[:] = [entry for entry in item.user_properties if entry[0] != ABSENT]
            item.user_properties.append((ABSENT, str(error)))
        raise refusal(error) from None
    return settings


def find_device(config: pytest.Config, settings: Settings, *, is_marked: bool = False) -> Device:
    """The device that the settings ask for. A marker's absent one skips the test; elsewhere that is an error."""
    from pytest_roofline.errors import DeviceUnavailable

    try:
        device = session_of(config).find_device(settings.device)
    except DeviceUnavailable as error:
        if is_marked and settings.mode == "auto":
            raise pytest.skip.Exception(str(error)) from None
        raise
    if settings.mode == "require" and (lost := session_of(config).lost_devices()):
        names = ", ".join(f"{device.id} ({device.name})" for device in lost)
        raise DeviceUnavailable(f"{names} was here when this run began, and is gone")
    if settings.mode == "require" and device.is_cpu and settings.device is None:
        raise DeviceUnavailable(
            f"--roofline=require finds no accelerator, only {device.id} ({device.name}); "
            "to measure on the CPU, name it: --roofline-device=cpu\n"
            "  so does a test that only asks a server (roofline.stream): the device that it judges is stated, and here "
            "is the client alone; or by itself: @pytest.mark.roofline(device='cpu')"
        )
    return device


def refusal(error: Exception) -> BaseException:
    """What ends a test with one clear message: the frames of a plugin would tell nobody anything."""
    return pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False)


# -- after its body ---------------------------------------------------------------------------------------------------


def judge(item: pytest.Item, call: Any) -> None:
    """Judge a test of ours by its results; `call` is pluggy's outcome of its body, which may get another ending."""
    kept: list[pytest.ExceptionInfo[BaseException]] = getattr(item, "_excinfo", None) or []
    raised: BaseException | None = call.exception or _of_test_case(kept)
    if SETTINGS not in item.stash or isinstance(raised, (KeyboardInterrupt, SystemExit, pytest.exit.Exception)):
        return
    ending = ending_of(item, raised)
    if ending is raised and raised is not call.exception:
        return
    if kept and raised is kept[0].value:
        del kept[0]
    if ending is not None:
        call.force_exception(ending)
    elif raised is not None:
        call.force_result([])


def _of_test_case(kept: Sequence[pytest.ExceptionInfo[BaseException]]) -> BaseException | None:
    """What a unittest.TestCase raised: its call ends well, and its report takes the first that pytest keeps aside.

    A second one is of its tearDown: no doubt about the first makes that test any less red.
    """
    from pytest_roofline.errors import BogusMeasurement

    values = [one.value for one in kept[:2]]
    return next((value for value in values if isinstance(value, BogusMeasurement)), values[-1] if values else None)


def ending_of(item: pytest.Item, raised: BaseException | None) -> BaseException | None:
    """Leave the record on the item, and say what the test ends with now. A test that is run again keeps its item."""
    from pytest_roofline.outcome import attempt_of, outcome_of, properties_of, results_in
    from pytest_roofline.reruns import irrevocable

    item.stash[JUDGED] = True
    former = item.stash.setdefault(ATTEMPTS, [])
    if former:
        former[-1] = {**former[-1], "results": results_in(item.user_properties)}
    item.user_properties[:] = [entry for entry in item.user_properties if not entry[0].startswith("roofline")]
    bogus = irrevocable(former, raised)
    if bogus is None and isinstance(raised, (pytest.skip.Exception, pytest.xfail.Exception)):
        return raised
    settings, instrument = item.stash[SETTINGS], item.stash.get(INSTRUMENT, None)
    results, audits = (instrument.results, instrument.audits) if instrument is not None else ([], [])
    outcome = outcome_of(results, audits, settings, bogus or raised)
    if results or former or outcome.error is not None or outcome.is_inconclusive:
        item.user_properties += properties_of(outcome, results, settings, former)
    former.append(attempt_of(outcome, bogus or raised))
    ending = _inconclusive(outcome, settings, raised) if outcome.is_inconclusive else outcome.error or bogus or raised
    if ending is not None and ending is not raised:
        item.stash[ENDING] = ending
    elif ending is not None and not item.config.getoption("fulltrace", False):
        ending.__traceback__ = _without_own_frames(ending.__traceback__)
    return ending


def _inconclusive(outcome: Outcome, settings: Settings, raised: BaseException | None) -> BaseException | None:
    from pytest_roofline.errors import InconclusiveMeasurement

    if settings.inconclusive == "fail":
        return raised or InconclusiveMeasurement(outcome.reason)
    return None if settings.inconclusive == "pass" else pytest.skip.Exception(f"inconclusive: {outcome.reason}")


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of the test and of its step, without how this package called them; all, where it is all ours."""
    own, canaries = os.path.dirname(__file__) + os.sep, os.path.join(os.path.dirname(__file__), "canaries.py")
    kept = []
    entry = traceback
    while entry is not None:
        name = entry.tb_frame.f_code.co_filename
        if not name.startswith(own) or name == canaries:
            kept.append(entry)
        entry = entry.tb_next
    shown: TracebackType | None = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown or traceback


# -- its report -------------------------------------------------------------------------------------------------------


def finish_report(
    item: pytest.Item, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[BaseException] | None
) -> None:
    """Let it speak of the test and not of us, and say where the figures come from; others stay as they are."""
    if SETTINGS not in item.stash:
        return
    if excinfo is not None:
        if report.when == "call" and not item.stash.get(JUDGED, True):
            excuse(item, report, excinfo.value)
        polish(item, report, excinfo)
    if report.when == "call":
        if item.stash.get(JUDGED, False):
            # Not a copy: whoever runs a test again behind its report (pytest-retry) hands on the report of the first.
            report.user_properties = item.user_properties
        sign(item, report)
        illustrate(item, report)


def excuse(item: pytest.Item, report: pytest.TestReport, raised: BaseException) -> None:
    """A subtest that decides nothing ends as a test would that does."""
    from pytest_roofline.outcome import outcome_of

    settings, instrument = item.stash[SETTINGS], item.stash.get(INSTRUMENT, None)
    outcome = outcome_of(instrument.results if instrument is not None else (), (), settings, raised)
    ending = _inconclusive(outcome, settings, raised) if outcome.is_inconclusive else raised
    if ending is None:
        report.outcome, report.longrepr = "passed", None
    elif ending is not raised:
        file, line, _ = item.reportinfo()
        report.outcome, report.longrepr = "skipped", (os.fspath(file), (line or 0) + 1, f"Skipped: {ending}")


def illustrate(item: pytest.Item, report: pytest.TestReport) -> None:
    """Where pytest-html makes a page of the run, let the test's row show its results; under xdist from the worker."""
    extras: Any = sys.modules.get("pytest_html.extras")
    text = next((value for name, value in report.user_properties if name == RECORD), None)
    if extras is None or text is None or not item.config.getoption("htmlpath", None):
        return
    from pytest_roofline.exports.pytest_html import pytest_html_extra

    table = pytest_html_extra(report.nodeid, json.loads(str(text)))
    if table is not None:
        report.extras = [*getattr(report, "extras", []), extras.html(table)]  # type: ignore[attr-defined]


def sign(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let the report bring along what this process knows of its devices, probes and libraries, whenever that is news.

    Reports are all that a worker of xdist hands over test by test; JUnit files show no attributes of reports.
    """
    if SESSION not in item.config.stash:
        return
    from pytest_roofline.results.origin import device_record, libraries_in

    session = item.config.stash[SESSION]
    devices = [device_record(probe, session.limit(probe.device)) for probe in session.probes()]
    text = json.dumps({"libraries": libraries_in(sys.modules), "devices": devices}, allow_nan=False)
    if text != item.config.stash.get(TOLD, None):
        item.config.stash[TOLD] = text
        setattr(report, ORIGIN, text)


def polish(item: pytest.Item, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Let the report of a test that we ended point at the test, and be the message alone."""
    from pytest_roofline.errors import RooflineError

    shown: Any = report.longrepr
    if excinfo.value is item.stash.get(ENDING, None):
        file, line, _ = item.reportinfo()
        place = os.fspath(file), (line or 0) + 1
        if isinstance(shown, tuple):
            report.longrepr = (*place, shown[2])
            return
        shown = excinfo.getrepr(style="value")
        shown.reprtraceback.reprentries[-1].lines[:] = f"{type(excinfo.value).__name__}: {excinfo.value}".split("\n")
        if shown.reprcrash is not None:
            shown.reprcrash.path, shown.reprcrash.lineno = place
        report.longrepr = shown
    crash = getattr(shown, "reprcrash", None)
    if crash is not None and isinstance(excinfo.value, RooflineError):
        # The short summary has room for one line: the name of our module is no part of the message.
        crash.message = crash.message.removeprefix(f"{type(excinfo.value).__module__}.")
