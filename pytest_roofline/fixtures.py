"""The fixtures. Everything heavy is imported when the first of them is used."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_roofline.options import settings_of

if TYPE_CHECKING:
    from pytest_roofline.device import Device
    from pytest_roofline.instrument import Instrument
    from pytest_roofline.probe import Probe
    from pytest_roofline.result import Result


@pytest.fixture(scope="session")
def roofline_device(pytestconfig: pytest.Config) -> Device:
    """The device that measurements run on: what --roofline-device names, else the first accelerator, else the CPU.

    Its name, vendor, memory, caches and matched spec. What could not be read is None, and its `notes` say why.
    """
    from pytest_roofline.errors import RooflineUsageError
    from pytest_roofline.item import find_device, refusal

    try:
        return find_device(pytestconfig, settings_of(pytestconfig))
    except RooflineUsageError as error:
        raise refusal(error) from None


@pytest.fixture(scope="session")
def roofline_probe(pytestconfig: pytest.Config, roofline_device: Device) -> Probe:
    """Bandwidths of the device, measured once per session: read, copy, write and triad in bytes/s, and its cache knee.

    Peaks per dtype and the link are measured when they are asked for. With --roofline=off the test is skipped.
    """
    if settings_of(pytestconfig).mode == "off":
        pytest.skip("not measured (--roofline=off)")
    from pytest_roofline.errors import InconclusiveMeasurement
    from pytest_roofline.item import refusal, session_of

    try:
        return session_of(pytestconfig).probe(roofline_device)
    except InconclusiveMeasurement as error:
        if settings_of(pytestconfig).inconclusive == "fail":
            raise refusal(error) from None
        pytest.skip(f"inconclusive: {error}")


@pytest.fixture
def roofline(request: pytest.FixtureRequest) -> Generator[Instrument, None, None]:
    """Measure inference code against the roofline of its device: decode, generate, prefill, kernel, audit; and ceiling.

    `result = roofline.decode(model.step, model=model, context=2048)`, then `assert result.fraction >= 0.6`. A figure
    that cannot be true raises BogusMeasurement, which names the cause.
    """
    from pytest_roofline.checks import CHECKS
    from pytest_roofline.instrument import Instrument
    from pytest_roofline.item import INSTRUMENT, SETTINGS, added, prepare, refusal, session_of

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
    item.stash[INSTRUMENT] = instrument
    yield instrument
    # The results hold the last outputs, and the audits the frame of the test: neither outlives it.
    del item.stash[INSTRUMENT]
