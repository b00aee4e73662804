"""Samples, and whose tokens stand beside them: those of one, or of all. The division that was claimed decides."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_roofline.audit import Audit
from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings

WEIGHTS = 4e9
PASSES, SAMPLES = 8, 9


def audited(claim: Callable[[float, float], dict[str, Any]]) -> Audit:
    """Nine samples of eight honest passes, claimed with what `claim` makes of their median and their sum."""
    backend = FakeBackend()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    roofline = Instrument(Session(added_backends=[backend]), Settings())
    samples = []
    with roofline.audit(traffic=WEIGHTS) as audit:
        for _ in range(SAMPLES):
            start = time.perf_counter()
            for _ in range(PASSES):
                model.step()
            backend.synchronize()
            samples.append(time.perf_counter() - start)
        audit.claim(samples=samples, **claim(statistics.median(samples), sum(samples)))
    return audit


@pytest.mark.parametrize(
    "claim",
    [
        lambda middle, whole: {"tokens": PASSES, "seconds": middle},
        lambda middle, whole: {"tokens": PASSES, "seconds": middle, "ids": list(range(PASSES))},
        lambda middle, whole: {"tokens": PASSES, "seconds": whole / SAMPLES},
        lambda middle, whole: {"tokens": PASSES * SAMPLES, "seconds": whole},
        lambda middle, whole: {"tokens_per_s": PASSES / middle},
        lambda middle, whole: {"tokens_per_s": PASSES / middle, "ids": list(range(PASSES))},
        lambda middle, whole: {"tokens_per_s": PASSES / middle, "ids": list(range(PASSES * SAMPLES))},
        lambda middle, whole: {"tokens": PASSES * SAMPLES},
    ],
)
def test_one_sample_or_all_of_them_are_the_same_rate(claim: Callable[[float, float], dict[str, Any]]) -> None:
    """Whoever divides the tokens of a sample by a sample, or all by all, claims what was measured."""
    audit = audited(claim)
    assert audit.result.verdict.outcome == "passed"
    assert float(audit.result.fraction) == pytest.approx(0.8, rel=0.02)


def test_all_tokens_over_one_sample_are_too_many() -> None:
    """The tokens of nine samples in the time of one: nine times what the device did."""
    with pytest.raises(BogusMeasurement, match="cannot exceed"):
        audited(lambda middle, whole: {"tokens": PASSES * SAMPLES, "seconds": middle})


def test_ids_of_one_sample_do_not_cover_more_tokens_than_it_had() -> None:
    """A rate of twice the tokens of a sample beside its ids is two rates of one claim."""
    with pytest.raises(BogusMeasurement):
        audited(lambda middle, whole: {"tokens_per_s": 2 * PASSES / middle, "ids": list(range(PASSES))})
