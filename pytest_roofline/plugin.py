"""Pytest's door: wiring only. It is imported in every run of every project in the environment, so it imports little."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_roofline.options import add_options, is_anything_given, is_roofline, marker_line

if TYPE_CHECKING:
    from pytest_roofline.device import Device
    from pytest_roofline.instrument import Instrument
    from pytest_roofline.probe import Probe

pytest_addoption = add_options


def __dir__() -> list[str]:
    """Hooks and fixtures alone: pytest and pluggy examine every name of a plugin, in every run of every project."""
    return [name for name in globals() if name.startswith(("pytest_", "roofline"))]


@pytest.fixture(scope="session")
def roofline_device(pytestconfig: pytest.Config) -> Device:
    """The device that measurements run on: what --roofline-device names, else the first accelerator, else the CPU.

    Its name, vendor, memory, caches and matched spec. What could not be read is None, and its `notes` say why.
    """
    from pytest_roofline.fixtures import device_for

    return device_for(pytestconfig)


@pytest.fixture(scope="session")
def roofline_probe(pytestconfig: pytest.Config, roofline_device: Device) -> Probe:
    """Bandwidths of the device, measured once per session: read, copy, write and triad in bytes/s, and its cache knee.

    Peaks per dtype and the link are measured when they are asked for. With --roofline=off the test is skipped.
    """
    from pytest_roofline.fixtures import probe_of

    return probe_of(pytestconfig, roofline_device)


@pytest.fixture
def roofline(request: pytest.FixtureRequest) -> Generator[Instrument, None, None]:
    """Measure inference code against the roofline of its device: decode, prefill, kernel, generate, stream, audit.

    `result = roofline.decode(model.step, model=model, context=2048)`, then `assert result.fraction >= 0.6`. A figure
    that cannot be true raises BogusMeasurement, which names the cause.
    """
    from pytest_roofline.fixtures import instrument_for

    yield from instrument_for(request)


class _HookNames:
    """The hooks that others implement, and no word about them: `hookspecs` has those, and nobody needs it to run."""

    def pytest_roofline_backends(self, config: object) -> None: ...
    def pytest_roofline_checks(self, config: object) -> None: ...
    @pytest.hookspec(firstresult=True)
    def pytest_roofline_traffic(self, config: object, model: object, batch: object, context: object) -> None: ...
    def pytest_roofline_probe_finished(self, probe: object) -> None: ...
    def pytest_roofline_verdict_reached(self, result: object, item: object) -> None: ...


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare them."""
    pluginmanager.add_hookspecs(_HookNames)


def pytest_configure(config: pytest.Config) -> None:
    """The marker; a wrong option ends the session here."""
    config.addinivalue_line("markers", marker_line())
    if config.pluginmanager.hasplugin("timeout"):
        from pytest_roofline import timers

        config.pluginmanager.register(timers.Timers(config), timers.NAME)
    if is_anything_given(config):
        from pytest_roofline.hall import begin

        begin(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """A process whose workers (xdist) or children (forked) run the tests sees their reports, and starts no tally."""
    if session.config.pluginmanager.hasplugin("dsession") or session.config.getoption("forked", False):
        from pytest_roofline.tally import tally_of

        tally_of(session.config)


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> str | None:
    """Say where will be measured, if anything will be."""
    if config.getoption("collectonly") or config.get_verbosity() < -1 or not any(map(is_roofline, items)):
        return None
    from pytest_roofline.run import header_of

    return header_of(config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A wrong marker or an absent device ends the test before anything is made for it."""
    if is_roofline(item):
        from pytest_roofline.item import prepare

        prepare(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Judge the test by its results, however its body ended; an interruption is no ending."""
    outcome = yield
    if "pytest_roofline.item" in sys.modules:  # else nobody in this run has asked for us yet
        from pytest_roofline.item import judge

        judge(item, outcome)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where we ended a test, let its report speak of the test and not of us; let it say where its figures come from."""
    report = yield
    if call.when != "teardown" and "pytest_roofline.item" in sys.modules:
        from pytest_roofline.item import finish_report

        finish_report(item, report, call.excinfo)
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, the inconclusive tests, and how many were not judged."""
    if "pytest_roofline.tally" in sys.modules:
        from pytest_roofline.run import summarise

        summarise(config, terminalreporter)
