"""What the fixtures hand out. Nothing here is loaded before the first of them is used."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_roofline.checks import CHECKS
from pytest_roofline.errors import InconclusiveMeasurement, RooflineUsageError
from pytest_roofline.given import settings_of
from pytest_roofline.instrument import Instrument
from pytest_roofline.item import INSTRUMENT, JUDGED, SETTINGS, added, find_device, prepare, refusal, session_of

if TYPE_CHECKING:
    from pytest_roofline.device import Device
    from pytest_roofline.probe import Probe
    from pytest_roofline.result import Result


def device_for(config: pytest.Config) -> Device:
    """The device that the options ask for; one that is not there ends the test."""
    try:
        return find_device(config, settings_of(config))
    except RooflineUsageError as error:
        raise refusal(error) from None


def probe_of(config: pytest.Config, device: Device) -> Probe:
    """The probe of a device; a test that asks for one with --roofline=off, or where none can be made, is skipped."""
    settings = settings_of(config)
    if settings.mode == "off":
        pytest.skip("not measured (--roofline=off)")
    try:
        return session_of(config).probe(device)
    except InconclusiveMeasurement as error:
        if settings.inconclusive == "fail":
            raise refusal(error) from None
        pytest.skip(f"inconclusive: {error}")


def instrument_for(request: pytest.FixtureRequest) -> Generator[Instrument, None, None]:
    """The tool of one test, with the checks that hooks add."""
    item: pytest.Item = request.node
    settings = item.stash[SETTINGS] if SETTINGS in item.stash else prepare(item)

    def on_result(result: Result) -> None:
        item.ihook.pytest_roofline_verdict_reached(result=result, item=item)

    try:
        answers = item.config.hook.pytest_roofline_checks(config=item.config)
        checks = added("pytest_roofline_checks", answers, callable, "a check")
    except pytest.UsageError as error:
        raise refusal(error) from None
    instrument = Instrument(session_of(item.config), settings, on_result=on_result, checks=(*CHECKS, *checks))
    item.stash[INSTRUMENT], item.stash[JUDGED] = instrument, False
    yield instrument
    # The results hold the last outputs, and the audits the frame of the test: neither outlives it.
    del item.stash[INSTRUMENT]
