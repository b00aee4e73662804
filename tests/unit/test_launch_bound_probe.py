"""A probe whose reads are shorter than their launches: it does not know the memory, and accuses nobody."""

from __future__ import annotations

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings


def test_it_says_so_and_accuses_nobody() -> None:
    """No sheet, a millisecond per launch, and no time for larger sets: an honest step beats every read of the probe."""
    backend = FakeBackend(
        read_bytes_per_s=1e12, launch_s=1e-3, sheet_bytes_per_s=None, cache_bytes=8e6, memory_bytes=200e9
    )
    session = Session(added_backends=[backend])
    (device,) = backend.devices()
    probe = session.probe(device)
    assert not probe.is_trusted
    assert "the rate was still rising: launches took longer than the reads" in probe.doubts[0]
    model = FakeModel(backend, 1e9, layers=1, efficiency=0.5)
    result = Instrument(session, Settings(max_time_s=3.0)).decode(model.step, traffic=1e9)
    assert 1e9 / (result.step_s or 1.0) > 1.25 * probe.best_bytes_per_s
    assert result.verdict.outcome == "inconclusive"


@pytest.mark.parametrize("launch_s", [2e-6, 1e-4])
def test_usual_launches_raise_no_doubt(launch_s: float) -> None:
    """Microseconds to a tenth of a millisecond are made up for by larger sets."""
    backend = FakeBackend(read_bytes_per_s=1e12, launch_s=launch_s, sheet_bytes_per_s=None, memory_bytes=200e9)
    assert Session(added_backends=[backend]).probe(backend.devices()[0]).is_trusted
