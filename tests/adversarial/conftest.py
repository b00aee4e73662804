"""Real frameworks on this machine's CPU; short measurements, and verdicts that do not depend on its mood."""

from __future__ import annotations

import pytest

from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings


@pytest.fixture(scope="module")
def session() -> Session:
    """One session, and so one probe, per module."""
    return Session()


@pytest.fixture
def roofline(session: Session) -> Instrument:
    """An instrument that takes no longer than it must."""
    return Instrument(session, Settings(max_time_s=3.0))
